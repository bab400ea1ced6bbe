"""Renders kernel templates, including the common module that every campaign needs.

The common module contains an empty kernel, a comparison with a reference, the streaming floor and a copy kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from traceback import extract_tb
from typing import Any

from jinja2 import (
    ChoiceLoader,
    DictLoader,
    Environment,
    FileSystemLoader,
    StrictUndefined,
    TemplateError,
    TemplateSyntaxError,
)

from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.extensions import extension_folders
from repro.package_data import shipped

#: Suffixes of template files and dialect headers in `kernels/`; sources are rendered from these files.
SUFFIXES = (".j2", ".h")
#: Templates that are no files, by name.
TEXTS: dict[str, str] = {}
#: Maximum bytes that a thread loads at once.
LOAD_BYTES = 16
_DEFINITION = re.compile(r"^#define (\w+)(\([\w, ]*\))?[ \t]*(.*)$", re.MULTILINE)
#: Longest line of a rendered source.
MAX_COLUMNS = 120
_OPERATORS = (": ", "? ", "|| ", "&& ", "+ ", "- ", "* ", "/ ")
_CONTINUED = re.compile(r"[ \t]*\\\n[ \t]*")
#: Superfluous blanks in a rendered text, as patterns with replacements: at the end of a line, repeated blank lines, and
#: blank lines after an opening brace or before a closing one.
_STRAY_BLANKS = (
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
    (re.compile(r"\n{3,}"), "\n\n"),
    (re.compile(r"\{\n\n"), "{\n"),
    (re.compile(r"\n\n(?= *\})"), "\n"),
)


def alignment(members: int, scalar_bytes: int) -> int:
    """Return the alignment in bytes of an AoS type: the largest power of two, from 1 to 16, that divides its size."""
    return max(a for a in (1, 2, 4, 8, 16) if members * scalar_bytes % a == 0)


def render_template(templates: Path, name: str, **context: Any) -> str:
    """Render a template of a C source as `render_text` does, and break lines that are too long."""
    return wrap_lines(render_text(templates, name, **context))


def render_text(templates: Path, name: str, **context: Any) -> str:
    """Render a template from a folder, and remove superfluous blanks.

    Raises
    ------
    ReproError
        The template is missing or wrong; the error has the path of the file and the line.
    """
    templates = shipped(templates)
    try:
        text = _environment(templates, templates.absolute()).get_template(name).render(**context)
    except TemplateError as error:
        where = _place(error) or templates / name
        detail = f"{type(error).__name__}: {error.message}"
        raise ReproError("a template cannot be rendered", where=where, actual=detail, todo="correct it") from error
    for blanks, replacement in _STRAY_BLANKS:
        text = blanks.sub(replacement, text)
    return text.rstrip("\n") + "\n"


def _place(error: TemplateError) -> str | None:
    """Return the path and line of a template that an error is about; None if none was reached."""
    if isinstance(error, TemplateSyntaxError):
        return f"{error.filename or error.name}:{error.lineno}"
    # Jinja's tracebacks have the lines of templates; the innermost one may be in a template that another one includes
    frames = [f for f in extract_tb(error.__traceback__) if f.filename.endswith(SUFFIXES)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


def wrap_lines(source: str) -> str:
    """Break the lines of a C source that are longer than `MAX_COLUMNS`.

    Code is broken after a comma, else before an operator, within as few brackets as possible; comments are broken
    between words.
    """
    lines, open_parentheses = [], 0
    for whole in source.split("\n"):
        line, code = whole, whole.partition("//")[0]
        indent = " " * (len(line) - len(line.lstrip()))
        comment = re.match(r" *///? ", line)
        indentation = comment[0] if comment else indent if open_parentheses else indent + "    "
        open_parentheses += code.count("(") - code.count(")")
        while len(line) > MAX_COLUMNS and not line.startswith("#"):
            breaks = [
                candidate
                for candidate in _breaks(line, bool(comment))
                if len(indentation) < candidate[2] <= MAX_COLUMNS
            ]
            if not breaks:
                break
            position = min(breaks, key=lambda candidate: (candidate[0], candidate[1], -candidate[2]))[2]
            lines.append(line[:position])
            line = indentation + line[position + 1 :]
        lines.append(line)
    return "\n".join(lines)


def _breaks(line: str, comment: bool) -> list[tuple[int, int, int]]:
    """Return the blanks at which a line may be broken.

    Each has a bracket depth, the rank of the neighbouring token, and a position.
    """
    if comment:
        return [(0, 0, place) for place, letter in enumerate(line) if letter == " "]
    breaks, depth, in_quotes = [], 0, False
    for place, letter in enumerate(line.partition("//")[0]):
        in_quotes ^= letter == '"'
        if in_quotes:
            continue
        depth += (letter in "([{") - (letter in ")]}")
        if letter == " ":
            ranks = [rank for rank, operator in enumerate(_OPERATORS, 1) if line.startswith(operator, place + 1)]
            breaks += [(depth, rank, place) for rank in ([0] if line[place - 1] == "," else ranks)]
    return breaks


def expand_macros(templates: Path, dialect: str, source: str) -> str:
    """Expand the macros of a dialect's header in a rendered source, so that people can read the source."""
    header = shipped(templates / "dialects" / f"{dialect}.h").read_text("utf-8")
    macros = {
        name: (re.findall(r"\w+", parameters) if parameters else None, text)
        for name, parameters, text in _DEFINITION.findall(_CONTINUED.sub(" ", header))
    }
    macro_use, position = re.compile(rf"\b(?:{'|'.join(macros)})\b"), 0
    source = source.replace(header, "", 1)
    while match := macro_use.search(source, position):
        (parameters, text), start, end = macros[match[0]], *match.span()
        if parameters is not None:
            arguments, end = _arguments(source, end)
            values = dict(zip(parameters, arguments, strict=False))
            text = "".join(str(values.get(word, word)) for word in re.split(r"(\W+)", text))
        if not text:  # an empty macro: also remove its line or the space after it
            line = source.rfind("\n", 0, start) + 1
            statement_end = re.compile(r";?\n").match(source, end)
            if statement_end and not source[line:start].strip():
                start, end = line, statement_end.end()
            elif source.startswith(" ", end):
                end += 1
        text = re.sub(r"^_Pragma\(#(.*)\)$", r"#pragma \1", text)
        source, position = source[:start] + text + source[end:], start
    return source


