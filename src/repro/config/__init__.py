"""Reads YAML configuration files, merges them and validates them against a model.

Every kind of malformed file leads to one error message. Words are read by the core schema of YAML 1.2, where `on`,
`yes`, `1_000`, `12:30:45` and `2020-01-01` are text. By YAML 1.1, as PyYAML and Snakemake read, they are truth values,
numbers and dates.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml._yaml import CParser
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.resolver import BaseResolver

from repro.config.validation_errors import Key, misfits, shown
from repro.errors import MissingFileError, ReproError
from repro.package_data import shipped
from repro.words import nearest_file, similar_file

#: Maximum bytes of a configuration file.
MAX_BYTES = 4 << 20
#: Maximum depth of nested values.
MAX_DEPTH = 50
#: Maximum number of values after aliases are expanded; the registry has some thousands.
MAX_VALUES = 100_000
#: Maximum bits of an integer, not counting the sign.
MAX_INTEGER_BITS = 63

_CORRECT = "correct the file's syntax: `key: value` in each line, an item of a list after `- `, inner lines indented"
#: What is usually wrong in a file, by a part of libyaml's message.
_SLIPS = {
    "mapping values are not allowed": "a line without its colon or the space after it, or two colons in one line",
    "could not find expected ':'": "a line without its colon, or one without a space after it",
    "did not find expected key": "a line that is indented otherwise than the others of its mapping",
    "did not find expected '-'": "a line without its dash, in a list",
    "block sequence entries": "an item of a list in the line of its key: begin a line with it",
    "',' or '}'": "a brace { that is not closed",
    "',' or ']'": "a bracket [ that is not closed",
    "quoted scalar found unexpected end": "a quotation mark that is not closed",
    "cannot start any token": "a value that has to be in quotes, since no value begins with this letter",
    "undefined alias": "a value that has to be in quotes, since * begins the name of an alias",
    "alphabetic or numeric": "a value that has to be in quotes, since * and & begin the names of aliases",
    "unknown escape": "a backslash between double quotes: write single quotes",
    "the tag !": "a tag, which begins with ! and which no configuration has: quote the value",
    "a single document": "a line --- with another document below it: one file is one configuration",
}


def read_yaml(path: Path, subject: str = "configuration file") -> Any:
    """Parse a YAML file in UTF-8; return None if it is empty. Error messages call the file `subject`.

    Raises `ReproError`: the file is missing, unreadable, too large, or not YAML in UTF-8; a mapping repeats a key;
    values are nested too deeply; or expanded aliases give too many values. The message states line and column.
    """
    return _parse(_read_text(path, subject), str(path), _CORRECT)


def _parse(text: str, source: str, todo: str) -> Any:
    """Parse YAML text. Error messages name `source`, with line and column, and what to do."""
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = _start_of_fault(error, text)
        location = f"{source}, line {mark.line + 1}, column {mark.column + 1}" if mark else source
        problem_text = " ".join(part for part in (error.context, error.problem) if part) or str(error)
        if mark and "\t" in "".join(text.split("\n")[mark.line : mark.line + 1])[mark.column : mark.column + 1]:
            problem_text = f"a tab, and YAML indents by spaces ({problem_text})"
        elif slip := next((slip for part, slip in _SLIPS.items() if part in problem_text), None):
            problem_text = f"{slip} ({problem_text})"
        raise ReproError("unreadable YAML", where=location, actual=" ".join(problem_text.split()), todo=todo) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ReproError("unreadable YAML", where=source, actual=" ".join(str(error).split()), todo=todo) from None


def _start_of_fault(error: yaml.MarkedYAMLError, text: str) -> yaml.Mark | None:
    """Return where a fault begins; a line without its colon is noticed at the next one only."""
    mark = error.problem_mark or error.context_mark
    if error.context == "while scanning a simple key":
        return error.context_mark or mark
    if mark is None or "mapping values are not allowed" not in str(error.problem):
        return mark
    ahead: deque[object] = deque(maxlen=1)
    with suppress(yaml.YAMLError):
        ahead.extend(yaml.scan(text))  # libyaml keeps no tokens
    last = ahead[-1] if ahead else None
    return last.start_mark if isinstance(last, yaml.ScalarToken) and last.start_mark.line < mark.line else mark


def _read_text(path: Path, subject: str) -> str:
    try:
        if path.is_file():
            size = path.stat().st_size
            if size > MAX_BYTES:
                raise ReproError(
                    f"the {subject} is too large",
                    where=path,
                    expected=f"at most {MAX_BYTES:,} bytes",
                    actual=f"{size:,} bytes",
                )
            return path.read_bytes().decode("utf-8-sig")
        if path.exists():
            kind = "a folder" if path.is_dir() else "a pipe or a device"
            raise ReproError(
                f"not a {subject}", where=path, expected="a regular file", actual=kind, todo="name a YAML file"
            )
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ReproError(
            "unreadable YAML",
            where=path,
            expected="text in UTF-8",
            actual=f"byte {error.object[error.start]:#04x} in line {line}",
            todo="save the file in UTF-8",
        ) from None
    except (OSError, ValueError) as error:  # ValueError: the path contains a zero byte
        reason = getattr(error, "strerror", None) or error
        raise ReproError(f"the {subject} cannot be read", where=repr(str(path)), actual=reason) from None
    raise ReproError(f"no such {subject}", where=path, actual=nearest_file(path), todo="correct the path")


#: Tags of YAML's own types, which `!!` abbreviates.
_TAGS = "tag:yaml.org,2002:"
#: What an unquoted word is by the core schema of YAML 1.2, if it is no text: the pattern of each type, and the
#: characters with which such a word begins. Merge keys are of YAML 1.1.
_WORDS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    "merge": (r"<<", ["<"]),
}
#: An integer that means the same to every reader. To YAML 1.1 010 is 8 and 0o10 is text.
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII)


def _add_words(resolver: type[BaseResolver]) -> None:
    for name, (pattern, first) in _WORDS.items():
        resolver.add_implicit_resolver(_TAGS + name, re.compile(f"(?:{pattern})$", re.ASCII), first)


class _CoreSchema(BaseResolver):
    """Resolves unquoted words by the core schema of YAML 1.2."""


_add_words(_CoreSchema)


class _Dumper(yaml.SafeDumper):
    """Quotes each text that would be no text without quotes, by YAML 1.1 or 1.2."""


_add_words(_Dumper)


def dump_yaml(value: Any, **options: Any) -> str:
    """Return plain data as YAML, in the order of its keys, which both `read_yaml` and readers of YAML 1.1 read back."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, **options))


