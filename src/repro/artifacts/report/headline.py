"""What stands on top of the page: each study's result in one number, and several campaigns beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from repro.artifacts.document import Cell, Column, Result, Table


@dataclass(frozen=True)
class Card:
    """A study's result, as the template takes it.

    Attributes
    ----------
    result
        Which number it is.
    says
        What the number is, the library named.
    numbers
        As printed, by campaign.
    others
        By campaign the same number by other clocks.
    table
        The tables of these campaigns beside each other; None where there is one alone.
    """

    result: Result
    says: str
    numbers: Mapping[str, str]
    others: Mapping[str, Mapping[str, str]]
    table: Table | None = None


def make_card(result: Result, library: str, tables: Mapping[str, Table]) -> Card:
    """Return the result of a study.

    Parameters
    ----------
    library
        What the baselines are of; may be empty.
    tables
        By campaign the table that the result is in.
    """
    return Card(
        result,
        result.said_of(next(iter(tables.values()))).format(library=library or "the library"),
        {name: result.cell(table).shown for name, table in tables.items()},
        {
            name: {clock: cell.shown for clock, cell in result.by_other_clocks(table).items()}
            for name, table in tables.items()
        },
        side_by_side(tables) if len(tables) > 1 else None,
    )


def side_by_side(tables: Mapping[str, Table]) -> Table:
    """Return one table of several campaigns' tables of one kind: lines of the same first cell are one line.

    Columns without a group, which say nothing of a campaign, are the first one's.
    """
    first = next(iter(tables.values()))
    shared = [at for at, column in enumerate(first.columns) if not column.group]
    columns = [first.columns[at] for at in shared]
    own: dict[str, list[int]] = {}
    for name, table in tables.items():
        own[name] = [at for at, column in enumerate(table.columns) if column.group]
        columns += [_of(name, table.columns[at]) for at in own[name]]
    by_line = {name: {row[0].shown: row for row in table.rows} for name, table in tables.items()}
    lines = dict.fromkeys(line for rows in by_line.values() for line in rows)
    rows = []
    for line in lines:
        heads = by_line[next(iter(tables))].get(line)
        cells = [heads[at] for at in shared] if heads else [Cell(line), *[Cell()] * (len(shared) - 1)]
        for name, places in own.items():
            row = by_line[name].get(line)
            cells += [row[at] if row else Cell() for at in places]
        rows.append(tuple(cells))
    return Table(tuple(columns), rows, f"{first.caption.partition('. ')[0].rstrip('.')}: {' beside '.join(tables)}.")


def _of(campaign: str, column: Column) -> Column:
    return replace(column, group=f"{campaign}, {column.group}")
