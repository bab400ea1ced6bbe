"""What is replayed on the synthetic campaign: its times are products of layout and schedule, so answers are known."""

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas

from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.results.registry import get_artifact
from repro.results.tables import Figure, Table
from repro.sparse.compound.variants import REFERENCE, VariantId, all_layouts
from repro.studies.compound_spmv.figures import search
from repro.studies.compound_spmv.figures.search import curves
from repro.studies.compound_spmv.searches import recordings_of_space
from repro.studies.compound_spmv.tables.search import BUDGET, PRODUCTS, SEQUENCES, order_losses, times_and_bytes
from repro.tuning.strategies import evaluate
from support.synthetic_campaign import PROBLEMS, STUDY, Maker


def values(table: Table) -> dict[tuple[str, ...], dict[str, object]]:
    """Rows by their leading text cells."""
    keys = [column.key for column in table.columns]
    found = {}
    for row in (*table.rows, *table.summary):
        cells = {key: cell.value for key, cell in zip(keys, row, strict=True)}
        words = [cell.value for column, cell in zip(table.columns, row, strict=True) if not column.numeric]
        found[tuple(str(word) for word in words if word)] = cells
    return found


def make(campaign: Campaign, published: Published, name: str) -> Table:
    made = get_artifact(STUDY, name).make(campaign, published)
    assert isinstance(made, Table)
    return made


@pytest.fixture(scope="module")
def predicted(gpu: Campaign, published: Published) -> dict[tuple[str, ...], dict[str, object]]:
    return values(make(gpu, published, "table-predicted"))


def test_all_problems_were_searched_in_full(gpu: Campaign) -> None:
    found = recordings_of_space(gpu, "paper")
    assert len(found) == 2 * sum(given.reason is None for given in PROBLEMS)
    assert recordings_of_space(gpu, "extended") == []


def test_predicted_finds_what_all_problems_share(predicted: dict[tuple[str, ...], dict[str, object]]) -> None:
    cases = [row for key, row in predicted.items() if len(key) == 2]
    assert len(cases) == 12
    for row in cases:
        assert row["paper_tried"] == int(BUDGET * int(str(row["paper_variants"])))
        assert row["paper_problem_unknown"] == 0 and row["paper_entry_unknown"] == 0
        assert float(str(row["paper_random"])) > 0
    assert predicted["median of 12",]["paper_problem_unknown"] == predicted["worst of 12",]["paper_entry_unknown"] == 0


def test_curves_fall(gpu: Campaign) -> None:
    judged = evaluate(recordings_of_space(gpu, "paper")[:4], BUDGET, VariantId, str(REFERENCE))
    for key in ("problem_unknown", "entry_unknown", "random"):
        losses = curves(judged, key)
        assert losses is not None and losses.shape[0] == 4
        assert np.all(np.diff(losses, axis=1) <= 0)


