"""Recorded campaigns that are cut in two and merged again, and parts that must not be merged."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.records import as_packed, read_problems
from repro.bench.rows import QUANTILES
from repro.bench.store import read_table, write_table
from repro.campaign import parts as merging
from repro.campaign.completeness import find_missing
from repro.campaign.configuration import load
from repro.campaign.parts import merge
from repro.campaign.plan import make_plan
from repro.cli.app import build
from repro.errors import ReproError
from support.split_campaign import (
    RECORDED,
    Wanted,
    cases_by_study,
    change_config,
    change_environment,
    change_record,
    change_rows,
    cut,
)

pytestmark = pytest.mark.medium

STUDY, DOUBLE = "dynamic_csr", {"double"}
FIRST, SECOND = {"like_kron_g500-logn18", "like_hollywood-2009"}, {"like_eu-2005"}
SMALL = RECORDED / "h200-x4"
#: The study with nine tenths of all rows, of which a few problems have to do.
LARGE = "compound_spmv"


def content(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def raw(campaign: Path) -> dict[str, bytes]:
    """Return the measured files of a campaign, with the records of its problems in one, as in a record."""
    files = {name: text for name, text in content(campaign / "raw").items() if not name.startswith("problems")}
    return files | {"problems.json": as_packed(read_problems(CampaignFolder(campaign))).encode()}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two parts of a small campaign of one code and environment, by problems; who changes them copies them."""
    folder = tmp_path_factory.mktemp("parts")
    cut(SMALL, folder / "first", {STUDY: (FIRST, DOUBLE)})
    cut(SMALL, folder / "second", {STUDY: (SECOND, DOUBLE)})
    return folder


@pytest.fixture
def results(parts: Path, tmp_path: Path) -> Path:
    """A copy of the two parts."""
    shutil.copytree(parts, tmp_path, dirs_exist_ok=True)
    return tmp_path


def tables(results: Path, campaign: str) -> dict[str, bytes]:
    """Make all tables of a campaign that its configuration asks for."""
    made = CliRunner().invoke(build(["table"]), ["table", "--all", "--campaign", campaign, "--results", str(results)])
    assert made.exit_code == 0, made.output
    return content(results / campaign / "tables")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("packed", [True, False], ids=["recorded", "as-measured"])
def test_two_halves_equal_the_whole_in_rows_records_and_tables(tmp_path: Path, packed: bool) -> None:
    results = tmp_path / "merged"
    whole = cut(SMALL, tmp_path / "measured/whole", {STUDY: (FIRST | SECOND, DOUBLE)})
    cut(SMALL, results / "first", {STUDY: (FIRST, DOUBLE)}, packed=packed)
    cut(SMALL, results / "second", {STUDY: (SECOND, DOUBLE)}, packed=packed)
    before = content(results)
    merge(["first", "second"], results, "whole")
    assert raw(results / "whole") == raw(whole)
    made = tables(results, "whole")
    assert made == tables(whole.parent, "whole")
    assert {Path(name).stem for name in made} == {"table-claims", "table-devices", "table-exchange"}
    assert content(results).items() >= before.items()  # the parts stay as they are


