"""`repro doctor`: what this machine has, and what to install for what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from repro.errors import ReproError
from repro.programs import run_program
from repro.shipped import install, shipped

ROOM = 2 << 30
#: Seconds for a program to say what a library needs.
ANSWERING = 30.0


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes
    ----------
    what
        What was looked for.
    found
        What there is, or why there is nothing.
    good
        Whether it can be used.
    todo
        What to install or to do where it is missing.
    device
        Whether campaigns can run on it.
    """

    what: str
    found: str
    good: bool = True
    todo: str = ""
    device: bool = False


def doctor(
    gpus: Annotated[
        Path | None,
        typer.Option(help="Write which GPUs there are into this file, which REPRO_GPUS names where there are none."),
    ] = None,
) -> None:
    """Say what was found on this machine, and what to install for what is missing; exit with 0 if a device can be used.

    Nothing that is missing is needed by everything: without a GPU campaigns run on the CPU, without a mirror inputs are
    downloaded, without the extra `mesh` no mesh of the papers is rebuilt, unless a mirror has it ready-made.

    Examples:

        repro doctor

        srun --gpus=1 repro doctor --gpus gpus.json
    """
    from repro.cli.columns import BELOW, terminal_width, wrapped

    if gpus is not None:
        from repro.devices.stated import write_gpus

        write_gpus(gpus)
    findings = [finding for check in CHECKS for finding in check()]
    room = max(len(finding.what) for finding in findings)
    width = terminal_width()
    for finding in findings:
        mark, colour = ("ok     ", "green") if finding.good else ("missing", "yellow")
        line, *more = wrapped(finding.found, width, f"{mark}  {finding.what:{room}}  ", len(mark) + room + 4)
        typer.echo(f"{typer.style(mark, fg=colour)}{line.removeprefix(mark)}")
        if finding.todo:
            more += wrapped(finding.todo, width, f"{'':9}to do: ", 9 + len("to do: "))
        for line in more:
            typer.echo(line)
    usable = [finding.what for finding in findings if finding.device and finding.good]
    if not usable:
        raise ReproError(
            "no device can be used",
            todo=f"for the CPU of any machine: {install('cpu')}; for an NVIDIA GPU: its driver, then {install('cuda')}",
        )
    typer.echo()
    for line in wrapped(f"campaigns can run here: {', '.join(usable)}", width, indent=BELOW):
        typer.echo(line)


def check_python() -> Iterator[Finding]:
    """Python, and the campaign's folder."""
    from repro import __version__

    yield Finding("Python", f"{platform.python_version()} at {sys.executable}")
    yield Finding("sparse-repro", __version__)
    config = shipped("config/config.yaml")
    from repro.config import load

    try:
        campaign = load(config)
        yield Finding("configuration", f"{config}: campaign {campaign.campaign}, device {campaign.device}")
    except ReproError as error:
        yield Finding("configuration", str(error), False, f"correct {config}")


def check_cuda() -> Iterator[Finding]:
    """GPUs, the driver, the compiler and cuSPARSE."""
    from repro.codegen import nvcc
    from repro.devices.detect import find_gpus

    gpus, compiler = find_gpus(), nvcc.find()
    launcher = find_spec("pycuda") is not None
    for gpu in gpus:
        lacking = [name for name, part in (("PyCUDA", launcher), ("nvcc", compiler)) if not part]
        yield Finding(
            f"cuda:{gpu.ordinal}",
            f"{gpu.name}, {gpu.capability}, driver {_driver()}" + f"; lacks {' and '.join(lacking)}" * bool(lacking),
            not lacking,
            install("cuda") if lacking else "",
            device=True,
        )
    if not gpus:
        asked = find_spec("pynvml") is not None
        why = "no NVIDIA driver answers" if asked else "nvidia-ml-py is not installed, so none was looked for"
        todo = "on a machine with an NVIDIA GPU: " + ("install its driver" if asked else install("cuda"))
        yield Finding("GPU", why, False, todo)
    if compiler:
        try:
            yield Finding("nvcc", f"{nvcc.version()} at {compiler}")
        except ReproError as error:
            found = f"{error.what}: {error.actual}, at {compiler}"
            yield Finding("nvcc", found, False, str(error.todo))
    else:
        todo = "for GPUs: the CUDA toolkit, or pip install nvidia-cuda-nvcc"
        yield Finding("nvcc", "not on PATH, in CUDA_HOME or in the pip packages", False, todo)
    yield _cusparse()


