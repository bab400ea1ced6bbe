"""y = A x by rivals on the CPU: what is right is timed, and what goes wrong is a row that says so."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from repro.bench.store import Store
from repro.bench.timing import SamplingPlan
from repro.bench.trial import Bench
from repro.codegen import nvcc
from repro.codegen.targets import get_target
from repro.config.models import Rival
from repro.entries import entries
from repro.errors import ModuleError, ReproError
from repro.problems.matrix import Matrix
from repro.sparse.rivals.files import include_folder, rival_files, rival_identity
from repro.sparse.rivals.forms import CBatch, CMatrix, CProblem, LibraryRival, check_compiled, compile_source
from repro.sparse.rivals.runnables import RivalProduct
from repro.tuning.final_timing import shuffled_rounds
from support.pages import blocks
from support.spoilt_forms import HERE, PYTHON, of_python

pytestmark = pytest.mark.medium

EFFORT = SamplingPlan(5, 2, 5)
EXAMPLES = HERE.parents[1] / "examples/rivals"
PAGE = HERE.parents[1] / "docs/bring-your-own-kernel.md"


def lie_as_in_a_fresh_clone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder the current one, with the example's files where they are in a clone that has built nothing."""
    monkeypatch.chdir(folder)
    Path("include").symlink_to(include_folder())
    Path("examples").symlink_to(EXAMPLES.parent)


@pytest.fixture
def tried(make_bench: Callable[..., Bench], small_problem: Callable[..., Matrix]) -> Callable[..., object]:
    """Try a rival on a small matrix, and return its row."""

    def attempt(rival: Rival, entry: str = "quaternion", precision: str = "double") -> object:
        return make_bench(small_problem(entry), precision).try_once(RivalProduct(rival, entry), "report", EFFORT)

    return attempt


@pytest.mark.sampled(4)
@pytest.mark.parametrize("entry", sorted(entries()))
@pytest.mark.parametrize(("precision", "keys"), [("single", {}), ("double", {"format": "bsr", "offsets": 64})])
def test_what_is_right_is_verified_and_timed(tried, library, entry, precision, keys) -> None:
    for rival in (of_python("Right", **keys), Rival(name="c", library=str(library("RIGHT")), **keys)):
        row = tried(rival, entry, precision)
        assert (row.status, row.message, row.kind) == ("ok", None, "outside")
        assert row.error <= 1
        assert row.event_median > 0
        assert row.graph_median > 0
        assert 0 < row.preprocess < 60
        assert (row["format"], row["ordering"]) == (rival.format, "natural")
        assert row["routine"] == {"right": "right (right 3)", "c": "c (spoilt 2.1)"}[rival.name]
    numbers = np.dtype(precision).itemsize, rival.offsets // 8
    k = {"pattern": 1, "real": 1, "complex": 2, "quaternion": 4, "block3": 3}[entry]
    blocks, size = (row["matrix_bytes"] - numbers[1] * (75 * (1 if keys else k) + 1)), numbers[0] * k * k
    assert blocks % (size + (4 if keys else 4 * k * k)) == 0


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("Wrong", "incorrect", " of its bound: y[3] is "),
        ("Adding", "incorrect", "300 of 300 numbers are wrong; some are NaN"),
        ("Prepared", "incorrect", "300 of 300 numbers are wrong; some are NaN"),
        ("Once", "incorrect", "right at first, wrong after timed launches before which x was changed and its result "),
        (
            "Tiring",
            "incorrect",
            "right at first, wrong after timed launches before which x was changed and its result ",
        ),
        ("WhileNan", "incorrect", "right at first, wrong after timed launches before which x was changed and its "),
        ("WhileOther", "incorrect", "right at first, wrong after timed launches before which x was changed and its "),
        ("Outside", "incorrect", "writes outside of its result: 12 bytes past the end"),
        ("Inputs", "incorrect", "writes to x, which it may only read"),
        ("Raising", "launch_error", "run raised ValueError: no such thing"),
        ("Stuck", "launch_error", "run raised ValueError: no such thing"),
        ("Leaving", "launch_error", "setup raised SystemExit: 2"),
        ("Deep", "launch_error", "Singular matrix (spoilt_rivals.py:{line})"),
        ("Misspelling", "compile_error", "No module named 'scipy.sparze', though there is scipy: is it misspelt"),
        ("Lacking", "unsupported", "No module named 'cupyy': is it installed, or misspelt?"),
        ("Unable", "unsupported", "not of blocks"),
        ("Halfway", "compile_error", "has no method run, teardown"),
        ("Absent", "compile_error", "has no Absent"),
    ],
)
def test_what_goes_wrong_in_python_is_a_row_that_says_so(tried, name, status, message) -> None:
    row = tried(of_python(name))
    assert row.status == status
    [line] = [number for number, text in enumerate(PYTHON.read_text().splitlines(), 1) if "np.linalg.inv" in text]
    assert message.format(line=line) in re.sub(r"\d+ timed", "N timed", row.message)
    assert row.event_median is None


