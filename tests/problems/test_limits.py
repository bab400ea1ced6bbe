"""What reading a file may take: each limit is one message with the numbers and the key, and it is kept."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import math
import struct
import subprocess
import sys
import tarfile
import zlib
from functools import partial
from pathlib import Path

import pytest
from pydantic import ValidationError

from repro.campaign.configuration import load
from repro.config.models import Limits, OwnProblem
from repro.errors import ReproError
from repro.problems.files import ALWAYS, unpack
from repro.problems.matrix_market import read_matrix
from repro.problems.meshes import read_surface
from repro.problems.own_problems import describe_file

pytestmark = pytest.mark.medium

HEAD = b"%%MatrixMarket matrix coordinate real general\n"
MIB = 1 << 20
PROGRAM = """
import json, resource, sys
from pathlib import Path
from repro.config.models import OwnProblem
from repro.errors import ReproError
from repro.problems.matrix_market import read_matrix
from repro.problems.meshes import read_surface
from repro.problems.own_problems import describe_file
import repro.problems.meshreaders.ply  # takes what it takes before
def peak():
    return 1024 * max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
how, *paths = sys.argv[1:]
read = {"plan": lambda path: describe_file(OwnProblem(path=path)), "matrix": lambda path: read_matrix(Path(path)),
        "mesh": lambda path: read_surface(Path(path))}[how]
before, found = peak(), []
for path in paths:
    try:
        said = repr(read(path))
    except ReproError as error:
        said = str(error)
    found.append([said, peak() - before])
print(json.dumps(found))
"""


def measure(how: str, *paths: Path) -> list[tuple[str, int]]:
    """Read files in a fresh process: what each said, and the bytes of memory that all so far took."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, how, *paths], capture_output=True, text=True, check=True)
    found: list[tuple[str, int]] = json.loads(done.stdout)
    return found


def zeros(path: Path, start: bytes, repeated: bytes, nbytes: int) -> Path:
    """Pack text that repeats itself, of which 1 MiB takes about 1 kB: it is packed once and written many times."""
    block = repeated * (MIB // len(repeated))
    packer = zlib.compressobj(6, wbits=-zlib.MAX_WBITS)
    first, part = (packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH) for text in (start, block))
    count, checksum = nbytes // MIB, zlib.crc32(start)
    for _ in range(count):
        checksum = zlib.crc32(block, checksum)
    trailer = struct.pack("<II", checksum, len(start) + count * len(block))
    path.write_bytes(b"\x1f\x8b\x08" + bytes(7) + first + count * part + packer.flush() + trailer)
    return path


def test_what_is_packed_for_these_tests_is_whole(tmp_path: Path) -> None:
    assert gzip.decompress(zeros(tmp_path / "a.gz", HEAD, b"%\n", 2 * MIB).read_bytes()) == HEAD + b"%\n" * MIB


