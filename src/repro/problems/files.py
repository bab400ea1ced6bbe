"""Finds input files, unpacks them within limits, and compares checksums of their content.

A checksum of the file would differ between `.mtx`, `.mtx.gz` and `.tar.gz` of one matrix, and between websites. These
checksums are therefore computed from the content: a matrix in CSR with sorted columns and no explicit zeros, or the
vertices and cells of a mesh.
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

from repro.entries import get_entry
from repro.errors import MissingFileError, ReproError
from repro.filesystem import write_whole
from repro.untrusted_files import kind_of, read_json
from repro.words import nearest_file

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from repro.config.models import Limits


#: Number of bytes to which any compressed file may unpack, however small the file is.
ALWAYS = 64 << 20
#: Advice in messages on an incomplete file of the user; for a downloaded file, messages say where to put another copy.
ANEW = "write it anew"
GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, tarfile.TarError)


def locate(path: Path | str) -> Path:
    """Return the absolute path of a user's file, given relative to the current folder or `~`; `ReproError` if
    unusable.
    """
    try:
        resolved = Path(path).expanduser()
        kind = kind_of(resolved.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError("no such file", path=path, actual=nearest_file(resolved)) from None
    except (OSError, ValueError, RuntimeError) as error:  # path too long, zero byte, or unknown user
        actual = error.strerror if isinstance(error, OSError) else error
        raise ReproError("the path is invalid", where=repr(str(path)), actual=actual) from None
    if kind:
        raise ReproError(
            "not a readable file",
            where=path,
            expected="a regular file",
            actual=kind,
            todo="name the file itself, or copy the contents of the pipe or device to a file",
        )
    if not os.access(resolved, os.R_OK):
        raise ReproError("no permission to read the file", where=path, actual="no permission", todo="make it readable")
    return resolved


def locate_own(path: Path | str) -> Path:
    """Like `locate`, but also raise `ReproError` for paths that Snakemake cannot use; for plan, workflow and build."""
    if set("{}") & set(str(path)):
        raise ReproError(
            "the path is invalid",
            where=path,
            expected="a path without braces, which are wildcards in the workflow",
            todo="rename the file, or make a link with another name",
        )
    return locate(path)


def max_unpacked(path: Path, limits: Limits) -> tuple[int, str]:
    """Return the maximum unpacked bytes of a file, and the configuration key that sets this limit."""
    with path.open("rb") as file:
        start, size = file.read(len(XZ)), os.fstat(file.fileno()).st_size
    if not start.startswith((GZIP, XZ)):
        return min(size, limits.unpacked), "limits.unpacked"
    by_ratio = max(ALWAYS, int(limits.ratio * size))
    return (by_ratio, "limits.ratio") if by_ratio < limits.unpacked else (limits.unpacked, "limits.unpacked")


def limit_error(what: str, where: object, key: str, limit: float, actual: object, unit: str) -> ReproError:
    """Return an error which says that a file exceeds a limit of the configuration."""
    return ReproError(
        what,
        where=where,
        expected=f"at most {limit:,.10g} {unit} ({key})",
        actual=f"{actual:,} {unit}" if isinstance(actual, int) else actual,
        todo=f"if the file is correct, raise {key} in the configuration",
    )


@contextmanager
def open_plain(path: Path, limits: Limits, member: str | None = None) -> Iterator[BinaryIO]:
    """Open a file as a stream of bytes, decompressed and extracted from an archive if necessary.

    Compression (gzip, xz) and tar archives are recognised by their first bytes. If the data are damaged or exceed the
    limits, the read that reaches this point raises `ReproError`. Raises `ReproError`: the file is missing, unreadable,
    truncated, corrupt or too large, or the archive does not have the member.

    Parameters
    ----------
    member
        End of the path of the wanted file in an archive, such as `bunny/reconstruction/bun_zipper.ply`.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise ReproError("no such file", where=path) from None
    except OSError as error:
        raise ReproError("the file cannot be read", where=path, actual=error) from None
    with file:
        start = file.peek(len(XZ))[: len(XZ)]
        source: _Readable = file
        if start.startswith(GZIP):
            source = gzip.GzipFile(fileobj=file)
        elif start == XZ:
            source = lzma.LZMAFile(file)  # noqa: SIM115, closed with `file`
        max_bytes, key = max_unpacked(path, limits)
        if source is file and os.fstat(file.fileno()).st_size > max_bytes:
            raise _too_large(path, key, max_bytes, os.fstat(file.fileno()).st_size)
        plain_stream = io.BufferedReader(_Bounded(source, path, max_bytes, key), 1 << 16)
        if _is_tar(plain_stream.peek(tarfile.BLOCKSIZE)[: tarfile.BLOCKSIZE]):
            plain_stream = io.BufferedReader(
                _Bounded(_member(plain_stream, path, member), path, max_bytes, key), 1 << 16
            )
        yield plain_stream


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Bounded(io.RawIOBase):
    """A stream with a limit on its bytes; its errors name the file."""

    def __init__(self, stream: _Readable, path: Path, max_bytes: int, key: str) -> None:
        self._stream, self._path, self._max_bytes, self._key, self._read = stream, path, max_bytes, key, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read bytes into the buffer until it is full or the stream ends."""
        view = memoryview(buffer)
        read_count = 0
        try:
            while read_count < len(view) and (block := self._stream.read(len(view) - read_count)):
                view[read_count : read_count + len(block)] = block
                read_count += len(block)
        except DAMAGED as error:
            raise damage_error(self._path, error) from None
        except OSError as error:
            raise ReproError("the file cannot be read", where=self._path, actual=error) from None
        self._read += read_count
        if self._read > self._max_bytes:
            raise _too_large(
                self._path, self._key, self._max_bytes, f"more, from {self._path.stat().st_size:,} packed ones"
            )
        return read_count


def _too_large(path: Path, key: str, max_bytes: int, actual: object) -> ReproError:
    return limit_error("the unpacked file is too large", path, key, max_bytes, actual, "bytes")


def _is_tar(block: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True


def _member(stream: BinaryIO, path: Path, member: str | None) -> _Readable:
    names: list[str] = []
    try:
        archive = tarfile.open(fileobj=stream, mode="r|")  # noqa: SIM115, closed with `stream`
        for info in archive:
            leads_out = info.name.startswith("/") or ".." in Path(info.name).parts
            if not info.isfile() or info.issparse() or leads_out:  # a sparse file may claim to be larger than any disk
                continue
            if member and f"/{info.name}".endswith(f"/{member}"):
                content = archive.extractfile(info)
                assert content is not None  # None only for directories, links and devices
                return content
            if len(names) < 10:
                names.append(info.name)
    except DAMAGED as error:
        raise damage_error(path, error) from None
    raise ReproError(
        "the archive lacks the file", where=path, expected=member, actual=", ".join(names) or "an empty archive"
    )


def check_entry(entry: str, is_complex: bool, shape: tuple[int, int], where: object) -> None:
    """Raise `ReproError` for an entry type that does not match a matrix's kind of values or its shape."""
    if is_complex != (entry == "complex"):
        raise ReproError(
            "the matrix does not match the entry",
            where=where,
            expected="complex values" if entry == "complex" else f"real values for the entry {entry}",
            actual="complex values" if is_complex else "real values",
            todo="change the problem's `entry:`",
        )
    k = 1 if entry in ("real", "complex", "pattern") else get_entry(entry).size
    for count, axis in zip(shape, ("rows", "columns"), strict=True):
        if count % k:
            raise ReproError(
                f"the matrix cannot be divided into {k} x {k} blocks",
                where=where,
                expected=f"a multiple of {k} {axis} for the entry {entry}",
                actual=f"{count} {axis}",
                todo="set `entry: real` for the problem",
            )


