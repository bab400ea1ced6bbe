"""Rows of recorded campaigns as JSON, CSV, NVBench's JSON and T4."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import jsonschema
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import COMMON_COLUMNS, STATUSES
from repro.bench.store import read_rows
from repro.campaign import row_export
from repro.campaign.row_export import INVALIDITY, check_filters, exported_rows, studies_of, t4_of
from repro.cli import app
from repro.errors import ReproError

pytestmark = pytest.mark.medium

ROOT = Path(__file__).parents[2]
CAMPAIGN = "h200-as-published"
FOLDER = CampaignFolder.of(CAMPAIGN, ROOT / "results")
#: What version 1.0.0 of T4 says of a result.
T4 = {
    "type": "object",
    "required": ["schema_version", "results"],
    "properties": {
        "schema_version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["configuration", "times", "invalidity", "correctness"],
                "properties": {
                    "timestamp": {"type": "string"},
                    "configuration": {"type": "object"},
                    "objectives": {"type": "array"},
                    "times": {"type": "object", "properties": {"runtimes": {"type": "array"}}},
                    "invalidity": {"enum": ["timeout", "compile", "runtime", "correctness", "constraints", "correct"]},
                    "correctness": {"type": "number"},
                    "measurements": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string"},
                                "value": {"type": ["number", "string", "array"]},
                                "unit": {"type": "string"},
                            },
                        },
                    },
                },
            },
        },
    },
}


def printed(*words: str) -> str:
    done = CliRunner().invoke(app.build(["results"]), ["results", CAMPAIGN, "--results", str(ROOT / "results"), *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_json_has_all_rows() -> None:
    [study] = studies_of(FOLDER, "compressed_coo")
    rows = json.loads(printed("--study", study.name, "--json"))["rows"]
    counts = {step: sum(row["step"] == step for row in rows) for step in ("search", "baseline", "report")}
    assert counts == {step: read_rows(FOLDER.study(study.name), step).num_rows for step in counts}


def test_rows_are_chosen_by_step_problem_precision_and_kind() -> None:
    words = ("--study", "compressed_coo", "--step", "report", "--problem", "bayer10", "--kind", "baseline")
    rows = json.loads(printed(*words, "--precision", "double", "--json"))["rows"]
    kept = read_rows(FOLDER.study("compressed_coo"), "report").to_pandas()
    kept = kept[(kept.problem == "bayer10") & (kept.precision == "double") & (kept.kind == "baseline")]
    assert [row["key"] for row in rows] == [*kept.key] and rows
    assert {row["step"] for row in rows} == {"report"}
    with pytest.raises(ReproError, match="no row has this problem") as error:
        check_filters(FOLDER, studies_of(FOLDER, "compressed_coo"), {"problem": "bayer11"})
    assert "did you mean bayer10?" in str(error.value)


def test_the_kind_rival_selects_kernels_of_users_too(monkeypatch: pytest.MonkeyPatch) -> None:
    [study], filters = studies_of(FOLDER, "compressed_coo"), {"kind": "rival", "step": "report"}
    for kinds, count in ((["rival", "outside", "variant"], 2), (["outside"], 1)):
        monkeypatch.setattr(row_export, "read_rows", lambda *_, kinds=kinds: pa.table({"kind": kinds}))
        check_filters(FOLDER, [study], filters)
        assert len([*exported_rows(FOLDER, study, filters)]) == count


def test_filters_compare_numbers_and_columns_with_empty_cells_as_text() -> None:
    studies = studies_of(FOLDER, "compressed_coo")
    for name, known in (("layout", "COO"), ("n_t", "256")):
        check_filters(FOLDER, studies, {name: known})
        assert {str(row[name]) for row in exported_rows(FOLDER, studies[0], {name: known})} == {known}
        with pytest.raises(ReproError, match=f"no row has this {name}"):
            check_filters(FOLDER, studies, {name: "zzz"})


def test_without_a_format_each_row_is_a_line_without_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    words = ("--study", "compressed_coo", "--step", "report", "--problem", "bayer10", "--kind", "baseline")
    rows = json.loads(printed(*words, "--json"))["rows"]
    head, *lines = printed(*words).splitlines()
    assert head.split()[:6] == ["study", "problem", "precision", "step", "kind", "name"]
    assert "event µs" in head and "samples" not in head
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        assert line.split()[:6] == ["compressed_coo", "bayer10", row["precision"], "report", "baseline", row["name"]]
        said = row["message"] if "message" in row else f"{1e6 * row['event_median']:.1f}"
        assert f"  {said}  " in f"{line}  "


def test_csv_has_the_same_numbers() -> None:
    [study] = studies_of(FOLDER, "compressed_coo")
    lines = [*csv.DictReader(io.StringIO(printed("--study", study.name, "--csv")))]
    rows = [*exported_rows(FOLDER, study)]
    assert len(lines) == len(rows)
    columns = {"step", *COMMON_COLUMNS, *study.columns}
    assert columns - set(lines[0]) == {"event_samples", "graph_samples", "host_samples"}
    for line, row in list(zip(lines, rows, strict=True))[::97]:
        assert line["name"] == row["name"]
        assert float(line["event_median"] or 0) == row.get("event_median", 0)


def test_a_terminal_gets_the_numbers_of_rows_unless_each_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda stream: True, raising=False)
    head, *lines, advice = printed("--study", "compressed_coo").splitlines()
    assert head.split()[:3] == ["study", "problem", "precision"] and "each row: --all" in advice
    [study] = studies_of(FOLDER, "compressed_coo")
    numbers = [int(cell.replace(",", "")) for line in lines for cell in line.split()[3:] if cell != "–"]
    assert sum(numbers) == len([*exported_rows(FOLDER, study)])
    head, *lines = printed("--study", "compressed_coo", "--all").partition("\nnot shown: ")[0].splitlines()
    assert head.startswith("problem ") and sum(not line.startswith(" ") for line in lines) == sum(numbers)


def test_a_search_is_kernel_tuners_t4(tmp_path: Path) -> None:
    words = printed("--study", "compressed_coo", "--t4", str(tmp_path)).splitlines()
    [study] = studies_of(FOLDER, "compressed_coo")
    found = t4_of(FOLDER, study)
    assert len(words) == len(found) > 0
    (problem, precision), search = next(iter(found.items()))
    assert json.loads((tmp_path / study.name / problem / f"{precision}.json").read_text()) == search
    for one in found.values():
        jsonschema.validate(one, T4)
    rows = [row for row in exported_rows(FOLDER, study) if (row["step"], row["kind"]) == ("search", "variant")]
    assert sum(len(one["results"]) for one in found.values()) == len(rows)
    configurations = [json.dumps(result["configuration"], sort_keys=True) for result in search["results"]]
    of_case = {row["name"] for row in rows if (row["problem"], row["precision"]) == (problem, precision)}
    assert len(set(configurations)) == len(of_case)
    best = min(
        (result for result in search["results"] if result["invalidity"] == "correct"),
        key=lambda result: result["measurements"][0]["value"],
    )
    row = next(row for row in rows if 1e3 * row.get("event_median", 0) == best["measurements"][0]["value"])
    assert best["configuration"].items() <= row.items()


def test_rows_are_states_of_nvbench() -> None:
    words = ("--study", "compressed_coo", "--step", "report", "--problem", "bayer10")
    rows = json.loads(printed(*words, "--json"))["rows"]
    written = json.loads(printed(*words, "--nvbench"))
    assert written["meta"]["version"]["json"]["string"] == "1.0.0"
    assert written["devices"] == [{"id": 0, "name": rows[0]["device"]}]
    [benchmark] = written["benchmarks"]
    assert (benchmark["name"], benchmark["devices"], len(benchmark["states"])) == ("compressed_coo", [0], len(rows))
    assert len({state["name"] for state in benchmark["states"]}) == len(rows)
    for state, row in zip(benchmark["states"], rows, strict=True):
        assert {axis["name"]: axis["value"] for axis in state["axis_values"]}.items() <= row.items()
        assert state["is_skipped"] == ("event_median" not in row)
        if state["is_skipped"]:
            assert state["skip_reason"] == row["message"]
            continue
        # what nvbench_compare.py looks up
        values = {one["tag"]: float(one["data"][0]["value"]) for one in state["summaries"]}
        assert values["nv/cold/time/gpu/median"] == row["event_median"]
        assert values["nv/cold/time/gpu/mean"] == row["event_mean"]
        spread = (row["event_q3"] - row["event_q1"]) / row["event_median"]
        assert values["nv/cold/time/gpu/ir/relative"] == pytest.approx(spread)
        assert 0 < values["nv/cold/time/gpu/stdev/relative"] < 1
        assert ("nv/batch/time/gpu/mean" in values) == ("graph_mean" in row)


def test_each_status_of_a_variant_has_a_word_of_t4() -> None:
    assert set(INVALIDITY) == set(STATUSES) - {"unavailable"}


def test_an_unknown_campaign_or_study_is_one_message() -> None:
    for words in (["nothing"], [CAMPAIGN, "--study", "nothing"], [CAMPAIGN, "--json", "--csv"]):
        done = CliRunner().invoke(app.build(["results"]), ["results", *words, "--results", str(ROOT / "results")])
        assert done.exit_code == 1
        assert done.output.count("error:") == 1
