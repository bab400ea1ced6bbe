"""Tables and figures of updates on a campaign that was never measured: each number can be worked out.

Times are in microseconds by the event clock, of which the graph clock reads 0.8 and the host's 3.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.text import Text

from repro.bench.rows import Row
from repro.results import figure_style
from repro.results.campaign_data import Campaign
from repro.results.problem_lines import OF_NO_PAPER
from repro.results.published import Published
from repro.results.registry import get_artifact
from repro.results.tables import Cell, Figure, Table
from repro.studies import load_artifacts
from repro.studies.dynamic_csr import PUBLISHED, STUDY_NAME, TARGETS, runnables_baselines
from repro.studies.dynamic_csr.claims import TARGET_QUANTITIES
from repro.studies.dynamic_csr.figures import published_bars
from repro.studies.dynamic_csr.results import GEAM_ROUTINE, UPDATE_PROTOCOLS
from support.benches import OWN
from support.campaigns import Recorder
from support.figure_flaws import flaws, laid_out

load_artifacts(STUDY_NAME)
NUMBERS = Published.load(STUDY_NAME, PUBLISHED, TARGETS, Path(__file__).parents[3] / "config")
SIZES = (1, 1000, 10_000, 1_000_000, 10_000_000)
#: Microseconds of a batch and of a product, by format and routine.
ITERATED = {
    ("dcsr", None): (10.0, 110.0), ("hyb", None): (190.0, 210.0), ("csr", None): (300.0, 100.0),
    ("csr", GEAM_ROUTINE): (900.0, 100.0),
}  # fmt: skip
STREAMED = {("dcsr", "sorted"): 40.0, ("hyb", "sorted"): 200.0, ("dcsr", "any"): 50.0, ("hyb", "any"): 150.0}


class Maker(Recorder):
    """Writes the raw folder of a campaign of updates."""

    def __init__(self, root: Path, backend: str = "cuda") -> None:
        super().__init__(root, backend, STUDY_NAME, OWN)
        self.environment()

    def one(self, problem: str, kind: str, name: str, micro: float, clocks=("event",), **columns) -> Row:
        if kind == "variant" and columns.get("format") == "dcsr":
            columns = {"space": "extended", **columns}
        return self.row(problem, "single", kind, name, micro, clocks, phase="report", **columns)

    def graph(self, problem: str, weight: float = 1.0, entries: int = 60_000, **origin) -> None:
        rows = []
        for (form, routine), (update, product) in ITERATED.items():
            kind = "variant" if form == "dcsr" else "rival"
            columns = {"format": form, "routine": routine, "batch": 2000, "order": "sorted",
                       "mode": "unique" if routine else "add"}  # fmt: skip
            clocks = ("host",) if routine else ("event",)
            for what, micro in (("iterate", 50 * (update + 5 * product)), ("insert", 50 * update)):
                name = f"{routine or form}/{what}/sorted"
                rows.append(self.one(problem, kind, name, micro * weight, clocks, what=what, **columns))
            if routine is None and form != "dcsr":
                rows.append(self.one(problem, kind, f"{form}/product", product * weight, what="product", format=form))
        for (form, order), micro in STREAMED.items():
            kind = "variant" if form == "dcsr" else "rival"
            rows.append(
                self.one(problem, kind, f"{form}/stream/{order}/add", micro * weight, what="stream", format=form,
                         order=order, mode="add", batch=entries)
            )  # fmt: skip
        for form, micro in (("dcsr", 400.0), ("csr", 2600.0)):
            rows.append(
                self.one(problem, "variant", f"{form}/insert/any/add", micro, what="insert", format=form, order="any",
                         mode="add", batch=2000)
            )  # fmt: skip
        rows += [
            self.one(problem, "variant", name, micro, ("event", "graph"), what="product", format="dcsr", state=state,
                     schedule=schedule, space="paper", width=1, per_thread=0, unroll=1, load="ca", exact=False)
            for name, micro, state, schedule in (
                ("dcsr-fragmented/vector-w1", 110.0 * weight, "fragmented", "vector"),
                ("dcsr-defragmented/vector-w1", 100.0 * weight, "defragmented", "vector"),
                ("dcsr-defragmented/streams", 50.0, "defragmented", "streams"),
                ("dcsr-sorted/streams", 40.0, "sorted", "streams"),
            )
        ]  # fmt: skip
        self.record(problem, kind="updates", origin=origin, facts={STUDY_NAME: self.facts(entries, 2000, 2000)})
        self.write(problem, "single", "report", rows)

    def sweep(self, problem: str, weight: float = 1.0) -> None:
        rows = []
        for size in SIZES:
            for order, mode in UPDATE_PROTOCOLS:
                slower = (2.0 if order == "any" else 1.0) * (1.5 if mode == "unique" else 1.0) * weight
                named = {"what": "batch", "batch": size, "order": order, "mode": mode}

                def batch(form, micro, kind="rival", clocks=("event",), routine=None, named=named):
                    name = f"{routine or form}/batch/{named['batch']}/{named['order']}/{named['mode']}"
                    return self.one(problem, kind, name, micro, clocks, format=form, routine=routine, **named)

                rows.append(batch("dcsr", slower * (4 + size / 10_000), "variant"))
                if mode == "add":
                    rows.append(batch("csr", 120 + size / 5000))
                    rows.append(batch("hyb", 90 + size / 2000))
                    rows.append(batch("coo", 150 + size / 1500))
                elif order == "sorted":
                    rows.append(batch("csr", 100 + size / 4000, clocks=("host",), routine=GEAM_ROUTINE))
        for state, micro in (("fragmented", 70.0), ("defragmented", 55.0)):
            rows.append(self.one(problem, "variant", f"dcsr-{state}", micro, what="product", format="dcsr",
                                 state=state, schedule="vector", space="paper"))  # fmt: skip
        rows.append(self.one(problem, "variant", "csr/v", 60.0, what="product", format="csr", schedule="vector",
                             space="paper"))  # fmt: skip
        rows.append(self.one(problem, "baseline", "cusparse/spmv", 50.0, format="csr", routine="spmv",
                             representation="real", ordering="natural"))  # fmt: skip
        for devices, exchange, micro in ((1, "none", 55.0), (2, "none", 30.0), (2, "overlapped", 40.0)):
            rows.append(self.one(problem, "several", f"product-{devices}-{exchange}", 10 * micro, ("event", "graph"),
                                 what="product", devices=devices, exchange=exchange, steps=10))  # fmt: skip
        rows.append(self.one(problem, "variant", "dcsr/defragment", 100.0, what="defragment", format="dcsr",
                             bytes=400_000_000))  # fmt: skip
        rows.append(self.one(problem, "copy", "copy/256-4", 100.0, bytes=500_000_000))
        self.record(problem, kind="updates", facts={STUDY_NAME: self.facts(80_000_000, 1, SIZES[-1])})
        self.write(problem, "single", "report", rows)

    @staticmethod
    def facts(nonzeros: int, least: int, most: int) -> dict[str, object]:
        batches = {"count": 50, "entries": nonzeros // 10, "least": least, "most": most}
        memory = {"paper": {"DCSR-4": 0.9 * nonzeros, "HYB": nonzeros}}
        return {"nonzeros": nonzeros, "batches": batches, "memory": memory}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    maker = Maker(tmp_path_factory.mktemp("updates"))
    maker.graph("like_cnr-2000", stand_in="cnr-2000")
    maker.graph("mine", 2.0)
    maker.sweep("large/sweep_uniform")
    maker.sweep("large/sweep_skewed", 3.0)
    other = maker.one("untimed", "variant", "other", 1.0, what="product", format="csr")
    maker.record("untimed", kind="updates")
    maker.write("untimed", "single", "report", [other])
    maker.record("enron", kind="updates", status="unavailable", reason="no network", entry=None)
    failed = [
        maker.one("large", "rival", f"hyb/{what}", None, what=what, format="hyb", status="out_of_memory")
        for what in ("stream", "iterate")
    ]
    maker.record("large", kind="updates")
    maker.write("large", "single", "report", [*failed, maker.one("large", "variant", "v", 1.0, what="product")])
    return maker.load()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """A campaign of the CPU that has one product."""
    maker = Maker(tmp_path_factory.mktemp("bare"), "opencl")
    maker.record("mine", kind="updates")
    maker.write("mine", "single", "report", [maker.one("mine", "variant", "v", 1.0, what="product", format="csr")])
    return maker.load()


def made(campaign: Campaign, name: str) -> tuple[Table, list[dict[str, Cell]]]:
    table = get_artifact(STUDY_NAME, name).make(campaign, NUMBERS)
    assert isinstance(table, Table)
    keys = [column.key for column in table.columns]
    assert len(set(keys)) == len(keys)
    return table, [dict(zip(keys, row, strict=True)) for row in table.rows]


def drawn(campaign: Campaign, name: str):
    figure = get_artifact(STUDY_NAME, name).make(campaign, NUMBERS)
    assert isinstance(figure, Figure)
    with mpl.rc_context(figure_style.RC):
        canvas = figure.draw()
        return figure.caption, canvas, [text.get_text() for text in canvas.findobj(Text)]


def test_the_name_of_the_librarys_sum_is_the_one_that_is_recorded():
    assert GEAM_ROUTINE == runnables_baselines.GEAM


# tables --------------------------------------------------------------------------------------------------------------


def test_the_crossover_follows_from_four_times(campaign):
    _, lines = made(campaign, "table-crossover")
    by_name = {(line["problem"].value, line["batch"].value): line for line in lines}
    graph = by_name["like_cnr-2000", 2000]
    assert [graph[key].value for key in ("update_us", "rebuild_us", "fragmented_us", "csr_us")] == pytest.approx(
        [10, 300, 110, 100]
    )
    assert graph["gain_0"].value == pytest.approx(30)
    assert graph["gain_5"].value == pytest.approx(800 / 560)
    assert graph["crossover"].value == pytest.approx(29)
    sweep = by_name["large/sweep_uniform", 1000]
    # the library's product is the faster, and is what counts
    assert sweep["csr_us"].value == pytest.approx(50)
    assert sweep["update_us"].value == pytest.approx(8.2)
    assert sweep["crossover"].value == pytest.approx((120.2 - 8.2) / 20)
    slow = by_name["large/sweep_skewed", 10_000_000]
    assert (slow["crossover"].value, slow["crossover"].shown) == (None, "never")
    assert by_name["untimed", None]["problem"].notes == (OF_NO_PAPER, "updates and products of both were not timed")
    assert by_name["enron", None]["problem"].notes == ("unavailable: no network",)


def test_every_target_has_a_number_or_a_reason(campaign):
    assert {item["quantity"] for item in NUMBERS.targets} == set(TARGET_QUANTITIES)
    table, lines = made(campaign, "table-targets")
    by_quantity = {item["quantity"]: line for item, line in zip(NUMBERS.targets, lines, strict=True)}
    measured = {name: line["measured"].value for name, line in by_quantity.items()}
    expected = {
        "random_1e6_rate": 1e6 / 208e-6 / 1e9,
        "random_1e7_rate": 1e7 / 2008e-6 / 1e9,
        "unique_rate": 1e6 / 312e-6 / 1e9,
        "batch_1e3_micro": 8.2,
        "sorted_1e7_rate": 1e7 / 1004e-6 / 1e9,
        "hybrid_mean": 5.0,
        "hybrid_any_mean": 3.0,
        "rebuild_worst": 122 / 30,
        "defragmentation_worst": 0.8,
        "devices_2_worst": 55 / 30,
        "overlapped_2_worst": 55 / 40,
        # of sweeps too it would be 70 / 55: these have not grown by a tenth
        "fragmented_worst": 66 / 60,
    }
    assert {name: measured[name] for name in expected} == pytest.approx(expected)
    assert by_quantity["batch_1e3_micro"]["reached"].value == "yes"
    assert by_quantity["batch_1e3_micro"]["wanted"].shown == "≤ 12"
    assert by_quantity["unique_rate"]["reached"].value == "no"
    assert by_quantity["unique_rate"]["cases"].value == 2
    worst = by_quantity["rebuild_worst"]
    assert worst["worst_case"].value == "large/sweep_skewed, batches of 10,000, any order, added"
    assert measured["devices_4_worst"] is None
    assert "4 devices" in by_quantity["devices_4_worst"]["worst_case"].value
    assert "single precision" in table.caption


def test_what_the_papers_text_states_stands_beside_ours(campaign):
    table, lines = made(campaign, "table-text")
    by_statement = {line["statement"].value: line for line in lines}
    expected = {
        "streaming updates: speedup over HYB, mean": (4.8, 5.0, 2),
        "streaming updates: speedup over HYB, largest": (8, 5.0, 2),
        "iterative updates: speedup over HYB, largest": (2.5, 1240 / 560, 2),
        "product: time of fragmented over defragmented, mean": (1.08, 1.1, 2),
        "product: speedup of ADCSR by rows in the order of their sizes, mean": (1.12, 1.25, 2),
        "memory: four segments a row over HYB, mean": (0.8, 0.9, 1),  # a stand-in is made with it
    }
    for statement, numbers in expected.items():
        line = by_statement[statement]
        found = [line[key].value for key in ("published", "ours", "cases")]
        assert found == pytest.approx(list(numbers)), statement
    twice = by_statement["product on two devices: speedup in double precision, mean"]
    assert (twice["published"].shown, twice["ours"].value, twice["cases"].value) == ("1.97", None, 0)
    assert twice["ours"].notes == ("not measured on any graph",)
    stated = {item["quantity"] for item in NUMBERS["text"] if item["gpu"] != "M2090"}
    assert len(stated - {"graphs that CSR runs out of memory on"}) == len(lines) - 1  # which is a claim alone
    assert "graphs with batches of growing sizes are left out" in table.caption
    assert by_statement["streaming updates: speedup over HYB, mean"]["as_published"].notes == ()


def test_targets_that_nothing_was_measured_of(bare):
    _, lines = made(bare, "table-targets")
    assert all(line["measured"].value is None for line in lines)
    assert all(line["worst_case"].value for line in lines)
    assert lines[0]["worst_case"].value == "large/sweep_uniform: not in this campaign"


# figures -------------------------------------------------------------------------------------------------------------


def test_the_papers_bars_follow_from_its_table():
    bars = published_bars(NUMBERS)
    assert len(bars) == 15
    assert bars["enron"] == pytest.approx(8.24, abs=0.01)
    assert sum(bars.values()) / len(bars) == pytest.approx(4.82, abs=0.01)


def test_updates_are_drawn_over_hyb(campaign):
    caption, canvas, texts = drawn(campaign, "figure-5-3")
    left, right = canvas.axes[:2]
    assert [bar.get_width() for bar in left.patches][:3] == pytest.approx([1240 / 560, 1240 / 800, 1240 / 4200])
    assert [bar.get_width() for bar in right.patches][:2] == pytest.approx([5.0, 3.0])
    assert {"like_cnr-2000†", "mine‡", "was not iterated with HYB", "was not streamed into both"} <= set(texts)
    assert texts.count("HYB: out of memory") == 2
    assert "4.8×" in caption
    assert "2.5×" in caption
    assert "1000 updates" in caption


def test_the_figure_can_be_drawn_from_nothing(bare):
    _, _, texts = drawn(bare, "figure-5-3")
    assert any("campaign" in text for text in texts)


@pytest.mark.parametrize("name", ["figure-5-3", "table-crossover"])
def test_a_cpus_caption_has_no_marks_nor_routines_of_a_gpu(campaign, bare, name):
    on_gpu, on_cpu = (get_artifact(STUDY_NAME, name).make(of, NUMBERS).caption for of in (campaign, bare))
    assert "waiting for counts" in on_gpu
    assert "csrgeam2 runs only on GPUs" in on_cpu
    assert ("diamonds" in on_gpu) == (name == "figure-5-3")
    assert "diamonds" not in on_cpu


@pytest.mark.parametrize("measured", ["campaign", "bare"])
def test_a_picture_has_no_flaw(request: pytest.FixtureRequest, measured: str) -> None:
    made = get_artifact(STUDY_NAME, "figure-5-3").make(request.getfixturevalue(measured), NUMBERS)
    assert isinstance(made, Figure)
    assert flaws(laid_out(made)) == []
