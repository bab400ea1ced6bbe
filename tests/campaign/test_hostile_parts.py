"""A part that somebody else sends: whatever is wrong with it is refused by name, and nothing is written anywhere."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from repro.bench import store
from repro.bench.records import digest_of
from repro.bench.row_tables import schema_of
from repro.bench.store import read_table, write_table
from repro.cli.app import build
from repro.problems.registry import Registry, load_registry
from support.non_files import IN_PLACE_OF_A_FILE, put
from support.split_campaign import RECORDED, change_config, change_record, cut

STUDY, PROBLEM = "dynamic_csr", "like_eu-2005"
SMALL = RECORDED / "h200-x4"
ROWS = f"raw/{STUDY}/report.parquet"
RECORD = f"raw/problems/{PROBLEM}.json"
LONG = "n" * 300

Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two parts of a recorded campaign, and what is none of it; who changes them copies them."""
    folder = tmp_path_factory.mktemp("parts")
    for name, problem in (("first", "like_hollywood-2009"), ("second", PROBLEM)):
        cut(SMALL, folder / "a/results" / name, {STUDY: ({problem}, {"double"})})
        (folder / "a/results" / name / "NOTES.md").write_text(f"# {name}\n")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/secret.json").write_text("{}")
    return folder


@pytest.fixture
def results(parts: Path, tmp_path: Path) -> Path:
    """A copy of the two parts, two folders below what is looked at for files that escape."""
    shutil.copytree(parts, tmp_path, dirs_exist_ok=True)
    return tmp_path / "a/results"


def everything(folder: Path) -> dict[str, str]:
    """Return what there is below a folder, by its path: of a file its digest, of a link where it leads."""
    found = {}
    folders = [folder]
    while folders:
        for path in folders.pop().iterdir():
            mode = path.lstat().st_mode
            content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(mode) else ""
            found[str(path)] = f"{stat.S_IFMT(mode)} {path.readlink() if path.is_symlink() else content}"
            folders += [path] if stat.S_ISDIR(mode) else []
    return found


def merge(results: Path, *words: str) -> Any:
    """Run the command, here."""
    return CliRunner().invoke(build(["merge"]), ["merge", *words, "--to", "whole", "--results", str(results)])


@pytest.fixture(autouse=True)
def _read_once(monkeypatch: pytest.MonkeyPatch, registry: Registry) -> None:
    """Have the registry of problems, which no part brings along, read once for all tests."""
    monkeypatch.setattr("repro.campaign.parts.load_registry", lambda _: registry)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry(Path("config/problems.yaml"))


def change(values: Callable[[dict[str, Any]], object], step: str = "report") -> Damage:
    """Change rows of a step, each in place, and write them as the project does."""

    def damage(part: Path) -> None:
        path = part / f"raw/{STUDY}/{step}.parquet"
        table = read_table(path)
        rows = table.to_pylist()
        for row in rows:
            values(row)
        write_table(pa.Table.from_pylist(rows, table.schema), path)

    return damage


def first(**values: Any) -> Damage:
    """Change the first row that was timed."""

    def damage(part: Path) -> None:
        path = part / ROWS
        table = read_table(path)
        rows = table.to_pylist()
        next(row for row in rows if row["event_median"]).update(values)
        write_table(pa.Table.from_pylist(rows, table.schema), path)

    return damage


def rows(of: Callable[[pa.Table], pa.Table], step: str = "report") -> Damage:
    """Make another table of a step's."""

    def damage(part: Path) -> None:
        path = part / f"raw/{STUDY}/{step}.parquet"
        write_table(of(read_table(path)), path)

    return damage


def file(name: str, content: bytes | Callable[[bytes], bytes]) -> Damage:
    """Write other bytes into a file."""

    def damage(part: Path) -> None:
        path = part / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content(path.read_bytes()))

    return damage


def record(**keys: Any) -> Damage:
    return lambda part: change_record(part, PROBLEM, **keys)


def named(name: str) -> Damage:
    """Let a problem be called otherwise wherever it is named but for the file of its record."""

    def damage(part: Path) -> None:
        change_record(part, PROBLEM, name=name)
        for step in ("search", "baseline", "report", "choices"):
            change(lambda row: row.update(problem=name), step)(part)
        change_config(part, lambda config: config["studies"][STUDY].update(problems=[{"path": "a.mtx", "name": name}]))

    return damage


def config(**keys: Any) -> Damage:
    return lambda part: change_config(part, lambda config: config.update(keys))


