"""Look-up of the variant that a campaign chose for a problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import PRECISIONS, TIMED, median_column
from repro.codegen.targets import Target, get_target
from repro.errors import ReproError
from repro.package_data import require_packages
from repro.sparse.compound.variants import ROUTINES, VariantId, fitting_variant
from repro.sparse.tuning_features import WINNERS
from repro.words import TUNED, some_of, suggestion

#: Choices by this clock are exported; claims about speed use the same clock.
CLOCK = "graph"
#: Modules that read records, of packages that operators by other variants do without.
RECORDS = ("filelock", "pyarrow", "pydantic", "yaml")
#: The study whose chosen variants become operators and exported kernels; its recorded rows are read under this name.
EXPORTED_STUDY = "compound_spmv"


@dataclass(frozen=True)
class CampaignChoice:
    """A variant that a campaign chose for a problem."""

    #: Name of the variant.
    name: str
    entry: str
    #: Compilation target of the measured kernel.
    target: Target
    campaign: str
    problem: str
    precision: str
    tuning: str
    #: Name of the GPU, if recorded.
    device: str | None
    #: Median time with a warm cache in the final (report) measurement, by the graph clock; None: not in the report.
    seconds: float | None
    #: Hash that identifies the record of the measuring environment.
    environment: str | None


def find_campaign_choice(
    results: Path,
    campaign: str,
    study_name: str,
    problem_name: str,
    precision: str,
    tuning: str | None = None,
    preferred: Sequence[str] = WINNERS,
) -> CampaignChoice:
    """Return the variant that a campaign chose for a problem in a precision.

    `tuning` is `schedule`, `layout`, `joint`, `static`, `dynamic`, `extended`, `operator` or `reordered`, which also
    names `tuned_joint` where there is no `joint`; None: the first of `preferred` that the campaign has. An unknown
    campaign, problem or choice, or a damaged record, raises `ReproError`.
    """
    require_packages(RECORDS)
    from repro.bench.store import check_measured, read_case

    folder = CampaignFolder.named(campaign, results)
    check_measured(folder)
    study_folder = folder.study(study_name)
    choices = read_case(study_folder, "choices", problem_name, precision)
    if not choices:
        raise _missing_choice_error(folder, study_name, problem_name, precision)
    by_tuning = {str(row["tuning"]): row for row in choices if row["clock"] == CLOCK}
    names = preferred if tuning is None else (tuning, f"{TUNED}{tuning}")
    tuning_name = next((name for name in names if name in by_tuning), tuning or preferred[-1])
    if tuning_name not in by_tuning:
        raise ReproError(
            "the campaign has no such choice",
            where=f"{study_folder}: {problem_name}, {precision}",
            expected=f"one of {', '.join(by_tuning)}" if by_tuning else "winners by the graph clock, with a warm cache",
            actual=tuning_name if by_tuning else "winners by the event clock alone, with a cold cache",
        )
    name = str(by_tuning[tuning_name]["name"])
    report = read_case(study_folder, "report", problem_name, precision)
    row = next((row for row in report if row["name"] == name and row["cache"] != "cold"), {})
    environment = row.get("environment")
    target = get_target(_target(folder.environment(str(environment))))
    median = row.get(median_column(CLOCK)) if row.get("status", "ok") in TIMED else None
    return CampaignChoice(
        name=name,
        entry=str(row.get("entry")),
        target=target,
        campaign=campaign,
        problem=problem_name,
        precision=precision,
        tuning=tuning_name,
        device=row.get("device"),
        seconds=float(median) if median is not None else None,
        environment=environment,
    )


def campaign_precision(results: Path, campaign: str, problem_name: str) -> str:
    """Return the only precision for which a campaign has a choice on a problem; raise `ReproError` if there are
    several.

    Without any choice return `double`, for which `find_campaign_choice` then raises an error that lists the choices.
    """
    require_packages(RECORDS)
    from repro.bench.store import check_measured, read_case

    folder = CampaignFolder.named(campaign, results)
    check_measured(folder)
    study_folder = folder.study(EXPORTED_STUDY)
    measured_precisions = [word for word in PRECISIONS if read_case(study_folder, "choices", problem_name, word)]
    if len(measured_precisions) > 1:
        raise ReproError(
            "the campaign has results in several precisions",
            where=f"{study_folder}: {problem_name}",
            expected=" or ".join(f"--precision {word}" for word in measured_precisions),
        )
    return measured_precisions[0] if measured_precisions else "double"


def exported_variant(name: str, target: Target) -> VariantId:
    """Return the variant of a given name; raise `ReproError` if it is unknown, or exceeds the target's limits.

    The error says of which study variants are, since each study has names of its own, which no other one can read.
    """
    if name in ROUTINES:
        raise ReproError(
            "a library routine has no source to export",
            where=name,
            todo="name a variant: the operator's `timed` lists the variants that were timed",
        )
    try:
        return fitting_variant(name, target)
    except ReproError as error:
        if error.what != "unknown layout":
            raise
        scope = f"name a variant of {EXPORTED_STUDY}: kernels of other studies cannot be exported or run as an operator"
        todo = f"{error.todo}; {scope}"
        raise ReproError(error.what, where=name, expected=error.expected, actual=error.actual, todo=todo) from None


def _missing_choice_error(folder: CampaignFolder, study_name: str, problem_name: str, precision: str) -> ReproError:
    """Return the error for a problem without a choice; it lists the cases that have one."""
    from repro.bench.store import read_case, read_rows, recorded_studies

    study_folder = folder.study(study_name)
    choice_rows = read_rows(study_folder, "choices") if study_folder.is_dir() else None
    columns = [choice_rows[name].to_pylist() for name in ("problem", "precision")] if choice_rows else []
    cases = {*zip(*columns, strict=True)}
    names = sorted(name for name, word in cases if word == precision) or sorted(map("/".join, cases))
    studies = recorded_studies(folder)
    measured_studies = [name for name in studies if read_case(folder.study(name), "report", problem_name, precision)]
    if measured_studies and study_name not in measured_studies:
        return ReproError(
            f"kernels of {' and '.join(measured_studies)} cannot be exported or run as an operator",
            where=f"{folder.raw}: {problem_name}, {precision}",
            expected=f"a variant of {EXPORTED_STUDY}, such as Sl-32-SoA-AoS/static-256-4",
            todo=f"measure the problem with the study {EXPORTED_STUDY} too, or name one of its variants",
        )
    return ReproError(
        "the campaign has no such result",
        where=f"{study_folder}: {problem_name}, {precision}",
        expected=some_of(names, problem_name, f"`repro best {folder.name}`") if names else None,
        actual=f"{problem_name}{suggestion(problem_name, names)}",
        todo="measure it, or name another campaign, problem or variant",
    )


def _target(path: Path) -> str:
    """Return the name of the compilation target in an environment record."""
    from repro.bench.records import read_environment

    try:
        environment = read_environment(path)
    except FileNotFoundError:
        raise _unknown_target(path) from None
    if not environment.get("target"):
        raise _unknown_target(path)
    return str(environment["target"])


def _unknown_target(path: Path) -> ReproError:
    return ReproError(
        "the winner's target was not recorded",
        where=path,
        todo="measure the problem with `repro measure`, or name the variant (and the target, for an export)",
    )
