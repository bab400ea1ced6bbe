"""The command `repro doctor`: which devices, compilers and libraries this machine has, and what to install."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from repro.cli.options import AsJson, print_json
from repro.errors import ReproError
from repro.package_data import DEFAULT_CONFIG, install, shipped
from repro.programs import run_program

MIN_FREE_BYTES = 2 << 30
#: Time limit of `ldd` in seconds.
ANSWERING = 30.0


@dataclass(frozen=True)
class Finding:
    """Result of one check of `repro doctor`."""

    #: Subject of the check, such as a compiler.
    what: str
    #: Result, such as a version, or the reason why the subject is not available.
    found: str
    #: Whether the subject can be used.
    good: bool = True
    #: Advice on what to install if the subject is missing.
    todo: str = ""
    #: Whether the subject is a device that can run campaigns.
    device: bool = False
    #: Whether campaigns on the devices of this machine do not need the subject.
    optional: bool = False


def doctor(
    gpus: Annotated[
        Path | None,
        typer.Option(help="Write the GPUs to this file; on machines without GPUs, REPRO_GPUS names it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print which devices, compilers and libraries this machine has, and what to install; exit with 0 if a device is
    usable.

    Campaigns can run without the missing parts: without a GPU, they run on the CPU; without a mirror, inputs are
    downloaded; without the extra `mesh`, the papers' meshes are not rebuilt but can come from a mirror.

    Examples:

        repro doctor

        repro doctor --json

        srun --gpus=1 repro doctor --gpus gpus.json
    """
    from repro.cli.console import INDENT, terminal_width, wrapped

    if gpus is not None:
        from repro.devices.selection import write_gpus

        write_gpus(gpus)
    findings = [finding for check in CHECKS for finding in check()]
    usable = [finding.what for finding in findings if finding.device and finding.good]
    if as_json:
        print_json({"findings": [asdict(finding) for finding in findings], "usable": usable})
    else:
        _print_findings(findings)
    if not usable:
        raise ReproError(
            "no usable device",
            todo=f"for the CPU: {install('cpu')}; for an NVIDIA GPU: its driver, then {install('cuda')}",
        )
    if not as_json:
        typer.echo()
        for line in wrapped(f"campaigns can run here: {', '.join(usable)}", terminal_width(), indent=INDENT):
            typer.echo(line)


def _print_findings(findings: Sequence[Finding]) -> None:
    """Print a line for each finding, with the advice below it."""
    from repro.cli.console import terminal_width, wrapped

    room = max(len(finding.what) for finding in findings)
    width = terminal_width()
    for finding in findings:
        mark_style = ("optional", "blue") if finding.optional else ("missing ", "yellow")
        mark, colour = ("ok      ", "green") if finding.good else mark_style
        line, *further_lines = wrapped(finding.found, width, f"{mark}  {finding.what:{room}}  ", len(mark) + room + 4)
        typer.echo(f"{typer.style(mark, fg=colour)}{line.removeprefix(mark)}")
        if finding.todo:
            further_lines += wrapped(finding.todo, width, f"{'':10}to do: ", 10 + len("to do: "))
        for line in further_lines:
            typer.echo(line)


def check_python() -> Iterator[Finding]:
    """Check Python and the campaign's folder."""
    from repro import __version__

    yield Finding("Python", f"{platform.python_version()} at {sys.executable}")
    yield Finding("sparse-repro", __version__)
    yield from _commit()
    config_file = shipped(DEFAULT_CONFIG)
    from repro.campaign.configuration import load

    try:
        config = load(config_file)
        yield Finding("configuration", f"{config_file}: campaign {config.campaign}, device {config.device}")
    except ReproError as error:
        yield Finding("configuration", str(error), False, f"correct {config_file}")


def _commit() -> Iterator[Finding]:
    """Check whether git says the commit that is recorded with measurements; an installed wheel has none."""
    from repro.bench.environment import CHECKOUT, checkout, commit_refusal, described_commit

    if reason := commit_refusal():
        todo = f"git config --global --add safe.directory {CHECKOUT}, if git calls its ownership dubious"
        yield Finding("commit", f"is not recorded with measurements: {reason}", False, todo, optional=True)
    elif checkout():
        yield Finding("commit", described_commit())


