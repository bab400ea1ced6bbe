"""Rendering of the study's modules: filtering and its matrix in the plane, and integration of regions in space."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from repro.codegen.targets import Target
from repro.codegen.templates import render_template
from repro.errors import ReproError
from repro.filtering.kernels import DEGREES, KERNELS, block_sizes, render_siac
from repro.galerkin import equispaced, evaluate, exponents, positive
from repro.sparse.dynamic.kernels import render_module
from repro.sparse.elementwise import BLOCK_SIZE
from repro.studies.dg_postprocessing import CLIP, STUDY_NAME
from repro.studies.dg_postprocessing.ids import (
    OWN_THREADS,
    REGION_DEGREES,
    REGION_NUMBERS,
    WIDTHS,
    FieldId,
    FilterId,
    RegionId,
    element_points,
    full_width,
    region_module_key,
    region_module_keys,
    width_region_pairs,
)
from repro.studies.dg_postprocessing.regions import NUMBERS_PER_REGION, Floats, axis_nodes

#: Threads per block of the clipping kernels. Each thread needs over a kilobyte of local memory for a stack of
#: tetrahedra that are still to be clipped.
CLIP_BLOCK_SIZE = {"cuda": 128, "opencl": 16}
_KEY = re.compile(r"p(\d+)/(?:vector-w(\d+)|(ours|clip))")


def render_regions(templates: Path, key: str, target: Target, only: RegionId | None = None) -> str:
    """Return the source of a module such as `p1/vector-w18`, `p2/ours` or `p2/clip`, or `only` one of its kernels."""
    match = _KEY.fullmatch(key)
    degree, width = (int(part or 0) for part in match.groups()[:2]) if match else (0, 0)
    if degree not in REGION_DEGREES or (width and width not in WIDTHS[degree] and not only):
        raise ReproError("unknown module of regions", expected="such as p1/vector-w18 or p2/ours", actual=key)
    common = {
        "dialect": target.dialect,
        "title": f"{STUDY_NAME}: integrals of regions, {key}",
        "degree": degree,
        "pieces": 3 * degree + 1,
        "half": (3 * degree + 1) / 2,
    }
    if width:
        return _render_vector(templates, degree, width, target, common, only)
    if key.endswith("clip"):
        name, block_size = f"{STUDY_NAME}/clip.j2", CLIP_BLOCK_SIZE[target.dialect]
        return render_template(
            templates, name, **common, width=3 * degree + 1, numbers=NUMBERS_PER_REGION, block_size=block_size
        )
    return _render_ours(templates, degree, target, common, (only.regions,) if only else OWN_THREADS[target.dialect])


def _render_vector(
    templates: Path, degree: int, width: int, target: Target, common: dict[str, object], only: RegionId | None
) -> str:
    nodes = [axis_nodes(axis, count) for axis, count in enumerate(element_points(degree))]
    scales = [
        [1 / np.prod([node - other_node for other_node in axis_points if other_node != node]) for node in axis_points]
        for axis_points in nodes
    ]
    ids = [
        RegionId(degree, "vector", vector_width, regions, 1)
        for vector_width, regions in width_region_pairs(degree, target)
        if vector_width == width
    ]
    ids = [only] if only else ids
    if not ids:
        raise ReproError(
            "no block of this width fits the target",
            where=region_module_key(degree, "vector", width),
            expected=f"{target.threads_per_block} threads, {target.shared_bytes} bytes of shared memory at the most",
        )
    return render_template(
        templates,
        f"{STUDY_NAME}/king_regions.j2",
        **common,
        nodes=[[repr(float(node)) for node in axis_points] for axis_points in nodes],
        scales=[[repr(float(scale)) for scale in axis_points] for axis_points in scales],
        kernels=[
            {"name": id.kernel, "width": id.width, "regions": id.regions, "launched_bytes": id.launched_bytes}
            for id in ids
        ],
        of_region=REGION_NUMBERS,
        numbers=NUMBERS_PER_REGION,
        points=full_width(degree),
        # first stride of a sum over threads: the largest power of two below the number of threads
        first_step=lambda threads: 1 << ((threads - 1).bit_length() - 1) if threads > 1 else 0,
    )


def _render_ours(
    templates: Path, degree: int, target: Target, common: dict[str, object], block_sizes: Sequence[int]
) -> str:
    rule = positive(4 * degree, 3)
    shares: Floats = rule.weights[:, None] * evaluate("lagrange", rule.points, degree)
    return render_template(
        templates,
        f"{STUDY_NAME}/region_per_thread.j2",
        **common,
        points=[[repr(float(number)) for number in row] for row in np.hstack([rule.points, shares])],
        places=[[float(share) for share in place] for place in equispaced(degree, 3)],
        monomials=[_product(powers) for powers in exponents(degree, 3).tolist()],
        block_sizes=block_sizes,
        block_size=BLOCK_SIZE[target.dialect],
    )


def _product(powers: list[int]) -> str:
    return " * ".join(name for name, power in zip("xyz", powers, strict=True) for _ in range(power))


#: First part of the keys of modules in the plane; keys in space begin with the degree, `p1/` or `p2/`.
PLANE = "plane"
#: Module of the prefix sum over the numbers of regions that clipping counts.
SORT = "double/sort"


def modules_of(degree: int) -> tuple[str, ...]:
    return tuple(f"{kernels}-p{degree}" for kernels in KERNELS)


def keys_of(degree: int | None) -> list[str]:
    """Return the keys `plane/MODULE` for a degree; for all degrees if the degree is not known yet."""
    degrees = DEGREES if degree is None else (degree,)
    return [f"{PLANE}/{module}" for degree in degrees for module in modules_of(degree)]


def region_keys(degree: int, target: Target, parts: Sequence[str]) -> list[str]:
    """Return the module keys for a list of regions: all widths that fit, our kernels, and clipping."""
    return [*region_module_keys(degree, target), *([f"p{degree}/clip", SORT] if CLIP in parts else [])]


def render_key(templates: Path, key: str, target: Target) -> str:
    group, _, module = key.partition("/")
    if group == PLANE:
        return render_siac(templates, module, target, STUDY_NAME)
    return render_module(templates, key, target, STUDY_NAME) if key == SORT else render_regions(templates, key, target)


def is_searched(id: FieldId, target: Target) -> bool:
    """Return whether the module of an id has a kernel with its numbers."""
    if isinstance(id, FilterId):
        return id.threads in block_sizes(id.module, target)
    assert isinstance(id, RegionId)
    pairs = width_region_pairs(id.degree, target)
    return (id.width, id.regions) in pairs if id.method == "vector" else id.regions in OWN_THREADS[target.dialect]


def render_alone(templates: Path, key: str, id: FieldId, target: Target) -> str:
    """Return the source of an id's kernel alone, as it is in the module `key`."""
    if isinstance(id, RegionId):
        return render_regions(templates, key, target, id)
    assert isinstance(id, FilterId)
    return render_siac(templates, key.removeprefix(f"{PLANE}/"), target, STUDY_NAME, id.threads)
