"""Words that configurations, records and operators share: devices, spaces of variants, and names of problems.

Also what a misspelt word most likely means, and lists of words that are short enough for a message. Operators need all
of this where the packages of campaigns are not installed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

#: Pattern of device selections. A separate check rejects lists with repeated devices.
DEVICE_PATTERN = r"^(auto|cuda(:(all|[0-9]+(,[0-9]+)*))?|opencl(:[0-9]+(/([2-9]|[1-9][0-9]+))?)?)$"
#: The shortest device selections that match `DEVICE_PATTERN`; for a misspelt one, messages suggest the most similar.
DEVICE_WORDS = ("auto", "cuda", "cuda:all", "opencl")
#: Explanation of `DEVICE_PATTERN` for users.
DEVICE_MEANING = (
    "auto (a GPU if there is one, else the CPU), cuda, cuda:N, cuda:0,1,2 (several GPUs of this machine, none twice), "
    "cuda:all, opencl (the CPU), opencl:N or opencl:N/K (that CPU split into K equal parts, at least 2)"
)


def names_device(words: object) -> bool:
    """Return whether the value is a valid device selection of distinct devices. The devices need not exist."""
    if not isinstance(words, str) or not re.fullmatch(DEVICE_PATTERN, words):
        return False
    numbers = [int(number) for number in words.partition(":")[2].split(",") if number.isdigit()]
    return len(set(numbers)) == len(numbers)


#: `paper`: the kernels exactly as the paper describes them; parameters that the paper leaves open are searched, equally
#: for all its methods. `paper_tuned`: the paper's kernels with choices that the paper does not make, such as unrolled
#: loops or more blocks. `extended`: our kernels.
Space = Literal["paper", "paper_tuned", "extended"]
SPACES: tuple[Space, ...] = get_args(Space)
PAPER, PAPER_TUNED, EXTENDED = SPACES
#: Prefix of the names of tunings that choose among `paper_tuned` instead of `paper`.
TUNED = "tuned_"
#: Prefix of the names of tunings, for each space of the paper's kernels.
TUNING_PREFIXES: Mapping[Space, str] = {PAPER: "", PAPER_TUNED: TUNED}


def find_space(name: str) -> Space | None:
    """Return the space of this name, None if there is none."""
    return next((space for space in SPACES if space == name), None)


#: Maximum length of a campaign's name and of each part of a problem's name. A file name has at most 255 bytes and
#: combines such names with a prefix, a suffix and a process id.
MAX_PART_LENGTH = 128
# A part is not empty, does not start with a dot, and is short enough for file names with suffixes.
_PART = rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{MAX_PART_LENGTH - 1}}}"
NAME = rf"^{_PART}(/{_PART})*$"
MAX_NAME_LENGTH = 255
#: Snakemake reports endless recursion for a wildcard value that ends in this many repetitions.
REPEATS = 20
_REPEATED = re.compile(rf"(.+?)\1{{{REPEATS - 1}}}$", re.DOTALL)


def name_error(name: str) -> str | None:
    """Return a text that states which names are allowed if this problem name is invalid, else None."""
    if not re.fullmatch(NAME, name):
        return f"letters, digits and . _ - with / between parts, of at most {MAX_PART_LENGTH} characters each"
    if len(name) > MAX_NAME_LENGTH:
        return f"at most {MAX_NAME_LENGTH} characters in all"
    if repetition := _REPEATED.search(name):
        return f"an end that is not {repetition[1]!r} {REPEATS} times, which the workflow cannot tell from a mistake"
    return None


#: Maximum number of characters shown of a value, and compared of it.
MAX_VALUE_LENGTH = 120
#: Maximum number of a folder's files whose names are compared with that of a missing file.
MAX_NAMES = 1000
#: Common words, and this project's words for them.
SYNONYMS = {
    "dtype": "precision",
    "gpu": "cuda",
    "nvidia": "cuda",
    "cpu": "opencl",
    "pocl": "opencl",
    **dict.fromkeys(("float", "float32", "fp32", "f32"), "single"),
    **dict.fromkeys(("float64", "fp64", "f64"), "double"),
    **dict.fromkeys(("tol", "tolerance"), "rtol"),
}


_LAST_NUMBER = re.compile(r"-\d+$")


def shorten(text: str) -> str:
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"


def nearest(word: object, choices: Iterable[str]) -> str | None:
    """Return the choice that a misspelt word most likely means, or None if none resembles it."""
    choices = list(choices)
    text = str(word)[:MAX_VALUE_LENGTH]  # comparing takes quadratic time
    if SYNONYMS.get(text.lower()) in choices:
        return SYNONYMS[text.lower()]
    return next(iter(_similar(text, choices)), None)


def _similar(text: str, names: list[str]) -> list[str]:
    """Return the names that a misspelt word may mean, the nearest first.

    No name differs from it by its last number alone, nor from a word of few letters by several letters more.
    """
    near, stem = get_close_matches(text, names, n=SHOWN), _LAST_NUMBER.sub("", text)
    likely = [name for name in near if len(text) > SHOWN or len(name) <= len(text) + 1]
    return [name for name in likely if name == text or _LAST_NUMBER.sub("", name) != stem]


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
    near = dict.fromkeys([*_similar(str(word)[:MAX_VALUE_LENGTH], names), *names])
    some = f"one of {len(names)}, such as {', '.join([*near][:SHOWN])}"
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
