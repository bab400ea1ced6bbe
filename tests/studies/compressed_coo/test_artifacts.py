"""Tables and figures of compressed COO on a synthetic campaign, and two studies on one page."""

from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import cast

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from repro.campaign.artifacts import CampaignSelection
from repro.campaign.report import report
from repro.errors import ReproError
from repro.results import figure_style
from repro.results.campaign_data import Campaign
from repro.results.registry import artifacts, get_artifact
from repro.results.tables import Figure, Table
from repro.studies import get_study, load_artifacts
from repro.studies.compressed_coo.results import DISTINCT as ARE_DISTINCT
from repro.studies.compressed_coo.results import REPEAT as REPEATS
from repro.studies.compressed_coo.results import all_times, median_cases_and_note
from support.campaigns import Recorder
from support.coo_campaign import (
    COMPRESSED,
    LARGE,
    OURS,
    PLAIN,
    PROBLEMS,
    REASON,
    STUDY,
    CooMaker,
    published_coo,
)
from support.figure_flaws import flaws, laid_out
from support.html_page import Page

pytestmark = pytest.mark.medium

load_artifacts(STUDY)
TARGET_NAMES = [item["quantity"] for item in published_coo().targets]


@pytest.fixture(scope="module")
def coo(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return CooMaker(tmp_path_factory.mktemp("coo"), "cuda").all()


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return CooMaker(tmp_path_factory.mktemp("cpu"), "opencl").all((PROBLEMS[0], PROBLEMS[-1]))


@pytest.fixture(scope="module")
def papers_space(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return CooMaker(tmp_path_factory.mktemp("papers"), "cuda", extended=False).all()


def table(campaign: Campaign, name: str) -> Table:
    return cast(Table, get_artifact(STUDY, name).make(campaign, published_coo()))


def lines(made: Table) -> dict[str, dict[str, object]]:
    """Values of a table by the text of the first column."""
    keys = [column.key for column in made.columns]
    return {str(row[0].value): {k: c.value for k, c in zip(keys, row, strict=True)} for row in made.rows}


def drawn(campaign: Campaign, name: str) -> tuple[list[str], Figure]:
    made = cast(Figure, get_artifact(STUDY, name).make(campaign, published_coo()))
    with mpl.rc_context(figure_style.RC):
        return [text.get_text() for text in made.draw().findobj(Text)], made


def targets(campaign: Campaign) -> dict[str, dict[str, object]]:
    made = table(campaign, "table-targets")
    keys = [column.key for column in made.columns]
    values = [{k: c.value for k, c in zip(keys, row, strict=True)} for row in made.rows]
    return dict(zip(TARGET_NAMES, values, strict=True))


def test_encodings(coo: Campaign) -> None:
    made = table(coo, "table-1")
    row = lines(made)["large/5pt_const"]
    assert (row["K"], row["K_event"], row["chunks"]) == (4, 8, 100)
    assert (row["percent_8_8_table"], row["percent_8_16_table"], row["percent_none_8_plain"]) == (50.0, 49.0, 1.0)
    distinct = lines(made)["large/9pt_var"]
    assert (distinct["percent_8_16_plain"], distinct["percent_8_8_table"]) == (pytest.approx(99.9), 0.0)
    assert "percent_8_32_plain" not in row  # no problem has such a chunk
    assert "8/32/plain" in made.caption
    shares = [value for key, value in row.items() if key.startswith("percent_")]
    assert sum(map(float, cast(list[float], shares))) == pytest.approx(100)
    assert lines(made)["ecology1"]["K"] is None


def test_matrices(coo: Campaign) -> None:
    rows = lines(table(coo, "table-2"))
    assert list(rows)[-1] == "ecology1"  # nothing is known of it
    assert rows["large/5pt_const"] == {
        "problem": "large/5pt_const", "rows": LARGE, "nonzeros": 10_000_000, "nonzeros_per_row": 5.0,
        "values": "repeat", "remark": "of the pattern of ecology1",
    }  # fmt: skip
    assert rows["large/5pt_var"]["values"] == "distinct"
    assert rows["ecology1"]["remark"] == f"unavailable: {REASON}"
    assert "5 of 6 are as large" in table(coo, "table-2").caption


def test_values_that_half_of_the_chunks_look_up_repeat(tmp_path: Path) -> None:
    given = [
        replace(PROBLEMS[1], name=f"p{count}", encodings={"8/8/table": count, "8/8/plain": 50}) for count in (49, 50)
    ]
    campaign = CooMaker(tmp_path, "cuda").all(tuple(given))
    assert [case.values for case in all_times(campaign, published_coo(), "double")] == [ARE_DISTINCT, REPEATS]


def test_what_was_chosen_in_the_solver_is_reported_whatever_is_faster_there(coo: Campaign, tmp_path: Path) -> None:
    """The one that is the fastest of those reported was chosen by the very samples that are printed."""
    chosen = CooMaker(tmp_path, "cuda", in_solver=COMPRESSED).all()
    row = lines(table(chosen, "table-problems"))["large/7pt_const"]
    assert row["ours_bicgstab"] == COMPRESSED
    assert row["ours_bicgstab_us"] == row["compressed_bicgstab_us"] == pytest.approx(2000 * 1.4 / 0.8)
    assert row["bicgstab_speedup"] == pytest.approx(2700 / (2000 / 0.8))
    for name in ("table-problems", "table-medians", "table-targets"):
        assert "Ours uses CCOO on" in table(chosen, name).caption
        assert "products that are fastest alone" in table(coo, name).caption
    assert "Ours uses CCOO on 5 of 5 problems." in drawn(chosen, "figure-5")[1].caption


def test_mean_and_least_of_all_problems(coo: Campaign) -> None:
    problems = table(coo, "table-problems")
    speedups = [line["ours_speedup"] for line in lines(problems).values() if line["ours_speedup"] is not None]
    place = [column.key for column in problems.columns].index("ours_speedup")
    mean, least = (row[place].value for row in problems.summary)
    assert (mean, least) == (pytest.approx(geometric_mean(speedups)), min(speedups))
    targets = dict(zip(TARGET_NAMES, lines(table(coo, "table-targets")).values(), strict=True))
    target = targets["library_all_mean"]
    assert (target["ours"], target["ours_problems"]) == (pytest.approx(mean), len(speedups))


def test_problems(coo: Campaign) -> None:
    row = lines(table(coo, "table-problems"))["large/7pt_const"]
    expected = {  # microseconds x weight 1.4; compressed and ours over faster = 0.8
        "ours_us": 70.0,
        "compressed_us": 87.5,
        "plain_us": 140.0,
        "csr_us": 126.0,
        "coo_us": 168.0,
        "library_us": 112.0,
        "floor_us": 84.0,
        "ours_speedup": 112 / 70,
        "compressed_percent_of_floor": 100 * 84 / 87.5,
        "plain_bytes_over_CSR": 1.3,
        "ours_GFLOPS": 2 * 14e6 / 70e-6 / 1e9,
        "csr_GFLOPS": 2 * 14e6 / 126e-6 / 1e9,
        "ours_bicgstab_us": 1800 * 1.4 / 0.8,
        "compressed_bicgstab_us": 2000 * 1.4 / 0.8,
        "plain_bicgstab_us": 3000 * 1.4,
        "library_bicgstab_us": 2700 * 1.4,
        "bicgstab_speedup": 2700 / (1800 / 0.8),
    }
    assert {key: row[key] for key in expected} == pytest.approx(expected)
    assert (row["ours"], row["compressed"], row["plain"]) == (OURS, COMPRESSED, PLAIN)
    assert row["ours_bicgstab"] == OURS
    assert row["csr"] == "cusparse/spmv-csr-alg2/real" and row["library"] == "cusparse/spmv-sell-alg1/real"


def test_a_solver_that_stays_on_the_chip_has_columns_lines_and_marks_where_it_was_timed(
    coo: Campaign, tmp_path: Path
) -> None:
    chip = CooMaker(tmp_path, "cuda", on_chip=True).all()
    row = lines(table(chip, "table-problems"))["large/7pt_const"]
    assert row["on_chip_bicgstab_us"] == pytest.approx(900 * 1.4)
    assert row["on_chip_bicgstab_speedup"] == pytest.approx(2700 / 900)
    before = lines(table(coo, "table-problems"))["large/7pt_const"]
    assert "on_chip_bicgstab_us" not in before
    assert {key: row[key] for key in before} == before
    medians = {line["quantity"]: line["ours"] for line in lines(table(chip, "table-medians")).values()}
    assert medians["BiCGSTAB on the chip over the fastest with a routine of cuSPARSE, median"] == pytest.approx(3.0)
    assert len(lines(table(chip, "table-medians"))) == len(lines(table(coo, "table-medians"))) + 3
    shown, made = drawn(chip, "figure-5")
    assert "ours, on the chip" in shown and "ours, on the chip 3.00×" in made.caption
    assert "on the chip" not in drawn(coo, "figure-5")[1].caption


def test_without_a_solver_its_columns_are_empty(coo: Campaign) -> None:
    row = lines(table(coo, "table-problems"))["large/27pt_const"]
    assert row["ours_us"] == pytest.approx(160.0)
    assert row["ours_bicgstab_us"] is row["library_bicgstab_us"] is row["bicgstab_speedup"] is None
    shown, _ = drawn(coo, "figure-5")
    assert "BiCGSTAB was not timed with both" in shown and "unavailable" in shown


def test_a_solver_that_failed_says_so(tmp_path: Path) -> None:
    maker = CooMaker(tmp_path, "cuda")
    maker.all(PROBLEMS[1:3])
    path = maker.raw / STUDY / "large/7pt_const" / "double" / "report.parquet"
    frame = pd.read_parquet(path)
    frame.loc[frame["kind"] == "solver", ["status", "graph_median", "event_median"]] = ["incorrect", None, None]
    frame.to_parquet(path)
    campaign = maker.load()
    assert "BiCGSTAB failed: incorrect" in drawn(campaign, "figure-5")[0]
    assert targets(campaign)["bicgstab_median"]["ours_problems"] == 1


def test_medians(coo: Campaign) -> None:
    made = table(coo, "table-medians")
    rows, caption = list(lines(made).values()), made.caption
    # over the five large ones CCOO takes 50 / faster: faster is 1, 0.8, 1.25, 0.5, 0.4
    factors = [0.4, 0.5, 0.8, 1.0, 1.25]
    for row, micro in zip(rows[:4], (110, 90, 120, 80), strict=True):
        assert row["compressed"] == pytest.approx(micro / 50 * factors[2])
        assert row["ours"] == pytest.approx(micro / 40 * factors[2])
    assert (rows[0]["published_V100"], rows[0]["published_A100"]) == ("1.4", "1.25 to 1.3")
    assert rows[1]["published_V100"] is None
    # the three whose values repeat, the two whose values do not, and the least of all
    for row, factor in zip(rows[4:7], (factors[3], sum(factors[:2]) / 2, factors[0]), strict=True):
        assert row["ours"] == pytest.approx(80 / 40 * factor)
        assert row["compressed"] == pytest.approx(80 / 50 * factor)
    assert "cuSPARSE’s fastest routine is for sliced ELLPACK on 5 of 5 problems." in caption
    # BiCGSTAB was timed on four, of faster 0.4, 0.5, 0.8 and 1; with ours it takes 1800 / faster or, with COO, 3000
    assert rows[7]["ours"] == pytest.approx((3200 / 3000 + 3200 / 2250) / 2)
    assert rows[8]["compressed"] == pytest.approx(2700 / 2000 * 0.65)
    assert rows[7]["published_A100"] == "1.2"
    # 54 million non-zeros in 5 * 50 / 1.25 us, and in 5 * 40 / 1.25
    assert (rows[9]["compressed"], rows[9]["ours"]) == (pytest.approx(540.0), pytest.approx(675.0))
    assert (rows[9]["published_V100"], rows[9]["published_A100"]) == ("170", "250")
    assert "over the 5 problems of more than 900,000 rows" in caption


def test_medians_of_small_problems_alone(tmp_path: Path) -> None:
    campaign = CooMaker(tmp_path, "cuda").all((PROBLEMS[0], PROBLEMS[-1]))
    cases = all_times(campaign, published_coo(), "double")
    small, sentence = median_cases_and_note(cases)
    assert [case.line.problem for case in small] == ["small/5pt_const"]
    assert "over all 1 problems; unlike the paper’s, none has more than 900,000 rows" in sentence


def test_targets(coo: Campaign) -> None:
    rows = targets(coo)
    assert [row["wanted"] for row in rows.values() if row["wanted"]] == [
        1.2, 1.0, 1.0, 1.5, 1.8, 1.1, 1.3, 1.1, 0.5, 0.95
    ]  # fmt: skip
    worst = rows["coo_worst"]
    assert worst["compressed"] == pytest.approx(120 / 50 * 0.4) and worst["compressed_reached"] == "no"
    assert worst["ours"] == pytest.approx(120 / 40 * 0.4) and worst["ours_reached"] == "yes"
    assert worst["compressed_worst_case"] == worst["ours_worst_case"] == "large/9pt_var"
    assert rows["coo_median"]["compressed"] == pytest.approx(120 / 50 * 0.8)
    repeat, distinct = rows["csr_repeat_median"], rows["csr_distinct_median"]
    assert (repeat["compressed"], repeat["compressed_worst"]) == (pytest.approx(1.8), pytest.approx(1.8 * 0.8))
    assert repeat["compressed_problems"] == 3 and repeat["compressed_worst_case"] == "large/7pt_const"
    assert (distinct["ours"], distinct["ours_reached"]) == (pytest.approx(90 / 40 * 0.45), "no")
    assert distinct["ours_problems"] == 2
    assert rows["bicgstab_median"]["ours"] == pytest.approx((2700 / 3000 + 2700 / 2250) / 2)
    assert rows["bicgstab_median"]["ours_problems"] == 4
    small = rows["library_small_median"]
    assert small["ours_worst_case"] == "small/5pt_const" and small["ours_problems"] == 1
    assert "small/5pt_const" not in {row["ours_worst_case"] for row in rows.values() if row is not small}


def test_cold_times_are_those_of_the_variants_that_were_chosen_with_a_warm_cache(tmp_path: Path) -> None:
    campaign = CooMaker(tmp_path, "cuda", cold=True).all()
    row = lines(table(campaign, "table-problems"))["large/5pt_const"]
    expected = {  # events read 1.1 of the graph's times, a cold cache 1.5 of that of ours and twice that of routines
        "cold_us": 40 * 1.1 * 1.5,
        "cold_compressed_us": 50 * 1.1 * 1.5,
        "cold_csr_us": 90 * 1.1 * 2,
        "cold_library_us": 80 * 1.1 * 2,
        "cold_speedup": 160 / 60,
        "cold_compressed_speedup": 160 / 75,
    }
    assert {key: row[key] for key in expected} == pytest.approx(expected)
    rows = targets(campaign)
    assert rows["cold_library_median"]["ours"] == pytest.approx(160 / 60 * 0.8)
    assert rows["cold_library_worst"]["ours"] == pytest.approx(160 / 60 * 0.4)
    assert rows["cold_csr_median"]["compressed"] == pytest.approx(180 / 75 * 0.8)
    assert "Cold:" in table(campaign, "table-targets").caption


def test_without_cold_times_a_target_has_no_number(coo: Campaign) -> None:
    assert targets(coo)["cold_library_median"]["ours"] is None
    assert "Cold:" not in table(coo, "table-targets").caption + table(coo, "table-problems").caption


def test_the_fastest_of_any_format_is_in_targets_as_in_medians(coo: Campaign) -> None:
    of_any, medians = targets(coo)["library_median"], lines(table(coo, "table-medians"))
    over_all = next(row for name, row in medians.items() if name.endswith("fastest of all, median"))
    assert of_any["ours"] == over_all["ours"] and of_any["compressed"] == over_all["compressed"]
    assert of_any["ours"] != targets(coo)["coo_median"]["ours"]


def test_memory_is_wanted_at_most(coo: Campaign) -> None:
    rows = targets(coo)
    repeat, distinct = rows["memory_repeat_median"], rows["memory_distinct_median"]
    assert repeat["compressed"] == pytest.approx(0.6) and repeat["compressed_reached"] == "no"
    assert repeat["ours"] == pytest.approx(0.5, abs=1e-7)
    assert distinct["compressed"] == pytest.approx(0.6) and distinct["compressed_reached"] == "yes"
    shown = [row[1].shown for row in table(coo, "table-targets").rows]
    wanted = [text for text in shown if text != "reported"]
    assert wanted == [
        "≥ 1.2", "≥ 1.0", "≥ 1.0", "≥ 1.5", "≥ 1.8", "≥ 1.1", "≥ 1.3", "≥ 1.1", "≤ 0.5", "≤ 0.95"
    ]  # fmt: skip


def test_the_worst_memory_is_the_largest(tmp_path: Path) -> None:
    maker = CooMaker(tmp_path, "cuda")
    maker.all(PROBLEMS[1:4])
    path = maker.raw / STUDY / "large/5pt_const" / "double" / "report.parquet"
    frame = pd.read_parquet(path)
    frame.loc[frame["name"] == COMPRESSED, "matrix_bytes"] *= 2
    frame.to_parquet(path)
    row = targets(maker.load())["memory_repeat_median"]
    assert (row["compressed_worst_case"], row["compressed_worst"]) == ("large/5pt_const", pytest.approx(1.2))
    assert row["compressed"] == pytest.approx(0.6)


def test_on_the_cpu_scipy_takes_the_librarys_place(on_cpu: Campaign) -> None:
    row = lines(table(on_cpu, "table-problems"))["small/5pt_const"]
    assert (row["csr"], row["coo"]) == ("scipy/csr/real", None)
    assert row["csr_us"] == pytest.approx(15.0)
    medians = list(lines(table(on_cpu, "table-medians")).values())
    assert medians[0]["ours"] == pytest.approx(150 / 40)
    assert medians[2]["ours"] is None  # SciPy is asked for CSR alone
    rows = targets(on_cpu)
    assert rows["coo_median"]["ours"] is None and rows["coo_median"]["ours_problems"] == 0
    assert rows["library_median"]["ours"] == pytest.approx(150 / 40)
    assert rows["bicgstab_median"]["ours"] == pytest.approx(2500 / 1800)
    shown, made = drawn(on_cpu, "figure-4")
    assert "SciPy CSR" in shown and not any("cuSPARSE" in text or "published" in text for text in shown)
    assert "cuSPARSE CSR" not in made.caption and "V100" not in made.caption
    assert "CPU times are not compared" in table(on_cpu, "table-medians").caption


def test_without_the_extended_space_ours_is_absent(papers_space: Campaign) -> None:
    rows = targets(papers_space)
    assert {row["ours"] for row in rows.values()} == {None}
    assert rows["csr_repeat_median"]["compressed"] == pytest.approx(1.8)
    assert rows["bicgstab_median"]["compressed"] == pytest.approx(2700 / 2000 * 0.65)
    for name in ("figure-4", "figure-5"):
        shown, made = drawn(papers_space, name)
        assert "`extended` was not searched" in made.caption
        assert "ours" not in shown


def test_figures_draw_what_the_tables_print(coo: Campaign) -> None:
    shown, _ = drawn(coo, "figure-4")
    assert {"675", "100*", "values repeat", "values distinct", "median of the large", "median"} <= set(shown)
    assert "published most: 170 (V100), 250 (A100)" in shown
    assert "cuSPARSE, fastest of all: sliced ELLPACK" in shown
    shown, made = drawn(coo, "figure-5")
    assert "1.50" in shown and f"{2700 / 1800 * 0.9:.2f}" in shown  # the median of 1 and 0.8
    assert "Diamonds" in made.caption
    assert "published median over the default: 1.2 (V100), 1.2 (A100)" in shown


def test_marks_stand_below_the_bars_of_their_row(coo: Campaign) -> None:
    (axes,) = laid_out(cast(Figure, get_artifact(STUDY, "figure-4").make(coo, published_coo()))).axes
    bars = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in axes.patches if isinstance(bar, Rectangle)]
    marks = [line for line in axes.lines if line.get_marker() in {"o", "|", "s", "^", "D"}]
    assert bars and marks
    for mark in marks:
        (y,) = map(float, mark.get_ydata())
        assert not any(low <= y <= high for low, high in bars) and y - round(y) > 0.1


def test_diamonds_over_the_default_stand_on_the_bars_of_their_kernels(coo: Campaign) -> None:
    letter = replace(coo, name="letter")
    made = cast(Figure, get_artifact(STUDY, "figure-5").make(replace(coo, as_published=letter), published_coo()))
    assert made.campaigns == (coo.name, "letter") and "campaign letter" in made.caption
    (axes,) = laid_out(made).axes
    for look in (figure_style.OURS, figure_style.PAPERS):
        fill = mpl.colors.to_rgba(look.fill)
        bars = [bar for bar in axes.patches if isinstance(bar, Rectangle) and bar.get_facecolor() == fill]
        centres = {round(bar.get_y() + bar.get_height() / 2, 6) for bar in bars}
        marks = [line for line in axes.lines if line.get_marker() == "D" and line.get_markeredgecolor() == look.colour]
        assert marks and {round(float(*mark.get_ydata()), 6) for mark in marks} <= centres
    assert "Only the light diamonds correspond to it" in made.caption


def test_published_lines_name_their_gpus_and_have_the_colour_of_what_is_published(coo: Campaign) -> None:
    assert {"V100", "A100"} <= set(drawn(coo, "figure-4")[0])
    assert "V100, A100" in drawn(coo, "figure-5")[0]
    (axes,) = laid_out(cast(Figure, get_artifact(STUDY, "figure-5").make(coo, published_coo()))).axes
    assert {line.get_color() for line in axes.lines if line.get_linestyle() == "--"} == {figure_style.GREY}


@pytest.mark.parametrize("name", ["figure-4", "figure-5"])
@pytest.mark.parametrize("campaign", ["coo", "on_cpu", "papers_space"])
def test_a_picture_has_no_flaw(request: pytest.FixtureRequest, campaign: str, name: str) -> None:
    made = cast(Figure, get_artifact(STUDY, name).make(request.getfixturevalue(campaign), published_coo()))
    assert flaws(laid_out(made)) == []


def test_built_but_not_measured(tmp_path: Path) -> None:
    maker = CooMaker(tmp_path, "cuda")
    maker.record("large/5pt_const", entry="real", n=LARGE, nnz=10_000_000)
    campaign = maker.load()
    for artifact in artifacts(STUDY):
        made = artifact.make(campaign, published_coo())
        if isinstance(made, Figure):
            made.draw()
    assert lines(table(campaign, "table-2"))["large/5pt_const"]["rows"] == LARGE


@pytest.mark.wording
def test_rows_without_a_column_of_the_study_are_one_message(tmp_path: Path) -> None:
    maker = CooMaker(tmp_path, "cuda")
    maker.all(PROBLEMS[1:2])
    for path in maker.raw.rglob("report.parquet"):
        pd.read_parquet(path).drop(columns=["per_thread", "encodings"]).to_parquet(path)
    with pytest.raises(ReproError, match=r"rows have a different schema(.|\n)*per_thread, encodings"):
        maker.load()


def test_single_precision_alone(tmp_path: Path) -> None:
    maker = CooMaker(tmp_path, "cuda")
    maker.all(PROBLEMS[1:2])
    folder = maker.raw / STUDY / "large/5pt_const"
    for path in (folder / "double").glob("*.parquet"):
        pd.read_parquet(path).assign(precision="single").to_parquet(path)
    (folder / "double").rename(folder / "single")
    campaign = maker.load()
    assert "Single precision" in table(campaign, "table-medians").caption
    # 0.6 of the bytes in double precision, over CSR with 4-byte values
    row = lines(table(campaign, "table-problems"))["large/5pt_const"]
    csr = {width: 4 * (LARGE + 1) + (4 + width) * 10_000_000 for width in (4, 8)}
    assert row["compressed_bytes_over_CSR"] == pytest.approx(0.6 * csr[8] / csr[4])


def test_the_published_files_are_the_studys_own() -> None:
    assert set(published_coo().tables) == {"text"}
    assert published_coo().problems == {}


@pytest.mark.exhaustive
def test_two_studies_on_one_page(coo: Campaign, tmp_path: Path) -> None:
    other = Recorder(tmp_path, study="compound_spmv", own=get_study("compound_spmv").columns)
    other.record("mhd1280b", entry="complex", n=1280, nnz=22778)
    other.write(
        "mhd1280b", "single", "report", [other.row("mhd1280b", "single", "empty", "empty", 3.0, phase="report")]
    )
    CooMaker(tmp_path, "cuda").all()
    page = report(CampaignSelection.of(coo.name, other.results)).read_text()
    read = Page(page)
    assert not read.stack and max(read.ids.values()) == 1
    assert {target[1:] for target in read.targets if target.startswith("#")} <= set(read.ids)
    for study in ("compound_spmv", STUDY):
        assert f'<h2 id="{study}-head">' in page and f"study {study}</span>" in page
        assert f'<h3 id="guide-{study}-head">In {study}' in page
        assert f"{study}-table-1" in read.ids
    assert page.count("CCOO-aligned, where no chunk ends within a row") == 1
    assert REASON in page
