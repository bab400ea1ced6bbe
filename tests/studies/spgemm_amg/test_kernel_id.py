"""The identity of a kernel for a bin's rows, what is chosen of them, and what the study says of its modules."""

from __future__ import annotations

from functools import partial

import pytest

from repro.bench.rows import Row
from repro.codegen.targets import CPU, get_target
from repro.config.models import StudySettings
from repro.errors import ReproError
from repro.problems.problem import Outline
from repro.sparse.device_primitives import read_modules
from repro.sparse.spgemm.binned_rows import shapes_by_products, shapes_for_any_row
from repro.sparse.spgemm.kernels import BINS, LIMITS, HashShape, SortShape, hash_shapes, sort_shapes
from repro.studies import get_study
from repro.studies.spgemm_amg import PRODUCTS, STUDY_NAME
from repro.studies.spgemm_amg.ids import MAX_SLOTS, MIN_DENSE, AmgRow, KernelId, shapes_for
from repro.studies.spgemm_amg.kernels import modules_for, render_key
from repro.studies.spgemm_amg.runnables_products import (
    HEADLINE,
    MODES,
    ROUTINES,
    BinKernel,
    ChosenKernels,
    choose_kernels,
    chosen_kernels,
)
from repro.tuning.search import Choice

TARGETS = pytest.mark.parametrize("target", [get_target("sm_90"), CPU], ids=lambda target: target.name)


def from_columns(columns):
    """Make an identity of nothing but the columns of its row."""
    sizes = columns["width"], columns["slots"], columns["rows_of_block"]
    shapes = {"dense": lambda *_: None, "hash": HashShape, "sort": SortShape}
    return KernelId(columns["product"], columns["mode"], columns["bin"], shapes[columns["method"]](*sizes))


@TARGETS
@pytest.mark.parametrize("scalar_bytes", [4, 8])
def test_text_and_columns_say_every_parameter(target, scalar_bytes):
    shapes = [None, *hash_shapes(target, scalar_bytes), *sort_shapes(target, scalar_bytes)]
    ids = [
        KernelId(product, mode, bin, shape)
        for product in PRODUCTS
        for mode in MODES
        for bin in (0, BINS - 1)
        for shape in shapes
    ]
    assert len({str(id) for id in ids}) == len(ids)
    for id in ids:
        assert KernelId.parse(str(id)) == id
        assert from_columns(id.columns) == id
        assert set(id.columns) < set(AmgRow.own_columns())
        assert id.space == ("paper" if id.method == "sort" else "extended")
        point = id.point
        assert point.group == f"{id.product}-{id.mode}-{id.bin}"
        assert len(point.numbers) == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AP",
        "AP/one/b1",
        "AP/one/b1/hash",
        "AP/one/b1/sort-w32-s64",
        "AP/one/b1/dense-w1-s1-r1",
        "AP/one/b11/dense",
        "AP/one/1/dense",
        "AP/two/b1/dense",
        "AP/symbolic/b1/hash-w4-s64-r64",
        "PA/one/b1/dense",
        "AP/one/b1/hash-w4-s64-r64x",
        "AP/one/b1/heap-w4-s64-r64",
        " AP/one/b1/dense",
    ],
)
def test_what_is_no_kernel_is_one_message(text):
    with pytest.raises(ReproError, match="unknown kernel of a bin") as refused:
        KernelId.parse(text)
    assert (refused.value.expected, refused.value.actual) == ("such as AP/one/b1/hash-w4-s64-r64", text)


@TARGETS
@pytest.mark.parametrize("scalar_bytes", [4, 8])
@pytest.mark.parametrize("mode", MODES)
def test_shapes_that_a_bin_is_tried_in_fit_its_rows(target, scalar_bytes, mode):
    for bin, limit in enumerate([*LIMITS, None]):
        lower = LIMITS[bin - 1] if bin else 0
        for longest in sorted({1, lower + 1, limit or 3 * LIMITS[-1]}):
            shapes = shapes_for(target, scalar_bytes, mode, limit, longest)
            assert shapes and len(set(shapes)) == len(shapes)
            tables = [shape.table for shape in shapes if isinstance(shape, HashShape)]
            assert all(longest <= table <= MAX_SLOTS * min(tables) for table in tables)
            sorts = [shape for shape in shapes if isinstance(shape, SortShape)]
            assert all(shape.max_products == limit for shape in sorts)
            assert not sorts or mode == "one"
            assert (None in shapes) == ((not tables and not sorts) or limit is None or limit >= MIN_DENSE)
    assert [shape for shape in shapes_for(target, 8, "one", 32, 20) if isinstance(shape, SortShape)]
    assert shapes_for(target, 8, "one", None, 5000) == [None]


