"""Two campaigns compared: verdicts from quartiles, winners from ties, and what cannot be compared."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import typer
from synthetic_campaign import PROBLEMS, STUDY, Maker, write_rows

from repro.artifacts.compare import Comparison, compare, find_campaign, judge
from repro.bench.rows import CLOCKS, QUANTILES, Row
from repro.cli import comparing
from repro.errors import ReproError

GIVEN = PROBLEMS[1]
WINNER, BASE = "ELL-SoA-AoS/static-64-2", "cusparse/spmv-csr-alg1/real"
Change = Callable[[Row], Row]


def scaled(row: Row, factor: float, clocks: tuple[str, ...] = CLOCKS) -> Row:
    names = [f"{clock}_{quantile}" for clock in clocks for quantile in QUANTILES]
    return replace(row, **{name: time * factor for name in names if (time := getattr(row, name)) is not None})


def campaign(root: Path, change: Change | None = None, backend: str = "cuda") -> Path:
    """One problem at one precision; `change` is applied to the report's rows."""
    maker = Maker(root, backend)
    maker.environment()
    maker.problem(GIVEN)
    maker.case(GIVEN, "single")
    rows = maker.report(GIVEN, "single")
    if change is not None:
        write_rows(maker.raw / STUDY / GIVEN.name / "single" / "report.parquet", [change(row) for row in rows])
    return maker.raw


def only(name: str, factor: float, clocks: tuple[str, ...] = CLOCKS) -> Change:
    return lambda row: scaled(row, factor, clocks) if row.name == name else row


def verdicts(found: Comparison) -> dict[str, str]:
    return dict(found.rows[["name", "verdict"]].itertuples(index=False))


def box(q1: float, median: float, q3: float) -> dict[str, float]:
    return {"q1": q1, "median": median, "q3": q3}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (box(9.9, 10, 10.1), box(10.0, 10.19, 10.3), "same"),
        (box(5, 10, 20), box(5, 10.2, 30), "same"),  # within the tolerance, however far the samples scatter
        (box(9.9, 10, 10.1), box(10.2, 10.3, 10.4), "slower"),
        (box(10.2, 10.3, 10.4), box(9.9, 10, 10.1), "faster"),
        (box(9.9, 10, 10.4), box(10.2, 10.3, 10.5), "undecided"),  # the boxes overlap
        (box(9.9, 10, 10.1), box(10.1, 10.3, 10.5), "undecided"),  # they touch
    ],
)
def test_verdicts_follow_from_quartiles(first: dict[str, float], second: dict[str, float], expected: str) -> None:
    assert judge(first, second, 0.02) == expected


def test_a_campaign_is_the_same_as_itself(tmp_path: Path) -> None:
    raw = campaign(tmp_path)
    found = compare(raw, raw, search=True)
    assert set(found.rows["verdict"]) == {"same"} and set(found.rows["ratio"]) == {1.0}
    assert set(found.rows["phase"]) == {"report", "search"}
    assert set(found.uncompared) == {"failed in both"}
    assert found.winners and all(winner.agree and winner.loss == 0 for winner in found.winners)
    assert not found.changes


def test_one_row_is_slower_and_one_faster(tmp_path: Path) -> None:
    def change(row: Row) -> Row:
        return scaled(row, {WINNER: 1.5, BASE: 0.5}.get(row.name, 1.0))

    found = compare(campaign(tmp_path / "a"), campaign(tmp_path / "b", change))
    assert verdicts(found)[WINNER] == "slower" and verdicts(found)[BASE] == "faster"
    assert sorted(found.rows["verdict"].unique()) == ["faster", "same", "slower"]
    [worst] = found.slower.to_dict("records")
    assert worst["ratio"] == pytest.approx(1.5) and worst["graph_ratio"] == pytest.approx(1.5)


def test_clocks_that_contradict_each_other_decide_nothing(tmp_path: Path) -> None:
    found = compare(campaign(tmp_path / "a"), campaign(tmp_path / "b", only(WINNER, 1.5, ("event",))))
    row = found.rows.set_index("name").loc[WINNER]
    assert (row["event_verdict"], row["graph_verdict"], row["verdict"]) == ("slower", "same", "undecided")


def test_one_clock_is_enough_where_there_is_no_other(tmp_path: Path) -> None:
    def cold(row: Row) -> Row:
        none = {f"graph_{quantile}": None for quantile in QUANTILES}
        return replace(scaled(row, 1.5) if row.name == WINNER else row, cache="cold", **none)

    first = campaign(tmp_path / "a", lambda row: replace(row, cache="cold"))
    found = compare(first, campaign(tmp_path / "b", cold))
    row = found.rows.set_index("name").loc[WINNER]
    assert row["verdict"] == "slower" and row["graph_verdict"] is None and row["cache"] == "cold"


