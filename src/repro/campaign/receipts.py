"""Receipts: the inputs and outputs of each finished step of a campaign.

A step is fresh if its planned fingerprint (hash of all inputs) equals the receipt's and its outputs have the recorded
digests. A file is hashed again only if its size, inode, mtime or ctime differs from the recorded ones: the operating
system updates ctime at every write, and no program can set it. Only a write of the same size within one tick of the
file system's clock goes unnoticed.

An input of a step is the code, with package data, on which it depends, found by following imports: after an edit, only
the steps that may run the edited code are repeated.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from repro.errors import ReproError
from repro.extensions import LOADERS, STUDIES, Extension, extensions
from repro.filesystem import write_whole
from repro.package_data import WHEEL_DATA
from repro.untrusted_files import open_file, read_file, shown

if TYPE_CHECKING:
    from grimp import ImportGraph


@cache
def code_hash(*modules: str, root: str = "repro") -> str:
    """Return 16 hex digits of a hash of the files in `code_files`; equal on all machines, cached in the process."""
    files = sorted(code_files(*modules, root=root).items())
    lines = [f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for name, path in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def code_files(*modules: str, root: str = "repro") -> dict[str, Path]:
    """Return the files of all code and package data on which some modules depend, by their paths beside the package.

    Code is the modules, their direct and indirect imports inside `root` (also imports inside functions), and the
    packages that contain them. A plugin package (`repro.plugins`) adds its whole folder. Data are other files of the
    package whose names occur in any of these files. An extension (`repro.extensions`) adds all files of its package and
    their imports from `root`, if `modules` has one of its modules or the code loads extensions of its group.

    Parameters
    ----------
    modules
        Full names. A package stands for all modules below it.
    root
        The package whose files count.
    """
    package = _package(root)
    known_extensions = {
        extension: extension.package for group in (STUDIES, *LOADERS) for extension in extensions(group)
    }
    module_names: set[str] = set()
    for module in modules:
        if module in package.sources:
            module_names |= {module, *package.imports.find_descendants(module)}
        elif module.partition(".")[0] not in known_extensions.values():
            raise ReproError("no such module to compute a hash of", actual=module)
    tops = {module.partition(".")[0] for module in modules}
    counted = {extension for extension, top in known_extensions.items() if top in tops}
    reached_modules = _reachable_modules(package, module_names | _imported_modules(package, counted))
    counted |= {extension for extension in known_extensions if LOADERS.get(extension.group) in reached_modules}
    reached_modules |= _reachable_modules(package, _imported_modules(package, counted))
    own_files = _files_with_data(package, {package.sources[module] for module in reached_modules})
    files = {path.relative_to(package.folder.parent).as_posix(): path for path in own_files}
    return files | {name: path for extension in counted for name, path in extension.files.items()}


def _imported_modules(package: _Package, counted: Iterable[Extension]) -> set[str]:
    """Return the modules of a package that extensions import."""
    imported_names: set[str] = set()
    for path in (path for extension in counted for path in extension.files.values() if path.suffix == ".py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                imported_names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported_names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return imported_names & package.sources.keys()


@dataclass(frozen=True)
class _Package:
    name: str
    folder: Path
    imports: ImportGraph
    sources: Mapping[str, Path]
    data: tuple[Path, ...]


@cache
def _package(name: str) -> _Package:
    import grimp

    spec = find_spec(name)
    assert spec and spec.origin
    folder = Path(spec.origin).parent
    # no cache on disk: reading all files takes less than 0.1 s
    imports = grimp.build_graph(name, exclude_type_checking_imports=True, cache_dir=None)
    sources = {
        ".".join(parts[:-1] if parts[-1] == "__init__" else parts): path
        for path in folder.rglob("*.py")
        if all(map(str.isidentifier, parts := path.relative_to(folder.parent).with_suffix("").parts))  # no backup files
    }
    for path in sources.values():
        # Python imports from such a folder, but the graph omits it, so that edits in it would go unnoticed
        if not (path.parent / "__init__.py").is_file():
            raise ReproError("a folder of modules has no __init__.py", where=path.parent, todo="add one")
    # exclude a wheel's copy of data folders (configurations, templates): these are separate inputs of steps
    data = (
        path
        for path in folder.rglob("*")
        if path.suffix not in (".py", ".pyc") and WHEEL_DATA not in path.parents and path.is_file()
    )
    return _Package(name, folder, imports, sources, tuple(data))


def _reachable_modules(package: _Package, modules: set[str]) -> set[str]:
    reached_modules: set[str] = set()
    pending_modules = set(modules)
    while pending_modules:
        module = pending_modules.pop()
        reached_modules.add(module)
        if module == package.name:
            continue  # the root package imports lazily, and only for users' programs
        imported_modules = package.imports.find_modules_directly_imported_by(module)
        pending_modules |= {module.rpartition(".")[0], *imported_modules}
        if f"{package.name}.plugins" in imported_modules:
            pending_modules |= package.imports.find_descendants(module)
        pending_modules -= reached_modules
    return reached_modules


def _files_with_data(package: _Package, files: set[Path]) -> frozenset[Path]:
    """Add data files that are named in the files, or in data files found so far."""
    data: set[Path] = set()
    pending_files = files
    while pending_files:
        named_files = {name for path in pending_files for name in _names(path)}
        pending_files = {path for path in package.data if path.name in named_files} - data
        data |= pending_files
    return frozenset(files | data)


@cache
def _names(path: Path) -> frozenset[str]:
    """Return all words of a text that can be file names."""
    return frozenset(name.strip(".") for name in re.findall(r"[\w.-]+", path.read_text(errors="ignore")))


VERSION = 1
ABSENT = "absent"
#: Maximum number of characters of a value in a message about a difference.
MAX_VALUE_LENGTH = 60


@dataclass(frozen=True)
class Step:
    """One product of a campaign, with its inputs and outputs."""

    #: Name in messages: `measure compound_spmv dirac_torus double`.
    name: str
    #: Path of the step's receipt.
    receipt: Path
    #: Files that the step writes; the receipt can list more, whose names become known while the step runs.
    outputs: tuple[Path, ...]
    #: Inputs other than files (settings, code hashes, versions), by name.
    values: Mapping[str, Any]
    #: Input files from outside the campaign.
    files: tuple[Path, ...] = ()
    #: Receipts of the steps whose outputs this step reads.
    after: tuple[Path, ...] = ()


@dataclass(frozen=True)
class FileDigest:
    """SHA-256 of a file, and its `stat` values, which detect changes without reading the file."""

    digest: str
    stat: str


@dataclass(frozen=True)
class Receipt:
    """The inputs of a finished step, and the digests of its outputs."""

    step: str
    #: Hash of values, files and earlier steps.
    fingerprint: str
    #: `Step.values`, in the form stored on disk.
    parts: Mapping[str, Any]
    files: Mapping[str, FileDigest]
    #: Hash of the outputs (`Receipt.content`) of each earlier step, by the path of that step's receipt.
    after: Mapping[str, str]
    #: Files that were written.
    outputs: Mapping[str, FileDigest]
    #: Failures that may not recur; the next run makes the step again.
    failed: Sequence[str] = ()
    #: Version of the receipt's file format.
    version: int = VERSION

    @cached_property
    def content(self) -> str:
        """Hash of all outputs, on which later steps depend."""
        return hash_of({path: mark.digest for path, mark in self.outputs.items()})

    def save(self, path: Path) -> None:
        write_whole(path, json.dumps(asdict(self)) + "\n")

    @classmethod
    def load(cls, path: Path) -> Receipt | None:
        """Read a receipt; None if it is absent or damaged."""
        receipt = cls.read(path)
        return receipt if isinstance(receipt, cls) else None

    @classmethod
    def read(cls, path: Path) -> Receipt | str | None:
        """Read a receipt: None if absent; if damaged, a short description of the damage."""
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
        recorded_names = (receipt.step, *receipt.files, *receipt.after, *receipt.outputs)
        return "a null byte in a name" if any("\0" in name for name in recorded_names) else receipt


@cache
def _reader() -> TypeAdapter[Receipt]:
    return TypeAdapter(Receipt)


def hash_of(data: Any) -> str:
    """Return 32 hex digits of the hash of plain data (JSON types); the order of keys does not matter."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()[:32]


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file; `absent` if there is no file."""
    try:
        with os.fdopen(open_file(path), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ABSENT
    except OSError as error:  # an unreadable file differs from every recorded digest
        return f"unreadable: {error.strerror}"


def stat_of(path: Path) -> str:
    """Return a file's `stat` values that change with every write, as text; `absent` if there is no file."""
    try:
        stat = path.stat()
    except OSError:
        return ABSENT
    return f"{stat.st_size} {stat.st_ino} {stat.st_mtime_ns} {stat.st_ctime_ns}"


