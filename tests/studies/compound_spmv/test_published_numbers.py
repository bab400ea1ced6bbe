"""The typed tables against a second reading of the papers, and against each other."""

import pytest

from repro.entries import get_entry
from repro.results.published import Published
from repro.sparse.compound.variants import Layout
from repro.studies.compound_spmv.results import gpus

KIB = {"KiB": 1024, "MiB": 1024**2}


def test_counts(published: Published) -> None:
    assert gpus(published) == ["K2000", "GTX 980", "GP100"]
    assert len(published["sizes"]) == len(published["memory"]) == 13
    assert [sum(i["table"] == str(t) for i in published["layouts"]) for t in range(2, 8)] == [12, 12, 12, 12, 15, 15]
    assert len(published["dynamic"]) == 39
    assert list(published.problems.values()) == ["complex"] * 4 + ["quaternion"] * 4 + ["block3"] * 5


@pytest.mark.parametrize(
    ("table", "problem", "gpu", "layout", "speedup"),
    [
        ("2", "mono_500Hz", "K2000", "Sl-32-SoA-AoS", "3.74"),
        ("2", "fem_filter", "GP100", "ELL-AoS-AoS", "1.52"),
        ("3", "mhd1280b", "GP100", "CSR-SoA-SoA", "1.00"),
        ("3", "mono_500Hz", "GTX 980", "Sl-16-AoS-AoS", "1.59"),
        ("4", "surfaces/armadillo", "GP100", "ELL-AoS-AoS", "1.68"),
        ("5", "surfaces/dragon", "K2000", "ELL-SoA-SoA", "1.87"),
        ("6", "fem/nut_37k", "K2000", "ELL-SoA-SoA", "5.54"),
        ("6", "fem/armadillo_1000.1", "GP100", "Sl-16-SoA-SoA", "1.20"),
        ("7", "fem/bunny2.4M", "GP100", "ELL-AoS-SoA", "1.21"),
        ("7", "fem/NX_MotorH67k", "GTX 980", "ELL-SoA-AoS", "1.66"),
    ],
)
def test_layouts(published: Published, table: str, problem: str, gpu: str, layout: str, speedup: str) -> None:
    item = [i for i in published["layouts"] if (i["table"], i["problem"], i["gpu"]) == (table, problem, gpu)]
    assert [(i["layout"], i["speedup"]) for i in item] == [(layout, speedup)]


def test_every_layout_is_one_and_only_the_reference_gains_nothing(published: Published) -> None:
    for item in published["layouts"]:
        assert str(Layout.parse(item["layout"])) == item["layout"]
        assert item["layout"] != "CSR-AoS-AoS" or item["speedup"] == "1.00"
        assert published.problems[item["problem"]] == item["entry"]


def test_text_and_table_agree_on_the_largest_speedup(published: Published) -> None:
    largest = max(float(item["speedup"]) for item in published["layouts"])
    assert f"{largest:.1f}" == published.quantity("largest speedup over schedule tuning") == "5.5"
    assert published.quantity("largest speedup over cuSPARSE", "single") == "4.7"
    assert published.quantity("largest speedup over cuSPARSE", "double") == "2.8"


def test_table_9_follows_from_table_1(published: Published) -> None:
    """CSR: 4-byte columns and offsets, 8 bytes a member; cuSPARSE holds quaternions as 4x4 blocks."""
    sizes = {item["problem"]: item for item in published["sizes"]}
    for item in published["memory"]:
        size = sizes[item["problem"]]
        entry = get_entry(size["entry"])
        n, nnz = int(size["rows"]), int(size["nonzeros"])
        csr = nnz * (4 + 8 * len(entry.members)) + 4 * (n + 1)
        assert f"{csr / KIB[item['csr_unit']]:.1f}" == item["csr_size"], item["problem"]
        blocks = nnz * (4 + 8 * (16 if size["entry"] == "quaternion" else len(entry.members))) + 4 * (n + 1)
        assert f"{blocks / csr:.1f}" == item["cuSPARSE"], item["problem"]


def test_table_8_gives_the_share_of_the_text(published: Published) -> None:
    cases = {"none": 0, "SP": 1, "DP": 1, "both": 2}
    wins = {gpu: sum(cases[i["preferred"]] for i in published["dynamic"] if i["gpu"] == gpu) for gpu in gpus(published)}
    assert wins == {"K2000": 12, "GTX 980": 8, "GP100": 4}
    share = 100 * sum(wins.values()) / (2 * len(published["dynamic"]))
    assert round(share, -1) == float(published.quantity("share of cases where dynamic is better in percent"))
