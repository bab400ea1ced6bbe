"""Formats of pairs beside CSR's floor and their own: on a synthetic campaign, and measured on the CPU."""

from collections.abc import Callable
from pathlib import Path

import pytest
from test_ours import targets
from test_tables import make, values

from repro.bench.rows import Row
from repro.bench.timing import SamplingPlan
from repro.bench.trial import Bench
from repro.codegen.targets import CPU
from repro.codegen.templates import StreamConfig, streams
from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.sparse.compound.runnables import OWN_FLOOR, OwnFloor, own_floors
from repro.sparse.compound.variants import Layout
from repro.sparse.symmetry import HERMITIAN
from repro.studies.compound_spmv.results import OURS, PAPERS, WITHOUT_PAIRS, all_times
from repro.studies.compound_spmv.tables.performance import OWN
from support.symmetric_problems import symmetric_problem
from support.synthetic_campaign import EXTENDED, MOVED, PAIRED_PROBLEM, PAIRS, PAIRS_BYTES, PROBLEMS, STUDY, Maker

pytestmark = pytest.mark.medium

PAIRED = tuple(given for given in PROBLEMS if given.name in (PAIRED_PROBLEM, "generated/hubs"))


def paired(layout: str, size: int | None) -> Row:
    """A row of a variant of a layout that takes so many bytes."""
    return Row(key=layout, study=STUDY, problem="p", precision="single", kind="variant", name=f"{layout}/direct",
               status="ok", own={"layout": layout, "matrix_bytes": size})  # fmt: skip


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Two symmetric problems of 60 MB, a format of pairs timed on one of them alone."""
    return Maker(tmp_path_factory.mktemp("pairs"), "cuda", pairs=True, csr_bytes=60_000_000).all(PAIRED)


def test_of_the_floor_and_of_its_own(pairs: Campaign, published: Published) -> None:
    table = make(pairs, published, "table-problems")
    rows = values(table)
    row = rows[f"{PAIRED_PROBLEM} single"]
    assert (row["ours"], row["reordered"]) == (PAIRS, MOVED)
    expected = {
        "ours_percent_of_floor": 100 * 8 / 5,  # past it
        "ours_own_MB": PAIRS_BYTES / 1e6,
        "ours_percent_of_own_floor": 100 * 4.5 / 5,
        "own_floor_us": 0.8 * 4.5,
        "reordered_percent_of_floor": 100 * 8 / 4,
        "reordered_percent_of_own_floor": 100 * 3 / 4,
    }
    assert {key: float(row[key]) for key in expected} == pytest.approx(expected)
    hubs = rows["generated/hubs single"]
    assert hubs["ours"] == EXTENDED and float(hubs["ours_percent_of_floor"]) == pytest.approx(100 * 8 / 6)
    assert {hubs[key] for key in OWN if key != "reordered_percent_of_floor"} == {""}
    own = [column.key for column in table.columns].index("ours_percent_of_own_floor")
    assert table.summary[0][own].value == pytest.approx(90)
    assert "may exceed it, but not its own" in table.caption


def test_where_no_format_of_pairs_won_there_is_no_column_for_it(extended: Campaign, published: Published) -> None:
    table = make(extended, published, "table-problems")
    assert not {column.key for column in table.columns} & set(OWN)
    assert "own floor" not in table.caption


def test_the_targets_of_symmetric_matrices(pairs: Campaign, published: Published) -> None:
    rows = targets(pairs, published)
    keys = ("papers_space", "ours", "reordered", "over_wanted")
    numbers = {name: [rows[name][key] for key in keys] for name in rows if name.endswith(("_large", "_reordered"))}
    # the other problem, on which no format of pairs was timed, takes no part
    assert {name: [None if n == "None" else pytest.approx(float(n)) for n in row] for name, row in numbers.items()} == {
        "floor_mean_large": [None, 8 / 5, None, 8 / 5 / 1.25],
        "floor_mean_large_reordered": [None, None, 8 / 4, 8 / 4 / 1.4],
        "own_floor_mean_large": [None, 4.5 / 5, 3 / 4, None],
        "unpaired_mean_large": [None, 6 / 5, None, 6 / 5 / 1.35],
        "unpaired_mean_large_reordered": [None, None, 6 / 4, 6 / 4 / 1.5],
    }
    assert "2 cases of 60 MB and more" in make(pairs, published, "table-targets").caption


@pytest.mark.parametrize(("size", "counted"), [(19_999_999, False), (20_000_000, True), (60_000_000, False)])
def test_medium_matrices_are_of_20_to_60_mb(tmp_path: Path, published: Published, size: int, counted: bool) -> None:
    rows = targets(Maker(tmp_path, "cuda", extended=True, csr_bytes=size).all(PROBLEMS[5:6]), published)
    assert (rows["floor_mean_medium"]["ours"] != "None") is counted
    assert (rows["floor_worst_medium"]["ours"] != "None") is counted
    assert rows["floor_mean_large"]["ours"] == rows["unpaired_mean_large"]["ours"] == "None", "no pairs were timed"


def test_without_pairs_their_targets_have_no_number(extended: Campaign, published: Published) -> None:
    assert {row["ours"] for name, row in targets(extended, published).items() if "large" in name} == {"None"}
    assert "no format of pairs was timed" in make(extended, published, "table-targets").caption


def test_with_a_cold_cache_the_floors_are_cold(pairs: Campaign, published: Published) -> None:
    (case,) = [s for s in all_times(pairs, published) if s.own_floor(s[OURS]) and s.case.precision == "single"]
    cold = case.cold
    assert cold
    best, unpaired = cold[OURS], cold[WITHOUT_PAIRS]
    assert best and unpaired and (best.name, unpaired.name) == (PAIRS, EXTENDED)
    floor = cold.own_floor(best)
    assert floor and floor.seconds == pytest.approx(1.5 * 4.5e-6) and floor.row.cache == "cold"
    assert case.own_floor(case[PAPERS]) is None


def test_the_floor_streams_the_formats_own_bytes(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(symmetric_problem("complex", HERMITIAN))
    layout, size = Layout.parse("Pairs-64-AoSoA-AoS@clustered"), 1234
    rows = [
        bench.try_once(floor, "search", SamplingPlan(3))
        for floor in own_floors({layout: size, Layout.parse("Sl-8-AoSoA-AoS"): 999}, streams(CPU))[layout]
    ]
    bench.release()
    assert len({row.name for row in rows}) == len(streams(CPU))
    vector = bench.operands.x.nbytes
    for row in rows:
        assert (row.kind, row.status, row["layout"], row["matrix_bytes"]) == (OWN_FLOOR, "ok", str(layout), size)
        assert row.bytes - (size + 2 * vector) in range(2 * 4)  # whole words are moved
        assert row.event_median
    assert list(own_floors({Layout.parse("Sl-8-AoSoA-AoS"): 999}, streams(CPU))) == []


def test_floors_of_two_sizes_do_not_share_memory(make_bench: Callable[..., Bench]) -> None:
    """The first is the larger: with the smaller one's memory it would read past the end."""
    bench = make_bench(symmetric_problem("real", "symmetric"))
    small, large = (
        own_floors({Layout.parse("Pairs-64-AoSoA-AoS"): size}, [StreamConfig(64, 1)]) for size in (64, 1 << 20)
    )
    for floors in (small, large):
        (floor,) = floors[Layout.parse("Pairs-64-AoSoA-AoS")]
        assert isinstance(floor, OwnFloor)
        floor.prepare(bench.workspace)
    buffers = {key: buffer.nbytes for key, buffer in bench.workspace._buffers.items() if key[0] == "streamed"}
    bench.release()
    assert len(buffers) == 2 and max(buffers.values()) >= 1 << 20
