"""Stale steps follow from comparing the plan with receipts, never from times of files."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.campaign import steps as planned
from repro.campaign.plan import Plan
from repro.campaign.receipts import Receipt, cached_digest, code_files, record_step
from repro.campaign.steps import Freshness, building, steps, templates_digest
from repro.codegen import opencl_runtime
from repro.errors import ReproError
from support.made_campaign import make_all, plan_of

pytestmark = pytest.mark.medium

REPOSITORY = Path(__file__).parents[2]
MATRIX = "%%MatrixMarket matrix coordinate complex general\n2 2 2\n1 1 1 0\n2 2 {} 0\n"
CASE = "measure compound_spmv dirac_torus single"


@pytest.fixture(autouse=True)
def _in_a_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder with templates and published numbers of its own, which tests edit."""
    for name in ("config", "kernels"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def made() -> Plan:
    """A campaign that is made."""
    plan = plan_of()
    make_all(plan)
    assert not Freshness(plan).stale
    return plan


def roots(plan: Plan) -> dict[str, str]:
    """Return the steps that are stale for a reason of their own."""
    return dict(Freshness(plan).unlike)


def test_nothing_is_made_before_the_first_run() -> None:
    plan = plan_of()
    assert list(Freshness(plan).stale) == [step.name for step in steps(plan)]
    assert not Freshness(plan).outdated


@pytest.mark.parametrize(
    ("study", "keys"),
    [
        ({"search": "random"}, {}),
        ({"budget": 0.5}, {}),
        ({"memory_weight": 1.0}, {}),
        ({"cache": "cold"}, {}),
        ({"baselines": ["scipy/csr/real4"]}, {}),
        ({"timing": {"launches": 11}}, {}),
        ({"timing": {"tie": 0.5}}, {}),
        ({"training": ["other"]}, {}),
        ({}, {"seed": 2}),
    ],
)
def test_a_key_that_measuring_reads_measures_again(made: Plan, study: dict[str, Any], keys: dict[str, Any]) -> None:
    stale = Freshness(plan_of(study, **keys)).stale
    assert {CASE, "tables compound_spmv", "figures compound_spmv", "report", "check"} <= set(stale)
    assert not any(name.startswith("compile") for name in stale)


def test_a_campaign_that_a_predicted_search_learns_from_measures_again() -> None:
    learning = {"search": "predicted", "training": ["other"]}
    recorded = Path("results/other/raw/compound_spmv/search.parquet")
    recorded.parent.mkdir(parents=True)
    recorded.write_text("rows")
    make_all(plan_of(learning))
    assert not Freshness(plan_of(learning)).stale
    recorded.write_text("others")
    assert roots(plan_of(learning)) == {CASE: f"{recorded} changed"}
    recorded.write_text("rows")
    half = Path("results/other/raw/problems/.p.json")  # of another campaign that is being measured
    half.parent.mkdir()
    half.write_text("{")
    assert not Freshness(plan_of(learning)).stale


def test_keys_that_nothing_depends_on_make_nothing_again(made: Plan) -> None:
    assert not Freshness(plan_of(fetch={"retries": 9})).stale


def test_other_artifacts_are_all_that_is_made(made: Plan) -> None:
    stale = Freshness(plan_of({"artifacts": ["table-1", "figure-3"]})).stale
    assert set(stale) == {"tables compound_spmv", "figures compound_spmv", "report", "check"}


def test_other_flags_of_the_compiler_compile_again(made: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_runtime, "FLAGS", ("-cl-std=CL1.2",))
    assert all(name.startswith("compile") for name in roots(plan_of()))
    assert CASE in Freshness(plan_of()).stale


def forget_files() -> None:
    for of_this_process in (cached_digest, templates_digest):
        of_this_process.cache_clear()


def test_the_header_of_a_dialect_compiles_all_again(made: Plan) -> None:
    header = Path("kernels/dialects/opencl.h")
    before = header.read_text()
    header.write_text(before + "\n// edited\n")
    forget_files()
    compiled = {name: reason for name, reason in roots(plan_of()).items() if name.startswith("compile")}
    assert len(compiled) > 1
    assert all(reason.startswith("templates differs") for reason in compiled.values())
    header.write_text(before)
    forget_files()


def test_a_template_compiles_again_and_a_published_number_makes_artifacts_again(made: Plan) -> None:
    template = next(Path("kernels/common").rglob("*.j2"))
    template.write_text(template.read_text() + "\n// edited\n")
    published = Path("config/published/compound_spmv/text.csv")
    published.write_text(published.read_text() + "\n")
    forget_files()
    changed = roots(plan_of())  # the artifacts follow from what is measured again
    assert len(changed) > 1  # studies include what is common
    assert all(name.startswith("compile") for name in changed)
    assert all(reason.startswith("templates differs") for reason in changed.values())
    assert "tables compound_spmv" in Freshness(plan_of()).stale


def own(path: Path) -> Plan:
    return plan_of({"problems": [{"path": str(path)}]})


def test_the_content_of_an_input_decides_and_not_its_time(tmp_path: Path) -> None:
    path = tmp_path / "mine.mtx"
    path.write_text(MATRIX.format(1))
    make_all(own(path))
    os.utime(path, (2e9, 2e9))
    assert not Freshness(own(path)).stale
    before = path.stat()
    path.write_text(MATRIX.format(2))
    os.utime(path, ns=(before.st_atime_ns, 1))  # older than all that was made of it
    assert roots(own(path)) == {"problem mine": f"{path} changed"}
    path.write_text(MATRIX.format(1))
    assert not Freshness(own(path)).stale


OUTPUTS = [
    "results/default/raw/compound_spmv/dirac_torus/single/report.parquet",
    "results/default/problems/dirac_torus.npz",
    "results/default/raw/problems/dirac_torus.json",
    "modules/cpu/common.json",
    "modules/cpu/compound_spmv/paper/quaternion-single/CSR-AoS-AoS.json",
    "results/default/tables/compound_spmv/table-1.csv",
    "figures/default/compound_spmv/figure-3.svg",
    "results/default/report.html",
    "results/default/complete",
]


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _swap(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"of another")
    other.replace(path)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("path", [Path(path) for path in OUTPUTS], ids=str)
@pytest.mark.parametrize("edit", [Path.unlink, _truncate, _swap])
def test_an_output_that_is_not_what_was_written_is_made_again(
    made: Plan, path: Path, edit: Callable[[Path], None]
) -> None:
    edit(path)
    [(_, reason)] = roots(made).items()
    assert str(path) in reason
    assert "check" in Freshness(made).stale


def test_a_receipt_that_is_gone_damaged_or_anothers_vouches_for_nothing(made: Plan) -> None:
    receipts = Path("results/default/receipts")
    single, other = receipts / "problem/dirac_torus.json", receipts / "report.json"
    kept = single.read_bytes()
    for content in (b"", b"{", kept[:-20], other.read_bytes()):
        single.write_bytes(content)
        assert "problem dirac_torus" in roots(made)
    single.write_bytes(kept)
    assert not Freshness(made).stale


def test_what_failed_is_made_again_by_the_next_run(made: Plan) -> None:
    step = building(made, "dirac_torus")
    with record_step(step) as making_it:
        making_it.failed("no network")
    assert Freshness(made).stale["problem dirac_torus"] == "it failed: no network"
    assert not roots(made)
    with record_step(step):
        pass
    assert not Freshness(made).stale


def test_a_step_that_was_made_again_alike_makes_nothing_else_again(made: Plan) -> None:
    with record_step(building(made, "dirac_torus")):
        pass
    assert not Freshness(made).stale


def test_a_step_that_ended_early_has_no_receipt(made: Plan) -> None:
    step = building(made, "dirac_torus")
    with pytest.raises(RuntimeError), record_step(step):
        raise RuntimeError("killed")
    assert Receipt.load(step.receipt) is None
    step.outputs[0].unlink()
    with pytest.raises(ReproError, match="did not write all"), record_step(step):
        pass


def test_looking_writes_nothing(made: Plan) -> None:
    def everything() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in Path().rglob("*")}

    before = everything()
    Freshness(plan_of(seed=7)).described()
    assert everything() == before


