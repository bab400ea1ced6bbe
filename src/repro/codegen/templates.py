"""Rendering templates: what every generated source has in common."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

from repro.errors import ReproError
from repro.shipped import shipped

#: Bytes that a thread loads at once, at most.
LOAD_BYTES = 16


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