def in_place_of(name: str, kind: str) -> Damage:
    """Put something else in the place of a file or folder."""

    def damage(part: Path) -> None:
        if (part / name).is_dir():
            shutil.rmtree(part / name)
        put(kind, part / name)

    return damage


def link(name: str, to: str, *, folder: bool = False) -> Damage:
    """Put a link to what lies elsewhere in the place of a file or folder."""

    def damage(part: Path) -> None:
        path = part / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, part.parents[2] / to)
            shutil.rmtree(path)
        elif path.exists():
            path.rename(part.parents[2] / to)
        path.symlink_to(part.parents[2] / to, target_is_directory=folder)

    return damage


def environment(**keys: Any) -> Damage:
    """Write another environment record in the place of the one that rows are linked to, under its own hash."""

    def damage(part: Path) -> None:
        path = next(part.glob("raw/environment/*.json"))
        content = json.dumps({**json.loads(path.read_text()), **keys}, indent=1, sort_keys=True) + "\n"
        path.unlink()
        name = digest_of(content.encode())
        path.with_name(f"{name}.json").write_text(content)
        for step in ("search", "baseline", "report"):
            change(lambda row: row.update(environment=name), step)(part)

    return damage


def change_driver(part: Path) -> None:
    path = next(part.glob("raw/environment/*.json"))
    path.write_text(path.read_text().replace("580", "581"))


def unpacks_to_much(part: Path) -> None:
    row = read_table(part / ROWS).slice(0, 1)
    pq.write_table(row.take(pa.array([0] * 100_000)), part / ROWS, compression="zstd")


def repeats_a_long_text(part: Path) -> None:
    table = read_table(part / ROWS)
    place = table.column_names.index("message")
    longer = table.set_column(place, "message", pa.array(["m" * 1_000_000] * table.num_rows))
    write_table(longer, part / ROWS)


def two_columns_of_one_name(part: Path) -> None:
    table = read_table(part / ROWS)
    pq.write_table(table.append_column("name", table["name"]), part / ROWS)


def nested(part: Path) -> None:
    """Make folders within folders, deeper than a path can be named."""
    Path(part, "raw", "/".join("d" * 400)).mkdir(parents=True)


UNMEASURED = "the rows contain impossible values"
NAMELESS = "the record describes a different problem from its file name"


def with_sample_before_launch(table: pa.Table) -> pa.Table:
    samples = pa.array([[[1e-6, -1e-6]]] * table.num_rows, schema_of({}).field("event_samples").type)
    return table.set_column(table.column_names.index("event_samples"), "event_samples", samples)


OTHERS = "a part contains something other than files and folders"
NO_RECORD, NO_ROWS = "record of a problem cannot be read", "unreadable rows"