def test_a_panel_whose_losses_are_beyond_its_limit_is_left_out(
    gpu: Campaign, published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made() -> Figure:
        artifact = get_artifact(STUDY, "figure-predicted").make(gpu, published)
        assert isinstance(artifact, Figure)
        return artifact

    assert len(made().draw().axes) == 1 and "not drawn" not in made().caption
    [axes] = made().draw().axes
    written = {text.get_text() for text in made().draw().legends[0].get_texts()}
    assert {"learnt from other problems", "learnt from other entries", "random"} <= written
    assert axes.get_xlim()[0] == 0.5 and all(tick == round(tick) for tick in axes.get_xticks())
    monkeypatch.setattr(search, "LIMIT", 0.0)
    beyond = made()
    assert [text.get_text() for text in beyond.draw().texts] == ["every loss is above 0 %"]
    assert "Not drawn, as all losses exceed 0 %: the papers’ space." in beyond.caption
    monkeypatch.setattr(search, "curves", lambda judged, key, curves=search.curves: curves(judged, key)[:, :1])
    assert [text.get_text() for text in made().draw().texts] == ["the budget is one variant"]
    assert "Not drawn, as the budget is one variant: the papers’ space." in made().caption


def test_orders_lose_what_their_schedule_loses(gpu: Campaign) -> None:
    recordings = recordings_of_space(gpu, "paper")
    losses = {
        name: [one.loss for one in order_losses(recordings, order)] for name, order in {**SEQUENCES, **PRODUCTS}.items()
    }
    # time = layout × schedule: either may come first
    for name in ("jointly", "schedule, then layout", "layout, then schedule"):
        assert losses[name] == pytest.approx([0] * len(recordings))
    # CSR-AoS-AoS takes 21 × 0.95 where the best takes 10
    assert losses["schedule alone"] == pytest.approx([21 * 0.95 / 10 - 1] * len(recordings))
    # the best pair is 64-2; of the pairs that the largest n_t leaves the best is 64-1: one step of n_b away
    by_kind = [(1 / 8, 2 / 8)[one.fastest.partition("/")[2].startswith("dynamic")] for one in recordings]
    assert losses["n_t·n_b, largest n_t"] == pytest.approx(by_kind)


def test_the_table_of_orders(gpu: Campaign, published: Published) -> None:
    table = make(gpu, published, "table-strategies")
    rows = {key[0]: row for key, row in values(table).items()}
    assert list(rows) == [*SEQUENCES, *PRODUCTS]
    assert rows["jointly"]["tried"] > rows["n_t·n_b, largest n_t"]["tried"] > rows["schedule, then layout"]["tried"]
    assert rows["layout alone"]["tried"] == len(all_layouts())
    assert rows["jointly"]["where"] is None
    assert "static-256-6" in table.caption  # 256-8 fails in this campaign


def test_the_front_is_of_bytes_and_time(maker: Maker, published: Published) -> None:
    given = PROBLEMS[1]
    maker.problem(given)
    sizes = {"CSR-AoS-AoS": 100, "ELL-SoA-AoS": 300, "Sl-32-SoA-AoS": 200}
    micros = {"CSR-AoS-AoS": 20 * 0.95 * 1.05, "ELL-SoA-AoS": 10, "Sl-32-SoA-AoS": 10.05}
    rows = [
        maker.variant(given, "single", layout, "static", 64, 2, matrix_bytes=size) for layout, size in sizes.items()
    ]
    rows.append(maker.variant(given, "single", "Sl-16-AoS-AoS", "static", 64, 2, matrix_bytes=250))  # beaten in both
    rows.append(maker.variant(given, "single", "CSR-AoS-AoS", "static", 32, 2, matrix_bytes=100))  # slower
    maker.write(given.name, "single", "search", rows)
    campaign = maker.load()
    found = times_and_bytes(campaign, given.name, "single")
    assert found is not None
    assert [found.rows[i]["layout"] for i in found.front] == ["CSR-AoS-AoS", "Sl-32-SoA-AoS", "ELL-SoA-AoS"]
    table = values(make(campaign, published, "table-pareto"))
    row = table[given.name, "single", "Sl-32-SoA-AoS/static-64-2"]
    assert row["bytes"] == 200 and row["bytes_over_least"] == 2
    assert row["seconds_over_best"] == pytest.approx(micros["Sl-32-SoA-AoS"] / micros["ELL-SoA-AoS"])


def test_a_search_in_part_is_no_truth(maker: Maker, published: Published) -> None:
    for number, given in enumerate(PROBLEMS[:2]):  # of one entry
        maker.problem(given)
        maker.write(given.name, "single", "search", maker.search(given, "single")[number::40])
    campaign = maker.load()
    assert [one.problem for one in recordings_of_space(campaign, "paper")] == []


def test_what_shares_no_variants_teaches_nothing(maker: Maker, published: Published) -> None:
    for number, given in enumerate((PROBLEMS[1], PROBLEMS[2])):  # alone of their entries
        maker.problem(given)
        maker.write(given.name, "single", "search", maker.search(given, "single")[number::40])
    table = make(maker.load(), published, "table-predicted")
    assert [row[-3].value for row in table.rows] == [None, None]  # problem unknown


def test_artifacts_of_what_was_not_searched_say_so(maker: Maker, published: Published) -> None:
    maker.problem(PROBLEMS[1])
    campaign = maker.load()
    made = get_artifact(STUDY, "figure-predicted").make(campaign, published)
    assert isinstance(made, Figure)
    drawn = made.draw()
    assert isinstance(drawn, Canvas)
    assert any("searched" in text.get_text() for text in drawn.texts)
    for name in ("table-predicted", "table-strategies"):
        table = make(campaign, published, name)
        assert table.rows == [] and "No problem of this campaign was searched in full." in table.caption
