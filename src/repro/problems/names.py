"""Which names problems and campaigns may have: they become files, and values of the workflow's wildcards."""

from __future__ import annotations

import re
from pathlib import Path

from repro.config.models import CAMPAIGN, LONGEST
from repro.errors import ReproError
from repro.reading import shown

# no part may be empty, start with a dot, or be too long for a file's name with what is added to it
_PART = rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{LONGEST - 1}}}"
NAME = rf"^{_PART}(/{_PART})*$"
LONGEST_NAME = 255
#: Snakemake takes a wildcard whose end is so often the same for a rule that calls itself without end.
REPEATS = 20
_REPEATED = re.compile(rf"(.+?)\1{{{REPEATS - 1}}}$", re.DOTALL)


def flaw(name: str) -> str | None:
    """Return what is expected of a problem's name in place of this one; None where it can be one."""
    if not re.fullmatch(NAME, name):
        return f"letters, digits and . _ - with / between parts, of at most {LONGEST} characters each"
    if len(name) > LONGEST_NAME:
        return f"at most {LONGEST_NAME} characters in all"
    if repeated := _REPEATED.search(name):
        return f"an end that is not {repeated[1]!r} {REPEATS} times, which the workflow cannot tell from a mistake"
    return None


def campaign_folder(results: Path, name: str) -> Path:
    """Return the folder of a campaign that is named by hand.

    Raises
    ------
    ReproError
        No campaign can have that name.
    """
    if not re.fullmatch(CAMPAIGN, name) or "\n" in name or len(name) > LONGEST:
        raise ReproError(
            "not a name for a campaign",
            where=shown(repr(name)),
            expected=f"letters, digits and . _ -, no . or - as the first, at most {LONGEST}",
            todo=f"name a folder below {results}; another folder of results is named by --results",
        )
    return results / name


def check_name(name: str, where: object) -> str:
    """Return a name, if a problem may have it.

    Raises
    ------
    ReproError
        It has other characters than a name, is too long for a file, or ends with the same again and again.
    """
    if expected := flaw(name):
        shown = repr(name) if len(name) <= LONGEST_NAME else f"{name[:40]!r}… of {len(name)} characters"
        raise ReproError(
            "not a name for a problem", where=where, expected=expected, actual=shown, todo="give it a `name:`"
        )
    return name
