"""What a user's own file says of itself, read from its name and its first lines without building the problem."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from repro.config.models import Limits, OwnProblem
from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.files import locate_own, open_plain
from repro.problems.market_header import ENDINGS, ENTRIES, Header, is_matrix_market, member_of, read_header
from repro.problems.meshformats import FORMATS, TETGEN_PAIR, companion, companions, format_of
from repro.problems.outline import Outline
from repro.problems.own_field import check_field_file
from repro.problems.registry import Own, OwnField, own_name

__all__ = ["Said", "companions", "describe", "entry_of", "outline"]
#: The entries that are computed on a mesh.
OF_MESHES = ("quaternion", "block3")


class Said(NamedTuple):
    """What is known of a user's own problem before it is built.

    Attributes
    ----------
    entry
        What its non-zeros are; the build gives the same.
    size
        Rows and non-zeros, counted in entries; None where only building it tells.
    at_most
        Whether the non-zeros may be fewer: zeros are dropped, entries that come twice are added up, those of a half
        are written once or twice, and blocks are filled.
    columns
        Columns, counted in entries; None: as many as rows.
    """

    entry: str
    size: tuple[int, int] | None = None
    at_most: bool = False
    columns: int | None = None


def outline(problem: OwnProblem | Own | OwnField, limits: Limits) -> Outline:
    """Return what is known of a user's own problem, registered or not, before it is built.

    Raises
    ------
    ReproError
        As `describe`; or the file of a field is not there, or of a format that keeps no data of cells.
    """
    own = isinstance(problem, OwnProblem)
    name = own_name(problem) if isinstance(problem, OwnProblem) else problem.name
    # being in a set is no property of the matrix
    definition = problem.model_dump(mode="json", exclude=None if own else {"sets"})
    path = locate_own(problem.path)
    if isinstance(problem, OwnField) or problem.kind_of_problem == "field":
        check_field_file(path)
        return Outline(name, "field", None, definition, (path,))
    said = describe(problem, limits)
    return Outline(
        name,
        problem.kind_of_problem,
        None if problem.updates else said.entry,
        definition,
        companions(path),
        said.size,
        at_most=said.at_most,
        columns=said.columns,
    )


def describe(problem: OwnProblem | Own, limits: Limits | None = None) -> Said:
    """Return what a file says of the problem.

    Of a Matrix Market file, packed or not, no more is read than `limits.header` bytes, unpacked; of a mesh nothing.

    Raises
    ------
    ReproError
        The file is not there, cannot be read or is of no kind that can; neither the configuration nor the file says
        what its entries are; or the build would refuse what its first lines say.
    """
    path = locate_own(problem.path)
    limits = limits or Limits()
    if not is_matrix_market(path):
        entry = entry_of(path, problem.wanted_entry, None)
        suffix = format_of(path)
        if suffix in TETGEN_PAIR:
            companion(path, suffix)
        return Said(entry)
    with open_plain(path, limits, member_of(path)) as stream:
        header = read_header(stream, path, limits)
    entry = entry_of(path, problem.wanted_entry, header)
    k = 1 if entry in ENTRIES.values() else get_entry(entry).size
    rows, columns = header.rows // k, header.columns // k
    nonzeros = min(header.most, rows * columns) if k > 1 else header.most
    exact = entry == header.field == "pattern" and header.symmetry == "general"
    return Said(entry, (rows, nonzeros), not exact and nonzeros > 0, None if rows == columns else columns)


def entry_of(path: Path, entry: str | None, header: Header | None) -> str:
    """Return what the entries of a problem are, by its configuration or the file's header: the plan and the build ask.

    Parameters
    ----------
    path, entry
        As the configuration has them.
    header
        Of a Matrix Market file; None for every other.

    Raises
    ------
    ReproError
        The file is of an unknown kind, the entry does not fit it, or nothing says what it is.
    """
    if header is not None:
        header.check_entry(entry or header.entry, path)
        return entry or header.entry
    if format_of(path) is None:
        raise ReproError(
            "unknown kind of file",
            where=path,
            expected=f"a matrix ({' '.join(ENDINGS)}) or a mesh ({' '.join(FORMATS)}, bare, .gz or .xz)",
            actual=path.name,
        )
    if entry not in OF_MESHES:
        raise ReproError(
            "a mesh needs an entry that can be computed on it, since the file does not say what its entries are",
            where=path,
            expected="entry: quaternion (a surface) or block3 (tetrahedra)",
            actual=f"entry: {entry}" if entry else "no entry",
            todo="add `entry: quaternion` for a surface, `entry: block3` for a tetrahedral mesh",
        )
    return entry