@pytest.mark.parametrize(
    ("spoilt", "status", "message"),
    [
        ("WRONG", "incorrect", "1 of 300 numbers are wrong"),
        ("IDLE", "incorrect", "300 of 300 numbers are wrong"),
        ("OUTSIDE", "incorrect", "writes outside of its result: 8 bytes past the end"),
        ("INPUTS", "incorrect", "writes to x, which it may only read"),
        ("FAILING", "launch_error", "run returned 7: it was told to"),
        ("UNSUPPORTED", "unsupported", "it was told to"),
    ],
)
def test_what_goes_wrong_in_a_library_is_a_row_that_says_so(tried, library, spoilt, status, message) -> None:
    row = tried(Rival(name="c", library=str(library(spoilt))))
    assert row.status == status
    assert message in row.message


def test_a_library_without_a_function_and_a_file_that_is_none(tried, tmp_path: Path) -> None:
    empty = tmp_path / "libempty.so"
    subprocess.run(["gcc", "-shared", "-o", empty, "-xc", "/dev/null"], check=True)
    row = tried(Rival(name="empty", library=str(empty)))
    assert row.status == "compile_error"
    assert "has no function repro_rival_setup, repro_rival_run, repro_rival_teardown" in row.message
    (tmp_path / "text.so").write_text("no library")
    row = tried(Rival(name="text", library=str(tmp_path / "text.so")))
    assert row.status == "compile_error"
    assert "cannot be loaded" in row.message


