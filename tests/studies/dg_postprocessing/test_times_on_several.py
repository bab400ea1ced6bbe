"""Speed-ups over several devices as a table, as Figure 3.12 and as targets, of campaigns that were never measured."""

from __future__ import annotations

import pytest

from repro.results.registry import get_artifact
from repro.studies.dg_postprocessing import FILTER, GATHER, SEVERAL, STUDY_NAME
from repro.studies.dg_postprocessing.ids import FilterId
from support.campaigns import READS
from support.dg_campaign import CHOSEN, NUMBERS, Maker, lines, table, values
from support.figure_flaws import flaws, laid_out

LOW, HIGH, SMALL = "siac/low_1024k_p1", "siac/high_1024k_p2", "siac/low_4k_p1"
#: Microseconds on one device, and of what is done over several, by their number.
OURS, ELEMENT = CHOSEN["edges"][1], CHOSEN["paper/element"][1]
GATHERS = {2: 100.0, 4: 150.0}


def over(maker: Maker, problem: str, degree: int, triangles: int, speedups: dict[int, float]) -> None:
    """Write a field with rows over several devices: ours faster by these factors, per element by half of them."""
    rows = maker.rows(problem, degree, triangles)
    for count, factor in speedups.items():
        times = {
            (FILTER, "edges"): OURS / factor, (GATHER, "edges"): GATHERS[count],
            (FILTER, "paper/element"): ELEMENT / (factor / 2),
        }  # fmt: skip
        for (what, tuning), micro in times.items():
            id = FilterId.parse(CHOSEN[tuning][0])
            rows.append(
                maker.row(problem, "double", SEVERAL, f"{what}-{count}/{id}", READS["graph"] * micro, ("event",),
                          phase="report", what=what, devices=count, **id.columns)
            )  # fmt: skip
    maker.measured(problem, rows)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    maker = Maker(tmp_path_factory.mktemp("devices"))
    maker.field(LOW, "low", 1, 1_048_576)
    maker.field(HIGH, "high", 2, 1_048_576)
    maker.field(SMALL, "low", 1, 4000)
    over(maker, LOW, 1, 1_048_576, {2: 1.96, 4: 3.7})
    over(maker, HIGH, 2, 1_048_576, {2: 1.9})
    over(maker, SMALL, 1, 4000, {2: 1.2, 4: 1.3})
    maker.case("tiny", "low", 1, 300)
    return maker.load()


def test_times_are_of_the_same_clock_on_one_and_on_several(shared):
    by_name = lines(table(shared, "table-devices"))
    line = by_name[LOW]
    assert values(line, "ours_ms", "element_ms", "ours_2_ms") == pytest.approx([3.2, 16, 3.2 / 1.96])
    assert values(line, "ours_2", "ours_4", "element_4") == pytest.approx([1.96, 3.7, 1.85])
    assert values(line, "gather_4_ms", "gathered_4") == pytest.approx([0.12, 4 / (4 / 3.7 + 0.15)])
    assert values(by_name[HIGH], "ours_4", "gathered_4", "element_4_ms") == [None, None, None]
    assert "not measured over several devices" in by_name["tiny"]["problem"].notes
    made = table(shared, "table-devices")
    least = dict(zip([column.key for column in made.columns], made.summary[1], strict=True))
    assert (least["ours_2"].value, least["ours_2_ms"].value) == (pytest.approx(1.2), None)


def test_bars_are_of_the_largest_meshes_with_their_values(shared):
    made = get_artifact(STUDY_NAME, "figure-3-12").make(shared, NUMBERS)
    drawn = laid_out(made)
    assert flaws(drawn) == []
    bars = {
        axes.get_title(): sorted(bar.get_width() for container in axes.containers for bar in container)
        for axes in drawn.axes
    }
    assert bars == {
        "low variance, 1.05M triangles": pytest.approx([0.98, 1.85, 1.96, 3.7]),
        "high variance, 1.05M triangles": pytest.approx([0.95, 1.9]),
    }
    low, high = ([text.get_text() for text in axes.texts] for axes in drawn.axes)
    assert {"1.96", "3.70", "0.98", "1.85", "not timed"} <= {*low} and {"1.90", "0.95"} <= {*high}
    assert [label.get_text() for label in drawn.axes[0].get_yticklabels()] == [
        "P = 1, 2 devices", "P = 1, 4 devices", "P = 2, 2 devices", "P = 2, 4 devices",
    ]  # fmt: skip


def test_targets_are_of_the_largest_meshes_of_a_family(shared):
    made = table(shared, "table-targets")
    keys = [column.key for column in made.columns]
    names = [item["quantity"] for item in NUMBERS.targets]
    reached = {name: dict(zip(keys, row, strict=True)) for name, row in zip(names, made.rows, strict=True)}
    measured = {name: reached[f"several_{name}"]["measured"].value for name in ("low_2", "low_4", "high_2", "high_4")}
    assert measured == {"low_2": pytest.approx(1.96), "low_4": pytest.approx(3.7), "high_2": pytest.approx(1.9),
                        "high_4": None}  # fmt: skip
    verdicts = [reached[f"several_{name}"]["reached"].value for name in measured]
    assert verdicts == ["yes", "no", "yes", None]
    assert f"{HIGH}: no time over 4 devices" in str(reached["several_high_4"]["worst_case"].value)
    assert reached["several_low_2"]["cases"].shown == "1 of 3"


@pytest.mark.wording
def test_one_device_has_no_speedup(dg_campaign_of_some):
    made = table(dg_campaign_of_some, "table-devices")
    assert [column.key for column in made.columns][-1] == "triangles" and "ran on one device" in made.caption
    figure = get_artifact(STUDY_NAME, "figure-3-12").make(dg_campaign_of_some, NUMBERS)
    assert "ran on one device" in figure.caption and made.is_empty and figure.is_empty
