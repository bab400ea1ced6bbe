"""Safe reading of files from untrusted folders: only regular files, and JSON with limits.

Campaigns are copied between machines, so any file may be replaced by a pipe (reading blocks) or a device (reading never
ends), and JSON may contain deep nesting, duplicate keys or non-finite numbers.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import cache
from itertools import accumulate
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

#: Size limit in bytes for a record or receipt; the program itself writes at most some hundred thousand.
MAX_RECORD_BYTES = 64 << 20
#: Maximum nesting in JSON.
MAX_JSON_DEPTH = 100
#: Maximum nesting of folders; problem names, whose parts become folders, have less than half as many parts.
MAX_FOLDER_DEPTH = 300
#: Maximum number of characters of a quoted text in a message.
MAX_QUOTED = 200
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
}


def kind_of(mode: int) -> str | None:
    """Return the kind of a path in words (such as a folder or a pipe), given its `st_mode`; None for a regular file."""
    kind = stat.S_IFMT(mode)
    return None if kind == stat.S_IFREG else _KINDS.get(kind, "something else")


def open_file(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file, or a link to one, and return its descriptor; `flags` as for `os.open`.

    Raises `OSError`: the file does not exist, is not regular, or may not be opened; or the path is invalid.
    """
    try:
        # check before opening, because opening a device file may already have side effects
        _refuse_other(path, path.stat().st_mode)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    except ValueError as error:  # a null byte
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        _refuse_other(path, os.fstat(file).st_mode)
    except OSError:
        os.close(file)
        raise
    return file


def _refuse_other(path: Path, mode: int) -> None:
    if kind := kind_of(mode):
        # IsADirectoryError for a folder, as by opening one for writing
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EOPNOTSUPP
        raise OSError(number, f"{kind} in place of a file", str(path))


#: Bytes to read at a time beyond a file's size.
_PIECE = 1 << 20


