"""What the project uses of Snakemake and PyYAML beyond their documentation, by the versions that were looked at.

When `make lock` brings another version, look at each part in it before its number is written here.
"""

from __future__ import annotations

import re
from inspect import getsource, signature
from pathlib import Path

import pytest
import yaml._yaml
from snakemake.api import Workflow
from snakemake.dag import DAG
from snakemake.scheduling.job_scheduler import JobScheduler

from repro.campaign import workflow as runs

ROOT = Path(__file__).parents[2]
LOOKED_AT = {"snakemake": "9.27.1", "pyyaml": "6.0.3"}
#: Attributes of the object `workflow` in a Snakefile, and of the graph of jobs.
OF_WORKFLOWS = {
    "_onstart", "configfiles", "config_settings", "cores", "dag", "deployment_settings", "global_resources",
    "is_main_process", "local_exec", "modifier", "overwrite_configfiles", "scheduler", "scheduling_settings",
}  # fmt: skip
OF_GRAPHS = {"check_output_mtime", "forcefiles"}


@pytest.mark.parametrize("package", LOOKED_AT)
def test_the_locked_version_is_the_one_that_was_looked_at(package: str) -> None:
    assert f"\n{package}=={LOOKED_AT[package]} " in (ROOT / "locks/campaign.txt").read_text()


def test_the_parts_that_are_used_are_those_that_are_listed() -> None:
    files = [ROOT / "Snakefile", *(ROOT / "workflow").rglob("*.smk"), Path(runs.__file__)]
    text = "\n".join(re.sub("#.*", "", path.read_text()) for path in files)
    text = text.replace('getattr(workflow, "', "workflow.")
    assert {*re.findall(r"\bworkflow\.(\w+)", text)} - {"rst"} == OF_WORKFLOWS
    assert {*re.findall(r"\bdag\.(\w+)", text)} == OF_GRAPHS
    sources = {path: path.read_text() for path in (ROOT / "src").rglob("*.py")}
    private = r"^(?:from|import) (?:snakemake|yaml)\S*\._\w+.*|\b(?:yaml|snakemake)\._\w+"
    found = {match for source in sources.values() for match in re.findall(private, source, re.MULTILINE)}
    assert found == {"from yaml._yaml import CParser"}


def test_a_workflow_has_its_parts() -> None:
    source = getsource(Workflow)
    missing = {name for name in OF_WORKFLOWS if not re.search(rf"^    (?:def )?{name}\b|self\.{name}\b", source, re.M)}
    assert not missing


def test_the_graph_of_jobs_has_its_parts() -> None:
    assert [*signature(DAG.check_output_mtime).parameters][:2] == ["self", "job"]
    assert "self.forcefiles = set()" in getsource(DAG)
    assert "job_rate_limiter" in getsource(JobScheduler)


def test_the_parser_of_libyaml_composes_with_classes_of_pyyaml() -> None:
    assert {"peek_event", "get_event", "check_event"} <= {*dir(yaml._yaml.CParser)}
