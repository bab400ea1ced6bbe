"""Chains of products whose launches overlap: what a thread may touch when, and what the study makes of it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from repro.bench.rows import Row
from repro.codegen import nvcc
from repro.codegen.build_cache import Module, compile_module
from repro.codegen.targets import CPU, Target, get_target
from repro.config.models import StudySettings
from repro.errors import IncorrectError
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline
from repro.results.registry import get_artifact
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.runnables import DependentVariant
from repro.sparse.compound.variants import VariantId
from repro.sparse.operands import make_operands
from repro.sparse.symmetry import HERMITIAN
from repro.studies.compound_spmv import DEPENDENT_LAUNCHES
from repro.studies.compound_spmv import study as study_module
from repro.studies.compound_spmv.study import STUDY as CONTRACT
from support.emulated_cuda import EmulatedCuda, compile_kernels, needs_compiler
from support.emulated_workspace import SM_90, EmulatedWorkspace, emulated
from support.symmetric_problems import symmetric_problem
from support.synthetic_campaign import PROBLEMS, STUDY, Maker

AWAIT, LET = "await_previous_launch();", "launch_dependents();"
#: Every kind of schedule, of loop over a row, and of thread that takes a row.
VARIANTS = (
    "CSR-AoS-AoS/static-64-2-rolled",
    "ELL-SoA-SoA/static-96-1",
    "Sl-4-AoSoA-AoS/direct-64-16-w8-u2",
    "ELLPACK-AoSoA-AoS/chunk-64-1-w4-u4-cs",
    "Sl-8-AoSoA-AoS/chunk-64-1-w2-p",
    "CSR-AoSoA-AoS/static-64-2-w32-u2-p",
    "Sl-4-AoSoA-AoS/direct-64-16-w2-u2-a",
    "CSR-AoSoA-AoS@clustered/direct-64-16-w4-u2",
)
#: These load vectors in functions of their own or copy them asynchronously.
PAIRS = ("Pairs-64-AoSoA-AoS/direct-64-4", "Pairs-64-AoSoA-AoS@clustered/direct-128-2-w2-u2-p",
         "Pairs-64-AoSoA-AoS/direct-64-4-u2-a")  # fmt: skip


def rendered(templates: Path, id: VariantId, target: Target = SM_90, entry: str = "block3", **keys: bool) -> str:
    return render_module(templates, entry, "double", id.layout, [id.schedule], target, "tests", **keys)


@pytest.mark.parametrize("text", [*VARIANTS, *PAIRS])
def test_a_chain_is_a_text_of_its_own_where_the_target_has_such_launches(templates, text):
    id = VariantId.parse(text)
    source = rendered(templates, id, dependent=True)
    assert re.search(rf"KERNEL\(.*\) spmv_\w+\([^)]*\)\n\{{\n    {re.escape(LET)}\n", source), "not first of all"
    assert source.count(AWAIT) >= (1 if id.layout.stores_pairs else 2)
    assert "RESTRICT x" not in source
    ordinary = rendered(templates, id)
    assert not {AWAIT, LET, "griddepcontrol"} & set(re.findall(r"\w+\(\);|griddepcontrol", ordinary))
    assert "RESTRICT x" in ordinary
    older = get_target("sm_89")
    assert rendered(templates, id, older, dependent=True) == rendered(templates, id, older)


def test_on_a_cpu_the_text_is_the_ordinary_one(templates):
    id = VariantId.parse("CSR-AoS-AoS/static-64-1")
    assert rendered(templates, id, CPU, dependent=True) == rendered(templates, id, CPU)


#: The opcodes that nvdisasm shows as PREEXIT and ACQBULK, for sm_90.
LAUNCH_DEPENDENTS_SASS, WAIT_SASS = ((code).to_bytes(8, "little") for code in (0x782D, 0x782E))


@pytest.mark.skipif(nvcc.find() is None, reason="nvcc is not installed")
@pytest.mark.medium
@pytest.mark.parametrize("text", [VARIANTS[2], PAIRS[1]])
def test_compiled_for_an_h200_it_lets_the_next_launch_start_and_then_waits(templates, tmp_path, text):
    id, cubins = VariantId.parse(text), []
    for dependent in (True, False):
        folder = tmp_path / str(dependent)
        module = compile_module(rendered(templates, id, dependent=dependent), SM_90, folder / "m.json")
        assert [kernel["spills"] for kernel in module.resources.values()] == [0]
        cubins.append((folder / str(module.binary)).read_bytes())
    chained, ordinary = cubins
    assert 0 < chained.find(LAUNCH_DEPENDENTS_SASS) < chained.find(WAIT_SASS)
    assert LAUNCH_DEPENDENTS_SASS not in ordinary
    assert WAIT_SASS not in ordinary


def observed(source: str) -> str:
    """Count, in the text of a chain, accesses to vectors by threads that have not awaited the previous launch yet."""
    for function, value in (("launch_dependents", "false"), ("await_previous_launch", "true")):
        begin = f"void {function}()\n{{"
        assert source.count(begin) == 1
        source = source.replace(begin, f"{begin} awaited[threadIdx.x] = {value};")
    access = r"(INLINE (?:vector_entry|void) (?:load(?:_some)?|store|copy)_vector_entry\([^)]*\)\n\{)"
    source, found = re.subn(access, r"\1 early += !awaited[threadIdx.x];", source)
    assert found >= 2
    return f'extern "C" {{ int early = 0; }}\nstatic bool awaited[1024];\n{source}'


@pytest.fixture
def early(
    templates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_problem: Callable[..., Matrix]
) -> Callable[..., int]:
    """Run a chain's kernel, whose result is right, and count early accesses; it may lack its waits."""

    def run(text: str, *, waits: bool = True) -> int:
        id = VariantId.parse(text)
        if id.layout.stores_pairs:
            problem, precision = symmetric_problem("complex", HERMITIAN, n=200), "single"
        else:
            problem, precision = small_problem("block3", n=400), "double"
        schedules = [id.schedule]
        source = render_module(
            templates, problem.entry, precision, id.layout, schedules, SM_90, "tests", dependent=True
        )
        source = observed(source if waits else source.replace(f" {AWAIT}", " ;"))
        monkeypatch.setattr("support.emulated_workspace.render_module", lambda *_: source)
        assert emulated(problem, precision, id, templates, tmp_path).max() <= 1  # and no NaN
        return ctypes.c_int.in_dll(compile_kernels(source, tmp_path).library, "early").value

    return run


