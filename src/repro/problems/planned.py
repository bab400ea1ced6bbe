"""What a plan says of a problem before it is built, from the registry or the user's own file."""

from __future__ import annotations

from repro.config.models import Limits, OwnProblem
from repro.problems.fields import size_of
from repro.problems.outline import Outline
from repro.problems.own_header import outline
from repro.problems.registry import GeneratedField, Item, MatrixItem, Own, OwnField, Registry


def planned(item: Item | OwnProblem, registry: Registry, limits: Limits) -> Outline:
    """Return what is known of a problem.

    Parameters
    ----------
    item
        The problem, registered or the configuration's own.
    registry
        Where those are found that it is made from.
    limits
        How much of a user's file may be read.

    Raises
    ------
    ReproError
        As `repro.problems.own_header.outline`.
    """
    if isinstance(item, (OwnProblem, Own, OwnField)):
        return outline(item, limits)
    size = (item.published.rows, item.published.nonzeros) if item.published else None
    if isinstance(item, GeneratedField):
        size = size_of(item.kind, item.parameters)
    # being in a set is no property of the matrix
    definition = item.model_dump(mode="json", exclude={"sets"})
    if inputs := getattr(item, "inputs", ()):
        definition["made from"] = [registry.find(name).model_dump(mode="json", exclude={"sets"}) for name in inputs]
    columns = item.published.columns if item.published and item.published.columns != item.published.rows else None
    entry = item.entry if isinstance(item, MatrixItem) and item.kind_of_problem == "matrix" else None
    return Outline(item.name, item.kind_of_problem, entry, definition, size=size, columns=columns)