@pytest.mark.sampled(1)
@pytest.mark.parametrize("packed", [False, True])
def test_a_plan_reads_a_header_and_no_more(tmp_path: Path, packed: bool) -> None:
    paths = []
    for place, line in enumerate((b"% a remark that says nothing\n", b"%\n", b"\n", b"% no end ")):
        paths.append(tmp_path / f"{place}.mtx{'.gz' * packed}")
        if packed:
            zeros(paths[-1], HEAD, line, 300 * MIB)
        else:
            paths[-1].write_bytes(HEAD + line * (20 * MIB // len(line)))
    for said, nbytes in measure("plan", *paths):
        assert "does not state its size in its first lines" in said
        assert "at most 1,048,576 bytes (limits.header)" in said
        assert "raise limits.header" in said
        assert nbytes < 16 * MIB


def test_a_header_of_any_length_may_be_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.write_bytes(HEAD + b"%%%%%%%\n" * 1000 + b"2 2 1\n1 1 1\n")
    assert "limits.header" in str(describe_file(OwnProblem(path=str(path)), Limits(header=8000)).refused)
    with pytest.raises(ReproError, match=r"limits\.header"):
        read_matrix(path, Limits(header=8000))
    assert describe_file(OwnProblem(path=str(path)), Limits(header=8100)).size == (2, 1)
    assert read_matrix(path, Limits(header=8100)).matrix.nnz == 1


def test_a_packed_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = zeros(tmp_path / "a.mtx.gz", HEAD + b"9 9 100000000\n", b"1 1 1.5\n", 600 * MIB)
    size = path.stat().st_size
    assert size * Limits().ratio > ALWAYS
    ((said, nbytes),) = measure("matrix", path)
    assert "the unpacked file is too large" in said
    assert f"at most {int(250 * size):,} bytes (limits.ratio)" in said
    assert f"from {size:,} packed ones" in said
    assert nbytes < 2000 * MIB


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pack", [gzip.compress, partial(lzma.compress, preset=0)], ids=["gzip", "xz"])
@pytest.mark.parametrize("tarred", [False, True])
def test_the_ratio_holds_for_every_packing(tmp_path: Path, pack, tarred: bool) -> None:
    content = HEAD + b" " * (ALWAYS + MIB)
    if tarred:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            info = tarfile.TarInfo("a/a.mtx")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        content = buffer.getvalue()
    path = tmp_path / "a.packed"
    path.write_bytes(pack(content))
    with pytest.raises(ReproError, match=r"at most 67,108,864 bytes \(limits\.ratio\)"):
        unpack(path, "a.mtx", Limits(ratio=1))
    assert len(unpack(path, "a.mtx", Limits(ratio=1e5))) == len(HEAD) + ALWAYS + MIB


@pytest.mark.wording
def test_a_file_is_no_larger_than_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.write_bytes(HEAD + b"1 1 1\n1 1 1\n" + b"\n" * 1000)
    with pytest.raises(ReproError, match=r"at most 900 bytes \(limits\.unpacked\)[\s\S]*actual: 1,058 bytes"):
        read_matrix(path, Limits(unpacked=900))


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("2147483647 2147483647 1", r"at most 100,000,000 rows (limits.rows)"),
        ("2147483648 2147483648 1", "at most 2,147,483,647 rows, columns and entries"),
        ("1 100000001 1", "actual: 100,000,001 columns"),
        ("9 9 1000000001", "at most 1,000,000,000 entries (limits.entries)"),
        (f"{10**40} 9 1", "too large for 32-bit"),
    ],
)
def test_what_a_header_asks_for_is_refused_before_it_is_taken(tmp_path: Path, size: str, said: str) -> None:
    path = tmp_path / "a.mtx"
    path.write_bytes(HEAD + f"{size}\n1 1 1\n".encode())
    with pytest.raises(ReproError, match="the matrix is too large") as told:
        read_matrix(path)
    for refusal in (told.value, describe_file(OwnProblem(path=str(path))).refused):
        assert "the matrix is too large" in str(refusal) and said in str(refusal)


def test_entries_that_are_not_there_take_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.write_bytes(HEAD + b"50000 50000 900000000\n1 1 1\n")
    ((said, nbytes),) = measure("matrix", path)
    assert "900,000,000 entries, as line 2 says" in said
    assert nbytes < 100 * MIB


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.mesh", "MeshVersionFormatted 2\nDimension 3\nVertices\n400000000\n0 0 0 0\n"),
        ("a.vtk", "# vtk DataFile Version 3.0\n-\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 500000000 double\n0 0 0\n"),
        ("a.ply", "ply\nformat ascii 1.0\nelement vertex 400000000\nproperty float x\nend_header\n1\n"),
        ("a.msh", "$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$Nodes\n1 400000000 1 400000000\n3 1 0 400000000\n"),
    ],
)
def test_a_mesh_takes_memory_in_proportion_to_its_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    ((said, nbytes),) = measure("mesh", tmp_path / name)
    assert "the mesh file is truncated" in said
    assert "00,000,000" in said
    assert nbytes < 200 * MIB


def test_a_mesh_takes_no_more_memory_than_allowed(tmp_path: Path) -> None:
    size = 3_000_000
    path = tmp_path / "a.ply"
    head = f"ply\nformat binary_little_endian 1.0\nelement face {size}\nproperty list uchar int vertex_index\n"
    path.write_bytes(head.encode() + b"end_header\n" + bytes(size))
    with pytest.raises(ReproError, match=r"too much memory[\s\S]*\(limits\.memory\)"):
        read_surface(path, Limits(memory=64 * MIB))


def test_the_configuration_has_the_limits(tmp_path: Path) -> None:
    base = Path(__file__).parents[2] / "config/config.yaml"
    (tmp_path / "mine.yaml").write_text("limits: {rows: 5, seconds: 1.5}\n")
    limits = load(base, tmp_path / "mine.yaml").limits
    assert (limits.rows, limits.seconds, limits.entries) == (5, 1.5, Limits().entries)
    with pytest.raises(ValidationError):
        Limits(rows=0)


def test_a_polygon_that_takes_long_to_cut_is_given_up(tmp_path: Path) -> None:
    count = 100_000
    around = [(1 + i % 2, 2 * math.pi * i / count) for i in range(count)]
    star = "".join(f"v {far * math.cos(at)} {far * math.sin(at)} 0\n" for far, at in around)
    (tmp_path / "a.obj").write_text(f"{star}f {' '.join(map(str, range(1, count + 1)))}\n")
    with pytest.raises(ReproError, match=r"takes too long[\s\S]*limits\.seconds"):
        read_surface(tmp_path / "a.obj", Limits(seconds=1))
