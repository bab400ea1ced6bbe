"""Which names a problem may have: they become files, and values of the workflow's wildcards."""

from __future__ import annotations

import re

from repro.errors import ReproError

# no part may be empty or start with a dot
NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$"
#: Characters of a part of a name and of all: file systems take 255 and 4096, of which suffixes and folders need some.
PART, WHOLE = 200, 1000
#: Snakemake takes a wildcard whose end is so often the same for a rule that calls itself without end.
REPEATS = 20
_REPEATED = re.compile(rf"(.+?)\1{{{REPEATS - 1}}}$", re.DOTALL)


def check_name(name: str, where: object) -> str:
    """Return a name, if a problem may have it.

    Raises
    ------
    ReproError
        It has other characters than a name, is too long for a file, or ends with the same again and again.
    """
    expected = None
    if not re.fullmatch(NAME, name):
        expected = "letters, digits and . _ - with / between parts"
    elif len(name) > WHOLE or max(map(len, name.split("/"))) > PART:
        expected = f"at most {PART} characters in a part, and {WHOLE} in all"
    elif repeated := _REPEATED.search(name):
        expected = f"an end that is not {repeated[1]!r} {REPEATS} times, which the workflow cannot tell from a mistake"
    if expected:
        shown = repr(name) if len(name) <= PART else f"{name[:40]!r}… of {len(name)} characters"
        raise ReproError(
            "not a name for a problem", where=where, expected=expected, actual=shown, todo="give it a `name:`"
        )
    return name
