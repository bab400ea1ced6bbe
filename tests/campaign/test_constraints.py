"""The environment of a recorded campaign as constraints for pip."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.records import read_environments
from repro.campaign.archive import constraints_of
from repro.cli.app import build
from repro.errors import ReproError
from support.campaigns import recorded_campaigns
from support.split_campaign import RECORDED


def write(path: Path, **records: dict[str, object]) -> CampaignFolder:
    folder = CampaignFolder(path)
    folder.environments.mkdir(parents=True)
    for name, record in records.items():
        folder.environment(name).write_text(json.dumps(record))
    return folder


@pytest.mark.parametrize("campaign", recorded_campaigns())
def test_each_recorded_campaign_tells_its_packages_with_driver_and_toolkit(campaign: str) -> None:
    records = read_environments(CampaignFolder.of(campaign, RECORDED)).values()
    record = next(iter(records))
    wanted = {name: version for one in records for name, version in one["packages"].items()}
    said = CliRunner().invoke(
        build(["environment"]), ["environment", "--campaign", campaign, "--results", str(RECORDED)]
    )
    assert said.exit_code == 0
    lines = said.output.splitlines()
    packages = [line for line in lines if not line.startswith("#")]
    assert packages == [f"{name}=={version}" for name, version in sorted(wanted.items())]
    assert f"# driver: {record['driver']}" in lines
    assert f"# compiler: {record['compiler']}" in lines
    assert f"# CUDA toolkit that PyCUDA was built with: {record['cuda_of_pycuda']}" in lines
    assert f"# Python: {record['python']}" in lines


def test_a_library_that_was_loaded_from_elsewhere_is_not_pinned(tmp_path: Path) -> None:
    packages = {"nvidia-cusparse": "12.6.3.3", "numpy": "2.0"}
    folder = write(tmp_path / "made", a=ONE | {"packages": packages, "cusparse": "12.9.4"})
    lines = constraints_of(folder).splitlines()
    assert lines[-1] == "# nvidia-cusparse: 12.6.3.3 was installed, and 12.9.4 was loaded from elsewhere"
    assert "numpy==2.0" in lines
    # a version is as long as its package's but for the build; and one that is not said is the package's
    for cusparse in ("12.6.3", None):
        folder = write(tmp_path / f"made-{cusparse}", a=ONE | {"packages": packages, "cusparse": cusparse})
        assert constraints_of(folder).splitlines()[-1] == "nvidia-cusparse==12.6.3.3"


def test_what_it_prints_is_what_pip_takes() -> None:
    from packaging.requirements import Requirement

    for line in constraints_of(CampaignFolder.of("h200", RECORDED)).splitlines():
        if not line.startswith("#"):
            (pin,) = Requirement(line).specifier
            assert pin.operator == "=="


ONE = {"device": "CPU", "python": "3.11.7", "packages": {"numpy": "2.0", "scipy": "1.16"}}


def test_records_that_say_the_same_are_one(tmp_path: Path) -> None:
    folder = write(tmp_path / "made", a=ONE | {"commit": "1" * 40}, b=ONE | {"commit": "2" * 40, "source": "x"})
    assert constraints_of(folder).splitlines() == [
        "# Measured with, by 2 environment records of campaign made",
        "# of this software: commit 111111111111, commit 222222222222",
        "# device: CPU",
        "# Python: 3.11.7",
        "numpy==2.0",
        "scipy==1.16",
    ]


def test_a_study_s_own_packages_are_beside_those_of_all(tmp_path: Path) -> None:
    more = ONE | {"packages": {"numpy": "2.0", "nccl4py": "0.1"}}
    assert constraints_of(write(tmp_path / "made", a=ONE, b=more)).splitlines()[-3:] == [
        "nccl4py==0.1",
        "numpy==2.0",
        "scipy==1.16",
    ]
    other = ONE | {"packages": {"numpy": "2.1"}}
    with pytest.raises(ReproError, match=r"several[\s\S]*a: numpy==2.0, scipy==1.16; b: numpy==2.1"):
        constraints_of(write(tmp_path / "others", a=ONE, b=other))


def test_of_several_environments_one_has_to_be_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "made", aa=ONE, ab=ONE, b=ONE | {"python": "3.12.1"})
    with pytest.raises(
        ReproError, match=r"several[\s\S]*aa and 1 more: Python: 3.11.7; b: Python: 3.12.1[\s\S]*--record"
    ):
        constraints_of(folder)
    assert "# Python: 3.12.1" in constraints_of(folder, "b").splitlines()
    assert "# Python: 3.11.7" in constraints_of(folder, "a").splitlines()
    with pytest.raises(ReproError, match=r"no such environment record[\s\S]*aa, ab, b[\s\S]*zz"):
        constraints_of(folder, "zz")


@pytest.mark.wording
@pytest.mark.parametrize("packages", [{}, None])
def test_a_record_without_packages_is_named(tmp_path: Path, packages: object) -> None:
    folder = write(tmp_path / "made", a=ONE | {"packages": packages})
    with pytest.raises(ReproError, match=r"does not say which packages[\s\S]*environment/a.json"):
        constraints_of(folder)


def test_a_campaign_without_a_record_or_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="no such campaign"):
        constraints_of(CampaignFolder(tmp_path / "none"))
    with pytest.raises(ReproError, match="no record of its environment"):
        constraints_of(write(tmp_path / "made"))
