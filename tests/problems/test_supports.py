"""Fixed vertices of elastic meshes: planes, boxes and physical groups, and the rigid motions that are left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import meshio
import numpy as np
import pytest
import scipy.sparse as sp
from test_meshreaders_gmsh import by_entities, listed

from repro.cli.problems import describe
from repro.config.models import Config, Fixed, Limits, OwnProblem
from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.assembly import Assembled, elastic_body, fixed_vertices, rigid_motions, singular_note
from repro.problems.builder import build
from repro.problems.generators import lattice_box
from repro.problems.meshes import read_group, tetrahedron_volumes

CELLS = (2, 2, 3)
LATTICE, TETS = lattice_box(CELLS)
TETS = np.where((tetrahedron_volumes(LATTICE, TETS) > 0)[:, None], TETS, TETS[:, [0, 1, 3, 2]])
BOTTOM = LATTICE[:, 2] == 0


def dense(matrix: Assembled) -> np.ndarray:
    blocks = get_entry("block3").expand(matrix.values)
    return sp.bsr_array((blocks, matrix.indices, matrix.indptr), shape=(3 * matrix.n, 3 * matrix.n)).toarray()


@pytest.fixture
def mesh(tmp_path: Path) -> Path:
    path = tmp_path / "part.msh"
    meshio.write(path, meshio.Mesh(LATTICE, [("tetra", TETS)]), file_format="gmsh")
    return path


def built(path: Path, fixed: Any = ()) -> Any:
    problem = OwnProblem(path=str(path), entry="block3", fixed=fixed)
    return build(problem, Config(studies={"compound_spmv": {"problems": [problem]}}))


def positive(problem: Any) -> str:
    """Return what `repro problem --info` prints of a matrix that is semidefinite by construction."""
    labels, values = (list(column.cells) for column in describe(problem, Path("p.npz")).columns)
    assert "semidefinite" not in labels
    return str(values[labels.index("positive")])


@pytest.mark.medium
@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize(
    "fixed",
    [
        {"z": 0.0},
        {"z": "min"},
        {"box": [[0, 0, 0], [2, 2, 0.5]]},
        [{"z": 0, "x": 0}, {"z": 0, "box": [[0.5, 0, 0], [2, 2, 3]]}],
    ],
)
def test_a_body_that_is_held_is_the_free_one_without_rows_and_columns(mesh: Path, fixed: object) -> None:
    free, held = built(mesh), built(mesh, fixed)
    kept = np.repeat(~BOTTOM, 3)
    whole, inner = (dense(Assembled(of.n, of.indptr, of.indices, of.values)) for of in (free, held))
    np.testing.assert_array_equal(inner, whole[kept][:, kept])
    assert np.linalg.eigvalsh(inner)[0] > 1e-3 > abs(np.linalg.eigvalsh(whole)[5])
    assert free.origin["notes"] == ["singular: six rigid motions"]
    assert held.origin["notes"] == [f"{BOTTOM.sum()} of {len(LATTICE)} vertices fixed"]
    assert positive(free) == "semidefinite, singular: six rigid motions"
    assert positive(held) == "definite (held)"


@pytest.mark.parametrize(
    ("held", "left"), [([], 6), ([0], 3), ([0, 1], 1), ([0, 1, 2], 1), ([0, 1, 3], 0), (range(9), 0)]
)
def test_motions_are_counted_as_the_null_space_has_them(held: list[int], left: int) -> None:
    fixed = np.zeros(len(LATTICE), bool)
    fixed[list(held)] = True
    assert rigid_motions(LATTICE, TETS, fixed) == left
    spectrum = np.linalg.eigvalsh(dense(elastic_body(LATTICE, TETS, fixed)))
    assert (spectrum < 1e-9 * spectrum[-1]).sum() == left


def test_each_part_moves_alone() -> None:
    two = np.concatenate([LATTICE, LATTICE + 9]), np.concatenate([TETS, TETS + len(LATTICE)])
    assert rigid_motions(*two) == 12
    assert rigid_motions(*two, np.concatenate([BOTTOM, np.zeros_like(BOTTOM)])) == 6
    assert singular_note(12) == ("singular: 12 rigid motions",)
    assert singular_note(1) == ("singular: one rigid motion",)


def entities(version: str, order: str, size: int) -> bytes:
    """The mesh of `by_entities`, whose second volume is the group `held`, and its surface the group 7."""
    import struct

    later = version == "4.1"
    integer = "Q" if size == 8 else "I"
    parts = [b'$PhysicalNames\n1\n3 10 "held here"\n$EndPhysicalNames\n$Entities\n']

    def put(form: str, *of: float) -> None:
        parts.append(struct.pack(order + form, *of) if order else " ".join(map(str, of)).encode() + b"\n")

    put(4 * integer, 1, 0, 1, 2)
    put("i3d" if later else "i6d", 1, *[0.5] * (3 if later else 6))
    put(integer, 0)
    for tag, group in ((1, [7]), (1, []), (2, [-10, 3])):
        put("i6d", tag, *[0.5] * 6)
        put(integer, len(group))
        put(f"{len(group)}i", *group)
        put(integer, 1)
        put("i", 1)
    whole = by_entities(version, order, size)
    place = whole.index(b"$Nodes")
    return whole[:place] + b"".join(parts) + b"\n$EndEntities\n" + whole[place:]


FILES = {
    **{f"{version} {order}": listed(version, order=order) for version, order in (("1", ""), ("2.2", ""), ("2.2", ">"))},
    **{f"{version} {order}{size}": entities(version, order, size)
       for version in ("4.0", "4.1") for order, size in (("", 8), ("<", 8), ("<", 4), (">", 8))},
}  # fmt: skip


@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize("name", FILES)
def test_a_groups_points_are_found_in_every_version(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.msh"
    path.write_bytes(FILES[name])
    whole = read_group(path, Limits(), 10)
    if name[0] in "12":
        assert len(whole) == 8  # all volumes are in group 10
        assert len(read_group(path, Limits(), 11)) < 8
    else:
        assert sorted(map(tuple, whole)) == sorted(map(tuple, read_group(path, Limits(), "held here")))
        assert 4 <= len(whole) <= 8 and len(read_group(path, Limits(), 7)) == 3
    with pytest.raises(ReproError, match="no elements of this physical group"):
        read_group(path, Limits(), "elsewhere")


@pytest.mark.usefixtures("read_here")
def test_a_group_is_held(tmp_path: Path) -> None:
    path = tmp_path / "a.msh"
    path.write_bytes(FILES["4.1 8"])
    assert built(path, {"group": 7}).n == 8 - 3


def test_what_cannot_be_held_is_refused(mesh: Path, tmp_path: Path) -> None:
    for fixed, words in (
        (Fixed(z=9), r"no vertex of the mesh[\s\S]*to \(2.0, 2.0, 3.0\)[\s\S]*'z': 9"),
        (Fixed(box=((0, 0, 0), (9, 9, 9))), "all vertices of the mesh are fixed"),
    ):
        with pytest.raises(ReproError, match=words):
            fixed_vertices(LATTICE, [fixed], {}, mesh)
    with pytest.raises(ReproError, match="no physical groups"):
        read_group(tmp_path / "a.vtu", Limits(), "held")
    with pytest.raises(ValueError, match="has no `fixed`: write `entry: block3`"):
        OwnProblem(path="a.msh", entry="quaternion", fixed={"x": 0})
    with pytest.raises(ValueError, match="at the least"):
        OwnProblem(path="a.msh", entry="block3", fixed=[{}])
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 1 1\n")
    with pytest.raises(ReproError, match="only vertices of a mesh can be fixed"):
        built(tmp_path / "a.mtx", {"x": 0})
