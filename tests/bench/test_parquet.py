"""Files of rows return what was measured; damage is reported."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from repro.bench.rows import SCHEMA
from repro.bench.store import read_table, write_table
from repro.errors import ReproError
from support.campaigns import RESULTS, recorded_campaigns

FLIPS = 800


@pytest.fixture
def table() -> pa.Table:
    """Rows with texts that repeat and texts that do not, numbers, lists and nulls."""
    drawn = random.Random(1)
    return pa.table(
        {
            "key": [f"{drawn.getrandbits(128):032x}" for _ in range(50)],
            "problem": [["fem/nut", "qc324"][row % 2] for row in range(50)],
            "event_median": [None if row % 7 == 0 else drawn.random() for row in range(50)],
            "preprocess": [drawn.random() for _ in range(50)],
            "n_t": [32 * (row % 5) for row in range(50)],
            "ties": [["a", "b"][: row % 3] for row in range(50)],
            "schema": [SCHEMA] * 50,
        }
    )


def flip(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_a_flipped_bit_of_the_values_is_noticed_or_changes_nothing(tmp_path: Path, table: pa.Table) -> None:
    path = write_table(table, tmp_path / "rows.parquet")
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    noticed = 0
    for bit in random.Random(2).sample(range(8 * footer), FLIPS):
        path.write_bytes(flip(content, bit))
        try:
            assert read_table(path).equals(table), f"bit {bit} changed what is read"
        except ReproError as error:
            assert error.what == "unreadable rows"
            assert error.where == path
            noticed += 1
    assert noticed >= 0.9 * FLIPS


def test_a_file_of_another_program_is_read_and_its_checksums_verified(tmp_path: Path, table: pa.Table) -> None:
    path = tmp_path / "theirs.parquet"
    pq.write_table(table, path)
    assert read_table(path).equals(table)
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(table, path, write_page_checksum=True, **plain)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"qc324", b"qc323", 1))
    with pytest.raises(ReproError, match=r"unreadable rows[\s\S]*CRC checksum verification failed"):
        read_table(path)


def test_a_text_that_is_none_is_noticed_where_there_is_no_checksum(tmp_path: Path, table: pa.Table) -> None:
    path = tmp_path / "theirs.parquet"
    pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)
    path.write_bytes(path.read_bytes().replace(b"qc324", b"\xff\xff324", 1))
    with pytest.raises(ReproError, match="unreadable rows"):
        read_table(path)


@pytest.mark.wording
@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1", b"no parquet at all"],
    ids=["empty", "start", "other"],
)
def test_what_is_no_parquet_file_is_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(content)
    with pytest.raises(ReproError, match=r"unreadable rows[\s\S]*rows.parquet[\s\S]*from a copy"):
        read_table(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_said(tmp_path: Path, table: pa.Table, share: float) -> None:
    path = write_table(table, tmp_path / "rows.parquet")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ReproError, match="unreadable rows"):
        read_table(path)


@pytest.mark.wording
def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ReproError, match=r"unreadable rows[\s\S]*No such file"):
        read_table(tmp_path / "rows.parquet")


def test_recorded_campaigns_are_kept_with_checksums() -> None:
    recorded = [path for name in recorded_campaigns() for path in sorted((RESULTS / name).glob("raw/*/*.parquet"))]
    assert len(recorded) >= 11
    for path in recorded:
        assert read_table(path).num_rows, path
