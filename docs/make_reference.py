"""Makes docs/reference from the code: configuration keys, columns, variants' names, commands, the Python interface.

`python docs/make_reference.py` writes the pages, and `tests/docs/test_reference.py` holds them to the code.
"""

from __future__ import annotations

import csv
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import typer.main
from make_pages import ROOT, fill
from pydantic import BaseModel

import repro
from repro.bench.rows import COMMON_COLUMNS, Row
from repro.campaign.artifacts import all_artifacts
from repro.campaign.report import legend_of
from repro.cli.app import COMMANDS, EXIT_CODES, build
from repro.config.models import Config, StudySettings
from repro.problems.registry import Registry
from repro.results.report import printed_part
from repro.studies import get_study, study_names

FOLDER = ROOT / "docs/reference"
#: The recorded campaign whose tables say which columns tables have.
#: Recorded campaigns with the tables whose columns are listed: those of several devices are in the latter two.
RECORDS = [ROOT / "results" / name / "tables" for name in ("h200", "h200-x2", "h200-x4")]
#: What the operators' functions return, and what a plugin's author derives from or calls, by module.
RETURNED = ("SpmvOperator", "Vectors", "DeviceArray", "Reader", "MultilevelSolver", "ProductPlan", "SiacFilter")
PLUGINS = {"repro.studies": ("Study",), "repro.bench.runnable": ("Runnable", "Candidate"), "repro.entries": ("Entry",)}


