"""Input files, a user's own and fetched ones: found, unpacked within limits, with a checksum of the content.

The same matrix comes as `.mtx`, `.mtx.gz` and inside a `.tar.gz`, and the same mesh from several sites, so a
checksum of a file says little. Our checksums are of the content: a matrix in CSR with sorted columns and no
explicit zeros, a mesh as its vertices and cells.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.atomic_write import write_whole
from repro.config.models import Limits
from repro.errors import ReproError
from repro.untrusted_files import kind_of, read_json

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


#: What a packed file may unpack to whatever its own size, in bytes.
ALWAYS = 64 << 20
GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, tarfile.TarError)


def locate(path: Path | str) -> Path:
    """Return where a file is that was named by hand: `~` is a home, and another path starts where the command runs.

    Raises
    ------
    ReproError
        There is none, it is no regular file, it may not be read, or the path is none.
    """
    try:
        place = Path(path).expanduser()
        kind = kind_of(place.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise ReproError("no such file", where=path, todo="correct the path") from None
    except (OSError, ValueError, RuntimeError) as error:  # too long, a null byte, no such user
        actual = error.strerror if isinstance(error, OSError) else error
        raise ReproError("the path cannot be used", where=repr(str(path)), actual=actual) from None
    if kind:
        raise ReproError(
            "no file that can be read",
            where=path,
            expected="a regular file",
            actual=kind,
            todo="name the file itself, or copy what the pipe or device gives into one",
        )
    if not os.access(place, os.R_OK):
        raise ReproError("the file may not be read", where=path, actual="no permission", todo="make it readable")
    return place


def locate_own(path: Path | str) -> Path:
    """Return where a file of the user's own is, by the one rule for the plan, the workflow's inputs and the build.

    Raises
    ------
    ReproError
        As `locate`, or the workflow cannot name the file.
    """
    if set("{}") & set(str(path)):
        raise ReproError(
            "the path cannot be used",
            where=path,
            expected="a path without braces, which the workflow takes for a wildcard",
            todo="give the file another name, or link to it by one",
        )
    return locate(path)


def most_unpacked(path: Path, limits: Limits) -> tuple[int, str]:
    """Return how many bytes a file may have once unpacked, and the key that says so."""
    with path.open("rb") as file:
        start, size = file.read(len(XZ)), os.fstat(file.fileno()).st_size
    if not start.startswith((GZIP, XZ)):
        return min(size, limits.unpacked), "limits.unpacked"
    by_ratio = max(ALWAYS, int(limits.ratio * size))
    return (by_ratio, "limits.ratio") if by_ratio < limits.unpacked else (limits.unpacked, "limits.unpacked")


def exceeds(what: str, where: object, key: str, limit: float, actual: object, unit: str) -> ReproError:
    """Return the error that a file is beyond a limit of the configuration."""
    return ReproError(
        what,
        where=where,
        expected=f"at most {limit:,.10g} {unit} ({key})",
        actual=f"{actual:,} {unit}" if isinstance(actual, int) else actual,
        todo=f"if the file is meant to be so, raise {key} in the configuration",
    )


@contextmanager
def open_plain(path: Path, limits: Limits, member: str | None = None) -> Iterator[BinaryIO]:
    """Open a file without the compression and the archive around it, as a stream of its bytes.

    Wrappings are told from their first bytes, not from the name: some servers undo a `.gz` on the way. No more is
    unpacked than is read of it, nor than the limits allow; what is damaged is said when a read comes to it.

    Parameters
    ----------
    path
        A plain, gzip or xz file, or a tar archive in one of them.
    limits
        Of the unpacked bytes.
    member
        How the path of the wanted file inside an archive ends, such as `bunny/reconstruction/bun_zipper.ply`.

    Raises
    ------
    ReproError
        The file is missing or unreadable, truncated or corrupt, larger than the limits, or the archive has no such
        member.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise ReproError("no such file", where=path) from None
    except OSError as error:
        raise ReproError("the file cannot be read", where=path, actual=error) from None
    with file:
        start = file.peek(len(XZ))[: len(XZ)]
        packed: _Readable = file
        if start.startswith(GZIP):
            packed = gzip.GzipFile(fileobj=file)
        elif start == XZ:
            packed = lzma.LZMAFile(file)  # noqa: SIM115, it holds nothing but the file
        most, key = most_unpacked(path, limits)
        if packed is file and os.fstat(file.fileno()).st_size > most:
            raise _too_large(path, key, most, os.fstat(file.fileno()).st_size)
        plain = io.BufferedReader(_Bounded(packed, path, most, key), 1 << 16)
        if _is_tar(plain.peek(tarfile.BLOCKSIZE)[: tarfile.BLOCKSIZE]):
            plain = io.BufferedReader(_Bounded(_member(plain, path, member), path, most, key), 1 << 16)
        yield plain


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Bounded(io.RawIOBase):
    """A stream that says of damage and of too many bytes which file it is."""

    def __init__(self, stream: _Readable, path: Path, most: int, key: str) -> None:
        self._stream, self._path, self._most, self._key, self._read = stream, path, most, key, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill a buffer, unless the stream ends before."""
        view = memoryview(buffer)
        got = 0
        try:
            while got < len(view) and (block := self._stream.read(len(view) - got)):
                view[got : got + len(block)] = block
                got += len(block)
        except DAMAGED as error:
            raise damaged(self._path, error) from None
        except OSError as error:
            raise ReproError("the file cannot be read", where=self._path, actual=error) from None
        self._read += got
        if self._read > self._most:
            raise _too_large(self._path, self._key, self._most, f"more, from {self._path.stat().st_size:,} packed ones")
        return got


def _too_large(path: Path, key: str, most: int, actual: object) -> ReproError:
    return exceeds("the file is too large once it is unpacked", path, key, most, actual, "bytes")


def _is_tar(block: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True


def _member(stream: BinaryIO, path: Path, member: str | None) -> _Readable:
    names: list[str] = []
    try:
        archive = tarfile.open(fileobj=stream, mode="r|")  # noqa: SIM115, it holds nothing but the stream
        for info in archive:
            if not info.isfile() or info.issparse() or _leads_out(info.name):
                continue  # a sparse file can be larger than any disk
            if member and f"/{info.name}".endswith(f"/{member}"):
                content = archive.extractfile(info)
                assert content is not None  # only for members that are no files
                return content
            if len(names) < 10:
                names.append(info.name)
    except DAMAGED as error:
        raise damaged(path, error) from None
    raise ReproError(
        "the archive lacks the file", where=path, expected=member, actual=", ".join(names) or "an empty archive"
    )


def _leads_out(name: str) -> bool:
    """Return whether a member's name would lead out of the folder that its archive is unpacked to."""
    return name.startswith("/") or ".." in Path(name).parts