@pytest.mark.wording
def test_the_description_groups_steps_by_their_reason(made: Plan) -> None:
    lines = Freshness(plan_of(seed=2)).described()
    assert lines == [
        "problem dirac_torus: seed differs: 1 → 2",
        "and 5 more, which are made from what is made again",
    ]


def test_the_environment_of_a_later_study_makes_no_earlier_tables_again(made: Plan) -> None:
    made.folder.environments.mkdir(parents=True, exist_ok=True)
    made.folder.environment("0" * 16).write_text("{}")
    assert not Freshness(plan_of()).stale


@pytest.mark.parametrize("kind", ["tables", "figures"])
def test_artifacts_depend_on_what_writes_them(made: Plan, kind: str) -> None:
    modules: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planned, "code_hash", lambda *names: modules.extend(names))
        planned.presenting(made, "compound_spmv", kind)
    written = {path.name for path in code_files(*modules).values()}
    assert {"output.py", "tables.py"} <= written


def test_other_packages_make_again_what_they_make(made: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "_versions", lambda packages: dict.fromkeys(packages, "9.9"))
    assert {"problem dirac_torus", "compile common"} <= set(roots(plan_of()))


@pytest.mark.wording
def test_a_file_that_cannot_be_read_is_not_what_was_written(made: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    report = Path("results/default/report.html")
    report.touch()

    def refuse(*_: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(hashlib, "file_digest", refuse)
    assert roots(made) == {"report": f"{report} is not what was written"}