@TARGETS
@pytest.mark.parametrize("precision", ["single", "double"])
def test_every_kernel_is_in_its_module(templates, target, precision):
    study = get_study(STUDY_NAME)
    keys = study.modules(StudySettings(), Outline("any", "matrix", "real"), precision, target)
    assert keys == [f"{precision}/{module}" for module in modules_for(target)]
    sources = {}
    for key in keys:
        sources[key.partition("/")[2]] = source = study.render(templates, key, target)
        assert "{{" not in source and "{%" not in source
        assert f"{precision} precision" in source
    scalar_bytes = 4 if precision == "single" else 8
    for mode in (*MODES, "symbolic"):
        for shape in hash_shapes(target, scalar_bytes):
            module, name = shape.kernel(mode)
            assert f"{name}(" in sources[f"{module}-exact"]
        assert f"{mode}_dense(" in sources[f"{mode}-exact"]
    for shape in sort_shapes(target, scalar_bytes):
        module, name = shape.kernel("one")
        assert f"{name}(" in sources[f"{module}-exact"]


@pytest.mark.parametrize("key", ["double/nothing", "half/matrix", "double/one-chain/x", "matrix"])
def test_a_key_that_is_none_is_refused(templates, key):
    with pytest.raises(ReproError):
        render_key(templates, key, CPU)


@pytest.mark.slow
def test_a_kernel_is_found_by_its_name_and_runs(templates, built, modules_folder, tmp_path, monkeypatch):
    (tmp_path / "modules").symlink_to(modules_folder)
    monkeypatch.chdir(tmp_path)
    text = "AP/one/b1/hash-w1-s64-r8"
    kernel = get_study(STUDY_NAME).find(templates, Outline("any", "matrix", "real"), "double", text, CPU)
    assert isinstance(kernel, BinKernel)
    assert (kernel.name, kernel.product, kernel.mode, kernel.bin, kernel.space) == (text, "AP", "one", 1, "extended")
    assert kernel.identity == BinKernel(built["double"], KernelId.parse(text)).identity
    assert read_modules(CPU, STUDY_NAME, "double", modules_for(CPU)).keys() == set(modules_for(CPU))


@pytest.mark.slow
def test_products_and_set_ups_are_found_by_the_names_of_the_tables(templates, modules_folder, tmp_path, monkeypatch):
    (tmp_path / "modules").symlink_to(modules_folder)
    monkeypatch.chdir(tmp_path)
    find = partial(get_study(STUDY_NAME).find, templates, Outline("any", "matrix", "real"), "double", target=CPU)
    names = ["AP/one", "AA/two", "RAP/refill-stored", "scipy/spgemm-csr/AP", "setup/default", "solve/cg"]
    assert [find(name).name for name in names] == names
    with pytest.raises(ReproError, match=r"nothing with this name[\s\S]*AP/one[\s\S]*AP/own; did you mean AP/one\?"):
        find("AP/own")
    with pytest.raises(ReproError, match="unknown kernel of a bin"):
        find("AP/one/b1/hush-w1-s64-r8")


def test_a_kernel_is_identified_by_the_modules_that_it_needs(built):
    def needed(text):
        return set(BinKernel(built["double"], KernelId.parse(text)).identity.split())

    sort, table = needed("AP/one/b0/sort-w1-s32-r1"), needed("AP/one/b0/hash-w1-s32-r8")
    hashes = {name: module.module.hash for name, module in built["double"].items()}
    assert hashes["esc-exact"] in sort - table
    assert hashes["one-exact"] in table - sort
    assert hashes["numeric-exact"] in needed("AP/numeric/b10/dense") - table


def test_the_work_of_a_case_grows_with_spaces_baselines_and_the_matrix():
    study = get_study(STUDY_NAME)
    small, large = (Outline("p", "matrix", "real", size=size) for size in ((100, 500), (1000, 5000)))
    paper = study.workload(StudySettings(space="paper"), small, "double", CPU)
    extended = study.workload(StudySettings(space="extended"), small, "double", CPU)
    assert extended.variants == 2 * paper.variants > 0
    assert extended.groups == paper.groups > 0
    assert study.workload(StudySettings(baselines=()), small, "double", CPU).routines == 0
    on_gpu = get_target("sm_90")
    assert study.workload(StudySettings(), small, "double", on_gpu).routines == 3 * len(ROUTINES["cuda"])
    assert paper.operand_bytes == 4 * 101 + 500 * 12
    assert study.workload(StudySettings(), large, "double", CPU).operand_bytes == 4 * 1001 + 5000 * 12
    blocks = Outline("p", "matrix", "block3", size=(100, 500))
    assert study.workload(StudySettings(), blocks, "single", CPU).operand_bytes == 4 * 301 + 9 * 500 * 8
    assert study.workload(StudySettings(), Outline("p", "matrix", "real"), "double", CPU).operand_bytes > 0


