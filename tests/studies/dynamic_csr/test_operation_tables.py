"""Tables 5.3 and 5.4 on a campaign that was never measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro.results.campaign_data import NOISY, Campaign
from repro.results.problem_lines import OF_NO_PAPER
from repro.results.published import Published
from repro.results.registry import get_artifact
from repro.results.tables import Cell, Table
from repro.studies import load_artifacts
from repro.studies.dynamic_csr import PUBLISHED, STUDY_NAME, TARGETS
from repro.studies.dynamic_csr.ids import DynamicRow
from support.campaigns import Recorder

load_artifacts(STUDY_NAME)
PUBLISHED_NUMBERS = Published.load(STUDY_NAME, PUBLISHED, TARGETS, Path(__file__).parents[3] / "config")
OWN = DynamicRow.own_columns()
# microseconds by events
CONVERSIONS = {"csr-csr": 10.0, "coo-csr": 25.0, "coo-dcsr": 30.0, "coo-hyb": 200.0, "csr-dcsr": 11.0, "dcsr-csr": 9.0}
SPACES = {"dcsr": "extended", "hyb": None}
UPDATES = {("dcsr", "sorted"): 40.0, ("hyb", "sorted"): 160.0, ("dcsr", "any"): 50.0, ("hyb", "any"): 170.0}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    maker = Recorder(tmp_path_factory.mktemp("king"), "cuda", STUDY_NAME, OWN)
    maker.environment()
    for name, origin in (("like_cnr-2000", {"stand_in": "cnr-2000"}), ("mine", {}), ("untimed", {})):
        maker.record(name, kind="updates", origin=origin)

    def row(name: str, problem: str, micro: float, kind: str = "rival", precision: str = "double", **columns: str):
        return maker.row(problem, precision, kind, name, micro, ["event"], cache="warm", phase="report", **columns)

    for problem, weight in (("like_cnr-2000", 1.0), ("mine", 2.0)):
        rows = []
        for name, micro in CONVERSIONS.items():
            source, target = name.split("-")
            columns = {"what": "convert", "format": source, "to_format": target}
            status = "noisy" if (problem, name) == ("mine", "coo-hyb") else "ok"
            rows.append(row(f"convert/{name}", problem, micro, status=status, **columns))
        for (form, order), micro in UPDATES.items():
            columns = {"what": "stream", "format": form, "order": order, "space": SPACES[form]}
            rows.append(row(f"{form}/{order}", problem, weight * micro, mode="add", **columns))
            rows.append(row(f"{form}/{order}/unique", problem, 1.0, mode="unique", **columns))
        rows.append(row("defragment", problem, 30.0, what="defragment", format="dcsr", space="extended"))
        rows.append(row("hyb/sort", problem, 90.0, what="sort", format="hyb"))
        rows.append(row("sort/ours", problem, 5.0, "primitive", what="sort", format="coo"))
        for schedule, micro in (("vector", 20.0), ("adaptive", 25.0)):
            columns = {"what": "product", "format": "csr", "schedule": schedule}
            rows.append(row(schedule, problem, micro, "variant", **columns))
        rows.append(row("cusparse/spmv", problem, 1.0, "baseline", what="product", format="csr"))
        rows.append(row("twice", problem, 1.0, "variant", "single", what="product", format="csr"))
        for precision in ("single", "double"):
            maker.write(problem, precision, "report", [r for r in rows if r.precision == precision])
    maker.write("untimed", "double", "report", [row("other", "untimed", 1.0, what="product", format="dcsr")])
    return maker.load()


def made(campaign: Campaign, name: str) -> tuple[Table, dict[str, dict[str, Cell]]]:
    table = get_artifact(STUDY_NAME, name).make(campaign, PUBLISHED_NUMBERS)
    assert isinstance(table, Table)
    keys = [column.key for column in table.columns]
    assert len(set(keys)) == len(keys)
    assert {len(row) for row in [*table.rows, *table.summary]} == {len(keys)}
    lines = {str(row[0].value): dict(zip(keys, row, strict=True)) for row in [*table.rows, *table.summary]}
    return table, lines


def test_conversions_are_over_the_copy(campaign):
    table, lines = made(campaign, "table-5-3")
    stand_in = lines["like_cnr-2000"]
    assert stand_in["published_COO-HYB"].shown == "14.84"
    assert [stand_in[name].shown for name in ("COO-CSR", "COO-DCSR", "COO-HYB", "CSR-DCSR", "DCSR-CSR")] == [
        "2.50", "3.00", "20.00", "1.10", "0.90",
    ]  # fmt: skip
    assert stand_in["CSR-HYB"].value is None
    assert stand_in["copy_us"].value == pytest.approx(10)
    assert lines["indochina-2004"]["published_COO-HYB"].shown == "out of memory"
    assert lines["untimed"]["problem"].notes == (OF_NO_PAPER, "no copy from CSR to CSR was timed")
    assert lines["enron"]["COO-CSR"].value is None
    assert lines["mean"]["COO-CSR"].shown == "2.50"
    assert lines["mean"]["published_CSR-DCSR"].shown == "1.09"
    assert lines["mean"]["copy_us"].value is None
    assert "sorted by row" in table.caption
    assert lines["mine"]["COO-HYB"].notes == (NOISY,)
    assert not any(lines["mine"][name].notes for name in ("COO-CSR", "copy_us"))
    assert "Double precision" in table.caption


def test_updates_are_over_the_product_and_say_by_which_protocol(campaign):
    table, lines = made(campaign, "table-5-4")
    mine = lines["mine"]
    assert mine["published_DCSR_update"].value is None
    assert [mine[key].shown for key in ("DCSR_defragment", "HYB_sort")] == ["1.50", "4.50"]
    assert [mine[f"{form}_{order}"].shown for form in ("DCSR", "HYB") for order in ("sorted", "any")] == [
        "4.00", "5.00", "16.00", "17.00",
    ]  # fmt: skip
    assert mine["product_us"].value == pytest.approx(20)
    assert lines["like_cnr-2000"]["published_HYB_update"].shown == "15.26"
    assert [mine[f"HYB_over_DCSR_{order}"].shown for order in ("sorted", "any")] == ["4.00", "3.40"]
    assert lines["mean"]["DCSR_sorted"].shown == "3.00"
    assert lines["mean"]["HYB_over_DCSR_any"].value is None
    assert (
        lines["least, the paper’s graphs"]["HYB_over_DCSR_any"].value
        == lines["like_cnr-2000"]["HYB_over_DCSR_any"].value
    )
    assert lines["untimed"]["problem"].notes == (OF_NO_PAPER, "no product with CSR was timed")
    assert "streamed as one batch into an empty one" in table.caption
    assert "does not define" in table.caption


def test_nothing_is_compared_where_nothing_was_measured(tmp_path):
    maker = Recorder(tmp_path, "opencl", STUDY_NAME, OWN)
    maker.environment()
    maker.record("enron", kind="updates", status="unavailable", reason="no network", entry=None)
    for name in ("table-5-3", "table-5-4"):
        table, lines = made(maker.load(), name)
        assert "Unavailable" in table.caption
        published = [key for key in lines["enron"] if key.startswith("published")]
        assert published and all(lines["enron"][key].value for key in published)


def test_rivals_stand_beside_ours_of_the_same_batch(tmp_path):
    maker = Recorder(tmp_path, "cuda", STUDY_NAME, OWN)
    maker.environment()
    maker.record("mine", kind="updates")

    def row(name: str, micro: float | None, kind: str, clock: str = "event", **columns: object):
        columns = {"mode": "unique", "order": "sorted", "what": "batch", "format": "csr", **columns}
        return maker.row("mine", "double", kind, name, micro, [clock], cache="warm", phase="report", **columns)

    def rival(batch: int, micro: float | None, **columns: object):
        return row(f"rival/r/batch-{batch}/sorted", micro, "outside", routine="r (R 1)", batch=batch, **columns)

    ours = {"format": "dcsr", "space": "extended"}
    failed = {"status": "incorrect", "message": "3 of 9 values are wrong"}
    maker.write("mine", "double", "report", [
        *(row(f"dcsr/{batch}", micro, "variant", batch=batch, **ours) for batch, micro in ((10, 4.0), (1000, 8.0))),
        row("dcsr/add", 1.0, "variant", batch=10, mode="add", **ours),
        row("geam", 90.0, "rival", "host", routine="csrgeam2", batch=1000),
        rival(10, 2.0, preprocess=5e-3), rival(1000, 40.0), rival(20, None, **failed),
        row("rival/r", 7.0, "outside", "graph", what=None, order=None, mode=None, routine="r (R 1)"),
        row("empty", 3.0, "empty"),
    ])  # fmt: skip
    table = get_artifact(STUDY_NAME, "table-rivals").make(maker.load(), PUBLISHED_NUMBERS)
    columns = [column.key for column in table.columns]
    lines = {line[columns.index("task")].shown: dict(zip(columns, line, strict=True)) for line in table.rows}
    assert list(lines) == ["SpMV", "a batch of 10, by row", "a batch of 20, by row", "a batch of 1,000, by row"]
    few, many, wrong = (lines[f"a batch of {size}, by row"] for size in ("10", "1,000", "20"))
    keys = ["time_us", "ours_us", "speedup_over_ours", "setup_ms"]
    assert [few[key].value for key in keys] == pytest.approx([2, 4, 2, 5])
    assert few["library_us"].value is None
    assert (few["time_us"].notes, many["time_us"].notes) == (("below an empty launch",), ())
    keys = ["ours_us", "library_us", "speedup_over_library"]
    assert [many[key].value for key in keys] == pytest.approx([8, 270, 6.75])
    assert "by the clock host, which is the only one it has" in many["library_us"].notes
    assert (wrong["status"].value, wrong["status"].notes) == ("incorrect", ("3 of 9 values are wrong",))
    assert columns.index("speedup_over_library") < columns.index("status")
    figure = get_artifact(STUDY_NAME, "figure-rivals").make(maker.load(), PUBLISHED_NUMBERS)
    assert "mine (DP, a batch of 10, by row)" in {text.get_text() for text in figure.draw().axes[0].get_yticklabels()}