def file_digest(path: Path, earlier_digest: FileDigest | None = None) -> FileDigest:
    """Return digest and `stat` of a file; the digest is that of `earlier_digest` if the file has not changed since."""
    stat = stat_of(path)  # before reading, so that a write during the read changes the next `stat`
    if earlier_digest is not None and stat == earlier_digest.stat:
        return earlier_digest
    return FileDigest(digest_of(path) if stat != ABSENT else ABSENT, stat)


def files_digest(paths: Iterable[Path]) -> str:
    """Return one hash of the names and contents of files."""
    return cached_digest(tuple(sorted(paths)))


@cache
def cached_digest(paths: tuple[Path, ...]) -> str:
    return hash_of([(str(path), digest_of(path)) for path in paths])


class RunningStep:
    """A step while its outputs are made."""

    def __init__(self, step: Step) -> None:
        earlier_receipts = {path: receipt for path in step.after if (receipt := Receipt.load(path))}
        self._step = step
        self._files = {str(path): file_digest(path) for path in step.files}
        self._after = {
            str(path): earlier_receipts[path].content if path in earlier_receipts else ABSENT for path in step.after
        }
        self._more: list[Path] = []
        self._failed: list[str] = []
        #: Hash of the inputs when the step started.
        self.fingerprint = fingerprint(step.values, self._files, self._after)

    def also(self, *outputs: Path) -> None:
        """Add outputs whose names become known while the step runs."""
        self._more += outputs

    def failed(self, reason: str) -> None:
        """Record a failed part, so that the next run makes the step again."""
        self._failed.append(reason)

    def receipt(self) -> Receipt:
        """Return the receipt for the files as they are now."""
        step = self._step
        outputs = {str(path): file_digest(path) for path in dict.fromkeys((*step.outputs, *self._more))}
        return Receipt(step.name, self.fingerprint, step.values, self._files, self._after, outputs, self._failed)


