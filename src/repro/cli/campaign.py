"""The panels "Before a run" and "A run": `repro list`, `config`, `plan` and `run`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repro.bench.campaign_folder import CampaignFolder
from repro.cli.options import AsJson, ConfigFile, ConfigFiles, NamedFiles, print_json
from repro.errors import ReproError
from repro.package_data import DEFAULT_CONFIG, shipped
from repro.words import EXTENDED

if TYPE_CHECKING:
    from repro.campaign.estimate import Estimate, Job, Rates
    from repro.campaign.plan import Plan
    from repro.codegen.targets import GpuModel


Rows = Iterable[tuple[object, ...]]


class ListTopic(StrEnum):
    problems = "problems"
    sets = "sets"
    entries = "entries"
    layouts = "layouts"
    baselines = "baselines"
    artifacts = "artifacts"
    devices = "devices"
    studies = "studies"
    campaigns = "campaigns"


def list_(
    topic: Annotated[
        ListTopic | None,
        typer.Argument(metavar="WHAT", help="What to list; by default everything.", show_default=False),
    ] = None,
    config_file: ConfigFile = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """List problems, sets, entries, layouts, baselines, artifacts, devices, studies or campaigns.

    Examples:

        repro list

        repro list problems

        repro list artifacts --json
    """
    from repro.cli.console import in_columns, terminal_width

    headers, rows = LISTS[topic](config_file) if topic else list_lists(config_file)
    if as_json:
        print_json([dict(zip(headers, row, strict=True)) for row in rows])
        return
    for number, line in enumerate(in_columns(headers, rows, terminal_width())):
        typer.echo(line if number else typer.style(line, bold=True))


def list_lists(config_file: Path) -> tuple[list[str], Rows]:
    """Return column heads and rows for `repro list` without argument; unknown counts are None."""

    rows: list[tuple[object, ...]] = []
    for topic, function in LISTS.items():
        count = None
        with suppress(ReproError):  # `repro list` with this topic reports the error
            count = len(list(function(config_file)[1]))
        rows.append((topic.value, count, f"repro list {topic.value}"))
    return ["what", "how many", "command"], rows


def list_problems(config_file: Path) -> tuple[list[str], Rows]:
    from repro.campaign.configuration import load
    from repro.config.models import OwnProblem
    from repro.problems.registry import MatrixItem, load_registry, own_name

    config = load(config_file)
    registry = load_registry(Path(config.registry))
    rows: list[tuple[object, ...]] = []
    for item in registry.problems:
        size = f"{item.published.rows:,}; {item.published.nonzeros:,}" if item.published else None
        remark = "rebuilt" if item.is_rebuilt else f"stands in for {item.stand_in}" if item.stand_in else None
        kind = item.kind_of_problem
        content: str | None = item.entry if isinstance(item, MatrixItem) and kind == "matrix" else kind
        rows.append((item.name, content, item.source, size, ", ".join(item.sets), remark))
    for study in config.studies.values():
        for wish in study.problems if not isinstance(study.problems, str) else ():
            if isinstance(wish, OwnProblem):
                content = wish.entry if wish.kind_of_problem == "matrix" else wish.kind_of_problem
                rows.append((own_name(wish), content, wish.path, None, None, "your own"))
    return ["problem", "entry", "source", "rows; non-zeros", "sets", "remark"], rows


def list_sets(config_file: Path) -> tuple[list[str], Rows]:
    from repro.campaign.configuration import load
    from repro.problems.registry import load_registry

    registry = load_registry(Path(load(config_file).registry))
    members = {name: [item.name for item in registry.problems if name in item.sets] for name in registry.sets()}
    rows = {name: ", ".join(items) for name, items in members.items()}
    rows |= {name: f"not resolved yet: `repro resolve {name}`" for name in registry.unresolved()}
    return ["set", "problems"], sorted(rows.items())


def list_entries(_: Path) -> tuple[list[str], Rows]:
    from repro.entries import entries

    rows = [
        (entry.name, ", ".join(entry.members), ", ".join(entry.vector_members), f"{entry.size}×{entry.size}")
        for entry in entries().values()
    ]
    return ["entry", "members", "vector members", "real expansion"], rows


def list_layouts(_: Path) -> tuple[list[str], Rows]:
    from repro.studies import get_study, study_names

    rows = [(layout, study, space) for study in study_names() for layout, space in get_study(study).layouts()]
    return ["layout", "study", "space"], rows


def list_baselines(_: Path) -> tuple[list[str], Rows]:
    from repro.entries import entries
    from repro.sparse.library import for_problem

    rows = []
    for backend in ("cuda", "opencl"):
        for entry in entries():
            for item in for_problem(entry, backend):
                rows.append((item.name, backend, entry, "yes" if item.columns.get("papers_choice") else None))
    return ["baseline", "device", "entry", "the papers' choice"], rows


def list_artifacts(_: Path) -> tuple[list[str], Rows]:
    from repro.campaign.artifacts import all_artifacts
    from repro.studies import study_names

    rows = [
        (f"{study}/{item.name}", item.numbering, item.title) for study in study_names() for item in all_artifacts(study)
    ]
    return ["artifact", "in the paper", "title"], rows


def list_devices(_: Path) -> tuple[list[str], Rows]:
    from repro.codegen.opencl_runtime import find_devices
    from repro.devices.selection import find_gpus

    rows: list[tuple[object, ...]] = [(f"cuda:{gpu.ordinal}", gpu.name, gpu.capability) for gpu in find_gpus()]
    with suppress(ReproError):  # `repro doctor` says why a device is missing
        rows += [(f"opencl:{ordinal}", device.name.strip(), "cpu") for ordinal, device in enumerate(find_devices())]
    return ["device", "name", "target"], rows


def list_studies(_: Path) -> tuple[list[str], Rows]:
    from repro.studies import get_study, study_names

    return ["study", "what it re-runs"], [(name, get_study(name).reference) for name in study_names()]


def list_campaigns(_: Path) -> tuple[list[str], Rows]:
    from repro.bench.records import read_environments
    from repro.bench.store import recorded_studies

    rows: list[tuple[object, ...]] = []
    for folder in CampaignFolder.measured():
        state = "complete" if folder.complete.exists() else "begun"
        if folder.commits.exists():
            state = "record"
        try:
            devices = dict.fromkeys(str(record.get("device")) for record in read_environments(folder).values())
        except ReproError as error:
            devices, state = {}, error.what
        problems = sum(1 for _ in folder.records.rglob("*.json"))
        rows.append((folder.name, state, ", ".join(devices), problems, ", ".join(recorded_studies(folder))))
    return ["campaign", "state", "device", "problems", "studies"], rows


LISTS: dict[ListTopic, Callable[[Path], tuple[list[str], Rows]]] = {
    ListTopic.problems: list_problems,
    ListTopic.sets: list_sets,
    ListTopic.entries: list_entries,
    ListTopic.layouts: list_layouts,
    ListTopic.baselines: list_baselines,
    ListTopic.artifacts: list_artifacts,
    ListTopic.devices: list_devices,
    ListTopic.studies: list_studies,
    ListTopic.campaigns: list_campaigns,
}


SCHEMAS = Path("workflow/schemas")


def config(
    files: ConfigFiles = None,
    schema: Annotated[bool, typer.Option("--schema", help="Write the JSON schemas instead, for editors.")] = False,
    folder: Annotated[Path, typer.Option(help="Folder of the schemas.")] = SCHEMAS,
) -> None:
    """Print the resolved configuration, every default included, as YAML.

    For all commands and for `snakemake --configfile`, a configuration file stands alone: missing keys have their
    defaults, missing studies are not run, and config/config.yaml is not read. If several files are given, keys of later
    files override those of earlier ones.

    Examples:

        repro config

        repro config --config config/paper.yaml

        repro config --config config/paper.yaml --config mine.yaml

        repro config --schema
    """
    if schema:
        for path in write_schemas(folder):
            typer.echo(f"wrote {path}")
        return
    from repro.campaign.configuration import load
    from repro.campaign.plan import as_yaml

    typer.echo(as_yaml(load(*(files or [DEFAULT_CONFIG]))), nl=False)


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON schemas by file name."""
    from pydantic import BaseModel

    from repro.campaign.configuration import config_model
    from repro.config.models import StudySettings
    from repro.problems.registry import Registry
    from repro.studies import study_names

    models: dict[str, type[BaseModel]] = {
        "config": config_model(study_names()),
        "study": StudySettings,
        "problems": Registry,
    }
    return {f"{name}.schema.json": model.model_json_schema() for name, model in models.items()}


