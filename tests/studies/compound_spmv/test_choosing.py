"""Which variant each tuning of the study chooses among timed rows, by which clock."""

import pytest

from repro.bench.rows import Row
from repro.config.models import Timing
from repro.studies.compound_spmv.study import choose
from repro.tuning.search import choose_finalists


def row(layout, kind, n_t, time, graph=None, **columns):
    ordering, vector = columns.pop("ordering", "natural"), columns.pop("vector", None)
    settings = {"status": "ok", "protocol": "full", "space": "paper", **columns}
    return Row(
        key=f"{layout}{kind}{n_t}",
        study="s",
        problem="p",
        precision="single",
        kind="variant",
        name=f"{layout}/{kind}-{n_t}-1",
        event_median=time,
        graph_median=graph or time,
        own={"layout": layout, "ordering": ordering, "vector": vector, "schedule": kind, "n_t": n_t, "n_b": 1},
        **settings,
    )


ROWS = [
    row("CSR-AoS-AoS", "static", 32, 10.0),
    row("CSR-AoS-AoS", "static", 64, 8.0),
    row("CSR-AoS-AoS", "dynamic", 64, 9.0),
    row("ELL-AoS-AoS", "static", 32, 5.0, graph=7.0),
    row("ELL-AoS-AoS", "static", 64, 6.0),
    row("ELL-AoS-AoS", "dynamic", 32, 5.5, graph=4.0),
    row("Sl-16-AoS-AoS", "static", 64, 5.04, graph=9.0),
]


def answers(rows, clock="event", tie=0.01):
    return {choice.tuning: choice for choice in choose(rows, tie) if choice.clock == clock}


def test_the_tunings_answer_different_questions():
    got = {tuning: choice.name for tuning, choice in answers(ROWS).items()}
    assert got == {
        "schedule": "CSR-AoS-AoS/static-64-1",
        "layout": "Sl-16-AoS-AoS/static-64-1",
        "joint": "ELL-AoS-AoS/static-32-1",
        "static": "ELL-AoS-AoS/static-32-1",
        "dynamic": "ELL-AoS-AoS/dynamic-32-1",
    }


def test_an_operator_runs_a_layout_whose_vectors_are_the_users():
    rows = [
        row("Sl-8-AoSoA-Padded", "direct", 64, 1.0, space="extended", vector="Padded"),
        row("Sl-16-SoA-SoA", "static", 64, 2.0, vector="SoA"),
        row("Sl-8-AoSoA-AoS@rcm", "direct", 64, 3.0, space="extended", vector="AoS", ordering="rcm"),
        row("Sl-8-AoSoA-AoS@clustered", "direct", 64, 4.0, space="extended", vector="AoS"),
        row("CSR-AoS-AoS", "static", 64, 5.0, vector="AoS"),
    ]
    for tried in (rows, rows[::-1]):
        got = answers(tried)
        assert got["extended"].name == rows[0].name
        assert got["operator"].name == rows[3].name
    assert answers(rows[1:2] + rows[4:])["operator"].name == rows[4].name  # without our space as well
    assert "operator" not in answers(rows[:3])


def test_the_clocks_choose_apart():
    assert answers(ROWS, "graph")["joint"].name == "ELL-AoS-AoS/dynamic-32-1"


def test_a_disturbed_reference_takes_no_other_tuning_with_it():
    disturbed = [row("CSR-AoS-AoS", "static", 32, 10.0, status="disturbed"), *ROWS[3:]]
    for clock, winner in (("event", "ELL-AoS-AoS/static-32-1"), ("graph", "ELL-AoS-AoS/dynamic-32-1")):
        got = {tuning: choice.name for tuning, choice in answers(disturbed, clock).items()}
        assert got == {
            "joint": winner,
            "static": "ELL-AoS-AoS/static-64-1" if clock == "graph" else winner,
            "dynamic": "ELL-AoS-AoS/dynamic-32-1",
        }


