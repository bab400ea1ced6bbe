"""Commands in the panel "Kernels": `repro render` and `repro compile`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from repro.cli.options import Receipt

StudyName = Annotated[str, typer.Argument(help="A study; or `common`, the kernels that every campaign needs.")]
Key = Annotated[
    str | None,
    typer.Argument(metavar="[MODULE]", help="For example paper/block3-double/ELL-SoA-AoS; `common` has one only."),
]
Keys = Annotated[list[str] | None, typer.Argument(metavar="[MODULE]...", help="As the modules' files are called.")]
TargetName = Annotated[str, typer.Option("--target", help="sm_90, … for a GPU generation, or cpu for OpenCL.")]
Kernels = Annotated[Path, typer.Option(help="Folder of the templates.")]


def render(study: StudyName, key: Key = None, target: TargetName = "cpu", kernels: Kernels = Path("kernels")) -> None:
    """Print the source of one module.

    Modules of compound_spmv are SPACE/ENTRY-PRECISION/LAYOUT, of compressed_coo SPACE/PRECISION/LAYOUT, a space being
    `paper` or `extended` (ours), and solvers/bicgstab-PRECISION.

    Examples:

        repro render compound_spmv paper/quaternion-single/Sl-32-SoA-AoS --target sm_90

        repro render compound_spmv extended/block3-double/Sl-8-AoSoA-Padded --target sm_90

        repro render common --target cpu
    """
    typer.echo(_source(study, key, target, kernels), nl=False)


def compile_(
    study: StudyName,
    keys: Keys = None,
    target: TargetName = "cpu",
    kernels: Kernels = Path("kernels"),
    modules: Annotated[Path, typer.Option(help="Folder of the compiled modules.")] = Path("modules"),
    jobs: Annotated[int, typer.Option(min=1, help="Compilers to run at a time.")] = 1,
    record_errors: Annotated[
        bool, typer.Option("--record-errors", help="Write what the compiler refuses into the manifest; exit with 0.")
    ] = False,
    receipt: Receipt = False,
) -> None:
    """Compile modules: of compound_spmv every schedule of one entry, precision and layout each. No device is needed.

    A module's manifest is MODULES/TARGET/STUDY/MODULE.json; binaries lie in `objects` beside it.

    Examples:

        repro compile compound_spmv paper/block3-double/ELL-SoA-AoS paper/block3-double/Sl-32-SoA-AoS --target sm_90

        repro compile common --target cpu

        repro compile compressed_coo solvers/bicgstab-double --target sm_90
    """
    from concurrent.futures import ThreadPoolExecutor

    from repro.campaign.receipts import making
    from repro.campaign.steps import compiling, compiling_common
    from repro.codegen.build_cache import Module, compile_module
    from repro.codegen.targets import get_target

    def build(key: str | None) -> tuple[Path, Module]:
        limits = get_target(target)
        source = _source(study, key, target, kernels)
        if key is None:
            step = compiling_common(limits, kernels, modules)
        else:
            step = compiling(study, key, limits, kernels, modules)
        [manifest] = step.outputs
        with making(step) if receipt else nullcontext() as made:
            module = compile_module(source, limits, manifest, record_errors=record_errors)
            if made and module.binary:
                made.also(manifest.parent / module.binary)
            elif made:
                made.failed(str(module.message))
        return manifest, module

    wanted: list[str | None] = [*keys] if keys else [None]
    with ThreadPoolExecutor(jobs) as pool:
        for manifest, module in pool.map(build, wanted):
            typer.echo(_summary(manifest, module.status, module.resources or {}, module.message))


def _source(study: str, key: str | None, target: str, kernels: Path) -> str:
    from repro.codegen.targets import get_target
    from repro.codegen.templates import COMMON, render_common
    from repro.errors import ReproError
    from repro.studies import get_study

    if study == COMMON:
        if key is not None:
            raise ReproError("the common module is one", expected=COMMON, actual=f"{COMMON} {key}")
        return render_common(kernels, get_target(target))
    if key is None:
        raise ReproError("no module is named", expected=f"{get_study(study).name} MODULE", actual=study)
    return get_study(study).render(kernels, key, get_target(target))


def _summary(output: Path, status: str, resources: dict[str, dict[str, int]], message: str | None) -> str:
    if message:
        return f"{output}: {status}: {message}"
    if not resources:
        return f"{output}: {status}"
    registers = [kernel["registers"] for kernel in resources.values()]
    spilling = sum(kernel["spills"] > 0 for kernel in resources.values())
    used = f"{min(registers)} to {max(registers)} registers"
    return f"{output}: {status}, {len(resources)} kernels, {used}, {spilling} spill"