@pytest.mark.sampled(4)
@needs_compiler
@pytest.mark.medium
@pytest.mark.parametrize("text", [*VARIANTS, *PAIRS])
def test_vectors_are_touched_after_the_previous_launch_alone(early, text):
    """By each thread, also of an empty row, in a row of a whole block, and in further rows."""
    assert early(text) == 0


@needs_compiler
@pytest.mark.medium
@pytest.mark.parametrize("text", [VARIANTS[2], PAIRS[1]])
def test_without_a_wait_they_are_touched_early(early, text):
    assert early(text, waits=False) > 0


def dependent(folder: Path, id: VariantId) -> DependentVariant:
    return DependentVariant(id, Module("ok", "", "g++", (), "none"), folder, "extended")


@needs_compiler
@pytest.mark.medium
@pytest.mark.parametrize("text", [VARIANTS[0], VARIANTS[2]])
def test_a_chain_is_compared_with_that_of_ordinary_launches(templates, tmp_path, monkeypatch, small_problem, text):
    id, problem = VariantId.parse(text), small_problem("block3", n=200)
    workspace = EmulatedWorkspace(
        make_operands(problem, "double", 1), rendered(templates, id, dependent=True), tmp_path
    )
    dependent(tmp_path, id).prepare(workspace)
    ordinary, launched = EmulatedCuda.bind_dependent, count()

    def bind(*given: Any) -> Callable[[], None]:
        run = ordinary(*given)
        return lambda: None if next(launched) % 3 == 1 else run()  # z stays what it was

    monkeypatch.setattr(EmulatedCuda, "bind_dependent", bind)
    with pytest.raises(IncorrectError, match=r"in a chain of dependent launches \d+ of \d+ words differ"):
        dependent(tmp_path, id).prepare(workspace)


# the study -----------------------------------------------------------------------------------------------------------


def row(name: str, seconds: float) -> Row:
    return Row("k", STUDY, "p", "double", "variant", name, "ok", graph_median=seconds)


def test_the_fastest_variants_with_a_chain_are_compiled_for_one(monkeypatch, templates, small_problem):
    texts = ["CSR-AoS-AoS/dynamic-64-1", *VARIANTS[:3]]
    variants = [study_module.Variant(VariantId.parse(text), Module("ok", "", "g++", ()), Path()) for text in texts]
    rows = [row(text, seconds) for text, seconds in zip(texts, (1.0, 4.0, 2.0, 3.0), strict=True)]
    compiled: list[Any] = []
    session = SimpleNamespace(
        target=SM_90, problem=small_problem("block3"), precision="double", templates=templates,
        compile=compiled.extend,
    )  # fmt: skip
    monkeypatch.setattr(study_module, "_matrix", lambda session: session.problem)
    made = study_module.dependent_variants(variants, rows, session)
    assert [variant.name for variant in made] == [f"dependent/{VARIANTS[1]}", f"dependent/{VARIANTS[2]}"]
    assert [variant.columns["product"] for variant in compiled] == [VARIANTS[1], VARIANTS[2]]
    assert all(variant.on_demand for variant in made)


