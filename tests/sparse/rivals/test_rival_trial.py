"""Trials of rivals on small matrices, in processes of their own: what is wrong is found and named."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from repro.cli import app
from repro.codegen import nvcc
from repro.config.models import Rival
from repro.devices.device_group import Devices
from repro.errors import IncorrectError
from repro.sparse.rivals import trial
from repro.sparse.rivals.trial import Trial, try_apart, try_rival
from support.spoilt_forms import PYTHON, of_python

pytestmark = pytest.mark.medium

ONE = Trial("block3", "double")
EXAMPLES = Path(__file__).parents[3] / "examples/rivals"


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("Right", "ok", ""),
        ("Wrong", "incorrect", r"1 of 225 numbers are wrong, the worst: y\[3\] is \S+ and not \S+"),
        ("Outside", "incorrect", "writes outside of its result: 12 bytes past the end"),
        ("Inputs", "incorrect", "writes to x, which it may only read"),
        ("Leaking", "leak", r"1,0\d\d,\d\d\d bytes of host memory stay each time it is set up and torn down"),
        ("Adding", "incorrect", "numbers are wrong"),
        ("Unable", "unsupported", "not of blocks"),
    ],
)
def test_what_is_wrong_is_said(cpu_device, name, status, message) -> None:
    outcome = try_rival(of_python(name), ONE, Devices([cpu_device]))
    assert outcome.status == status, outcome
    assert re.search(message, outcome.message)


@pytest.mark.parametrize(
    ("shape", "worst", "named"), [((6,), 1e3, r"y\[4\] is 1001 and not 1"), ((2, 3), np.nan, r"y\[1, 1\] is nan")]
)
def test_the_worst_of_several_wrong_numbers_is_named(shape, worst, named) -> None:
    exact = np.ones(shape)
    given = exact.copy()
    given.flat[[0, 4]] += 1e-3, worst
    with pytest.raises(IncorrectError, match=f"2 of 6 numbers are wrong, the worst: {named}"):
        trial._compare(given, exact, np.full(shape, 1e-6), "y")
    zero = np.zeros(shape)
    assert trial._compare(zero, zero, zero, "y") == 0


def test_a_library_that_keeps_memory_leaks(cpu_device, library) -> None:
    outcome = try_rival(Rival(name="c", library=str(library("LEAKING"))), ONE, Devices([cpu_device]))
    assert outcome.status == "leak"
    outcome = try_rival(Rival(name="c", library=str(library("RIGHT"))), ONE, Devices([cpu_device]))
    assert (outcome.status, outcome.label) == ("ok", "c (spoilt 2.1)")


def test_what_crashes_exits_or_hangs_costs_its_own_trial(library, monkeypatch, capfd) -> None:
    trials = [Trial("real", "single"), Trial("real", "double")]
    monkeypatch.setattr(trial, "trials_of", lambda rival: trials)
    for spoilt, message in (
        ("CRASHING", "the process was ended by SIGSEGV (Segmentation fault)"),
        ("EXITING", "the process was ended by exit(3)"),
    ):
        outcomes = try_apart(Rival(name="c", library=str(library(spoilt))), "opencl:0")
        assert [outcome.message for outcome in outcomes] == [message, message]
    assert "bug report" not in "".join(capfd.readouterr())
    begun: list[Trial] = []
    outcomes = try_apart(Rival(name="c", library=str(library("HANGING"))), "opencl:0", 2, begun.append)
    assert [(outcome.status, outcome.message) for outcome in outcomes] == [
        ("timeout", "it did not end within 2 s"),
        ("not_tried", "the one before it did not end"),
    ]
    assert begun == trials


@pytest.mark.exhaustive
@pytest.mark.skipif(nvcc.find() is None, reason="there is no nvcc")
def test_without_a_gpu_a_source_is_compiled_and_its_kernel_looked_for(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = (EXAMPLES / "warp_per_row.cu").read_text()
    Path("warp.cu").write_text(source)
    Path("swapped.cu").write_text(re.sub(r"(const int \*.*?),\s+(const repro_rival_real \*.*?),", r"\2, \1,", source))
    Path("typo.cu").write_text(source.replace("repro_rival_real", "repro_rival_reel"))

    def check(*words: str):
        return CliRunner().invoke(app.build(["rival"]), ["rival", "check", *words, "--device", "opencl"])

    done = check("warp.cu", "--kernel", "warp_per_row")
    assert (done.exit_code, done.output.count("compiles for sm_90; not run: no GPU")) == (0, 2), done.output
    for words, said in (
        (["typo.cu", "--kernel", "warp_per_row"], r'"?repro_rival_reel"? is undefined'),
        (["swapped.cu", "--kernel", "warp_per_row"], "parameter 3, indices, has to be const int"),
        (["warp.cu", "--kernel", "warp"], r"no kernel warp, .*it has warp_per_row"),
        (["warp.cu"], r"no function repro_rival_setup.*name a kernel of it by `kernel`: warp_per_row"),
    ):
        done = check(*words)
        assert done.exit_code == 1
        assert re.search(said, done.output), done.output


@pytest.mark.exhaustive
def test_so_do_updates(library, monkeypatch) -> None:
    monkeypatch.setattr(trial, "trials_of", lambda rival: [Trial("real", "double")])
    for spoilt, status, message in (
        ("CRASHING", "launch_error", "the process was ended by SIGSEGV (Segmentation fault)"),
        ("HANGING", "timeout", "it did not end within 8 s"),
    ):
        rival = Rival(name="c", library=str(library(spoilt, "growing")), of="updates")
        [outcome] = try_apart(rival, "opencl:0", seconds=8)
        assert (outcome.status, outcome.message) == (status, message)


@pytest.mark.exhaustive
def test_the_command_tries_a_file_and_all_rivals_of_a_configuration(tmp_path) -> None:
    def check(*words: str):
        return CliRunner().invoke(app.build(["rival"]), ["rival", "check", *words])

    done = check(f"{EXAMPLES / 'products.py'}:SciPyCsr", "--device", "opencl")
    assert done.exit_code == 0, done.output
    assert done.output.count("right, ") == 8
    written = tmp_path / "mine.yaml"
    written.write_text(
        f"device: opencl\nstudies: {{compound_spmv: {{}}}}\nrivals:\n- {{name: one, python: '{PYTHON}:Right'}}\n"
        f"- {{name: two, python: '{PYTHON}:Wrong'}}\n"
    )
    done = check(str(written))
    assert done.exit_code == 1
    assert done.output.count("right, ") == 8
    assert "two: incorrect in 8 of 8 trials" in done.output
    done = check(f"{PYTHON}:Raising", "--device", "opencl")
    [line] = [number for number, text in enumerate(PYTHON.read_text().splitlines(), 1) if "class Raising" in text]
    said = (
        f"launch error: run raised ValueError: no such thing (spoilt_rivals.py:{line + 2})\n"
        f'      File "{PYTHON}", line {line + 2}, in run\n        raise ValueError("no such thing")\n'
        "    ValueError: no such thing\n  and 7 more alike"
    )
    assert done.output.count(said) == 1, done.output
    done = check("no.so")
    assert done.exit_code == 1
    assert "no such file of the rival" in done.output
    for file, todo in (("csr.c", "as a shared library"), ("mine.py", "mine.py:NAME"), ("csr", "bring-your-own-kernel")):
        done = check(file)
        assert (done.exit_code, todo in done.output) == (1, True), done.output


def test_a_teardown_that_fails_is_a_warning_below_the_trials_and_follows_no_refusal() -> None:
    words = ["rival", "check", f"{PYTHON}:Refusing", "--device", "opencl"]
    done = CliRunner().invoke(app.build(["rival"]), words)
    assert done.exit_code == 0, done.output
    lines = [re.sub(r"right, .*", "right", line) for line in done.output.splitlines()[1:]]
    [line] = [number for number, text in enumerate(PYTHON.read_text().splitlines(), 1) if "]} rows" in text]
    assert lines == [
        "  real, single         right",
        "  real, double         right",
        "  complex, single      unsupported: not of blocks",
        "  and 5 more alike",
        f"  warning: rival/Refusing: teardown raised RuntimeError: 75 rows (spoilt_rivals.py:{line}); in 2 of 8 trials",
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("names", "code"), [(["Unable"], 1), (["Right", "Unable"], 0), (["Wrong", "Unable"], 1)])
def test_a_rival_that_cannot_be_tried_is_a_remark_beside_another_that_can(names, code, tmp_path) -> None:
    written = tmp_path / "mine.yaml"
    rivals = "\n".join(f"- {{name: {name.lower()}, python: '{PYTHON}:{name}'}}" for name in names)
    written.write_text(f"device: opencl\nstudies: {{compound_spmv: {{}}}}\nrivals:\n{rivals}\n")
    done = CliRunner().invoke(app.build(["rival"]), ["rival", str(written)])
    assert done.exit_code == code, done.output
    assert ("Cannot be tried here" in done.output) == (len(names) > 1)
    assert "unable: unsupported in 8 of 8 trials" in done.output
