"""What a misspelt word most likely means, and lists of words that are short enough for a message."""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

#: Maximum number of characters shown of a value, and compared of it.
MAX_VALUE_LENGTH = 120
#: Maximum number of a folder's files whose names are compared with that of a missing file.
MAX_NAMES = 1000
#: Common words, and the configuration's words for them.
SYNONYMS = {
    "dtype": "precision",
    "gpu": "cuda",
    "nvidia": "cuda",
    "cpu": "opencl",
    "pocl": "opencl",
    **dict.fromkeys(("float", "float32", "fp32", "f32"), "single"),
    **dict.fromkeys(("float64", "fp64", "f64"), "double"),
}


def shorten(text: str) -> str:
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"


def nearest(word: object, choices: Iterable[str]) -> str | None:
    """Return the choice that a misspelt word most likely means, or None if none resembles it."""
    choices = list(choices)
    text = str(word)[:MAX_VALUE_LENGTH]  # comparing takes quadratic time
    if SYNONYMS.get(text.lower()) in choices:
        return SYNONYMS[text.lower()]
    return next(iter(get_close_matches(text, choices, n=1)), None)


def suggestion(word: object, choices: Iterable[str]) -> str:
    """Return `; did you mean …?` for the nearest of the choices, or nothing."""
    near_words = nearest(word, choices)
    return f"; did you mean {near_words}?" if near_words else ""


#: Maximum number of names that a message lists in full, and how many of more it shows.
LISTED, SHOWN = 8, 3


def some_of(choices: Iterable[str], word: object, all_by: str = "") -> str:
    """Return `one of A, B` for few choices; of many the nearest to a word, and what prints all: `all_by`, if given."""
    names = list(choices)
    if len(names) <= LISTED:
        return f"one of {', '.join(names)}"
    text = str(word)[:MAX_VALUE_LENGTH]
    near = [*get_close_matches(text, names, n=SHOWN, cutoff=0.0), *names]
    some = f"one of {len(names)}, such as {', '.join([*dict.fromkeys(near)][:SHOWN])}"
    return f"{some}; {all_by} prints all" if all_by else some


#: Folder of the project's configurations, relative to the current folder.
CONFIGURATIONS = Path("config")


def nearest_file(path: Path) -> str | None:
    """Return `PATH; did you mean FILE?` for a missing file and the most similar one, or None."""
    similar = similar_file(path)
    return f"{path}; did you mean {similar}?" if similar else None


def similar_file(path: Path) -> Path | None:
    """Return the file that is most similar to a missing one in its folder, or None.

    Names are compared without suffixes, since many files of a folder share these; the suffix of `path`, if any, must be
    equal. A name without a suffix may be that of a recorded configuration.
    """
    configuration = CONFIGURATIONS / f"{path}.yaml"
    try:
        if not path.suffix and configuration.is_file():
            return configuration
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, MAX_NAMES) if entry.is_file()]
    except (OSError, ValueError):
        return None
    of_stems = {Path(name).stem: name for name in names if Path(name).suffix == path.suffix or not path.suffix}
    near_names = nearest(path.stem, of_stems)
    return path.with_name(of_stems[near_names]) if near_names else None