def settings_of(**keys: Any) -> StudySettings:
    given = {"problems": ("p",), "space": ("extended",), "layouts": ("Sl-8-AoSoA-AoS",), "precisions": ("double",)}
    return StudySettings(**{**given, **keys})


def test_the_work_of_chains_is_planned_where_a_device_has_such_launches():
    with_it, without = settings_of(), settings_of(parts=())
    problem = Outline("p", entry="real", size=(100, 500))

    def routines(settings: Any, target: Target) -> int:
        return CONTRACT.workload(settings, problem, "double", target).routines

    assert routines(settings_of(parts=(DEPENDENT_LAUNCHES,)), SM_90) == routines(without, SM_90) + 2
    assert routines(settings_of(parts=(DEPENDENT_LAUNCHES,)), CPU) == routines(without, CPU)
    assert DEPENDENT_LAUNCHES in CONTRACT.parts_of(with_it, "double")


#: Microseconds of ours and of the library's fastest routine in the campaign below are 16 and 20 or more.
CHAINED = {"surfaces/bunny": 10.0, "generated/hubs": 8.0}


class ChainMaker(Maker):
    """Adds two variants by dependent launches to each case of two problems; in single precision one is wrong."""

    def search(self, given, precision):
        return []

    def report(self, given, precision):
        rows = super().report(given, precision)
        for name, slower in (("Sl-4-AoSoA-AoS/direct-64-16-w8", 1.0), ("CSR-AoS-AoS/static-64-2", 2.0)):
            if given.name in CHAINED:
                wrong = precision == "single" and given.name == "generated/hubs"
                micro = None if wrong else CHAINED[given.name] * slower / 0.8
                failed = {"status": "incorrect", "message": "3 of 9 words differ"} if wrong else {}
                own = {**VariantId.parse(name).columns, "product": name, "phase": "report", **failed}
                rows.append(self.timed(given, precision, "dependent", f"dependent/{name}", micro, **own))
        return rows


@pytest.fixture(scope="module")
def chained(tmp_path_factory):
    problems = [given for given in PROBLEMS if given.name in CHAINED or given.name == "mhd1280b"]
    return ChainMaker(tmp_path_factory.mktemp("chained"), "cuda", extended=True).all(tuple(problems))


def lines_of(campaign: Any, published: Any, name: str, *keys: str) -> dict[Any, dict[str, Any]]:
    made = get_artifact(STUDY, name).make(campaign, published)
    names = [column.key for column in made.columns]
    lines = [dict(zip(names, cells, strict=True)) for cells in made.rows]
    return {tuple(line[key].value for key in keys): line for line in lines}


def test_the_table_has_both_numbers_and_says_that_the_librarys_launches_have_none(chained, published):
    lines = lines_of(chained, published, "table-problems", "problem", "precision")
    bunny = lines["surfaces/bunny", "double"]
    assert bunny["dependent"].value == "Sl-4-AoSoA-AoS/direct-64-16-w8"
    assert bunny["dependent_us"].value == pytest.approx(10)
    for key, base in (("dependent_speedup", "baseline_us"), ("dependent_speedup_over_ours", "ours_us")):
        assert bunny[key].value == pytest.approx(bunny[base].value / 10)
    wrong = lines["generated/hubs", "single"]["dependent"]
    assert wrong.value is None
    assert "3 of 9 words differ" in wrong.notes[0]
    assert lines["mhd1280b", "double"]["dependent_us"].value is None
    made = get_artifact(STUDY, "table-problems").make(chained, published)
    assert "all other columns use ordinary launches" in made.caption


def test_targets_of_chains_are_of_dependent_launches(chained, published):
    lines = lines_of(chained, published, "table-targets", "target")
    found = [line for (target,), line in lines.items() if "dependent launches" in target]
    assert [line["wanted"].value for line in found] == [1.2, 2.6, 0.55, 0.75]
    by_case = lines_of(chained, published, "table-problems", "problem", "precision").values()
    speedups = [line["dependent_speedup"].value for line in by_case if line["dependent_speedup"].value]
    assert found[0]["ours"].value == pytest.approx(min(speedups))


def test_a_campaign_without_them_shows_nothing_of_it(tmp_path, published):
    before = Maker(tmp_path, "cuda", extended=True).all(PROBLEMS[:1])
    for name in ("table-problems", "table-targets"):
        made = get_artifact(STUDY, name).make(before, published)
        assert "ependent launches" not in made.caption
        assert not [column.key for column in made.columns if column.key.startswith("dependent")]
