"""Which kernels judge a claim of chapter 5, on campaigns that were never measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from repro.results.claims import judge, load_claims
from repro.results.published import Published
from repro.results.registry import get_artifact
from repro.studies import load_artifacts
from repro.studies.dynamic_csr import PUBLISHED, STUDY_NAME, TARGETS
from repro.studies.dynamic_csr.claims import CLAIM_QUANTITIES, graphs_of
from repro.studies.dynamic_csr.ids import DynamicRow
from support.campaigns import Recorder
from support.figure_flaws import laid_out

load_artifacts(STUDY_NAME)
NUMBERS = Published.load(STUDY_NAME, PUBLISHED, TARGETS, Path(__file__).parents[3] / "config")
CLAIMS = load_claims(STUDY_NAME)
OURS, TEXT, FIFTH = (
    {"space": "extended"}, {"space": "paper", "reading": "text"}, {"space": "paper", "reading": "fifth"},
)  # fmt: skip


class Maker(Recorder):
    """Writes the raw folder of a campaign of one graph."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "cuda", STUDY_NAME, DynamicRow.own_columns())
        self.environment()

    def graph(self, problem: str, updates, products=(), csr: str = "ok", tunings=(), others=(), **facts):
        def row(kind, name, micro, clocks=("event",), **columns):
            return self.row(problem, "double", kind, name, micro, clocks, phase="report", **columns)

        by_row = {"order": "sorted", "mode": "add"}
        rows = [
            *(
                row("variant", f"{what}/{n}", micro, what=what, format="dcsr", **by_row, **columns)
                for n, (what, micro, columns) in enumerate(updates)
            ),
            *(
                row("variant", f"product/{name}", micro, ("event", "graph"), what="product", **columns)
                for name, micro, columns in products
            ),
            *(row("rival", f"hyb/{what}", 100.0, what=what, format="hyb", **by_row) for what in ("stream", "iterate")),
            row("rival", "csr/it", 300.0 if csr == "ok" else None, what="iterate", format="csr", status=csr, **by_row),
            *(
                row(kind, f"other/{n}", micro, ("event", "graph"), **columns)
                for n, (kind, micro, columns) in enumerate(others)
            ),
        ]
        self.record(problem, kind="updates", facts={STUDY_NAME: facts})
        self.write(problem, "double", "report", rows)
        self.choose(problem, "double", {(tuning, "graph"): (name, []) for tuning, name in tunings})


def judged(campaign):
    judgements = judge(CLAIMS, campaign, CLAIM_QUANTITIES, lambda one, variants: graphs_of(one, NUMBERS, variants))
    return {one.claim.id: one for one in judgements}


def test_updates_as_published_judge_where_a_campaign_has_them(tmp_path):
    maker = Maker(tmp_path)
    maker.graph(
        "graph", [("stream", 20.0, OURS), ("stream", 25.0, TEXT), ("iterate", 40.0, TEXT), ("iterate", 10.0, FIFTH)]
    )
    verdicts = judged(maker.load())
    assert (verdicts["streaming_mean"].value, verdicts["streaming_mean"].variants) == (pytest.approx(4), "as_published")
    assert verdicts["iterative_most"].value == pytest.approx(2.5)  # by the text, not by the code's defragmentations


def test_the_papers_updates_are_drawn_of_the_campaign_that_judges_the_claims(tmp_path):
    own, letter = Maker(tmp_path / "own"), Maker(tmp_path / "letter")
    own.graph("graph", [("stream", 20.0, OURS), ("iterate", 50.0, OURS)])
    letter.graph("graph", [("stream", 25.0, TEXT), ("iterate", 40.0, TEXT)])
    campaign = replace(own.load(), as_published=replace(letter.load(), name="letter"))
    made = get_artifact(STUDY_NAME, "figure-5-3").make(campaign, NUMBERS)
    assert made.campaigns == (campaign.name, "letter") and "campaign letter" in made.caption
    iterative, streaming = laid_out(made).axes
    assert [bar.get_width() for bar in iterative.patches[:2]] == pytest.approx([2.0, 2.5])
    assert [bar.get_width() for bar in streaming.patches] == pytest.approx([5.0, 4.0])


def test_ours_judge_where_nothing_as_published_was_measured(tmp_path):
    maker = Maker(tmp_path)
    maker.graph("graph", [("stream", 20.0, OURS), ("iterate", 50.0, OURS)])
    verdicts = judged(maker.load())
    assert (verdicts["streaming_mean"].value, verdicts["streaming_mean"].variants) == (pytest.approx(5), "ours")
    assert (verdicts["iterative_most"].value, verdicts["iterative_most"].variants) == (pytest.approx(2), "ours")


