"""What is recorded of problems and environments is read, or refused in one message that names the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.records import is_record, read_environment, read_environments, read_problem, read_problems
from repro.errors import ReproError
from repro.problems.problem import describe_pattern
from support.campaigns import RESULTS, recorded_campaigns
from support.non_files import IN_PLACE_OF_A_FILE, put

#: That each recorded campaign has a record of.
PROBLEMS = {
    "h200": 95, "h200-as-published": 55, "h100": 30, "h100-solvers": 13, "h100-products": 19,
    "h200-calls": 5, "h200-edges": 72, "h200-energy": 10, "h200-real": 30, "h200-products": 19, "h200-x2": 6,
    "h200-x4": 3, "h200-uncertainty": 25, "first-h200": 18, "repeat-h200": 18,
}  # fmt: skip
QUANTILES = dict.fromkeys(("min", "q1", "median", "q3", "max", "mean"), 1.0)
STATISTICS = {"rows": 3, "nonzeros": 3, "row_length": QUANTILES, "bandwidth_percent": QUANTILES, "ell_factor": 1.0}
PROBLEM = {"name": "fem/nut", "kind": "matrix", "status": "ok", "entry": "real", "n": 3, "nnz": 3,
           "origin": {"source": "own"}, "statistics": STATISTICS, "facts": {"spmv": {"memory": 5}}}  # fmt: skip
EDGES = {"total_volume": 1.0, "longest_edge": 0.5, "mean_edge": 0.25}
FIELD = {"name": "siac/low", "kind": "field", "status": "ok", "dimension": 2, "vertices": 5, "cells": 2, "degree": 1,
         "basis": "dubiner", "modes": 3, "periodic": True, "origin": {"source": "field"}, "facts": {},
         "statistics": {"cells": 2, "volume": QUANTILES, "edge": QUANTILES, **EDGES}}  # fmt: skip
ENVIRONMENT = {"device": "GPU", "target": "sm_90", "multiprocessors": 132, "flags": ["-O3"], "packages": {"a": "1"}}


def without(record: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != key}


@pytest.fixture
def folder(tmp_path: Path) -> CampaignFolder:
    return CampaignFolder(tmp_path)


@pytest.mark.parametrize(
    "record",
    [
        PROBLEM,
        {"name": "p", "kind": "matrix", "entry": "real", "status": "unavailable", "reason": "no network"},
        {**PROBLEM, "kind": "updates", "statistics": {"volume": QUANTILES}, "later": [1]},
        {**PROBLEM, "statistics": {}},
        FIELD,
        {"name": "f", "kind": "field", "entry": None, "status": "unavailable", "reason": "no file"},
    ],
    ids=["built", "unavailable", "another-kind", "no-statistics", "field", "unavailable-field"],
)
def test_records_of_problems_are_read_as_they_are(tmp_path: Path, record: dict[str, Any]) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(record))
    assert read_problem(path) == record


def test_what_is_said_of_an_empty_matrix_is_a_record(tmp_path: Path) -> None:
    statistics = describe_pattern(np.zeros(1, np.int32), np.zeros(0, np.int32))
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"name": "empty", "statistics": statistics}))
    assert read_problem(path)["statistics"]["ell_factor"] == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        (json.dumps(PROBLEM)[:-20], "Expecting|Unterminated"),
        (b"\xff\xfe\xff", "decode"),
        ("[" * 100_000, "nested more than 100 deep"),
        ('{"a":' * 100_000, "nested more than 100 deep"),
        (json.dumps({**PROBLEM, "n": float("nan")}), "NaN is no number"),
        (json.dumps({**PROBLEM, "facts": {"spmv": {"loss": float("-inf")}}}), "-Infinity is no number"),
        ('{"name": "fem/nut", "n": 1e999}', "1e999 is no number that 64 bits hold"),
        ('{"name": "fem/nut", "n": 1' + "0" * 5000 + "}", "is no integer that 64 bits hold"),
        ('{"name": "fem/nut", "name": "other"}', "the key 'name' is there twice"),
        (b'{"name": "fem/\0nut"}', "Invalid control character"),
        ('{"name": "fem/nut", "reason": "\\ud800"}', "surrogates not allowed"),
        (json.dumps(PROBLEM).encode("utf-16"), "decode"),
        ("[]", r"not an object, but \[\]"),
        ("null", "not an object, but None"),
        ('"ok"', "not an object, but ok"),
        ("{}", "name: field required"),
        (without(PROBLEM, "name"), "name: field required"),
        ({**PROBLEM, "name": ["p"]}, "name: input should be a valid string"),
        ({**PROBLEM, "n": "3"}, "n: input should be a valid integer"),
        ({**PROBLEM, "status": "fine"}, "status: input should be 'ok' or 'unavailable'"),
        ({**PROBLEM, "origin": 5}, "origin: input should be a valid dictionary"),
        ({**PROBLEM, "facts": {"spmv": []}}, "facts.spmv: input should be a valid dictionary"),
        ({**PROBLEM, "statistics": without(STATISTICS, "rows")}, "statistics.rows: field required"),
        (
            {**PROBLEM, "statistics": {**STATISTICS, "row_length": without(QUANTILES, "q3")}},
            "statistics.row_length.q3: field required",
        ),
        ({**FIELD, "cells": 0}, "cells: input should be greater than or equal to 1"),
        ({**FIELD, "degree": "1"}, "degree: input should be a valid integer"),
        ({**FIELD, "statistics": without(FIELD["statistics"], "mean_edge")}, "statistics.mean_edge: field required"),
    ],
)
def test_what_is_no_record_of_a_problem_is_said(folder: CampaignFolder, text: Any, reason: str) -> None:
    path = folder.record("fem/nut")
    path.parent.mkdir(parents=True)
    path.write_bytes(
        text if isinstance(text, bytes) else (text if isinstance(text, str) else json.dumps(text)).encode()
    )
    for read in (lambda: read_problem(path), lambda: read_problems(folder)):
        with pytest.raises(ReproError, match="the record of a problem cannot be read") as caught:
            read()
        assert caught.value.where == path
        caught.match(reason)
        assert "run the campaign again" in str(caught.value.todo)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting property name"),
        ("[1]", "not an object"),
        ({**ENVIRONMENT, "multiprocessors": "many"}, "multiprocessors: input should be a valid integer"),
        ({**ENVIRONMENT, "packages": ["numpy"]}, "packages: input should be a valid dictionary"),
        ({**ENVIRONMENT, "target": 90}, "target: input should be a valid string"),
    ],
)
def test_what_is_no_record_of_an_environment_is_said(folder: CampaignFolder, text: Any, reason: str) -> None:
    path = folder.environment("abc")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(ENVIRONMENT))
    assert read_environments(folder) == {"abc": ENVIRONMENT}
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    with pytest.raises(ReproError, match="the record of an environment cannot be read") as caught:
        read_environment(path)
    assert caught.value.where == path
    caught.match(reason)


def test_a_file_that_is_not_there_is_for_the_reader_to_say(folder: CampaignFolder) -> None:
    for read in (read_problem, read_environment):
        with pytest.raises(FileNotFoundError):
            read(folder.record("p"))
    assert read_problems(folder) == read_environments(folder) == {}


@pytest.mark.parametrize("campaign", recorded_campaigns())
def test_recorded_campaigns_are_records(campaign: str) -> None:
    folder = CampaignFolder.of(campaign, RESULTS)
    assert len(read_problems(folder)) == PROBLEMS[campaign]
    assert all(record["target"] == "sm_90" for record in read_environments(folder).values())


def test_a_record_that_is_half_written_is_not_read_yet(folder: CampaignFolder) -> None:
    for path, record in ((folder.record("fem/nut"), PROBLEM), (folder.environment("a"), ENVIRONMENT)):
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(record))
        path.with_name(".a.json").write_text("{")
    assert list(read_problems(folder)) == ["fem/nut"]
    assert list(read_environments(folder)) == ["a"]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("../../../ESCAPED", "fem/nut"), ("/tmp/ESCAPED", "fem/nut"), ("fem/../nut", "fem/nut"),
        ("fem/nut2", "fem/nut"),
        ("FEM/nut", "fem/nut"), ("fem//nut", "fem/nut"), ("fem/nut\n", "fem/nut"), ("fem\\nut", "fem/nut"),
        ("fem/nut\u2028", "fem/nut"), ("fem/nut\u0000", "fem/nut"), (".", "fem/nut"), ("n" * 300, "fem/nut"),
        ("a b", "a b"), ("a;b", "a;b"), ("\u2025", "\u2025"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_record_is_of_the_problem_that_its_file_says(folder: CampaignFolder, name: str, file: str) -> None:
    path = folder.record(file)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**PROBLEM, "name": name}))
    with pytest.raises(ReproError, match="the record describes a different problem from its file name") as caught:
        read_problems(folder)
    assert caught.value.where == path
    assert caught.value.message.isprintable() or caught.value.message.replace("\n", "").isprintable()


@pytest.mark.parametrize("kind", IN_PLACE_OF_A_FILE)
def test_what_is_no_file_is_not_waited_for(folder: CampaignFolder, at_once: None, kind: str) -> None:
    for path, read in ((folder.record("fem/nut"), read_problems), (folder.environment("a"), read_environments)):
        path.parent.mkdir(parents=True)
        put(kind, path)
        with pytest.raises(ReproError, match=rf"cannot be read[\s\S]*{IN_PLACE_OF_A_FILE[kind]}") as caught:
            read(folder)
        assert caught.value.where == path
        assert not is_record(path)
