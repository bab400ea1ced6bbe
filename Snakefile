"""The campaign of config/config.yaml, or of the files that `--configfile` names in its place."""

import re
import sys
from pathlib import Path

from repro.campaign.configuration import resolve
from repro.campaign.plan import ProblemBatches, make_plan
from repro.campaign.steps import Freshness
from repro.campaign.workflow import (
    Interruption,
    Requests,
    begin,
    configuration_of,
    drop_unasked_limit,
    failures,
    files_in_order,
    plan_of_run,
    refuse_what_is_in_the_way,
    report_commit,
    report_compiled,
    report_waiting,
)
from repro.cli.end_of_run import below_all, print_end_of_run, print_failures
from repro.config import add_place_to_errors
from repro.errors import ReproError
from repro.package_data import shipped


report: "workflow/report/workflow.rst"


# a given file replaces the default one: Snakemake would merge both
if not workflow.overwrite_configfiles:

    configfile: str(shipped("config/config.yaml"))


interruption = Interruption()
if workflow.is_main_process:
    interruption.catch_first()

try:
    # a job on a cluster uses the configuration and the stale steps of its run, also after later edits
    plan = None if workflow.is_main_process else plan_of_run()
    if plan is None:
        files = files_in_order(workflow)
        with add_place_to_errors(files):
            plan = make_plan(resolve(configuration_of(workflow, config, files), files))
    batches = ProblemBatches(plan)
    freshness = Freshness(plan) if workflow.is_main_process else None
    stale = freshness.stale if freshness else {}
    refuse_what_is_in_the_way(plan, freshness)
except ReproError as error:
    sys.exit(f"error: {error}")


made = f"\nreport   {plan.results}/report.html\ntables   {plan.results}/tables\nfigures  {plan.figures}"
# Snakemake calls no handler if nothing is left to do; print to stderr, since stdout may be a graph of jobs
if freshness and not stale:
    winners = f"winners  repro best {plan.config.campaign}"
    print(f"all is made already{made}\n{winners}\n", file=sys.stderr)


# requests to a cluster
requests = Requests(plan, batches)


# names of problems have slashes; a precision and the number of a batch have none
wildcard_constraints:
    precision="single|double",
    batch=r"\d+",


include: "workflow/rules/common.smk"


# a replay reads the recorded raw results
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
        interruption.catch()
        drop_unasked_limit(workflow)
        if not plan.config.replay:
            report_commit()
        report_compiled(plan, stale)
        report_waiting(plan)
    except ReproError as error:
        sys.exit(f"error: {error}")


# Snakemake calls no handlers of a module, and our jobs need this one
if not workflow.modifier.is_main_snakefile():
    workflow._onstart = onstart.func


onsuccess:
    with below_all():
        conclude()


onerror:
    interrupted = interruption.exit_code != 1
    said = [failures(Path(path), is_interrupted=interrupted) for path in log]
    failed = "\n\n".join(filter(None, said))
    with below_all():
        if Path(plan.results, "report.html").exists():
            # the check has the reasons as well
            conclude(reasons=not re.search("^check, ", failed, re.MULTILINE))
        print_failures(failed, plan.logs, log, interruption.exit_code)
    # Snakemake would go on to raise a `WorkflowError`, which says nothing more
    sys.exit(interruption.exit_code)
