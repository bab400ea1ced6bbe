"""A template lists its inputs: all names that it and its includes read, and only names that Python passes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import jinja2
import pytest
from jinja2 import meta, nodes

from repro.codegen.targets import CPU, Target, get_target
from support.rendered_modules import rendered_modules

TARGETS = (CPU, get_target("sm_90"))
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


def pattern(name: nodes.Node) -> str:
    """Return a pattern of the names of templates that an expression may give."""
    if isinstance(name, nodes.Const):
        return re.escape(name.value)
    return "".join(map(pattern, name.nodes)) if isinstance(name, nodes.Concat) else r"\w+"


def assigned(template: nodes.Template) -> set[str]:
    """Return what a template names itself: variables of `set` and `for`, macros and imports."""
    targets = [node.target for node in template.find_all((nodes.Assign, nodes.AssignBlock, nodes.For))]
    names = {
        name.name for target in targets for name in [target, *target.find_all(nodes.Name)] if hasattr(name, "name")
    }
    names |= {macro.name for macro in template.find_all(nodes.Macro)}
    names |= {imported.target for imported in template.find_all(nodes.Import)}
    of_imports = [name for imported in template.find_all(nodes.FromImport) for name in imported.names]
    return names | {name if isinstance(name, str) else name[1] for name in of_imports}


def reads(name: str, templates: Mapping[str, nodes.Template], rendered: Set[str]) -> set[str]:
    """Return what a template, or one that it gives its context to, reads without a value of its own."""
    template, own = templates[name], assigned(templates[name])
    found = meta.find_undeclared_variables(template)
    for node in template.find_all((nodes.Include, nodes.Import, nodes.FromImport)):
        given = [other for other in templates if re.fullmatch(pattern(node.template), other) and node.with_context]
        for other in set(given) - rendered:  # one that is rendered is included by none
            found |= reads(other, templates, rendered)
    return found - own


@pytest.mark.sampled(1)
@pytest.mark.medium
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_listed_names_are_those_that_are_passed(
    templates: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: dict[str, dict[str, Any]] = {}
    render = jinja2.Template.render

    def recorded(template: jinja2.Template, *given: Any, **context: Any) -> str:
        passed.setdefault(str(template.name), {}).update(context)
        return render(template, *given, **context)

    monkeypatch.setattr(jinja2.Template, "render", recorded)
    rendered_modules(templates, target)
    texts = {str(path.relative_to(templates)): path.read_text() for path in templates.rglob("*.j2")}
    parsed = {name: jinja2.Environment(extensions=["jinja2.ext.do"]).parse(text) for name, text in texts.items()}
    checked, wrong = set(), []
    for template, context in passed.items():
        listed = dict(inputs(texts[template]))
        unlisted = reads(template, parsed, passed.keys()) & context.keys() - listed.keys()
        wrong += [f"{template}: {name} is read and not listed" for name in sorted(unlisted)]
        for name, described in listed.items():
            wrong += [] if name in context else [f"{template}: {name} is not passed"]
            if not is_of_records(context.get(name)):
                continue
            known = set.intersection(*map(names_of, context[name])) | set(context)
            missing = set(re.findall(r"`(\w+)`", described)) - known
            wrong += [f"{template}: {name} has no {word}, but {sorted(known - set(context))}" for word in missing]
            checked.add(template)
    assert not wrong
    assert set(OF_KERNELS) <= checked