@contextmanager
def record_step(step: Step) -> Iterator[RunningStep]:
    """Delete a step's receipt, let the body make the outputs, and write the new receipt if all exist."""
    step.receipt.unlink(missing_ok=True)
    running_step = RunningStep(step)
    yield running_step
    receipt = running_step.receipt()
    missing_outputs = [path for path, output in receipt.outputs.items() if output.digest == ABSENT]
    if missing_outputs:
        raise ReproError(
            "a step did not write all of its outputs", where=step.name, expected=", ".join(missing_outputs)
        )
    receipt.save(step.receipt)


def fingerprint(values: Mapping[str, Any], files: Mapping[str, FileDigest], after: Mapping[str, str]) -> str:
    """Return the hash of all inputs of a step."""
    return hash_of([_stored_values(values), {path: file.digest for path, file in files.items()}, after])


def _stored_values(values: Mapping[str, Any]) -> Any:
    """Return values in the form in which a receipt stores them, for example tuples as lists."""
    return json.loads(json.dumps(values, default=str))


def stale_reason(step: Step, receipts: Mapping[Path, Receipt], damages: Mapping[Path, str]) -> str | None:
    """Return a short reason why a step has to be made again; None if it is fresh.

    `receipts` holds the step's own receipt and those of earlier, fresh steps; `damages` describes unreadable receipts.
    """
    receipt = receipts.get(step.receipt)
    if receipt is None:
        damage = damages.get(step.receipt)
        return f"its receipt {step.receipt} is damaged: {damage}" if damage else "it was not finished"
    return next(_input_changes(step, receipt, receipts), None) or next(_output_changes(step, receipt), None)


def _input_changes(step: Step, receipt: Receipt, receipts: Mapping[Path, Receipt]) -> Iterator[str]:
    if receipt.step != step.name:
        yield f"its receipt is of another step, {receipt.step}"
    if receipt.failed:
        yield f"it failed: {_shortened_text(receipt.failed[0])}"
    values = _stored_values(step.values)
    for name in sorted({*values, *receipt.parts}):
        if (old_value := receipt.parts.get(name)) != (new_value := values.get(name)):
            yield f"{name} differs{_difference(old_value, new_value)}"
    if set(receipt.after) != {str(path) for path in step.after}:
        yield "it is made from other steps"
    for earlier_step in step.after:
        if receipt.after.get(str(earlier_step)) != receipts[earlier_step].content:
            yield f"{receipts[earlier_step].step} was made again since"
    if {str(path) for path in step.files} - set(receipt.files):
        yield "it reads files that it did not read before"
    for name, file in receipt.files.items():
        if file_digest(Path(name), file).digest != file.digest:
            yield f"{name} changed"


def _output_changes(step: Step, receipt: Receipt) -> Iterator[str]:
    if {str(path) for path in step.outputs} - set(receipt.outputs):
        yield "it makes other files"
    for name, output in receipt.outputs.items():
        current_digest = file_digest(Path(name), output)
        if current_digest.digest != output.digest:
            yield f"{name} {'is missing' if current_digest.digest == ABSENT else 'is not what was written'}"


def _difference(old_value: Any, new_value: Any, key: str = "") -> str:
    """Describe how two values differ; for mappings, describe the first differing key."""
    if isinstance(old_value, Mapping) and isinstance(new_value, Mapping):
        for name in sorted({*old_value, *new_value}):
            if old_value.get(name) != new_value.get(name):
                return _difference(old_value.get(name), new_value.get(name), f"{key}.{name}" if key else name)
    return f": {key + ' ' if key else ''}{_shortened_text(old_value)} → {_shortened_text(new_value)}"


def _shortened_text(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[: MAX_VALUE_LENGTH - 1]}…"
