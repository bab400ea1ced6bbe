"""The campaigns that the repository keeps: what `.gitignore` leaves out of what it ignores, once it is there.

Results of one's own lie in the same folder and are none of these.
"""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
RESULTS = REPOSITORY / "results"


def recorded_campaigns(*, configured: bool = False) -> list[str]:
    """Return the names of all that have rows, and notes of how these were recorded.

    Parameters
    ----------
    configured
        Those alone that a configuration replays.
    """
    names = re.findall(r"^!results/([^/]+)/$", (REPOSITORY / ".gitignore").read_text("utf-8"), re.MULTILINE)
    kept = [
        name for name in sorted(names) if (RESULTS / name / "NOTES.md").exists() and (RESULTS / name / "raw").exists()
    ]
    return [name for name in kept if not configured or (REPOSITORY / f"config/{name}.yaml").exists()]


def studies_of(campaign: str) -> list[str]:
    """Return the studies that a recorded campaign has rows of."""
    return sorted({path.parent.name for path in (RESULTS / campaign).glob("raw/*/*.parquet")})