@pytest.fixture(scope="module")
def five_studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded campaign, of its largest study two problems."""
    wanted: Wanted = {}
    for study, cases in cases_by_study(RECORDED / "h200").items():
        problems = sorted({case[0] for case in cases})
        wanted[study] = (set(problems[:2] if study == LARGE else problems), {case[1] for case in cases})
    return cut(RECORDED / "h200", tmp_path_factory.mktemp("recorded") / "five", wanted)


def halves(recorded: Path, by: str) -> tuple[Wanted, Wanted]:
    """Cut a campaign by studies; or by precisions, and where there is one by problems."""
    first: Wanted = {}
    second: Wanted = {}
    for place, (study, cases) in enumerate(cases_by_study(recorded).items()):
        problems, precisions = sorted({case[0] for case in cases}), {case[1] for case in cases}
        if by == "studies":
            (second if place % 2 else first)[study] = (set(problems), precisions)
        elif len(precisions) > 1:
            first[study], second[study] = (set(problems), {"single"}), (set(problems), {"double"})
        else:
            first[study], second[study] = (set(problems[::2]), precisions), (set(problems[1::2]), precisions)
    return first, second


@pytest.mark.exhaustive
@pytest.mark.parametrize("by", ["cases", "studies"])
def test_halves_of_five_studies_equal_the_whole(five_studies: Path, tmp_path: Path, by: str) -> None:
    for name, wanted in zip(("first", "second"), halves(five_studies, by), strict=True):
        cut(five_studies, tmp_path / name, wanted)
    merge(["first", "second"], tmp_path, "merged", keep_apart=True)  # each study was measured by several commits
    merged, whole = raw(tmp_path / "merged"), raw(five_studies)
    assert merged.keys() == whole.keys()
    assert [name for name, there in merged.items() if whole[name] != there] == []
    recorded = raw(RECORDED / "h200")
    complete = [name for name in merged if not name.startswith((f"{LARGE}/", "problems"))]
    assert [name for name in complete if merged[name] != recorded[name]] == []


def test_a_merged_campaign_is_complete_or_says_what_it_lacks(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (results / "results").mkdir()
    for part in ("first", "second"):
        (results / part).rename(results / "results" / part)
    monkeypatch.chdir(results)
    merge(["first", "second"], Path("results"), "whole")
    config = load(Path("results/whole/config.yaml"))
    assert (config.campaign, config.replay) == ("whole", True)
    assert find_missing(make_plan(config)) == []
    change_config(Path("results/second"), lambda c: c["studies"][STUDY]["problems"].append("like_flickr"))
    merge(["first", "second"], Path("results"), "less")
    missing = find_missing(make_plan(load(Path("results/less/config.yaml"))))
    assert {part.what for part in missing} == {"problem like_flickr", f"{STUDY} on like_flickr, double"}


def retime(part: Path) -> None:
    change_config(part, lambda config: config["studies"][STUDY]["timing"].update(launches=200))


def with_the_others_case(part: Path) -> None:
    """Let the second part have a case of the first, with other times."""
    shutil.rmtree(part)
    cut(SMALL, part, {STUDY: (SECOND | {"like_hollywood-2009"}, DOUBLE)})
    path = part / "raw" / STUDY / "report.parquet"
    table = read_table(path)
    rows = table.to_pylist()
    for row in rows:
        if row["problem"] == "like_hollywood-2009" and row["event_median"]:
            row |= {f"event_{quantile}": 2 * row[f"event_{quantile}"] for quantile in QUANTILES}
    write_table(type(table).from_pylist(rows, table.schema), path)


def with_another_problem(part: Path) -> None:
    shutil.rmtree(part)
    cut(SMALL, part, {STUDY: (SECOND | {"like_hollywood-2009"}, DOUBLE)})
    change_record(part, "like_hollywood-2009", checksum="0" * 64)


def on_another_device(part: Path) -> None:
    change_environment(part, device="NVIDIA H100")
    change_rows(part, "device", lambda _: "NVIDIA H100")


def damage_environment(part: Path) -> None:
    path = next(part.glob("raw/environment/*.json"))
    path.write_text(path.read_text().replace("580", "581"))


#: What may be kept apart.
APART: dict[str, tuple[Callable[[Path], object], str]] = {
    "code": (lambda part: change_environment(part, source="0" * 16), r"the parts have other code[\s\S]*source 0{16}"),
    "timing": (retime, r"parts with another protocol[\s\S]*timing.launches 1000[\s\S]*timing.launches 200"),
    "seed": (lambda part: change_config(part, lambda config: config.update(seed=7)), r"another protocol[\s\S]*seed 7"),
    "driver": (
        lambda part: change_environment(part, driver="590.1"),
        r"the parts have another environment[\s\S]*driver 580\S+\n[\s\S]*driver 590.1",
    ),
    "package": (
        lambda part: change_environment(part, packages={"numpy": "1.0"}),
        r"another environment[\s\S]*packages.numpy 2[\s\S]*packages.numpy 1.0",
    ),
}
#: What is never merged.
NEVER: dict[str, tuple[Callable[[Path], object], str]] = {
    "device": (on_another_device, r"measured on several devices[\s\S]*NVIDIA H100 \(cuda\) in 2-second"),
    "the same case": (
        with_the_others_case,
        r"the parts have different rows for one case[\s\S]*report of dynamic_csr on like_hollywood-2009, double[\s\S]*"
        r"the first of 2026-[\s\S]*config.yaml",
    ),
    "problem": (
        with_another_problem,
        r"the parts use one name for different problems[\s\S]*like_hollywood-2009[\s\S]*0{64}",
    ),
    "configuration": (lambda part: (part / "config.yaml").unlink(), "a part has no configuration"),
    "a changed environment record": (damage_environment, "an environment record was changed"),
    "no environment record": (
        lambda part: next(part.glob("raw/environment/*.json")).unlink(),
        "rows have no environment record",
    ),
    "no such campaign": (shutil.rmtree, "no such campaign"),
    "damaged rows": (lambda part: (part / f"raw/{STUDY}/search.parquet").write_bytes(b"PAR1"), "unreadable rows"),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("change", "message"), [*APART.values(), *NEVER.values()], ids=[*APART, *NEVER])
def test_what_must_not_be_merged_is_refused_and_nothing_changes(
    results: Path, change: Callable[[Path], object], message: str
) -> None:
    change(results / "second")
    before = content(results)
    with pytest.raises(ReproError, match=message):
        merge(["first", "second"], results, "merged")
    assert content(results) == before
    assert {path.name for path in results.iterdir()} <= {"first", "second"}


@pytest.mark.parametrize(("change", "message"), NEVER.values(), ids=NEVER)
def test_keeping_apart_allows_no_more_than_that(results: Path, change: Callable[[Path], object], message: str) -> None:
    change(results / "second")
    with pytest.raises(ReproError, match=message):
        merge(["first", "second"], results, "merged", keep_apart=True)
    assert not (results / "merged").exists()


@pytest.mark.parametrize("change", [change for change, _ in APART.values()], ids=APART)
def test_what_is_kept_apart_stays_linked_to_its_own_environment(
    results: Path, change: Callable[[Path], object]
) -> None:
    change(results / "second")
    merged = merge(["first", "second"], results, "merged", keep_apart=True)
    assert len(merged.differences) == 1
    rows = read_table(merged.folder / "raw" / STUDY / "report.parquet")
    linked: dict[str, set[str]] = {}
    for problem, environment in zip(rows["problem"].to_pylist(), rows["environment"].to_pylist(), strict=True):
        linked.setdefault(problem, set()).add(environment)
    for part, problems in (("first", FIRST), ("second", SECOND)):
        records = content(results / part / "raw/environment")
        assert {f"{name}.json" for problem in problems for name in linked[problem]} == set(records)
        assert content(merged.folder / "raw/environment").items() >= records.items()
        own = merged.folder / "parts" / f"{'12'[part == 'second']}-{part}"
        assert (own / "config.yaml").read_bytes() == (results / part / "config.yaml").read_bytes()
    difference = merged.differences[0]
    notes = (merged.folder / "NOTES.md").read_text()
    assert f"{difference.kind}. In 1-first {difference.expected}; in 2-second {difference.actual}." in notes


@pytest.mark.wording
def test_a_part_of_several_codes_is_not_merged_unasked_either(results: Path) -> None:
    whole = cut(SMALL, results / "mixed", {STUDY: (FIRST | SECOND, DOUBLE)})
    change_environment(results / "second", source="0" * 16)
    shutil.copytree(results / "second/raw/environment", whole / "raw/environment", dirs_exist_ok=True)
    other = next((results / "second/raw/environment").glob("*")).stem
    path = whole / "raw" / STUDY / "report.parquet"
    rows = read_table(path).to_pylist()
    changed = [row | {"environment": other} if row["problem"] in SECOND else row for row in rows]
    table = read_table(path)
    write_table(type(table).from_pylist(changed, table.schema), path)
    with pytest.raises(ReproError, match=r"other code[\s\S]*as in 1-mixed[\s\S]*in 1-mixed"):
        merge(["mixed", "first"], results, "merged")


def test_the_same_rows_in_two_parts_are_taken_once(results: Path) -> None:
    cut(SMALL, results / "more", {STUDY: (FIRST | SECOND, DOUBLE)})
    merged = merge(["first", "second", "more", "first"], results, "merged")
    assert merged.cases == {STUDY: 3}
    assert raw(merged.folder) == raw(results / "more")


def test_what_one_part_could_not_have_is_taken_of_the_one_that_could(results: Path) -> None:
    problem = "like_hollywood-2009"
    part = cut(SMALL, results / "lacking", {STUDY: (SECOND | {problem}, DOUBLE)})
    for path in part.glob("raw/*/*.parquet"):
        table = read_table(path)
        keep = [row for row in table.to_pylist() if row["problem"] != problem]
        one = next(row for row in table.to_pylist() if row["problem"] == problem)
        refused = {"status": "unavailable", "environment": None, "device": None, "backend": None, "message": "gone"}
        rows = [*keep, *([one | refused] if "status" in one else [])]
        write_table(type(table).from_pylist(rows, table.schema), path)
    change_record(part, problem, status="unavailable", reason="gone", checksum=None)
    cut(SMALL, results / "whole", {STUDY: (FIRST | SECOND, DOUBLE)})
    for given in (["lacking", "first"], ["first", "lacking"]):
        merged = merge(given, results, "-".join(given))
        assert raw(merged.folder) == raw(results / "whole")


def test_a_case_that_its_configuration_does_not_name_is_left_out(results: Path) -> None:
    with_the_others_case(results / "second")
    change_config(results / "second", lambda config: config["studies"][STUDY].update(problems=sorted(SECOND)))
    merged = merge(["first", "second"], results, "merged")
    assert [part.left_out for part in merged.parts] == [0, 1]
    assert "2-second: 1 cases that its configuration does not name" in (merged.folder / "NOTES.md").read_text()
    cut(SMALL, results / "whole", {STUDY: (FIRST | SECOND, DOUBLE)})
    assert raw(merged.folder) == raw(results / "whole")


def test_a_merged_campaign_is_merged_on(results: Path) -> None:
    cut(SMALL, results / "third", {STUDY: ({"like_hollywood-2009"}, DOUBLE)})
    cut(SMALL, results / "fourth", {STUDY: ({"like_kron_g500-logn18"}, DOUBLE)})
    merge(["third", "fourth"], results, "half")
    merged = merge(["half", "second"], results, "merged")
    cut(SMALL, results / "whole", {STUDY: (FIRST | SECOND, DOUBLE)})
    assert raw(merged.folder) == raw(results / "whole")
    kept = {str(path.relative_to(merged.folder / "parts")) for path in (merged.folder / "parts").rglob("*.yaml")}
    assert kept == {
        "1-half/config.yaml", "1-half/parts/1-third/config.yaml", "1-half/parts/2-fourth/config.yaml",
        "2-second/config.yaml",
    }  # fmt: skip


def test_what_is_interrupted_leaves_nothing(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(results)
    written: list[Path] = []

    def full(*_: object) -> Path:
        if written:
            raise KeyboardInterrupt
        written.append(results)
        return results

    monkeypatch.setattr(merging.store, "write_table", full)
    with pytest.raises(KeyboardInterrupt):
        merge(["first", "second"], results, "merged")
    assert written
    assert content(results) == before
    assert sorted(path.name for path in results.iterdir()) == ["first", "second"]


def test_nothing_is_replaced(results: Path) -> None:
    before = content(results)
    with pytest.raises(ReproError, match=r"a campaign of this name already exists[\s\S]*second"):
        merge(["first", "second"], results, "second")
    assert content(results) == before


def test_a_name_that_is_none_is_refused(results: Path) -> None:
    with pytest.raises(ReproError, match="campaign"):
        merge(["first", "second"], results, "../merged")
    assert sorted(path.name for path in results.iterdir()) == ["first", "second"]


def test_the_command_says_what_it_merged_and_what_comes_next(results: Path) -> None:
    change_environment(results / "second", driver="590.1")
    words = ["merge", str(results / "first"), "second", "--to", "whole", "--results", str(results)]
    refused = CliRunner().invoke(build(["merge"]), words)
    assert refused.exit_code == 1
    assert re.search(r"error: the parts have another environment\n  where: study dynamic_csr\n", refused.output)
    said = CliRunner().invoke(build(["merge"]), [*words, "--keep-apart"])
    assert said.exit_code == 0
    assert said.output.splitlines() == [
        "1-first: cases of dynamic_csr 2",
        "2-second: cases of dynamic_csr 1",
        f"{results}/whole: cases of dynamic_csr 3",
        f"kept apart: 1 difference, in {results}/whole/NOTES.md",
        f"tables, figures and report: snakemake --cores 4 all --configfile {results}/whole/config.yaml",
    ]


def test_one_part_is_no_merger(results: Path) -> None:
    said = CliRunner().invoke(build(["merge"]), ["merge", "first", "--to", "whole", "--results", str(results)])
    assert said.exit_code == 1
    assert "nothing to merge" in said.output
