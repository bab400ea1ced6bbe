"""The table and the figure of the products, on a campaign that was never measured: each number can be worked out.

Times are in microseconds by the event clock, of which the graph clock reads 0.8.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from repro.bench.rows import Row
from repro.results.common_tables import SETUP_COSTS
from repro.results.published import Published
from repro.results.registry import get_artifact
from repro.studies.dynamic_csr import PUBLISHED, STUDY_NAME, TARGETS
from repro.studies.dynamic_csr.ids import ProductId, choose_products, reported_names
from repro.studies.dynamic_csr.tables_products import products
from repro.words import PAPER_TUNED
from support.benches import OWN
from support.campaigns import Recorder

NOTHING_PUBLISHED = Published({}, [])
NUMBERS = Published.load(STUDY_NAME, PUBLISHED, TARGETS, Path(__file__).parents[3] / "config")
PAPERS = {
    "csr/vector-w4": 100.0,
    "csr/vector-w8": 90.0,
    "dcsr-fragmented/vector-w4": 110.0,
    "dcsr-fragmented/vector-w8": 120.0,
    "dcsr-defragmented/vector-w4": 104.0,
    "dcsr-defragmented/vector-w8": 99.0,
    "dcsr-fragmented/streams": 97.0,
    "dcsr-sorted/streams": 80.0,
}
OURS = {
    "csr/vector-w8-u2-cs": 85.0,
    "dcsr-defragmented/vector-w8-u2-cs": 91.0,
    "dcsr-defragmented/vector-w8-u2-cs-exact": 86.0,
    "dcsr-fragmented/adaptive-e2-u2-cs": 77.0,
    "dcsr-defragmented/adaptive-e2-u2-cs": 70.0,
    "dcsr-sorted/adaptive-e2-u2-cs-exact": 60.0,
}
ROUTINES = {"spmv-csr-alg1": 95.0, "spmv-csr-alg2": 75.0, "spmv-sell-alg1": 66.0}
HYB = 88.0
OPERATIONS = 2_000_000


class Maker(Recorder):
    """Writes the raw folder of a campaign of products."""

    def __init__(self, root, backend="cuda"):
        super().__init__(root, backend, STUDY_NAME, OWN)

    def products(self, problem, precision, weight=1.0, ours=True, hyb=True) -> list[Row]:
        def row(name, micro, **columns):
            return self.row(problem, precision, "variant", name, micro * weight, phase="report",
                            operations=OPERATIONS, **columns)  # fmt: skip

        times = {**PAPERS, **OURS} if ours else PAPERS
        rows = [
            row(name, micro, space=ProductId.parse(name).space, **ProductId.parse(name).columns)
            for name, micro in times.items()
        ]
        if hyb:
            rows.append(row("hyb", HYB, what="product", format="hyb"))
        return rows

    def case(self, problem, precision, weight=1.0, **which):
        library = [
            self.row(problem, precision, "baseline", f"cusparse/{name}/real", micro * weight, phase="report",
                     operations=OPERATIONS, ordering="natural", representation="real", routine=name,
                     format=name.split("-")[1], papers_choice=name == "spmv-csr-alg1")
            for name, micro in ROUTINES.items()
        ]  # fmt: skip
        empty = self.row(problem, precision, "empty", "empty", 3.0, phase="report")
        self.record(problem, kind="updates")
        self.write(problem, precision, "report", [*self.products(problem, precision, weight, **which), *library, empty])


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    maker = Maker(tmp_path_factory.mktemp("products"))
    maker.environment()
    for precision in ("single", "double"):
        maker.case("large", precision, 10.0)
        maker.case("plain", precision, ours=False, hyb=False)
        maker.write("gone", precision, "report", [maker.unavailable("gone", precision, "no such file")])
    maker.record("gone", kind="updates", status="unavailable", reason="no such file")
    return maker.load()


def lines(made):
    keys = [column.key for column in made.columns]
    cells = ({key: cell.value for key, cell in zip(keys, row, strict=True)} for row in made.rows)
    return {(line["problem"], line["precision"]): line for line in cells}


def test_a_conversion_is_the_set_up_of_rows_in_the_matrixs_order(tmp_path):
    maker = Maker(tmp_path)
    maker.environment()
    maker.record("graph", kind="updates")
    csr = maker.row("graph", "double", "baseline", "csr", 75.0, phase="report", ordering="natural", format="csr")
    rows = maker.products("graph", "double")
    converted = maker.row("graph", "double", "variant", "convert/csr-dcsr", 40.0, phase="report", what="convert",
                          format="csr", to_format="dcsr")  # fmt: skip
    in_order = [row for row in rows if not row.name.startswith("dcsr-sorted")]
    maker.write("graph", "double", "report", [csr, *in_order, converted])
    line = lines(get_artifact(STUDY_NAME, SETUP_COSTS).make(maker.load(), NOTHING_PUBLISHED))["graph", "double"]
    # the graph clock reads 60 and 56 of the products; ten of them gain the conversion's 40 by events
    assert line["ours"] == "dcsr-defragmented/adaptive-e2-u2-cs"
    assert (line["ours_setup_ms"], line["gain_us"]) == (pytest.approx(0.04), pytest.approx(4))
    assert line["pays_from"] in (10, 11)
    maker.write("graph", "double", "report", [csr, *rows, converted])
    line = lines(get_artifact(STUDY_NAME, SETUP_COSTS).make(maker.load(), NOTHING_PUBLISHED))["graph", "double"]
    assert line["ours"].startswith("dcsr-sorted") and line["ours_setup_ms"] is None


def test_every_time_and_ratio(campaign):
    made = products(campaign, NOTHING_PUBLISHED)
    assert "Published" not in made.caption
    assert "1.08× the time of a defragmented one" in products(campaign, NUMBERS).caption
    line = lines(made)["large", "double"]
    expected = {
        "csr_us": 720.0,
        "fragmented_us": 880.0,
        "defragmented_us": 792.0,
        "adaptive_us": 640.0,
        "hyb_us": 704.0,
        "ours_us": 480.0,
        "library_csr_us": 600.0,
        "library_us": 528.0,
        "defragmented_over_csr": 86 / 85,
        "fragmented_over_defragmented": 77 / 70,
        "library_csr_over_ours": 75 / 60,
        "library_over_ours": 66 / 60,
    }
    assert {key: line[key] for key in expected} == pytest.approx(expected)
    assert line["ours"] == "dcsr-sorted/adaptive-e2-u2-cs-exact"
    assert line["library"] == "cusparse/spmv-sell-alg1/real"


def test_without_ours_the_papers_vectors_stand_there(campaign):
    line = lines(products(campaign, NOTHING_PUBLISHED))["plain", "single"]
    assert (line["ours"], line["hyb_us"]) == ("dcsr-defragmented/vector-w8", None)
    assert line["defragmented_over_csr"] == pytest.approx(99 / 90)
    assert line["fragmented_over_defragmented"] == pytest.approx(110 / 104)


def test_the_last_lines_have_means_medians_and_worst(campaign):
    made = products(campaign, NOTHING_PUBLISHED)
    heads, *ratios = zip(*((row[0].value, *(cell.value for cell in row[-4:])) for row in made.summary), strict=True)
    assert heads == ("geometric mean", "median", "worst")
    assert ratios[0][1:] == pytest.approx(((86 / 85 + 99 / 90) / 2, 99 / 90))
    assert ratios[1][1:] == pytest.approx(((77 / 70 + 110 / 104) / 2, 77 / 70))
    assert ratios[2][1:] == pytest.approx(((75 / 60 + 75 / 99) / 2, 75 / 99))
    assert ratios[3] == pytest.approx(((66 / 60 * 66 / 99) ** 0.5, (66 / 60 + 66 / 99) / 2, 66 / 99))


def test_what_is_not_there_has_its_reason(campaign):
    made = products(campaign, NOTHING_PUBLISHED)
    line = lines(made)["gone", "double"]
    assert line["ours"] is line["csr_us"] is line["library_over_ours"] is None
    assert any("no such file" in note for note in made.notes)
    assert "Unavailable" in made.caption


def test_the_best_of_each_kind_are_chosen_and_their_twins_reported(tmp_path):
    rows = Maker(tmp_path).products("p", "double")
    choices = {(c.clock, c.tuning): c.name for c in choose_products(rows, 0.01)}
    assert {tuning: name for (clock, tuning), name in choices.items() if clock == "graph"} == {
        "csr": "csr/vector-w4",
        "fragmented": "dcsr-fragmented/vector-w4",
        "defragmented": "dcsr-defragmented/vector-w4",
        "tuned_csr": "csr/vector-w8",
        "tuned_fragmented": "dcsr-fragmented/vector-w4",
        "tuned_defragmented": "dcsr-defragmented/vector-w8",
        "adaptive": "dcsr-sorted/streams",
        "hyb": "hyb",
        "ours-csr": "csr/vector-w8-u2-cs",
        "ours-fragmented": "dcsr-fragmented/adaptive-e2-u2-cs",
        "ours-defragmented": "dcsr-sorted/adaptive-e2-u2-cs-exact",
    }
    ids = [ProductId.parse(row.name) for row in rows if row.name != "hyb"]
    names = reported_names(rows, choose_products(rows, 0.01, ids))
    assert len(names) == len(set(names))
    assert set(names) == {*PAPERS, *OURS, "hyb"}
    papers = Maker(tmp_path).products("p", "double", ours=False)
    assert not any(choice.tuning.startswith("ours") for choice in choose_products(papers, 0.01))
    literal = [row for row in papers if row.space != PAPER_TUNED]
    assert not any(choice.tuning.startswith(("ours", "tuned")) for choice in choose_products(literal, 0.01))