def main() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages():
        path.write_text(text)


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page with its text."""
    makers: Mapping[str, Callable[[], Iterable[str]]] = {
        "configuration": configuration,
        "columns": columns,
        "names": names,
        "commands": commands,
        "exit-codes": exit_codes,
        "python": python,
    }
    for name, make in makers.items():
        head = "<!-- made by docs/make_reference.py -->"
        yield FOLDER / f"{name}.md", "\n\n".join([head, *make()]) + "\n"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in line) + " |" for line in lines
    )


# ----------------------------------------------------------------------------------------------------- configuration


def configuration() -> Iterator[str]:
    """Yield the keys of a configuration, of a study in it, and of the registry of problems."""
    yield "# Configuration keys"
    yield fill(
        "Look up here the type, default and meaning of each key. [config/README.md](../../config/README.md) explains "
        "them with examples."
    )
    written: set[str] = set()
    titles: Mapping[str, type[BaseModel]] = {
        "A configuration": Config,
        "A study's settings": StudySettings,
        "The registry of problems": Registry,
    }
    for title, model in titles.items():
        schema = model.model_json_schema()
        yield f"## {title}"
        yield from _keys(schema)
        for name, part in schema.get("$defs", {}).items():
            if name not in written and name != "StudySettings" and "properties" in part:
                written.add(name)
                yield f"### `{name}`"
                yield from _keys(part)


def _keys(schema: dict[str, Any]) -> Iterator[str]:
    if description := schema.get("description"):
        yield fill(description.split("\n\n")[0])
    required = schema.get("required", ())
    rows = (
        (
            f"`{key}`",
            _kind(item),
            "required" if key in required else _default(item),
            item.get("description", ""),
        )
        for key, item in schema["properties"].items()
    )
    yield table(("key", "type", "default", "meaning"), rows)


def _default(item: dict[str, Any]) -> str:
    """Return a default; that of a group of keys is the defaults of its keys."""
    default = item.get("default")
    return "" if default is None or isinstance(default, dict) else f"`{json.dumps(default)}`"


def _kind(item: dict[str, Any]) -> str:
    """Return what values a key takes, in words of JSON schemas."""
    if "$ref" in item:
        return f"`{item['$ref'].rpartition('/')[2]}`"
    if "anyOf" in item:
        return " or ".join(dict.fromkeys(_kind(one) for one in item["anyOf"]))
    if "enum" in item:
        return ", ".join(f"`{value}`" for value in item["enum"])
    if "const" in item:
        return f"`{item['const']}`"
    if item.get("type") == "array" and "items" in item:
        return f"list of {_kind(item['items'])}"
    limits = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limited = [f"{sign} {item[limit]:g}" for limit, sign in limits.items() if limit in item]
    return " ".join([item.get("type", "any"), ", ".join(limited)]).strip()


# ----------------------------------------------------------------------------------------------------------- columns


def columns() -> Iterator[str]:
    """Yield the columns of rows, of each study's rows, and of the recorded campaign's tables."""
    yield "# Columns"
    yield fill("Look up here what the columns of rows and of tables contain.")
    yield "## Of all rows"
    yield fill(
        "Each step writes a Parquet file below `results/<campaign>/raw/<study>` ([how to read "
        "it](../reading-the-tables.md#the-rows-themselves)). Times are in seconds, sizes in bytes."
    )
    meaning = _attributes(Row)
    meaning_of = {name: _lookup(meaning, name) for name in COMMON_COLUMNS}
    rows = []
    for said, found in groupby(COMMON_COLUMNS, key=lambda name: meaning_of[name] or name):
        alike = list(found)
        kinds = dict.fromkeys(_typename(COMMON_COLUMNS[name]) for name in alike)
        rows.append((", ".join(f"`{name}`" for name in alike), " or ".join(kinds), "" if said in alike else said))
    yield table(("column", "type", "meaning"), rows)
    for name in study_names():
        study = get_study(name)
        yield f"## Of `{name}`"
        yield fill(
            f"{study.title or name}. Steps: {', '.join(f'`{step}`' for step in study.outputs)}. Columns of its rows:"
        )
        yield table(("column", "type"), ((f"`{key}`", _typename(kind)) for key, kind in study.columns.items()))
        yield "Tables and figures, and the columns of the CSV files in the recorded campaigns:"
        artifacts = sorted(all_artifacts(name), key=lambda artifact: (artifact.kind != "table", artifact.name))
        yield table(
            ("artifact", "what it shows", "from", "columns"),
            ((f"`{a.name}`", a.title, a.numbering, _heads(name, a.name)) for a in artifacts),
        )


def names() -> Iterator[str]:
    """Yield the parts of variants' names, study by study, as the report's legends have them."""
    yield "# Variants’ names"
    yield fill(
        "Look up here what a part of a variant's name means. `/`, `-` and `@` separate parts such as `w8`; N is a "
        "number, `|` means or."
    )
    for name in study_names():
        study, legend = get_study(name), legend_of(name)
        if legend:
            yield f"## `{name}`: {study.title or name}"
            lines = (printed_part(part, meaning) for part, meaning in legend.items())
            yield table(("part", "what it says"), ((f"`{part}`", meaning) for part, meaning in lines))


def _heads(study: str, name: str) -> str:
    paths = [path for record in RECORDS if (path := record / study / f"{name}.csv").exists()]
    if not paths:
        return ""
    with paths[0].open(newline="", encoding="utf-8") as file:
        return ", ".join(f"`{head}`" for head in next(csv.reader(file)))


def _typename(kind: Any) -> str:
    return (
        kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind).replace(" | ", " or ")
    )


def _attributes(cls: type) -> dict[str, str]:
    """Return what a class says of its attributes, behind each field or in a section of its docstring."""
    section = re.search(r"Attributes\n-+\n(.*?)(?=\n\w+\n---|\Z)", inspect.getdoc(cls) or "", re.DOTALL)
    found = dict(re.findall(r"^(\S.*)\n((?:    .*\n?|\n(?=    ))+)", section[1] if section else "", re.MULTILINE))
    behind = re.findall(r'^    (\w+): .*\n    """(.+?)"""', inspect.getsource(cls), re.MULTILINE | re.DOTALL)
    return {**found, **dict(behind)}


def _lookup(meaning: Mapping[str, str], name: str) -> str:
    """Return the meaning of a name: the last that is said of it, or of a pattern that it fits."""
    fitting = [text for said, text in meaning.items() if any(fnmatch(name, one.strip()) for one in said.split(","))]
    return fitting[-1].strip() if fitting else ""


# ---------------------------------------------------------------------------------------------------------- commands


def commands() -> Iterator[str]:
    """Yield every command with its help and options."""
    yield "# Commands"
    yield fill(
        "Look up here what a command does and its options, as `repro COMMAND --help` prints them. Each rule of the "
        "workflow calls one command."
    )
    known = typer.main.get_command(build()).commands
    yield table(
        ("command", "in a campaign", "what it does"),
        ((f"[`repro {n}`](#repro-{n})", c.panel, c.line) for n, c in COMMANDS.items()),
    )
    for name in COMMANDS:
        command = known[name]
        yield f"## repro {name}"
        yield from _blocks(inspect.cleandoc(command.help or ""))
        rows = (
            (_option(option), "" if _without_default(option) else f"`{option.default}`", option.help or "")
            for option in command.params
        )
        if command.params:
            yield table(("option", "default", "meaning"), rows)


def exit_codes() -> Iterator[str]:
    """Yield what exit codes mean, for all commands and for those that differ."""
    yield "# Exit codes"
    yield fill(
        "Look up here what a command's exit code means. A traceback means a bug, with exit code 1. `snakemake` exits "
        "with 0 if everything was made, otherwise with 1, or after a signal as a command does."
    )
    yield table(("exit code", "meaning"), ((f"`{code}`", meaning) for code, meaning in EXIT_CODES.items()))
    yield "## Where a command differs"
    rows = (
        (f"[`repro {name}`](commands.md#repro-{name})", f"`{code}`", meaning)
        for name, command in COMMANDS.items()
        for code, meaning in command.codes.items()
    )
    yield table(("command", "exit code", "meaning"), rows)


def _option(option: Any) -> str:
    spelt = ", ".join(f"`{word}`" for word in (*option.opts, *option.secondary_opts) if word.startswith("-"))
    return spelt or f"`{option.metavar or option.name.upper()}`"


def _without_default(option: Any) -> bool:
    return option.default in (None, False) or not option.show_default or callable(option.default)


def _blocks(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text, what is indented as it stands."""
    for block in re.split(r"\n\s*\n", text):
        yield block.strip("\n") if block.startswith("    ") else fill(block)


