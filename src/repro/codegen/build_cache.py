"""Cache of compiled modules: the name of each binary is a hash of source, compiler and flags."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType

from repro.codegen import nvcc, nvrtc, opencl_runtime
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.filesystem import write_whole
from repro.untrusted_files import as_dataclass, parse_json, read_file, read_text, shown

MODULES = Path("modules")
#: Maximum bytes of a binary.
MAX_BINARY_BYTES = 1 << 30


def manifest_path(target: str, study_name: str, key: str, modules: Path = MODULES) -> Path:
    return modules / target / study_name / f"{key}.json"


class MissingModule(ReproError):
    """The manifest of a module cannot be read, since the module was not compiled; `where` is its path."""


@dataclass(frozen=True)
class Module:
    """A compiled module, or the record that compilation failed."""

    #: `ok` or `compile_error`.
    status: str
    #: SHA-256 of source, compiler and flags.
    hash: str
    compiler: str
    #: Command-line flags of the compiler, followed by environment variables it reads, as `NAME=value`.
    flags: tuple[str, ...]
    #: Path of the binary, relative to the folder of the manifest.
    binary: str | None = None
    #: For each kernel, `registers` and `spills` (spilled bytes) per thread; empty on the CPU.
    resources: dict[str, dict[str, int]] | None = None
    #: First error message of the compiler.
    message: str | None = None
    #: SHA-256 of the binary file; None without a binary.
    binary_digest: str | None = None

    @property
    def built(self) -> Module:
        """This module; for a `ModuleOnDemand`, it is compiled at first access."""
        return self

    def save(self, path: Path) -> None:
        write_whole(path, json.dumps(asdict(self), indent=1).encode() + b"\n")

    @classmethod
    def load(cls, path: Path) -> Module:
        """Read a manifest; `MissingModule` if it is missing, `ReproError` if it is damaged."""
        content = _content(path)
        if content is None:
            raise MissingModule(
                "no such module",
                where=path,
                actual="something else of that name, or a file that cannot be read" if os.path.lexists(path) else None,
                todo=f"compile it with `repro compile`, or with all that belongs to it: `snakemake --cores all {path}`",
            )
        try:
            module = as_dataclass(Module, parse_json(content))
            if module.binary is not None and not _BINARY.fullmatch(module.binary):
                raise ValueError(f"binary: {shown(module.binary)}, and not a file in objects/")
            return module
        except ValueError as error:
            raise _damage_error(path, error) from None


class ModuleOnDemand:
    """A module that is compiled when `built` is first read; a compiler error is recorded in `built`."""

    def __init__(self, render: Callable[[], str], target: Target, manifest: Path) -> None:
        self._source, self._target, self._manifest = render, target, manifest

    @cached_property
    def built(self) -> Module:
        return compile_module(self._source(), self._target, self._manifest, record_errors=True)


#: Allowed paths of binaries: only files directly in the folder `objects/`.
_BINARY = re.compile(r"objects/[A-Za-z0-9_]{1,100}\.[a-z]{1,10}")


def _damage_error(path: Path, reason: object) -> ReproError:
    return ReproError(
        "the manifest of a module is damaged",
        where=path,
        actual=shown(reason),
        todo="delete it and compile the module again",
    )


def target_compiler(target: Target) -> tuple[str, tuple[str, ...]]:
    """Return the compiler's version and its flags for a target, including flags from environment variables."""
    if target.dialect == "cuda":
        compiler = _cuda_compiler()
        return compiler.version(), (*compiler.flags(target), *target_environment(target))
    return opencl_runtime.compiler_version(), (*opencl_runtime.FLAGS, *target_environment(target))


def _cuda_compiler() -> ModuleType:
    """Return the module of NVRTC; that of nvcc where NVRTC is not installed, or flags for nvcc are set."""
    return nvrtc if nvrtc.is_installed() and not nvcc.environment() else nvcc


def target_environment(target: Target) -> tuple[str, ...]:
    """Return the environment variables that the compiler for a target reads, as `NAME=value`."""
    return nvcc.environment() if target.dialect == "cuda" else opencl_runtime.environment()


def compiler_identity(target: Target) -> list[str]:
    """Return texts that identify compiler and flags, without starting an OpenCL runtime."""
    if target.dialect == "cuda":
        name, flags = target_compiler(target)
        return [name, *flags]
    return [*opencl_runtime.build_identity(), *opencl_runtime.FLAGS, *target_environment(target)]


def source_hash(source: str, target: Target) -> str:
    """Return the hash of source, compiler and flags, which names the binary."""
    compiler, flags = target_compiler(target)
    return hashlib.sha256("\0".join([source, target.name, compiler, *flags]).encode()).hexdigest()


def compiled_before(source: str, target: Target, manifest: Path) -> Module | None:
    """Return the module in a manifest if the manifest matches the source and the binary is undamaged, else None.

    Without a CUDA compiler, whose version is then unknown, only the source is compared.
    """
    try:
        module = Module.load(manifest)
    except ReproError:
        return None
    binary = manifest.parent / str(module.binary)
    digest = _digest(binary)
    if module.status != "ok" or digest is None or module.binary_digest != digest:
        return None
    if target.dialect == "cuda" and _cuda_compiler() is nvcc and nvcc.find() is None:
        up_to_date = _content(binary.with_suffix(".cu")) == source.encode()
    else:
        up_to_date = module.hash == source_hash(source, target)
    return module if up_to_date else None