def check_cuda() -> Iterator[Finding]:
    """Check GPUs, driver, compiler and cuSPARSE."""
    from repro.codegen import nvcc, nvrtc
    from repro.devices.selection import find_gpus, has_bindings

    gpus, compiler, has_nvrtc = find_gpus(), nvcc.find(), nvrtc.is_installed()
    for gpu in gpus:
        missing_parts = [
            name
            for name, part in (("cuda-bindings", has_bindings()), ("a compiler", compiler or has_nvrtc))
            if not part
        ]
        yield Finding(
            f"cuda:{gpu.ordinal}",
            f"{gpu.name}, {gpu.capability}, driver {_driver()}"
            + f"; lacks {' and '.join(missing_parts)}" * bool(missing_parts),
            not missing_parts,
            install("cuda") if missing_parts else "",
            device=True,
        )
    if not gpus:
        has_driver_library = find_spec("pynvml") is not None
        reason = (
            "no NVIDIA driver answers"
            if has_driver_library
            else "nvidia-ml-py is not installed, so none was looked for"
        )
        todo = "on a machine with an NVIDIA GPU: " + ("install its driver" if has_driver_library else install("cuda"))
        yield Finding("GPU", reason, False, todo)
    if has_nvrtc:
        yield Finding("NVRTC", nvrtc.version().removeprefix("NVRTC "))
    else:
        yield Finding("NVRTC", "not installed: nvcc compiles", False, install("cuda"), optional=True)
    if compiler:
        try:
            yield Finding("nvcc", f"{nvcc.version()} at {compiler}")
        except ReproError as error:
            finding_text = f"{error.what}: {error.actual}, at {compiler}"
            yield Finding("nvcc", finding_text, False, str(error.todo), optional=has_nvrtc or not gpus)
    else:
        todo = "for rivals in CUDA C++: the CUDA toolkit, or pip install nvidia-cuda-nvcc"
        optional = has_nvrtc or not gpus
        yield Finding("nvcc", "not on PATH, in CUDA_HOME or in the pip packages", False, todo, optional=optional)
    yield replace(_cusparse(), optional=not gpus)


def _driver() -> str:
    try:
        import pynvml

        version = pynvml.nvmlSystemGetDriverVersion()
    except Exception as error:  # continue with the other checks after any error of NVML
        return f"unknown ({error})"
    return version.decode() if isinstance(version, bytes) else str(version)


def _cusparse() -> Finding:
    if find_spec("nvmath") is None:
        return Finding("cuSPARSE", "nvmath-python is not installed", False, f"for GPUs: {install('cuda')}")
    try:
        from nvmath.bindings import cusparse

        version = ".".join(str(cusparse.get_property(part)) for part in range(3))
    except Exception as error:  # nvmath has its own exception types for a missing driver or library
        return Finding("cuSPARSE", _first_line(error), False, f"for GPUs: the driver, then {install('cuda')}")
    from repro.sparse.library.cusparse import lacks_spmvop

    missing_routine = lacks_spmvop(version)
    return Finding("cuSPARSE", f"{version} through nvmath-python" + (f"; {missing_routine}" if missing_routine else ""))


def check_opencl() -> Iterator[Finding]:
    """Check the CPU through OpenCL."""
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
    """Check the mirror of input files and the free disk space."""
    mirror = os.environ.get("REPRO_MIRROR")
    if not mirror:
        yield Finding("mirror", "REPRO_MIRROR is not set: inputs are downloaded from their own sites")
    elif "://" in mirror or Path(mirror).is_dir():
        yield Finding("mirror", mirror)
    else:
        yield Finding(
            "mirror", f"{mirror} is not a folder", False, "set REPRO_MIRROR to a folder or a URL, or unset it"
        )
    free_bytes = shutil.disk_usage(Path.cwd()).free
    yield Finding(
        "disk",
        f"{free_bytes / 2**30:.1f} GiB free in {Path.cwd()}",
        free_bytes > MIN_FREE_BYTES,
        "" if free_bytes > MIN_FREE_BYTES else "make room: `repro plan` says how much a campaign needs",
    )


def check_mesh() -> Iterator[Finding]:
    """Check the optional packages (extra `mesh`) that rebuild the papers' tetrahedral meshes."""
    from repro.problems.recipes import GMSH_LIBRARIES

    for name in ("gmsh", "tetgen", "pymeshfix", "fast-simplification"):
        if find_spec(name.replace("-", "_")) is None:
            todo = f"to rebuild the papers' meshes: {install('mesh')}"
            yield Finding(name, "not installed", False, todo, optional=True)
        elif name == "gmsh" and (missing_names := missing_libraries()):
            todo = f"on Debian or Ubuntu: apt-get install {' '.join(GMSH_LIBRARIES)}"
            yield Finding(name, f"lacks {', '.join(missing_names)}", False, todo, optional=True)
        else:
            from importlib.metadata import version

            yield Finding(name, version(name))


def missing_libraries() -> list[str]:
    """Return the shared libraries that gmsh lacks on this system."""
    for folder in (Path(sys.prefix, "lib"), Path(sys.prefix, "Lib")):
        for library in sorted(folder.glob("libgmsh.so*")):
            try:
                ldd_output = run_program(["ldd", library], ANSWERING, "ldd").output
            except ReproError:  # without `ldd`, the import of gmsh reports missing libraries
                return []
            return [line.split()[0] for line in ldd_output.splitlines() if "not found" in line]
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
