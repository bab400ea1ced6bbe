"""The tie that a campaign is configured with is the one that its tables judge by and speak of."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from repro.cli import results
from repro.cli import results as commands
from support.synthetic_campaign import PROBLEMS, STUDY, Maker

pytestmark = pytest.mark.medium

ROOT = Path(__file__).parents[3]
#: Dynamic's time is 3 % less than static's.
CLOSE = replace(PROBLEMS[0], dynamic={"single": 0.97, "double": 0.97})


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    monkeypatch.chdir(ROOT)
    maker = Maker(tmp_path, "cuda")
    maker.all((CLOSE,))
    return maker


def tables(maker: Maker, tie: float, *names: str) -> list[str]:
    """Make tables of the campaign, run with this tie; return their LaTeX."""
    maker.configure(**{STUDY: {"problems": [CLOSE.name], "timing": {"tie": tie}}})
    commands.table([f"{STUDY}/{name}" for name in names], campaign=maker.campaign, results=maker.results)
    return [(maker.results / maker.campaign / "tables" / STUDY / f"{name}.tex").read_text() for name in names]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("tie", "verdict"), [(0.01, "both"), (0.05, "none")])
def test_a_verdict_is_by_the_configured_tie(configured: Maker, tie: float, verdict: str) -> None:
    caption = tables(configured, tie, "table-8")[0]
    assert f"A difference within {100 * tie:g} \\% is a tie" in caption
    text = (configured.results / configured.campaign / "tables" / STUDY / "table-8.csv").read_text()
    rows = {row["problem"]: row for row in csv.DictReader(io.StringIO(text))}
    assert rows[CLOSE.name]["ours"] == verdict
    assert ("tie in SP" in rows[CLOSE.name]["notes"]) == (tie == 0.05)


def test_captions_and_notes_speak_of_the_configured_tie(configured: Maker) -> None:
    for text in tables(configured, 0.05, "table-2", "table-floor", "table-strategies"):
        assert r"5 \%" in text and r" 1 \%" not in text


@pytest.mark.wording
def test_the_report_speaks_of_the_configured_tie(configured: Maker) -> None:
    configured.configure(**{STUDY: {"problems": [CLOSE.name], "artifacts": ["table-8"], "timing": {"tie": 0.05}}})
    commands.report(campaign=[configured.campaign], results=configured.results)
    page = (configured.results / configured.campaign / "report.html").read_text()
    assert "a difference of at most 5 %" in page and "A difference within 5 %" in page


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("tie", "said"), [(0.01, "0 a tie, 2 apart"), (0.05, "2 a tie, 0 apart")])
def test_winners_are_compared_by_the_configured_tie(
    configured: Maker, tmp_path: Path, tie: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Maker(tmp_path / "again", "cuda")
    other.all((CLOSE,))
    slower = replace(CLOSE, dynamic={"single": 1.04, "double": 1.04})
    other.write(CLOSE.name, "single", "search", other.search(slower, "single"))
    # the other's winner is 3.1 % slower in one search, and 4 % in the other
    for maker, kind in ((configured, "dynamic"), (other, "static")):
        chosen = {("joint", clock): (f"ELL-SoA-AoS/{kind}-64-2", []) for clock in ("event", "graph")}
        maker.choose(CLOSE.name, "single", chosen)
        (maker.case_folder(CLOSE.name, "double") / "choices.parquet").unlink()
        maker.configure(**{STUDY: {"problems": [CLOSE.name], "timing": {"tie": tie}}})
    results.compare(str(configured.raw), str(other.raw))
    assert said in capsys.readouterr().out
