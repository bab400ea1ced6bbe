"""Compiling the source of a module, once, to a binary whose name is the hash of all that it depends on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from repro.codegen import nvcc, opencl_build
from repro.codegen.targets import Target
from repro.errors import ReproError

MODULES = Path("modules")


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
    """

    status: str
    hash: str
    compiler: str
    flags: tuple[str, ...]
    binary: str | None = None
    resources: dict[str, dict[str, int]] | None = None
    message: str | None = None

    def save(self, path: Path) -> None:
        """Write the manifest, whole or not at all."""
        _write(path, json.dumps(asdict(self), indent=1).encode() + b"\n")

    @classmethod
    def load(cls, path: Path) -> Module:
        """Read a manifest back.

        Raises
        ------
        ReproError
            It is missing or damaged.
        """
        try:
            data = json.loads(path.read_text())
            return cls(**{**data, "flags": tuple(data["flags"])})
        except FileNotFoundError:
            raise ReproError(
                "no such module",
                where=path,
                todo=f"compile it with `repro compile`, or with all that belongs to it: `snakemake --cores all {path}`",
            ) from None
        except (ValueError, TypeError, KeyError) as error:
            raise ReproError("the manifest of a module is damaged", where=path, actual=error) from None


def compiler_of(target: Target) -> tuple[str, tuple[str, ...]]:
    """Return the compiler's own words on its version, and the flags for a target with those of the environment."""
    if target.dialect == "cuda":
        return nvcc.version(), (*nvcc.flags(target), *environment_of(target))
    return opencl_build.version(), (*opencl_build.FLAGS, *environment_of(target))


def environment_of(target: Target) -> tuple[str, ...]:
    """Return what the compiler for a target reads from the environment, as `NAME=value`; it is not asked."""
    return nvcc.environment() if target.dialect == "cuda" else opencl_build.environment()


def compiler_identity(target: Target) -> list[str]:
    """Return what tells a compiler with its flags from any other, without starting an OpenCL runtime for it."""
    if target.dialect == "cuda":
        name, flags = compiler_of(target)
        return [name, *flags]
    return [*opencl_build.identity(), *opencl_build.FLAGS, *environment_of(target)]


def source_hash(source: str, target: Target) -> str:
    """Return the hash that names the binary of a source: of the source, the compiler and its flags."""
    compiler, flags = compiler_of(target)
    return hashlib.sha256("\0".join([source, target.name, compiler, *flags]).encode()).hexdigest()


def compile_module(source: str, target: Target, manifest: Path, *, record_errors: bool = False) -> Module:
    """Compile a source and write binary and manifest; a binary that is already there is used again.

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
    _write(code, source.encode())
    build: Callable[[Path, Path, Target], dict[str, dict[str, int]]]
    build = nvcc.build if target.dialect == "cuda" else opencl_build.build
    try:
        resources = build(code, binary, target)
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
        module = Module("ok", digest, compiler, flags, str(binary.relative_to(manifest.parent)), resources)
    module.save(manifest)
    return module


CompileError = nvcc.CompileError


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
