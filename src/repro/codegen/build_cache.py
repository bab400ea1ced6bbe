"""Compiled modules: a source is compiled once; its binary is named by the hash of all that it depends on."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from repro.atomic_write import write_whole
from repro.codegen import nvcc, opencl_runtime
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.untrusted_files import parse_json, read_file, shown

MODULES = Path("modules")
#: Bytes of a binary.
MAX_BINARY_BYTES = 1 << 30


def manifest_path(target: str, study: str, key: str, modules: Path = MODULES) -> Path:
    """Return where the manifest of a study's module of that key lies."""
    return modules / target / study / f"{key}.json"


@dataclass(frozen=True)
class Module:
    """A compiled module, or the record that it does not compile.

    Attributes
    ----------
    status
        `ok` or `compile_error`.
    hash
        SHA-256 of source, compiler and flags.
    compiler, flags
        What made it; after the compiler's flags those that it reads from the environment, as `NAME=value`.
    binary
        The file, relative to the manifest's folder; None where there is none.
    resources
        For each kernel its `registers` and `spills` (bytes a thread); empty on the CPU.
    message
        The compiler's first error.
    binary_digest
        SHA-256 of the binary's content; None where there is no binary, or nobody took it.
    """

    status: str
    hash: str
    compiler: str
    flags: tuple[str, ...]
    binary: str | None = None
    resources: dict[str, dict[str, int]] | None = None
    message: str | None = None
    binary_digest: str | None = None

    def save(self, path: Path) -> None:
        """Write the manifest, whole or not at all."""
        write_whole(path, json.dumps(asdict(self), indent=1).encode() + b"\n")

    @classmethod
    def load(cls, path: Path) -> Module:
        """Read a manifest back.

        Raises
        ------
        ReproError
            It is missing or damaged.
        """
        content = _content(path)
        if content is None:
            raise ReproError(
                "no such module",
                where=path,
                actual="something else of that name, or a file that cannot be read" if os.path.lexists(path) else None,
                todo=f"compile it with `repro compile`, or with all that belongs to it: `snakemake --cores all {path}`",
            )
        try:
            module = _reader().validate_python(parse_json(content))
            if module.binary is not None and not _BINARY.fullmatch(module.binary):
                raise ValueError(f"binary: {shown(module.binary)}, and not a file in objects/")
            return module
        except ValidationError as error:
            first = error.errors()[0]
            raise _damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}") from None
        except ValueError as error:
            raise _damaged(path, error) from None


#: A file's name is of a hash, and never leads elsewhere.
_BINARY = re.compile(r"objects/[A-Za-z0-9_]{1,100}\.[a-z]{1,10}")


@cache
def _reader() -> TypeAdapter[Module]:
    return TypeAdapter(Module)


def _damaged(path: Path, reason: object) -> ReproError:
    return ReproError(
        "the manifest of a module is damaged",
        where=path,
        actual=shown(reason),
        todo="delete it and compile the module again",
    )


def compiler_of(target: Target) -> tuple[str, tuple[str, ...]]:
    """Return the compiler's own words on its version, and the flags for a target with those of the environment."""
    if target.dialect == "cuda":
        return nvcc.version(), (*nvcc.flags(target), *environment_of(target))
    return opencl_runtime.compiler_version(), (*opencl_runtime.FLAGS, *environment_of(target))


def environment_of(target: Target) -> tuple[str, ...]:
    """Return what the compiler for a target reads from the environment, as `NAME=value`; it is not asked."""
    return nvcc.environment() if target.dialect == "cuda" else opencl_runtime.environment()


def compiler_identity(target: Target) -> list[str]:
    """Return what tells a compiler with its flags from any other, without starting an OpenCL runtime for it."""
    if target.dialect == "cuda":
        name, flags = compiler_of(target)
        return [name, *flags]
    return [*opencl_runtime.build_identity(), *opencl_runtime.FLAGS, *environment_of(target)]


def source_hash(source: str, target: Target) -> str:
    """Return the hash that names the binary of a source: of the source, the compiler and its flags."""
    compiler, flags = compiler_of(target)
    return hashlib.sha256("\0".join([source, target.name, compiler, *flags]).encode()).hexdigest()