def read_file(path: Path, max_bytes: int = MAX_RECORD_BYTES) -> bytes:
    """Return the content of a regular file of at most `max_bytes` bytes; errors as `open_file`, or EFBIG."""
    with os.fdopen(open_file(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        # no `read(max_bytes + 1)`, which first allocates so many bytes
        content = b"" if size > max_bytes else file.read(size + 1)
        while size < len(content) <= max_bytes and (piece := file.read(_PIECE)):  # it grows, or is one of /proc
            content += piece
    if max(size, len(content)) > max_bytes:
        raise OSError(errno.EFBIG, f"more than {max_bytes:,} bytes", str(path))
    return content


def read_text(path: Path, max_bytes: int = MAX_RECORD_BYTES) -> str:
    """Return the text of a regular file in UTF-8, with replacement characters for other bytes."""
    return read_file(path, max_bytes).decode(errors="replace")


def read_json(path: Path) -> Any:
    """Return the content of a regular file in JSON; errors as `read_file` and `parse_json`."""
    return parse_json(read_file(path))


def parse_json(content: bytes, *, finite: bool = True) -> Any:
    """Return the content of JSON in UTF-8; `finite` refuses NaN and infinity.

    Raises `ValueError`: invalid JSON or UTF-8, too deep nesting, a duplicate key, a lone surrogate, or a number beyond
    64 bits.
    """
    if not content.strip():
        raise ValueError("it is empty")
    if content.count(b"[") + content.count(b"{") > MAX_JSON_DEPTH and _depth(content) > MAX_JSON_DEPTH:
        raise ValueError(f"nested more than {MAX_JSON_DEPTH} deep")
    data = (_FINITE if finite else _ANY).decode(content.decode())
    if b"\\ud" in content or b"\\uD" in content:
        json.dumps(data, ensure_ascii=False).encode()  # UnicodeEncodeError is a ValueError
    return data


#: Text without brackets: strings, and everything between brackets and strings.
_NO_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[^\[\]{}"]+', re.DOTALL)


def _depth(content: bytes) -> int:
    """Return the nesting depth of lists and objects, ignoring brackets in strings."""
    steps = ((byte in b"[{") - (byte in b"]}") for byte in _NO_BRACKETS.sub(b"", content))
    return max(accumulate(steps), default=0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        keys = set[str]()
        repeated_key = next(key for key, _ in pairs if key in keys or keys.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {shown(repeated_key, 40)!r} is there twice")
    return data


def _integer(text: str) -> int:
    value = int(text) if len(text) <= 20 else 1 << 63
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{shown(text, 40)} is no integer that 64 bits hold")
    return value


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{shown(text, 40)} is no number that 64 bits hold")
    return value


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no number")


_FINITE = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_refuse)
_ANY = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_number)


def shown(text: object, max_letters: int = MAX_QUOTED) -> str:
    """Return a text for a message: on one line, shortened, without control characters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in str(text)).split())
    return line if len(line) <= max_letters else f"{line[: max_letters - 1]}…"


def files_below(folder: Path, name: str) -> list[Path]:
    """Return the sorted, non-hidden paths below a folder whose name is `name` or has its ending (`*.json`).

    The paths need not be regular files; errors as in `others_below`.
    """
    if not folder.is_dir():
        return []
    ending = name.removeprefix("*")
    files = (path for path, _ in _below(folder) if path.name.endswith(ending))
    return sorted(path for path in files if path.name == name or (ending != name and not path.name.startswith(".")))


def others_below(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield paths below a folder that are neither file nor folder, with their kind; links are not followed.

    Raises `OSError`: a folder cannot be read, or folders are nested too deeply.
    """
    for path, mode in _below(folder):
        if not stat.S_ISDIR(mode) and (kind := kind_of(mode)):
            yield path, kind


def _below(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield all paths below a folder with their modes, without recursion, up to a limited depth."""
    folders = [(folder, 0)]
    while folders:
        parent, depth = folders.pop()
        if depth > MAX_FOLDER_DEPTH:
            raise OSError(errno.ENAMETOOLONG, f"more than {MAX_FOLDER_DEPTH} folders within each other", str(folder))
        with os.scandir(parent) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                mode = entry.stat(follow_symlinks=False).st_mode
                yield Path(entry.path), mode
                if stat.S_ISDIR(mode):
                    folders.append((Path(entry.path), depth + 1))


Data = TypeVar("Data")


def as_dataclass(kind: type[Data], data: object) -> Data:
    """Return parsed JSON as a dataclass; raise `ValueError` with the key of what is missing or of another type.

    Fields are texts, whole numbers, truth values, alternatives, and tuples and dictionaries of these; other keys are
    ignored.
    """
    if not isinstance(data, dict):
        raise ValueError(f"no object, but {shown(data)}")
    hints, values = _hints(kind), {}  # type: ignore[arg-type]
    for item in fields(kind):  # type: ignore[arg-type]
        if item.name in data:
            values[item.name] = _as(hints[item.name], data[item.name], item.name)
        elif item.default is MISSING and item.default_factory is MISSING:
            raise ValueError(f"{item.name}: field required")
    return kind(**values)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _as(hint: Any, value: Any, key: str) -> Any:
    """Return a value as an annotation has it; raise `ValueError` if it does not fit."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (wanted,) = (part for part in parts if part is not NoneType)
        return None if value is None and NoneType in parts else _as(wanted, value, key)
    if origin is tuple and isinstance(value, list):
        return tuple(_as(parts[0], item, f"{key}.{place}") for place, item in enumerate(value))
    if origin is dict and isinstance(value, dict):
        return {name: _as(parts[1], item, f"{key}.{name}") for name, item in value.items()}
    if hint is Any or (origin is Literal and value in parts) or type(value) is hint:
        return value
    expected = " or ".join(map(repr, parts)) if origin is Literal else f"a valid {KINDS[origin or hint]}"
    raise ValueError(f"{key}: input should be {expected}")


KINDS = {str: "string", int: "integer", bool: "boolean", tuple: "tuple", dict: "dictionary"}
