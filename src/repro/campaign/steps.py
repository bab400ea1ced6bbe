"""Definitions of all steps of a campaign with their inputs, and the search for stale steps.

The same definition is used to find stale steps, and by the command that makes the step and writes its receipt.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import Any, Literal

from repro.bench.campaign_folder import CampaignFolder
from repro.campaign.plan import Plan
from repro.campaign.receipts import Receipt, Step, code_hash, files_digest, stale_reason
from repro.codegen.build_cache import MODULES, compiler_identity, manifest_path
from repro.codegen.targets import Target
from repro.codegen.templates import COMMON, SUFFIXES
from repro.config.models import Config
from repro.package_data import shipped
from repro.problems.problem import Outline
from repro.studies import CostModel, get_study, study_module, study_names

#: Packages whose versions are inputs of building problems, rendering modules, measuring, and making artifacts.
BUILDING = ("numpy", "scipy", "scikit-fem", "meshio", "pyarrow", "gmsh", "tetgen", "pymeshfix", "fast-simplification")
RENDERING = ("jinja2",)
MEASURING = ("numpy", "scipy", "pyopencl", "pocl-binary-distribution", "intel-opencl-rt", "pycuda", "nvmath-python",
             "nvidia-cusparse", "cuda-bindings")  # fmt: skip
PRESENTING = ("pandas", "numpy", "matplotlib", "pyarrow", "jinja2")

#: Name of the last step.
CHECK = "check"


def steps(plan: Plan) -> list[Step]:
    """Return all steps in order of dependency, with the final check last (not in a replay)."""
    product_steps = [*_product_steps(plan)]
    if plan.config.replay:
        return product_steps
    values, receipts = {"code": code_hash("repro.campaign.completeness")}, tuple(step.receipt for step in product_steps)
    return [*product_steps, Step(CHECK, receipt_of(plan, "check"), (plan.folder.complete,), values, after=receipts)]


def until_measured(plan: Plan) -> Iterator[Step]:
    """Yield the steps up to measuring (no artifacts) in order of dependency; none in a replay."""
    if not plan.config.replay:
        assert plan.target is not None
        yield from (building(plan, name) for name in plan.problems)
        yield compiling_common(plan.target, Path(plan.config.kernels))
        for group in plan.module_groups:
            yield from (compiling(group.study, key, plan.target, Path(plan.config.kernels)) for key in group.keys)
        training = {study: _training(plan, study) for study in plan.studies}
        yield from (measuring(plan, *run, training[run[0]]) for run in plan.runs)


def _product_steps(plan: Plan) -> Iterator[Step]:
    yield from until_measured(plan)
    for study in plan.studies.values():
        if study.tables:
            yield presenting(plan, study.name, "tables")
        if study.figures:
            yield presenting(plan, study.name, "figures")
    yield reporting(plan)


def building(plan: Plan, name: str) -> Step:
    outputs = (plan.folder.problem(name), plan.folder.record(name))
    return building_into(outputs, receipt_of(plan, "problem", name), plan.problems[name], plan.config)


def building_into(outputs: tuple[Path, ...], receipt: Path, problem: Outline, config: Config) -> Step:
    """Return the step that builds a problem (of a campaign, or a single one) and writes it to the given files."""
    return Step(
        f"problem {problem.name}",
        receipt,
        outputs,
        {
            "definition": problem.definition,
            "seed": config.seed,
            "limits": config.limits.model_dump(mode="json"),
            "packages": _versions(BUILDING),
            "code": _building_code(),
        },
        problem.files,
    )


def compiling(study_name: str, key: str, target: Target, kernels: Path, modules: Path = MODULES) -> Step:
    return Step(
        f"compile {study_name} {key}",
        _module_receipt(target, study_name, key, modules=modules),
        (manifest_path(target.name, study_name, key, modules),),
        _compiled_from(study_name, target, kernels),
    )


def _compiled_from(study_name: str, target: Target, kernels: Path) -> dict[str, Any]:
    """Return the inputs of a study's compile steps."""
    return {
        "compiler": compiler_identity(target),
        "templates": templates_digest(kernels, (study_name, "sparse", "filtering", COMMON, "dialects")),
        "packages": _versions(RENDERING),
        "code": _compiling_code(study_name),
    }


def compiling_common(target: Target, kernels: Path, modules: Path = MODULES) -> Step:
    """Return the step that compiles the module common to all studies."""
    return Step(
        "compile common",
        _module_receipt(target, COMMON, modules=modules),
        (modules / target.name / f"{COMMON}.json",),
        {
            "compiler": compiler_identity(target),
            "templates": templates_digest(kernels, (COMMON, "dialects")),
            "packages": _versions(RENDERING),
            "code": code_hash("repro.codegen.build_cache", "repro.codegen.templates"),
        },
    )


