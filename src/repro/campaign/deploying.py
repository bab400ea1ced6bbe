"""The environment that conda deploys for the jobs of a campaign."""

from __future__ import annotations

import json
import shlex

from repro.errors import ReproError
from repro.shipped import PACKED, shipped

#: What the files ask pip for: this package, by a path that holds where the file lies.
OWN = "- -e ."


def environment_file(on_gpu: bool) -> str:
    """Return the content of `environment.yml`, or on a GPU of `environment-cuda.yml`, that holds wherever it lies.

    Snakemake copies the file to where it deploys, and a relative path would lead from there.

    Raises
    ------
    ReproError
        The package is not run from a checkout, so that conda could not install it.
    """
    path = shipped("environment-cuda.yml" if on_gpu else "environment.yml", here=False)
    if PACKED.is_dir():
        raise ReproError(
            "--sdm conda needs a checkout",
            expected="the package as an editable install of a checkout, from where conda installs it",
            actual="a wheel",
            todo="leave --sdm conda out: jobs then run in the environment that runs Snakemake",
        )
    own = json.dumps(f"-e {shlex.quote(str(path.resolve().parent))}")
    text = path.read_text()
    assert text.count(OWN) == 1
    return text.replace(OWN, f"- {own}")
