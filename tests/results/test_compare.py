"""Two campaigns compared: verdicts by all clocks of a row, winners from ties, and what cannot be compared."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import CLOCKS, QUANTILES, Row
from repro.cli import results
from repro.cli.app import build
from repro.errors import ReproError
from repro.results import cross_campaign as comparisons
from repro.results.campaign_data import Campaign
from repro.results.cross_campaign import Comparison, find_campaign
from repro.studies import get_study
from support.campaigns import BROKEN, CLOSE, FAST, LIBRARY, SLOW, SmallCampaign

Change = Callable[[Row], Row]

TOLERANCE = 0.02
compare = partial(comparisons.compare_campaigns, tolerance=TOLERANCE)


def scaled(row: Row, factor: float, clocks: tuple[str, ...] = CLOCKS) -> Row:
    names = [f"{clock}_{quantile}" for clock in clocks for quantile in QUANTILES]
    return replace(row, **{name: time * factor for name in names if (time := getattr(row, name)) is not None})


def unchanged(row: Row) -> Row:
    return row


def sampled(row: Row) -> Row:
    return replace(row, **{f"{clock}_launches": 100 for clock in CLOCKS})


def campaign(root: Path, change: Change = unchanged, study: str = "made_up") -> SmallCampaign:
    """One problem at one precision; `change` is applied to the report's rows."""
    own = {} if study == "made_up" else get_study(study).columns
    maker = SmallCampaign(root, study=study, own=own)
    maker.environment()
    maker.record("mhd1280b", entry="complex")
    maker.case("mhd1280b", "single")
    maker.write("mhd1280b", "single", "report", map(change, map(sampled, maker.report("mhd1280b", "single"))))
    return maker


def made(*arguments: object, **options: object) -> CampaignFolder:
    return campaign(*arguments, **options).folder


def only(name: str, factor: float, clocks: tuple[str, ...] = CLOCKS) -> Change:
    return lambda row: scaled(row, factor, clocks) if row.name == name else row


def verdicts(comparison: Comparison) -> dict[str, str]:
    return dict(comparison.rows[["name", "verdict"]].itertuples(index=False))


def test_a_campaign_is_the_same_as_itself(tmp_path: Path) -> None:
    here = made(tmp_path)
    comparison = compare(here, here, search=True)
    assert set(comparison.rows["verdict"]) == {"same"} and set(comparison.rows["ratio"]) == {1.0}
    assert set(comparison.rows["phase"]) == {"report", "search"}
    assert set(comparison.uncompared) == {"failed in both"}
    assert comparison.winners and all(winner.agree and winner.loss == 0 for winner in comparison.winners)
    assert not comparison.changes


def test_without_rows_of_a_search_the_report_is_compared(tmp_path: Path) -> None:
    here = made(tmp_path)
    for path in here.raw.rglob("search.parquet"):
        path.unlink()
    assert set(compare(here, here, search=True).rows["phase"]) == {"report"}


def test_one_row_is_slower_and_one_faster(tmp_path: Path) -> None:
    def change(row: Row) -> Row:
        return scaled(row, {FAST: 1.5, LIBRARY: 0.5}.get(row.name, 1.0))

    comparison = compare(made(tmp_path / "a"), made(tmp_path / "b", change))
    assert verdicts(comparison)[FAST] == "slower" and verdicts(comparison)[LIBRARY] == "faster"
    assert sorted(comparison.rows["verdict"].unique()) == ["faster", "same", "slower"]
    [worst] = comparison.slower.to_dict("records")
    assert worst["ratio"] == pytest.approx(1.5) and worst["graph_ratio"] == pytest.approx(1.5)


def test_clocks_that_contradict_each_other_decide_nothing(tmp_path: Path) -> None:
    comparison = compare(made(tmp_path / "a"), made(tmp_path / "b", only(FAST, 1.5, ("event",))))
    row = comparison.rows.set_index("name").loc[FAST]
    assert row["event_p"] < 0.001 and row["graph_p"] == row["p"] == 1 and row["verdict"] == "undecided"


def test_clocks_of_opposite_signs_decide_nothing(tmp_path: Path) -> None:
    def change(row: Row) -> Row:
        return scaled(scaled(row, 1.5, ("event",)), 1 / 1.5, ("graph",)) if row.name == FAST else row

    row = compare(made(tmp_path / "a"), made(tmp_path / "b", change)).rows.set_index("name").loc[FAST]
    assert max(row["event_p"], row["graph_p"]) < 0.001 and row["p"] == 1 and row["verdict"] == "undecided"
    assert row["ratio"] == pytest.approx(1)


