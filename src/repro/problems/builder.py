"""Builds a problem by name: obtains input files, assembles or folds the matrix, checks it and records its origin."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from repro.config.models import Config, OwnProblem
from repro.errors import ReproError
from repro.problems.assembly import Assembled, assemble_dirac, elastic_body, fold_blocks
from repro.problems.fetch import Found
from repro.problems.field import Field
from repro.problems.files import mesh_checksum
from repro.problems.generated_fields import FIELD_KINDS, generate_field
from repro.problems.generators import KINDS, generate
from repro.problems.matrix import Matrix, Updates, draw_batches
from repro.problems.own_problems import assemble_own, read_field
from repro.problems.problem import Problem
from repro.problems.registry import (
    Generated,
    GeneratedField,
    LocalFile,
    OwnField,
    ProblemSpec,
    Recipe,
    Registry,
    Stanford,
    Suitesparse,
    Tetmesh,
    load_registry,
    own_name,
)
from repro.problems.repositories import MeshFile, obtain_recipe, read_stanford, read_suitesparse, read_tetmesh

# Maximum relative deviation of a rebuilt mesh's matrix from the published numbers of rows and non-zeros.
ROWS_TOLERANCE, NONZEROS_TOLERANCE = 0.01, 0.05

BuildResult = tuple[str, Assembled, dict[str, Any]]


def build(problem: str | OwnProblem, config: Config, registry: Registry | None = None) -> Problem:
    """Build a problem from its name, or from an item of the registry or configuration; validate it and add statistics.

    The problem's `origin` contains source, address, checksum and its state, counts, parameters, licence, credit and
    notes. Some problems also have `rebuilt`, `stand_in`, `updates` (how batches were drawn), `semidefinite` (true of a
    matrix that is symmetric positive semidefinite by construction), or, for a generated field, `kind` and `function`.
    Raises `ReproError`: the name is unknown, input is unavailable or unusable, or the matrix size differs from the
    published size.
    """
    item = find(problem, config, registry) if isinstance(problem, str) else problem
    name = own_name(item) if isinstance(item, OwnProblem) else item.name
    if item.kind_of_problem == "field":
        try:
            return _field(item, name, config).complete()
        except MemoryError:
            raise _memory_error(name) from None
    updates = getattr(item, "updates", None)
    seed = config.seed if updates is None or updates.seed is None else updates.seed
    try:
        entry, assembled, origin = _assemble(item, config)
        if not isinstance(item, OwnProblem):
            _check_size(item, assembled)
        batches: dict[str, Any] = draw_batches(assembled, updates, seed, name) if updates else {}
    except MemoryError:
        raise _memory_error(name) from None
    known_traits = {"semidefinite": True} if assembled.semidefinite else {}
    parts: dict[str, Any] = {
        "n": assembled.n,
        "indptr": assembled.indptr,
        "indices": assembled.indices,
        "values": assembled.values,
        "columns": assembled.columns,
        "origin": {**_description(item), **origin, "notes": list(assembled.notes), **known_traits},
    }
    if updates is None:
        return Matrix(name, entry, **parts).complete()
    batch_parameters = {key: value for key, value in updates.model_dump(mode="json").items() if value not in (None, [])}
    parts["origin"]["updates"] = {**batch_parameters, "seed": seed}
    return Updates(name, **parts, **batches).complete()


def find(name: str, config: Config, registry: Registry | None = None) -> ProblemSpec | OwnProblem:
    """Find a problem by name among the configuration's own problems and the registry; raise `ReproError` if there is
    none.
    """
    for study in config.studies.values():
        for requested in () if isinstance(study.problems, str) else study.problems:
            if isinstance(requested, OwnProblem) and own_name(requested) == name:
                return requested
    return (registry or load_registry(Path(config.registry))).find(name)


def mesh_of(item: ProblemSpec | OwnProblem, config: Config) -> Found[MeshFile]:
    """Return the mesh on which the matrix of a registered problem is assembled.

    Raises `ReproError`: the problem is not assembled on an external mesh, or the mesh can neither be obtained nor
    built.
    """
    match item:
        case Stanford():
            return read_stanford(item, config.fetch, config.limits)
        case Tetmesh():
            return read_tetmesh(item, config.fetch, config.limits)
        case Recipe():
            return obtain_recipe(item, config.fetch, Path(config.registry))
    raise ReproError(
        "the problem has no mesh",
        where=own_name(item) if isinstance(item, OwnProblem) else item.name,
        expected="a registered problem of source stanford, tetmesh or recipe",
    )


def _memory_error(name: str) -> ReproError:
    return ReproError("not enough memory to build the problem", where=name)


def _field(item: ProblemSpec | OwnProblem, name: str, config: Config) -> Field:
    match item:
        case GeneratedField():
            parameters = dict(item.parameters)
            if item.kind in FIELD_KINDS and "seed" in signature(FIELD_KINDS[item.kind].build).parameters:
                parameters.setdefault("seed", config.seed)
            field = generate_field(item.kind, **parameters)
            sha256 = mesh_checksum(field.vertices, field.cells)
            if item.checksum not in (None, sha256):
                raise ReproError(
                    "the generated mesh differs from the registry's",
                    where=f"{config.registry}: {name}",
                    expected=item.checksum,
                    actual=sha256,
                    todo="NumPy and SciPy may draw or triangulate differently in other versions: use the versions "
                    "of the compared results, or change `checksum`",
                )
            state = "pinned" if item.checksum else "unpinned"
            origin = {
                "address": f"generated: {item.kind}",
                "kind": item.kind,
                **field.origin,
                "checksum": {"sha256": sha256, "state": state},
                "counts": {"vertices": len(field.vertices), "cells": len(field.cells)},
                "parameters": parameters,
                "notes": [],
            }
        case OwnField() | OwnProblem():
            field = read_field(item, config.limits)
            origin = {"address": item.path, **field.origin}
        case _:
            raise AssertionError(f"{item.source} gives matrices")
    return replace(field, name=name, origin={**_description(item), **origin})


def _assemble(item: ProblemSpec | OwnProblem, config: Config) -> BuildResult:
    match item:
        case Suitesparse():
            return _assemble_suitesparse(item, config)
        case Stanford():
            surface = mesh_of(item, config)
            rho = item.rho
            assembled = assemble_dirac(surface.content.vertices, surface.content.cells, rho, seed=config.seed)
            parameters: dict[str, Any] = {"seed": config.seed} if rho is None else {"rho": rho}
            if item.subdivide:
                parameters["subdivide"] = item.subdivide
            return item.entry, *_mesh_result(surface, assembled, parameters)
        case Tetmesh() | Recipe():
            solid = mesh_of(item, config)
            elastic = {"young": item.young, "poisson": item.poisson}
            assembled = elastic_body(
                solid.content.vertices, solid.content.cells, young=item.young, poisson=item.poisson
            )
            assembled, origin = _mesh_result(solid, assembled, elastic)
            inputs = {"inputs": list(item.inputs)} if isinstance(item, Recipe) else {}
            return item.entry, assembled, {**inputs, **origin}
        case Generated():
            return _assemble_generated(item, config)
        case LocalFile() | OwnProblem():
            fixed_supports = item.fixed if isinstance(item, OwnProblem) else ()
            entry, assembled, origin = assemble_own(
                item.path, item.wanted_entry, config.seed, config.limits, fixed_supports
            )
            return entry, assembled, {"address": item.path, **origin}
    raise AssertionError(f"{item.source} gives fields")


def _assemble_suitesparse(item: Suitesparse, config: Config) -> BuildResult:
    found_matrix = read_suitesparse(item, config.fetch, config.limits)
    file = found_matrix.content.file
    assembled = fold_blocks(file.matrix, item.entry, found_matrix.paths[0])
    origin = {
        "address": found_matrix.address,
        "group": item.group,
        "matrix": item.matrix,
        "header": file.header,
        "index": found_matrix.details.get("index"),
        "checksum": found_matrix.content.checksum,
        "counts": file.counts,
    }
    return item.entry, replace(assembled, notes=(*file.notes, *assembled.notes)), origin


def _mesh_result(
    found_mesh: Found[MeshFile], assembled: Assembled, parameters: dict[str, Any]
) -> tuple[Assembled, dict[str, Any]]:
    mesh = found_mesh.content
    origin = {
        "address": found_mesh.address,
        "checksum": mesh.checksum,
        "counts": {"vertices": len(mesh.vertices), "cells": len(mesh.cells)},
        "parameters": parameters,
    }
    return replace(assembled, notes=(*mesh.notes, *assembled.notes)), origin


def _assemble_generated(item: Generated, config: Config) -> BuildResult:
    parameters = dict(item.parameters)
    kind = KINDS.get(item.kind)
    if kind is not None:
        if kind.entry != item.entry:
            raise ReproError(
                "this kind of generated problem has a different entry",
                where=f"{config.registry}: {item.name}",
                expected=f"entry: {kind.entry}",
                actual=f"entry: {item.entry}",
            )
        if "seed" in signature(kind.build).parameters:
            parameters.setdefault("seed", config.seed)
    assembled = generate(item.kind, **parameters)
    return item.entry, assembled, {"address": f"generated: {item.kind}", "parameters": parameters}


def _description(item: ProblemSpec | OwnProblem) -> dict[str, Any]:
    """Return the registry's description of a problem, without empty values; for a user's own problem its source."""
    if isinstance(item, OwnProblem):
        return {"source": "own"}
    fields = {
        "source": item.source,
        "licence": item.licence,
        "credit": item.credit,
        "published": item.published.model_dump(exclude_none=True) if item.published else None,
        "rebuilt": item.is_rebuilt,
        "stand_in": item.stand_in,
        "note": item.note,
    }
    return {key: value for key, value in fields.items() if value}


def _check_size(item: ProblemSpec, assembled: Assembled) -> None:
    if item.published is None:
        return
    columns = assembled.n if assembled.columns is None else assembled.columns
    for items, actual, published, tolerance in (
        ("rows", assembled.n, item.published.rows, ROWS_TOLERANCE),
        ("columns", columns, item.published.columns or item.published.rows, ROWS_TOLERANCE),
        ("non-zeros", len(assembled.indices), item.published.nonzeros, NONZEROS_TOLERANCE),
    ):
        allowed = tolerance * published if item.is_rebuilt else 0
        if abs(actual - published) > allowed:
            raise ReproError(
                "the size of the matrix differs from the published one",
                where=item.name,
                expected=f"{published} {items}" + (f" within {tolerance:.0%}" if item.is_rebuilt else ""),
                actual=f"{actual} {items}",
                todo="the input differs from the papers': delete it and fetch it again"
                if not item.is_rebuilt
                else "newer meshing packages may mesh differently: try the versions in pyproject.toml",
            )
