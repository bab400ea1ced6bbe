"""What a template's list of inputs says of each kernel of a module: the names under which Python passes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pytest

from repro.codegen.targets import CPU, Target, get_target
from repro.codegen.templates import render_common
from repro.sparse.dynamic import kernels as dynamic
from repro.sparse.multigrid import kernels as multigrid
from repro.sparse.spgemm import kernels as spgemm
from repro.studies import get_study

TARGETS = (CPU, get_target("sm_90"))
#: A key for each template whose inputs are lists of kernels.
KEYS = {
    "compound_spmv": [f"extended/block3-double/{layout}" for layout in ("CSR-AoS-AoS", "Pairs-64-AoS-AoS")],
    "compressed_coo": ["paper/double/CCOO", "extended/double/CSELL-8", "extended/double/Pairs"],
    "dg_postprocessing": ["p1/vector-w18", "p1/ours"],
}

#: Templates whose inputs have lists of kernels.
OF_KERNELS = (
    "common/module.j2", "compressed_coo/module.j2", "compressed_coo/sliced.j2", "compressed_coo/pairs.j2",
    "sparse/compound/module.j2", "sparse/compound/pairs.j2", "sparse/spgemm/hash.j2", "sparse/spgemm/refill.j2",
)  # fmt: skip


def inputs(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and description of each input that the first comment of a template lists."""
    listed = re.search(r"\n   Inputs:\n(.*?)#\}", text, re.DOTALL)
    for item in re.split(r"\n(?=   \S)", listed[1] if listed else ""):
        names, _, described = item.strip().partition(":")
        yield from ((name.strip().partition("(")[0], described) for name in names.split(","))


def names_of(item: object) -> set[str]:
    """Return the names by which a template reads an item of a list; none of a plain value."""
    return set(item) if isinstance(item, Mapping) else {name for name in dir(item) if not name.startswith("_")}


def is_of_records(value: object) -> bool:
    plain = (str, int, float, tuple, list, type(None))
    return isinstance(value, Sequence) and bool(value) and not isinstance(value[0], plain)


def render_all(templates: Path, target: Target) -> None:
    """Render a module of each template whose inputs are lists of kernels."""
    render_common(templates, target)
    for module in spgemm.MODULES:
        spgemm.render_spgemm(templates, f"double/{module}", target, "tests")
    for module in multigrid.MODULES:
        multigrid.render_multigrid(templates, f"double/{module}", target, "tests")
    for study, keys in KEYS.items():
        for key in keys:
            get_study(study).render(templates, key, target)
    for module in dynamic.TEMPLATES:
        dynamic.render_module(templates, f"double/{module}", target, "tests")


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_listed_names_are_those_that_are_passed(
    templates: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: dict[str, dict[str, Any]] = {}
    render = jinja2.Template.render

    def recorded(template: jinja2.Template, *given: Any, **context: Any) -> str:
        passed[str(template.name)] = context
        return render(template, *given, **context)

    monkeypatch.setattr(jinja2.Template, "render", recorded)
    render_all(templates, target)
    checked, wrong = set(), []
    for template, context in passed.items():
        for name, described in inputs((templates / template).read_text()):
            wrong += [] if name in context else [f"{template}: {name} is not passed"]
            if not is_of_records(context.get(name)):
                continue
            known = set.intersection(*map(names_of, context[name])) | set(context)
            missing = set(re.findall(r"`(\w+)`", described)) - known
            wrong += [f"{template}: {name} has no {word}, but {sorted(known - set(context))}" for word in missing]
            checked.add(template)
    assert not wrong
    assert set(OF_KERNELS) <= checked