class _Loader(Composer, CParser, SafeConstructor, _CoreSchema):
    """A safe YAML loader that also rejects duplicate keys, deep nesting and aliases that expand to too many values.

    It uses libyaml, which needs a third of the time of PyYAML for a registry of 3,000 problems.
    """

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        _CoreSchema.__init__(self)
        self._depth = 0
        # Number of values below each node, by the node's `id`; nodes live as long as the document.
        self._values: dict[int, int] = {}
        self._lines: dict[int, int] = {}

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        """Compose a node; check its depth and the number of values below it."""
        event = self.peek_event()
        assert event is not None  # the composer calls this only if an event is available
        alias = event.anchor if isinstance(event, yaml.AliasEvent) else None
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _refusal(f"nested more than {MAX_DEPTH} deep", event.start_mark)
        tag = getattr(event, "tag", None)
        if tag not in (None, f"{_TAGS}str"):
            raise _refusal(f"the tag {str(tag).replace(_TAGS, '!!')}", event.start_mark)
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
        """Reject duplicate keys before `<<` merges keys of other mappings."""
        # PyYAML calls this method again for every mapping that merges this one, with `<<` already expanded. Only the
        # first call sees the keys as written.
        if id(node) not in self._lines:
            self._lines[id(node)] = node.start_mark.line
            keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, ScalarNode)]
            repeated_key = next((key for key, count in Counter(keys).items() if count > 1), None)
            if repeated_key is not None:
                marks = [key.start_mark for key, _ in node.value if (key.tag, key.value) == repeated_key]
                lines = " and ".join(str(mark.line + 1) for mark in marks)
                raise _refusal(f"the key {repeated_key[1]!r} is there twice, in lines {lines}", marks[1])
        super().flatten_mapping(node)

    def construct_yaml_int(self, node: ScalarNode) -> int:
        """Construct an integer; refuse what other readers take for another number or for text."""
        if not _DECIMAL.fullmatch(node.value):
            refused = "an integer that is not in plain decimal digits, without zeros before it; in quotes it is text"
            raise _refusal(refused, node.start_mark)
        if len(node.value) > MAX_INTEGER_BITS or (value := int(node.value)).bit_length() > MAX_INTEGER_BITS:
            raise _refusal(f"an integer of more than {MAX_INTEGER_BITS} bits", node.start_mark)
        return value

    def construct_yaml_float(self, node: ScalarNode) -> float:
        """Construct a number; refuse a decimal one that is no double-precision number but 0 or infinite."""
        text = node.value.lower()
        if text.endswith(("inf", "nan")):
            return float(text.replace(".", ""))
        value = float(text)
        if math.isinf(value) or (value == 0 and re.search("[1-9]", text.partition("e")[0])):
            raise _refusal("a number beyond the range of double precision", node.start_mark)
        return value

    yaml_constructors: ClassVar[dict[Any, Any]] = {
        **SafeConstructor.yaml_constructors,
        f"{_TAGS}int": construct_yaml_int,
        f"{_TAGS}float": construct_yaml_float,
        f"{_TAGS}merge": SafeConstructor.construct_scalar,  # where it is a value
    }


