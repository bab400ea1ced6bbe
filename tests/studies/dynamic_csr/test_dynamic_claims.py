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
from repro.studies.dynamic_csr.claims import QUANTITIES, PaperGraphs
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

    def graph(self, problem: str, updates, products=(), csr: str = "ok", tunings=()):
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
        ]
        self.record(problem, kind="updates")
        self.write(problem, "double", "report", rows)
        self.choose(problem, "double", {(tuning, "graph"): (name, []) for tuning, name in tunings})


def judged(campaign):
    judgements = judge(CLAIMS, campaign, QUANTITIES, lambda one, variants: PaperGraphs.of(one, NUMBERS, variants))
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