def compile_module(source: str, target: Target, manifest: Path, *, record_errors: bool = False) -> Module:
    """Compile a source, unless an undamaged binary exists, and write binary and manifest.

    Source and binary are stored in the folder `objects` next to the manifest. With `record_errors`, a failed
    compilation writes a manifest with status `compile_error`. Raises `ReproError`: the compiler is missing, or the
    source does not compile.
    """
    compiler, flags = target_compiler(target)
    digest = source_hash(source, target)
    objects = manifest.parent / "objects"
    suffix = ".cubin" if target.dialect == "cuda" else ".clbin"
    binary = objects / f"{digest[:20]}{suffix}"
    code = objects / f"{digest[:20]}{'.cu' if target.dialect == 'cuda' else '.cl'}"
    write_whole(code, source.encode())
    try:
        resources = _build_or_reuse(code, binary, target)
    except CompileError as error:
        module = Module("compile_error", digest, compiler, flags, message=str(error))
        if not record_errors:
            raise ReproError(
                "a module does not compile",
                where=f"{manifest} (source {code})",
                actual=error,
                todo="correct the template that it is rendered from",
            ) from None
    else:
        relative = str(binary.relative_to(manifest.parent))
        module = Module("ok", digest, compiler, flags, relative, resources, binary_digest=_digest(binary))
    module.save(manifest)
    return module


class DamagedBinary(Exception):
    """A binary is damaged or missing."""


def check_binary(binary: Path) -> None:
    """Compare a binary with the digests in its manifests before loading it; raise `DamagedBinary` if they differ.

    A damaged binary is deleted, and its manifests get the status `compile_error`, so that it is not loaded until it is
    compiled again.
    """
    digest = _digest(binary)
    modules = _modules_by_path(binary)
    if digest is not None and all(module.binary_digest == digest for module in modules.values()):
        return
    message = f"damaged: {binary} is {'gone' if digest is None else 'not what was compiled'}; compile it again"
    for manifest, module in modules.items():
        replace(module, status="compile_error", binary=None, binary_digest=None, message=message).save(manifest)
    for path in _built_files(binary):
        with suppress(IsADirectoryError):  # the next compilation reports a folder in place of the binary
            path.unlink(missing_ok=True)
    raise DamagedBinary(message)


def _modules_by_path(binary: Path) -> dict[Path, Module]:
    """Return all modules that use a binary, by path of their manifests."""
    folder, modules = binary.parent.parent, {}
    for manifest in folder.glob("*.json"):
        with suppress(ReproError):  # damaged manifests are skipped
            module = Module.load(manifest)
            if module.binary and folder / module.binary == binary:
                modules[manifest] = module
    return modules


def _build_or_reuse(code: Path, binary: Path, target: Target) -> dict[str, dict[str, int]]:
    """Compile a binary, unless an undamaged one exists; return registers and spilled bytes of each kernel."""
    build: Callable[[Path, Path, Target], dict[str, dict[str, int]]]
    build = (_cuda_compiler() if target.dialect == "cuda" else opencl_runtime).build
    *files, sums = _built_files(binary)
    if not binary.is_file() or _content(sums) != _sums(files):
        with tempfile.TemporaryDirectory(prefix=".", dir=binary.parent) as folder:
            start = time.perf_counter()
            build(code, Path(folder, binary.name), target)
            with Path(binary.parent, SECONDS_FILE).open("a") as seconds:
                seconds.write(f"{binary.stem} {time.perf_counter() - start:.2f}\n")
            for path in files:
                if (finished_file := Path(folder, path.name)).exists():
                    finished_file.replace(path)
        write_whole(sums, _sums(files))
    return build(code, binary, target)  # reads the log, since the binary exists


#: File in `objects` with a line for each compilation: name of the binary, and seconds of the compilation.
SECONDS_FILE = "seconds.txt"


def compile_times(target: str, modules: Path = MODULES) -> dict[tuple[str, str], list[float]]:
    """Return the seconds of all compilations on this machine, by study and group (a key without its last part)."""
    times: dict[tuple[str, str], list[float]] = {}
    for path in (modules / target).rglob(f"objects/{SECONDS_FILE}"):
        study, *group = path.relative_to(modules / target).parts[:-2] or ("",)
        with suppress(OSError, ValueError, IndexError):  # these times are optional, and a full disk may have cut a line
            times[study, "/".join(group)] = [float(line.split()[1]) for line in read_text(path).splitlines()]
    return times


def _built_files(binary: Path) -> tuple[Path, Path, Path]:
    """Return the files of a compilation: binary, compiler log (not written on the CPU), and digests of the
    first two.
    """
    return binary, binary.with_suffix(".log"), binary.with_suffix(".sha256")


def _sums(files: list[Path]) -> bytes:
    """Return the digests of existing files in the format of `sha256sum`."""
    return "".join(f"{digest}  {path.name}\n" for path in files if (digest := _digest(path))).encode()


def _digest(path: Path) -> str | None:
    content = _content(path)
    return None if content is None else hashlib.sha256(content).hexdigest()


def _content(path: Path) -> bytes | None:
    """Return the content of a file; None if it cannot be read."""
    try:
        return read_file(path, MAX_BINARY_BYTES)
    except OSError:
        return None


CompileError = nvcc.CompileError