def _driver() -> str:
    try:
        import pynvml

        version = pynvml.nvmlSystemGetDriverVersion()
    except Exception as error:  # whatever NVML has to say, it is no reason to stop looking
        return f"unknown ({error})"
    return version.decode() if isinstance(version, bytes) else str(version)


def _cusparse() -> Finding:
    if find_spec("nvmath") is None:
        return Finding("cuSPARSE", "nvmath-python is not installed", False, f"for GPUs: {install('cuda')}")
    try:
        from nvmath.bindings import cusparse

        version = ".".join(str(cusparse.get_property(part)) for part in range(3))
    except Exception as error:  # nvmath raises its own kinds where driver or library are missing
        return Finding("cuSPARSE", _first_line(error), False, f"for GPUs: the driver, then {install('cuda')}")
    from repro.sparse.library.cusparse_op import lacks_spmvop

    lacking = lacks_spmvop(version)
    return Finding("cuSPARSE", f"{version} through nvmath-python" + (f"; {lacking}" if lacking else ""))


def check_opencl() -> Iterator[Finding]:
    """The CPU through OpenCL."""
    from repro.codegen import opencl_runtime

    library = opencl_runtime.find_library()
    yield Finding(
        "OpenCL runtime",
        str(library) if library else "no pip-installed CPU runtime in this environment",
        library is not None,
        "" if library else f"{install('cpu')}, or a runtime of the system such as pocl-opencl-icd",
    )
    try:
        devices = opencl_runtime.find_devices()
    except ReproError as error:
        yield Finding("opencl", _first_line(error), False, install("cpu"), device=True)
        return
    for ordinal, device in enumerate(devices):
        yield Finding(f"opencl:{ordinal}", f"{device.name.strip()}, {device.version.strip()}", device=True)


def check_inputs() -> Iterator[Finding]:
    """Mirror and disk."""
    mirror = os.environ.get("REPRO_MIRROR")
    if not mirror:
        yield Finding("mirror", "REPRO_MIRROR is not set: inputs are downloaded from their own sites")
    elif "://" in mirror or Path(mirror).is_dir():
        yield Finding("mirror", mirror)
    else:
        yield Finding(
            "mirror", f"{mirror} is not a folder", False, "set REPRO_MIRROR to a folder or a URL, or unset it"
        )
    free = shutil.disk_usage(Path.cwd()).free
    yield Finding(
        "disk",
        f"{free / 2**30:.1f} GiB free in {Path.cwd()}",
        free > ROOM,
        "" if free > ROOM else "make room: `repro plan` says how much a campaign needs",
    )


def check_mesh() -> Iterator[Finding]:
    """The extra that rebuilds the papers' tetrahedral meshes."""
    from repro.problems.recipes.packages import GMSH_LIBRARIES

    for name in ("gmsh", "tetgen", "pymeshfix", "fast-simplification"):
        if find_spec(name.replace("-", "_")) is None:
            yield Finding(name, "not installed", False, f"to rebuild the papers' meshes: {install('mesh')}")
        elif name == "gmsh" and (lacking := missing_libraries()):
            todo = f"on Debian or Ubuntu: apt-get install {' '.join(GMSH_LIBRARIES)}"
            yield Finding(name, f"lacks {', '.join(lacking)}", False, todo)
        else:
            from importlib.metadata import version

            yield Finding(name, version(name))


def missing_libraries() -> list[str]:
    """Return the shared libraries that gmsh needs and this system lacks."""
    for folder in (Path(sys.prefix, "lib"), Path(sys.prefix, "Lib")):
        for library in sorted(folder.glob("libgmsh.so*")):
            try:
                said = run_program(["ldd", library], ANSWERING, "ldd").output
            except ReproError:  # nobody knows what gmsh lacks; importing it will say
                return []
            return [line.split()[0] for line in said.splitlines() if "not found" in line]
    return []


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_python,
    check_cuda,
    check_opencl,
    check_inputs,
    check_mesh,
)
