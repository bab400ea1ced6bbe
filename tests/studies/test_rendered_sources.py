"""Rendered sources are read by people who take them away: laid out by their braces, with nothing that is not used."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from repro.codegen.targets import Target, get_target
from repro.codegen.templates import without_macros
from repro.entries import entries, get_entry
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.variants import Layout, Schedule, all_layouts, extended_layouts
from repro.studies.compressed_coo.ids import SPLITS, blockings
from repro.studies.compressed_coo.kernels import render_coo
from repro.studies.dg_postprocessing.ids import region_module_keys
from repro.studies.dg_postprocessing.kernels import render_regions

TARGETS = [get_target("sm_90"), get_target("cpu")]
PAPERS = [Schedule("static", 64, 1), Schedule("dynamic", 64, 2)]
OURS = [Schedule("direct", 64, 2, width=4), Schedule("chunk", 32, 2, width=2, in_flight=2, load="cs")]
#: CUDA's loads past caches, which come together, whether or not a kernel uses each.
LOADS = {"load_once", "load_past_l1"}


def uncalled(source: str) -> set[str]:
    """Return the functions that no other calls; the host calls kernels, which are not static."""
    functions = re.findall(r"^(?:template <.*> )?static [^;{(]*?(\w+)\(", source, re.MULTILINE)
    assert functions
    calls = Counter(re.findall(r"(\w+)\(", re.sub(r"//.*", "", source)))
    return {function for function in functions if calls[function] == 1}


def misplaced(source: str) -> list[str]:
    """Return the lines that do not start where braces, open parentheses and headers without braces put them."""
    lines, braces, parentheses, headers = [], 0, 0, 0
    for line in source.splitlines():
        code = re.sub(r"//.*", "", line).strip()
        if not line or line.startswith("#"):
            continue
        expected = braces - line.lstrip().startswith("}") + headers + (parentheses > 0)
        if len(line) - len(line.lstrip()) != 4 * expected:
            lines.append(line)
        if code:
            braces += code.count("{") - code.count("}")
            parentheses += code.count("(") - code.count(")")
            is_header = parentheses == 0 and braces > 0 and (code.endswith(")") or code == "else")
            headers = headers + 1 if is_header else 0
    assert braces == parentheses == 0
    return lines


def plain(templates: Path, target: Target, source: str) -> str:
    """Return a source as people take it away: without the macros of its dialect, none of which is left."""
    expanded = without_macros(templates, target.dialect, source)
    assert not re.search(r"#define|\b(?:WARP_)?KERNEL\b|\bGLOBAL\b", expanded)
    return expanded


def check(source: str) -> None:
    assert misplaced(source) == []
    assert re.findall(r".*[ \t]\n", source) == []
    assert not re.search(r"\n\n\n|\{\n\n|\n\n *\}|\n\n\Z", source), "a blank line that separates nothing"
    assert source.endswith("\n")


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("layout", SPLITS)
def test_sources_of_coordinates(templates: Path, layout: str, precision: str, target: Target) -> None:
    source = plain(templates, target, render_coo(templates, precision, layout, blockings(target, layout), target))
    check(source)
    assert uncalled(source) == set()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("entry", entries())
def test_sources_of_compound_entries(templates: Path, entry: str, target: Target) -> None:
    modules = [*product(all_layouts(), [PAPERS]), *product(extended_layouts(get_entry(entry)), [OURS])]
    for layout, schedules in [*modules, (Layout.parse("Sl-8-AoSoA-AoS@clustered"), PAPERS)]:
        source = plain(templates, target, render_module(templates, entry, "double", layout, schedules, target, "tests"))
        check(source)
        assert uncalled(source) <= LOADS, layout


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("degree", [1, 2])
def test_sources_of_regions(templates: Path, degree: int, target: Target) -> None:
    for key in [*region_module_keys(degree, target), f"p{degree}/clip"]:
        source = plain(templates, target, render_regions(templates, key, target))
        check(source)
        assert uncalled(source) <= LOADS, key


@pytest.mark.parametrize(
    "source",
    [
        "void f()\n{\n  int i;\n}\n",
        "void f()\n{\n    if (a)\n    b();\n}\n",
        "void f()\n{\n    for (;;) {\n    b();\n    }\n}\n",
        "void f(\nint a)\n{\n}\n",
    ],
)
def test_a_line_at_another_depth_is_noticed(source: str) -> None:
    assert len(misplaced(source)) == 1


def test_a_function_that_nothing_calls_is_noticed() -> None:
    assert uncalled("static int f(int a) { return a; }\nstatic int g() { return f(1); }  // g()\n") == {"g"}
