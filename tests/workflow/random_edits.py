"""Random edits to a finished campaign: after each, the next run's tables have to be those of a fresh one.

    python tests/workflow/random_edits.py --edits 200 --seed 1

Times are replaced by numbers that hash all that a time depends on, so that tables made of anything stale differ from
fresh ones, and tables of two fresh runs are equal byte by byte. An edit is a key of the configuration, an input, a file
of our own code, a template, an environment variable, or an output that is deleted, truncated, altered or swapped with
another. Whatever changes what tables should be is taken back afterwards, which is an edit as well. Prints a line an
edit and a summary; exits with 1 where a run said that nothing was to be done, or ended with 0, and left other tables.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkouts import QUICK, Checkout, Said
from hashed_times import hash_times, tables_of

NODES = ("0 0 0", "1 0 0", "0 1 0", "0 0 1", "1 1 1", "2 0 1")
CELLS = ("1 2 3 4", "2 3 4 5", "2 5 4 6")
#: Of our own code: what builds, what compiles, what packs and times, what chooses, what makes tables.
SOURCES = (
    "bench/timing.py", "bench/trial.py", "bench/rows.py", "sparse/operands.py", "sparse/verify.py",
    "tuning/choose.py", "tuning/search.py", "tuning/rounds.py", "devices/opencl.py", "codegen/compile.py",
    "codegen/templates.py", "problems/elasticity.py", "problems/dirac.py", "problems/statistics.py",
    "studies/compound_spmv/pack.py", "studies/compound_spmv/render.py", "studies/compound_spmv/study.py",
    "studies/compound_spmv/facts.py", "artifacts/render_tables.py", "artifacts/data.py", "artifacts/case.py",
    "studies/compound_spmv/tables/layouts.py", "campaign/measuring.py", "config/models.py",
)  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """A change to a campaign's folder; `undo` takes it back where it changes what tables should be."""

    kind: str
    what: str
    apply: Callable[[], None]
    undo: Callable[[], None] | None = None


class Edited:
    """A finished campaign in a copy of the repository, and a fresh one of each state that it is brought into."""

    def __init__(self, folder: Path, random_: random.Random) -> None:
        self.random = random_
        self._folder = folder
        self.checkout = Checkout(folder / "edited")
        self._fresh: dict[str, dict[str, bytes]] = {}
        self.options = ""
        self.study: dict[str, Any] = {
            "problems": [{"path": "mesh/cube.node", "entry": "block3"}],
            "artifacts": ["table-1", "table-7"],
            "timing": dict(QUICK),
            "precisions": ["double"],
            "layouts": ["ELL-SoA-AoS"],
        }
        self.keys: dict[str, Any] = {"seed": 1}
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

    def run(self, checkout: Checkout | None = None) -> Said:
        """Run the campaign."""
        with ExitStack() as stack:
            if self.options:
                stack.enter_context(_variable("PYOPENCL_BUILD_OPTIONS", self.options))
            return (checkout or self.checkout).snakemake("all", "--configfile", "edited.yaml")

    def state(self) -> str:
        """Return a hash of all that tables should depend on."""
        digest = hashlib.sha256(self.options.encode())
        for top in ("src", "kernels", "config", "mesh", "workflow", "edited.yaml"):
            path = self.root / top
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if file.is_file() and "__pycache__" not in file.parts:
                    digest.update(f"{file.relative_to(self.root)}\0".encode() + file.read_bytes())
        return digest.hexdigest()

    def fresh(self) -> dict[str, bytes]:
        """Return the tables of a fresh run of the same state."""
        state = self.state()
        if state not in self._fresh:
            folder = Path(tempfile.mkdtemp(dir=self._folder))
            for name in ("src", "kernels", "config", "mesh", "workflow", "profiles"):
                shutil.copytree(self.root / name, folder / name)
            for name in ("Snakefile", "environment.yml", "edited.yaml"):
                shutil.copy(self.root / name, folder / name)
            checkout = Checkout.__new__(Checkout)
            checkout.folder = folder
            said = self.run(checkout)
            self._fresh[state] = tables_of(folder, "edited") if said.code == 0 else {"failed": b""}
            shutil.rmtree(folder)
        return self._fresh[state]


def _variable(name: str, value: str) -> Any:
    import os
    from contextlib import contextmanager

    @contextmanager
    def changed() -> Iterator[None]:
        os.environ[name] = value
        try:
            yield
        finally:
            del os.environ[name]

    return changed()


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
    for name, value in {
        "search": "random", "memory_weight": 1.0, "cache": "cold", "baselines": ["scipy/csr/real3"],
        "layouts": ["ELL-AoS-AoS"], "precisions": ["single", "double"], "artifacts": ["table-1", "table-7", "table-9"],
        "problems": [{"path": "mesh/cube.node", "entry": "block3"}, "tiny/dirac"],
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
    folders = [campaign.root / "kernels" / name for name in ("compound_spmv", "common", "dialects")]
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


def output_edit(campaign: Edited) -> Edit:
    """Return a random edit of an output."""
    choose = campaign.random
    tops = ("results/edited", "figures/edited", "modules")
    files = [file for top in tops for file in sorted((campaign.root / top).rglob("*")) if file.is_file()]
    outputs = [file for file in files if not {"store", "configs"} & set(file.parts) and file.suffix != ".lock"]
    path = choose.choice(outputs)
    content = path.read_bytes()
    others = [file for file in outputs if file.suffix == path.suffix and file != path] or [path]
    other = choose.choice(others)
    position = choose.randrange(len(content)) if content else 0
    flipped = content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :] if content else b"x"
    how: dict[str, Callable[[], None]] = {
        "deleted": path.unlink,
        "truncated": lambda: _write(path, content[:position]),
        "altered": lambda: _write(path, flipped),
        f"swapped with {other.name}": lambda: _swap(path, other),
        "touched": path.touch,
        "a folder deleted": lambda: shutil.rmtree(path.parent),
    }
    name = choose.choice([*how])
    return Edit("output", f"{path.relative_to(campaign.root)} {name}", how[name])


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _swap(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def attack(edits: int, seed: int, folder: Path) -> int:
    """Make so many edits; return how many left tables that a fresh run would not make."""
    campaign = Edited(folder, random.Random(seed))
    said = campaign.run()
    assert said.code == 0, said.text
    assert tables_of(campaign.root, "edited") == campaign.fresh(), "two fresh runs differ"
    outcomes: Counter[str] = Counter()
    ahead = state_edits(campaign)
    campaign.random.shuffle(ahead)
    undo: Edit | None = None
    for number in range(edits):
        if undo:
            edit, undo = undo, None
        elif ahead and campaign.random.random() < 0.5:
            edit = ahead.pop()
            assert edit.undo
            undo = Edit(f"{edit.kind} taken back", edit.what, edit.undo)
        else:
            edit = output_edit(campaign)
        edit.apply()
        said = campaign.run()
        equal = tables_of(campaign.root, "edited") == campaign.fresh()
        if said.nothing_to_do:
            outcome = "nothing to do, tables as fresh" if equal else "NOTHING TO DO WITH OTHER TABLES"
        elif said.code == 0:
            outcome = "made again, tables as fresh" if equal else "OTHER TABLES"
        else:
            outcome = "a message" if "Traceback" not in said.text else "A TRACEBACK"
        outcomes[outcome] += 1
        print(f"{number + 1:4} {edit.kind:20} {edit.what:90} {outcome}", flush=True)
        if outcome.isupper():
            print(said.text, flush=True)
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:5} {outcome}")
    return sum(count for outcome, count in outcomes.items() if outcome.isupper())


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