def test_the_papers_space_comes_first():
    assert StudySettings(space="paper").spaces == ("paper",)
    assert StudySettings(space="paper_tuned").spaces == ("paper", "paper_tuned")
    assert StudySettings(space="extended").spaces == ("paper", "paper_tuned", "extended")
    assert StudySettings(space=("extended", "paper")).spaces == ("paper", "extended")


def timed(text, micro, products=100, status="ok"):
    """Return the row of a kernel that takes so many microseconds."""
    id = KernelId.parse(text)
    own = {**id.columns, "products": products}
    times = {"event_median": micro * 1e-6} if micro is not None else {}
    return Row(text, STUDY_NAME, "p", "double", "variant", text, status, phase="search", space=id.space,
               protocol="full", **times, own=own)  # fmt: skip


def test_the_fastest_kernel_of_each_bin_and_that_of_the_papers_space():
    rows = [
        timed("AP/one/b1/sort-w32-s64-r1", 12.0),
        timed("AP/one/b1/sort-w32-s64-r4", 10.0),
        timed("AP/one/b1/hash-w4-s64-r32", 8.0),
        timed("AP/one/b1/hash-w8-s64-r32", 8.05),
        timed("AP/one/b1/hash-w8-s128-r16", 1.0, status="incorrect"),
        timed("AP/one/b2/hash-w8-s128-r16", 5.0, products=900),
        timed("AP/numeric/b0/hash-w2-s32-r64", 3.0, products=5000),
        timed("RAP/one/b3/hash-w8-s256-r8", 4.0, products=7000),
        timed("AA/one/b10/dense", 9.0, products=9000),
    ]
    ids = [KernelId.parse(row.name) for row in rows]
    choices = {choice.tuning: choice for choice in choose_kernels(rows, 0.01, ids)}
    assert {tuning: choice.name for tuning, choice in choices.items()} == {
        "headline": "AP/one/b2/hash-w8-s128-r16",
        "AP/one/b1": "AP/one/b1/hash-w4-s64-r32",
        "paper/AP/one/b1": "AP/one/b1/sort-w32-s64-r4",
        "AP/one/b2": "AP/one/b2/hash-w8-s128-r16",
        "AP/numeric/b0": "AP/numeric/b0/hash-w2-s32-r64",
        "RAP/one/b3": "RAP/one/b3/hash-w8-s256-r8",
        "AA/one/b10": "AA/one/b10/dense",
    }
    assert choices["AP/one/b1"].ties == ("AP/one/b1/hash-w8-s64-r32",)
    assert choices["paper/AP/one/b1"].ties == ()
    chosen = chosen_kernels(choices.values())
    assert chosen.keys() == {"AP", "RAP", "AA"}
    assert chosen["AP"].by_bin == {
        ("one", 1): HashShape(4, 64, 32),
        ("one", 2): HashShape(8, 128, 16),
        ("numeric", 0): HashShape(2, 32, 64),
    }
    assert chosen["AA"].by_bin == {("one", 10): None}


def test_without_a_set_up_a_case_counts_by_the_matrix_with_itself():
    rows = [timed("AA/one/b1/hash-w4-s64-r32", 8.0), timed("AA/one/b2/hash-w8-s128-r16", 5.0, products=50)]
    [headline] = [choice for choice in choose_kernels(rows, 0.01) if choice.tuning == HEADLINE]
    assert headline.name == "AA/one/b1/hash-w4-s64-r32"
    assert get_study(STUDY_NAME).headline == HEADLINE


def test_nothing_is_chosen_of_nothing():
    assert choose_kernels([], 0.01) == []
    assert choose_kernels([timed("AP/one/b1/hash-w4-s64-r32", None, status="timeout")], 0.01) == []
    assert chosen_kernels([Choice("graph", "AP/one/b1", KernelId.parse("AP/one/b1/dense"))]) == {}


@TARGETS
def test_a_plan_has_what_was_chosen_and_for_the_rest_what_is_expected_to_be_best(target):
    by_bin = {("one", 1): SortShape(32, 64, 1), ("numeric", 10): None, ("numeric", 3): HashShape(8, 256, 8)}
    chosen = ChosenKernels(by_bin)
    one, numeric = chosen.on(target, 8, "one"), chosen.on(target, 8, "numeric")
    usual, careful = shapes_by_products(target, 8), shapes_for_any_row(target, 8)
    assert one.shapes[1] == SortShape(32, 64, 1)
    assert one.shapes[:1] + one.shapes[2:] == usual.shapes[:1] + usual.shapes[2:]
    assert numeric.shapes[3] == HashShape(8, 256, 8)
    assert numeric.shapes[:3] + numeric.shapes[4:] == careful.shapes[:3] + careful.shapes[4:]
    assert ChosenKernels().on(target, 8, "one") == usual
    assert str(chosen) != str(ChosenKernels()) == ""
