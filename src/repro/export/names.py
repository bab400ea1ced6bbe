"""Which variants can be exported."""

from __future__ import annotations

from dataclasses import replace

from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.studies.compound_spmv.variant_id import VariantId, fitting


def parse_variant(name: str, target: Target) -> VariantId:
    """Return the variant of a name that a kernel can be exported of.

    Raises
    ------
    ReproError
        The name is not a variant's, the target cannot hold the schedule, or the layout renumbers the unknowns.
    """
    variant = VariantId.parse(name)
    if variant.layout.unknowns != "natural":
        raise ReproError(
            "a layout that renumbers the unknowns cannot be exported",
            expected="a variant in natural ordering, or clustered",
            actual=name,
            todo=f"reorder matrix and vectors yourself, and export {replace(variant, layout=variant.layout.stored)}",
        )
    return fitting(variant, target)
