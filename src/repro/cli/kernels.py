"""`repro render` and `repro compile`: from templates to modules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StudyName = Annotated[
    str,
    typer.Argument(help="A study; `common`, the kernels that every campaign needs; or `solvers`, the iterative ones."),
]
Entry = Annotated[str | None, typer.Argument(help="real, complex, quaternion or block3; of `solvers`: bicgstab.")]
Precision = Annotated[str | None, typer.Argument(help="single or double.")]
LayoutName = Annotated[str | None, typer.Argument(metavar="[LAYOUT]", help="For example Sl-32-SoA-AoS.")]
LayoutNames = Annotated[list[str] | None, typer.Argument(metavar="[LAYOUT]...", help="For example Sl-32-SoA-AoS.")]
TargetName = Annotated[str, typer.Option("--target", help="sm_90, … for a GPU generation, or cpu for OpenCL.")]
Space = Annotated[str, typer.Option(help="Whose schedules: paper, or extended (ours).")]
Kernels = Annotated[Path, typer.Option(help="Folder of the templates.")]


def render(
    study: StudyName,
    entry: Entry = None,
    precision: Precision = None,
    layout: LayoutName = None,
    target: TargetName = "cpu",
    space: Space = "paper",
    kernels: Kernels = Path("kernels"),
) -> None:
    """Print the source of one module.

    Examples:

        repro render compound_spmv quaternion single Sl-32-SoA-AoS --target sm_90

        repro render compound_spmv block3 double Sl-8-AoSoA-Padded --space extended --target sm_90

        repro render common --target cpu
    """
    typer.echo(_source(study, space, entry, precision, layout, target, kernels), nl=False)


def compile_(
    study: StudyName,
    entry: Entry = None,
    precision: Precision = None,
    layouts: LayoutNames = None,
    target: TargetName = "cpu",
    space: Space = "paper",
    kernels: Kernels = Path("kernels"),
    modules: Annotated[Path, typer.Option(help="Folder of the compiled modules.")] = Path("modules"),
    jobs: Annotated[int, typer.Option(min=1, help="Compilers to run at a time.")] = 1,
    record_errors: Annotated[
        bool, typer.Option("--record-errors", help="Write what the compiler refuses into the manifest; exit with 0.")
    ] = False,
) -> None:
    """Compile modules: every schedule of one entry, precision and layout each. No device is needed.

    A module's manifest is MODULES/TARGET/STUDY/SPACE/ENTRY-PRECISION/LAYOUT.json; binaries lie in `objects` beside it.

    Examples:

        repro compile compound_spmv block3 double ELL-SoA-AoS Sl-32-SoA-AoS --target sm_90 --jobs 2

        repro compile common --target cpu

        repro compile solvers bicgstab double --target sm_90
    """
    from concurrent.futures import ThreadPoolExecutor

    from repro.codegen.compile import Module, compile_module, manifest_path
    from repro.codegen.solvers import SOLVERS, solver_manifest
    from repro.codegen.targets import get_target

    def build(layout: str | None) -> tuple[Path, Module]:
        source = _source(study, space, entry, precision, layout, target, kernels)
        manifest = modules / target / f"{study}.json"
        if study == SOLVERS:
            manifest = solver_manifest(target, str(entry), str(precision), modules)
        elif entry and precision and layout:
            manifest = manifest_path(target, study, space, entry, precision, layout, modules)
        return manifest, compile_module(source, get_target(target), manifest, record_errors=record_errors)

    wanted: list[str | None] = [*layouts] if layouts else [None]
    with ThreadPoolExecutor(jobs) as pool:
        for manifest, module in pool.map(build, wanted):
            typer.echo(_summary(manifest, module.status, module.resources or {}, module.message))


def _source(
    study: str, space: str, entry: str | None, precision: str | None, layout: str | None, target: str, kernels: Path
) -> str:
    from repro.codegen.render import COMMON, SCALARS, render_common
    from repro.codegen.solvers import SOLVERS, render_solver
    from repro.codegen.targets import get_target
    from repro.errors import ReproError
    from repro.studies.registry import get_study

    if study == COMMON:
        return render_common(kernels, get_target(target))
    if study == SOLVERS:
        return render_solver(kernels, entry, precision, get_target(target))
    if entry is None or precision not in SCALARS or layout is None:
        raise ReproError(
            "a module of a study has an entry, a precision and a layout",
            expected=f"{study} ENTRY single|double LAYOUT",
            actual=" ".join(str(word) for word in (study, entry, precision, layout) if word),
        )
    return get_study(study).render(kernels, space, entry, precision, layout, get_target(target))


def _summary(output: Path, status: str, resources: dict[str, dict[str, int]], message: str | None) -> str:
    if message:
        return f"{output}: {status}: {message}"
    if not resources:
        return f"{output}: {status}"
    registers = [kernel["registers"] for kernel in resources.values()]
    spilling = sum(kernel["spills"] > 0 for kernel in resources.values())
    used = f"{min(registers)} to {max(registers)} registers"
    return f"{output}: {status}, {len(resources)} kernels, {used}, {spilling} spill"
