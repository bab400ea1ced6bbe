"""Tables and the figure of several devices, on a campaign that was never measured: each number can be worked out.

Times are in microseconds by the event clock, of which the graph clock reads 0.8.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.text import Text

from repro.results import figure_style
from repro.results.published import Published
from repro.studies.dynamic_csr import PUBLISHED, STUDY_NAME, TARGETS
from repro.studies.dynamic_csr.figures import ONE_DEVICE, scaling
from repro.studies.dynamic_csr.tables_products import devices, exchange
from support.benches import OWN
from support.campaigns import Recorder
from support.figure_flaws import flaws, laid_out

NOTHING_PUBLISHED = Published({}, [])
PAPERS = Published.load(STUDY_NAME, PUBLISHED, TARGETS, Path(__file__).parents[3] / "config")
#: Of a step by what, devices, exchange and steps of a launch.
TIMES = {
    ("product", 1, "none", 1): 90.0,
    ("product", 1, "none", 10): 80.0,
    ("product", 2, "none", 1): 60.0,
    ("product", 2, "none", 10): 40.0,
    ("product", 2, "copies", 10): 64.0,
    ("product", 2, "stores", 10): 54.0,
    ("product", 2, "nccl", 10): 74.0,
    ("product", 2, "overlapped", 1): 10.0,
    ("product", 2, "overlapped", 10): 50.0,
    ("exchange", 2, "copies", 10): 25.0,
    ("exchange", 2, "stores", 10): 20.0,
    ("exchange", 2, "copies", 1): 5.0,
    ("product", 4, "none", 10): 25.0,
    ("product", 4, "copies", 10): 50.0,
    ("product", 4, "overlapped", 10): 80.0,
    ("product", 4, "fused", 10): 32.0,
    ("exchange", 4, "copies", 10): 30.0,
}
BYTES = 1_000_000


class Maker(Recorder):
    """Writes the raw folder of a campaign over several devices."""

    def __init__(self, root):
        super().__init__(root, "cuda", STUDY_NAME, OWN)

    def case(self, problem, precision, times=TIMES, **origin):
        rows = [
            self.row(problem, precision, "several", "-".join(map(str, key)), micro * key[3], phase="report",
                     what=key[0], devices=key[1], exchange=key[2], steps=key[3], bytes=BYTES * key[3])
            for key, micro in times.items()
        ]  # fmt: skip
        empty = self.row(problem, precision, "empty", "empty", 3.0, phase="report")
        other = self.row(problem, precision, "variant", "dcsr-sorted/streams", 70.0, phase="report",
                         what="product", format="dcsr")  # fmt: skip
        self.record(problem, kind="updates", **origin)
        self.write(problem, precision, "report", [*rows, empty, other])


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    maker = Maker(tmp_path_factory.mktemp("devices"))
    maker.environment()
    for precision in ("single", "double"):
        maker.case("internet", precision)
        maker.case("plain", precision, {("product", 1, "none", 1): 9.0, ("product", 2, "none", 1): 5.0})
        maker.case("alone", precision, {})
    return maker.load()


def lines(made):
    keys = [column.key for column in made.columns]
    assert len(set(keys)) == len(keys)
    cells = ({key: cell.value for key, cell in zip(keys, row, strict=True)} for row in made.rows)
    return {(line["problem"], line["precision"]): line for line in cells}


def test_every_time_and_speedup(campaign):
    made = devices(campaign, PAPERS)
    line = lines(made)["internet", "double"]
    expected = {
        "fastest_us": 56.0, "one_launch_us": 72.0, "one_us": 64.0,
        "launches_2": 1.5, "alone_2_us": 32.0, "alone_2": 2.0, "exchanged_2_us": 0.8 * 54, "exchanged_2": 80 / 54,
        "overlapped_2_us": 40.0, "overlapped_2": 1.6,
        "alone_4_us": 20.0, "alone_4": 3.2, "exchanged_4_us": 40.0, "exchanged_4": 1.6,
        "overlapped_4_us": 25.6, "overlapped_4": 2.5,
    }  # fmt: skip
    assert {key: line[key] for key in expected} == pytest.approx(expected)
    assert line["launches_4"] is None
    # the fastest on one device is no slower than a launch of the schedule of several
    plain = lines(made)["plain", "double"]
    assert plain["fastest_us"] == plain["one_launch_us"] == pytest.approx(7.2)
    assert "1.93 in single precision, 1.97 in double precision" in made.caption
    mean, worst = made.summary
    at = [column.key for column in made.columns].index("launches_2")
    assert (mean[0].value, mean[at].value) == ("mean", pytest.approx((1.5 + 1.8) / 2))
    assert (worst[0].value, worst[at].value) == ("worst", pytest.approx(1.5))
    assert mean[2].value is mean[1].value is None


def test_what_was_not_measured_over_several_is_said(campaign):
    made = devices(campaign, NOTHING_PUBLISHED)
    assert lines(made)["alone", "single"]["one_us"] is None
    assert "not measured over several devices" in made.notes
    assert "plain" in {row[0].value for row in made.rows}


def test_the_exchange_alone_and_what_it_costs(campaign):
    line = lines(exchange(campaign, NOTHING_PUBLISHED))["internet", "single"]
    expected = {
        "sent_2_mb": 1.0, "copies_2_us": 20.0, "stores_2_us": 16.0, "rate_2": 1e-9 * BYTES / 16e-6, "cost_2": 20.0,
        "sent_4_mb": 1.0, "copies_4_us": 24.0, "rate_4": 1e-9 * BYTES / 24e-6, "cost_4": 100 * (1 - 25 / 32),
    }  # fmt: skip
    assert {key: line[key] for key in expected} == pytest.approx(expected)
    assert (line["way_2"], line["way_4"], line["nccl_2_us"]) == ("stores", "copies", None)
    assert (line["during_2"], line["during_4"]) == ("copies", "stores")


def test_a_panel_a_problem_with_the_papers_numbers(campaign):
    made = scaling(campaign, PAPERS)
    with mpl.style.context(["default", figure_style.RC]):
        drawn = made.draw()
        drawn.draw_without_rendering()
    assert [axes.get_title() for axes in drawn.axes] == ["internet", "plain‡"]
    first = drawn.axes[0]
    drawn_lines = [[*zip(*line.get_data(), strict=True)] for line in first.get_lines()]
    assert [ONE_DEVICE, (2, pytest.approx(1.6)), (4, pytest.approx(2.5))] in drawn_lines
    assert drawn_lines.count([ONE_DEVICE, (2, pytest.approx(2.0)), (4, pytest.approx(3.2))]) == 2
    assert [(2, 1.94), (4, 3.55)] in drawn_lines  # and none for more devices than were measured
    texts = {text.get_text() for text in drawn.findobj(Text)}
    assert {
        "overlapped",
        "with exchange",
        "without exchange",
        "speedup = number of devices",
        "speedup over one device",
        "published, M2090",
    } <= texts
    assert "1.93 in single precision and 1.97 in double precision" in made.caption


def test_a_campaign_on_one_device_says_so(tmp_path):
    maker = Maker(tmp_path)
    maker.environment()
    maker.case("alone", "double", {})
    campaign = maker.load()
    for table in (devices, exchange):
        made = table(campaign, NOTHING_PUBLISHED)
        assert "ran on one device" in made.caption
        # no column and no line of dashes
        assert [column.key for column in made.columns][2:] in ([], ["fastest_us"])
        assert not made.summary and made.is_empty
    made = scaling(campaign, PAPERS)
    assert "ran on one device" in made.caption
    assert "internet 1.94 over 2, 3.55 over 4, 6.03 over 8" in made.caption
    assert "Dashed" not in made.caption
    assert made.draw().texts and made.is_empty


def test_a_picture_has_no_flaw(campaign):
    assert flaws(laid_out(scaling(campaign, PAPERS))) == []