PRODUCTS = [
    ("w4", 20.0, {"format": "csr", "space": "paper", "schedule": "vector"}),
    ("w8", 10.0, {"format": "csr", "space": "paper_tuned", "schedule": "vector"}),
    *(
        (f"{state}-{space}", micro, {"format": "dcsr", "space": space, "schedule": "vector", "state": state})
        for state, space, micro in (
            ("defragmented", "paper", 30.0), ("defragmented", "paper_tuned", 11.0), ("fragmented", "paper", 33.0),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("prefix", "variants", "value"), [("", "as_published", 1.5), ("tuned_", "paper_tuned", 1.1)])
def test_products_as_published_judge_where_they_were_searched(tmp_path, prefix, variants, value):
    maker = Maker(tmp_path)
    tunings = [(f"{prefix}{name}", "product/w4") for name in ("csr", "fragmented", "defragmented")]
    maker.graph("graph", [], PRODUCTS, tunings=tunings)
    verdict = judged(maker.load())["defragmented"]
    assert (verdict.value, verdict.variants) == (pytest.approx(value), variants)


@pytest.mark.parametrize(
    ("statuses", "value"),
    [(("out_of_memory", "out_of_memory"), 2), (("ok", "out_of_memory"), 1), (("ok", "incorrect"), None)],
)
def test_csr_ran_out_of_memory_only_where_memory_ran_out(tmp_path, statuses, value):
    maker = Maker(tmp_path)
    for problem, status in zip(("ljournal-2008", "soc-LiveJournal1"), statuses, strict=True):
        maker.graph(problem, [], csr=status)
    verdict = judged(maker.load())["csr_memory"]
    assert verdict.value == value
    assert value is not None or "incorrect" in verdict.reason


def test_tables_of_updates_show_what_is_published_beside_ours(tmp_path):
    maker = Maker(tmp_path)
    updates = [("stream", 20.0, OURS), ("stream", 25.0, TEXT), ("defragment", 6.0, OURS), ("defragment", 8.0, TEXT)]
    maker.graph("graph", [*updates, ("iterate", 10.0, FIFTH)], [("csr", 10.0, {"format": "csr", "space": "paper"})])
    campaign = maker.load()

    def made(name):
        table = get_artifact(STUDY_NAME, name).make(campaign, NUMBERS)
        keys = [column.key for column in table.columns]
        return table, [dict(zip(keys, row, strict=True)) for row in table.rows]

    table, lines = made("table-5-4")
    graph = next(line for line in lines if line["problem"].value == "graph")
    found = {key: graph[key].value for key in ("DCSR_sorted", "DCSR_sorted_published", "DCSR_defragment_published")}
    assert found == pytest.approx({"DCSR_sorted": 2.0, "DCSR_sorted_published": 2.5, "DCSR_defragment_published": 0.8})
    assert "algorithms 4, 5 and 7" in table.caption
    _, lines = made("table-readings")
    assert [line["update"].value for line in lines] == ["stream", "iterate"]
    assert lines[0]["text_us"].value == pytest.approx(25) and lines[0]["ours_us"].value == pytest.approx(20)
    assert lines[1]["fifth_us"].value == pytest.approx(10) and lines[1]["hyb_us"].value == pytest.approx(100)
    _, lines = made("table-text")
    assert (lines[0]["as_published"].value, lines[0]["ours"].value) == (pytest.approx(4), pytest.approx(5))
    campaign = replace(campaign, as_published=replace(campaign, name="letter"))
    _, lines = made("table-text")
    assert lines[0]["as_published"].notes == ("4.00 by campaign letter, which judges the claim; its cases: 1",)


def conversion(source, target, micro, kind="variant"):
    return kind, micro, {"what": "convert", "format": source, "to_format": target, "space": "extended"}


def test_the_gain_on_one_graph_is_compared_with_those_on_the_others(tmp_path):
    maker = Maker(tmp_path)
    for name, micro in (("amazon-2008", 80.0), ("enron", 40.0), ("internet", 50.0)):
        maker.graph(name, [("iterate", micro, TEXT)])
    judgement = judged(maker.load())["iterative_amazon"]
    assert judgement.value == pytest.approx(1.25 / ((2.5 + 2) / 2))
    assert [number.case for number in judgement.numbers] == ["amazon-2008"]


def test_conversions_are_compared_with_the_table_graph_by_graph(tmp_path):
    maker = Maker(tmp_path)
    copy = conversion("csr", "csr", 10.0, "rival")
    maker.graph("enron", [], others=[copy, conversion("csr", "dcsr", 25.8), conversion("coo", "hyb", 543.0, "rival")])
    maker.graph("internet", [], others=[copy, conversion("csr", "dcsr", 39.0)])
    maker.graph(
        "indochina-2004", [], others=[copy, conversion("coo", "hyb", 10.0, "rival")]
    )  # the table has none of it
    maker.graph("mine", [], others=[copy, conversion("csr", "dcsr", 1000.0)])  # nor of a graph that is not the paper's
    verdicts = judged(maker.load())
    found = {id: {number.case: number.value for number in verdicts[id].numbers} for id in ("csr_to_dcsr", "coo_to_hyb")}
    assert found["csr_to_dcsr"] == pytest.approx({"enron": 2.58 / 1.29, "internet": 3.9 / 1.3})
    assert found["coo_to_hyb"] == pytest.approx({"enron": 54.3 / 27.15})
    assert verdicts["csr_to_dcsr"].variants == "ours"  # the paper's kernels of conversions are not written down


def test_operations_are_compared_with_the_table_in_products_of_the_same_kernels(tmp_path):
    maker = Maker(tmp_path)
    updates = [("defragment", 54.9, TEXT), ("defragment", 5.0, OURS)]
    products = [
        ("paper", 10.0, {"format": "csr", "space": "paper"}),
        ("ours", 5.0, {"format": "csr", "space": "extended"}),
    ]
    maker.graph("enron", updates, products, others=[("rival", 160.0, {"what": "sort", "format": "hyb"})])
    verdicts = judged(maker.load())
    assert (verdicts["defragmentation_products"].value, verdicts["sort_products"].value) == (
        pytest.approx(5.49 / 5.49), pytest.approx(16 / 8),
    )  # fmt: skip
    assert verdicts["defragmentation_products"].variants == "as_published"


def test_a_rebuild_is_counted_for_each_batch_in_products(tmp_path):
    maker = Maker(tmp_path)
    rebuilt = ("rival", 1000.0, {"what": "insert", "format": "csr", "order": "sorted", "mode": "add"})
    maker.graph(
        "enron", [], [("csr", 4.0, {"format": "csr", "space": "paper"})], others=[rebuilt], batches={"count": 50}
    )
    maker.graph("internet", [], others=[rebuilt], batches={"count": 50})  # without a product
    verdict = judged(maker.load())["rebuild"]
    assert [(number.case, number.value) for number in verdict.numbers] == [("enron", pytest.approx(1000 / 50 / 4))]


def test_bins_are_compared_with_one_kernel_for_all_rows(tmp_path):
    maker = Maker(tmp_path)
    rows = {"format": "dcsr", "state": "defragmented"}
    products = [
        ("vector", 30.0, {**rows, "space": "paper", "schedule": "vector"}),
        ("streams", 20.0, {**rows, "space": "paper", "schedule": "streams"}),
        ("sorted", 10.0, {**rows, "space": "paper", "schedule": "streams", "state": "sorted"}),
    ]
    tunings = [(name, "product/vector") for name in ("csr", "fragmented", "defragmented")]
    maker.graph("enron", [], products, tunings=tunings)
    assert judged(maker.load())["binned"].value == pytest.approx(1.5)


@pytest.mark.parametrize(("status", "value"), [("out_of_memory", 1), ("ok", 0), ("incorrect", None)])
def test_hyb_ran_out_of_memory_only_where_memory_ran_out(tmp_path, status, value):
    maker = Maker(tmp_path)
    kind, micro, columns = "rival", 5.0 if status == "ok" else None, {"what": "stream", "format": "hyb"}
    maker.graph("indochina-2004", [], others=[(kind, micro, {**columns, "status": status})])
    campaign = maker.load()
    campaign = replace(campaign, report=campaign.report[campaign.report.name != "hyb/stream"])
    assert judged(campaign)["hyb_memory"].value == value


def test_memory_is_of_graphs_that_are_not_made_with_it(tmp_path):
    maker = Maker(tmp_path)
    memory = {"paper": {"CSR": 1.0, "HYB": 4.0, "DCSR-2": 2.0, "DCSR-3": 3.0, "DCSR-4": 5.0}}
    maker.graph("enron", [], memory=memory)
    verdicts = judged(maker.load())
    found = {id: verdicts[id].value for id in ("memory_csr", "memory_2", "memory_3", "memory_4")}
    assert found == {"memory_csr": 0.25, "memory_2": 0.5, "memory_3": 0.75, "memory_4": 1.25}


def devices(one, two, eight):
    """Rows of a product on one, two and eight devices, each a launch."""
    return [
        ("several", micro, {"what": "product", "exchange": "none", "steps": 1, "devices": number})
        for number, micro in ((1, one), (2, two), (8, eight))
    ]


def test_graphs_that_devices_speed_up_less_are_compared_with_the_others(tmp_path):
    maker = Maker(tmp_path)
    for name, two, eight in (
        ("rail4284", 8.0, 5.0),
        ("enron", 12.5, 4.0),
        ("eu-2005", 5.0, 1.25),
        ("flickr", 5.0, 1.25),
    ):
        maker.graph(name, [], others=devices(10.0, two, eight))
    verdicts = judged(maker.load())
    assert verdicts["long_rows_2"].value == pytest.approx(1.25 / ((0.8 + 2 + 2) / 3))
    assert verdicts["small_2"].value == pytest.approx(0.8 / ((1.25 + 2 + 2) / 3))
    assert verdicts["linear_8"].value == 0.5
    alone = Maker(tmp_path / "alone")
    alone.graph("rail4284", [], others=devices(10.0, 8.0, 5.0))
    assert "no time of them and of others" in judged(alone.load())["long_rows_2"].reason
