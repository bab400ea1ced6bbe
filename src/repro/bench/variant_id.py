"""Base class of variant ids: converts an id to text, to columns of a row, and to a point in the search space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import log2
from typing import Any, Self, cast


@dataclass(frozen=True)
class SearchPoint:
    """Position of a variant in its search space, for strategies that predict times from those of similar variants."""

    #: Group of variants that tend to fail together, for example all variants of one layout.
    group: str
    #: Categorical coordinates of a variant; their number is equal for all variants of a search space.
    words: tuple[str, ...]
    #: Numerical coordinates: binary logarithms of the variant's sizes.
    numbers: tuple[float, ...]

    @classmethod
    def of(cls, group: str, words: Iterable[str], sizes: Iterable[float]) -> Self:
        return cls(group, tuple(words), tuple(log2(size) for size in sizes))


class BaseId(ABC):
    """Base of variant ids, which are frozen dataclasses. Each id is unique within its study.

    Only `str` and `parse` convert between ids and text.
    """

    @abstractmethod
    def __str__(self) -> str:
        """Return the id as text, which is the variant's name in rows and tables."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of an id, as written by `str`; raise `ReproError` if the text is not a valid id."""
        return cast(Self, _parse(cls, text))

    @classmethod
    @abstractmethod
    def _read(cls, text: str) -> Self:
        """Parse the text of an id; `parse` caches the result of this method."""

    @property
    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """The row columns whose values follow from the id."""

    @property
    @abstractmethod
    def point(self) -> SearchPoint:
        """The variant's coordinates in the search space."""


@lru_cache(maxsize=1 << 16)
def _parse(id_class: type[BaseId], text: str) -> BaseId:
    return id_class._read(text)
