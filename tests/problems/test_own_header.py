"""What the first lines of a user's own file say."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from repro.config.models import Limits, OwnProblem
from repro.errors import ReproError
from repro.problems.files import locate_own
from repro.problems.matrix_market import member_of
from repro.problems.own_problems import assemble_own, describe_file, outline

pytestmark = pytest.mark.medium


def write(path: Path, banner: str, sizes: str = "4 4 6") -> str:
    text = f"%%MatrixMarket matrix coordinate {banner}\n% a remark\n\n{sizes}\n1 1 1.0\n"
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opener(path, "wt") as file:
        file.write(text)
    return str(path)


@pytest.mark.parametrize(
    ("banner", "expected"),
    [
        ("complex general", ("complex", (4, 6), "at most")),
        ("real general", ("real", (4, 6), "at most")),
        ("integer general", ("real", (4, 6), "at most")),
        ("pattern general", ("pattern", (4, 6), "stated")),  # each is there once, and is no zero
        ("pattern symmetric", ("pattern", (4, 12), "at most")),
        ("real skew-symmetric", ("real", (4, 12), "at most")),
        ("complex hermitian", ("complex", (4, 12), "at most")),
    ],
)
def test_the_header_states_entry_and_size_or_a_bound(banner: str, expected: tuple[Any, ...], tmp_path: Path) -> None:
    assert describe_file(OwnProblem(path=write(tmp_path / "a.mtx", banner)))[:3] == expected


@pytest.mark.parametrize("name", ["a.mtx.gz", "a.mtx.xz"])
def test_compressed_files_are_read(name: str, tmp_path: Path) -> None:
    assert describe_file(OwnProblem(path=write(tmp_path / name, "complex general")))[:2] == ("complex", (4, 6))


def test_folding_changes_the_size(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mtx", "real general", "8 12 60")
    assert describe_file(OwnProblem(path=path, entry="quaternion")) == ("quaternion", (2, 6), "at most", 3, None)
    assert describe_file(OwnProblem(path=path, entry="real")) == ("real", (8, 60), "at most", 12, None)


def test_a_pattern_may_be_taken_as_real_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mtx", "pattern general")
    assert describe_file(OwnProblem(path=path, entry="real"))[:3] == ("real", (4, 6), "at most")


COORDINATES = {
    "real": " 2",
    "double": " 1",
    "integer": " 1",
    "unsigned-integer": " 2",
    "complex": " 2 0",
    "pattern": "",
}
BANNERS = [
    (f"{form} {field} {symmetry}", entry)
    for form in ("coordinate", "array")
    for field in COORDINATES
    for symmetry in ("general", "symmetric", "skew-symmetric", "hermitian")
    for entry in (None, "real", "complex", "pattern", "block3", "quaternion")
]


@pytest.mark.sampled(192)
@pytest.mark.parametrize(("banner", "entry"), BANNERS)
@pytest.mark.parametrize("twice", [False, True])
def test_the_plan_and_the_build_agree_on_every_kind_of_file(
    tmp_path: Path, banner: str, entry: str | None, twice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry is the same, the size is a bound, and what the plan refuses the build does, in the same words."""
    monkeypatch.setattr("repro.problems.matrix_market.read_isolated", lambda read, *_, **__: read())
    form, field, symmetry = banner.split()
    value = COORDINATES[field].strip()
    n = 12
    places = [(row, row - 1) for row in range(2, n + 1)] + [(2, 1)] * twice
    lines = [f"{row} {column} {value}" for row, column in places]
    size = f"{n} {n} {len(lines)}"
    if form == "array":
        dense = {"general": n * n, "skew-symmetric": n * (n - 1) // 2}.get(symmetry, n * (n + 1) // 2)
        lines, size = [value] * dense, f"{n} {n}"
    path = tmp_path / "a.mtx"
    path.write_text(f"%%MatrixMarket matrix {banner}\n{size}\n" + "\n".join(lines) + "\n")
    planned = describe_file(OwnProblem(path=str(path), entry=entry))
    if planned.refused:
        with pytest.raises(ReproError) as told:
            assemble_own(path, entry)
        assert str(told.value) == str(planned.refused)
        return
    try:
        built, assembled, _ = assemble_own(path, entry)
    except ReproError as refusal:  # by what only the entries say
        assert refusal.what in (
            "the matrix is not a pattern",
            "an entry of a pattern occurs twice",
            f"the matrix is not a {entry} matrix",
        )
        return
    assert built == planned.entry
    assert planned.size is not None
    rows, nonzeros = planned.size
    assert (rows, planned.columns) == (assembled.n, assembled.columns)
    assert len(assembled.indices) == nonzeros or (planned.size_from == "at most" and len(assembled.indices) < nonzeros)


def test_a_file_may_be_in_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "a.mtx", "real general")
    assert describe_file(OwnProblem(path="~/a.mtx"))[:2] == ("real", (4, 6))


