"""Failures while a case is measured: which rows they affect, and which messages and files remain."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from repro.cli import app
from repro.codegen.build_cache import Module, compile_module, manifest_path
from repro.codegen.targets import CPU
from repro.errors import ReproError
from repro.sparse.device_primitives import read_module
from repro.studies import get_study
from repro.studies.compound_spmv.study import CompoundSpmv
from support.small_case import FILES, LAYOUTS, NAME, STUDY, config, run

pytestmark = pytest.mark.medium


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_damaged_store_is_measured_again(measuring, capsys):
    store = Path(f"results/c/store/{STUDY}/{NAME}/single/rows.jsonl")
    store.parent.mkdir(parents=True)
    store.write_text("{]\n")
    assert set(run(layouts=LAYOUTS[:1], space="paper")["search"].status) == {"ok"}
    assert f"{store}:1 (no row)" in capsys.readouterr().out


def damage(binary: Path) -> None:
    content = bytearray(binary.read_bytes())
    content[len(content) // 2] ^= 1
    binary.write_bytes(content)


@pytest.mark.exhaustive
@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("spoil", [damage, Path.unlink])
def test_a_damaged_module_is_named_and_compiled_again(modules, measuring, templates, spoil):
    Path("modules").unlink()
    shutil.copytree(modules, "modules")
    key = "paper/complex-single/ELL-SoA-AoS"
    manifest = manifest_path(CPU.name, STUDY, key)
    spoil(manifest.parent / Module.load(manifest).binary)
    few = {"layouts": LAYOUTS[:1], "space": "paper"}
    search = run(**few)["search"].set_index("layout")
    assert set(search.loc["CSR-AoS-AoS"].status) == {"ok"}
    assert set(search.loc["ELL-SoA-AoS"].status) == {"compile_error"}
    assert search.loc["ELL-SoA-AoS"].message.str.startswith("damaged: ").all()
    module = Module.load(manifest)
    assert (module.status, module.binary) == ("compile_error", None)
    assert module.message.startswith("damaged: ")

    compile_module(get_study(STUDY).render(templates, key, CPU), CPU, manifest)
    assert set(run(**few)["search"].status) == {"ok"}


def test_a_damaged_common_module_is_one_message_and_deleted(modules, measuring):
    Path("modules").unlink()
    shutil.copytree(modules, "modules")
    manifest = Path("modules/cpu/common.json")
    damage(manifest.parent / Module.load(manifest).binary)
    with pytest.raises(ReproError, match=r"common module is damaged\n.*common\.json"):
        run()
    assert not manifest.exists()


@pytest.fixture
def invoke(measuring, templates, monkeypatch):
    """Run `repro measure` as the process that measures, here; return its exit code and all that it said."""
    monkeypatch.setattr("repro.bench.worker.end_with_parent", lambda: None)
    Path("config").symlink_to(templates.parent / "config")
    few = config(layouts=LAYOUTS[:1], space="paper")
    Path("c.yaml").write_text(yaml.safe_dump(few.model_dump(mode="json")))

    def run(*words: str):
        line = ["measure", STUDY, NAME, "single", "--config", "c.yaml", "--run", "1", *words]
        said = CliRunner().invoke(app.build(["measure"]), line)
        return said.exit_code, said.output

    return run


def refuse(*_):
    raise ReproError("no such module", where="here", todo="compile it")


def trip(*_):
    raise ZeroDivisionError("by 0")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("failure", "reason", "traced"),
    [(refuse, "no such module\n  where: here\n  what to do: compile it", False),
     (trip, "ZeroDivisionError: by 0", True)],
)  # fmt: skip
@pytest.mark.slow
def test_a_failure_can_be_recorded_in_every_file(invoke, monkeypatch, failure, reason, traced):
    monkeypatch.setattr(CompoundSpmv, "measure", failure)
    assert invoke()[0] == 1
    assert not Path(f"results/c/raw/{STUDY}/{NAME}").exists()
    code, said = invoke("--record-failures")
    assert code == 0, said
    assert f"error: {reason}" in said
    assert ("Traceback" in said) == traced
    for step in FILES[:3]:
        [row] = pd.read_parquet(f"results/c/raw/{STUDY}/{NAME}/single/{step}.parquet").to_dict("records")
        assert (row["problem"], row["status"], row["message"]) == (NAME, "unavailable", reason)
    assert pd.read_parquet(f"results/c/raw/{STUDY}/{NAME}/single/choices.parquet").empty


def test_a_module_that_the_study_does_not_name_is_not_to_be_compiled(invoke, monkeypatch):
    def measure(study, session):
        read_module(session.target, STUDY, "paper/complex-single/ELL-SoA-SoAs")
        yield "search", []

    monkeypatch.setattr(CompoundSpmv, "measure", measure)
    code, said = invoke()
    assert code == 1
    assert "expected: a key returned by its `modules`: paper/complex-single/" in said
    assert "actual: paper/complex-single/ELL-SoA-SoAs\n" in said
    assert "repro compile" not in said


def test_a_module_and_a_problem_that_are_missing_are_recorded(invoke):
    Path("modules").unlink()
    code, said = invoke("--record-failures")
    assert (code, "error: no such module" in said) == (0, True)
    Path(f"results/c/problems/{NAME}.npz").unlink()
    assert invoke("--record-failures")[0] == 0
    [row] = pd.read_parquet(f"results/c/raw/{STUDY}/{NAME}/single/report.parquet").to_dict("records")
    assert row["message"].startswith("the problem has not been built\n")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_full_disk_is_no_failure_of_the_problem(invoke, monkeypatch, number):
    def fail(*_):
        raise OSError(number, os.strerror(number), "rows.jsonl")

    monkeypatch.setattr(CompoundSpmv, "measure", fail)
    code, said = invoke("--record-failures")
    assert (code, "rows.jsonl" in said) == (1, True)
    assert not Path(f"results/c/raw/{STUDY}/{NAME}").exists()
