"""Table and figure of energies, from rows whose energies are known."""

from __future__ import annotations

import pytest

from repro.campaign.artifacts import select_artifacts
from repro.config.models import Config
from repro.results.published import Published
from repro.results.registry import get_artifact
from repro.results.shared_artifacts import energy_lines, means_note, register_energy
from support.campaigns import Recorder

STUDY, NNZ = "energetic", 1000
#: By contender: microseconds by the event clock, watts, and kind.
ROWS = {
    "library": (20.0, 400.0, "baseline"),
    "papers": (20.0, 300.0, "variant"),
    "ours": (10.0, 500.0, "variant"),
    "floor": (8.0, 600.0, "floor"),
    "mine": (40.0, 200.0, "outside"),
}
register_energy(STUDY)


def energy(task: str, whose: str, micro: float, watts: float):
    joules = watts * micro * 1e-6
    return {
        "energy_task": task,
        "energy_of": whose,
        "energy_joules": joules,
        "energy_joules_min": 0.9 * joules,
        "energy_joules_max": 1.1 * joules,
        "energy_seconds": micro * 1e-6,
        "energy_watts": watts,
        "energy_idle_watts": 100.0,
        "energy_launches": 50_000,
    }


def made(tmp_path, tasks=("",), measured=True, contenders=tuple(ROWS)):
    recorder = Recorder(tmp_path, study=STUDY)
    recorder.record("a", entry="real", n=10, nnz=NNZ)
    rows = [
        recorder.row(
            "a",
            "double",
            kind,
            f"{whose}/1{task}",
            micro,
            phase="report",
            **(energy(task, whose, micro, watts) if measured else {}),
        )
        for task in tasks
        for whose, (micro, watts, kind) in ROWS.items()
        if whose in contenders
    ]
    rows.append(recorder.row("a", "double", "variant", "slower/1", 99.0, phase="report"))
    recorder.write("a", "double", "report", rows)
    recorder.environment()
    return recorder.load()


def table(campaign):
    return get_artifact(STUDY, "table-energy").make(campaign, Published({}, []))


def lines(made_table):
    keys = [column.key for column in made_table.columns]
    return [dict(zip(keys, row, strict=True)) for row in made_table.rows]


def test_each_contender_has_a_line_with_its_energy(tmp_path):
    by_whose = {line["name"].value.split("/")[0]: line for line in lines(table(made(tmp_path)))}
    assert [*by_whose] == ["ours", "papers", "library", "floor", "mine"]
    assert [line["whose"].value for line in by_whose.values()] == [
        "ours", "the papers’", "the library’s fastest", "streaming floor", "mine"
    ]  # fmt: skip
    values = {key: cell.value for key, cell in by_whose["ours"].items()}
    expected = {
        "energy_uj": 5000.0,
        "energy_min_uj": 4500.0,
        "energy_max_uj": 5500.0,
        "above_idle_uj": 4000.0,
        "watts": 500.0,
        "idle_watts": 100.0,
        "pj_per_byte": 5e-3 / 3_000_000 * 1e12,
        "nj_per_nonzero": 5e-3 / NNZ * 1e9,
        "speedup": 2.0,
        "energy_ratio": 1.6,
        "time_us": 8.0,
        "launches": 50_000,
    }
    assert {key: values[key] for key in expected} == pytest.approx(expected)
    assert by_whose["library"]["speedup"].value is by_whose["library"]["energy_ratio"].value is None
    assert by_whose["library"]["time_us"].value == pytest.approx(16.0)


def test_rows_of_several_tasks_are_compared_in_their_own(tmp_path):
    campaign = made(tmp_path, tasks=("AP product", "AP numeric"))
    made_table = table(campaign)
    assert [(line["task"].value, line["whose"].value) for line in lines(made_table)][:2] == [
        ("AP numeric", "ours"),
        ("AP numeric", "the papers’"),
    ]
    assert len(made_table.rows) == 2 * len(ROWS)
    assert {line.library.energy_task for line in energy_lines(campaign) if line.library} == {"AP product", "AP numeric"}


def test_means_are_said_of_each_contender(tmp_path):
    note = means_note(energy_lines(made(tmp_path)))
    assert "ours 2.00 for time and 1.60 for energy in 1 cases" in note
    assert "the papers’ 1.00 for time and 1.33 for energy" in note
    assert "tuned" not in note


def test_without_a_library_there_are_energies_but_no_ratios(tmp_path):
    campaign = made(tmp_path, contenders=("ours", "papers"))
    assert [line["energy_ratio"].value for line in lines(table(campaign))] == [None, None]
    assert means_note(energy_lines(campaign)) == ""
    assert get_artifact(STUDY, "figure-energy").make(campaign, Published({}, [])).is_empty


def test_a_campaign_without_energies_says_so(tmp_path):
    campaign = made(tmp_path, measured=False)
    made_table = table(campaign)
    assert made_table.is_empty
    assert "energy_seconds" in made_table.caption
    assert get_artifact(STUDY, "figure-energy").make(campaign, Published({}, [])).is_empty


def test_the_figure_has_a_mark_for_each_contender_beside_the_library(tmp_path):
    drawing = get_artifact(STUDY, "figure-energy").make(made(tmp_path), Published({}, [])).draw()
    marks = {line.get_label(): line.get_xydata().tolist() for line in drawing.axes[0].lines}
    assert marks["ours"] == [pytest.approx([2.0, 1.6])]
    assert marks["the papers’"] == [pytest.approx([1.0, 4 / 3])]
    assert drawing.axes[0].get_xlim() == drawing.axes[0].get_ylim()


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_both_are_made_only_of_campaigns_that_measure_energies(seconds):
    config = Config(studies={"compound_spmv": {"timing": {"energy_seconds": seconds}}})
    names = [artifact.name for artifact in select_artifacts(config, "compound_spmv", has_references=False)]
    made_names = [name for name in names if "energy" in name]
    assert made_names == (["table-energy", "figure-energy"] if seconds else [])
