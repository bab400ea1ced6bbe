"""The page on tuning names each recorded winner that lies on an edge of its space."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from support.pages import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "docs"))

from edges import BEYOND, edges, open_winners

from repro.results.edges import Bracket, brackets
from repro.studies import get_study, study_names
from repro.tuning.edges import position, spaces_of, winners

RECORDS = [
    f"{campaign}/{study}" for campaign in ("h200-as-published", "h200", "h200-products") for study in study_names()
    if get_study(study).numbers and (REPOSITORY / f"results/{campaign}/raw/{study}/choices.parquet").is_file()
]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "value", "tried", "other", "tied", "where"),
    [
        ("blocks", 32, (4, 8, 32), 128, (), "most"),
        ("blocks", 4, (4, 8, 32), 128, (), "least"),
        ("blocks", 8, (4, 8, 32), 128, (), "inside"),
        ("blocks", 32, (32,), 128, (), "alone"),
        # one that is as fast lies inside, or at the other end
        ("blocks", 32, (4, 8, 32), 128, (8,), "inside"),
        ("cell", 0.5, (0.5, 1), 1, (1,), "inside"),
        ("cell", 0.5, (0.5, 1), 1, (), "least"),
        # they cannot go further
        ("n_b", 1, (1, 2, 4), 128, (), "limit"),
        ("n_b", 16, (1, 2, 16), 128, (), "limit"),
        ("n_b", 8, (1, 2, 8), 128, (), "most"),
        ("n_b", 32, (1, 2, 32), 32, (), "limit"),
        ("n_t", 32, (32, 64), 8, (), "limit"),
        ("n_t", 1024, (32, 1024), 1, (), "limit"),
        ("width", 32, (1, 32), 1, (), "limit"),
        ("unroll", 4, (1, 4), 1, (), "most"),
    ],
)
def test_a_winner_lies_on_an_edge_where_the_time_still_falls(
    number: str, value: float, tried: tuple[float, ...], other: float, tied: tuple[float, ...], where: str
) -> None:
    assert position(value, tried, number, other, tied) == where


def record(folder: Path, name: str, ties: tuple[str, ...] = ()) -> Path:
    """Write a search of three numbers of blocks, and of a fourth one that the tuning cannot choose."""
    blocks = {"a": (4, "paper_tuned"), "b": (8, "paper_tuned"), "c": (32, "paper_tuned"), "d": (64, "extended")}
    case = {"problem": "field", "precision": "double", "status": "ok", "way": "point", "threads": 128}
    search = [case | {"name": key, "blocks": number, "space": space} for key, (number, space) in blocks.items()]
    study = folder / "dg_postprocessing"
    study.mkdir(parents=True)
    pd.DataFrame(search).to_parquet(study / "search.parquet")
    choice = {
        "problem": "field",
        "precision": "double",
        "tuning": "paper_tuned/point",
        "name": name,
        "ties": list(ties),
    }
    pd.DataFrame([choice]).to_parquet(study / "choices.parquet")
    return study


@pytest.mark.parametrize(
    ("name", "ties", "where"), [("a", (), "least"), ("b", (), "inside"), ("c", (), "most"), ("c", ("b",), "inside")]
)
def test_winners_are_compared_with_their_own_space(
    tmp_path: Path, name: str, ties: tuple[str, ...], where: str
) -> None:
    folder = record(tmp_path, name, ties)
    choices, search = (pd.read_parquet(folder / f"{step}.parquet") for step in ("choices", "search"))
    found = {winner.number: winner.position for winner in winners(choices, search, ["threads", "blocks"])}
    assert found == {"threads": "alone", "blocks": where}


def beyond(times: dict[float, float | str], edge: str = "most", number: str = "blocks") -> Bracket:
    """Return the bracket of rows with these seconds by number, the recorded winner's first; texts are reasons."""
    case = {"problem": "field", "precision": "double", "cache": "warm", "way": "point"}
    rows = []
    for value, time in times.items():
        failed = isinstance(time, str)
        outcome = {"status": "unsupported" if failed else "ok", "message": time if failed else None}
        rows.append(case | outcome | {"name": f"v{value:g}", number: value, "event_median": None if failed else time})
    choice = {"clock": "event", "tuning": f"h200/paper_tuned/point/{number}/{edge}", "name": rows[0]["name"]}
    (found,) = brackets(pd.DataFrame([case | choice]), pd.DataFrame(rows), pd.DataFrame(rows), [number])
    assert (found.record, found.tuning, found.number, found.edge) == ("h200", "paper_tuned/point", number, edge)
    return found


