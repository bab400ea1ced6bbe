"""Random edits to a finished campaign: after each, the next run has to end as a fresh one does, at the first try.

    PYTHONPATH=tests python tests/workflow/random_edits.py --edits 200 --seed 1
    RANDOM_EDITS=60 pytest tests/workflow/test_random_edits.py

Times are replaced by numbers that hash all that a time depends on, so that what is made of anything stale differs from
what is fresh, and two fresh runs are equal byte by byte. An edit is a key of the configuration, an input, a file of our
own code, a template, an environment variable; or up to three files or folders of one campaign that are deleted, cut
off, altered, swapped, replaced by their like or dated in the future or the past; or a run that is killed, or told what
to make again. Whatever changes what tables should be is taken back afterwards, which is an edit as well. Prints a line
an edit and a summary; exits with 1 where a run ended otherwise than a fresh one, left other tables or figures, no whole
report, made other jobs than a dry run said, or left something to do.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.checkouts import QUICK, Checkout, Said
from support.hashed_times import hash_times

MESH = {"path": "mesh/cube.node", "entry": "block3"}
#: Only generated ones are made in batches.
PROBLEMS = (MESH, "tiny/dirac")
NODES = ("0 0 0", "1 0 0", "0 1 0", "0 0 1", "1 1 1", "2 0 1")
CELLS = ("1 2 3 4", "2 3 4 5", "2 5 4 6")
#: Of our own code: what builds, what compiles, what packs and times, what chooses, what makes tables.
SOURCES = (
    "bench/timing.py", "bench/trial.py", "bench/rows.py", "sparse/operands.py",
    "tuning/search.py", "tuning/final_timing.py", "devices/opencl.py", "codegen/build_cache.py",
    "codegen/templates.py", "problems/assembly.py", "problems/problem.py",
    "sparse/compound/packing.py", "sparse/compound/kernels.py", "studies/compound_spmv/study.py",
    "studies/compound_spmv/facts.py", "results/output.py", "results/campaign_data.py",
    "studies/compound_spmv/tables/reproduction.py", "campaign/measurement.py", "config/models.py",
)  # fmt: skip
#: What a campaign leaves, by kind, so that each is edited as often, however many files it has.
OUTPUTS = {
    "tables": "results/edited/tables/**/*.*",
    "figures": "figures/edited/**/*.*",
    "report": "results/edited/report.html",
    "complete": "results/edited/complete",
    "rows": "results/edited/raw/**/*.parquet",
    "records": "results/edited/raw/**/*.json",
    "problems": "results/edited/problems/**/*.npz",
    "batches": "results/edited/batches/**/*",
    "receipts": "results/edited/receipts/**/*.json",
    "modules": "modules/**/*.json",
    "binaries": "modules/**/objects/*",
    "configurations": "results/edited/**/*.yaml",
    "Snakemake's own": ".snakemake/metadata/*",
}
#: Whole folders.
FOLDERS = ("results/edited/tables", "figures/edited", "figures", "results/edited/raw", "results/edited/problems",
           "results/edited/receipts", "results/edited/batches", "modules", ".snakemake", "logs", "results/edited",
           "results/edited/store", "results")  # fmt: skip
#: What is dated otherwise, and is still the same.
INPUTS = ("mesh/*", "edited.yaml", "src/repro/**/*.py", "kernels/sparse/compound/**/*.j2", "config/**/*.yaml")
HOUR, YEAR = 3600, 365 * 24 * 3600
#: Times of a file, by what they are called: from now on, and of the epoch.
AHEAD = {"an hour ahead": HOUR, "ten years ahead": 10 * YEAR, "an hour ago": -HOUR, "ten years ago": -10 * YEAR}
FIXED = {"1970": 0, "1960": -10 * YEAR, "2200": 230 * YEAR}


@dataclass(frozen=True)
class Edit:
    """A change to a campaign's folder; `undo` takes it back where it changes what tables should be.

    `words` are added to the command of the next run.
    """

    kind: str
    what: str
    apply: Callable[[], None]
    undo: Callable[[], None] | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class End:
    """How a run ended: with which code, and with which tables, figures and report."""

    code: int
    files: dict[str, bytes]

    def unlike(self, other: End) -> list[str]:
        """Return what differs."""
        code = [f"ended with {self.code} and not with {other.code}"] if self.code != other.code else []
        names = sorted({*self.files, *other.files})
        return code + [name for name in names if self.files.get(name) != other.files.get(name)]


class Edited:
    """A finished campaign in a copy of the repository, and a fresh one of each state that it is brought into."""

    def __init__(self, folder: Path, random_: random.Random) -> None:
        self.random = random_
        self._folder = folder
        self.checkout = Checkout(folder / "edited")
        self._fresh: dict[str, End] = {}
        self.options = ""
        batch = random_.choice((1, 2))
        self.study: dict[str, Any] = {
            "problems": [*PROBLEMS] if batch > 1 else [MESH],
            "artifacts": ["table-7", "figure-3"],
            "timing": dict(QUICK),
            "precisions": ["double"],
            "layouts": ["ELL-SoA-AoS"],
        }
        self.keys: dict[str, Any] = {"seed": 1, "batch": batch}
        hash_times(self.checkout)
        (self.root / "mesh").mkdir()
        self.write_mesh(NODES, CELLS)
        self.configure()

    @property
    def root(self) -> Path:
        """The folder that is edited."""
        return self.checkout.folder

    def configure(self) -> None:
        """Write the configuration."""
        self.checkout.configure("edited", self.study, **self.keys)

    def write_mesh(self, nodes: tuple[str, ...], cells: tuple[str, ...]) -> None:
        """Write the user's own mesh, a TetGen pair."""
        for suffix, head, lines in ((".node", f"{len(nodes)} 3 0 0", nodes), (".ele", f"{len(cells)} 4 0", cells)):
            numbered = [f"{number} {line}" for number, line in enumerate(lines, 1)]
            (self.root / f"mesh/cube{suffix}").write_text("\n".join([head, *numbered]) + "\n")

    def run(self, *words: str, checkout: Checkout | None = None) -> Said:
        """Run the campaign."""
        with _options(self.options):
            return (checkout or self.checkout).snakemake("all", "--configfile", "edited.yaml", *words)

    def run_and_kill(self, seconds: float) -> None:
        """Start a run, and kill it and its jobs after a while."""
        with _options(self.options):
            process = subprocess.Popen(
                self.checkout.command("all", "--configfile", "edited.yaml"),
                cwd=self.root,
                env=self.checkout.environment,
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def end(self, said: Said, root: Path | None = None) -> End:
        """Return how a run ended and what it left."""
        root = root or self.root
        folders = [root / "results/edited/tables", root / "figures/edited"]
        files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
        files += [path for path in [root / "results/edited/complete"] if path.is_file()]
        left = {str(path.relative_to(root)): path.read_bytes() for path in files}
        report = root / "results/edited/report.html"  # it says when and by which code was measured
        whole = report.is_file() and report.read_bytes().rstrip().endswith(b"</html>")
        return End(said.code, left | ({"report.html": b"whole"} if whole else {}))

    def state(self) -> str:
        """Return a hash of all that tables should depend on."""
        digest = hashlib.sha256(self.options.encode())
        for top in ("src", "kernels", "config", "mesh", "workflow", "edited.yaml"):
            path = self.root / top
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if file.is_file() and "__pycache__" not in file.parts:
                    digest.update(f"{file.relative_to(self.root)}\0".encode() + file.read_bytes())
        return digest.hexdigest()

    def fresh(self) -> End:
        """Return how a fresh run of the same state ends."""
        state = self.state()
        if state not in self._fresh:
            folder = Path(tempfile.mkdtemp(dir=self._folder))
            for name in ("src", "kernels", "config", "mesh", "workflow", "profiles"):
                shutil.copytree(self.root / name, folder / name)
            for name in ("Snakefile", "environment.yml", "edited.yaml"):
                shutil.copy(self.root / name, folder / name)
            checkout = Checkout.__new__(Checkout)
            checkout.folder = folder
            self._fresh[state] = self.end(self.run(checkout=checkout), folder)
            shutil.rmtree(folder)
        return self._fresh[state]


@contextmanager
def _options(options: str) -> Iterator[None]:
    """The compiler's flags of the environment."""
    if options:
        os.environ["PYOPENCL_BUILD_OPTIONS"] = options
    try:
        yield
    finally:
        os.environ.pop("PYOPENCL_BUILD_OPTIONS", None)


def state_edits(campaign: Edited) -> list[Edit]:
    """Return edits that may change what tables should be, each with what takes it back."""
    edits = []

    def key(where: dict[str, Any], name: str, value: object) -> None:
        before = where.get(name)

        def put(now: object) -> None:
            where[name] = now
            if now is None:
                del where[name]
            campaign.configure()

        edits.append(Edit("key", f"{name}={value}", lambda: put(value), lambda: put(before)))

    study, timing = campaign.study, campaign.study["timing"]
    for seed in (2, 3, 4):
        key(campaign.keys, "seed", seed)
    key(campaign.keys, "batch", 3 - campaign.keys["batch"])
    for name, value in {
        "search": "random", "memory_weight": 1.0, "cache": "cold", "baselines": ["scipy/csr/real3"],
        "layouts": ["ELL-AoS-AoS"], "precisions": ["single", "double"], "artifacts": ["table-1", "table-7", "figure-4"],
        "problems": [MESH] if campaign.keys["batch"] > 1 else [*PROBLEMS],
    }.items():  # fmt: skip
        key(study, name, value)
    for name, value in {"launches": 12, "tie": 0.5, "rounds": 3, "reach": 0.5, "finalists": 2, "timeout": 50.0}.items():
        key(timing, name, value)
    moved = (*NODES[:-1], "2 0.5 1")
    meshes = ((moved, CELLS, ".node"), (NODES, CELLS[:-1], ".ele"), (NODES, CELLS[::-1], ".ele order"))
    for nodes, cells, what in meshes:
        edits.append(
            Edit(
                "input",
                what,
                lambda nodes=nodes, cells=cells: campaign.write_mesh(nodes, cells),
                lambda: campaign.write_mesh(NODES, CELLS),
            )
        )
    sources = [campaign.root / "src/repro" / name for name in SOURCES]
    folders = [campaign.root / "kernels" / name for name in ("sparse/compound", "common", "dialects")]
    templates = [path for folder in folders for path in sorted(folder.rglob("*.j2"))]
    for kind, paths, line in (("source", sources, "\nEDITED = {}\n"), ("template", templates, "\n// edited {}\n")):
        edits += [appended(kind, path, line.format(campaign.random.random())) for path in paths if path.exists()]
    edits.append(Edit("flags", "-cl-fast", lambda: setattr(campaign, "options", "-cl-mad-enable"),
                      lambda: setattr(campaign, "options", "")))  # fmt: skip
    return edits


def appended(kind: str, path: Path, line: str) -> Edit:
    """Return the edit that appends a line to a file."""
    before = path.read_bytes()
    return Edit(kind, path.name, lambda: _write(path, before + line.encode()), lambda: _write(path, before))


def other_edit(campaign: Edited) -> Edit:
    """Return a random edit that leaves what tables should be: of what was made, of times, or of a run."""
    choose = campaign.random
    if (kind := choose.random()) < 0.1:
        seconds = choose.uniform(2, 14)
        damage = output_edit(campaign)

        def kill() -> None:
            damage.apply()
            campaign.run_and_kill(seconds)

        return Edit("killed", f"after {seconds:.1f} s, before it {damage.what}", kill)
    if kind < 0.2:
        rules = ("problem", "compile_common", "measure_compound_spmv", "tables_compound_spmv",
                 "figures_compound_spmv", "report", "check")  # fmt: skip
        damage, rule = output_edit(campaign), choose.choice(rules)
        return Edit("forced", f"{rule}, before it {damage.what}", damage.apply, words=("--forcerun", rule))
    if kind < 0.3:
        files = [file for pattern in INPUTS for file in sorted(campaign.root.glob(pattern)) if file.is_file()]
        path = choose.choice(files)
        how, date = _dated(campaign.random, path)
        return Edit("input", f"{path.relative_to(campaign.root)} {how}", date)
    if kind < 0.4:
        files = [file for file in (campaign.root / "results").rglob("*") if file.is_file() and file.suffix != ".lock"]
        how, seconds = _date(choose)
        damage = output_edit(campaign)

        def date_all() -> None:
            for file in files:
                os.utime(file, (seconds, seconds))
            damage.apply()

        return Edit("all results", f"dated {how}; {damage.what}", date_all)
    return output_edit(campaign)


def output_edit(campaign: Edited) -> Edit:
    """Return a random edit of up to three things that were made."""
    number = campaign.random.choice((1, 1, 2, 3))
    edits = [_output_edit(campaign) for _ in range(number)]

    def apply() -> None:
        for _, edit in edits:
            with suppress(FileNotFoundError):  # what another one of them took away
                edit()

    return Edit("output", "; ".join(what for what, _ in edits), apply)


def _output_edit(campaign: Edited) -> tuple[str, Callable[[], None]]:
    """Return an edit of one file or folder that was made, and what it is."""
    choose = campaign.random
    there = [folder for folder in FOLDERS if (campaign.root / folder).is_dir()]
    if choose.random() < 0.12:
        folder = choose.choice(there)
        return f"{folder} deleted", lambda: shutil.rmtree(campaign.root / folder)
    kinds = {
        kind: files
        for kind, pattern in OUTPUTS.items()
        if (files := [file for file in sorted(campaign.root.glob(pattern)) if file.is_file()])
    }
    files = kinds[choose.choice([*kinds])]
    path = choose.choice(files)
    content = path.read_bytes()
    others = [file for file in files if file.suffix == path.suffix and file != path] or [path]
    other = choose.choice(others)
    position = choose.randrange(len(content)) if content else 0
    flipped = content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :] if content else b"x"

    def replace() -> None:
        path.unlink()
        path.write_bytes(content)

    how, date = _dated(choose, path)

    def truncate_and_date() -> None:
        _write(path, content[:position])
        date()

    edits: dict[str, Callable[[], None]] = {
        "deleted": path.unlink,
        "truncated": lambda: _write(path, content[:position]),
        "emptied": lambda: _write(path, b""),
        "altered": lambda: _write(path, flipped),
        f"swapped with {other.name}": lambda: _swap(path, other),
        "touched": path.touch,
        "replaced by its like": replace,
        "'s folder deleted": lambda: shutil.rmtree(path.parent),
        how: date,
        f"truncated and {how}": truncate_and_date,
    }
    name = choose.choice([*edits, "deleted", "deleted"])
    return f"{path.relative_to(campaign.root)} {name}", edits[name]


