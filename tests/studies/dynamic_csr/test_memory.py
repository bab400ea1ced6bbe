"""The bytes of CSR, dynamic CSR and HYB: Table 5.2 from sizes alone, and a graph in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from repro.config.models import Config, OwnProblem, UpdateBatches
from repro.problems.builder import build
from repro.problems.generators import generate
from repro.problems.matrix import Matrix, Updates
from repro.problems.registry import Generated, load_registry
from repro.results.published import Published
from repro.sparse.dynamic.host_layout import lay_out
from repro.studies.dynamic_csr import MIB, PUBLISHED, STUDY_NAME, TARGETS
from repro.studies.dynamic_csr.facts import (
    FormatSizes,
    all_bytes,
    describe,
    deviation,
    facts,
    format_sizes,
    hybrid_width,
    paper_bytes,
)
from repro.studies.dynamic_csr.results import short_count

pytestmark = pytest.mark.medium

CONFIG = Path(__file__).parents[3] / "config"
PRINTED = Published.load(STUDY_NAME, PUBLISHED, TARGETS, CONFIG)
TABLE_5_2 = {item["problem"]: item for item in PRINTED["memory"]}
TABLE_5_1 = {item["problem"]: item for item in PRINTED["sizes"]}
REGISTRY = load_registry(CONFIG / "problems.yaml")
STAND_INS = [item for item in REGISTRY.expand("king_stand_ins") if isinstance(item, Generated)]


def sizes(item: Generated) -> FormatSizes:
    """What Table 5.1 and the registry say, without building anything."""
    rows, nonzeros = item.parameters["size"]
    return FormatSizes(rows, item.parameters.get("columns", rows), nonzeros, item.parameters["overflow"])


@pytest.mark.parametrize("item", STAND_INS, ids=lambda item: item.name)
def test_table_5_2_follows_from_the_sizes(item: Generated) -> None:
    counted, printed = paper_bytes(sizes(item)), TABLE_5_2[item.stand_in]
    assert f"{counted['HYB'] // MIB}M" == printed["HYB"]
    for name in ("DCSR-2", "DCSR-3", "DCSR-4", "CSR"):
        assert f"{counted[name] / counted['HYB']:.3f}" == f"{float(printed[name]):.3f}", name
    assert sizes(item).width == item.parameters["width"]


@pytest.mark.parametrize("item", STAND_INS, ids=lambda item: item.name)
def test_table_5_1_is_what_the_registry_has(item: Generated) -> None:
    printed, given = TABLE_5_1[item.stand_in], sizes(item)
    assert short_count(given.nonzeros, "KM").text == printed["nonzeros"]
    assert short_count(given.rows, "K").text == printed["rows"]
    assert short_count(given.columns, "KM" if item.stand_in == "rail4284" else "K").text == printed["columns"]
    assert str(given.nonzeros // given.rows) == printed["mean"]
    assert short_count(item.parameters["longest"], "K", 10_000).text == printed["longest"]


@pytest.mark.parametrize("name", ["like_enron", "like_internet"])
def test_a_built_stand_in_has_the_printed_memory(name: str, make_config: Callable[..., Config]) -> None:
    problem = build(name, make_config())
    counted, printed = facts(problem)["memory"]["paper"], TABLE_5_2[problem.origin["stand_in"]]
    assert f"{counted['HYB'] // MIB}M" == printed["HYB"]
    assert f"{counted['DCSR-4'] / counted['HYB']:.3f}" == printed["DCSR-4"]
    assert f"{facts(problem)['deviation']:.0f}" == TABLE_5_1[problem.origin["stand_in"]]["deviation"]


def test_the_means_that_the_text_states() -> None:
    fractions = [float(item["DCSR-4"]) for item in PRINTED["memory"]]
    assert np.mean(fractions) == pytest.approx(
        float(PRINTED.quantity("memory of four segments over HYB, mean")), abs=0.01
    )
    updates = [
        float(item["HYB_update"]) / float(item["DCSR_update"])
        for item in PRINTED["operations"]
        if item["HYB_update"] != "inf"
    ]
    stated = PRINTED.quantity("speedup of streaming updates over HYB, mean", gpu="K20c")
    assert f"{np.mean(updates):.1f}" == stated


def test_files_name_the_same_problems_in_the_same_order() -> None:
    for name in ("memory", "conversions", "operations"):
        assert [item["problem"] for item in PRINTED[name]] == list(PRINTED.problems)
    assert [item.name for item in REGISTRY.expand("king")] == list(PRINTED.problems)
    assert len({item["quantity"] for item in PRINTED.targets}) == len(PRINTED.targets) == 23


@pytest.mark.parametrize(
    ("rows", "nonzeros", "width"), [(0, 0, 0), (5, 0, 0), (5, 4, 0), (5, 5, 4), (5, 20, 4), (5, 24, 4), (5, 25, 8)]
)
def test_the_width_is_the_mean_cut_off_and_up_to_a_multiple_of_four(rows: int, nonzeros: int, width: int) -> None:
    assert hybrid_width(rows, nonzeros) == width


def test_the_deviation_is_about_the_mean_that_is_cut_off() -> None:
    assert deviation(np.array([0, 3])) == pytest.approx(np.sqrt((1 + 4) / 2))
    assert deviation(np.array([], dtype=np.int32)) == 0


@pytest.mark.parametrize("precision", ["single", "double"])
def test_everything_is_what_the_arrays_of_a_layout_take(precision: str) -> None:
    dtype = np.dtype(np.float32 if precision == "single" else np.float64)
    built = generate("graph", size=[700, 6000], overflow=2000, longest=90)
    matrix = sp.csr_array((built.values[:, 0].astype(dtype), built.indices, built.indptr), shape=(700, 700))
    counted = all_bytes(format_sizes(np.diff(built.indptr), 700), precision)
    for segments in (2, 3, 4):
        arrays = lay_out(matrix, segments)
        held = sum(part.nbytes for part in (arrays.columns, arrays.values, arrays.table, arrays.sizes))
        assert counted[f"DCSR-{segments}"] == held + 16 * 4
    assert counted["CSR"] == matrix.data.nbytes + 4 * (matrix.nnz + 701)


def test_a_graph_in_a_file_goes_the_same_way(tmp_path: Path, make_config: Callable[..., Config]) -> None:
    rng = np.random.default_rng(1)
    graph = sp.random_array((300, 400), density=0.03, rng=rng, format="csr")
    scipy.io.mmwrite(tmp_path / "graph.mtx", graph)
    problem = build(OwnProblem(path=str(tmp_path / "graph.mtx"), updates=UpdateBatches(sizes=(5,))), make_config())
    assert isinstance(problem, Updates)
    said = json.loads(json.dumps(facts(problem)))
    lengths = np.diff(graph.indptr)
    assert (said["rows"], said["columns"], said["nonzeros"]) == (300, 400, 3600)
    assert (said["mean"], said["longest"]) == (12, lengths.max())
    assert (said["width"], said["overflow"]) == (12, np.maximum(lengths - 12, 0).sum())
    assert said["deviation"] == pytest.approx(np.std(lengths))
    assert said["memory"]["paper"] == paper_bytes(FormatSizes(300, 400, 3600, said["overflow"]))
    assert said["memory"]["paper"]["CSR"] == said["memory"]["single"]["CSR"]
    assert said["memory"]["double"]["CSR"] == 12 * 3600 + 4 * 301


def test_empty_matrices_and_other_kinds() -> None:
    none = Matrix("none", "real", 0, np.zeros(1, np.int32), np.empty(0, np.int32), np.empty((0, 1)), columns=3)
    assert describe(none)["memory"]["paper"] == {"CSR": 4, "HYB": 0, "DCSR-2": 0, "DCSR-3": 0, "DCSR-4": 0}
    assert facts(none) == {}
