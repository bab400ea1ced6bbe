"""From configuration files to a configuration: one stands alone, later ones lie over earlier ones, all over defaults.

A key that no file names has the default of the model or, in a study's settings, that of `config/studies/<study>.yaml`.
A study that no file names is not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from repro.config.models import Config
from repro.config.yaml_file import read_yaml
from repro.errors import ReproError
from repro.shipped import shipped

M = TypeVar("M", bound=BaseModel)
STUDIES = "config/studies"
#: Misfits that a message names, and characters of each value in it.
NAMED, SHOWN = 20, 120
_SCHEMA = "`repro config --schema` writes the schema that editors can check against"


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `over` laid over it, mappings key by key."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def validate(model: type[M], data: Any, where: object, expected: str | None = None) -> M:
    """Build a model from plain data.

    Parameters
    ----------
    model, data
        What to build, and what of.
    where
        The file, for the message.
    expected
        What the file should say; by default the keys of the model, as config/README.md explains them.

    Raises
    ------
    ReproError
        The data does not fit; every misfit is named with its key.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        misfits = _misfits(error, data)
        if len(misfits) > NAMED:
            misfits = [*misfits[:NAMED], f"and {len(misfits) - NAMED} more"]
        keys = ", ".join(model.model_fields)
        raise ReproError(
            "the configuration does not fit",
            where=where,
            expected=expected or f"the keys that config/README.md explains; at the top level {keys}",
            actual="; ".join(misfits),
            todo=_SCHEMA,
        ) from None


def _misfits(error: ValidationError, data: Any) -> list[str]:
    """Return a line for each key that does not fit: of what may be several things, where it came nearest to one."""
    words: dict[tuple[str, ...], list[str]] = {}
    for item in error.errors(include_url=False):
        key = _key(item["loc"], data, missing=item["type"] == "missing")
        message = "unknown key" if item["type"] == "extra_forbidden" else item["msg"].removeprefix("Value error, ")
        words.setdefault(key, []).append(f"{message} (is {shown(repr(item['input']))})")
    deepest = [key for key in words if not any(other[: len(key)] == key and other != key for other in words)]
    return [f"{shown('.'.join(key)) or '(top level)'}: {' or '.join(dict.fromkeys(words[key]))}" for key in deepest]


def _key(location: Sequence[int | str], data: Any, *, missing: bool) -> tuple[str, ...]:
    """Return the keys and indices of a location, without the names that Pydantic gives to what may be there."""
    key = []
    for number, part in enumerate(location, start=1):
        inside = isinstance(part, int) and isinstance(data, Sequence) and not isinstance(data, str)
        if (isinstance(data, Mapping) and part in data) or (inside and int(part) < len(data)):
            data = data[part]
            key.append(str(part))
        elif missing and number == len(location):
            key.append(str(part))
    return tuple(key)


def shown(text: str) -> str:
    """Return as much of a text as a message has room for."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def resolve(data: Mapping[str, Any], where: object = "the configuration") -> Config:
    """Return the configuration with every study's own defaults filled in; a study that is `false` is left out.

    Raises
    ------
    ReproError
        Unknown keys, wrong values, no study, an unknown study or one without problems.
    """
    data = dict(data)
    asked = data.get("studies")
    if asked is not None and not isinstance(asked, Mapping):
        return validate(Config, data, where)
    offered = sorted(path.stem for path in shipped(STUDIES).glob("*.yaml"))
    studies = {}
    for name, over in (asked or {}).items():
        if name not in offered:
            raise ReproError(
                "unknown study",
                where=f"{where}: studies",
                expected=f"one of {', '.join(offered)}",
                actual=shown(str(name)),
            )
        if over is not False:
            studies[name] = _settings(name, over, where)
    if not studies:
        # another mistake may be why, such as settings of a study that stand at the top level
        validate(Config, {**data, "studies": {"any": {}}}, where)
        raise ReproError(
            "the configuration names no study to run",
            where=f"{where}: studies",
            expected=f"at least one of {', '.join(offered)}",
            actual=shown(repr(asked)) if asked else "none",
            todo=f"add `studies: {{{offered[0] if offered else 'STUDY'}: {{}}}}`; a file stands alone, so what another "
            "one names does not count",
        )
    return validate(Config, {**data, "studies": studies}, where)


def _settings(name: str, over: object, where: object) -> dict[str, Any]:
    """Return a study's settings as plain data: its defaults, with what is given laid over."""
    if over is not None and not isinstance(over, Mapping):
        raise ReproError(
            "the configuration does not fit",
            where=f"{where}: studies.{name}",
            expected="a mapping of what differs from the study's defaults, or false",
            actual=shown(repr(over)),
        )
    path = shipped(STUDIES) / f"{name}.yaml"
    defaults = _read_mapping(path)
    if not defaults:
        raise ReproError("empty study", where=path, todo="give it at least `problems:`")
    settings = merge(defaults, over or {})
    if not settings.get("problems"):
        raise ReproError(
            "empty study",
            where=f"{where}: studies.{name}.problems",
            expected="at least one problem",
            actual=settings.get("problems"),
            todo="name a set such as `generated`, or problems",
        )
    return settings


def read(*paths: Path | str) -> dict[str, Any]:
    """Read configuration files, later ones over earlier ones; no default lies under them.

    One that is not there is the package's own of that name, such as `config/config.yaml`.

    Raises
    ------
    ReproError
        One is missing, cannot be read, or is no mapping.
    """
    data: dict[str, Any] = {}
    for path in paths:
        data = merge(data, _read_mapping(shipped(path)))
    return data


def load(*paths: Path) -> Config:
    """Read configuration files, later ones over earlier ones, and resolve the result.

    Raises
    ------
    ReproError
        As `read` and `resolve`.
    """
    return resolve(read(*paths), ", ".join(map(str, paths)))


def _read_mapping(path: Path) -> dict[str, Any]:
    """Return what a file says; nothing where it is empty."""
    content = read_yaml(path)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ReproError(
            "the configuration does not fit",
            where=path,
            expected="a mapping, `key: value` in each line",
            actual=shown(repr(content)),
        )
    return content
