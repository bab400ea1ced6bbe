"""`--sdm conda`, by a stub in the place of conda: what is asked of it, and jobs that run in what it deploys."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from repro.campaign import workflow
from repro.campaign.workflow import environment_file
from repro.errors import ReproError
from support.checkouts import Checkout

pytestmark = [pytest.mark.workflow, pytest.mark.medium]

ABOUT = {"platform": "linux-64", "conda_version": "25.1.1", "envs": []}
#: Makes an environment whose `repro` is the checkout's that the environment file has pip install, and keeps the file.
CREATE = """
import pathlib, sys, yaml
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
file, prefix = pathlib.Path(words["--file"]), pathlib.Path(words["--prefix"])
(made := prefix / "bin").mkdir(parents=True)
own = yaml.safe_load(file.read_text())["dependencies"][-1]["pip"][0].removeprefix("-e ").strip("'")
assert pathlib.Path(own, "src/repro").is_dir(), own
(made / "repro").write_text(f"#!/bin/sh\\necho called >> {own}/called\\n"
                            f"PYTHONPATH='{own}/src' exec {sys.executable} -P -m repro \\"$@\\"\\n")
(made / "repro").chmod(0o755)
"""


@pytest.fixture(scope="module")
def conda(checkout: Checkout) -> Path:
    """A stub of conda; the folder that it lies in."""
    prefix = checkout.folder / "stub"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/activate").write_text('PATH="$1/bin:$PATH"\n')
    (prefix / "create.py").write_text(CREATE)
    about = json.dumps(ABOUT | {"conda_prefix": str(prefix)})
    strict = json.dumps({"get": {"channel_priority": "strict"}})
    stub = prefix / "bin/conda"
    stub.write_text(f"""#!/bin/sh
case "$*" in
    *"info --json"*) echo '{about}';;
    *--version*) echo "conda 25.1.1";;
    *"config --get"*) echo '{strict}';;
    "env create"*) shift 4; {shlex.quote(sys.executable)} {shlex.quote(str(prefix / "create.py"))} "$@";;
    "clean "*) ;;
    *) echo "unknown: $*" >&2; exit 2;;
esac
""")
    stub.chmod(0o755)
    return stub.parent


@pytest.mark.exhaustive
def test_a_dry_run_says_what_would_be_deployed_and_calls_its_repro(checkout: Checkout, conda: Path) -> None:
    said = checkout.snakemake("--dry-run", "--printshellcmds", "--sdm=conda", "all", path=conda)
    assert said.code == 0, said.text
    called = set(re.findall(r"^Shell command: +(.*repro) (?:table|figure|measure|compile|problem|report|check) ",
                            said.text, re.M))  # fmt: skip
    assert called == {"repro"}
    assert len(re.findall(r"Conda environment .*environment-.*\.yml will be created", said.text)) == 1


@pytest.mark.exhaustive
def test_jobs_run_in_the_one_environment_that_is_deployed(checkout: Checkout, conda: Path) -> None:
    wanted = [f"results/default/problems/{name}.npz" for name in ("dirac_torus", "elasticity_mapped")]
    said = checkout.snakemake("--sdm=conda", *wanted, path=conda)
    assert said.code == 0, said.text
    assert all((checkout.folder / path).exists() for path in wanted)
    assert (checkout.folder / "called").read_text().splitlines() == ["called"] * 2
    deployed = [*(checkout.folder / ".snakemake/conda").glob("*.yaml")]
    assert len(deployed) == 1
    dependencies = yaml.safe_load(deployed[0].read_text())["dependencies"]
    assert dependencies[:-1] == yaml.safe_load((checkout.folder / "environment.yml").read_text())["dependencies"][:-1]
    again = checkout.snakemake("--sdm=conda", *wanted, path=conda)
    assert again.nothing_to_do, again.text
    assert len([*(checkout.folder / ".snakemake/conda").glob("*.yaml")]) == 1


@pytest.mark.parametrize(("on_gpu", "name"), [(False, "sparse-repro"), (True, "sparse-repro-cuda")])
def test_the_file_fits_the_device_and_leads_to_the_checkout_from_anywhere(on_gpu: bool, name: str) -> None:
    environment = yaml.safe_load(environment_file(on_gpu))
    assert environment["name"] == name
    option, path = shlex.split(environment["dependencies"][-1]["pip"][0])
    assert option == "-e"
    assert Path(path, "src/repro/campaign/workflow.py").samefile(workflow.__file__)


@pytest.mark.wording
def test_without_a_checkout_it_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(workflow, "WHEEL_DATA", tmp_path)
    with pytest.raises(ReproError, match=r"--sdm conda needs a checkout[\s\S]*a wheel"):
        environment_file(False)