def test_ties_are_named():
    assert answers(ROWS)["joint"].ties == ("Sl-16-AoS-AoS/static-64-1",)
    assert answers(ROWS, tie=0.001)["joint"].ties == ()


def test_screened_and_noisy_rows_are_chosen_only_for_want_of_others():
    fast = [row("Sl-32-SoA-SoA", "static", 32, 1.0, protocol="screen"), row("Sl-32-SoA-SoA", "static", 64, 1.0)]
    fast[1].status = "noisy"
    assert answers([*ROWS, *fast])["joint"].name == "ELL-AoS-AoS/static-32-1"
    assert (
        answers([row("CSR-AoS-AoS", "static", 32, 1.0, protocol="screen")])["joint"].name == "CSR-AoS-AoS/static-32-1"
    )


def test_ours_are_chosen_from_both_spaces_in_natural_ordering_and_then_in_any():
    ours = [
        row("Sl-8-AoSoA-Padded", "direct", 128, 4.0, space="extended"),
        row("ELL-AoS-AoS@rcm", "static", 32, 3.0, space="paper", ordering="rcm"),
    ]
    got = {tuning: choice.name for tuning, choice in answers([*ROWS, *ours]).items()}
    papers = {tuning: choice.name for tuning, choice in answers(ROWS).items()}
    assert got == papers | {"extended": "Sl-8-AoSoA-Padded/direct-128-1", "reordered": "ELL-AoS-AoS@rcm/static-32-1"}


def test_kernels_tuned_further_have_tunings_of_their_own():
    tuned = [
        row("CSR-AoS-AoS", "static", 32, 4.0, space="paper_tuned"),
        row("ELL-AoS-AoS", "static", 32, 3.0, space="paper_tuned"),
    ]
    for literal in ([], ROWS):
        got = {tuning: choice.name for tuning, choice in answers([*literal, *tuned]).items()}
        papers = {tuning: choice.name for tuning, choice in answers(literal).items()}
        ours = {
            "tuned_schedule": "CSR-AoS-AoS/static-32-1",
            "tuned_layout": "ELL-AoS-AoS/static-32-1",
            "tuned_joint": "ELL-AoS-AoS/static-32-1",
            "tuned_static": "ELL-AoS-AoS/static-32-1",
        }
        assert got == papers | ours


def test_the_papers_may_be_the_best_of_both_spaces():
    slow = row("Sl-8-AoSoA-Padded", "direct", 128, 40.0, space="extended")
    assert answers([*ROWS, slow])["extended"].name == answers(ROWS)["joint"].name


def test_failed_rows_are_never_chosen():
    assert choose([row("CSR-AoS-AoS", "static", 32, None, status="incorrect")], 0.01) == []


def test_finalists_are_the_fastest_and_the_best_of_each_layout_and_kind():
    rows = [row("CSR-AoS-AoS", "static", n, 100.0 + n) for n in range(10)]
    rows += [row("ELL-AoS-AoS", kind, n, 1.0 + n / 100) for n in range(30) for kind in ("static", "dynamic")]
    groups = {row.name: (row["layout"], row["schedule"]) for row in rows}
    names = choose_finalists(rows, groups, Timing(reach=0.10, per_group=2, finalists=64))
    assert {f"CSR-AoS-AoS/static-{n}-1" for n in range(2)} <= names
    assert "CSR-AoS-AoS/static-2-1" not in names
    assert {f"ELL-AoS-AoS/static-{n}-1" for n in range(11)} <= names
    assert "ELL-AoS-AoS/static-12-1" not in names
    few = choose_finalists(rows, groups, Timing(reach=0.10, per_group=1, finalists=4))
    assert len(few) == 5


@pytest.mark.parametrize("status", ["incorrect", "launch_error"])
def test_what_failed_the_screen_is_not_timed(status):
    failed = row("CSR-AoS-AoS", "static", 32, None, status=status)
    assert choose_finalists([failed], {failed.name: "CSR-AoS-AoS"}, Timing()) == set()
