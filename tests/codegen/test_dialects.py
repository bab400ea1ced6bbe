"""The C headers of the two dialects, and sources without their macros."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
import pytest

from repro.codegen.targets import CPU, Target, get_target
from repro.codegen.templates import expand_macros, render_common

#: Words that only a GPU has: of warps, whose threads work out ranks among each other, and of blocks that wait.
OF_GPUS = {"BALLOT", "HIGHEST_BIT", "GRID_BARRIER"}


def header(templates: Path, dialect: str) -> str:
    return (templates / "dialects" / f"{dialect}.h").read_text()


def test_both_dialects_have_the_same_words(templates: Path) -> None:
    cuda, opencl = (
        dict(re.findall(r"^#define (\w+)(\([\w, ]*\))?", header(templates, dialect), re.MULTILINE))
        for dialect in ("cuda", "opencl")
    )
    assert cuda.keys() - opencl.keys() == OF_GPUS
    assert opencl == {name: parameters for name, parameters in cuda.items() if name not in OF_GPUS}


@pytest.mark.parametrize("target", [get_target("sm_90"), CPU], ids=lambda target: target.name)
def test_what_is_compiled_begins_with_the_header(templates: Path, target: Target) -> None:
    source = render_common(templates, target)
    assert source.startswith(header(templates, target.dialect))
    assert "{{" not in header(templates, target.dialect)


@pytest.mark.parametrize(("target", "ballot_lanes"), [(get_target("sm_90"), 32), (CPU, 1)], ids=["sm_90", "cpu"])
def test_the_header_and_jinja_have_the_lanes_of_the_target(templates: Path, target: Target, ballot_lanes: int) -> None:
    text = f'{{% import "dialects/{target.dialect}.j2" as d %}}{{{{ d.warp_lanes }}}} {{{{ d.ballot_lanes }}}}'
    of_jinja = jinja2.Environment(loader=jinja2.FileSystemLoader(templates)).from_string(text).render()
    source = header(templates, target.dialect) + "WARP_LANES BALLOT_LANES"
    of_header = expand_macros(templates, target.dialect, source)
    assert of_header == of_jinja == f"{target.warp} {ballot_lanes}"


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("KERNEL(64, 4) f(GLOBAL int* x)", 'extern "C" __global__ void __launch_bounds__(64, 4) f(int* x)'),
        ("GLOBAL int* x;", "int* x;"),
        ("ATOMIC_MAX(&a[f(i, 1)], BITS_OF_FLOAT(b));", "atomicMax(&a[f(i, 1)], __float_as_int(b));"),
        ("    UNROLL\n    for (;;)", "    #pragma unroll\n    for (;;)"),
        ("    UNROLL_BY(4)\n    for (;;)", "    #pragma unroll 4\n    for (;;)"),
        ("    NO_UNROLL\n    for (;;)", "    #pragma unroll 1\n    for (;;)"),
        ("int WARP_LANES_OF_ROW = WARP_LANES;", "int WARP_LANES_OF_ROW = 32;"),
        ("int lanes = BALLOT_LANES;", "int lanes = 32;"),
    ],
)
def test_macros_are_expanded(templates: Path, source: str, plain: str) -> None:
    assert expand_macros(templates, "cuda", header(templates, "cuda") + source) == plain


def test_a_macro_over_two_lines_becomes_one(templates: Path) -> None:
    opencl = header(templates, "opencl")
    assert "#define WARP_KERNEL(block_size, blocks_per_sm) \\\n" in opencl
    (line,) = expand_macros(templates, "opencl", opencl + "WARP_KERNEL(32, 1) f(int n);").splitlines()
    words = (
        "__kernel __attribute__((reqd_work_group_size(32, 1, 1))) __attribute__((intel_reqd_sub_group_size(16))) void"
    )
    assert line == f"{words} f(int n);"


def test_a_macro_of_nothing_leaves_no_line(templates: Path) -> None:
    source = "    UNROLL\n    COMMIT_COPIES();\n    for (;;)\n"
    assert expand_macros(templates, "opencl", source) == "    for (;;)\n"


def test_templates_unroll_by_the_headers_words_alone(templates: Path) -> None:
    assert [path for path in templates.rglob("*.j2") if "#pragma unroll" in path.read_text()] == []
