"""Names rivals that do right or go wrong: classes of `spoilt_rivals.py`."""

from __future__ import annotations

from pathlib import Path

from repro.config.models import Rival

HERE = Path(__file__).parent
PYTHON = HERE / "spoilt_rivals.py"


def of_python(name: str, **keys: object) -> Rival:
    """A rival that is one of the classes."""
    return Rival(name=name.lower(), python=f"{PYTHON}:{name}", **keys)
