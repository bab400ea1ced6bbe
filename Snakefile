"""The campaign of config/config.yaml, or of the files that `--configfile` names in its place."""

import os
import sys

from repro.errors import ReproError
from repro.campaign.freshness import Freshness
from repro.campaign.plan import make_plan
from repro.campaign.starting import begin, refuse_file_in_the_way
from repro.config import resolve
from repro.config.load import read
from repro.shipped import shipped

# a file that is given stands alone: nothing of the default one lies under it
if not workflow.overwrite_configfiles:

    configfile: str(shipped("config/config.yaml"))


try:
    # refuses what Snakemake's reader lets pass, such as a key that is there twice
    read(*workflow.configfiles)
    plan = make_plan(resolve(config, ", ".join(map(str, workflow.configfiles))))
    refuse_file_in_the_way(plan)
    freshness = Freshness(plan)
    stale = freshness.stale
except ReproError as error:
    sys.exit(str(error))
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    sys.exit(130)


# names of problems hold slashes; this does not
wildcard_constraints:
    precision="single|double",


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
        os.utime(marker.name, (0, 0))
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