def write_schemas(folder: Path) -> list[Path]:
    import json

    from repro.filesystem import write_whole

    paths = []
    for name, schema in schemas().items():
        path = folder / name
        write_whole(path, json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
        paths.append(path)
    return paths


#: Width of the first column in `repro plan`.
NAME_WIDTH = 15
#: Maximum number of cases of which each problem has a line by default.
EACH = 200
#: Printed instead of numbers for studies that do not estimate their workload.
UNKNOWN = "unknown"
#: Maximum number of problems that one line names.
NAMED = 6
#: Numbers of GPUs in a cluster for which the time is also estimated.
CLUSTER_SIZES = (2, 4, 8)


def plan(
    named: NamedFiles = None,
    files: ConfigFiles = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Number of cores for compiling; by default all.")] = None,
    each: Annotated[
        bool | None,
        typer.Option(
            "--each/--summary",
            help=f"Print one line per problem, or one per entry and precision (the default above {EACH} cases).",
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(help="Plan for this GPU, present or not: a name in config/gpus.csv, such as A100."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what a campaign will compile and measure, and the disk space, device memory and time that it needs.

    Examples:

        repro plan

        repro plan mine.yaml

        repro plan --config config/paper.yaml --cores 16

        repro plan --config config/h200.yaml --summary

        repro plan --json

        repro plan --config config/paper.yaml --gpu "RTX 3070"
    """

    from repro.campaign.estimate import RATES, count_steps, estimate
    from repro.campaign.steps import Freshness
    from repro.cli.console import duration, in_columns, terminal_width

    run_plan = _plan_files([*(named or ()), *(files or ())] or [DEFAULT_CONFIG], gpu)
    if run_plan.target is None:
        _print_replay(run_plan, as_json)
        return
    cores = cores or len(os.sched_getaffinity(0))
    # finished steps were made for this machine, not for the stated GPU
    freshness = None if gpu else Freshness(run_plan)
    stale_steps = freshness.stale if freshness else None
    needs = estimate(run_plan, run_plan.target, stale_steps)
    if as_json:
        print_json(_plan_record(run_plan, needs, cores))
        return
    headers, rows = _case_lines(needs) if each or (each is None and len(needs.jobs) <= EACH) else _summary_lines(needs)
    rates = RATES[run_plan.target.dialect]
    total, missing_modules = needs.modules
    model = run_plan.gpu
    device_text = f"a stated {model.name}" if gpu and model else run_plan.device
    _print_line(f"campaign {run_plan.config.campaign} on {device_text} ({run_plan.target.name})")
    typer.echo()
    for line in in_columns(headers, rows, terminal_width()):
        typer.echo(line)
    typer.echo()
    _print_refused(run_plan, needs)
    _print_line(f"{total}, {missing_modules} of them to compile", "modules")
    variants, tried_count = (
        sum(getattr(job, key) for job in needs.jobs if job.is_estimated) for key in ("variants", "tried")
    )
    _print_line(f"{variants:,}{f', {tried_count:,} of them to try' if tried_count < variants else ''}", "variants")
    _print_line(f"{len(run_plan.artifact_files)}", "artifacts")
    batched = f"; small problems in batches of up to {run_plan.config.batch}" if run_plan.config.batch > 1 else ""
    steps = count_steps(run_plan, stale_steps)
    step_counts = ", ".join(f"{n} {step}" for step, n in steps.items())
    _print_line(f"{sum(steps.values())}: {step_counts}{batched}" if any(steps.values()) else "nothing to do", "steps")
    for line in freshness.described() if freshness else ():
        _print_line(f"out of date: {line}", " ")
    _print_line(f"about {_size(needs.disk_bytes)}, inputs that are downloaded aside", "disk")
    _print_remarks(run_plan)
    available = f"; the {model.name} has {_size(model.memory_bytes)}" if model else ""
    _print_line(f"about {_size(needs.device_bytes)}{available}", "device memory")
    for line in _unfit_lines(needs, model) if model else ():
        _print_line(line, " ")
    not_estimated = sorted({job.study for job in needs.jobs if not job.is_estimated})
    remainder = f", with one variant a case in {', '.join(not_estimated)}, of unknown workload" if not_estimated else ""
    idle = f"on {cores} idle core{'s' * (cores > 1)}"
    expected = f"about {duration(needs.seconds(cores))} {idle}{remainder}" if any(steps.values()) else "nothing to do"
    _print_line(expected, "expected")
    _print_rivals(run_plan)
    _print_slow_compiling(run_plan, needs, cores)
    if run_plan.on_gpu and len(needs.jobs) > 1:
        _print_line(on_a_cluster(needs, cores), " ")
    for line in _pace_lines(run_plan) if run_plan.on_gpu else ():
        _print_line(line, " ")
    typer.echo()
    _print_legend(needs, rates)
    _check_measurable(run_plan, needs)


def _check_measurable(planned: Plan, needs: Estimate) -> None:
    """Raise `ReproError` if no problem can be measured."""
    if needs.jobs and all(job.is_estimated and not job.variants for job in needs.jobs):
        raise ReproError(
            "nothing to measure: no problem is valid",
            where=f"campaign {planned.config.campaign}",
            todo="see the lines `refused` above, and name other problems",
        )


def _compile_model(needs: Estimate) -> str:
    """Return words on where the estimated compile times come from."""
    times = needs.compile_times
    if not times.measured:
        return "as long as on a core of an AMD EPYC, since nothing was compiled here yet"
    return (
        f"as long as modules of the same kind in {times.measured} compilations here; where there are none, "
        f"{times.pace:.2g} times as long as on a core of an AMD EPYC"
    )


def _plan_files(files: Sequence[Path], gpu: str | None) -> Plan:
    """Return the plan for merged configuration files, on this machine or on a stated GPU model."""
    from repro.campaign.configuration import load
    from repro.campaign.plan import make_plan
    from repro.codegen.targets import get_gpu
    from repro.config import add_place_to_errors

    config = load(*files)
    if gpu:  # plan as if the configuration of a record were to be measured on this GPU
        config = config.model_copy(update={"replay": False})
    with add_place_to_errors(files):
        return make_plan(config, gpu=get_gpu(gpu) if gpu else None)


def _print_slow_compiling(run_plan: Plan, needs: Estimate, cores: int) -> None:
    """Print advice if a CPU mostly compiles kernels of the space `extended`, which a dry run can omit."""
    compiling = sum(needs.compile_seconds) / cores
    own_studies = [name for name, study in run_plan.studies.items() if EXTENDED in study.settings.spaces]
    if not run_plan.on_gpu and own_studies and 2 * compiling > needs.seconds(cores):
        from repro.cli.console import duration

        text = f"about {duration(compiling)} of it compiles, most of it `space: extended`: leave it out for a dry run"
        _print_line(text, " ")


def _print_refused(run_plan: Plan, needs: Estimate) -> None:
    """Print the user's files with a wrong header, and the matrices that a study cannot multiply."""
    lines = [
        f"{name}: {error.what}: {error.actual or error.expected}, {error.where}"
        for name, problem in run_plan.problems.items()
        if (error := problem.refused)
    ]
    shapes = {
        (job.study, job.problem): run_plan.problems[job.problem]
        for job in needs.jobs
        if job.is_estimated and not job.variants and not run_plan.problems[job.problem].refused
    }
    for (study, name), problem in shapes.items():
        rows = problem.size[0] if problem.size else 0
        shape = f"{rows:,} × {problem.columns or rows:,}"
        needed = "a matrix with entries" if problem.columns is None or not problem.has_entries else "a square matrix"
        lines.append(f"{name}: {shape}, and {study} needs {needed}")
    for line in lines[:NAMED]:
        _print_line(line, "refused")
    if len(lines) > NAMED:
        _print_line(f"and {len(lines) - NAMED} more", "refused")


def _print_rivals(run_plan: Plan) -> None:
    """Print the maximum time of the rivals, since their speed is unknown and they may hang until their time limit."""
    rivals = {study: run_plan.rivals(study) for study in run_plan.studies}
    names = dict.fromkeys(rival.name for study_rivals in rivals.values() for rival in study_rivals)
    waits = [run_plan.studies[study].settings.timing.timeout for study, _, _ in run_plan.runs for _ in rivals[study]]
    if names:
        from repro.cli.console import duration

        limit_text = f"at most {duration(sum(waits))} more, where all of them hang in all cases"
        _print_line(f"{', '.join(names)}: not in this time; {limit_text}", "rivals")


def _print_remarks(run_plan: Plan) -> None:
    """Print the problems whose matrix is singular, since no support holds the elastic body, and those that were built
    with few values in their blocks.
    """
    from repro.bench.records import read_problem_of
    from repro.problems.assembly import advice_on_blocks

    free_bodies = [name for name, problem in run_plan.problems.items() if problem.free_body]
    if free_bodies:
        remainder = f" and {len(free_bodies) - NAMED} remainder" if len(free_bodies) > NAMED else ""
        names = ", ".join(free_bodies[:NAMED])
        _print_line(f"{names}{remainder}: six rigid motions of a body that is not `fixed` (docs/inputs.md)", "singular")
    for name in run_plan.problems:
        with suppress(FileNotFoundError):
            if advice := advice_on_blocks(read_problem_of(run_plan.folder, name).get("origin")):
                _print_line(f"{name}: {advice}", "blocks")


def _print_replay(run_plan: Plan, as_json: bool) -> None:
    artifact_files = run_plan.artifact_files
    if as_json:
        print_json({"campaign": run_plan.config.campaign, "replay": True, "artifacts": artifact_files})
    else:
        _print_line(f"replay of {run_plan.results}: {len(artifact_files)} tables and figures, nothing is measured")


def _plan_record(run_plan: Plan, needs: Estimate, cores: int) -> dict[str, object]:
    """Return the content of `repro plan --json`: each case with its estimate, and the totals in seconds and bytes."""
    total, missing_modules = needs.modules
    return {
        "campaign": run_plan.config.campaign,
        "replay": False,
        "device": run_plan.device,
        "target": run_plan.target.name if run_plan.target else None,
        "cores": cores,
        "cases": [asdict(job) for job in needs.jobs],
        "modules": {"all": total, "absent": missing_modules},
        "artifacts": run_plan.artifact_files,
        "rivals": [rival.name for rival in run_plan.config.rivals],
        "disk_bytes": needs.disk_bytes,
        "device_bytes": needs.device_bytes,
        "seconds": needs.seconds(cores),
        "jobs": {**needs.by_study, "build": sum(needs.build_seconds), "conclude": needs.conclude_seconds},
    }


def _unfit_lines(needs: Estimate, model: GpuModel) -> Iterator[str]:
    """Yield a line for each study with cases that need more memory than the GPU has."""
    jobs_by_study: dict[str, list[Job]] = {}
    for job in needs.unfit(model):
        jobs_by_study.setdefault(job.study, []).append(job)
    for study, jobs in jobs_by_study.items():
        names = [f"{job.problem} in {job.precision} ({_size(job.device_bytes)})" for job in jobs[:NAMED]]
        remainder = f" and {len(jobs) - NAMED} more" if len(jobs) > NAMED else ""
        yield f"will not fit, of {study}: the largest variants or routines of {', '.join(names)}{remainder}"


def _pace_lines(run_plan: Plan) -> Iterator[str]:
    """Yield a line for each study: the factor by which the GPU is slower than an H200, and the resulting time limit."""
    from repro.codegen.targets import REFERENCE_GPU
    from repro.studies import CostModel, get_study

    if run_plan.gpu is None:
        yield f"as on an {REFERENCE_GPU}: config/gpus.csv has no data of this GPU"
        return
    for name, study in run_plan.studies.items():
        slowdown = run_plan.gpu.slowdown(get_study(name).cost_models.get("cuda", CostModel()).intensity)
        timeout = study.settings.timing.on(slowdown).timeout
        yield f"{name}: a kernel takes {slowdown:.3g} times as long as on an {REFERENCE_GPU}, time-out {timeout:.0f} s"


def on_a_cluster(needs: Estimate, cores: int) -> str:
    from repro.cli.console import duration

    times = (f"{duration(needs.seconds(cores, gpus))} on {gpus}" for gpus in CLUSTER_SIZES)
    return f"on GPUs of a cluster that measure a case each: {', '.join(times)}"


def _case_lines(needs: Estimate) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return heads and rows of a table with a line for each problem of a study; variants and time are of all
    precisions together.
    """
    from repro.cli.console import duration

    job_groups: dict[tuple[str, str], list[Job]] = {}
    for job in needs.jobs:
        job_groups.setdefault((job.study, job.problem), []).append(job)
    rows = []
    for (study, problem), jobs in job_groups.items():
        variants, seconds = sum(job.variants for job in jobs), sum(job.seconds for job in jobs)
        estimate_cells = (f"{variants:,}", duration(seconds)) if jobs[0].is_estimated else (UNKNOWN, UNKNOWN)
        size = (*(f"{number:,}" for number in jobs[0].size), jobs[0].size_from)
        precisions = ", ".join(job.precision for job in jobs)
        rows.append((problem, jobs[0].what, precisions, *estimate_cells, *size, study))
    return ["problem", "what", "precision", "variants", "expected", "rows", "non-zeros", "size", "study"], rows


#: Meanings of the words in the column `size` of the plan.
SIZES = {
    "built": "known exactly",
    "stated": "by the registry, the generator or the file's header",
    "at most": "an upper bound from these",
    "by vertices": "guessed from the vertices that a mesh's file states",
    "by length": "guessed from the length of a mesh's file",
    "assumed": "nobody says it",
}


def _print_legend(needs: Estimate, rates: Rates) -> None:
    """Explain the words that occur in the plan's table, and no others."""
    typer.echo("What the columns mean:")
    _print_line("kernels to try on the problem, in all precisions; the fastest is chosen", "variants")
    _print_line(
        "estimated time for what is not yet measured. It assumes "
        f"{rates.screened / 1e9:g} GB/s for an average variant, {rates.finalist / 1e9:g} near the best, "
        f"{rates.library / 1e9:g} for the library; {rates.launch * 1e6:g} µs per launch, "
        f"{rates.variant_seconds * 1e3:g} ms per variant, {rates.start:g} s per job; the rest as in recorded campaigns",
        "expected",
    )
    _print_line(_compile_model(needs), "compiling")
    sources = dict.fromkeys(job.size_from for job in needs.jobs)
    _print_line("; ".join(f"{source}: {SIZES[source]}" for source in SIZES if source in sources), "size")


def _summary_lines(needs: Estimate) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return heads and rows of a table with a line for each study, precision, and entry type (or kind of problem)."""
    from statistics import median

    from repro.cli.console import duration

    job_groups: dict[tuple[str, str, str], list[Job]] = {}
    for job in needs.jobs:
        job_groups.setdefault((job.study, job.what, job.precision), []).append(job)
    rows = []
    for group, jobs in job_groups.items():
        seconds = [job.seconds for job in jobs]
        times = map(duration, (median(seconds), max(seconds), sum(seconds)))
        rows.append((*group, f"{len(jobs):,}", *(times if jobs[0].is_estimated else [UNKNOWN] * 3)))
    return ["study", "what", "precision", "cases", "median", "longest", "expected"], rows


def _print_line(text: str, name: str = "") -> None:
    from repro.cli.console import terminal_width, wrapped

    for line in wrapped(text, terminal_width(), f"{name:{NAME_WIDTH}}" if name else "", NAME_WIDTH if name else 0):
        typer.echo(line)


def _size(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 999.5:  # three digits are shown
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.3g} GiB"


def run(
    files: ConfigFiles = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Number of cores; by default all.")] = None,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE -- WORDS", help="Configurations as with --config, and arguments for Snakemake."),
    ] = None,
) -> None:
    """Run a campaign with `snakemake --cores N all` in any folder; all results are written to this folder.

    The workflow comes from the package. Configuration, registry and templates do too, unless the folder has its own.

    Examples:

        repro run

        repro run mine.yaml --cores 8

        repro run --config config/paper.yaml -- --dry-run
    """

    from repro.campaign.workflow import SNAKEMAKES_OWN, refuse_unwritable
    from repro.config import read
    from repro.words import CONFIGURATIONS

    words = words or []
    while words and Path(words[0]).suffix in (".yaml", ".yml"):  # no target of the workflow
        files = [*(files or []), Path(words.pop(0))]
    configuration = CONFIGURATIONS / f"{words[0]}.yaml" if words else None
    if configuration is not None and shipped(configuration).is_file():
        raise ReproError("run a campaign by its file", where=words[0], todo=f"repro run {configuration}")
    refuse_unwritable([SNAKEMAKES_OWN])  # Snakemake would print a traceback
    read(*(files or []))  # report a missing or wrong file here; Snakemake would print a traceback
    file_options = ["--configfile", *(str(shipped(path)) for path in files)] if files else []
    cores = cores or len(os.sched_getaffinity(0))
    # files last: Snakemake would take any word after `--configfile` for another file
    command = ["--snakefile", str(shipped("Snakefile", here=False)), "--cores", str(cores), *words, *file_options]
    sys.stdout.flush()
    # -P: do not import modules from the current folder
    os.execv(sys.executable, [sys.executable, "-P", "-m", "snakemake", *command])