def _arguments(source: str, start: int) -> tuple[list[str], int]:
    """Return the arguments of a macro call with its bracket at `start`, and the position after the closing bracket."""
    depth, begin, arguments = 0, start + 1, []
    for place in range(start, len(source)):
        depth += (source[place] in "([{") - (source[place] in ")]}")
        if depth == 0 or (depth == 1 and source[place] == ","):
            arguments.append(source[begin:place].strip())
            begin = place + 1
        if depth == 0:
            return arguments, place + 1
    raise ValueError(f"a macro's bracket is not closed: {source[start : start + 40]}")


def _folders(templates: Path) -> list[Path]:
    """Return the folders of templates: the given one, and those of extensions.

    Raises
    ------
    ReproError
        A template of an extension has the name of another one.
    """
    folders = [templates, *extension_folders("kernels")]
    if len(folders) == 1:  # called at each rendering; without extensions the folders need not be searched
        return folders
    path_by_name: dict[Path, Path] = {}
    for folder in folders:
        for path in (path for path in folder.rglob("*") if path.suffix in SUFFIXES):
            name = path.relative_to(folder)
            if path_by_name.setdefault(name, path) != path:
                raise ReproError(
                    "two templates have the same name", where=path, actual=path_by_name[name], todo="rename one of them"
                )
    return folders


def template_exists(templates: Path, name: str) -> bool:
    """Return whether a template of this name exists, in the given folder or in an extension."""
    return any((folder / name).exists() for folder in _folders(shipped(templates)))


@lru_cache(maxsize=8)
def _environment(templates: Path, absolute: Path) -> Environment:
    """Return the cached Jinja environment of a folder; `absolute` distinguishes folders with equal relative paths."""
    return Environment(
        loader=ChoiceLoader([FileSystemLoader(_folders(templates)), DictLoader(TEXTS)]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        extensions=["jinja2.ext.do"],
    )


COMMON = "common"
VERIFY_BLOCK_SIZE = {"cuda": 256, "opencl": 64}


@dataclass(frozen=True)
class StreamConfig:
    """One configuration of the streaming kernel, which measures the streaming floor."""

    block_size: int
    #: Number of words that a thread loads at once.
    in_flight: int

    @property
    def kernel(self) -> str:
        """Name of the streaming kernel in the common module; the copy kernel of this configuration is `copy_…`."""
        return f"stream_{self.block_size}_{self.in_flight}"


def streams(target: Target) -> list[StreamConfig]:
    """Return the 16 configurations of the streaming kernel; smaller work-groups on the CPU, where each runs as
    a loop.
    """
    first = 128 if target.dialect == "cuda" else 64
    growth = 2 if target.dialect == "cuda" else 4
    return [StreamConfig(first * growth**i, in_flight) for i in range(4) for in_flight in (1, 2, 4, 8)]


def render_common(templates: Path, target: Target) -> str:
    """Return the source of the common module for a target."""
    return render_template(
        templates,
        f"{COMMON}/module.j2",
        dialect=target.dialect,
        title="empty kernel, verification, streaming floor, copy",
        verify_block_size=VERIFY_BLOCK_SIZE[target.dialect],
        streams=streams(target),
    )
