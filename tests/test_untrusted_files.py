"""Reading files: no more memory than a file has bytes, and no more bytes than are allowed."""

from __future__ import annotations

import errno
import tracemalloc
from pathlib import Path

import pytest

from repro.untrusted_files import read_file


def test_a_small_file_takes_little_memory_however_large_it_may_be(tmp_path: Path) -> None:
    """So that a campaign runs where the address space is limited: rows may have gigabytes."""
    path = tmp_path / "rows"
    path.write_bytes(b"rows")
    tracemalloc.start()
    try:
        assert read_file(path, 8 << 30) == b"rows"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_file_without_a_size_is_read_to_its_end() -> None:
    assert b"VmSize" in read_file(Path("/proc/self/status"))
    with pytest.raises(OSError, match="more than 10 bytes") as refusal:
        read_file(Path("/proc/self/status"), 10)
    assert refusal.value.errno == errno.EFBIG


@pytest.mark.parametrize(("size", "is_read"), [(0, True), (9, True), (10, True), (11, False)])
def test_a_file_is_read_up_to_the_allowed_size(size: int, is_read: bool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    if is_read:
        assert read_file(path, 10) == b"x" * size
        return
    with pytest.raises(OSError, match="more than 10 bytes"):
        read_file(path, 10)
