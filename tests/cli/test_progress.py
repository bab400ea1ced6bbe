"""Progress in a log and on a terminal."""

from __future__ import annotations

import io

import pytest

from repro.cli import console
from repro.cli.console import Progress, duration


class Clock:
    """Stands in for the monotonic clock."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(console, "time", clock)
    return clock


def test_a_log_gets_a_line_now_and_then(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("measure torus", interval=10, stream=stream) as advance:
        for done in range(101):
            advance("screening", done, 100)
            clock.now += 1
    lines = stream.getvalue().splitlines()
    assert lines[0] == "measure torus: screening 10 of 100, 10 s so far, about 1 min 30 s left"
    assert lines[-1] == "measure torus: screening 100 of 100, took 1 min 40 s"
    assert len(lines) == 10


@pytest.mark.wording
def test_the_pace_counts_only_what_this_run_did(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("measure torus", interval=10, stream=stream) as advance:
        advance("screening", 90, 100)  # a resumed run
        clock.now += 10
        advance("screening", 95, 100)
    assert stream.getvalue() == "measure torus: screening 95 of 100, 10 s so far, about 10 s left\n"


@pytest.mark.wording
def test_a_stage_that_comes_again_begins_anew_and_an_empty_one_is_not_told_of(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("measure torus", interval=60, stream=stream) as advance:
        for total in (5, 3, 0):
            for done in range(total):
                advance("timing", done, total)
                clock.now += 1
            advance("timing", total, total)
    assert stream.getvalue().splitlines() == [
        "measure torus: timing 5 of 5, took 5 s",
        "measure torus: timing 3 of 3, took 3 s",
    ]


def test_a_terminal_gets_a_bar() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with Progress("measure torus", stream=stream) as advance:
        advance("screening", 3, 12)
        advance("screening", 12, 12)
        advance("timing", 1, 2)
    assert "measure torus: screening" in stream.getvalue()
    assert "12/12" in stream.getvalue()


def test_beside_a_bar_standard_output_stays_where_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with Progress("tables", stream=stream) as advance:
        advance("a study", 1, 2)
        print("wrote a table")
    assert capsys.readouterr().out == "wrote a table\n"
    assert "wrote" not in stream.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.4, "12 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