@pytest.mark.parametrize(
    ("times", "edge", "number", "state", "gain"),
    [
        ({32: 4.0, 64: 5.0, 128: 6.0}, "most", "blocks", "rises", 0.8),
        ({32: 4.0, 64: 2.0, 128: 3.0}, "most", "blocks", "rises", 2.0),
        ({32: 4.0, 64: 3.0, 128: 2.0}, "most", "blocks", "falls", 2.0),
        ({32: 4.0, 64: 3.0, 128: 2.98}, "most", "blocks", "rises", 4 / 2.98),
        ({32: 4.0, 64: 2.0, 128: "too much shared memory"}, "most", "blocks", "limit", 2.0),
        ({32: 4.0, 64: "too much shared memory"}, "most", "blocks", "limit", 0.0),
        ({2: 4.0, 1: 2.0}, "least", "per_thread", "limit", 2.0),
        ({0.5: 4.0, 0.25: 2.0}, "least", "cell", "falls", 2.0),
        ({32: 4.0, 16: 1.0, 64: 5.0}, "most", "blocks", "rises", 0.8),
        ({32: "it hung", 64: 2.0}, "most", "blocks", "falls", float("inf")),
    ],
)
def test_a_winner_is_bracketed_where_the_time_rises_or_the_number_ends(
    times: dict[float, float | str], edge: str, number: str, state: str, gain: float
) -> None:
    found = beyond(times, edge, number)
    assert found.state == state
    assert found.gain == pytest.approx(gain)


def test_a_variant_without_a_time_of_the_report_is_no_limit() -> None:
    case = {"problem": "field", "precision": "double", "cache": "warm", "way": "point", "message": None}
    search = pd.DataFrame(
        [case | {"name": name, "blocks": blocks, "status": "ok"} for name, blocks in (("a", 32), ("b", 64))]
    )
    report = search.assign(event_median=[4.0, None], status=["ok", "disturbed"])
    choice = {"clock": "event", "tuning": "h200/paper_tuned/point/blocks/most", "name": "a"}
    (found,) = brackets(pd.DataFrame([case | choice]), search, report, ["blocks"])
    assert (found.reason, found.state) == ("", "falls")


def test_every_measured_winner_is_inside_at_a_limit_or_bracketed() -> None:
    studies = yaml.safe_load((REPOSITORY / f"config/{BEYOND}.yaml").read_text())["studies"]
    measured = [
        (record, winner.problem, winner.number)
        for record, winner in open_winners()
        if winner.problem in studies[record.split("/")[1]]["problems"]
    ]
    assert measured == []


def test_a_tuning_chooses_from_its_spaces() -> None:
    assert spaces_of("paper/point") == ("paper",)
    assert spaces_of("tuned_joint") == spaces_of("paper_tuned/point") == ("paper", "paper_tuned")
    assert spaces_of("extended") == spaces_of("edges") == ("paper", "paper_tuned", "extended")


def test_the_papers_space_of_compound_entries_has_no_winner_on_an_edge() -> None:
    assert edges("h200-as-published/compound_spmv").count("\n") == 1, "a head alone"


@pytest.mark.parametrize("name", RECORDS)
def test_the_page_names_every_number_on_an_edge(name: str) -> None:
    """A winner of a reported tuning is bracketed, or the page says what would bracket it."""
    page = (REPOSITORY / "docs/tuning.md").read_text()
    # of these the tables take the winner from another record, or show it in none
    left_out = {
        "h200/compound_spmv": r"tuned_\w+|unpaired|reordered\w*",
        "h200/compressed_coo": r"tuned_\w+",
        "h200/dynamic_csr": r"tuned_\w+",
        "h200/dg_postprocessing": r"paper_tuned/\w+|paper/\w+|edges|atomic|joint|full|width/\d+",
        "h200-as-published/dg_postprocessing": r"joint|paper|atomic",
        "h200/spgemm_amg": r".*",
        "h200-products/spgemm_amg": r"headline|paper/.*",
    }.get(name, "-")
    asked = [line for line in edges(name).splitlines()[2:] if not re.fullmatch(left_out, line.split(" | ")[1])]
    assert [line for line in asked if line not in page] == []
