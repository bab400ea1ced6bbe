"""Reading output of the profiler: a trimmed file of ncu 2025 on an H200, and files worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro.bench.ncu import COLUMNS, COUNTERS, MARKER, ProfiledKernel, read_log, split, summarise, unknown_metrics
from repro.errors import ReproError

RECORDED = Path(__file__).with_name("ncu.csv").read_text()
HEAD = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
MARK = ProfiledKernel(MARKER, {})
METRIC = {counter.column: counter.metric for counter in COUNTERS}


def kernel(name: str, **columns: float) -> ProfiledKernel:
    return ProfiledKernel(name, {METRIC[column]: value for column, value in columns.items()})


def test_a_recorded_file_is_read():
    floor, chunk = read_log(RECORDED)
    assert (floor.name, chunk.name) == ("stream_256_4", "spmv_chunk_512_2_w8")
    columns = summarise([[floor]])
    assert columns["gpu_time"] == pytest.approx(10.528e-6)
    assert columns["dram_read_bytes"] == 29_601_536
    assert columns["l2_hit_percent"] == 60.40
    assert columns["waves"] == 1
    assert columns["registers"] is None  # not among the metrics of that run
    assert summarise([[chunk]])["l1_hit_percent"] == 26.65


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("byte", "1,234", 1234.0),
        ("Mbyte", "29.6", 29.6e6),
        ("usecond", "10.5", 10.5e-6),
        ("us", "10.5", 10.5e-6),
        ("%", "97.5", 97.5),
        ("", "n/a", None),
        ("%", "nan", None),
    ],
)
def test_units_and_separators(unit, value, expected):
    [read] = read_log(f'{HEAD}"0","k","m","{unit}","{value}"\n==PROF== Disconnected\n')
    assert read.metrics.get("m") == (None if expected is None else pytest.approx(expected))


def test_output_without_kernels_and_of_another_form():
    assert read_log("==WARNING== No kernels were profiled.\n") == []
    with pytest.raises(ReproError, match="unknown format of ncu's output"):
        read_log('"ID","Kernel Name","dram__bytes_read.sum"\n"0","k","1"\n')


def test_metrics_that_an_error_names_are_unknown():
    asked = ["dram__bytes_read.sum", "lts__t_bytes.sum", "launch__registers_per_thread"]
    said = "==PROF== dram__bytes_read.sum\n==ERROR== Failed to find metric lts__t_bytes.sum."
    assert unknown_metrics(said, asked) == {"lts__t_bytes.sum"}
    assert unknown_metrics("==ERROR== unknown: lts__t_bytes", asked) == {"lts__t_bytes.sum"}
    assert unknown_metrics("==ERROR== ERR_NVGPUCTRPERM", asked) == set()


def test_kernels_are_told_apart_by_the_marker():
    a, b, c = (ProfiledKernel(name, {}) for name in "abc")
    found = split([c, a, c, MARK, a, a, MARK, b, c, b, c, MARK], ["one", "two"], 2)
    assert found == {"one": [[a], [a]], "two": [[b, c], [b, c]]}
    with pytest.raises(ReproError, match="told apart"):
        split([MARK, a, a, MARK], ["one", "two"], 2)
    for own in ([a, a, a], []):
        with pytest.raises(ReproError, match="different kernels from one run to the next"):
            split([MARK, *own, MARK], ["one"], 2)


def test_kernels_of_a_launch_are_joined():
    launch = [
        kernel("a", gpu_time=1e-6, dram_read_bytes=100, l1_hit_percent=80, registers=32, load_requests=5),
        kernel("b", gpu_time=3e-6, dram_read_bytes=20, l1_hit_percent=40, registers=16),
    ]
    columns = summarise([launch])
    assert columns["gpu_time"] == pytest.approx(4e-6)
    assert columns["dram_read_bytes"] == 120
    assert columns["l1_hit_percent"] == pytest.approx(50)
    assert columns["registers"] == 32
    assert columns["load_requests"] is None  # known of one of two kernels
    assert set(columns) == set(COLUMNS)


def test_medians_are_over_the_launches_after_the_first():
    launches = [[kernel("a", gpu_time=t, load_requests=2, load_sectors=t)] for t in (90.0, 4.0, 7.0, 8.0)]
    columns = summarise(launches)
    assert columns["gpu_time"] == 7
    assert columns["sectors_per_request"] == 3.5
