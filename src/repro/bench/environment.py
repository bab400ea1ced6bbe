"""The environment record: hardware, software and versions that affect times. Rows refer to a record by its hash."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from repro import __version__
from repro.bench.records import digest_of
from repro.bench.runnable import Workspace
from repro.codegen.templates import SUFFIXES
from repro.errors import ReproError
from repro.filesystem import write_whole
from repro.package_data import WHEEL_DATA, shipped
from repro.programs import run_program
from repro.untrusted_files import read_file, shown

PACKAGES = (
    "cuda-bindings", "intel-opencl-rt", "jinja2", "numpy", "nvidia-cusparse", "nvmath-python", "pandas", "pycuda",
    "pyopencl", "scipy", "snakemake",
)  # fmt: skip
#: Folder of this package's checkout, if it runs from one.
CHECKOUT = Path(__file__).resolve().parents[3]
#: Timeout in seconds of each git command; network file systems are slow.
ANSWERING = 60.0
_GIT_NAMES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR")


def describe_environment(workspace: Workspace, packages: Sequence[str] = ()) -> dict[str, Any]:
    return {
        **workspace.devices.environment(),
        "compiler": workspace.common.compiler,
        "flags": list(workspace.common.flags),
        "repro": __version__,
        "source": package_hash(),
        **_commit(),
        "python": platform.python_version(),
        **_host(),
        "packages": {name: _installed()[name] for name in (*PACKAGES, *packages) if name in _installed()},
    }


@cache
def _host() -> dict[str, Any]:
    """Return the host's processor, memory and system; None for what the system does not tell.

    `cpus_allowed` are the processors that this process may use. Rows by the host clock depend on all of these.
    """
    model = system = None
    with suppress(OSError):  # no Linux
        lines = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
        model = next((value.strip() for key, _, value in lines if key.strip() == "model name"), None)
    with suppress(OSError):
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    marks = {"docker": "/.dockerenv", "podman": "/run/.containerenv", "apptainer": "/.singularity.d"}
    return {
        "host_cpu": model or platform.processor() or None,
        "host_cpus": os.cpu_count(),
        "cpus_allowed": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "host_memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "os": system or platform.system(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "container": next((name for name, mark in marks.items() if Path(mark).exists()), None),
    }


@cache
def _installed() -> dict[str, str]:
    return {dist.name.lower(): dist.version for dist in distributions()}


def record(environment: Mapping[str, Any], folder: Path) -> str:
    """Write an environment record to `folder` as a file named by its hash, and return the hash.

    A damaged record is deleted, and rows that refer to it are measured again. An unreadable record is kept.
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
    """Return a hash of this package's files and of the kernel templates; it identifies the code even without git.

    `repro.campaign.archive.find_commits` computes the same hash for commits.
    """
    digest = hashlib.sha256()
    for folder, suffixes in ((Path(__file__).parents[1], (".py",)), (shipped(Path("kernels")), SUFFIXES)):
        for path in sorted(path for path in folder.rglob("*") if path.suffix in suffixes):
            digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def checkout() -> Path | None:
    """Return the git checkout that this package runs from; None for an installed wheel, and without git."""
    # An installed package may lie inside another git repository, whose commit would be wrong here.
    with suppress(ReproError):  # git is not installed, or the folder is not in a repository
        if not WHEEL_DATA.is_dir() and Path(_git("rev-parse", "--show-toplevel")) == CHECKOUT:
            return CHECKOUT
    return None


@cache
def _commit() -> dict[str, Any]:
    """Return the git commit of this package's checkout and whether it has changes; empty for an installed wheel."""
    with suppress(ReproError):
        if checkout():
            return {
                "commit": _git("rev-parse", "HEAD"),
                "dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
            }
    return {"commit": None, "dirty": None}


def described_commit() -> str:
    """Return the commit, and whether files differ from it."""
    commit = _commit()
    return f"{commit['commit']}{', with changes' if commit['dirty'] else ''}"


@cache
def commit_refusal() -> str | None:
    """Return why git does not say the commit of this package's checkout; None if it does, or there is no checkout."""
    if WHEEL_DATA.is_dir() or not (CHECKOUT / ".git").exists() or _commit()["commit"]:
        return None
    try:
        _git("rev-parse", "HEAD")
    except ReproError as error:
        return ", ".join(str(part) for part in (error.what, error.actual) if part)
    return f"git takes another folder for the checkout: {_git('rev-parse', '--show-toplevel')}"


def _git(*arguments: str) -> str:
    # Inside a git hook, environment variables point git to the hook's repository.
    environment = {name: value for name, value in os.environ.items() if name not in _GIT_NAMES}
    # Git refuses a checkout of another owner, such as a container's bind mount, since its settings name programs that
    # git runs. We run code of this checkout already, and turn off the one program that `status` may run.
    trusted = ["-c", f"safe.directory={CHECKOUT}", "-c", "core.fsmonitor=false"]
    run = run_program(["git", "-C", str(CHECKOUT), *trusted, *arguments], ANSWERING, "git", environment)
    if run.code:
        raise ReproError("the git command failed", where=CHECKOUT, actual=shown(run.said))
    return run.output.strip()
