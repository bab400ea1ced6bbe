"""In which precision more than products is timed."""

from __future__ import annotations

from collections.abc import Collection


def precision_of_operations(precisions: Collection[str]) -> str:
    """Return the precision of updates, conversions and all else that is no product: the highest of a campaign's.

    They move numbers and hardly compute with them: another precision would take as long to time, and say little more.
    """
    return "double" if "double" in precisions else "single"
