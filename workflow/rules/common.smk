"""Which jobs are stale, in Snakemake's terms, and the command that all rules call.

Receipts say what has to be made again, not times of files (docs/adr/0004-receipts-decide-what-is-stale.md): a stale job
is forced, and the inputs of all others are `ancient`.
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
#: Command `repro` of Snakemake's Python, which need not be in PATH, without imports from the current folder (-P); with
#: conda, the command of the deployed environment.
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


#: Cores that a job requests on a cluster if it compiles on demand while it holds a GPU.
CLUSTER_COMPILERS = 8


@cache
def overruled(dag):
    """Force stale jobs in the graph of jobs; the graph exists once the first job asks for its inputs."""
    forced = [*freshness.stale_outputs, *batches.stale(stale)] if freshness else []
    overrule(dag, plan, forced)


def inputs(steps, files, ahead=()):
    """Return the files that a job waits for, so that it runs if and only if one of its steps is stale.

    `ahead` are the files that the jobs before it wait for. Snakemake only re-examines direct successors of a running
    job, so a stale job lists all outputs upstream. A fresh job lists the files that exist: the file of a batch may be
    missing without making it run.
    """
    if workflow.dag is not None:
        overruled(workflow.dag)
    if stale.keys().isdisjoint(steps):
        return ancient([path for path in files if os.path.exists(path)])
    return [*files, *ahead]


def ahead_of_check(report):
    """Return the files that the check waits for: few, because Snakemake prints all of them if the check fails.

    A report that this run writes waits for all other files itself. If the report stays as it is, the check waits for
    the files that this run makes as well.
    """
    if "report" in stale or freshness is None:
        return report
    made_now = {*map(str, freshness.stale_outputs), *batches.stale(stale)}
    others = [*batches.all_ahead, *batches.all_raw, *plan.artifact_files]
    return [*report, *(path for path in others if path in made_now)]


def kept(files):
    """Return a job's outputs, marked so that existing files survive if the job fails or never begins.

    Snakemake deletes outputs before a job and after its failure, except those that are marked as updated.
    """
    return [update(path) if os.path.exists(path) else path for path in files]


def artifacts(study, kind):
    """Return a study's tables or figures; Snakemake's report shows one file of each, in the study's category."""
    files, labels = plan.artifact_outputs(study, kind), plan.labels(study, kind)
    about = {
        "category": plan.title(study),
        "subcategory": kind.capitalize(),
        "caption": f"../report/{kind}.rst",
    }
    marked = {path: report(path, labels=labels[path], **about) for path in labels}
    return kept([marked.get(path, path) for path in files])


def asked(what):
    """Return the resources that a job requests on a cluster, by its wildcards; each retry requests more."""
    return {
        "runtime": lambda wildcards, attempt: what(**wildcards).minutes * attempt,
        "mem_mb": lambda wildcards, attempt: what(**wildcards).megabytes * attempt,
    }


def gpu_limit():
    """Return the number of GPUs that all jobs of this machine may claim; None without a limit, or on a cluster."""
    limit = workflow.global_resources.get("gpu") if workflow.local_exec else None
    # a number, or in newer versions of Snakemake an object with a value
    return getattr(limit, "value", limit)


def threads_to_measure(study):
    """Return the cores of a measuring job: all on a CPU; on a GPU one, or its share if it compiles on demand."""
    if not plan.on_gpu:
        return workflow.cores
    if not get_study(study).compiles_on_demand(plan.studies[study].settings):
        return 1
    if not workflow.local_exec:
        return CLUSTER_COMPILERS
    return max(1, workflow.cores // processes_per_device(plan, study, gpu_limit()))


def asked_to_measure(what, study):
    """Return the resources of a measuring job: also its GPUs; on a CPU, an exclusive node."""
    alone = {} if plan.on_gpu else {"slurm_extra": "--exclusive"}
    return {
        **asked(what),
        **alone,
        "gpu": lambda wildcards: claimed_gpus(plan, study, gpu_limit()),
    }


if freshness and freshness.outdated:
    print("out of date:", *freshness.described(), sep="\n    ", file=sys.stderr)


def conclude(reasons=True):
    """Print where the results are, and the winners, even if some problems were refused."""
    print(made)
    try:
        print_end_of_run(plan.config.campaign, reasons)
    except ReproError as error:  # the run itself is over
        print(error, file=sys.stderr)
    except (MemoryError, ImportError) as error:
        # this process is larger than those of the steps
        reason = f"too little memory to print the winners ({type(error).__name__})"
        print(f"{reason}: `repro best {plan.config.campaign}`", file=sys.stderr)
