"""Kills at random moments: no row is measured twice, none is lost, none is of another plan.

    PYTHONPATH=tests python tests/workflow/random_kills.py --kills 60 --seed 1
    PYTHONPATH=tests python tests/workflow/random_kills.py --kills 60 --seed 2 --together

A campaign is started, and after a random time its whole group gets SIGKILL, SIGTERM or SIGINT, or Snakemake alone
SIGKILL; started again it goes on, and is killed again. One that ends is compared with a fresh one and begun anew, with
another seed. With `--together` a second run, of yet another seed, is started in the same folder at a random moment of
each, and killed too.
Times are hashes of all that a time depends on, so that a row of another plan shows in the tables.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from support.checkouts import QUICK, Checkout
from support.hashed_times import hash_times, tables_of

#: Signals and what gets them; asked alone to end, Snakemake waits for its jobs, and nothing is killed.
KILLS = (
    (signal.SIGKILL, "group"),
    (signal.SIGKILL, "snakemake"),
    (signal.SIGTERM, "group"),
    (signal.SIGINT, "group"),
)
NAME = "killed"
#: Seconds after which a run is killed at the latest.
LATEST = 10.0


class Attack:
    """One campaign in one folder, and what was seen of it."""

    def __init__(self, folder: Path, seed: int, together: bool) -> None:
        self._random = random.Random(seed)
        self._together = together
        self._folder = folder
        self.checkout = Checkout(folder / "killed")
        hash_times(self.checkout)
        self.seen: dict[Path, list[str]] = {}
        self.outcomes: Counter[str] = Counter()
        self._configure(1)

    def _configure(self, seed: int) -> None:
        self.seed = seed
        study = {"problems": ["tiny/dirac", "tiny/elasticity"], "artifacts": ["table-1", "table-7"], "timing": QUICK}
        self.config = self.checkout.configure(NAME, study, seed=seed)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a run in a group of its own."""
        return subprocess.Popen(
            self.checkout.command("all", "--configfile", self.config, *words),
            cwd=self.checkout.folder,
            env=self.checkout.environment | {"PAUSE": "0.06"},
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def once(self) -> str:
        """Start a run, kill it at a random moment, and look at its rows; return what happened."""
        process = self.start()
        other = None
        moment = self._random.uniform(1, LATEST)
        if self._together:
            time.sleep(moment / 2)
            other = self.start("--config", f"seed={self.seed + 1000}")
            moment /= 2
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        how = "ended before it was killed"
        if process.poll() is None:
            sent, target = self._random.choice(KILLS)
            with suppress(ProcessLookupError):
                if target == "group":
                    os.killpg(process.pid, sent)
                else:
                    process.send_signal(sent)
            how = f"{sent.name} to {target}"
        self._wait(process)
        if other:
            with suppress(subprocess.TimeoutExpired):
                other.wait(self._random.uniform(1, LATEST))
            with suppress(ProcessLookupError):
                os.killpg(other.pid, signal.SIGKILL)
            said = self._wait(other)
            how += ", other refused" if "another run is active in this folder" in said else ", other killed after it"
        self.look()
        return how

    def _wait(self, process: subprocess.Popen[str]) -> str:
        try:
            return process.communicate(timeout=300)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise SystemExit("a run did not end within 300 s of its signal") from None

    def look(self) -> None:
        """Hold the stores against what was seen of them before."""
        for store in (self.checkout.folder / "results" / NAME / "store").rglob("rows.jsonl"):
            text = store.read_text()
            lines = text[: text.rfind("\n") + 1].splitlines()
            before = self.seen.get(store, [])
            rows = [line for line in lines if '"key"' in line]
            assert rows[: len(before)] == before, f"a row was lost: {store}"
            keys = [_key(row) for row in rows]
            assert len(keys) == len(set(keys)), f"a row was measured twice: {store}"
            self.seen[store] = rows

    def finish(self) -> None:
        """Run to the end, and hold the tables against those of a fresh run."""
        for _ in range(3):  # jobs of a killed run may still be at work for a moment
            said = self.checkout.snakemake("all", "--configfile", self.config)
            if said.code == 0:
                break
        assert said.code == 0, said.text
        self.look()
        again = self.checkout.snakemake("all", "--configfile", self.config)
        assert again.nothing_to_do, again.text
        fresh = Path(tempfile.mkdtemp(dir=self._folder))
        for name in ("src", "kernels", "config", "workflow", "profiles"):
            shutil.copytree(self.checkout.folder / name, fresh / name)
        for name in ("Snakefile", "environment.yml", self.config):
            shutil.copy(self.checkout.folder / name, fresh / name)
        checkout = Checkout.__new__(Checkout)
        checkout.folder = fresh
        said = checkout.snakemake("all", "--configfile", self.config)
        assert said.code == 0, said.text
        assert tables_of(fresh, NAME) == tables_of(self.checkout.folder, NAME), "tables of another plan"
        shutil.rmtree(fresh)
        self._configure(self.seed + 1)


def _key(line: str) -> str:
    key: str = json.loads(line[line.index("{") :])["key"]
    return key


def main() -> None:
    """Read the command line and attack; a row lost or twice, or a wrong table, ends it with 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60, help="how many (60)")
    parser.add_argument("--seed", type=int, default=1, help="of moments, signals and targets (1)")
    parser.add_argument("--together", action="store_true", help="with a second run in the folder at the same time")
    arguments = parser.parse_args()
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="random-kills-", ignore_cleanup_errors=True) as folder:
        attack = Attack(Path(folder), arguments.seed, arguments.together)
        kills = 0
        while kills < arguments.kills:
            how = attack.once()
            outcomes[how] += 1
            kills += not how.startswith("ended")
            print(f"{kills:4} {how}; {sum(map(len, attack.seen.values()))} rows seen", flush=True)
            if how.startswith("ended"):
                attack.finish()
                print(f"     finished: tables as fresh, seed {attack.seed - 1}", flush=True)
        attack.finish()
    for how, count in sorted(outcomes.items()):
        print(f"{count:5} {how}")
    sys.exit(0)


if __name__ == "__main__":
    main()