def test_what_cannot_be_compared_is_counted(tmp_path: Path) -> None:
    changes = {
        WINNER: {"status": "incorrect"},
        "CSR-AoS-AoS/static-64-2": {"name": "CSR-AoS-AoS/static-64-3"},
        BASE: {"floor_bytes": 7},
    }
    found = compare(
        campaign(tmp_path / "a"), campaign(tmp_path / "b", lambda row: replace(row, **changes.get(row.name, {})))
    )
    assert found.uncompared == {
        "only in the first": 1,
        "only in the second": 1,
        "timed in the first, failed in the second": 1,
        "failed in both": 1,  # the baseline that is unsupported
        "another matrix of that name": 1,
    }
    assert not {WINNER, BASE} & set(found.rows["name"])


def test_winners_agree_by_ties_and_by_time(tmp_path: Path) -> None:
    first, second = campaign(tmp_path / "a"), campaign(tmp_path / "b")
    folder = second / STUDY / GIVEN.name / "single"
    choices, search = (pd.read_parquet(folder / f"{what}.parquet") for what in ("choices", "search"))

    def joint(name: str, microseconds: float, ties: list[str]) -> tuple[bool, float | None]:
        """Let a variant win in the second campaign with a time; the first's winner takes 10 µs in both."""
        chosen = (choices["tuning"] == "joint") & (choices["clock"] == "event")
        old = choices["ties"].map(list)
        choices.assign(
            name=choices["name"].where(~chosen, name), ties=old.where(~chosen, pd.Series([ties] * len(old)))
        ).to_parquet(folder / "choices.parquet")
        times = search["event_median"].where(search["name"] != name, 1e-6 * microseconds)
        search.assign(event_median=times).to_parquet(folder / "search.parquet")
        [it] = [w for w in compare(first, second).winners if (w.tuning, w.clock) == ("joint", "event")]
        return it.agree, it.loss

    assert joint("Sl-32-SoA-AoS/static-64-2", 9.0, []) == (True, pytest.approx(0.005))  # a tie in the first
    assert joint("Sl-16-SoA-AoS/static-64-2", 9.0, []) == (False, pytest.approx(1 / 9))
    assert joint("Sl-16-SoA-AoS/static-64-2", 9.95, []) == (True, pytest.approx(0.05 / 9.95))  # by time alone
    assert joint("Sl-16-SoA-AoS/static-64-2", 9.0, [WINNER]) == (True, pytest.approx(1 / 9))
    assert joint("nothing/static-1-1", 9.0, []) == (False, None)


def test_devices_are_kept_apart(tmp_path: Path) -> None:
    first = campaign(tmp_path / "a")
    other = campaign(tmp_path / "b", lambda row: replace(scaled(row, 2.0), device="NVIDIA A100"))
    for path in other.rglob("search.parquet"):
        pd.read_parquet(path).assign(device="NVIDIA A100").to_parquet(path)
    with pytest.raises(ReproError, match="of different devices"):
        compare(first, other)
    found = compare(first, other, across_devices=True)
    assert found.across and found.rows["verdict"].isna().all() and not len(found.slower)
    assert list(found.rows["ratio"]) == pytest.approx([2.0] * len(found.rows))


def test_changes_of_the_environment_are_named(tmp_path: Path) -> None:
    first, second = campaign(tmp_path / "a"), campaign(tmp_path / "b")
    path = second / "environment" / "e0.json"
    path.write_text(path.read_text().replace('"numpy": "2.0"', '"numpy": "2.1"'))
    assert compare(first, second).changes == {"packages.numpy": ("2.0", "2.1")}


def test_campaigns_are_found_by_name_and_by_folder(tmp_path: Path) -> None:
    raw = campaign(tmp_path)
    for given in ("synthetic-cuda", str(raw.parent), str(raw)):
        assert find_campaign(given, tmp_path / "results") == raw
    with pytest.raises(ReproError, match="no such campaign"):
        find_campaign("nothing", tmp_path)
    (tmp_path / "empty" / "raw").mkdir(parents=True)
    with pytest.raises(ReproError, match="share no study"):
        compare(raw, tmp_path / "empty" / "raw")


def test_the_command_fails_where_something_is_slower(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (str(campaign(tmp_path / name, change)) for name, change in (("a", None), ("b", only(BASE, 1.3))))
    comparing.compare(first, first)
    assert "0 slower" in capsys.readouterr().out
    with pytest.raises(typer.Exit) as ended:
        comparing.compare(first, second, csv=tmp_path / "rows.csv")
    assert ended.value.exit_code == 1
    shown = capsys.readouterr().out
    assert BASE in shown and "1.300" in shown and "1 slower" in shown and "apart" in shown
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert list(rows.loc[rows["verdict"] == "slower", "name"]) == [BASE]
    comparing.compare(second, first)  # the other way round it is faster
    assert "1 faster" in capsys.readouterr().out
