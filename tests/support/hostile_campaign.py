"""A case with hostile rivals beside good ones, and the same without the hostile, measured by `repro measure`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from repro.bench.rows import OUTSIDE
from repro.config.models import Config, Rival
from support import hostile_rivals

FILE = Path(hostile_rivals.__file__)
GOOD = ("good", "good-too")


def with_rivals(config: Config, hostile: Iterable[str], others: Iterable[Rival] = ()) -> Config:
    """Return a configuration with hostile rivals between good ones, all of which wait for a GPU."""
    members = [Rival(name=GOOD[0], python=f"{FILE}:Good", waits=True), *others]
    members += [Rival(name=name.lower(), python=f"{FILE}:{name}", waits=True) for name in hostile]
    return config.model_copy(update={"rivals": (*members, Rival(name=GOOD[1], python=f"{FILE}:Good", waits=True))})


def measured(config: Config, study: str, problem: str, precision: str) -> tuple[dict[str, pd.DataFrame], str]:
    """Measure a case in separate processes, with files of the current folder; return its rows and the output."""
    Path("hostile.yaml").write_text(yaml.safe_dump(config.model_dump(mode="json")))
    words = [sys.executable, "-m", "repro", "measure", study, problem, precision, "--config", "hostile.yaml"]
    environment = {**os.environ, "ELSEWHERE": str(Path("elsewhere").absolute())}
    done = subprocess.run(
        words, text=True, check=False, timeout=550, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    )
    assert done.returncode == 0, done.stdout
    folder = Path(f"results/{config.campaign}/raw/{study}/{problem}/{precision}")
    return {path.stem: pd.read_parquet(path) for path in folder.glob("*.parquet")}, done.stdout


def check_hostile(
    config: Config,
    changes: Mapping[str, tuple[str, str | None]],
    case: tuple[str, str, str],
    others: Iterable[Rival] = (),
) -> None:
    """Assert that rows of good rivals and of ours are those of a campaign without the hostile, each of which is told
    what it did.
    """
    rows, said = measured(with_rivals(config, changes, others), *case)
    report = rows["report"]
    warm = report[(report.kind == OUTSIDE) & (report.cache == "warm")].set_index("name")
    hostile = {f"rival/{name.lower()}": expected for name, expected in changes.items()}
    differing = {
        name: (warm.status[name], warm.message[name], status)
        for name, (status, _) in hostile.items()
        if warm.status[name] != status
    }
    assert not differing, differing
    for name, (_, message) in hostile.items():
        if message is None:
            assert pd.isna(warm.message[name]), (name, warm.message[name])
        else:
            assert message in warm.message[name], (name, warm.message[name])
    assert not Path("elsewhere").exists() or not [*Path("elsewhere").iterdir()]
    if "Prints" in changes:
        assert "rival/prints: it prints: iteration done by descriptor" in said
    plain_rows, _ = measured(with_rivals(config.model_copy(update={"campaign": "plain"}), (), others), *case)
    found, expected_facts = facts(rows, hostile), facts(plain_rows, {})
    for part, fact in expected_facts.items():
        assert found[part] == fact, (part, sorted({*found[part]} ^ {*fact}))


def facts(rows: Mapping[str, pd.DataFrame], left_out: Iterable[str]) -> dict[str, Any]:
    """Return all of a case's rows without times, and without those of some rivals."""
    columns = ["name", "kind", "status", "phase", "cache", "protocol", "message"]
    found = {}
    for step in ("search", "baseline", "report"):
        kept = rows[step][~rows[step].name.isin(list(left_out))][columns]
        searched = kept.kind.isin(["variant", "floor", "copy"])  # the fastest of these are timed at length
        found[step] = sorted(map(str, kept[~searched].itertuples(index=False)))
        found[f"{step} of what is searched"] = sorted({*kept[searched][["kind", "status"]].itertuples(index=False)})
    return found