# ------------------------------------------------------------------------------------------------------------ Python


def python() -> Iterator[str]:
    """Yield the public functions and classes with their signatures and docstrings."""
    yield "# Python"
    yield fill(
        "Look up here the functions and classes that a program imports from `repro`, what they return, and the classes "
        "that a plugin derives from."
    )
    for name in repro.__all__:
        if not name.startswith("_"):
            yield from _documented("repro", getattr(repro, name), name)
    for module, found in {"repro.operators": RETURNED, **PLUGINS}.items():
        for name in found:
            yield from _documented(module, getattr(import_module(module), name), name)


def _documented(module: str, thing: Any, name: str) -> Iterator[str]:
    yield f"## {module}.{name}"
    if module == "repro" and not (inspect.isclass(thing) and issubclass(thing, Exception)):
        yield f"```python\n{name}{_signature(thing)}\n```"
    yield from _numpydoc(inspect.getdoc(thing) or "")
    if not inspect.isclass(thing):
        return
    members = [(key, value) for key, value in vars(thing).items() if not key.startswith("_")]
    rows = [(_member(key, value), (inspect.getdoc(_function(value)) or "").split("\n\n")[0]) for key, value in members]
    documented = [(spelt, text) for (key, value), (spelt, text) in zip(members, rows, strict=True) if _is_method(value)]
    if documented:
        yield table(("member", "what it does"), documented)


def _is_method(value: Any) -> bool:
    return isinstance(value, property | classmethod | staticmethod) or inspect.isfunction(value)


def _function(value: Any) -> Any:
    return value.__func__ if isinstance(value, classmethod | staticmethod) else value


def _member(name: str, value: Any) -> str:
    if not _is_method(value) or isinstance(value, property):
        return f"`{name}`"
    parameters = list(inspect.signature(_function(value)).parameters.values())
    if not isinstance(value, staticmethod):
        parameters = parameters[1:]
    spelt = ", ".join(one.name if one.default is one.empty else f"{one.name}={one.default!r}" for one in parameters)
    return f"`{name}({spelt})`"


def _signature(thing: Any) -> str:
    """Return a signature, a parameter a line."""
    signature = inspect.signature(thing)
    lines: list[str] = []
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and "    *," not in lines:
            lines.append("    *,")
        default = "" if one.default is one.empty else f" = {_spelt(one.default)}"
        lines.append(f"    {one.name}: {_annotation(one.annotation)}{default},")
    result = "" if inspect.isclass(thing) else f" -> {_annotation(signature.return_annotation)}"
    return "\n".join(["(", *lines, f"){result}"])


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else _typename(annotation)


def _spelt(default: Any) -> str:
    return default.__name__ if isinstance(default, type) else repr(default)


def _numpydoc(text: str) -> Iterator[str]:
    """Yield a docstring with its sections as lists."""
    head, *sections = re.split(r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE)
    yield from _blocks(head.strip("\n"))
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        yield f"**{title}**"
        if title == "Examples":
            yield from _blocks(body.strip("\n"))
            continue
        items = re.findall(r"^(\S.*)\n?((?:    .*\n?|\n(?=    ))*)", body, re.MULTILINE)
        yield "\n".join(fill(f"- `{name}`: {' '.join(said.split())}".removesuffix(": ")) for name, said in items)


if __name__ == "__main__":
    main()
