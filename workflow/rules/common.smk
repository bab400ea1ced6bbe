"""What is out of date, in Snakemake's words, and the command that all rules call.

Receipts say what has to be made again, not times of files (docs/architecture.md): a job that has to be run gets an
input that is newer than all it ever wrote, and the inputs of all others are `ancient`.
"""

import os
import sys
import tempfile

from snakemake.settings.types import DeploymentMethod

#: `repro` of the Python that runs Snakemake, which need not be on PATH, and of no folder where it is started (-P);
#: where conda deploys environments, theirs.
REPRO = (
    ["repro"]
    if DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method
    else [sys.executable, "-P", "-m", "repro"]
)
#: The year 2100.
LATE = 4102444800

marker = tempfile.NamedTemporaryFile(prefix="out-of-date-")
# whatever time the outputs have; when the jobs begin it is set back, since Snakemake wants outputs newer than inputs
os.utime(marker.name, (LATE, LATE))


def inputs(steps, files):
    """Return the files that a job reads, such that it is run where one of its steps is stale, and nowhere else."""
    return ancient(files) if stale.keys().isdisjoint(steps) else [marker.name, *files]


def kept(files):
    """Return outputs of a job such that those that are there stay as they are where it fails, or never begins.

    Snakemake deletes outputs before a job and after its failure, but for those that it takes for updated.
    """
    return [update(path) if os.path.exists(path) else path for path in files]


if workflow.is_main_process and freshness.outdated:
    print("out of date:", *freshness.described(), sep="\n    ", file=sys.stderr)