def _dated(choose: random.Random, path: Path) -> tuple[str, Callable[[], None]]:
    """Return how a file is dated otherwise, and what does it."""
    how, seconds = _date(choose)
    return f"dated {how}", lambda: os.utime(path, (seconds, seconds))


def _date(choose: random.Random) -> tuple[str, float]:
    """Return a time that is not now, and what it is called."""
    how = choose.choice([*AHEAD, *FIXED])
    return how, FIXED[how] if how in FIXED else time.time() + AHEAD[how]


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _swap(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def attack(edits: int, seed: int, folder: Path) -> int:
    """Make so many edits; return after how many a run ended otherwise than a fresh one."""
    campaign = Edited(folder, random.Random(seed))
    said = campaign.run()
    assert said.code == 0, said.text
    differs = campaign.end(said).unlike(campaign.fresh())
    assert not differs, f"two fresh runs differ: {differs}"
    outcomes: Counter[str] = Counter()
    ahead = state_edits(campaign)
    campaign.random.shuffle(ahead)
    undo: Edit | None = None
    for number in range(edits):
        if undo:
            edit, undo = undo, None
        elif ahead and campaign.random.random() < 0.2:
            edit = ahead.pop()
            assert edit.undo
            undo = Edit(f"{edit.kind} taken back", edit.what, edit.undo)
        else:
            edit = other_edit(campaign)
        edit.apply()
        planned = campaign.run("--dry-run", *edit.words)
        said = campaign.run(*edit.words)
        wrong = campaign.end(said).unlike(campaign.fresh())
        if planned.jobs != said.jobs:
            wrong.append(f"the dry run said {planned.jobs}")
        if "Traceback" in said.text:
            wrong.append("a traceback")
        if not (wrong or said.code or said.nothing_to_do or campaign.run("--dry-run").nothing_to_do):
            wrong.append("something is left to do")
        outcome = "WRONG" if wrong else "nothing to do" if said.nothing_to_do else f"as fresh, with {said.code}"
        outcomes[outcome] += 1
        print(f"{number + 1:4} {edit.kind:20} {edit.what:90} {outcome} {'; '.join(wrong)}", flush=True)
        if wrong:
            print(said.text, flush=True)
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:5} {outcome}")
    return outcomes["WRONG"]


def main() -> None:
    """Read the command line, attack, and exit with 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=200, help="how many (200)")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of edits (1)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="random-edits-") as folder:
        sys.exit(1 if attack(arguments.edits, arguments.seed, Path(folder)) else 0)


if __name__ == "__main__":
    main()