def damage_error(path: Path, error: object) -> ReproError:
    return ReproError("the file is truncated or corrupt", where=path, actual=error, todo=ANEW)


def unpack(path: Path, member: str | None = None, limits: Limits | None = None) -> bytes:
    """Return the whole content that `open_plain` yields."""
    if limits is None:
        from repro.config import models  # which operators do without

        limits = models.Limits()
    with open_plain(path, limits, member) as stream:
        return stream.read()


def matrix_checksum(matrix: sp.csr_array) -> str:
    """SHA-256 of a CSR matrix with sorted columns and no explicit zeros; it is equal on all machines."""
    kind = "complex" if np.iscomplexobj(matrix.data) else "real"
    rows, columns = matrix.shape
    size = f"{rows}" if rows == columns else f"{rows} {columns}"
    digest = hashlib.sha256(f"matrix {kind} {size} {matrix.nnz}".encode())
    digest.update(matrix.indptr.astype("<i8").tobytes())
    digest.update(matrix.indices.astype("<i8").tobytes())
    values = matrix.data + 0.0  # turn -0 into 0, since some programs do not write -0
    digest.update(values.astype("<c16" if kind == "complex" else "<f8").tobytes())
    return digest.hexdigest()


def mesh_checksum(vertices: NDArray[np.float64], cells: NDArray[np.integer[Any]]) -> str:
    """SHA-256 of a mesh: its cells, and its vertices rounded to single precision as in PLY files."""
    digest = hashlib.sha256(f"mesh {len(vertices)} {len(cells)}".encode())
    digest.update((vertices + 0.0).astype("<f4").tobytes())
    digest.update(cells.astype("<i8").tobytes())
    return digest.hexdigest()


def record_path(cache: Path, name: str) -> Path:
    return cache / "records" / f"{name}.json"


def read_record(cache: Path, name: str) -> dict[str, Any]:
    """Return the record of a problem's file (`address`, `fetched_at`, `details`, `sha256`); empty if there is no
    record.
    """
    try:
        record = read_json(record_path(cache, name))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def update_record(cache: Path, name: str, fields: Mapping[str, Any]) -> None:
    """Add fields to the record of a problem's file; raise `ReproError` if the folder is not writable."""
    path = record_path(cache, name)
    try:
        write_whole(path, json.dumps({**read_record(cache, name), **fields}, indent=1) + "\n")
    except OSError as error:
        raise ReproError(
            "cannot write to the download folder", where=path, actual=error, todo="set fetch.cache to another folder"
        ) from None


def check_content(name: str, sha256: str, recorded_sha256: str | None, cache: Path, where: object) -> dict[str, str]:
    """Compare a content's checksum with the registry's checksum; if there is none, with the one recorded at first use.

    Returns `sha256` and `state`: `recorded_sha256` if the registry has a checksum, otherwise `unpinned`. Raises
    `ReproError`: the checksums differ.
    """
    expected = recorded_sha256 or read_record(cache, name).get("sha256")
    if expected not in (None, sha256):
        raise ReproError(
            "wrong checksum",
            where=where,
            expected=f"{expected} ({'registry' if recorded_sha256 else 'recorded at first use'})",
            actual=sha256,
            todo="delete the file and fetch it again"
            + ("" if recorded_sha256 else f"; if the new content is right, delete {record_path(cache, name)} too"),
        )
    if recorded_sha256 is None and expected is None:
        update_record(cache, name, {"sha256": sha256, "first_used_at": timestamp()})
    return {"sha256": sha256, "state": "pinned" if recorded_sha256 else "unpinned"}


def timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
