"""What is out of date, in Snakemake's words, and the command that all rules call.

Receipts say what has to be made again, not times of files (docs/architecture.md): a job that has to be run is forced,
and the inputs of all others are `ancient`.
"""

import os
import sys
import tempfile
from functools import cache, partial

from repro.campaign.workflow import (
    claimed_gpus,
    environment_file,
    overrule,
    processes_per_device,
)
from repro.errors import ReproError
from repro.studies import get_study
from snakemake.settings.types import DeploymentMethod

CONDA = DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method
#: Command `repro` of Snakemake's Python, also outside of PATH and without the current folder (-P); with conda, that of
#: the deployed environment.
REPRO = ["repro"] if CONDA else [sys.executable, "-P", "-m", "repro"]
#: Environment of all rules, with conda.
ENVIRONMENT = "../../environment.yml"
if CONDA:
    deployed = tempfile.NamedTemporaryFile("w", prefix="environment-", suffix=".yml")
    try:
        deployed.write(environment_file(plan.on_gpu))
        deployed.flush()
    except ReproError as error:
        sys.exit(f"error: {error}")
    ENVIRONMENT = deployed.name


#: Cores that a job asks a cluster for which compiles on demand while it holds a GPU.
CLUSTER_COMPILERS = 8


@cache
def overruled(dag):
    """Let receipts rule the graph of jobs, which is there when the first of them asks for its inputs."""
    forced = [*freshness.stale_outputs, *batches.stale(stale)] if freshness else []
    overrule(dag, plan, forced)


def inputs(steps, files, ahead=()):
    """Return the files that a job waits for, such that it is run where one of its steps is stale, and nowhere else.

    `ahead` are those that the jobs before it wait for. Of all jobs behind one that runs Snakemake looks at those alone
    that wait for its outputs themselves, and one between that is fresh passes nothing on. To such a one nothing is
    missing, though the file of a batch may be.
    """
    if workflow.dag is not None:
        overruled(workflow.dag)
    if stale.keys().isdisjoint(steps):
        return ancient([path for path in files if os.path.exists(path)])
    return [*files, *ahead]


def ahead_of_check(report):
    """Return what the check waits for, all files that can record an absence, by as few of them as say so.

    Snakemake names them where the check fails. A report that this run writes waits for all others; beside one that is
    there, those that this run makes are left.
    """
    if "report" in stale or freshness is None:
        return report
    made_now = {*map(str, freshness.stale_outputs), *batches.stale(stale)}
    others = [*batches.all_ahead, *batches.all_raw, *plan.artifact_files]
    return [*report, *(path for path in others if path in made_now)]


def kept(files):
    """Return outputs of a job such that those that are there stay as they are where it fails, or never begins.

    Snakemake deletes outputs before a job and after its failure, but for those that it takes for updated.
    """
    return [update(path) if os.path.exists(path) else path for path in files]


def artifacts(study, kind):
    """Return a study's tables or figures, of which Snakemake's report shows a file each, in the study's category."""
    files, labels = plan.artifact_outputs(study, kind), plan.labels(study, kind)
    about = {
        "category": plan.title(study),
        "subcategory": kind.capitalize(),
        "caption": f"../report/{kind}.rst",
    }
    marked = {path: report(path, labels=labels[path], **about) for path in labels}
    return kept([marked.get(path, path) for path in files])


def asked(what):
    """Return the resources that a job asks a cluster for, by its wildcards: more each time that it is tried again."""
    return {
        "runtime": lambda wildcards, attempt: what(**wildcards).minutes * attempt,
        "mem_mb": lambda wildcards, attempt: what(**wildcards).megabytes * attempt,
    }


def gpu_limit():
    """Return how many GPUs all jobs of this machine may claim; None without a limit, or on a cluster."""
    limit = workflow.global_resources.get("gpu") if workflow.local_exec else None
    # a number, or in newer versions of Snakemake an object with a value
    return getattr(limit, "value", limit)


def threads_to_measure(study):
    """Return the cores of a job that measures: all on a CPU; on a GPU one, but where it compiles on demand its share."""
    if not plan.on_gpu:
        return workflow.cores
    if not get_study(study).compiles_on_demand(plan.studies[study].settings):
        return 1
    if not workflow.local_exec:
        return CLUSTER_COMPILERS
    return max(1, workflow.cores // processes_per_device(plan, study, gpu_limit()))


def asked_to_measure(what, study):
    """Return the resources of a job that measures: its GPUs beside; on a CPU, the node alone."""
    alone = {} if plan.on_gpu else {"slurm_extra": "--exclusive"}
    return {
        **asked(what),
        **alone,
        "gpu": lambda wildcards: claimed_gpus(plan, study, gpu_limit()),
    }


if freshness and freshness.outdated:
    print("out of date:", *freshness.described(), sep="\n    ", file=sys.stderr)


def conclude(reasons=True):
    """Print where the results are, and the winners, also where one problem is refused and the others are measured."""
    print(made)
    try:
        print_end_of_run(plan.config.campaign, reasons)
    except ReproError as error:  # the run itself is over
        print(error, file=sys.stderr)