def test_a_source_is_for_a_gpu_and_is_compiled_where_there_is_nvcc_alone(tried, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    warp = Rival(name="warp", source=str(EXAMPLES / "warp_per_row.cu"), kernel="warp_per_row", threads_per_row=32)
    said = "a source is CUDA C++, which needs a GPU"
    if nvcc.find() is not None:
        row = tried(warp)
        assert (row.status, row.message) == ("unsupported", f"{said}; it compiles for sm_90")
        Path("typo.cu").write_text("int x = ;\n")
        row = tried(Rival(name="typo", source="typo.cu"))
        assert row.status == "compile_error"
        assert re.match(r"typo.cu does not compile: .*typo.cu.1.: error", row.message)
    monkeypatch.setattr(nvcc, "find", lambda: None)
    row = tried(warp)
    assert (row.status, row.message) == ("unsupported", said)


def test_scipys_example_is_right(tried) -> None:
    row = tried(Rival(name="scipy", python=f"{EXAMPLES / 'products.py'}:SciPyCsr"))
    assert (row.status, row.message) == ("ok", None)
    assert row["routine"].startswith("scipy (SciPy ")


@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_example_in_c_is_compiled_by_its_own_line_and_right(tried, precision, tmp_path, monkeypatch) -> None:
    lie_as_in_a_fresh_clone(tmp_path, monkeypatch)
    line = re.search(r"mkdir .* && (gcc .*)", Path("examples/rivals/rows.c").read_text())
    assert line[1] in PAGE.read_text().splitlines()
    subprocess.run(["bash", "-euc", line[0]], check=True)
    built = Path("build/librows.so")
    row = tried(Rival(name="rows", library=str(built)), precision=precision)
    assert (row.status, row.message) == ("ok", None)
    assert row.event_median > 0
    refused = tried(Rival(name="rows", library=str(built), format="bsr"), precision=precision)
    assert refused.status == "unsupported"


@pytest.mark.skipif(nvcc.find() is None, reason="there is no nvcc")
def test_the_example_in_cuda_is_compiled_by_the_pages_line_and_refuses_other_types(tmp_path, monkeypatch) -> None:
    lie_as_in_a_fresh_clone(tmp_path, monkeypatch)
    [lines] = [block.text for block in blocks(PAGE) if "nvcc" in block.text]
    subprocess.run(["bash", "-euc", lines], check=True)
    library = LibraryRival(Path("build/libvector.so"), "spmv")
    assert library.label == "vector 1.0"
    for number_bytes, offset_bytes, device, reason in (
        (8, 4, 0, None),
        (4, 4, 0, "it is compiled for the other precision"),
        (8, 8, 0, "it is compiled for offsets of other bits"),
        (8, 4, -1, "it needs a GPU"),
    ):
        a = CMatrix(rows=1, columns=1, entries=1, block=1, offset_bytes=offset_bytes)
        problem, state = CProblem(number_bytes=number_bytes, device=device, a=a), ctypes.c_void_p()
        status = library._library.repro_rival_setup(ctypes.byref(problem), ctypes.byref(state))
        assert (status, library._text("error") if status else None) == (int(reason is not None), reason)


@pytest.mark.skipif(nvcc.find() is None, reason="there is no nvcc")
def test_the_pages_kernel_of_blocks_compiles(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    [text] = [block.text for block in blocks(PAGE) if block.language == "cuda"]
    Path("blocks.cu").write_text(text)
    rival = Rival(name="blocks", source="blocks.cu", kernel="block_rows", format="bsr")
    check_compiled(rival, get_target("sm_90"), "single", 3)


@pytest.mark.slow
def test_the_pages_trial_for_debuggers_runs(tmp_path, monkeypatch) -> None:
    lie_as_in_a_fresh_clone(tmp_path, monkeypatch)
    line = re.search(r"mkdir .* && (gcc .*)", Path("examples/rivals/rows.c").read_text())
    subprocess.run(["bash", "-euc", line[0]], check=True)
    [text] = [block.text for block in blocks(PAGE) if block.path == "one_trial.py"]
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    assert "status='ok'" in done.stdout


def test_pytorchs_example_is_right(tried) -> None:
    pytest.importorskip("torch")
    row = tried(Rival(name="torch", python=f"{EXAMPLES / 'products.py'}:TorchCsr"))
    assert (row.status, row.message) == ("ok", None)


@pytest.mark.parametrize(("name", "package"), [("TorchCsr", "torch"), ("MklCsr", "sparse_dot_mkl")])
def test_an_example_says_which_package_is_not_there(tried, monkeypatch, name, package) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    row = tried(Rival(name="other", python=f"{EXAMPLES / 'products.py'}:{name}"))
    assert row.status == "unsupported"
    assert package in row.message


def test_in_rounds_rivals_stand_beside_each_other_and_one_that_fails_costs_its_row(
    make_bench, small_problem, tmp_path, library
) -> None:
    bench = make_bench(small_problem("block3"))
    rivals = [
        *map(of_python, ("Right", "Wrong", "Tiring")),
        Rival(name="c", library=str(library("RIGHT")), format="bsr"),
    ]
    with Store(tmp_path / "rows.jsonl") as store:
        rows = shuffled_rounds(bench, [RivalProduct(rival, "block3") for rival in rivals], store, 1)
    warm = {row.name: row.status for row in rows if row.cache == "warm"}
    assert warm == dict.fromkeys(("rival/right", "rival/c"), "ok") | dict.fromkeys(
        ("rival/wrong", "rival/tiring"), "incorrect"
    )
    assert {row.name for row in rows if row.cache == "cold"} == {"rival/right", "rival/c"}


def test_the_structures_are_those_of_the_header(tmp_path: Path) -> None:
    places = {
        **{f"matrix {name}": (CMatrix, name) for name, *_ in CMatrix._fields_},
        **{f"problem {name}": (CProblem, name) for name, *_ in CProblem._fields_},
        **{f"batch {name}": (CBatch, name) for name, *_ in CBatch._fields_},
    }
    lines = [
        f'printf("%zu %zu\\n", offsetof(repro_rival_{of.split()[0]}, {name}), '
        f"sizeof(((repro_rival_{of.split()[0]} *)0)->{name}));"
        for of, (_, name) in places.items()
    ]
    source = tmp_path / "places.c"
    source.write_text(
        '#include "repro_rival.h"\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n'
        + "\n".join(lines)
        + '\nprintf("%zu\\n", sizeof(repro_rival_problem));\nreturn 0;\n}\n'
    )
    words = ["gcc", "-std=c99", "-Wall", "-Werror", "-pedantic", f"-I{include_folder()}", "-o", tmp_path / "places"]
    subprocess.run([*words, source], check=True)
    said = subprocess.run([tmp_path / "places"], check=True, capture_output=True, text=True).stdout.splitlines()
    there = [getattr(structure, name) for structure, name in places.values()]
    assert said == [*(f"{field.offset} {field.size}" for field in there), str(ctypes.sizeof(CProblem))]


def test_a_change_of_what_a_rival_is_made_of_changes_its_identity(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.cu").write_text('#include "part.h"\n#include <cstdio>\n')
    Path("part.h").write_text("int one = 1;\n")
    Path("mine.py").write_text("import numpy\nclass A: ...\n")
    Path("pack").mkdir()
    Path("pack/__init__.py").write_text("")
    Path("pack/inner.py").write_text("")
    source, python = Rival(name="s", source="mine.cu"), Rival(name="p", python="mine:A")
    package = Rival(name="q", python="pack.inner:A")
    assert [path.name for path in rival_files(source)] == ["mine.cu", "part.h", "repro_rival.h"]
    assert [path.name for path in rival_files(python)] == ["mine.py"]
    assert [path.name for path in rival_files(package)] == ["__init__.py", "inner.py"]
    before = [rival_identity(rival) for rival in (source, python, package)]
    Path("part.h").write_text("int one = 2;\n")
    Path("mine.py").write_text("import scipy\nclass A: ...\n")
    Path("pack/inner.py").write_text("A = 1\n")
    assert all(one != other for one, other in zip(before, map(rival_identity, (source, python, package)), strict=True))
    assert rival_identity(source) != rival_identity(source.model_copy(update={"offsets": 64}))


@pytest.mark.parametrize(
    "keys", [{"source": "no.cu"}, {"library": "libno.so"}, {"python": "no.py:A"}, {"python": "no_such:A"}]
)
def test_what_is_not_there_is_one_message(keys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("libleak.so").touch()  # which resembles none of them
    with pytest.raises(ReproError, match=r"no such (file|module) of the rival") as error:
        rival_files(Rival(name="mine", **keys))
    assert error.value.where == f"rivals: mine: {next(iter(keys))}"
    assert "did you mean" not in str(error.value)


def test_a_file_that_is_not_there_is_told_by_its_path_with_the_nearest(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("build").mkdir()
    Path("build/libmine.so").touch()
    with pytest.raises(ReproError, match=r"actual: build/libmina.so; did you mean build/libmine.so\?"):
        rival_files(Rival(name="mine", library="build/libmina.so"))


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"source": "a.cu", "library": "b.so"},
        {"python": "a"},
        {"python": "a:b", "kernel": "k"},
        {"source": "a.cu", "kernel": "k", "of": "solve"},
    ],
)
def test_a_rival_has_one_form(keys) -> None:
    with pytest.raises(ValueError, match=r"rival|kernel|python"):
        Rival(name="mine", **keys)


@pytest.mark.exhaustive
@pytest.mark.skipif(nvcc.find() is None, reason="there is no nvcc")
def test_the_examples_in_cuda_compile_once_for_each_case(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = Rival(name="warp", source=str(EXAMPLES / "warp_per_row.cu"), kernel="warp_per_row", threads_per_row=32)
    library = Rival(name="vector", source=str(EXAMPLES / "warp_library.cu"))
    target = get_target("sm_90")
    binaries = {
        compile_source(rival, target, precision, 1) for rival in (kernel, library) for precision in ("single", "double")
    }
    assert sorted(path.suffix for path in binaries) == [".cubin", ".cubin", ".so", ".so"]
    stamp = {path: path.stat().st_mtime_ns for path in binaries}
    assert compile_source(kernel, target, "single", 1) in stamp
    assert {path: path.stat().st_mtime_ns for path in binaries} == stamp
    assert LibraryRival(next(path for path in binaries if path.suffix == ".so").resolve(), "spmv").label == "vector 1.0"
    (tmp_path / "broken.cu").write_text("int x = ;\n")
    with pytest.raises(ModuleError, match=r"broken.cu does not compile: .*error"):
        compile_source(Rival(name="broken", source="broken.cu"), target, "single", 1)


def test_a_file_imports_what_lies_beside_it_from_any_folder(tried, tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "rivals"
    folder.mkdir()
    (folder / "spoilt_beside.py").write_text(PYTHON.read_text())
    (folder / "mine.py").write_text("from spoilt_beside import Right\n")
    monkeypatch.chdir(tmp_path)
    assert tried(Rival(name="mine", python="rivals/mine.py:Right")).status == "ok"
