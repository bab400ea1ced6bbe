"""The profile for Slurm says all that the profile for one machine says, but for its one GPU."""

from __future__ import annotations

from pathlib import Path

import yaml

PROFILES = Path(__file__).parents[2] / "profiles"


def test_the_profile_for_slurm_runs_campaigns_as_the_default_one_does() -> None:
    default, slurm = (yaml.safe_load((PROFILES / name / "config.yaml").read_text()) for name in ("default", "slurm"))
    assert default.pop("resources") == {"gpu": 1}
    assert {key: slurm.get(key) for key in default} == default
    assert "resources" not in slurm, "as many GPUs as there are"
    assert slurm["executor"] == "slurm"
