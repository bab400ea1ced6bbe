"""One problem measured on the CPU: which rows there are, and what an interrupted run leaves to do."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import Row
from repro.bench.timing import SamplingPlan
from repro.bench.yardsticks import Empty
from repro.campaign import measurement
from repro.campaign.configuration import load
from repro.campaign.measurement import measure
from repro.campaign.problem_files import build_problem, record_of
from repro.campaign.profiler import launch
from repro.cli import app
from repro.cli import measurement as commands
from repro.codegen.targets import get_target
from repro.config.models import Config, OwnProblem, StudySettings
from repro.devices.base import LaunchError
from repro.devices.opencl import OpenClDevice
from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline, describe_pattern, save_unavailable
from repro.problems.registry import load_registry, problem_names
from repro.sparse.compound.variants import Layout, schedules
from repro.sparse.tuning_features import OPERATOR
from repro.studies import get_study
from repro.studies.compound_spmv.study import choose, layouts_to_try, worthwhile_orderings
from support.small_case import FILES, LAYOUTS, NAME, STUDY, config, quiet, run

pytestmark = pytest.mark.medium


@pytest.mark.slow
def test_unknowns_are_renumbered_only_if_that_part_is_asked_for(measuring):
    found = run(parts=())
    assert set(found["search"].ordering) == {"natural"}
    assert "reordered" in set(found["choices"].tuning)  # of the matrix as it is


@pytest.mark.slow
def test_everything_is_measured_in_one_go_and_not_again(measuring):
    found = run()
    search, report = found["search"], found["report"]
    assert set(search.status) == {"ok"}
    assert set(search.space) == {"paper", "paper_tuned", "extended"}
    assert set(search.ordering) == {"natural", "rcm", "sorted", "bisected"}
    assert search[search.ordering != "natural"].layout.str.contains("@").all()
    assert not search.name.duplicated().any()
    assert set(found["baseline"].kind) == {"floor", "copy", "empty"}

    choices = found["choices"]
    papers = {"schedule", "layout", "joint", "static", "dynamic"}
    tunings = {*papers, *(f"tuned_{tuning}" for tuning in papers), "extended", "reordered"}
    assert set(choices.tuning) == {*tunings, OPERATOR}
    assert set(get_study(STUDY).tunings(config().studies[STUDY], Outline(NAME, "matrix", "complex"))) == tunings
    assert set(choices.clock) == {"event", "graph"}
    joint = search.set_index("name").loc[choices[choices.tuning == "joint"].name]
    assert set(joint.space) == {"paper"}
    assert set(joint.ordering) == {"natural"}

    warm, cold = (report[report.cache == state] for state in ("warm", "cold"))
    assert set(report.phase) == {"report"}
    assert set(report.protocol) == {"full"}
    assert set(warm.kind) == {"variant", "baseline", "floor", "copy", "empty"}
    assert set(choices.name) == set(warm[warm.kind == "variant"].name)
    assert {"scipy/csr/real2", "scipy/bsr/real2", "scipy/csr/complex"} <= set(warm.name)
    assert set(warm.event_launches) == {10}
    assert warm.graph_median.notna().all()
    assert set(cold.name) == set(warm[~warm.kind.isin(["copy", "empty"])].name)
    assert set(cold.event_launches) == {6}
    assert cold.graph_median.isna().all()

    store = Path(f"results/c/store/{STUDY}/{NAME}/single/rows.jsonl")
    lines = store.read_text().splitlines()
    again = run()
    assert store.read_text().splitlines() == lines
    for name in FILES:
        pd.testing.assert_frame_equal(found[name], again[name])

    kept = lines[: len(lines) // 3]
    store.write_text("\n".join(kept) + "\n" + lines[-1][:40])
    run()
    now = store.read_text().splitlines()
    assert now[: len(kept)] == kept
    keys = [json.loads(line)["key"] for line in now]
    assert len(keys) == len(set(keys)) > len(kept)


@pytest.mark.slow
def test_baselines_can_be_named(measuring):
    report = run(layouts=LAYOUTS[:1], baselines=("scipy/bsr/real2",), space="paper")["report"]
    assert set(report[report.kind == "baseline"].name) == {"scipy/bsr/real2"}
    with pytest.raises(ReproError, match="unknown baseline"):
        run(baselines=("cublas",))


@pytest.mark.slow
def test_winners_can_be_chosen_cold(measuring):
    found = run(layouts=LAYOUTS[:1], space="paper", cache="cold")
    assert set(found["search"].cache) == {"cold"}
    assert set(found["choices"].clock) == {"event"}
    assert set(found["report"].cache) == {"warm", "cold"}


def test_a_problem_that_cannot_be_had_is_a_row_in_every_file(measuring):
    save_unavailable(Path(f"results/c/problems/{NAME}.npz"), NAME, "matrix", "complex", "no such file")
    found = run()
    for name in FILES[:3]:
        [row] = found[name].to_dict("records")
        assert (row["problem"], row["status"], row["message"]) == (NAME, "unavailable", "no such file")
    assert found["choices"].empty


@pytest.mark.parametrize(
    ("study", "rows", "columns", "entries", "reason"),
    [
        (STUDY, 3, 3, 0, "the matrix has no entries"),
        (STUDY, 0, 0, 0, "the matrix has no entries"),
        ("compressed_coo", 3, 3, 0, "the matrix has no entries"),
        ("compressed_coo", 0, 0, 0, "the matrix has no entries"),
        (STUDY, 3, 5, 0, "the matrix has no entries"),
        ("compressed_coo", 3, 5, 2, "the matrix is not square"),
    ],
)
def test_a_matrix_that_cannot_be_multiplied_time_and_again_is_refused_in_every_file(
    tmp_path, monkeypatch, study, rows, columns, entries, reason
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.mtx").write_text(
        f"%%MatrixMarket matrix coordinate real general\n{rows} {columns} {entries}\n"
        + "".join(f"{i + 1} {i + 1} 1\n" for i in range(entries))
    )
    own = OwnProblem(path="mine.mtx")
    settings = Config(campaign="c", device="opencl", studies={study: StudySettings(problems=(own,))})
    folder = CampaignFolder.of(settings.campaign)
    build_problem("mine", settings, folder.problem("mine"), folder.record("mine"))
    assert json.loads(folder.record("mine").read_text())["status"] == "ok"

    written = {path.stem: path for path in measure(settings, study, "mine", "single", quiet)}
    assert list(written) == FILES
    for step in FILES[:3]:
        [row] = pd.read_parquet(written[step]).to_dict("records")
        assert (row["problem"], row["status"], row["message"].splitlines()[0]) == ("mine", "unavailable", reason)
    assert pd.read_parquet(written["choices"]).empty


@pytest.mark.parametrize("command", ["measure", "launch"])
def test_an_unbuilt_problem_is_built_by_what_the_message_says(tmp_path, monkeypatch, templates, command):
    monkeypatch.chdir(tmp_path)
    for folder in ("config", "kernels"):
        (tmp_path / folder).symlink_to(templates.parent / folder)
    settings = Config(campaign="c", device="opencl", studies={STUDY: StudySettings()})
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(settings.model_dump(mode="json")))

    def run_it():
        if command == "measure":
            measure(settings, STUDY, "tiny/dirac", "single", quiet)
        else:
            launch(settings, STUDY, "tiny/dirac", "single", ["floor/1-1"], 1)

    folder = CampaignFolder.of(settings.campaign)
    with pytest.raises(ReproError, match="the problem has not been built") as error:
        run_it()
    build, workflow = re.findall("`(.*?)`", error.value.todo)
    assert workflow == f"snakemake --cores all {folder.problem('tiny/dirac')}"
    program, *words = shlex.split(build)
    assert program == "repro"
    assert CliRunner().invoke(app.build(), [*words, "--config", "mine.yaml"]).exit_code == 0
    record = json.loads(folder.record("tiny/dirac").read_text())
    assert Matrix.load(folder.problem("tiny/dirac")).name == record["name"] == "tiny/dirac"
    # what is missing next is another thing
    with pytest.raises(ReproError, match={"measure": "no such module", "launch": "unknown routine"}[command]):
        run_it()


def test_the_examples_of_measure_name_what_the_default_configuration_has(templates, monkeypatch):
    monkeypatch.chdir(templates.parent)
    settings = load(Path("config/config.yaml"))
    examples = [line.split() for line in commands.measure.__doc__.splitlines() if line.startswith("        repro ")]
    for _, command, *words in examples:
        name = words[1] if command == "measure" else words[0]
        folder = CampaignFolder.of(settings.campaign)
        assert name in problem_names(load_registry(Path(settings.registry)), settings.studies[STUDY].problems)
        if command == "problem":
            assert words[words.index("-o") + 1] == str(folder.problem(name))
    assert {command for _, command, *_ in examples} == {"problem", "measure"}


def test_an_unknown_study_is_one_message(measuring):
    with pytest.raises(ReproError, match="unknown study"):
        measure(config(), "spgemm", NAME, "single", quiet)


@pytest.mark.parametrize(("time", "expected"), [(0.5, ["rcm"]), (0.999, []), (2.0, [])])
def test_the_library_is_reordered_where_that_made_us_faster(time, expected, make_variant_row):
    rows = [
        make_variant_row("CSR-AoS-AoS", 1.1),
        make_variant_row("Sl-8-AoSoA-AoS", 1.0, space="extended"),
        make_variant_row("Sl-8-AoSoA-AoS@rcm", time, space="extended", ordering="rcm"),
    ]
    assert worthwhile_orderings(choose(rows, 0.01), rows, 0.01) == expected


@pytest.fixture
def make_variant_row():
    def make(layout, time, space="paper", ordering="natural"):
        assert str(Layout.parse(layout)) == layout
        case = ("k", "s", "p", "single", "variant", f"{layout}/static-32-1", "ok")
        own = {"layout": layout, "schedule": "static", "ordering": ordering}
        return Row(*case, space=space, event_median=time, graph_median=time, own=own)

    return make


@pytest.mark.slow
def test_a_predicted_search_learns_from_other_campaigns_and_measures_a_few(measuring, small_problem):
    with pytest.raises(ReproError, match="no recorded campaign to learn from"):
        run(search="predicted")
    problem = small_problem("complex")
    problem = replace(problem, statistics=describe_pattern(problem.indptr, problem.indices))
    record = Path(f"results/first/raw/problems/{NAME}.json")
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps(record_of(problem)))
    for name in ("first", "c"):
        problem.save(Path(f"results/{name}/problems/{NAME}.npz"))
    first = config().model_copy(update={"campaign": "first"})
    measure(first, STUDY, NAME, "single", quiet)
    every = pd.read_parquet(f"results/first/raw/{STUDY}/{NAME}/single/search.parquet")
    every = every[every["ordering"] == "natural"]

    found = run(search="predicted", budget=0.1, memory_weight=1.0)
    search = found["search"][found["search"]["ordering"] == "natural"]
    assert search.groupby("space").size().to_dict() == (every.groupby("space").size() * 0.1).astype(int).to_dict()
    assert (search["layout"] == "CSR-AoS-AoS").any()
    choices = found["choices"]
    assert {"joint", "extended", "memory"} <= set(choices["tuning"])
    assert set(choices["name"]) <= set(found["report"]["name"]) & set(found["search"]["name"])


@pytest.mark.exhaustive
def test_a_random_search_measures_as_many(measuring):
    search = run(search="random", budget=0.05, space="paper")["search"]
    target = get_target("cpu")
    tried = layouts_to_try(config(space="paper").studies[STUDY], "paper", "complex")
    whole = sum(len(schedules(target, "paper", layout)) for layout in tried)
    assert len(search) == int(0.05 * whole)


def test_rows_have_other_keys_if_the_stream_is_not_blocked(measuring, monkeypatch, small_problem):
    def key(**environment):
        monkeypatch.setattr(measurement, "describe_environment", lambda *_: {"driver": "570.1", **environment})
        study = get_study(STUDY)
        with measurement.open_bench(config(), study, NAME, study.operands(problem, "single", 0)) as bench:
            return bench.key(Empty(), "report", SamplingPlan(1))

    problem = small_problem("complex")
    assert key(blocking=True) == key()
    assert key(blocking=False) != key()


def test_a_common_module_that_is_not_for_the_device_is_one_message(measuring, monkeypatch):
    def refuse(device, binary):
        raise LaunchError("the module cannot be loaded: INVALID_BINARY")

    def close(device):
        closed.append(device)

    closed = []
    monkeypatch.setattr(OpenClDevice, "load", refuse)
    monkeypatch.setattr(OpenClDevice, "close", close)
    with pytest.raises(ReproError, match=r"common module[\s\S]*opencl:0[\s\S]*INVALID_BINARY"):
        run()
    assert len(closed) == 1