@pytest.mark.parametrize("name", ["a.mtx", "a.v1.mtx.gz", "a.v1.tar.gz", "a.tgz", "A.MTX.XZ"])
@pytest.mark.parametrize("written", ["relative", "home", "absolute"])
def test_a_path_means_the_same_to_plan_workflow_and_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, written: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "sub" / name
    file.parent.mkdir()
    text = b"%%MatrixMarket matrix coordinate complex general\n2 2 1\n2 1 3 4\n"
    if file.suffix in (".tgz", ".gz") and "mtx" not in name:
        with tarfile.open(file, "w:gz") as archive:
            for member, content in (("a/readme.txt", b"x" * 5000), (f"a/{member_of(file)}", text)):
                info = tarfile.TarInfo(member)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    else:
        file.write_bytes({".gz": gzip.compress, ".xz": lzma.compress}.get(file.suffix.lower(), bytes)(text))
    start = {"relative": "", "home": "~/", "absolute": f"{tmp_path}/"}[written]
    problem = OwnProblem(path=f"{start}sub/{name}", name="a")
    planned = outline(problem, Limits())
    assert (planned.entry, planned.size) == ("complex", (2, 1))
    assert planned.files and planned.files[0].samefile(file)
    assert planned.files[0] == locate_own(problem.path)
    entry, assembled, _ = assemble_own(problem.path, None)
    assert (entry, assembled.values.tolist()) == ("complex", [[3, 4]])


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mtx")
    (tmp_path / "folder.mtx").mkdir()
    for path, said in (
        (tmp_path / "folder.mtx", r"a regular file[\s\S]*a folder"),
        (tmp_path / "pipe.mtx", r"a regular file[\s\S]*a named pipe"),
        (Path("/dev/zero"), r"a regular file[\s\S]*a device"),
        (tmp_path / "none.mtx", "no such file"),
        (tmp_path / "pipe.mtx/a.mtx", "no such file"),
        (tmp_path / ("a" * 300 + ".mtx"), r"the path is invalid[\s\S]*too long"),
        (tmp_path / "{wild}.mtx", r"the path is invalid[\s\S]*braces"),
        (tmp_path / "a\0.mtx", "the path is invalid"),
        (Path("~nobody-of-this-name/a.mtx"), "the path is invalid"),
    ):
        for read in (
            lambda p=path: describe_file(OwnProblem.model_construct(path=str(p), entry=None)),
            lambda p=path: assemble_own(p, None),
        ):
            with pytest.raises(ReproError, match=said):
                read()


@pytest.mark.parametrize("name", ["a.mtx.gz", "a.mtx.xz", "a.tgz"])
def test_a_damaged_archive_is_one_message_to_plan_and_build(tmp_path: Path, name: str) -> None:
    """Every bit of a small one is flipped; a checksum at the end only the build comes to."""
    text = b"%%MatrixMarket matrix coordinate real general\n3 3 3\n1 1 1.25\n2 2 2.5\n3 3 3.75\n"
    if name == "a.tgz":
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            info = tarfile.TarInfo("a.mtx")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
        text = buffer.getvalue()
    packed = (lzma if name.endswith("xz") else gzip).compress(text)
    path = tmp_path / name
    refused = 0
    for place in range(len(packed)):
        path.write_bytes(packed[:place] + bytes([packed[place] ^ (1 << place % 8)]) + packed[place + 1 :])
        refused += describe_file(OwnProblem(path=str(path))).refused is not None
    assert refused > len(packed) // 4


