"""Commands on kernels: `repro render` and `repro compile`, and `repro rival`, which checks a user's own kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repro.cli.options import Receipt

if TYPE_CHECKING:
    from repro.config.models import Rival
    from repro.sparse.rivals.trial import Trial, TrialOutcome


StudyName = Annotated[str, typer.Argument(help="A study; or `common`, the kernels that every campaign needs.")]
Key = Annotated[
    str | None,
    typer.Argument(metavar="MODULE", help="For example paper/block3-double/ELL-SoA-AoS; `common` has only one."),
]
Keys = Annotated[list[str] | None, typer.Argument(metavar="MODULE", help="A module's key: the name of its file.")]
TargetName = Annotated[str, typer.Option("--target", help="sm_90, … for a GPU generation, or cpu for OpenCL.")]
Kernels = Annotated[Path, typer.Option(help="Folder of the templates.")]


def render(study: StudyName, key: Key = None, target: TargetName = "cpu", kernels: Kernels = Path("kernels")) -> None:
    """Print the source of one module.

    Keys of modules are SPACE/ENTRY-PRECISION/LAYOUT in compound_spmv, SPACE/PRECISION/LAYOUT and
    solvers/bicgstab-PRECISION in compressed_coo; SPACE is `paper` or `extended` (ours).

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
    jobs: Annotated[int, typer.Option(min=1, help="Number of concurrent compilers.")] = 1,
    record_errors: Annotated[
        bool, typer.Option("--record-errors", help="Write compile errors into the manifest and exit with 0.")
    ] = False,
    receipt: Receipt = False,
) -> None:
    """Compile modules, without a device. A module of compound_spmv has all schedules of an entry, precision and layout.

    A module's manifest is MODULES/TARGET/STUDY/MODULE.json; binaries are in the folder `objects` beside it.

    Examples:

        repro compile compound_spmv paper/block3-double/ELL-SoA-AoS paper/block3-double/Sl-32-SoA-AoS --target sm_90

        repro compile common --target cpu

        repro compile compressed_coo solvers/bicgstab-double --target sm_90
    """
    from concurrent.futures import ThreadPoolExecutor

    from repro.campaign.receipts import record_step
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
        with record_step(step) if receipt else nullcontext() as running_step:
            module = compile_module(source, limits, manifest, record_errors=record_errors)
            if running_step and module.binary:
                running_step.also(manifest.parent / module.binary)
            elif running_step:
                running_step.failed(str(module.message))
        return manifest, module

    module_keys: list[str | None] = [*keys] if keys else [None]
    with ThreadPoolExecutor(jobs) as pool:
        for manifest, module in pool.map(build, module_keys):
            typer.echo(_summary(manifest, module.status, module.resources or {}, module.message))


def _source(study: str, key: str | None, target: str, kernels: Path) -> str:
    from repro.codegen.targets import get_target
    from repro.codegen.templates import COMMON, render_common
    from repro.errors import ReproError
    from repro.studies import get_study

    if study == COMMON:
        if key is not None:
            raise ReproError("the common module has no key", expected=COMMON, actual=f"{COMMON} {key}")
        return render_common(kernels, get_target(target))
    if key is None:
        raise ReproError("no module was named", expected=f"{get_study(study).name} MODULE", actual=study)
    return get_study(study).render(kernels, key, get_target(target))


def _summary(output: Path, status: str, resources: dict[str, dict[str, int]], message: str | None) -> str:
    if message:
        return f"{output}: {status}: {message}"
    if not resources:
        return f"{output}: {status}"
    registers = [kernel["registers"] for kernel in resources.values()]
    spilling = sum(kernel["spills"] > 0 for kernel in resources.values())
    register_text = f"{min(registers)} to {max(registers)} registers"
    return f"{output}: {status}, {len(resources)} kernels, {register_text}, {spilling} spill"


