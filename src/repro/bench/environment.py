"""The environment record: what a time depends on and a table must name; stored once, linked by its hash."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from repro import __version__
from repro.atomic_write import write_whole
from repro.bench.records import digest_of
from repro.bench.workspace import Workspace
from repro.codegen.templates import SUFFIXES
from repro.errors import ReproError
from repro.package_data import PACKED, shipped
from repro.programs import run_program
from repro.untrusted_files import read_file, shown

PACKAGES = (
    "cuda-bindings", "intel-opencl-rt", "jinja2", "numpy", "nvidia-cusparse", "nvmath-python", "pandas", "pycuda",
    "pyopencl", "scipy", "snakemake",
)  # fmt: skip
_CHECKOUT = Path(__file__).resolve().parents[3]
#: Seconds for git, on a file system far away.
ANSWERING = 60.0
_GIT_NAMES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR")


def describe_environment(workspace: Workspace, packages: Sequence[str] = ()) -> dict[str, Any]:
    """Return the environment of measurements: devices, what compiled the modules, code, packages.

    Parameters
    ----------
    packages
        Names of packages that times depend on beside `PACKAGES`.
    """
    return {
        **workspace.devices.environment(),
        "compiler": workspace.common.compiler,
        "flags": list(workspace.common.flags),
        "repro": __version__,
        "source": package_hash(),
        **_commit(),
        "python": platform.python_version(),
        "packages": {name: _installed()[name] for name in (*PACKAGES, *packages) if name in _installed()},
    }


@cache
def _installed() -> dict[str, str]:
    return {dist.name.lower(): dist.version for dist in distributions()}


def record(environment: Mapping[str, Any], folder: Path) -> str:
    """Write an environment record to `folder`, named by its hash; return the hash.

    Records that are not what was written are deleted: rows that are linked to them are measured again. One that cannot
    be read now, by a passing fault of a file system say, stays.
    """
    for path in folder.glob("[!.]*.json"):
        try:
            damaged = digest_of(read_file(path)) != path.stem
        except OSError:
            continue
        if damaged:
            path.unlink(missing_ok=True)
    content = json.dumps(environment, indent=1, sort_keys=True, default=str) + "\n"
    digest = digest_of(content.encode())
    path = folder / f"{digest}.json"
    if not path.exists():
        write_whole(path, content)
    return digest


@cache
def package_hash() -> str:
    """Return the hash of this package's files and of the templates of kernels: what ran, with or without a commit.

    A process looks once, for all the cases of a batch.
    """
    digest = hashlib.sha256()
    for folder, suffixes in ((Path(__file__).parents[1], (".py",)), (shipped(Path("kernels")), SUFFIXES)):
        for path in sorted(path for path in folder.rglob("*") if path.suffix in suffixes):
            digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def _commit() -> dict[str, Any]:
    """Return the commit of the checkout that this package lies in, and whether it has changes; nothing of a wheel."""
    nothing = {"commit": None, "dirty": None}
    try:
        # not whatever repository the current folder is in, nor one that a copy without its own lies in
        if PACKED.is_dir() or Path(_git("rev-parse", "--show-toplevel")) != _CHECKOUT:
            return nothing
        return {
            "commit": _git("rev-parse", "HEAD"),
            "dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        }
    except ReproError:  # there is no git, or it knows of no repository
        return nothing


def _git(*arguments: str) -> str:
    # which name another repository within a hook of one
    environment = {name: value for name, value in os.environ.items() if name not in _GIT_NAMES}
    done = run_program(["git", "-C", str(_CHECKOUT), *arguments], ANSWERING, "git", environment)
    if done.code:
        raise ReproError("git failed", where=_CHECKOUT, actual=shown(done.said))
    return done.output.strip()