def measuring(
    plan: Plan, study_name: str, problem_name: str, precision: str, training: tuple[Path, ...] | None = None
) -> Step:
    """Return the step that measures one case; `training` has the training files of a predicted search, if known."""
    assert plan.target is not None
    case = study_name, problem_name, precision
    modules = [_module_receipt(plan.target, study_name, key) for key in plan.modules(*case)]
    rivals = plan.rivals(study_name)
    settings = plan.studies[study_name].settings
    on_demand = bool(settings.edges) or get_study(study_name).compiles_on_demand(settings)
    calls = filter(None, [get_study(study_name).calls_module])
    return Step(
        f"measure {study_name} {problem_name} {precision}",
        receipt_of(plan, study_name, problem_name, precision),
        plan.case_outputs(study_name, problem_name, precision),
        {
            "settings": plan.measured_settings[study_name],
            "parts": get_study(study_name).parts_of(plan.studies[study_name].settings, precision),
            "seed": plan.config.seed,
            "device": [plan.device, *_machine(plan.device)],
            "packages": _versions((*MEASURING, *get_study(study_name).packages)),
            "code": code_hash("repro.campaign.measurement", *calls, *_modules(study_name, "study")),
            **({"repeats": plan.config.repeats.model_dump()} if case in plan.repeated else {}),
            **({"slowdown": _slowdown(plan, study_name)} if plan.gpu else {}),
            **({"blocking": False} if plan.on_gpu and not _may_block() else {}),
            **({"rivals": [rival.model_dump(mode="json") for rival in rivals]} if rivals else {}),
            **({"modules": _compiled_from(study_name, plan.target, Path(plan.config.kernels))} if on_demand else {}),
        },
        (*(_training(plan, study_name) if training is None else training), *plan.rival_files(study_name)),
        (receipt_of(plan, "problem", problem_name), *modules, _module_receipt(plan.target, COMMON)),
    )


def presenting(plan: Plan, study_name: str, kind: Literal["tables", "figures"]) -> Step:
    return Step(
        f"{kind} {study_name}",
        receipt_of(plan, kind, study_name),
        tuple(map(Path, plan.artifact_outputs(study_name, kind))),
        {
            "artifacts": getattr(plan.studies[study_name], kind),
            "code": code_hash(
                "repro.campaign.artifacts",
                "repro.results.output",
                *_modules(study_name, "study", kind, "claims"),
            ),
            **_reading_values(plan, study_name),
        },
        (*map(Path, plan.published(study_name)), *plan.recorded_files, *plan.files_beside),
        _artifact_inputs(plan, study_name),
    )


def reporting(plan: Plan) -> Step:
    parts = ("study", "tables", "claims", "figures")
    modules = [module for study in plan.studies for module in _modules(study, *parts)]
    published = [Path(path) for study in plan.studies for path in plan.published(study)]
    artifact_names = {name: [*study.tables, *study.figures] for name, study in plan.studies.items()}
    return Step(
        "report",
        receipt_of(plan, "report"),
        tuple(plan.folder.page(name) for name in ("report.html", "reproduction.md")),
        {
            "artifacts": artifact_names,
            "code": code_hash("repro.campaign.report", *modules),
            "studies": {study: _reading_values(plan, study) for study in plan.studies},
        },
        (*published, *plan.recorded_files, *plan.files_beside),
        tuple(receipt for study in plan.studies for receipt in _artifact_inputs(plan, study)),
    )


def receipt_of(plan: Plan, *path_parts: str) -> Path:
    return plan.folder.receipt(*path_parts)


@cache
def _module_receipt(target: Target, *path_parts: str, modules: Path = MODULES) -> Path:
    return Path(modules, target.name, "receipts", *path_parts[:-1], f"{path_parts[-1]}.json")


def _artifact_inputs(plan: Plan, study_name: str) -> tuple[Path, ...]:
    """Return the receipts of the cases on which a study's artifacts depend; empty in a replay (which reads files)."""
    if plan.config.replay:
        return ()
    problems = [receipt_of(plan, "problem", name) for name in plan.studies[study_name].problems]
    return (*problems, *(receipt_of(plan, *run) for run in plan.runs if run[0] == study_name))


def _reading_values(plan: Plan, study_name: str) -> dict[str, Any]:
    """Return the settings and package versions on which a study's tables and figures depend."""
    settings = plan.studies[study_name].settings
    return {
        "problems": plan.studies[study_name].problems,
        "precisions": settings.precisions,
        "tie": settings.timing.tie,
        "beside": plan.config.beside,
        "as_published": plan.config.as_published,
        "later": plan.config.later,
        "packages": _versions(PRESENTING),
    }


def _slowdown(plan: Plan, study_name: str) -> float:
    """Return the factor by which measuring multiplies a study's time-out; it depends on `config/gpus.csv`."""
    assert plan.gpu is not None
    return plan.gpu.slowdown(get_study(study_name).cost_models.get("cuda", CostModel()).intensity)


