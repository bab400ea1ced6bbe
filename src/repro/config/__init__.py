"""The configuration of a campaign, from files: later ones override earlier ones, and all override defaults.

A key that no file names has the default of the model or, in a study's settings, that of
`config/studies/<study>.yaml`. A study that no file names is not run. YAML is written by people: every way in which
a file can be malformed becomes one message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml._yaml import CParser
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.resolver import Resolver

from repro.config.models import Config, StudySettings
from repro.errors import ReproError
from repro.package_data import shipped

#: A file of more bytes is no configuration.
MAX_BYTES = 4 << 20
#: Nested deeper than this nothing is that a configuration can mean.
MAX_DEPTH = 50
#: Values of a file once each alias stands for a copy of its anchor's; the registry has some thousands.
MAX_VALUES = 100_000
#: Bits of an integer, its sign aside: more are nothing that the frame can count with, or print.
MAX_INTEGER_BITS = 63

_CORRECT = "correct the file's syntax"


def read_yaml(path: Path, what: str = "configuration file") -> Any:
    """Parse one YAML file in UTF-8; None where it is empty.

    Parameters
    ----------
    path
        The file.
    what
        What it is, for messages.

    Raises
    ------
    ReproError
        The file is missing, is no file, cannot be read, is too large, or is not YAML in UTF-8; it has a key twice in a
        mapping, is nested too deeply, or has aliases of aliases that stand for too many values. The message has line
        and column, where there is one.
    """
    try:
        loader = _Loader(_read_text(path, what))
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        detail = " ".join(str(error).replace("<unicode string>", path.name).split())
        raise ReproError("unreadable YAML", where=path, actual=detail, todo=_CORRECT) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ReproError("unreadable YAML", where=path, actual=" ".join(str(error).split()), todo=_CORRECT) from None


def _read_text(path: Path, what: str) -> str:
    try:
        if path.is_file():
            size = path.stat().st_size
            if size > MAX_BYTES:
                raise ReproError(
                    f"too large for a {what}",
                    where=path,
                    expected=f"at most {MAX_BYTES:,} bytes",
                    actual=f"{size:,} bytes",
                )
            return path.read_bytes().decode("utf-8-sig")
        if path.exists():
            kind = "a folder" if path.is_dir() else "a pipe or a device"
            raise ReproError(f"no {what}", where=path, expected="a regular file", actual=kind, todo="name a YAML file")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ReproError(
            "unreadable YAML",
            where=path,
            expected="text in UTF-8",
            actual=f"byte {error.object[error.start]:#04x} in line {line}",
            todo="save the file in UTF-8",
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise ReproError(f"the {what} cannot be read", where=repr(str(path)), actual=reason) from None
    raise ReproError(f"no such {what}", where=path)


class _Loader(Composer, CParser, SafeConstructor, Resolver):
    """A safe loader that refuses what PyYAML lets pass, or fails at with other exceptions than its own.

    Parsed by libyaml: a registry of 3,000 problems takes a third of the time.
    """

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        Resolver.__init__(self)
        self._depth = 0
        # of each node composed, the values that it stands for; a node lives as long as the document's root
        self._values: dict[int, int] = {}
        self._lines: dict[int, int] = {}

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        """Compose a node, counting how deep it lies and how many values it stands for."""
        event = self.peek_event()
        assert event is not None  # a node is composed where an event says so
        alias = event.anchor if isinstance(event, yaml.AliasEvent) else None
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _refusal(f"nested more than {MAX_DEPTH} deep", event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is None:
            return None
        if alias is not None and id(node) not in self._values:
            raise _refusal(f"the alias *{alias} stands in what it stands for", event.start_mark)
        if alias is None:
            self._values[id(node)] = 1 + sum(self._values[id(part)] for part in _parts(node))
        if self._values[id(node)] > MAX_VALUES:
            raise _refusal(f"its aliases stand for more than {MAX_VALUES:,} values", event.start_mark)
        return node

    def flatten_mapping(self, node: MappingNode) -> None:
        """Refuse a key that is there twice, before what `<<` brings is put beside the mapping's own keys."""
        # a mapping that others merge is flattened each time: the second time its `<<` is gone
        if id(node) not in self._lines:
            self._lines[id(node)] = node.start_mark.line
            self._refuse_twice(node)
        super().flatten_mapping(node)

    def _refuse_twice(self, node: MappingNode) -> None:
        keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, ScalarNode)]
        twice = next((key for key, count in Counter(keys).items() if count > 1), None)
        if twice is not None:
            marks = [key.start_mark for key, _ in node.value if (key.tag, key.value) == twice]
            lines = " and ".join(str(mark.line + 1) for mark in marks)
            raise _refusal(f"the key {twice[1]!r} is there twice, in lines {lines}", marks[1])

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        """Construct a value; one that has the form of a number or a date and is none is PyYAML's own error."""
        try:
            value = super().construct_object(node, deep)
        except (ValueError, ArithmeticError, LookupError, AttributeError) as error:
            tag = node.tag.rpartition(":")[2]
            raise _refusal(f"not of the form of !!{tag} ({str(error).partition(';')[0]})", node.start_mark) from None
        if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
            raise _refusal(f"an integer of more than {MAX_INTEGER_BITS} bits", node.start_mark)
        return value


def _parts(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, SequenceNode) else []


def _refusal(problem: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, mark)


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
        words.setdefault(key, []).append(f"{message} (is {shorten(repr(item['input']))})")
    deepest = [key for key in words if not any(other[: len(key)] == key and other != key for other in words)]
    return [f"{shorten('.'.join(key)) or '(top level)'}: {' or '.join(dict.fromkeys(words[key]))}" for key in deepest]


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


def shorten(text: str) -> str:
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
                actual=shorten(str(name)),
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
            actual=shorten(repr(asked)) if asked else "none",
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
            actual=shorten(repr(over)),
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
            actual=shorten(repr(content)),
        )
    return content


__all__ = ["Config", "StudySettings", "load", "resolve"]
