import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from repro.codegen.targets import get_target
from repro.codegen.templates import alignment, expand_macros, render_common
from repro.errors import ReproError
from repro.sparse.compound.kernels import kernel_name, render_module
from repro.sparse.compound.variants import Layout, Schedule, paper_space

GPU, CPU = get_target("sm_90"), get_target("cpu")


@pytest.mark.parametrize(
    ("members", "size", "expected"),
    [(2, 4, 8), (2, 8, 16), (4, 4, 16), (4, 8, 16), (9, 4, 4), (9, 8, 8), (3, 4, 4), (3, 8, 8), (1, 4, 4)],
)
def test_alignment_is_the_largest_power_of_two_that_divides_the_size(members, size, expected):
    assert alignment(members, size) == expected


def test_a_cuda_module_has_a_kernel_and_a_launch_bound_for_every_schedule(templates):
    space = paper_space(GPU)
    source = render_module(templates, "complex", "single", Layout.parse("CSR-AoS-AoS"), space, GPU, "tests")
    for schedule in space:
        name = f"spmv_{schedule.kind}_{schedule.block_size}_{schedule.blocks_per_sm}_rolled"
        assert f"KERNEL({schedule.block_size}, {schedule.blocks_per_sm}) {name}(" in source


def test_row_loops_as_published_are_not_unrolled_and_others_are_left_to_the_compiler(templates):
    layout = Layout.parse("ELL-SoA-SoA")
    literal, tuned = (
        render_module(templates, "real", "double", layout, space, GPU, "tests").partition("multiply_accumulate")[2]
        for space in (paper_space(GPU), paper_space(GPU, rolled=False))
    )
    row_loop = "for (; slot < end"
    assert f"NO_UNROLL\n    {row_loop}" in literal
    assert "NO_UNROLL" not in tuned
    without = literal.replace("    NO_UNROLL\n", "").replace("_rolled", "")
    assert without == tuned


def test_opencl_kernels_that_differ_in_the_grid_alone_are_one(templates):
    assert kernel_name(Schedule("static", 32, 1), CPU) == kernel_name(Schedule("static", 32, 3), CPU)
    source = render_module(templates, "real", "double", Layout.parse("ELL-SoA-SoA"), paper_space(CPU), CPU, "tests")
    assert expand_macros(templates, "opencl", source).count("__kernel") == 8


@dataclass(frozen=True)
class Staggered(Schedule):
    """A schedule with a field that no name has."""

    ahead: int = 0


@pytest.mark.parametrize("layout", ["CSR-AoS-AoS", "Pairs-64-AoSoA-AoS"])
def test_a_field_that_no_kernel_name_has_drops_no_schedule(templates, layout):
    schedules = [Staggered("direct", 64, 4, ahead=ahead) for ahead in (0, 1)]
    with pytest.raises(ReproError, match=r"same kernel name(.|\n)*spmv_direct_64_4\n(.|\n)*ahead=0(.|\n)*ahead=1"):
        render_module(templates, "real", "double", Layout.parse(layout), schedules, GPU, "tests")


def test_only_the_right_hand_side_is_restrict(templates):
    source = render_module(
        templates, "block3", "double", Layout.parse("CSR-AoS-AoS"), [Schedule("static", 32, 1)], GPU, "tests"
    )
    source = expand_macros(templates, "cuda", source)
    kernel = source[source.index('extern "C"') :]
    assert kernel.count("__restrict__") == 1
    assert "const vector_entry* __restrict__ x" in kernel


def test_a_broken_template_is_named_with_its_line(tmp_path, templates):
    broken = tmp_path / "kernels"
    shutil.copytree(templates, broken)
    (broken / "common/module.j2").write_text("first\n{% if %}\n")
    with pytest.raises(ReproError, match=r"cannot be rendered\n.*common/module.j2:2"):
        render_common(broken, CPU)


def test_a_missing_variable_is_named_with_the_path_and_line_of_the_template_that_reads_it(tmp_path, templates):
    broken = tmp_path / "kernels"
    shutil.copytree(templates, broken)
    (broken / "common/inner.j2").write_text("one\n\n{{ absent }}\n")
    (broken / "common/module.j2").write_text('{% include "common/inner.j2" %}\n')
    with pytest.raises(ReproError) as failure:
        render_common(broken, CPU)
    assert f"{broken}/common/inner.j2:3\n" in str(failure.value)
    assert "'absent' is undefined" in str(failure.value)


def test_a_template_that_has_changed_is_read_again(tmp_path, templates, monkeypatch):
    """Also one that another includes; and a relative path is another folder elsewhere."""
    for name in ("here", "there"):
        shutil.copytree(templates, tmp_path / name / "kernels")
    layout, schedules = Layout.parse("CSR-AoS-AoS"), [Schedule("static", 32, 1)]

    def rendered(place):
        monkeypatch.chdir(tmp_path / place)
        return render_module(Path("kernels"), "real", "double", layout, schedules, CPU, "tests")

    before = rendered("here")
    included = tmp_path / "here/kernels/sparse/entries.j2"
    included.write_text(included.read_text() + "// changed\n")
    assert "// changed" not in before
    assert "// changed" in rendered("here")
    assert rendered("there") == before


def test_missing_templates_are_one_message(tmp_path):
    with pytest.raises(ReproError, match=r"cannot be rendered\n(.*\n)*.*common/module.j2\n"):
        render_common(tmp_path, CPU)
