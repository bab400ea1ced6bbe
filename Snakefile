"""The campaign of config/config.yaml, or of the files that `--configfile` names in its place."""

import sys

from repro.campaign.jobs import Batches, Requests
from repro.campaign.plan import make_plan
from repro.campaign.steps import Freshness
from repro.campaign.workflow import (
    begin,
    drop_unasked_limit,
    plan_of_run,
    refuse_file_in_the_way,
)
from repro.config import read, resolve
from repro.errors import ReproError
from repro.package_data import shipped


report: "workflow/report/workflow.rst"


# a file that is given stands alone: nothing of the default one lies under it
if not workflow.overwrite_configfiles:

    configfile: str(shipped("config/config.yaml"))


try:
    # a job of a cluster is of the run that sent it, whatever was edited since, and makes what that found stale
    plan = None if workflow.is_main_process else plan_of_run()
    if plan is None:
        # refuses what Snakemake's reader lets pass, such as a key that is there twice
        read(*workflow.configfiles)
        plan = make_plan(resolve(config, ", ".join(map(str, workflow.configfiles))))
    refuse_file_in_the_way(plan)
    batches = Batches(plan)
    freshness = Freshness(plan) if workflow.is_main_process else None
    stale = freshness.stale if freshness else {}
except ReproError as error:
    sys.exit(str(error))
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    sys.exit(130)


# what jobs ask a cluster for
requests = Requests(plan, batches)


# names of problems hold slashes; this does not
wildcard_constraints:
    precision="single|double",
    batch=r"\d+",


include: "workflow/rules/common.smk"


# a replay takes the raw results as they were recorded
if not plan.config.replay:

    include: "workflow/rules/problems.smk"
    include: "workflow/rules/codegen.smk"
    include: "workflow/rules/bench.smk"


include: "workflow/rules/artifacts.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        rules.report.output,
        plan.artifact_files,
        [] if plan.config.replay else rules.check.output,
    message:
        "Everything is there"


onstart:
    try:
        begin(plan, stale)
        drop_unasked_limit(workflow)
    except ReproError as error:
        sys.exit(str(error))


# of a module Snakemake calls no handler, and without this one no job of ours can run
if not workflow.modifier.is_main_snakefile():
    workflow._onstart = onstart.func


onsuccess:
    print(
        f"\nreport   {plan.results}/report.html\ntables   {plan.results}/tables\nfigures  {plan.figures}"
    )


onerror:
    print(
        f"\nnot complete: the messages above name what failed; logs are in {plan.logs} and {' '.join(log)}"
    )
