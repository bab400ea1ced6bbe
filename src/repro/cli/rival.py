"""The command `repro rival`: trying a kernel of one's own before a campaign does."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from repro.config.models import Rival
    from repro.sparse.rivals.trial import Outcome


class Action(StrEnum):
    """What is done with a rival."""

    CHECK = "check"


def rival(
    action: Annotated[Action, typer.Argument(metavar="check", help="What to do: `check` is all there is.")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="CUDA C++ (.cu), a shared library (.so), file.py:object or module:object; or a campaign's "
            "configuration (.yaml), for all rivals that it names.",
        ),
    ],
    of: Annotated[str, typer.Option(help="What it computes, as in a configuration.")] = "spmv",
    kernel: Annotated[str | None, typer.Option(help="Of a source: the kernel to launch.")] = None,
    block: Annotated[int, typer.Option(help="Threads a block of this kernel.")] = 256,
    threads_per_row: Annotated[int, typer.Option(help="Threads that this kernel has for each row.")] = 1,
    format: Annotated[str, typer.Option(help="How it wants matrices: csr or bsr.")] = "csr",
    offsets: Annotated[int, typer.Option(help="Bits of each row's offset: 32 or 64.")] = 32,
    device: Annotated[str, typer.Option(help="What to try it on, as in a configuration.")] = "auto",
    seconds: Annotated[float, typer.Option(min=1, help="Seconds that one trial may take, compiling included.")] = 120.0,
) -> None:
    """Try a kernel of one's own on small matrices, and say what is wrong with it.

    Each trial is one kind of entry in one precision. Its result is held against the same bounds as in a campaign; what
    it writes outside of its arrays, or into what it may only read, is found, and so is memory that it does not give
    back. A trial that crashes or hangs costs only itself. Exit code 1 if anything is wrong; a trial that it says it
    cannot do is not.

    Examples:

        repro rival check examples/rivals/products.py:SciPyCsr --device opencl

        repro rival check examples/rivals/warp_per_row.cu --kernel warp_per_row --threads-per-row 32

        repro rival check mine.yaml
    """
    from repro.devices.selection import resolve_device
    from repro.errors import ReproError
    from repro.sparse.rivals.files import files_of
    from repro.sparse.rivals.trial import try_apart

    if Path(file).suffix in (".yaml", ".yml"):
        from repro.campaign.configuration import load

        settings = load(Path(file))
        rivals, wanted = settings.rivals, settings.device if device == "auto" else device
        if not rivals:
            raise ReproError("the configuration names no rival", where=file, todo="add `rivals:`, or name a file")
    else:
        keys = {"of": of, "kernel": kernel, "format": format, "offsets": offsets}
        rivals, wanted = (_named(file, {**keys, "block": block, "threads_per_row": threads_per_row}),), device
    for one in rivals:
        files_of(one)
    resolved = resolve_device(wanted)
    wrong = []
    for one in rivals:
        typer.echo(f"{one.name}: {one.source or one.library or one.python}, {one.of} on {resolved}")
        outcomes = try_apart(one, resolved, seconds, _say)
        failed = [outcome for outcome in outcomes if outcome.status not in ("ok", "unsupported")]
        unable = all(outcome.status == "unsupported" for outcome in outcomes)
        if failed or unable:
            wrong.append(f"{one.name}: {_counted(failed or outcomes, len(outcomes))}")
    if wrong:
        raise ReproError(
            "a rival is not right",
            where=file,
            actual="; ".join(wrong),
            todo="docs/bring-your-own-kernel.md says what each means",
        )


def _named(file: str, keys: dict[str, object]) -> Rival:
    """Return the rival that is a file, of the form that its name says."""
    from repro.config import validate
    from repro.config.models import Rival

    form = {".cu": "source", ".so": "library"}.get(Path(file).suffix, "python")
    name = Path(file.rpartition(":")[2] if form == "python" else file).stem
    return validate(Rival, {"name": name, form: file, **keys}, file)


def _say(outcome: Outcome) -> None:
    if outcome.status == "ok":
        words = (
            f"right, {outcome.error:.2g} of the bound, set-up {1e3 * outcome.setup:.2f} ms, "
            f"{1e6 * outcome.seconds:.1f} µs"
        )
    else:
        words = f"{outcome.status.replace('_', ' ')}: {outcome.message}"
    typer.echo(f"  {outcome.trial!s:<20} {words}")


def _counted(outcomes: Sequence[Outcome], of: int) -> str:
    statuses = list(dict.fromkeys(outcome.status.replace("_", " ") for outcome in outcomes))
    return f"{', '.join(statuses)} in {len(outcomes)} of {of} trials"
