"""The table of a headline's uncertainty, from rows whose scatter is known."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from pathlib import Path
from statistics import stdev

import pytest
from scipy.stats import t

from repro.bench.rows import AGAIN
from repro.results.campaign_data import Campaign
from repro.results.common_tables import UNCERTAINTY, Scatter, register_uncertainty, scatters
from repro.results.published import Published
from repro.results.registry import get_artifact
from repro.tuning.search import Pair
from support.campaigns import Recorder

STUDY = "scattered"
PAIRS = (Pair(("extended", "joint"), {"kind": "baseline"}, "event"),)
#: Microseconds of the library in each process, beside 10 of ours.
FIVE = (20.0, 21.0, 19.0, 20.0, 20.0)
register_uncertainty(STUDY, PAIRS)


def made(tmp_path: Path, problems: Sequence[str] = "a", library: Sequence[float] = FIVE, rounds: int = 5) -> Campaign:
    """Return a campaign whose processes used two cards in turn; the second time of a kernel is 1 % longer."""
    recorder = Recorder(tmp_path, study=STUDY)
    for problem in problems:
        recorder.record(problem, entry="real", n=10, nnz=10)
        kernels = [("variant", "fast/1", 10.0), ("variant", "slow/1", 50.0), ("baseline", "library", 22.0)]
        rows = [recorder.row(problem, "double", *kernel, ["event"], phase="report") for kernel in kernels]
        recorder.write(problem, "double", "report", rows)
        recorder.choose(problem, "double", {("joint", "event"): ("fast/1", [])})
        again = []
        for process, micro in enumerate(library):
            for kind, name, time in (("variant", "fast/1", 10.0), ("baseline", "library", micro)):
                for ending, factor in (("", 1.0), (AGAIN, 1.01)):
                    columns = {
                        "process": process,
                        "device_uuid": f"card-{process % 2}",
                        "event_samples": [[time * factor * 1e-6] * 3] * rounds,
                    }
                    row = (problem, "double", kind, name + ending, time * factor, ["event"])
                    again.append(recorder.row(*row, phase="report", **columns))
        recorder.write(problem, "double", "repeat", again)
    recorder.environment()
    return recorder.load()


def test_each_source_of_scatter_has_a_number(tmp_path: Path) -> None:
    [line] = scatters(made(tmp_path), PAIRS)
    assert line.reported == pytest.approx(2.2)
    assert line.seconds == pytest.approx(1e-5)
    assert line.rounds == 0, "all samples of a process are equal"
    assert [twin - 1 for twin in line.twins] == [pytest.approx(0.01)] * 10
    ratios = [log(micro / 10) for micro in FIVE]
    assert line.of_processes == pytest.approx(t.ppf(0.975, 4) * stdev(ratios) * 1.2**0.5)
    assert line.interval == pytest.approx((line.mean * exp(-line.of_processes), line.mean * exp(line.of_processes)))
    first, second = (20 * 19 * 20) ** (1 / 3), (21 * 20) ** 0.5
    assert line.of_cards == pytest.approx(second / first - 1)


@pytest.mark.parametrize("count", [2, 4])
def test_few_processes_and_rounds_have_no_interval(tmp_path: Path, count: int) -> None:
    [line] = scatters(made(tmp_path, library=FIVE[:count], rounds=count), PAIRS)
    assert line.rounds is None and line.of_processes is None and line.interval is None
    assert line.mean > 0 and line.of_cards is not None


def test_the_mean_has_an_interval_over_the_choice_of_problems_if_they_are_enough(tmp_path: Path) -> None:
    *lines, mean = scatters(made(tmp_path, "abcdef"), PAIRS)
    assert len(lines) == 6 and mean.name == "geometric mean"
    assert mean.of_cases == pytest.approx((mean.mean, mean.mean)), "all problems have one ratio"
    assert mean.interval == pytest.approx(lines[0].interval)
    *_, mean = scatters(made(tmp_path / "few", "abcd"), PAIRS)
    assert mean.of_cases is None and mean.interval is None and mean.of_processes is not None


def test_a_mean_joins_the_scatter_of_processes_with_that_of_problems() -> None:
    five = {process: 2.0 * factor for process, factor in enumerate((0.98, 0.99, 1.0, 1.01, 1.02))}
    cards = dict.fromkeys(five, "card")
    cases = [(name, ratio) for name, ratio in zip("abcde", (1.0, 1.5, 2.0, 3.0, 4.0), strict=True)]
    single, mean = (Scatter("mean", "", "", five, cards, 2.0, cases=some) for some in ((), cases))
    assert single.interval and mean.interval and mean.of_cases
    assert mean.interval[0] < min(single.interval[0], mean.of_cases[0])
    assert mean.interval[1] > max(single.interval[1], mean.of_cases[1])


def test_the_table_has_a_line_for_each_case_and_their_mean(tmp_path: Path) -> None:
    table = get_artifact(STUDY, UNCERTAINTY).make(made(tmp_path, "ab"), Published({}, []))
    assert [row[0].shown for row in table.rows] == ["a", "b", "geometric mean"]
    keys = [column.key for column in table.columns]
    assert "task" not in keys
    assert [row[keys.index("twins_percent")].shown for row in table.rows] == ["1.00 %"] * 3
    assert [row[keys.index("cards")].value for row in table.rows] == [2] * 3
    assert not table.is_empty


def test_a_campaign_without_further_processes_has_an_empty_table(tmp_path: Path) -> None:
    campaign = made(tmp_path, library=())
    assert scatters(campaign, PAIRS) == []
    assert get_artifact(STUDY, UNCERTAINTY).make(campaign, Published({}, [])).is_empty


@pytest.mark.parametrize(
    ("side", "name"), [(("extended", "joint"), "b"), (("static",), None), ({"kind": ("variant", "x")}, "a")]
)
def test_a_kernel_is_found_by_the_first_tuning_that_chose_or_as_the_fastest(side: object, name: str | None) -> None:
    common = {"kind": "variant", "cache": "warm", "status": "ok"}
    rows = [{**common, "name": name, "graph_median": time} for name, time in (("a", 1.0), ("b", 2.0))]
    choices = [{"tuning": "joint", "clock": "graph", "name": "b"}, {"tuning": "joint", "clock": "event", "name": "a"}]
    found = Pair(side, {"kind": "variant"}, "graph").find(rows, choices)
    assert (found and found[0]["name"]) == name
