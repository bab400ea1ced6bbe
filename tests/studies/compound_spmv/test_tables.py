"""Tables of the synthetic campaign, whose cells can be worked out by hand."""

import csv
import io
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from repro.errors import ReproError
from repro.results.campaign_data import Campaign
from repro.results.output import as_csv, as_latex, as_markdown
from repro.results.problem_lines import EVENTS_LEAVE_OUT, measurement_note
from repro.results.published import Published
from repro.results.registry import artifacts, get_artifact
from repro.results.report import missing
from repro.results.tables import Table
from repro.studies.compound_spmv.results import PUBLISHED_CLOCK
from repro.studies.compound_spmv.tables.reproduction import size_text
from support.synthetic_campaign import PROBLEMS, REASON, STUDY, Maker


def make(campaign: Campaign, published: Published, name: str) -> Table:
    made = get_artifact(STUDY, name).make(campaign, published)
    assert isinstance(made, Table)
    return made


def values(table: Table) -> dict[str, dict[str, str]]:
    """Rows of the CSV file by their first column (and the precision, where there is one)."""
    rows = csv.DictReader(io.StringIO(as_csv(table)))
    return {" ".join(filter(None, (row["problem"], row.get("precision")))): row for row in rows}


def test_names_and_order() -> None:
    tables, figures = ([a.name for a in artifacts(STUDY, kind)] for kind in ("table", "figure"))
    assert [artifact.name for artifact in artifacts(STUDY)] == tables + figures
    papers = [f"table-{n}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 9)]
    assert tables[: len(papers)] == papers and {"table-floor", "table-problems"} <= set(tables[len(papers) :])
    papers = [f"figure-{n}" for n in (3, 4)]
    assert figures[: len(papers)] == papers and "figure-speedup" in figures[len(papers) :]
    assert tables[10:] == sorted(tables[10:]) and figures[6:] == sorted(figures[6:])
    with pytest.raises(ReproError, match="unknown artifact"):
        get_artifact(STUDY, "table-99")


def test_sizes(gpu: Campaign, published: Published) -> None:
    rows = values(make(gpu, published, "table-1"))
    bunny, dragon, motor = rows["surfaces/bunny"], rows["surfaces/dragon_dithered"], rows["fem/NX_MotorH67k"]
    assert (bunny["published_nonzeros"], bunny["nonzeros"]) == ("243410", "243410")
    assert dragon["published_rows"] == "435545" and dragon["notes"] == "stand-in for surfaces/dragon"
    assert "surfaces/dragon" not in rows  # its stand-in has its line
    assert motor["published_rows"] == "66840" and motor["rows"] == "" and REASON in motor["notes"]
    assert rows["RFdevice"]["notes"] == "not in this campaign"
    assert rows["generated/hubs"]["published_rows"] == "" and rows["generated/hubs"]["rows"] == "12000"


@pytest.mark.parametrize("name", [f"table-{n}" for n in range(2, 8)])
def test_layouts(gpu: Campaign, published: Published, name: str) -> None:
    table = make(gpu, published, name)
    rows = values(table)
    mine = [given.name for given in PROBLEMS if given.name in rows and not given.reason]
    assert mine
    for problem in mine:
        assert rows[problem]["ours_layout"] == "ELL-SoA-AoS"
        assert float(rows[problem]["ours_speedup"]) == pytest.approx(2.1)  # 2.0 from the search's times
        assert "tie with Sl-32-SoA-AoS" in rows[problem]["notes"]
    assert f"{len(mine)} of {len(mine)}" in table.caption
    assert all(word in table.caption for word in ("NVIDIA H200", "event clock", "warm", f"Table {name[-1]}"))


def test_layouts_beside_the_published(gpu: Campaign, published: Published) -> None:
    row = values(make(gpu, published, "table-4"))["surfaces/dragon_dithered"]
    assert (row["published_K2000_speedup"], row["published_GTX_980_speedup"]) == ("2.33", "1.09")


def test_dynamic(gpu: Campaign, published: Published) -> None:
    table = make(gpu, published, "table-8")
    rows = values(table)
    assert {given.name: rows[given.name]["ours"] for given in PROBLEMS} == {
        "mhd1280b": "both",
        "generated/helmholtz": "DP",  # half a percent in single precision is a tie
        "surfaces/bunny": "SP",
        "surfaces/dragon_dithered": "none",
        "generated/hubs": "none",
        "fem/nut_37k": "none",
        "fem/NX_MotorH67k": "",
    }
    assert "tie in SP" in rows["generated/helmholtz"]["notes"]
    shares = [cell.shown for cell in table.summary[0][2:]]
    assert shares == ["12/26 (46 %)", "8/26 (31 %)", "4/26 (15 %)", "4/12 (33 %)"]


def test_memory(gpu: Campaign, published: Published) -> None:
    table = make(gpu, published, "table-9")
    bunny = next(row for row in table.rows if row[0].value == "surfaces/bunny")
    assert [cell.shown for cell in bunny[1:]] == [
        "8.5 MiB", "1.7", "1.1", "1.2", "3.6", "1.0 KiB", "2.5", "1.2", "1.3", "1.0",
    ]  # fmt: skip


@pytest.mark.parametrize(("size", "text"), [(460684, "449.9 KiB"), (1024**2 - 1, "1024.0 KiB"), (8902100, "8.5 MiB")])
def test_size_text(size: int, text: str) -> None:
    assert size_text(size) == text


def test_floor(gpu: Campaign, published: Published) -> None:
    row = values(make(gpu, published, "table-floor"))["generated/hubs single"]
    expected = {
        "winner_us": 12.0,  # 10 x weight 1.5 x 0.8
        "floor_us": 9.6,
        "winner_percent_of_floor": 80.0,
        "effective_GB_per_s": 2e6 / 12e-6 / 1e9,
        "baseline_us": 18.0,
        "baseline_percent_of_floor": 100 * 9.6 / 18,
        "speedup_over_baseline": 1.5,
        "copy_GB_per_s": 2000.0,
        "empty_us": 2.64,
    }
    assert {key: float(row[key]) for key in expected} == pytest.approx(expected)
    assert row["winner"] == "ELL-SoA-AoS/static-64-2"
    assert row["baseline"] == "cusparse/spmv-csr-alg1/real"


def test_noise_and_failure_are_said(maker: Maker, published: Published) -> None:
    given = PROBLEMS[1]
    maker.problem(given)
    maker.case(given, "single")
    rows = maker.report(given, "single")
    for status, words in (("noisy", "noisy: the quartiles"), ("incorrect", "failed: incorrect")):
        changed = [replace(row, status=status) if row.kind == "variant" else row for row in rows]
        maker.write(given.name, "single", "report", changed)
        campaign = maker.load()
        assert words in values(make(campaign, published, "table-2"))[given.name]["notes"]
        assert words in values(make(campaign, published, "table-8"))[given.name]["notes"]
        assert words in values(make(campaign, published, "table-floor"))[f"{given.name} single"]["notes"]


def test_what_is_mostly_launch_is_marked(gpu: Campaign, published: Published) -> None:
    table = make(gpu, published, "table-2")
    mark = "within 2× of an empty kernel’s"
    rows = values(table)
    assert mark in rows["mhd1280b"]["notes"]  # 10 x weight 0.5 x dynamic 0.8, an empty kernel reads 3.3
    assert mark not in rows["generated/helmholtz"]["notes"]
    assert "An empty kernel takes 3.30 µs by this clock. Marked: 1 of 2 cases" in table.caption
    assert f"SP: a time {mark}" in values(make(gpu, published, "table-8"))["mhd1280b"]["notes"]
    assert mark not in values(make(gpu, published, "table-3"))["generated/helmholtz"]["notes"]
    floor = values(make(gpu, published, "table-floor"))
    assert mark in floor["mhd1280b single"]["notes"] and mark not in floor["generated/hubs single"]["notes"]


def test_captions_say_what_events_leave_out_and_by_what_clock_published_times_are(
    gpu: Campaign, cpu: Campaign, published: Published
) -> None:
    for name in ("table-2", "table-8", "table-targets"):
        assert EVENTS_LEAVE_OUT in make(gpu, published, name).caption
        assert PUBLISHED_CLOCK in make(gpu, published, name).caption
        assert EVENTS_LEAVE_OUT not in make(cpu, published, name).caption
        assert PUBLISHED_CLOCK not in make(cpu, published, name).caption
    assert EVENTS_LEAVE_OUT not in make(gpu, published, "table-floor").caption  # by the graph clock


def test_captions_leave_it_unsaid_where_a_stream_was_not_blocked(gpu: Campaign) -> None:
    unblocked = replace(gpu, environments={name: {"blocking": False} for name in gpu.environments})
    assert EVENTS_LEAVE_OUT not in measurement_note(unblocked, "event")


def test_set_up_costs_are_held_against_the_library_with_csr(maker: Maker, published: Published) -> None:
    given = PROBLEMS[1]
    maker.environment()
    maker.problem(given)
    maker.case(given, "single")
    stored = {"variant": {"packing": 0.001}, "baseline": {"preprocess": 0.0002}}
    rows = [replace(row, **stored.get(row.kind, {})) for row in maker.report(given, "single")]
    for row in rows:
        row.own["format"] = "csr" if "csr" in row.name else "bsr"
    maker.write(given.name, "single", "report", rows)
    line = values(make(maker.load(), published, "table-setup-costs"))[f"{given.name} single"]
    assert (line["csr"], line["ours"]) == ("cusparse/spmv-csr-alg1/real", "ELL-SoA-AoS/static-64-2")
    # by the graph clock 0.8 of 15 and of 10 microseconds; 250 products gain what packing takes
    numbers = [float(line[key]) for key in ("library_preprocess_ms", "csr_us", "ours_setup_ms", "ours_us", "gain_us")]
    assert numbers == pytest.approx([0.2, 12, 1, 8, 4])
    assert line["pays_from"] in ("250", "251")


def test_dash_of_table_8_means_that_static_wins(gpu: Campaign, published: Published) -> None:
    rows = {row[0].value: row for row in make(gpu, published, "table-8").rows}
    assert [cell.shown for cell in rows["generated/hubs"][2:5]] == [" "] * 3  # not among the papers' problems
    assert [cell.shown for cell in rows["surfaces/bunny"][2:5]] == ["–"] * 3


@pytest.mark.wording
def test_one_precision_alone_is_named(maker: Maker, published: Published) -> None:
    given = PROBLEMS[1]
    maker.problem(given)
    maker.case(given, "double")
    maker.write(given.name, "single", "search", maker.search(given, "single"))
    row = values(make(maker.load(), published, "table-8"))[given.name]
    assert row["ours"] == "DP (DP only)" and "SP: searched but not reported yet" in row["notes"]


def test_failed_floor_is_named(maker: Maker, published: Published) -> None:
    given = PROBLEMS[4]
    maker.problem(given)
    maker.case(given, "single")
    rows = [
        replace(row, status="launch_error") if row.kind == "floor" else row for row in maker.report(given, "single")
    ]
    maker.write(given.name, "single", "report", rows)
    campaign = maker.load()
    row = values(make(campaign, published, "table-floor"))[f"{given.name} single"]
    assert row["floor_us"] == row["winner_percent_of_floor"] == ""
    assert "floor failed: launch_error" in row["notes"]
    assert "no floor" in [row[2].value for row in missing(campaign, "joint").rows]


def test_cpu_columns(cpu: Campaign, published: Published) -> None:
    table = make(cpu, published, "table-2")
    assert table.columns[-1].group == "ours: CPU"
    assert "CPU times are not compared with GPU times" in table.caption
    assert values(table)["mhd1280b"]["published_GP100_speedup"] == "1.05"  # context, though not measured
    floor = values(make(cpu, published, "table-floor"))["generated/hubs double"]
    assert floor["baseline"] == "scipy/spmv-csr-alg1/real"


@pytest.mark.medium
def test_markdown_and_csv_hold_the_same_rows(gpu: Campaign, published: Published) -> None:
    for artifact in artifacts(STUDY, "table"):
        table = make(gpu, published, artifact.name)
        lines = [line for line in as_markdown(table).splitlines() if line.startswith("|")]
        assert {line.replace("\\|", "").count("|") for line in lines} == {len(table.columns) + 1}
        assert len(lines) - 2 - len(table.summary) == len(table.rows) == as_csv(table).count("\n") - 1


@pytest.mark.medium
def test_latex_has_no_bare_special_characters(gpu: Campaign, published: Published) -> None:
    for artifact in artifacts(STUDY, "table"):
        text = as_latex(make(gpu, published, artifact.name), artifact.name, artifact.title)
        for line in text.splitlines()[1:]:
            assert not re.search(r"(?<!\\)[#%]", line)
        assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(gpu: Campaign, published: Published, tmp_path: Path) -> None:
    body = "\n".join(
        as_latex(make(gpu, published, artifact.name), artifact.name, artifact.title)
        for artifact in artifacts(STUDY, "table")
    )
    (tmp_path / "all.tex").write_text(
        "\\documentclass[twocolumn]{article}\\usepackage[margin=2cm]{geometry}\\usepackage{booktabs,graphicx}\n"
        f"\\begin{{document}}\n{body}\\clearpage\\end{{document}}\n"
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull \\hbox" not in done.stdout, [x for x in done.stdout.splitlines() if "Overfull" in x]