#: By its kind a damage to a part, what a message calls it, the file that it names, and what else it says.
DAMAGES: dict[str, tuple[Damage, str, str, str]] = {
    # names that become paths
    "a problem that leads out": (named("../../../ESCAPED"), NAMELESS, RECORD, "ESCAPED"),
    "a problem of an absolute path": (named("/tmp/ESCAPED"), NAMELESS, RECORD, "ESCAPED"),
    "a problem that leads up and down": (named(f"x/../{PROBLEM}"), NAMELESS, RECORD, r"x/\.\."),
    "a problem without a name": (record(name=""), NO_RECORD, RECORD, "name: string should have at least 1"),
    "a problem called .": (record(name="."), NAMELESS, RECORD, r"'\.'"),
    "a problem with a null byte": (record(name=f"{PROBLEM}\0"), NAMELESS, RECORD, "x00"),
    "a problem with a line break": (record(name=f"{PROBLEM}\n"), NAMELESS, RECORD, r"\\n"),
    "a problem with a backslash": (record(name=f"..\\{PROBLEM}"), NAMELESS, RECORD, r"\\"),
    "a problem with a separator of Unicode": (record(name=f"{PROBLEM}\u2028x"), NAMELESS, RECORD, "u2028"),
    "a problem of a long name": (record(name=LONG), NAMELESS, RECORD, "nnn"),
    "a problem in other letters": (record(name=PROBLEM.upper()), NAMELESS, RECORD, "LIKE_EU-2005"),
    "a problem's file that is none's": (
        lambda part: (part / RECORD).rename(part / "raw/problems/a b.json"), NAMELESS, "raw/problems/a b.json",
        "letters",
    ),
    "rows of a problem that leads out": (
        change(lambda row: row.update(problem="../../../ESCAPED")), UNMEASURED, ROWS, r"\.\./\.\./\.\./ESCAPED"
    ),
    "choices of a problem that leads out": (
        change(lambda row: row.update(problem="/ESCAPED"), "choices"), UNMEASURED, "choices.parquet", "/ESCAPED"
    ),
    "a precision that leads out": (
        change(lambda row: row.update(precision="../..")), UNMEASURED, ROWS, "single, double"
    ),
    "an unknown precision": (change(lambda row: row.update(precision="half")), UNMEASURED, ROWS, "'half'"),
    "an environment that leads out": (first(environment="../../../x"), UNMEASURED, ROWS, r"'\.\./\.\./\.\./x'"),
    "a step that is a pattern": (
        lambda part: shutil.copy(part / ROWS, part / f"raw/{STUDY}/*.parquet"),
        "a file of rows is not named after a step", f"raw/{STUDY}", r"'\*'",
    ),
    "a campaign that leads out": (
        config(campaign="../ESCAPED"), "invalid configuration", "config.yaml", "campaign"
    ),
    "an own problem that leads out": (
        lambda part: change_config(
            part, lambda config: config["studies"][STUDY].update(problems=[{"path": "a.mtx", "name": "../../x"}])
        ), "invalid name of a problem", "", r"'\.\./\.\./x'",
    ),
    "a part of a part that is none": (
        file("parts/..a/config.yaml", b"{}"), "not a part of a merged campaign", r"parts/..a", "a number"
    ),
    # rows that nobody measured
    "a time of -1 s": (first(event_median=-1.0), UNMEASURED, ROWS, "event_median.*above 0[^$]*-1.0 in row"),
    "an infinite time": (first(event_max=float("inf")), UNMEASURED, ROWS, "event_max.*finite[^$]*inf in row"),
    "a time that is no number": (first(event_q1=float("nan")), UNMEASURED, ROWS, "event_q1.*finite[^$]*nan in row"),
    "a time of no time": (first(event_min=0.0), UNMEASURED, ROWS, "event_min.*above 0"),
    "quantiles out of order": (first(event_q1=1.0), UNMEASURED, ROWS, "event_q1 that is not above event_median"),
    "a mean above all": (first(event_mean=1e3), UNMEASURED, ROWS, "event_mean that is not above event_max"),
    "a median alone": (first(event_q3=None), UNMEASURED, ROWS, "event_q3 where there is a median"),
    "a negative count": (first(event_launches=-5), UNMEASURED, ROWS, "event_launches.*not negative"),
    "a negative size": (first(least_bytes=-1), UNMEASURED, ROWS, "least_bytes.*not negative"),
    "a sample before its launch": (rows(with_sample_before_launch), UNMEASURED, ROWS, "event_samples"),
    "an unknown status": (first(status="splendid"), UNMEASURED, ROWS, "status: one of ok, .*[^$]*'splendid'"),
    "an unknown phase": (first(phase="later"), UNMEASURED, ROWS, "phase: one of search, report"),
    "an unknown state of the cache": (first(cache="tepid"), UNMEASURED, ROWS, "cache: one of warm, cold"),
    "an unknown backend": (first(backend="abacus"), UNMEASURED, ROWS, "backend: one of cuda, opencl"),
    "a name that steers the terminal": (first(name="\x1b[2J"), UNMEASURED, ROWS, "can be printed"),
    "rows of another study": (change(lambda row: row.update(study="x")), UNMEASURED, ROWS, f"study: {STUDY}"),
    "rows doubled": (rows(lambda table: pa.concat_tables([table] * 2)), UNMEASURED, ROWS, "2 rows of like_eu-2005"),
    "choices doubled": (
        rows(lambda table: pa.concat_tables([table] * 2), "choices"), UNMEASURED, "choices.parquet", "one row of each"
    ),
    "a choice of what no row is": (
        change(lambda row: row.update(name="mine/1"), "choices"), "a choice names something that was not measured",
        "choices.parquet", "mine/1",
    ),
    "rows belong to a problem that has no record": (
        lambda part: (part / RECORD).unlink(), "rows belong to a problem that has no record", ".parquet", PROBLEM
    ),
    "rows without an environment": (
        first(environment=None), "rows have no environment record", ROWS, "none in 1 of them"
    ),
    "rows of an environment that is elsewhere": (
        first(environment="0" * 16), "rows have no environment record", "raw/environment", "0{16}.json"
    ),
    # columns
    "a different schema": (change(lambda row: row.update(schema=99)), "the rows have a different schema", ROWS, "99"),
    "a column that is missing": (
        rows(lambda table: table.drop_columns(["cache"])), "the rows have a different schema", ROWS, "columns cache"
    ),
    "a column of the study's that is missing": (
        rows(lambda table: table.drop_columns([table.column_names[-1]])),
        "the rows have a different schema",
        ROWS,
        "columns",
    ),
    "a column that is nobody's": (
        rows(lambda table: table.append_column("mine", pa.array([1] * table.num_rows))),
        "the rows have a different schema",
        ROWS,
        "others as well: mine",
    ),
    "times that are texts": (
        rows(lambda table: table.set_column(
            table.column_names.index("event_median"), "event_median", pa.array(["fast"] * table.num_rows)
        )), "the rows have a different schema", ROWS, "event_median of type double",
    ),
    "two columns of one name": (two_columns_of_one_name, NO_ROWS, ROWS, "two columns of one name"),
    "a key that is missing": (first(key=None), "the rows have a different schema", ROWS, "a value of key in each row"),
    # files of rows
    "rows that are empty": (file(ROWS, b""), NO_ROWS, ROWS, ""),
    "rows that are cut off": (file(ROWS, lambda content: content[:-100]), NO_ROWS, ROWS, ""),
    "rows with a flipped bit": (
        file(ROWS, lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:]), NO_ROWS, ROWS, "",
    ),
    "rows with more behind them": (file(ROWS, lambda content: content + b"more"), NO_ROWS, ROWS, ""),
    "rows that unpack to much": (unpacks_to_much, NO_ROWS, ROWS, "unpack to"),
    "rows that repeat a long text": (repeats_a_long_text, NO_ROWS, ROWS, "unpack to"),
    **{
        f"a {kind} in place of {what}": (in_place_of(name, kind), rf"{OTHERS}|in place of a f|{NO_ROWS}", name, "")
        for kind in IN_PLACE_OF_A_FILE
        for what, name in {
            "rows": ROWS, "a record": RECORD, "the configuration": "config.yaml", "notes": "NOTES.md"
        }.items()
        if (kind, what) != ("folder", "a record")
    },
    "a folder in place of a record": (in_place_of(RECORD, "folder"), NO_RECORD, RECORD, "a folder in place of a file"),
    **{
        f"a file in place of {name}": (
            lambda part, name=name: (shutil.rmtree(part / name), (part / name).write_text("")),
            "in place of a folder|a file is in the place of a folder", name, "",
        )
        for name in ("raw/problems", "raw/environment", f"raw/{STUDY}")
    },
    "a file in place of the parts": (file("parts", b""), "a file in place of a folder", "parts", ""),
    "rows that lie elsewhere": (link(ROWS, "elsewhere/r.parquet"), OTHERS, ROWS, "a symbolic link"),
    "a record that lies elsewhere": (link(RECORD, "elsewhere/p.json"), OTHERS, RECORD, "a symbolic link"),
    "a study that lies elsewhere": (link(f"raw/{STUDY}", "elsewhere/s", folder=True), OTHERS, f"raw/{STUDY}", "link"),
    "all rows elsewhere": (link("raw", "elsewhere/raw", folder=True), OTHERS, "raw", "a symbolic link"),
    "a folder of elsewhere": (link("raw/problems/x", "elsewhere", folder=True), OTHERS, "raw/problems/x", "link"),
    "notes of elsewhere": (link("NOTES.md", "elsewhere/n"), OTHERS, "NOTES.md", "a symbolic link"),
    "parts of elsewhere": (link("parts/1-x", "elsewhere", folder=True), OTHERS, "parts/1-x", "a symbolic link"),
    "folders without end": (nested, "a file cannot be read or written", "raw", "within each other"),
    # records
    "a record of brackets": (file(RECORD, b"[" * 100_000), NO_RECORD, RECORD, "nested more than 100 deep"),
    "a record of no text": (file(RECORD, b"\xff\xfe{}"), NO_RECORD, RECORD, "decode"),
    "a record of zeros": (file(RECORD, bytes(100)), NO_RECORD, RECORD, ""),
    "a record that says a thing twice": (
        file(RECORD, f'{{"name": "{PROBLEM}", "n": 1, "n": 2}}'.encode()), NO_RECORD, RECORD, "'n' is there twice"
    ),
    "a record of a number without end": (
        file(RECORD, f'{{"name": "{PROBLEM}", "n": 1{"0" * 5000}}}'.encode()), NO_RECORD, RECORD, "64 bits"
    ),
    "a record of no number": (record(n=float("nan")), NO_RECORD, RECORD, "NaN is no number"),
    "a record of other types": (record(n="many"), NO_RECORD, RECORD, "n: input should be a valid integer"),
    "facts of other types": (
        record(facts={STUDY: {"memory": {"paper": {"CSR": "big"}}}}), NO_RECORD, RECORD,
        rf"facts.{STUDY}.memory.paper.CSR: input should be a valid integer",
    ),
    "an environment of other types": (
        environment(source=["x"]), "the record of an environment cannot be read", "raw/environment",
        "source: input should be a valid string",
    ),
    "an environment of brackets": (
        environment(x=json.loads("[" * 150 + "]" * 150)), "an environment cannot be read", "raw/environment",
        "nested more than 100 deep",
    ),
    "an environment that was changed": (
        change_driver, "an environment record was changed", "raw/environment", ""
    ),
    # configurations
    "no configuration": (lambda part: (part / "config.yaml").unlink(), "has no configuration", "config.yaml", ""),
    "a configuration that runs something": (
        file("config.yaml", b"!!python/object/apply:os.system ['touch ESCAPED']"), "unreadable YAML", "config.yaml", ""
    ),
    "a configuration of aliases": (
        file("config.yaml", b"a: &a [x, x]\n" + b"".join(
            f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n".encode() for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        )), "unreadable YAML", "config.yaml", "aliases",
    ),
    "a configuration of brackets": (file("config.yaml", b"[" * 100_000), "unreadable YAML", "config.yaml", "deep"),
    "a configuration of no text": (file("config.yaml", b"\xff\xfe\x00"), "unreadable YAML", "config.yaml", "UTF-8"),
    "a configuration without the study": (
        lambda part: (part / "config.yaml").write_text(yaml.safe_dump({"campaign": "x"})),
        "names no study", "config.yaml", "",
    ),
}  # fmt: skip


def test_there_are_forty_kinds_of_damage() -> None:
    assert len(DAMAGES) >= 40


@pytest.mark.sampled(40)
@pytest.mark.parametrize(("damage", "what", "where", "more"), DAMAGES.values(), ids=DAMAGES)
def test_a_hostile_part_is_refused_by_name_and_nothing_is_written(
    results: Path, at_once: None, monkeypatch: pytest.MonkeyPatch, damage: Damage, what: str, where: str, more: str
) -> None:
    monkeypatch.setattr(store, "ALWAYS", 16 << 20)  # what unpacks to a little more is made sooner
    damage(results / "second")
    outside = results.parents[1]
    before = everything(outside)
    said = merge(results, "second", "first", "--keep-apart")  # the damaged one first: the other need not be read
    assert isinstance(said.exception, SystemExit)
    assert said.exit_code == 1
    assert said.output.count("error:") == 1
    assert re.search(what, said.output), said.output
    assert re.search(more, said.output), said.output
    assert not where or re.search(rf"where: .*second/?.*{re.escape(where)}", said.output), said.output
    assert len(said.output) < 2500
    assert said.output.replace("\n", "").isprintable()
    assert everything(outside) == before


def test_a_part_that_nothing_is_wrong_with_is_merged(results: Path) -> None:
    os.link(results / "second/NOTES.md", results / "hard")  # a file by two names is a file
    said = merge(results, "first", "second")
    assert said.exit_code == 0, said.output
    assert (results / "whole/parts/2-second/NOTES.md").read_text() == "# second\n"


@pytest.mark.parametrize("kind", ["folder", "file", "link", "dangling"])
def test_what_is_in_the_place_of_the_merged_campaign_stays(results: Path, kind: str) -> None:
    place = results / "whole"
    if kind == "folder":
        place.mkdir()
    elif kind == "file":
        place.write_text("mine")
    else:
        place.symlink_to("first" if kind == "link" else "nowhere")
    before = everything(results)
    said = merge(results, "first", "second")
    assert said.exit_code == 1
    assert "a campaign of this name already exists" in said.output
    assert everything(results) == before


def test_a_part_within_the_merged_campaign_is_refused(results: Path) -> None:
    (results / "whole").mkdir()
    (results / "second").rename(results / "whole/second")
    before = everything(results)
    said = merge(results, "first", str(results / "whole/second"))
    assert said.exit_code == 1
    assert "a campaign of this name already exists" in said.output
    assert everything(results) == before
