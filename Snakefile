"""The campaign that config/config.yaml describes; `--configfile` lays another file over it."""

import sys
import tempfile

from repro.errors import ReproError
from repro.campaign.freshness import Freshness
from repro.campaign.plan import make_plan
from repro.campaign.starting import begin
from repro.config import resolve


configfile: "config/config.yaml"


try:
    plan = make_plan(resolve(config, ", ".join(map(str, workflow.configfiles))))
    freshness = Freshness(plan)
except ReproError as error:
    sys.exit(str(error))


# names of problems hold slashes; this does not
wildcard_constraints:
    precision="single|double",


# Receipts say what has to be made again, not times of files (docs/architecture.md): a job that has to be run gets an
# input that is newer than all it ever wrote, and those of all others are `ancient`.
marker = tempfile.NamedTemporaryFile(prefix="out-of-date-")


def inputs(steps, files):
    """Return the files that a job reads, such that it is run where one of its steps is stale, and nowhere else."""
    return (
        ancient(files)
        if freshness.stale.keys().isdisjoint(steps)
        else [marker.name, *files]
    )


if workflow.is_main_process and freshness.outdated:
    print("out of date:", *freshness.described(), sep="\n    ", file=sys.stderr)


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
        begin(plan)
    except ReproError as error:
        sys.exit(str(error))


onsuccess:
    print(
        f"\nreport   {plan.results}/report.html\ntables   {plan.results}/tables\nfigures  {plan.figures}"
    )


onerror:
    print(
        f"\nnot complete: the messages above name what failed; logs are in {plan.logs} and {log}"
    )