def _training(plan: Plan, study_name: str) -> tuple[Path, ...]:
    """Return the files of other campaigns that a study reads, if any.

    A predicted search reads search rows and problem records, a measurement beyond edges search rows and choices.
    """
    settings = plan.studies[study_name].settings
    if settings.edges:
        records = map(CampaignFolder.of, settings.edge_records)
        steps = product(records, ("search", "choices"))
        return tuple(path for record, step in steps for path in record.step_files(study_name, step))
    if settings.search != "predicted":
        return ()
    selected_names = None if settings.training == "all" else settings.training
    other_campaigns = [folder for folder in CampaignFolder.measured() if folder.name != plan.config.campaign]
    campaigns = [folder for folder in other_campaigns if selected_names is None or folder.name in selected_names]
    return tuple(sorted(path for folder in campaigns for path in folder.training_files(study_name)))


@cache
def _building_code() -> str:
    modules = [module for study in study_names() for module in _modules(study, "facts")]
    return code_hash("repro.campaign.problem_files", *modules)


@cache
def _compiling_code(study_name: str) -> str:
    """Return the hash of the code that renders and compiles a study's modules (its `kernels.py`, else `study.py`)."""
    modules = _modules(study_name, "kernels") or _modules(study_name, "study")
    return code_hash("repro.codegen.build_cache", *modules)


def _modules(study_name: str, *parts: str) -> list[str]:
    """Return the full names of a study's Python modules named in `parts` (such as `kernels`), if they exist."""
    return [module for part in parts if (module := study_module(study_name, part))]


@cache
def templates_digest(kernels: Path, folders: tuple[str, ...]) -> str:
    template_files = (path for folder in folders for path in shipped(kernels / folder).rglob("*"))
    return files_digest(path for path in template_files if path.suffix in SUFFIXES)


@cache
def _machine(device: str) -> tuple[str, ...]:
    from repro.devices.selection import models

    return tuple(models(device))


def _may_block() -> bool:
    """Return whether a GPU's stream may be blocked while launches are queued; otherwise event times include gaps."""
    from repro.devices.cuda import may_block

    return may_block(os.environ)


@cache
def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    installed = {}
    for package in packages:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


#: Maximum number of reasons in a message; the number of further reasons is added.
NAMED = 20
#: Last words of the reason for a step that is stale only because an earlier step is stale.
BEHIND_ANOTHER = "has to be made first"


class Freshness:
    """Stale steps of a plan, found by comparing it once with the receipts on disk; nothing is written.

    `part` has the steps to check in order of dependency; None checks all steps.
    """

    def __init__(self, plan: Plan, part: Iterable[Step] | None = None) -> None:
        self._steps = steps(plan) if part is None else [*part]
        read = {step.receipt: Receipt.read(step.receipt) for step in self._steps}
        self._receipts = {path: receipt for path, receipt in read.items() if isinstance(receipt, Receipt)}
        self._damaged = {path: damage for path, damage in read.items() if isinstance(damage, str)}

    @property
    def steps(self) -> Sequence[Step]:
        return self._steps

    @property
    def total(self) -> int:
        return len(self._steps)

    @cached_property
    def stale(self) -> Mapping[str, str]:
        """Reason for each stale step, by name, in order of dependency."""
        names = {step.receipt: step.name for step in self._steps}
        reasons: dict[str, str] = {}
        for step in self._steps:
            earlier_step = next((names[path] for path in step.after if names[path] in reasons), None)
            reason = (
                f"{earlier_step} {BEHIND_ANOTHER}"
                if earlier_step
                else stale_reason(step, self._receipts, self._damaged)
            )
            if reason:
                reasons[step.name] = reason
        return reasons

    @property
    def stale_outputs(self) -> list[Path]:
        return [path for step in self._steps if step.name in self.stale for path in step.outputs]

    @property
    def stale_files(self) -> list[Path]:
        """Planned outputs and receipts of stale steps."""
        return [path for step in self._steps if step.name in self.stale for path in (step.receipt, *step.outputs)]

    @cached_property
    def unlike(self) -> Mapping[str, str]:
        """Reasons of stale steps that neither failed nor depend on another stale step."""
        failed_steps = {receipt.step for receipt in self._receipts.values() if receipt.failed}
        return {
            name: reason
            for name, reason in self.stale.items()
            if name not in failed_steps and not reason.endswith(BEHIND_ANOTHER)
        }

    @cached_property
    def outdated(self) -> Mapping[str, str]:
        """Reasons of stale steps whose outputs exist, so that Snakemake would regard them as done."""
        return {
            step.name: self.stale[step.name]
            for step in self._steps
            if step.name in self.stale and any(path.exists() for path in step.outputs)
        }

    def described(self) -> list[str]:
        """Return lines on outdated steps, one per reason; steps that only depend on stale ones are just counted."""
        by_reason: dict[str, list[str]] = {}
        follow = 0
        for name, reason in self.outdated.items():
            if reason.endswith(BEHIND_ANOTHER):
                follow += 1
            else:
                by_reason.setdefault(reason, []).append(name)
        lines = [
            f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}"
            for reason, names in by_reason.items()
        ]
        if len(lines) > NAMED:
            lines[NAMED:] = [f"and {len(lines) - NAMED} more reasons"]
        return [*lines, *([f"and {follow} more, which are made from what is made again"] if follow else [])]
