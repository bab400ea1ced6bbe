"""Reading YAML files that a person wrote: every way in which one is none is one message."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from yaml._yaml import CParser
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.resolver import Resolver

from repro.errors import ReproError

#: A file of more bytes is no configuration.
LARGEST = 4 << 20
#: Nested deeper than this nothing is that a configuration can mean.
DEEPEST = 50
#: Values of a file once each alias stands for a copy of its anchor's; the registry has some thousands.
MOST_VALUES = 100_000
#: Bits of an integer, its sign aside: more are nothing that the frame can count with, or print.
LONGEST_INTEGER = 63

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
            if size > LARGEST:
                raise ReproError(
                    f"too large for a {what}",
                    where=path,
                    expected=f"at most {LARGEST:,} bytes",
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
        if self._depth > DEEPEST:
            raise _refusal(f"nested more than {DEEPEST} deep", event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is None:
            return None
        if alias is not None and id(node) not in self._values:
            raise _refusal(f"the alias *{alias} stands in what it stands for", event.start_mark)
        if alias is None:
            self._values[id(node)] = 1 + sum(self._values[id(part)] for part in _parts(node))
        if self._values[id(node)] > MOST_VALUES:
            raise _refusal(f"its aliases stand for more than {MOST_VALUES:,} values", event.start_mark)
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
        if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER:
            raise _refusal(f"an integer of more than {LONGEST_INTEGER} bits", node.start_mark)
        return value


def _parts(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, SequenceNode) else []


def _refusal(problem: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, mark)
