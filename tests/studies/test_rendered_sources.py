"""Rendered sources are exported for readers: indented by their braces, and without unused functions."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import jinja2
import pytest

from repro.codegen.targets import Target, get_target
from repro.codegen.templates import MAX_COLUMNS, expand_macros, wrap_lines
from repro.entries import entries, get_entry
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.variants import Layout, Schedule, all_layouts, extended_layouts
from repro.studies.compressed_coo.ids import SPLITS, blockings
from repro.studies.compressed_coo.kernels import render_coo
from repro.studies.dg_postprocessing.ids import region_module_keys
from repro.studies.dg_postprocessing.kernels import render_regions
from support.rendered_modules import rendered_modules

TARGETS = [get_target("sm_90"), get_target("cpu")]
PAPERS = [Schedule("static", 64, 1), Schedule("dynamic", 64, 2)]
OURS = [Schedule("direct", 64, 2, width=4), Schedule("chunk", 32, 2, width=2, in_flight=2, load="cs")]
#: CUDA's loads past caches, which come together, whether or not a kernel uses each.
LOADS = {"load_once", "load_past_l1"}

#: Templates of one dialect alone.
NOT_ON = {
    "cuda": {"sparse/dynamic/copy_by_tiles.j2", "sparse/dynamic/insert_on_cpu.j2"},
    "opencl": {"common/blocker.j2", "sparse/dynamic/copy_by_lines.j2", "sparse/dynamic/insert_on_gpu.j2"},
}


def uncalled(source: str) -> set[str]:
    """Return the functions that no other calls; the host calls kernels, which are not static."""
    functions = re.findall(r"^(?:template <.*> )?static [^;{(]*?(\w+)\(", source, re.MULTILINE)
    assert functions
    calls = Counter(re.findall(r"(\w+)\(", re.sub(r"//.*", "", source)))
    return {function for function in functions if calls[function] == 1}


def misplaced(source: str) -> list[str]:
    """Return the lines that do not start where braces, headers without braces and a statement's first line put them."""
    lines, braces, parentheses, headers, statement = [], 0, 0, 0, 0
    for line in source.splitlines():
        code = re.sub(r"//.*", "", line).strip()
        if not line or line.startswith("#"):
            continue
        if parentheses > 0 or re.match(r"(\?|:|\|\||&&|[-+*/]) ", code):
            expected = statement + 1
        else:
            expected = statement = braces - line.lstrip().startswith("}") + headers
        if len(line) - len(line.lstrip()) != 4 * expected:
            lines.append(line)
        if code:
            braces += code.count("{") - code.count("}")
            parentheses += code.count("(") - code.count(")")
            is_header = parentheses == 0 and braces > 0 and (code.endswith(")") or code == "else")
            if is_header or not parentheses:
                headers = headers + 1 if is_header else 0
    assert braces == parentheses == 0
    return lines


def plain(templates: Path, target: Target, source: str) -> str:
    """Return a source as people take it away: without the macros of its dialect, none of which is left."""
    expanded = wrap_lines(expand_macros(templates, target.dialect, source))
    assert not re.search(r"#define|\b(?:WARP_)?KERNEL\b|\bGLOBAL\b", expanded)
    return expanded


def check_blanks(source: str) -> None:
    assert re.findall(r".*[ \t]\n", source) == []
    assert not re.search(r"\n\n\n|\{\n\n|\n\n *\}|\n\n\Z", source), "a blank line that separates nothing"
    assert re.findall(r".*[;}] {2,}[^/\s].*", source.partition("#define NO_UNROLL")[2] or source) == [], "joined lines"
    assert source.endswith("\n")


def check(source: str) -> None:
    assert misplaced(source) == []
    check_blanks(source)


@pytest.mark.sampled(1)
@pytest.mark.medium
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_sources_of_all_templates(templates: Path, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    used = set()
    get_template = jinja2.Environment.get_template

    def recorded(environment: jinja2.Environment, name: str, *rest: Any) -> jinja2.Template:
        used.add(name)
        return get_template(environment, name, *rest)

    monkeypatch.setattr(jinja2.Environment, "get_template", recorded)
    for module, source in rendered_modules(templates, target).items():
        check_blanks(source)
        assert [line for line in source.splitlines() if len(line) > MAX_COLUMNS] == [], module
    paths = (path.relative_to(templates) for path in templates.rglob("*.j2"))
    of_target = {str(path) for path in paths if path.parts[0] not in ("dialects", "export")} - NOT_ON[target.dialect]
    assert of_target <= used


@pytest.mark.sampled(9)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("layout", SPLITS)
def test_sources_of_coordinates(templates: Path, layout: str, precision: str, target: Target) -> None:
    source = plain(templates, target, render_coo(templates, precision, layout, blockings(target, layout), target))
    check(source)
    assert uncalled(source) == set()


@pytest.mark.sampled(3)
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


LONG = "a" * 40


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        (f"    f({LONG}, g({LONG}, 1), {LONG});", [f"    f({LONG}, g({LONG}, 1),", f"        {LONG});"]),
        (f"x = {LONG} * ({LONG} + 1) + {LONG};", [f"x = {LONG} * ({LONG} + 1)", f"    + {LONG};"]),
        (f"f(\n    {LONG}, {LONG}, {LONG})", ["f(", f"    {LONG}, {LONG},", f"    {LONG})"]),
        (f'f("{LONG}, {LONG}", {LONG});', [f'f("{LONG}, {LONG}",', f"    {LONG});"]),
        (f"    // {LONG}, {LONG} {LONG}", [f"    // {LONG}, {LONG}", f"    // {LONG}"]),
        (f"f({LONG}, {LONG});  // {LONG} {LONG}", [f"f({LONG},", f"    {LONG});  // {LONG} {LONG}"]),
        (f"#define {LONG} {LONG}, {LONG}", [f"#define {LONG} {LONG}, {LONG}"]),
    ],
    ids=["comma", "operator", "parentheses", "quotes", "comment", "comment at an end", "directive"],
)
def test_a_long_line_is_broken(line: str, broken: list[str]) -> None:
    assert wrap_lines(line).splitlines() == broken
