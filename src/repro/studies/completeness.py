"""What is missing from a campaign: problems that could not be had, modules that do not compile, rows that failed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.errors import ReproError
from repro.studies.plan import Plan

#: What a row may say without anything having gone wrong: that this cannot be run here, or that its time is no good.
HARMLESS = frozenset({"ok", "unsupported", "out_of_memory", "timeout", "noisy"})


@dataclass(frozen=True)
class Missing:
    """One thing that a campaign lacks.

    Attributes
    ----------
    what, reason
        Its name, and why it is missing.
    again
        File to delete so that the next run tries it again; None where only an edit can help.
    """

    what: str
    reason: str
    again: Path | None = None


def find_missing(plan: Plan) -> list[Missing]:
    """Return all that the records of a campaign say is missing.

    Raises
    ------
    ReproError
        A record is damaged.
    """
    return [*_problems(plan), *_modules(plan), *_rows(plan)]


def _problems(plan: Plan) -> Iterator[Missing]:
    for name in plan.problems:
        record = _read(Path(plan.results, "raw", "problems", f"{name}.json"))
        if record is None:
            yield Missing(f"problem {name}", "not built")
        elif record["status"] != "ok":
            yield Missing(f"problem {name}", record["reason"], Path(plan.results, "problems", f"{name}.npz"))


def _modules(plan: Plan) -> Iterator[Missing]:
    for manifest in plan.all_manifests:
        module = _read(Path(manifest))
        if module is None:
            yield Missing(f"module {manifest}", "not compiled")
        elif module["status"] != "ok":
            yield Missing(f"module {manifest}", module["message"], Path(manifest))


def _rows(plan: Plan) -> Iterator[Missing]:
    import pandas as pd

    for study, problem, precision in plan.runs:
        folder = Path(plan.results, "raw", study, problem, precision)
        for phase in ("search", "report"):
            path = folder / f"{phase}.parquet"
            if not path.exists():
                yield Missing(f"{study} on {problem}, {precision}", f"not measured: no {path}")
                continue
            rows = pd.read_parquet(path, columns=["name", "status", "message"])
            # unavailable problems and modules that do not compile have been named already
            failed = rows[~rows["status"].isin(HARMLESS | {"unavailable", "compile_error"})]
            for status, count in sorted(Counter(failed["status"]).items()):
                first = failed[failed["status"] == status].iloc[0]
                words = f"{count} rows {status}, the first {first['name']}"
                message = first["message"]
                yield Missing(
                    f"{study} on {problem}, {precision} ({phase})",
                    words if pd.isna(message) else f"{words}: {message}",
                )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ReproError(
            "a record is damaged", where=path, actual=error, todo="delete it and run the campaign again"
        ) from None
    return record