def _parts(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, SequenceNode) else []


def _refusal(problem_name: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem_name, mark)


M = TypeVar("M", bound=BaseModel)
#: Maximum number of invalid keys in a message.
NAMED = 20
_SCHEMA = "`repro config --schema` writes a schema that editors check by"
#: Source of configuration data: the merged files, or a description such as "the merged campaign".
Source = Sequence[Path] | str


def merge(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in override.items():
        base_value = result.get(key)
        result[key] = (
            merge(base_value, value) if isinstance(base_value, Mapping) and isinstance(value, Mapping) else value
        )
    return result


def validate(model: type[M], data: Any, source: Source, page: str | None = None) -> M:
    """Build a model from plain data, or raise `ReproError` that lists every invalid key, with line and column.

    `page` names what explains the keys if `config/README.md` does not.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        wrong = misfits(error, model, data, lambda key: position(source, key))
        pages = [*dict.fromkeys(page or _explanation(misfit.key) for misfit in wrong)]
        todo = f"{' and '.join(pages)} {'explain' if len(pages) > 1 else 'explains'} each key; {_SCHEMA}"
        if len(wrong) == 1:
            (misfit,) = wrong
            raise ReproError(
                "invalid configuration",
                where=misfit.place if misfit.position else f"{named(source)}: {misfit.place}",
                expected=misfit.expected,
                actual=misfit.actual,
                todo=todo,
            ) from None
        lines = list(map(str, wrong[:NAMED]))
        if len(wrong) > NAMED:
            lines.append(f"and {len(wrong) - NAMED} more")
        raise ReproError(
            f"invalid configuration, in {len(wrong)} places",
            where=named(source),
            actual="\n    ".join(lines),
            todo=todo,
        ) from None


def _explanation(key: Key) -> str:
    """Return the page and section that explain a key of a campaign's configuration."""
    first = key[0] if key else ""
    if first == "rivals":
        return "docs/bring-your-own-kernel.md"
    if first == "studies":
        return f"config/README.md under `studies.<study>{'.timing' if key[2:3] == ('timing',) else ''}`"
    return (
        f"config/README.md under {f'`{first}`' if first in ('device', 'batch', 'fetch', 'limits') else '`Top level`'}"
    )


def named(source: Source) -> str:
    return source if isinstance(source, str) else ", ".join(map(str, source))


def position(source: Source, key: Key) -> str:
    """Return `FILE:LINE:COLUMN: ` of a key; empty if it is in no file.

    The file is the one with the longest beginning of the key; among equal ones the last.
    """
    deepest = 0
    location = ""
    for path in () if isinstance(source, str) else source:
        try:
            depth, mark = _find(path, key)
        except (ReproError, yaml.YAMLError, RecursionError):  # unreadable files are reported elsewhere
            continue
        if mark is not None and depth >= max(deepest, 1):
            deepest, location = depth, f"{path}:{mark.line + 1}:{mark.column + 1}: "
    return location


@contextmanager
def add_place_to_errors(source: Source) -> Iterator[None]:
    """Add file, line and column to errors of the body that name a key, such as `studies.spgemm_amg.problems`.

    Such errors occur in the planning of a valid configuration, for example for a name that is missing in the registry.
    """
    try:
        yield
    except ReproError as error:
        location = str(error.where or "")
        place = position(source, tuple(location.partition(":")[0].split(".")))
        if not place:
            raise
        if isinstance(error, MissingFileError):
            raise with_both_places(error, shipped(place.rsplit(":", 3)[0]).parent).at(f"{place}{location}") from None
        raise error.at(f"{place}{location}") from None


def with_both_places(error: MissingFileError, folder: Path) -> ReproError:
    """Return the error with the two places where a file was looked for that a configuration in `folder` names."""
    path = Path(str(error.path)).expanduser()
    places = dict.fromkeys(Path(os.path.abspath(start), path) for start in (folder, Path()))  # noqa: PTH100
    similar = next(filter(None, map(similar_file, places)), None) if path.suffix else None  # else a folder is meant
    near = f"; did you mean {path.with_name(similar.name)}?" if similar else ""
    return ReproError(
        error.what,
        expected="a path relative to the folder of the configuration or to the current folder",
        actual=f"there is no {' and no '.join(map(str, places))}{near}",
        todo=error.todo,
    )


def _find(path: Path, key: Key) -> tuple[int, Any]:
    """Return the number of leading parts of a key that exist in a YAML file, and the position of the last of them.

    For an item of a list, the position is that of its value.
    """
    loader = _Loader(_read_text(shipped(path), "configuration file"))
    node, mark = loader.get_single_node(), None
    for depth, part in enumerate(key):
        if isinstance(node, MappingNode):
            loader.flatten_mapping(node)
            pairs = [pair for pair in node.value if isinstance(pair[0], ScalarNode) and pair[0].value == part]
            if not pairs:
                return depth, mark
            mark, node = pairs[-1][0].start_mark, pairs[-1][1]
        elif isinstance(node, SequenceNode) and part.isdecimal() and int(part) < len(node.value):
            node = node.value[int(part)]
            mark = node.start_mark
        else:
            return depth, mark
    return len(key), mark


def read(*paths: Path | str) -> dict[str, Any]:
    """Read configuration files without adding defaults; values of later files replace those of earlier ones.

    If a file is missing, the packaged file with this name, such as `config/config.yaml`, is read.
    """
    data: dict[str, Any] = {}
    for path in paths:
        data = merge(data, read_mapping(shipped(path)))
    return data


def read_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Return what `KEY=VALUE …` of Snakemake's `--config` says; a value is read as one in a configuration file."""
    data: dict[str, Any] = {}
    for assignment in assignments:
        key, _, value = assignment.partition("=")
        todo = f"write the value as in a configuration file: `--config '{key}=VALUE'`"
        data = merge(data, {key: _parse(value, f"--config {key}", todo)})
    return data


def resolve_input_path(folder: Path, text: str) -> str:
    """Return the path of an input that a file in `folder` names as `text`: in this folder if it is there, else `text`.

    `text` starts in the current folder then, and so does the result where it lies below that folder.
    """
    current, path = Path.cwd(), Path(os.path.abspath(folder), text)  # noqa: PTH100, `Path.resolve` follows links
    try:
        if Path(text).is_absolute() or path == current / text or not path.exists():
            return text
    except (OSError, ValueError):  # too long, or a zero byte: reported where the path is used
        return text
    return str(path.relative_to(current) if path.is_relative_to(current) else path)


def read_mapping(path: Path) -> dict[str, Any]:
    content = read_yaml(path)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ReproError(
            "invalid configuration",
            where=path,
            expected="a mapping with lines `key: value`",
            actual=shown(content),
            todo="write at least `studies: {NAME: {}}`; `repro list studies` prints the names",
        )
    return content
