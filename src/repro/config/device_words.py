"""The words that name a device: of the configuration and of whoever opens one."""

from __future__ import annotations

import re

#: What may be said; that a list has no repeats is checked beside it.
PATTERN = r"^(auto|cuda(:(all|[0-9]+(,[0-9]+)*))?|opencl(:[0-9]+(/([2-9]|[1-9][0-9]+))?)?)$"
#: The same in words.
MEANING = (
    "auto (a GPU if there is one, else the CPU), cuda, cuda:N, cuda:0,1,2 (several GPUs of this machine, none twice), "
    "cuda:all, opencl, opencl:N or opencl:N/K (that CPU split into K equal parts, at least 2)"
)


def names_device(words: object) -> bool:
    """Say whether something is a word for a device, or a list of several; not whether they are there."""
    if not isinstance(words, str) or not re.fullmatch(PATTERN, words):
        return False
    numbers = [int(number) for number in words.partition(":")[2].split(",") if number.isdigit()]
    return len(set(numbers)) == len(numbers)