def damaged(path: Path, error: object) -> ReproError:
    """Return the error that a packed file cannot be unpacked."""
    return ReproError("the file is truncated or corrupt", where=path, actual=error, todo="delete it and fetch it again")


def unpack(path: Path, member: str | None = None, limits: Limits | None = None) -> bytes:
    """Return a file's bytes without the compression and the archive around them, as `files.open_plain` gives them.

    Raises
    ------
    ReproError
        As `files.open_plain`.
    """
    with open_plain(path, limits or Limits(), member) as stream:
        return stream.read()


def matrix_checksum(matrix: sp.csr_array) -> str:
    """SHA-256 of a matrix in CSR with sorted columns and no explicit zeros, the same on every machine."""
    kind = "complex" if np.iscomplexobj(matrix.data) else "real"
    rows, columns = matrix.shape
    size = f"{rows}" if rows == columns else f"{rows} {columns}"
    digest = hashlib.sha256(f"matrix {kind} {size} {matrix.nnz}".encode())
    digest.update(matrix.indptr.astype("<i8").tobytes())
    digest.update(matrix.indices.astype("<i8").tobytes())
    values = matrix.data + 0.0  # makes a zero of a -0, which not every program writes as such
    digest.update(values.astype("<c16" if kind == "complex" else "<f8").tobytes())
    return digest.hexdigest()


def mesh_checksum(vertices: NDArray[np.float64], cells: NDArray[np.integer[Any]]) -> str:
    """SHA-256 of a mesh: its vertices rounded to single precision, as PLY keeps them, and its cells."""
    digest = hashlib.sha256(f"mesh {len(vertices)} {len(cells)}".encode())
    digest.update((vertices + 0.0).astype("<f4").tobytes())
    digest.update(cells.astype("<i8").tobytes())
    return digest.hexdigest()


def record_path(cache: Path, name: str) -> Path:
    """Return the file that keeps what is known of a fetched problem."""
    return cache / "records" / f"{name}.json"


def read_record(cache: Path, name: str) -> dict[str, Any]:
    """Return what is known of a problem's file: `address`, `fetched_at`, `details`, `sha256`; empty if nothing."""
    try:
        record = read_json(record_path(cache, name))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def update_record(cache: Path, name: str, fields: Mapping[str, Any]) -> None:
    """Add to what is known of a problem's file.

    Raises
    ------
    ReproError
        The folder cannot be written to.
    """
    path = record_path(cache, name)
    try:
        write_whole(path, json.dumps({**read_record(cache, name), **fields}, indent=1) + "\n")
    except OSError as error:
        raise ReproError(
            "cannot write to the download folder", where=path, actual=error, todo="set fetch.cache to another folder"
        ) from None


def check_content(name: str, sha256: str, pinned: str | None, cache: Path, where: object) -> dict[str, str]:
    """Compare a content's checksum with the registry's, or else with the one recorded at first use.

    Returns
    -------
    dict
        `sha256` and `state`: `pinned` (the registry's) or `unpinned` (as at first use).

    Raises
    ------
    ReproError
        They differ.
    """
    expected = pinned or read_record(cache, name).get("sha256")
    if expected not in (None, sha256):
        raise ReproError(
            "wrong checksum",
            where=where,
            expected=f"{expected} ({'registry' if pinned else 'recorded at first use'})",
            actual=sha256,
            todo="delete the file and fetch it again"
            + ("" if pinned else f"; if the new content is right, delete {record_path(cache, name)} too"),
        )
    if pinned is None and expected is None:
        update_record(cache, name, {"sha256": sha256, "first_used_at": now()})
    return {"sha256": sha256, "state": "pinned" if pinned else "unpinned"}


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