def compiled_before(source: str, target: Target, manifest: Path) -> Module | None:
    """Return what a manifest says was compiled of a source, if the binary is as it was made; nothing is written.

    Where there is no CUDA compiler to ask for its version, the source alone tells whether it is the same.
    """
    try:
        module = Module.load(manifest)
    except ReproError:
        return None
    binary = manifest.parent / str(module.binary)
    digest = _digest(binary)
    if module.status != "ok" or digest is None or module.binary_digest not in (None, digest):
        return None
    if target.dialect == "cuda" and nvcc.find() is None:
        same = _content(binary.with_suffix(".cu")) == source.encode()
    else:
        same = module.hash == source_hash(source, target)
    return module if same else None


def compile_module(source: str, target: Target, manifest: Path, *, record_errors: bool = False) -> Module:
    """Compile a source and write binary and manifest; a binary that is already there, undamaged, is used again.

    Parameters
    ----------
    source
        What `render` returned.
    target
        What to compile for.
    manifest
        JSON file to write; source and binary go to a folder `objects` beside it.
    record_errors
        Write a manifest of status `compile_error` instead of raising.

    Raises
    ------
    ReproError
        The compiler is missing, or it refuses the source: the module and its first error are named.
    """
    compiler, flags = compiler_of(target)
    digest = source_hash(source, target)
    objects = manifest.parent / "objects"
    suffix = ".cubin" if target.dialect == "cuda" else ".clbin"
    binary = objects / f"{digest[:20]}{suffix}"
    code = objects / f"{digest[:20]}{'.cu' if target.dialect == 'cuda' else '.cl'}"
    write_whole(code, source.encode())
    try:
        resources = _build(code, binary, target)
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
    """A binary is not what was compiled, or it is gone; the message says which."""


def check_binary(binary: Path) -> None:
    """Hold a binary against the digest in the manifests that name it, before anything loads it.

    One that does not fit is deleted, and those manifests say so from now on, in place of their status `ok`: nothing
    loads it again, and the next compiling makes it anew. Manifests without a digest are not held to any.

    Parameters
    ----------
    binary
        The file, in a folder `objects` beside the manifests.

    Raises
    ------
    DamagedBinary
    """
    digest = _digest(binary)
    modules = _modules_of(binary)
    if digest is not None and all(module.binary_digest in (None, digest) for module in modules.values()):
        return
    message = f"damaged: {binary} is {'gone' if digest is None else 'not what was compiled'}; compile it again"
    for manifest, module in modules.items():
        replace(module, status="compile_error", binary=None, binary_digest=None, message=message).save(manifest)
    for path in _made(binary):
        with suppress(IsADirectoryError):  # which the next compiling says is in its way
            path.unlink(missing_ok=True)
    raise DamagedBinary(message)


def _modules_of(binary: Path) -> dict[Path, Module]:
    """Return the modules that a binary is of, by their manifests."""
    folder, modules = binary.parent.parent, {}
    for manifest in folder.glob("*.json"):
        with suppress(ReproError):  # a manifest that cannot be read says nothing of this binary
            module = Module.load(manifest)
            if module.binary and folder / module.binary == binary:
                modules[manifest] = module
    return modules


def _build(code: Path, binary: Path, target: Target) -> dict[str, dict[str, int]]:
    """Build a binary unless it is there as it was made; return registers and spills of each kernel."""
    build: Callable[[Path, Path, Target], dict[str, dict[str, int]]]
    build = nvcc.build if target.dialect == "cuda" else opencl_runtime.build
    *files, sums = _made(binary)
    if not binary.is_file() or _content(sums) != _sums(files):
        with tempfile.TemporaryDirectory(prefix=".", dir=binary.parent) as folder:
            build(code, Path(folder, binary.name), target)
            for path in files:
                if (made := Path(folder, path.name)).exists():
                    made.replace(path)
        write_whole(sums, _sums(files))
    return build(code, binary, target)


def _made(binary: Path) -> tuple[Path, Path, Path]:
    """Return the files of a binary: itself, the compiler's log (none on the CPU), the digests of both."""
    return binary, binary.with_suffix(".log"), binary.with_suffix(".sha256")


def _sums(files: list[Path]) -> bytes:
    """Return the digests of files as `sha256sum` writes them, of those that are there."""
    return "".join(f"{digest}  {path.name}\n" for path in files if (digest := _digest(path))).encode()


def _digest(path: Path) -> str | None:
    """Return the SHA-256 of a file's content; None where there is no file."""
    content = _content(path)
    return None if content is None else hashlib.sha256(content).hexdigest()


def _content(path: Path) -> bytes | None:
    """Return a file's content; None where there is no file, something else of that name, or one that cannot be read."""
    try:
        return read_file(path, MAX_BINARY_BYTES)
    except OSError:
        return None


CompileError = nvcc.CompileError
