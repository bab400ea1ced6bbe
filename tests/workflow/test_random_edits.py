"""Random edits to a finished campaign, as many as `RANDOM_EDITS` says: 60 of them take half an hour on two cores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from random_edits import attack

pytestmark = [pytest.mark.workflow, pytest.mark.medium]
EDITS = int(os.environ.get("RANDOM_EDITS", "0"))


@pytest.mark.skipif(not EDITS, reason="RANDOM_EDITS says how many")
def test_every_run_ends_as_a_fresh_one_at_the_first_try(tmp_path: Path) -> None:
    assert attack(EDITS, int(os.environ.get("RANDOM_EDITS_SEED", "1")), tmp_path) == 0