def test_small_changes_are_the_same_and_middling_ones_undecided(tmp_path: Path) -> None:
    factors = {FAST: 1.019, SLOW: 1 / 1.019, LIBRARY: 1.03}
    comparison = compare(made(tmp_path / "a"), made(tmp_path / "b", lambda row: scaled(row, factors.get(row.name, 1))))
    assert verdicts(comparison) | {FAST: "same", SLOW: "same", LIBRARY: "undecided"} == verdicts(comparison)


def test_what_scatters_within_a_sample_is_undecided(tmp_path: Path) -> None:
    def scattered(row: Row) -> Row:
        names = [f"{clock}_q3" for clock in CLOCKS]
        wide = {name: 9 * time for name in names if (time := getattr(row, name)) is not None}
        return replace(row, **wide) if row.name == FAST else row

    first = made(tmp_path / "a", scattered)
    comparison = compare(first, made(tmp_path / "b", lambda row: scaled(scattered(row), 1.3)))
    assert verdicts(comparison)[FAST] == "undecided" and verdicts(comparison)[LIBRARY] == "slower"


def test_one_clock_is_enough_where_there_is_no_other(tmp_path: Path) -> None:
    def cold(row: Row) -> Row:
        none = {f"graph_{quantile}": None for quantile in QUANTILES}
        return replace(scaled(row, 1.5) if row.name == FAST else row, cache="cold", **none)

    first = made(tmp_path / "a", lambda row: replace(row, cache="cold"))
    comparison = compare(first, made(tmp_path / "b", cold))
    row = comparison.rows.set_index("name").loc[FAST]
    assert row["verdict"] == "slower" and pd.isna(row["graph_p"]) and row["cache"] == "cold"


def test_what_cannot_be_compared_is_counted(tmp_path: Path) -> None:
    changes = {
        FAST: {"status": "incorrect"},
        SLOW: {"name": "slow/2"},
        LIBRARY: {"least_bytes": 7},
    }
    changed = made(tmp_path / "b", lambda row: replace(row, **changes.get(row.name, {})))
    comparison = compare(made(tmp_path / "a"), changed)
    assert comparison.uncompared == {
        "only in the first": 1,
        "only in the second": 1,
        "timed in the first, failed in the second": 1,
        "failed in both": 1,  # the baseline that is unsupported
        "another matrix of that name": 1,
    }
    assert not {FAST, LIBRARY} & set(comparison.rows["name"])


@pytest.mark.parametrize(
    ("name", "micro", "ties", "agree", "loss"),
    [
        (CLOSE, 9.0, [], True, 0.005),  # a tie in the first
        (SLOW, 9.0, [], False, 1 / 9),
        (SLOW, 9.95, [], True, 0.05 / 9.95),  # by time alone
        (SLOW, 9.0, [FAST], True, 1 / 9),
        (BROKEN, 9.0, [], False, None),
    ],
)
def test_winners_agree_by_ties_and_by_time(
    tmp_path: Path, name: str, micro: float, ties: list[str], agree: bool, loss: float | None
) -> None:
    first, second = campaign(tmp_path / "a"), campaign(tmp_path / "b")
    second.choose("mhd1280b", "single", {("joint", "event"): (name, ties)})  # where the first's winner takes 10 µs too
    rows = second.search("mhd1280b", "single")
    changed = [replace(row, event_median=1e-6 * micro) if row.name == name else row for row in rows]
    second.write("mhd1280b", "single", "search", changed)
    [winner] = compare(first.folder, second.folder).winners
    assert (winner.first, winner.second) == (FAST, name)
    assert (winner.agree, winner.loss) == (agree, None if loss is None else pytest.approx(loss))


def test_winners_agree_within_the_tie_of_the_first(tmp_path: Path) -> None:
    first, second = campaign(tmp_path / "a"), campaign(tmp_path / "b")
    second.choose("mhd1280b", "single", {("joint", "event"): (SLOW, [])})
    rows = second.search("mhd1280b", "single")
    second.write("mhd1280b", "single", "search", [only(SLOW, 9.7 / 14)(row) for row in rows])  # 10 µs are 3 % more
    for tie, agree in ((0.01, False), (0.05, True)):
        [winner] = compare(first.folder, second.folder, load=partial(Campaign.load, tie=tie)).winners
        assert winner.agree is agree


def test_devices_are_kept_apart(tmp_path: Path) -> None:
    first = made(tmp_path / "a")
    other = made(tmp_path / "b", lambda row: replace(scaled(row, 2.0), device="NVIDIA A100"))
    for path in other.raw.rglob("search.parquet"):
        pd.read_parquet(path).assign(device="NVIDIA A100").to_parquet(path)
    with pytest.raises(ReproError, match="on different devices"):
        compare(first, other)
    comparison = compare(first, other, across_devices=True)
    assert comparison.across and comparison.rows["verdict"].isna().all() and not len(comparison.slower)
    assert list(comparison.rows["ratio"]) == pytest.approx([2.0] * len(comparison.rows))


