"""`repro check`: missing parts of a campaign, and failures that the next run tries again."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import pandas as pd
import pytest

from repro.bench.rows import SCHEMA
from repro.campaign.archive import pack
from repro.campaign.completeness import Missing, find_missing, find_missing_of_case, merge_equal_causes
from repro.campaign.configuration import resolve
from repro.campaign.measurement import drop_repeats
from repro.campaign.plan import Plan, as_yaml, make_plan
from repro.campaign.receipts import record_step
from repro.campaign.steps import Freshness, building, steps
from repro.cli.records import check
from repro.errors import ReproError
from support.made_campaign import make_all
from support.non_files import IN_PLACE_OF_A_FILE, put

REPOSITORY = Path(__file__).parents[2]
NAME = "dirac_torus"
MODULE = {"hash": "h", "compiler": "c", "flags": []}
TUNINGS = ("schedule", "layout", "joint", "static", "dynamic")


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Plan:
    """A complete campaign of one problem and one layout, as far as its records go."""
    for name in ("config", "kernels", "src"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    monkeypatch.chdir(tmp_path)
    study = {"problems": [NAME], "precisions": ["single"], "layouts": ["CSR-AoS-AoS"]}
    plan = make_plan(resolve({"device": "opencl", "studies": {"compound_spmv": study}}))
    write_record(plan, {"status": "ok"})
    for manifest in plan.all_manifests:
        write_json(Path(manifest), {**MODULE, "status": "ok"})
    write_rows(plan, [("a", "ok", None), ("b", "unsupported", "no"), ("c", "noisy", None)])
    Path("campaign.yaml").write_text(as_yaml(plan.config))
    return plan


def write_json(path: Path, data: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))


def write_record(plan: Plan, record: dict[str, object]) -> Path:
    write_json(Path(plan.results, "raw/problems", f"{NAME}.json"), {"name": NAME, **record})
    built = Path(plan.results, "problems", f"{NAME}.npz")
    built.parent.mkdir(parents=True, exist_ok=True)
    built.touch()
    return built


def write_rows(plan: Plan, rows: list[tuple[str, str, str | None]], unchosen: Collection[str] = ()) -> None:
    folder = Path(plan.results, "raw/compound_spmv", NAME, "single")
    folder.mkdir(parents=True, exist_ok=True)
    case = {"problem": NAME, "precision": "single", "schema": SCHEMA}
    table = pd.DataFrame(rows, columns=["name", "status", "message"]).assign(**case)
    for step in ("search", "baseline", "report"):
        table.to_parquet(folder / f"{step}.parquet")
    # a choice has a tuning and a name, and neither status nor message
    chosen = [(tuning, "a") for tuning in TUNINGS if tuning not in unchosen]
    choices = pd.DataFrame(chosen, columns=["tuning", "name"]).assign(**case)
    choices.to_parquet(folder / "choices.parquet")
    drop_repeats(plan.config, "compound_spmv", NAME, "single")
    make_all(plan)


def test_a_complete_campaign_passes(campaign: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    check(Path("campaign.yaml"))
    assert capsys.readouterr().out == "campaign default is complete\n"


def test_an_unavailable_problem_is_named_and_tried_again(campaign: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(campaign, {"status": "unavailable", "reason": "tried these places"})
    write_rows(campaign, [("-", "unavailable", "tried these places")])
    with pytest.raises(ReproError, match="missing or failed: 1"):
        check(Path("campaign.yaml"))
    assert f"problem {NAME}: tried these places" in capsys.readouterr().err


def test_a_problem_that_a_study_refused_is_named_once(campaign: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(campaign, [("-", "unavailable", "the matrix is not square")])
    with pytest.raises(ReproError, match="missing or failed: 1"):
        check(Path("campaign.yaml"))
    assert f"compound_spmv on {NAME}, single: the matrix is not square\n" in capsys.readouterr().err


@pytest.mark.parametrize("batch", [1, 8])
def test_a_case_that_could_not_be_measured_names_its_log(
    campaign: Plan, capsys: pytest.CaptureFixture[str], batch: int
) -> None:
    path = Path("campaign.yaml")
    path.write_text(as_yaml(campaign.config.model_copy(update={"batch": batch})))
    write_rows(campaign, [("-", "unavailable", "ValueError: too many values (at study.py:48)")])
    work = f"measure/compound_spmv/{NAME}/single" if batch == 1 else "batches/compound_spmv/single/0000"
    log = Path(f"logs/default/{work}.log")
    for there in (False, True):
        if there:
            log.parent.mkdir(parents=True)
            log.touch()
        with pytest.raises(ReproError):
            check(path)
        said = capsys.readouterr().err
        assert (f"(at study.py:48)\n  log: {log}\n" in said) == there, said


def test_a_module_that_does_not_compile_is_named_and_tried_again(campaign: Plan) -> None:
    manifest = Path(campaign.all_manifests[0])
    write_json(manifest, {**MODULE, "status": "compile_error", "message": "error: expected ';'"})
    write_rows(campaign, [("a", "compile_error", "error: expected ';'")])
    assert [(part.what, part.reason) for part in find_missing(campaign)] == [
        (f"module {manifest}", "error: expected ';'")
    ]


@pytest.mark.wording
def test_rows_that_failed_are_counted_by_status(campaign: Plan) -> None:
    write_rows(
        campaign, [("a", "ok", None), ("b", "incorrect", None), ("c", "incorrect", "x"), ("d", "launch_error", "y")]
    )
    reasons = [part.reason for part in find_missing(campaign) if "search" in part.what]
    assert reasons == ["2 rows incorrect, the first b", "1 row launch_error, the first d: y"]


def test_a_case_without_a_winner_is_named_in_one_line(campaign: Plan) -> None:
    hung = [(f"CSR-AoS-AoS/static-{n}-1", "timeout", "did not end within 60 s") for n in (32, 64)]
    write_rows(campaign, [*hung, ("CSR-AoS-AoS/dynamic-32-1", "out_of_memory", None), ("b", "ok", None)], TUNINGS)
    [missing] = find_missing(campaign)
    assert missing.what == f"compound_spmv on {NAME}, single"
    assert missing.reason == (
        "no winner of schedule, layout, joint, static, dynamic: 1 row out_of_memory, the first "
        "CSR-AoS-AoS/dynamic-32-1; 2 rows timeout, the first CSR-AoS-AoS/static-32-1: did not end within 60 s"
    )
    with pytest.raises(ReproError, match="missing or failed: 1"):
        check(Path("campaign.yaml"))


@pytest.mark.wording
def test_one_tuning_without_a_winner_is_enough(campaign: Plan) -> None:
    write_rows(campaign, [("a", "ok", None), ("b", "timeout", "did not end")], ["dynamic"])
    assert [part.reason for part in find_missing(campaign)] == [
        "no winner of dynamic: 1 row timeout, the first b: did not end"
    ]


@pytest.mark.wording
def test_where_everything_is_unsupported_that_is_said(campaign: Plan) -> None:
    rows = [(name, "unsupported", "padded to 6.1 times the entries\nand more") for name in "abc"]
    write_rows(campaign, rows, TUNINGS)
    [missing] = find_missing(campaign)
    assert missing.reason.endswith(": 3 rows unsupported, the first a: padded to 6.1 times the entries")


@pytest.mark.parametrize("status", ["timeout", "out_of_memory", "unsupported", "noisy"])
def test_where_all_winners_are_there_others_may_fail_to_be_timed(campaign: Plan, status: str) -> None:
    write_rows(campaign, [("a", "ok", None), ("b", status, "x")])
    assert find_missing(campaign) == []


def test_a_winner_that_was_not_timed_again_is_named(campaign: Plan) -> None:
    write_rows(campaign, [("a", "ok", None)])
    report = Path(campaign.results, "raw/compound_spmv", NAME, "single/report.parquet")
    table = pd.read_parquet(report).assign(status="timeout", message="did not end")
    table.to_parquet(report)
    make_all(campaign)
    [missing] = find_missing(campaign)
    assert (missing.what.rpartition(" ")[2], missing.reason) == (
        "(report)",
        "1 row timeout, the first a: did not end",
    )


@pytest.mark.parametrize(("backend", "complete"), [("opencl", True), ("cuda", False)])
def test_a_disturbed_winner_is_a_remark_on_a_cpu(
    campaign: Plan, capsys: pytest.CaptureFixture[str], backend: str, complete: bool
) -> None:
    write_rows(campaign, [("a", "ok", None)])
    report = Path(campaign.results, "raw/compound_spmv", NAME, "single/report.parquet")
    why = "host median 1,676 µs in one round and 320 µs in another in 2 of 3 rounds"
    pd.read_parquet(report).assign(status="disturbed", message=why, backend=backend).to_parquet(report)
    make_all(campaign)
    [missing] = find_missing(campaign)
    assert missing.remark is complete
    if complete:
        check(Path("campaign.yaml"))
    else:
        with pytest.raises(ReproError, match="missing or failed: 1"):
            check(Path("campaign.yaml"))
    said = capsys.readouterr()
    assert f"compound_spmv on {NAME}, single (report): 1 row disturbed, the first a: {why}\n" in said.err
    assert ("is complete" in said.out) is complete
    again = f"repro measure compound_spmv {NAME} single --receipt --config {campaign.folder.config}\n"
    assert (again in said.err) is complete


def test_a_case_that_failed_as_a_whole_is_named(campaign: Plan) -> None:
    write_rows(campaign, [("-", "unavailable", "no such module")])
    [missing] = find_missing(campaign)
    assert missing.reason == "no such module"


def test_what_was_never_made_is_named(campaign: Plan) -> None:
    Path(campaign.results, "raw/problems", f"{NAME}.json").unlink()
    Path(campaign.all_manifests[0]).unlink()
    Path(campaign.results, "raw/compound_spmv", NAME, "single/report.parquet").unlink()
    reasons = [part.reason.split(":")[0] for part in find_missing(campaign)]
    assert [reason for reason in reasons if reason.startswith("not ")] == ["not built", "not compiled", "not measured"]


def test_a_case_is_judged_by_its_own_rows(campaign: Plan) -> None:
    """The other precision is measured by a job of its own, before or after; its files may be of a different schema."""
    settings = campaign.config.studies["compound_spmv"].model_copy(update={"precisions": ("single", "double")})
    both = make_plan(campaign.config.model_copy(update={"studies": {"compound_spmv": settings}}))
    other = Path(campaign.results, "raw/compound_spmv", NAME, "double/search.parquet")
    other.parent.mkdir()
    other.write_text("damaged")
    assert find_missing_of_case(both, "compound_spmv", NAME, "single") == []
    write_rows(campaign, [("a", "ok", None), ("b", "incorrect", None)])
    assert len(find_missing_of_case(both, "compound_spmv", NAME, "single")) == 3


def test_a_step_that_failed_and_is_named_by_nothing_else_is_named(campaign: Plan) -> None:
    with record_step(building(campaign, NAME)) as made:
        made.failed("no network")
    assert Missing(f"problem {NAME}", "it failed: no network") in find_missing(campaign)


def test_a_replay_is_complete_by_its_rows(campaign: Plan) -> None:
    pack(campaign.folder)
    assert find_missing(make_plan(campaign.config.model_copy(update={"replay": True}))) == []


def test_a_recorded_campaign_is_measured(campaign: Plan) -> None:
    write_rows(campaign, [("a", "ok", None), ("b", "incorrect", None)])
    before = find_missing(campaign)
    assert len(before) == 3
    pack(campaign.folder)
    assert find_missing(campaign) == before


def test_rows_of_another_configuration_are_not_complete(campaign: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    changed = campaign.config.model_copy(update={"seed": 7})
    Path("campaign.yaml").write_text(as_yaml(changed))
    with pytest.raises(ReproError, match="missing or failed: 1"):
        check(Path("campaign.yaml"), Path("complete"))
    assert f"problem {NAME}: seed differs: 1 → 7" in capsys.readouterr().err
    assert not Path("complete").exists()


def test_a_file_elsewhere_has_no_receipt(campaign: Plan) -> None:
    own = Path(campaign.results, "complete")
    own.write_text("old")
    receipt = steps(campaign)[-1].receipt
    receipt.unlink(missing_ok=True)
    check(Path("campaign.yaml"), Path("elsewhere"))
    assert Path("elsewhere").read_text() == "campaign default is complete\n"
    assert own.read_text() == "old" and not receipt.exists()
    check(Path("campaign.yaml"), own.absolute())
    assert own.read_text() == Path("elsewhere").read_text() and receipt.exists()


#: What a record of any kind may hold in place of one.
DAMAGED = [b"", b"{", b"[]", b"[" * 100_000, b"\xff\xfe", bytes(10), b'{"name": 5, "status": [], "hash": {}}', b"NaN"]


@pytest.mark.parametrize("content", DAMAGED, ids=lambda content: repr(content[:10]))
def test_a_damaged_record_is_an_error(campaign: Plan, content: bytes) -> None:
    for path, what in (
        (Path(campaign.all_manifests[0]), "the manifest of a module is damaged"),
        (Path(campaign.results, "raw/problems", f"{NAME}.json"), "record of a problem cannot be read"),
    ):
        sound = path.read_bytes()
        path.write_bytes(content)
        with pytest.raises(ReproError, match=what) as caught:
            find_missing(campaign)
        assert caught.value.where == path
        path.write_bytes(sound)


@pytest.mark.parametrize("kind", IN_PLACE_OF_A_FILE)
def test_what_is_in_the_place_of_a_record_or_rows_is_not_waited_for(campaign: Plan, at_once: None, kind: str) -> None:
    rows = Path(campaign.results, "raw/compound_spmv", NAME, "single/search.parquet")
    for path in (Path(campaign.all_manifests[0]), Path(campaign.results, "raw/problems", f"{NAME}.json"), rows):
        path.rename("kept")
        put(kind, path)
        with pytest.raises(ReproError, match=f"{IN_PLACE_OF_A_FILE[kind]}|something else of that name") as caught:
            find_missing(campaign)
        assert caught.value.where == path
        path.rmdir() if kind == "folder" else path.unlink()
        Path("kept").rename(path)


@pytest.mark.parametrize("content", DAMAGED, ids=lambda content: repr(content[:10]))
def test_a_damaged_receipt_is_named(campaign: Plan, content: bytes) -> None:
    step = building(campaign, NAME)
    step.receipt.write_bytes(content)
    reason = Freshness(campaign).stale[step.name]
    assert reason.startswith(f"its receipt {step.receipt} is damaged: ")
    assert len(reason) < 400


@pytest.mark.parametrize("kind", IN_PLACE_OF_A_FILE)
def test_what_is_in_the_place_of_a_receipt_or_an_output_is_not_waited_for(
    campaign: Plan, at_once: None, kind: str
) -> None:
    step = building(campaign, NAME)
    built = Path(campaign.results, "problems", f"{NAME}.npz")
    built.unlink()
    put(kind, built)
    there_is_none = kind in ("circle", "folder")
    reason = "is missing" if there_is_none else "is not what was written"
    assert Freshness(campaign).stale[step.name] == f"{built} {reason}"
    step.receipt.unlink()
    put(kind, step.receipt)
    assert IN_PLACE_OF_A_FILE[kind] in Freshness(campaign).stale[step.name]


@pytest.mark.wording
def test_a_receipt_that_names_no_path_is_damaged(campaign: Plan) -> None:
    step = building(campaign, NAME)
    receipt = json.loads(step.receipt.read_text())
    receipt["outputs"]["a\0b"] = {"digest": "d", "stat": "s"}
    step.receipt.write_text(json.dumps(receipt))
    assert Freshness(campaign).stale[step.name].endswith("is damaged: a null byte in a name")


def test_a_campaign_that_never_ran_is_one_line(campaign: Plan) -> None:
    path = Path("other.yaml")
    path.write_text(as_yaml(campaign.config).replace("campaign: default", "campaign: other"))
    with pytest.raises(ReproError) as never:
        check(path)
    assert str(never.value) == "campaign other was never run: `repro run --config other.yaml` runs it"


@pytest.mark.parametrize(("name", "configured"), [("h100-solvers", True), ("first-h200", False)])
def test_a_record_is_checked_without_its_device_and_with_or_without_a_configuration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, configured: bool
) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert Path("results", name, "config.yaml").exists() == configured
    check(campaign=name)
    code = json.loads(Path("results", name, "commits.json").read_text())
    said = capsys.readouterr().out
    assert said.endswith(f"campaign {name} is complete\n")
    assert all(f"commit {commit[:12]}: environment " in said for commit in code.values() if commit)


def test_a_record_without_a_configuration_says_what_failed(campaign: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(campaign, [("a", "incorrect", "y"), ("b", "unsupported", "no")])
    pack(campaign.folder)
    with pytest.raises(ReproError, match="missing or failed: 3"):
        check(campaign="default", each=True)
    assert f"compound_spmv on {NAME}, single (search): 1 row incorrect, the first a: y" in capsys.readouterr().err


def test_what_is_part_done_is_counted_by_kind_and_reason(campaign: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    reasons = [f"not measured: no results/mine/raw/s/{name}.parquet" for name in ("search", "report")]
    missing = [Missing(f"s on p{number}, double", reason) for number in range(3) for reason in reasons]
    missing += [Missing(f"problem p{number}", "no such file\n  where: here") for number in range(2)]
    missing += [Missing("s on p3, double (search)", f"{n} rows crashed, the first v{n}: at {n}") for n in (2, 3)]
    missing += [Missing("module m", "not compiled"), Missing("s on p, single", "3 rows disturbed, the first v", True)]
    counted = merge_equal_causes(missing)
    assert [part.what for part in counted] == [
        "3 cases",
        "2 problems",
        missing[8].what,
        "module m",
        "s on p, single",
    ]
    assert counted[0].reason == "not measured; the first is s on p0, double"
    assert counted[1].reason == "no such file; the first is problem p0"
    assert counted[3:] == missing[10:]

    for manifest in campaign.all_manifests:
        Path(manifest).unlink()
    for each in (False, True):
        with pytest.raises(ReproError, match="missing or failed"):
            check(Path("campaign.yaml"), each=each)
        said = capsys.readouterr().err
        count = len(campaign.all_manifests)
        assert (f"{count} modules: not compiled" in said) == (not each)
        assert said.count("\nmodule ") + said.startswith("module ") == (count if each else 0)
