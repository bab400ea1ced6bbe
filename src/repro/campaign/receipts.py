"""Receipts: what each step of a campaign was made from, and what it made, written when it is done.

Whether a step has to be made again is decided by its receipt alone, never by times of files. A receipt holds the
step's fingerprint, which is the hash of all that its outputs depend on, and a digest of each output. A step is fresh
where the plan asks for the same fingerprint and its outputs are still what was written.

Hashing every file at every plan would take too long, so a receipt has the mark of each file beside its digest: size,
inode, and the times at which content and inode last changed. Where the mark is as it was, so is the content: the
kernel sets the last of them at each write, and nobody else can.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from repro.atomic_write import write_whole
from repro.errors import ReproError
from repro.untrusted_files import open_file, read_file, shown

VERSION = 1
ABSENT = "absent"
#: Of a message that says what differs.
WORDS = 60


@dataclass(frozen=True)
class Step:
    """One thing that a campaign makes.

    Attributes
    ----------
    name
        For messages: `measure compound_spmv dirac_torus double`.
    receipt
        Where its receipt lies.
    outputs
        What it writes; a receipt can name more, whose names are known only when they are made.
    parts
        By name, as plain data, all that the outputs depend on beside files.
    files
        Files from outside the campaign that it reads.
    after
        Receipts of the steps whose outputs it reads.
    """

    name: str
    receipt: Path
    outputs: tuple[Path, ...]
    parts: Mapping[str, Any]
    files: tuple[Path, ...] = ()
    after: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Mark:
    """A file as it was: the SHA-256 of its content, and what tells without reading it that it has not changed."""

    digest: str
    stat: str


@dataclass(frozen=True)
class Receipt:
    """What a step was made from, and what it made.

    Attributes
    ----------
    step
        Its name.
    fingerprint
        Hash of parts, files and what came before.
    parts, files
        As of the step, files with their marks.
    after
        The content of each step before it, by the path of its receipt.
    outputs
        Every file that it wrote.
    failed
        What of it went wrong and may go well another time; such a step is made again by the next run.
    version
        Of the receipt's form.
    """

    step: str
    fingerprint: str
    parts: Mapping[str, Any]
    files: Mapping[str, Mark]
    after: Mapping[str, str]
    outputs: Mapping[str, Mark]
    failed: Sequence[str] = ()
    version: int = VERSION

    @cached_property
    def content(self) -> str:
        """Hash of all outputs: what a later step depends on."""
        return hash_of({path: mark.digest for path, mark in self.outputs.items()})

    def save(self, path: Path) -> None:
        """Write the receipt, whole or not at all."""
        write_whole(path, json.dumps(asdict(self)) + "\n")

    @classmethod
    def load(cls, path: Path) -> Receipt | None:
        """Read a receipt; None where there is none that can be read, since a damaged one vouches for nothing."""
        receipt = cls.read(path)
        return receipt if isinstance(receipt, cls) else None

    @classmethod
    def read(cls, path: Path) -> Receipt | str | None:
        """Read a receipt: None where there is none, and of one that is damaged a word on how."""
        try:
            receipt = _reader().validate_json(read_file(path), strict=True)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return error.strerror or str(error)
        except ValidationError as error:
            first = error.errors()[0]
            return shown(f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip())
        if receipt.version != VERSION:
            return f"of version {receipt.version}"
        named = (receipt.step, *receipt.files, *receipt.after, *receipt.outputs)
        return "a null byte in a name" if any("\0" in name for name in named) else receipt


@cache
def _reader() -> TypeAdapter[Receipt]:
    """Return what reads receipts; made when the first is."""
    return TypeAdapter(Receipt)


def hash_of(data: Any) -> str:
    """Return the hash of plain data: 32 hex digits, the same for every order of a mapping's keys."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()[:32]


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file's content; `absent` where there is no file."""
    try:
        with os.fdopen(open_file(path), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ABSENT
    except OSError as error:  # not what was written, whatever it is
        return f"unreadable: {error.strerror}"


def stat_of(path: Path) -> str:
    """Return what tells that a file has not changed, without reading it; `absent` where there is no file."""
    try:
        stat = path.stat()
    except OSError:
        return ABSENT
    return f"{stat.st_size} {stat.st_ino} {stat.st_mtime_ns} {stat.st_ctime_ns}"


def mark(path: Path, before: Mark | None = None) -> Mark:
    """Return a file as it is now; its digest is taken from an earlier mark where the file has not changed since."""
    stat = stat_of(path)  # first: what is written while the file is read shows in the next stat
    if before is not None and stat == before.stat:
        return before
    return Mark(digest_of(path) if stat != ABSENT else ABSENT, stat)


def files_digest(paths: Iterable[Path]) -> str:
    """Return one hash of files with their names, for a part that stands for many."""
    return _files_digest(tuple(sorted(paths)))


@cache
def _files_digest(paths: tuple[Path, ...]) -> str:
    return hash_of([(str(path), digest_of(path)) for path in paths])


class Making:
    """A step that is being made.

    Attributes
    ----------
    fingerprint
        Of all that it is made from, as it was when it began.
    """

    def __init__(self, step: Step) -> None:
        before = {path: receipt for path in step.after if (receipt := Receipt.load(path))}
        self._step = step
        self._files = {str(path): mark(path) for path in step.files}
        self._after = {str(path): before[path].content if path in before else ABSENT for path in step.after}
        self._more: list[Path] = []
        self._failed: list[str] = []
        self.fingerprint = fingerprint(step.parts, self._files, self._after)

    def also(self, *outputs: Path) -> None:
        """Name outputs that only making them tells the names of."""
        self._more += outputs

    def failed(self, reason: str) -> None:
        """Say that a part of it went wrong, which the next run should try again."""
        self._failed.append(reason)

    def receipt(self) -> Receipt:
        """Return the receipt of what lies there now."""
        step = self._step
        outputs = {str(path): mark(path) for path in dict.fromkeys((*step.outputs, *self._more))}
        return Receipt(step.name, self.fingerprint, step.parts, self._files, self._after, outputs, self._failed)


@contextmanager
def making(step: Step) -> Iterator[Making]:
    """Take away a step's receipt, let the body make its outputs, and write the new one when they are all there.

    Raises
    ------
    ReproError
        The body left an output out.
    """
    step.receipt.unlink(missing_ok=True)
    made = Making(step)
    yield made
    receipt = made.receipt()
    absent = [path for path, output in receipt.outputs.items() if output.digest == ABSENT]
    if absent:
        raise ReproError("a step did not write all that it should", where=step.name, expected=", ".join(absent))
    receipt.save(step.receipt)


def fingerprint(parts: Mapping[str, Any], files: Mapping[str, Mark], after: Mapping[str, str]) -> str:
    """Return the hash of all that a step is made from."""
    return hash_of([_plain(parts), {path: file.digest for path, file in files.items()}, after])


def _plain(parts: Mapping[str, Any]) -> Any:
    """Return parts as they are read back from a receipt: tuples are lists there."""
    return json.loads(json.dumps(parts, default=str))


def why_stale(step: Step, receipts: Mapping[Path, Receipt], damaged: Mapping[Path, str]) -> str | None:
    """Return why a step has to be made again, in a few words; None where it has not.

    Parameters
    ----------
    step
        As it is planned.
    receipts
        Its own, if there is one, and those of the steps before it, all of which are fresh.
    damaged
        Of those that cannot be read how they are damaged.
    """
    receipt = receipts.get(step.receipt)
    if receipt is None:
        how = damaged.get(step.receipt)
        return f"its receipt {step.receipt} is damaged: {how}" if how else "it was never made to its end"
    return next(_other_inputs(step, receipt, receipts), None) or next(_other_outputs(step, receipt), None)


def _other_inputs(step: Step, receipt: Receipt, receipts: Mapping[Path, Receipt]) -> Iterator[str]:
    if receipt.step != step.name:
        yield f"its receipt is of another step, {receipt.step}"
    if receipt.failed:
        yield f"it failed: {_short(receipt.failed[0])}"
    parts = _plain(step.parts)
    for name in sorted({*parts, *receipt.parts}):
        if (old := receipt.parts.get(name)) != (new := parts.get(name)):
            yield f"{name} differs{_difference(old, new)}"
    if set(receipt.after) != {str(path) for path in step.after}:
        yield "it is made from other steps"
    for before in step.after:
        if receipt.after.get(str(before)) != receipts[before].content:
            yield f"{receipts[before].step} was made again since"
    if {str(path) for path in step.files} - set(receipt.files):
        yield "it reads files that it did not read before"
    for name, file in receipt.files.items():
        if mark(Path(name), file).digest != file.digest:
            yield f"{name} changed"


def _other_outputs(step: Step, receipt: Receipt) -> Iterator[str]:
    if {str(path) for path in step.outputs} - set(receipt.outputs):
        yield "it makes other files"
    for name, output in receipt.outputs.items():
        now = mark(Path(name), output)
        if now.digest != output.digest:
            yield f"{name} {'is missing' if now.digest == ABSENT else 'is not what was written'}"


def _difference(old: Any, new: Any, key: str = "") -> str:
    """Say how two values differ, as far as that is short: of mappings the first key that does."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                return _difference(old.get(name), new.get(name), f"{key}.{name}" if key else name)
    return f": {key + ' ' if key else ''}{_short(old)} → {_short(new)}"


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= WORDS else f"{text[: WORDS - 1]}…"
