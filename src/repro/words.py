"""Words that configurations, records and operators share: devices, spaces of variants, and names of problems.

Operators need them where the packages of campaigns are not installed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
