"""Rendering templates, and the module that every campaign needs.

The common module has an empty kernel, the comparison with a reference, the streaming floor and a copy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.package_data import shipped

#: What the files in `kernels/` end in that a source is rendered from: templates, and the headers of dialects.
SUFFIXES = (".j2", ".h")
#: Bytes that a thread loads at once, at most.
LOAD_BYTES = 16
_DEFINITION = re.compile(r"^#define (\w+)(\([\w, ]*\))?[ \t]*(.*)$", re.MULTILINE)


def alignment(members: int, scalar_bytes: int) -> int:
    """Return the largest power of two from 1 to 16 that divides the size of an AoS type (in bytes)."""
    return max(a for a in (1, 2, 4, 8, 16) if members * scalar_bytes % a == 0)


def render_template(templates: Path, name: str, **context: Any) -> str:
    """Return a template of that folder with its names filled in.

    Raises
    ------
    ReproError
        The template is missing or wrong; template and line are named.
    """
    templates = shipped(templates)
    try:
        return _environment(templates, templates.absolute()).get_template(name).render(**context)
    except TemplateError as error:
        where = f"{getattr(error, 'filename', None) or templates / name}:{getattr(error, 'lineno', '?')}"
        detail = f"{type(error).__name__}: {error.message}"
        raise ReproError("a template cannot be rendered", where=where, actual=detail, todo="correct it") from error


def without_macros(templates: Path, dialect: str, source: str) -> str:
    """Return a rendered source without its dialect's header, the macros expanded: for people to read and to keep."""
    header = shipped(templates / "dialects" / f"{dialect}.h").read_text("utf-8")
    macros = {
        name: (re.findall(r"\w+", parameters) if parameters else None, text)
        for name, parameters, text in _DEFINITION.findall(header)
    }
    found, position = re.compile(rf"\b(?:{'|'.join(macros)})\b"), 0
    source = source.replace(header, "", 1)
    while match := found.search(source, position):
        (parameters, text), start, end = macros[match[0]], *match.span()
        if parameters is not None:
            arguments, end = _arguments(source, end)
            text = _substituted(text, dict(zip(parameters, arguments, strict=False)))
        if not text:  # with the line that it has for itself, or the space behind it
            line = source.rfind("\n", 0, start) + 1
            alone = re.compile(r";?\n").match(source, end)
            if alone and not source[line:start].strip():
                start, end = line, alone.end()
            elif source.startswith(" ", end):
                end += 1
        text = re.sub(r'^_Pragma\("(.*)"\)$', r"#pragma \1", text)
        source, position = source[:start] + text + source[end:], start
    return source


def _substituted(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\w+", lambda word: values.get(word[0], word[0]), text)


def _arguments(source: str, start: int) -> tuple[list[str], int]:
    """Return the arguments of a macro whose bracket opens at `start`, and where the text goes on behind them."""
    depth, begin, arguments = 0, start + 1, []
    for place in range(start, len(source)):
        depth += (source[place] in "([{") - (source[place] in ")]}")
        if depth == 0 or (depth == 1 and source[place] == ","):
            arguments.append(source[begin:place].strip())
            begin = place + 1
        if depth == 0:
            return arguments, place + 1
    raise ValueError(f"a macro's bracket is not closed: {source[start : start + 40]}")


@lru_cache(maxsize=8)
def _environment(templates: Path, absolute: Path) -> Environment:
    """Return the one environment for a folder: to parse templates takes longer than to fill them in.

    It keeps what it has parsed for as long as the files stay as they are. A relative path is another folder elsewhere.
    """
    return Environment(
        loader=FileSystemLoader(templates),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


COMMON = "common"
VERIFY_BLOCK_SIZE = {"cuda": 256, "opencl": 64}


@dataclass(frozen=True)
class Stream:
    """One configuration of the streaming kernel that measures the floor."""

    n_t: int
    unroll: int

    @property
    def kernel(self) -> str:
        """Its name in the common module; the copy of the same shape has `copy` for `stream`."""
        return f"stream_{self.n_t}_{self.unroll}"


def streams(target: Target) -> list[Stream]:
    """Return the 16 configurations that the floor is the best of.

    On the CPU a work-group is a loop, and pays for being longer than the kernels' own.
    """
    first = 128 if target.dialect == "cuda" else 64
    growth = 2 if target.dialect == "cuda" else 4
    return [Stream(first * growth**i, unroll) for i in range(4) for unroll in (1, 2, 4, 8)]


def render_common(templates: Path, target: Target) -> str:
    """Return the source of the module that every campaign needs: empty kernel, verification, floor, copy."""
    return render_template(
        templates,
        f"{COMMON}/module.j2",
        dialect=target.dialect,
        title="empty kernel, verification, streaming floor, copy",
        verify_n_t=VERIFY_BLOCK_SIZE[target.dialect],
        streams=streams(target),
    )