@pytest.mark.parametrize(
    ("banner", "sizes", "entry", "said"),
    [
        ("real general", "4 4 6", "block3", "cannot be divided into 3 x 3 blocks"),
        ("complex general", "4 4 6", "real", "does not match the entry"),
        ("real general", "4 4 6", "complex", "does not match the entry"),
        ("real symmetric", "4 5 6", None, "not square"),
        ("real general", "4 4", None, "not a complete Matrix Market file"),
        ("real general", "four by four", None, "not a complete Matrix Market file"),
        ("pattern skew-symmetric", "4 4 1", None, "not a complete Matrix Market file"),
        ("real general and more", "4 4 1", None, "not a complete Matrix Market file"),
    ],
)
def test_what_is_known_to_be_refused_is_said_by_the_outline(
    tmp_path: Path, banner: str, sizes: str, entry: str | None, said: str
) -> None:
    path = write(tmp_path / "a.mtx", banner, sizes)
    refused = describe_file(OwnProblem(path=path, entry=entry)).refused
    assert refused is not None and re.search(said, refused.message)
    with pytest.raises(ReproError, match=said):
        assemble_own(path, entry)


def test_a_mesh_of_two_files_has_both(tmp_path: Path) -> None:
    (tmp_path / "a.node").touch()
    with pytest.raises(ReproError, match="one of them is missing"):
        describe_file(OwnProblem(path=str(tmp_path / "a.node"), entry="block3"))
    (tmp_path / "a.ele.gz").touch()
    assert describe_file(OwnProblem(path=str(tmp_path / "a.node"), entry="block3")).entry == "block3"


def test_a_mesh_needs_its_entry(tmp_path: Path) -> None:
    path = tmp_path / "part.ply"
    path.write_bytes(b"ply\nformat binary_little_endian 1.0\n\xff\xfe\n")
    assert describe_file(OwnProblem(path=str(path), entry="quaternion"))[:3] == ("quaternion", (1, 7), "by length")
    with pytest.raises(ReproError, match=r"add `entry: quaternion`"):
        describe_file(OwnProblem(path=str(path)))


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("a.mesh", "MeshVersionFormatted 2\n# made by hand\nDimension 3\nRequiredVertices\n7\n1\nVertices\n1025\n"),
        ("a.msh", "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n1025\n1 0 0 0\n"),
        ("a.msh", "$MeshFormat\n4.0 0 8\n$EndMeshFormat\n$Entities\n9 9 9 9\n$EndEntities\n$Nodes\n9 1025\n"),
        ("a.msh.gz", "$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$Nodes\n9 1025 1 1030\n"),
        ("a.msh", "$NOD\n1025\n1 0 0 0\n"),
        ("a.ele", "# TetGen\n1025 3 0 0\n"),
        ("a.off", "OFF\n# a comment of 3 words\n1025 2046 0\n"),
        ("a.ply", "ply\nformat binary_little_endian 1.0\nelement vertex 1025\nproperty float x\n"),
        ("a.vtk", "# vtk DataFile Version 2.0\n7\nASCII\nDATASET POLYDATA\nPOINTS 1025 float\n"),
    ],
)
def test_the_vertices_that_a_mesh_states_are_its_size(tmp_path: Path, name: str, head: str) -> None:
    path = tmp_path / name
    content = head.encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    if name == "a.ele":
        path.rename(tmp_path / "a.node")
        path.write_text("5 4 0\n")
    own = OwnProblem(path=str(path), entry="block3")
    assert describe_file(own)[1:3] == ((1025, 14 * 1025), "by vertices")
    # no file has so many: it is damaged, which the build says
    path.with_name("a.node" if name == "a.ele" else name).write_text(head.replace("1025", "1025" * 9))
    assert describe_file(own).size_from == "by length"


@pytest.mark.parametrize("name", ["a.mtx.gz", "a.mtx.xz"])
def test_a_file_that_is_not_packed_as_its_name_says_is_read(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n")
    # what it is, its first bytes say: some servers undo the packing on the way
    assert (
        describe_file(OwnProblem(path=str(tmp_path / name))).entry == assemble_own(tmp_path / name, None)[0] == "real"
    )