def emptied(raw: Path) -> None:
    """Leave no row that a device has measured."""
    for step in ("search", "report"):
        for path in raw.rglob(f"{step}.parquet"):
            pd.read_parquet(path).assign(status="unavailable", device=None, backend=None).to_parquet(path)


def test_a_study_that_one_campaign_did_not_measure_is_of_no_other_device(tmp_path: Path) -> None:
    """The studies' names put it before the one that is compared."""
    sides = []
    for side in "ab":
        campaign(tmp_path / side)
        maker = campaign(tmp_path / side, study="compound_spmv")
        sides.append(maker.folder)
    emptied(sides[1].study("compound_spmv"))
    comparison = compare(*sides)
    assert not comparison.across and "nothing measured" not in comparison.devices
    assert set(comparison.rows["verdict"]) == {"same"}

    for path in sides[1].study("made_up").rglob("*.parquet"):
        if path.stem in ("search", "report"):
            pd.read_parquet(path).assign(device="NVIDIA A100").to_parquet(path)
    with pytest.raises(ReproError, match=r"on different devices(.|\n)*NVIDIA A100"):
        compare(*sides)


def test_changes_of_the_environment_are_named(tmp_path: Path) -> None:
    first, second = made(tmp_path / "a"), made(tmp_path / "b")
    path = second.environment("e0")
    path.write_text(path.read_text().replace('"numpy": "2.0"', '"numpy": "2.1"'))
    assert compare(first, second).changes == {"packages.numpy": ("2.0", "2.1")}


def test_campaigns_are_comparison_by_name_and_by_folder(tmp_path: Path) -> None:
    here = made(tmp_path)
    for given in ("synthetic-cuda", str(here.path), str(here.raw)):
        assert find_campaign(given, tmp_path / "results") == here
    with pytest.raises(ReproError, match="no such campaign"):
        find_campaign("nothing", tmp_path)
    (tmp_path / "empty" / "raw").mkdir(parents=True)
    with pytest.raises(ReproError, match="have no study in common"):
        compare(here, CampaignFolder(tmp_path / "empty"))


@pytest.mark.wording
def test_campaigns_without_a_timed_row_in_common_are_refused(tmp_path: Path) -> None:
    other = made(tmp_path / "b", lambda row: replace(row, name=f"{row.name}/other"))
    with pytest.raises(ReproError, match=r"(?s)have no timed row in common.*only in the first"):
        compare(made(tmp_path / "a"), other)


def test_times_of_the_host_alone_are_compared(tmp_path: Path) -> None:
    def by_host(row: Row) -> Row:
        times = {f"{clock}_{quantile}": None for clock in CLOCKS for quantile in QUANTILES}
        times |= {f"host_{quantile}": getattr(row, f"event_{quantile}") for quantile in (*QUANTILES, "launches")}
        return replace(row, **times)

    first = made(tmp_path / "a", by_host)
    comparison = compare(first, made(tmp_path / "b", lambda row: by_host(only(FAST, 1.5)(row))))
    [worst] = comparison.slower.to_dict("records")
    assert (worst["name"], worst["ratio"], worst["p"]) == (FAST, pytest.approx(1.5), worst["host_p"])
    assert verdicts(comparison)[LIBRARY] == "same" and pd.isna(worst["event_p"])


def test_the_command_fails_where_something_is_slower(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    first, second = (
        str(made(tmp_path / name, change, "compound_spmv").path)
        for name, change in (("a", unchanged), ("b", only(LIBRARY, 1.3)))
    )
    results.compare(first, first)
    assert "0 slower" in capsys.readouterr().out
    with pytest.raises(typer.Exit) as ended:
        results.compare(first, second, csv=tmp_path / "rows.csv")
    assert ended.value.exit_code == 1
    shown = capsys.readouterr().out
    assert LIBRARY in shown and "1.300" in shown and "1 slower" in shown and "apart" in shown
    assert "event A [µs]" in shown and "host A" not in shown and "p, adjusted" in shown
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert list(rows.loc[rows["verdict"] == "slower", "name"]) == [LIBRARY]


def test_exit_codes_tell_a_regression_from_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    first, second = (str(made(tmp_path / name, change, "compound_spmv").path)
                     for name, change in (("a", unchanged), ("b", only(LIBRARY, 1.3))))  # fmt: skip
    command = build(["compare"])
    ends = {
        given: CliRunner().invoke(command, ["compare", *given]).exit_code
        for given in ((first, first), (first, second), (second, first), (first, "nothing"), (first,))
    }
    assert list(ends.values()) == [0, 1, 0, 2, 2]
    assert "Exit code: 0" in CliRunner().invoke(command, ["compare", "--help"]).stdout
