"""Reading configuration files and merging them over the studies' defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from repro.config.models import Config
from repro.errors import ReproError

M = TypeVar("M", bound=BaseModel)
STUDIES = Path("config/studies")


def read_yaml(path: Path) -> Any:
    """Parse one YAML file.

    Raises
    ------
    ReproError
        The file is missing or is not YAML; the message has line and column.
    """
    try:
        return yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise ReproError("no such configuration file", where=path) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        detail = " ".join(str(error).split())
        raise ReproError("unreadable YAML", where=path, actual=detail, todo="correct the file's syntax") from None


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `over` laid over it, mappings key by key."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def validate(model: type[M], data: Any, where: object) -> M:
    """Build a model from plain data.

    Raises
    ------
    ReproError
        The data does not fit; every misfit is named with its key.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = []
        for item in error.errors():
            key = ".".join(str(part) for part in item["loc"]) or "(top level)"
            message = "unknown key" if item["type"] == "extra_forbidden" else item["msg"]
            problems.append(f"{key}: {message} (is {item['input']!r})")
        keys = ", ".join(model.model_fields)
        raise ReproError(
            "the configuration does not fit",
            where=where,
            expected=f"the keys that config/README.md explains; at the top level {keys}",
            actual="; ".join(problems),
            todo="`repro config --schema` writes the schema that editors can check against",
        ) from None


def resolve(data: Mapping[str, Any], where: object = "the configuration") -> Config:
    """Return the configuration with every study's own defaults filled in; a study that is `false` is left out.

    Raises
    ------
    ReproError
        Unknown keys, wrong values, an unknown study or a study without problems.
    """
    data = dict(data)
    asked = data.get("studies")
    if not isinstance(asked, Mapping):
        return validate(Config, data, where)
    studies = {}
    for name, over in asked.items():
        path = STUDIES / f"{name}.yaml"
        if not path.exists():
            offered = ", ".join(sorted(p.stem for p in STUDIES.glob("*.yaml")))
            raise ReproError("unknown study", where=where, expected=f"one of {offered}", actual=name)
        if over is False:
            continue
        if over is not None and not isinstance(over, Mapping):
            raise ReproError(
                "the configuration does not fit",
                where=f"{where}: studies.{name}",
                expected="a mapping of what differs from the study's defaults, or false",
                actual=over,
            )
        defaults = read_yaml(path)
        if not defaults:
            raise ReproError("empty study", where=path, todo="give it at least `problems:`")
        studies[name] = merge(defaults, over or {})
        if not studies[name].get("problems"):
            raise ReproError(
                "empty study",
                where=f"{where}: studies.{name}.problems",
                expected="at least one problem",
                actual=studies[name].get("problems"),
                todo="name a set such as `generated`, or problems",
            )
    return validate(Config, {**data, "studies": studies}, where)


def load(*paths: Path) -> Config:
    """Read configuration files, later ones over earlier ones, and resolve the result."""
    data: dict[str, Any] = {}
    for path in paths:
        content = read_yaml(path)
        if content is not None and not isinstance(content, Mapping):
            raise ReproError("the configuration does not fit", where=path, expected="a mapping", actual=content)
        data = merge(data, content or {})
    return resolve(data, ", ".join(map(str, paths)))