def rival(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="[check] FILE",
            help="CUDA C++ (.cu), a shared library (.so), file.py:object or module:object; or a campaign's "
            "configuration (.yaml), for all rivals that it names.",
        ),
    ],
    of: Annotated[str, typer.Option(help="What the kernel computes, as in a configuration.")] = "spmv",
    kernel: Annotated[str | None, typer.Option(help="For a source: the name of the kernel to launch.")] = None,
    block: Annotated[int, typer.Option(help="Threads per block of this kernel.")] = 256,
    threads_per_row: Annotated[int, typer.Option(help="Threads per row of this kernel.")] = 1,
    format: Annotated[str, typer.Option(help="Matrix format: csr or bsr.")] = "csr",
    offsets: Annotated[int, typer.Option(help="Bits of each row's offset: 32 or 64.")] = 32,
    device: Annotated[str, typer.Option(help="The device to run on, as in a configuration.")] = "auto",
    seconds: Annotated[
        float, typer.Option(min=1, help="Time limit of one trial in seconds, not counting compilation and import.")
    ] = 20.0,
    target: Annotated[str, typer.Option(help="For a source, without a GPU: the target to compile for.")] = "sm_90",
) -> None:
    """Check your own kernel (a rival) on small matrices, and print its errors, with the traceback if it is in Python.

    Each trial has one entry type and precision. The result is checked against the same error bounds as in a campaign.
    Writes outside of its arrays or into read-only arrays are detected, as are memory leaks. A crash does not stop the
    other trials; after a trial that hangs, no other is started. Without a GPU, a source is only compiled. Exit code 1
    if there are errors, or if no rival supports any trial.

    Examples:

        repro rival check examples/rivals/products.py:SciPyCsr --device opencl

        repro rival check examples/rivals/warp_per_row.cu --kernel warp_per_row --threads-per-row 32

        repro rival check mine.yaml
    """
    from repro.codegen.targets import get_target
    from repro.config import add_place_to_errors
    from repro.devices.selection import resolve_device
    from repro.errors import ReproError
    from repro.sparse.rivals.files import rival_files
    from repro.sparse.rivals.trial import compile_alone, try_apart

    file = _file_of(names)
    if Path(file).suffix in (".yaml", ".yml"):
        from repro.campaign.configuration import load

        config = load(Path(file))
        rivals, device_name = config.rivals, config.device if device == "auto" else device
        if not rivals:
            raise ReproError("the configuration has no rivals", where=file, todo="add `rivals:`, or name a file")
    else:
        keys = {"of": of, "kernel": kernel, "format": format, "offsets": offsets}
        rivals, device_name = (_named(file, {**keys, "block": block, "threads_per_row": threads_per_row}),), device
    with add_place_to_errors((Path(file),)):
        for member in rivals:
            rival_files(member)
    resolved = resolve_device(device_name)
    failed_rivals, unsupported_rivals = [], []
    for member in rivals:
        typer.echo(f"{member.name}: {member.source or member.library or member.python}, {member.of} on {resolved}")
        progress_lines = _Said()
        if member.source is not None and not resolved.startswith("cuda"):
            outcomes = compile_alone(member, get_target(target), progress_lines.begin, progress_lines.say)
        else:
            outcomes = try_apart(member, resolved, seconds, progress_lines.begin, progress_lines.say)
        progress_lines.end()
        _print_warnings(outcomes)
        failed_outcomes = [outcome for outcome in outcomes if outcome.status not in ("ok", "compiled", "unsupported")]
        if failed_outcomes:
            failed_rivals.append(f"{member.name}: {_counted(failed_outcomes, len(outcomes))}")
        elif all(outcome.status == "unsupported" for outcome in outcomes):
            unsupported_rivals.append(f"{member.name}: {_counted(outcomes, len(outcomes))}")
    if len(unsupported_rivals) == len(rivals):
        failed_rivals += unsupported_rivals
    elif unsupported_rivals:
        typer.echo(f"Cannot be tried here, and will be a row that says why not: {'; '.join(unsupported_rivals)}")
    if failed_rivals:
        raise ReproError(
            "a rival is invalid",
            where=file,
            actual="; ".join(failed_rivals),
            todo="docs/bring-your-own-kernel.md explains each message and how to debug",
        )


#: Advice, by file suffix, on files that cannot be rivals.
_NO_FORM = {
    **dict.fromkeys((".c", ".cc", ".cpp", ".cxx"), "compile it first, as a shared library: -shared -fPIC -o {stem}.so"),
    ".py": "name the object in it: {file}:NAME",
}


def _named(file: str, keys: dict[str, object]) -> Rival:
    """Return the rival for a file, whose suffix determines the form of the rival (source, library or Python)."""
    import re

    from repro.config import validate
    from repro.config.models import MAX_RIVAL_NAME, Rival
    from repro.errors import ReproError

    path = Path(file)
    form = {".cu": "source", ".so": "library"}.get(path.suffix, "python")
    if form == "python" and ":" not in file:
        raise ReproError(
            "unknown form of a rival",
            where=file,
            expected=".cu (CUDA C++), .so (a library), file.py:object or module:object, .yaml (a configuration)",
            actual=path.suffix or file,
            todo=_NO_FORM.get(path.suffix, "see docs/bring-your-own-kernel.md").format(file=file, stem=path.stem),
        )
    stem = Path(file.rpartition(":")[2] if form == "python" else file).stem
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip("._-")[:MAX_RIVAL_NAME] or "rival"
    return validate(Rival, {"name": name, form: file, **keys}, file, "docs/bring-your-own-kernel.md")


class _Said:
    """Prints a line for each trial of a rival, but only one for consecutive trials with the same failure."""

    def __init__(self) -> None:
        self._failure, self._alike, self._begun = "", 0, False

    def begin(self, trial: Trial) -> None:
        self._begun = not self._failure
        if self._begun:
            typer.echo(f"  {trial!s:<20} ", nl=False)  # the result is printed on the same line later

    def say(self, outcome: TrialOutcome) -> None:
        failure = ""
        if outcome.status == "ok":
            verdict = (
                f"right, {outcome.error:.2g} of the bound, set-up {1e3 * outcome.setup:.2f} ms, "
                f"{1e6 * outcome.seconds:.1f} µs"
            )
        elif outcome.status == "compiled":
            verdict = outcome.message
        else:
            verdict = failure = f"{outcome.status.replace('_', ' ')}: {outcome.message}"
        if failure and failure == self._failure:
            self._alike += 1
            return
        self.end()
        typer.echo(verdict if self._begun else f"  {outcome.trial!s:<20} {verdict}")
        for line in outcome.trace.splitlines():
            typer.echo(f"    {_printable(line)}")
        self._failure = failure

    def end(self) -> None:
        if self._alike:
            typer.echo(f"  and {self._alike} more alike")
        self._failure, self._alike = "", 0


def _file_of(names: list[str]) -> str:
    """Return the file of `check FILE`; the first word may be missing."""
    if names[:-1] not in ([], ["check"]):
        raise typer.BadParameter(f"{' '.join(names)} is not `check FILE`")
    return names[-1]


def _print_warnings(outcomes: Sequence[TrialOutcome]) -> None:
    for warning, count in Counter(text for outcome in outcomes for text in outcome.warnings).items():
        typer.echo(f"  {_printable(warning)}; in {count} of {len(outcomes)} trials")


def _printable(line: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in line)


def _counted(outcomes: Sequence[TrialOutcome], total: int) -> str:
    statuses = list(dict.fromkeys(outcome.status.replace("_", " ") for outcome in outcomes))
    return f"{', '.join(statuses)} in {len(outcomes)} of {total} trials"
