"""`repro table`, `repro figure` and `repro report` on campaigns of one study and of two."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.campaign.artifacts import all_artifacts
from repro.cli import results as commands
from repro.errors import ReproError
from repro.studies import get_study
from support.campaigns import SmallCampaign

pytestmark = pytest.mark.medium

SPMV, COO = "compound_spmv", "compressed_coo"
MEASURED, OTHERS = "mhd1280b", "small/5pt_const"


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])


@pytest.fixture
def maker_of(tmp_path: Path) -> Callable[[str], SmallCampaign]:
    """Make campaigns of a study; those of two studies are one campaign."""
    return lambda study: SmallCampaign(tmp_path, study=study, own=get_study(study).columns)


@pytest.fixture
def spmv(maker_of: Callable[[str], SmallCampaign]) -> SmallCampaign:
    """A campaign of one study."""
    maker = maker_of(SPMV)
    maker.all(MEASURED)
    return maker


@pytest.fixture
def both(spmv: SmallCampaign, maker_of: Callable[[str], SmallCampaign]) -> SmallCampaign:
    """One that has measured two studies, each on a problem of its own."""
    maker_of(COO).all(OTHERS)
    spmv.configure(**{SPMV: {"problems": [MEASURED]}, COO: {"problems": [OTHERS]}})
    return spmv


def made(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*"))


def rows(maker: SmallCampaign, study: str, name: str) -> str:
    return (maker.results / maker.campaign / "tables" / study / f"{name}.csv").read_text()


def test_the_files_of_each_command(spmv: SmallCampaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands.table([f"{SPMV}/table-9"], campaign=spmv.campaign, results=spmv.results)
    commands.figure(["figure-3"], campaign=spmv.campaign, results=spmv.results, figures=tmp_path / "drawn")
    folder = spmv.results / spmv.campaign
    assert made(folder / "tables") == [f"{SPMV}/table-9.{suffix}" for suffix in ("csv", "tex")]
    drawn = tmp_path / "drawn" / spmv.campaign
    assert made(drawn) == [f"{SPMV}/figure-3.{suffix}" for suffix in ("pdf", "png", "svg", "tex")]
    spmv.configure(**{SPMV: {"problems": [MEASURED], "artifacts": ["table-baselines"]}})
    commands.report(campaign=[spmv.campaign], results=spmv.results)
    page = (folder / "report.html").read_text()
    assert f'id="{SPMV}-table-baselines"' in page and f'id="{SPMV}-table-1"' not in page
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2 + 4 + 1
    assert said.err.startswith(f"{SPMV}/table-9: the campaign measured nothing that it shows\n")


def test_a_named_table_is_printed_where_it_is_asked_for(
    spmv: SmallCampaign, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"campaign": spmv.campaign, "results": spmv.results}
    monkeypatch.delenv("COLUMNS", raising=False)
    name = f"{SPMV}/table-baselines"
    commands.table([name], **options)  # no terminal
    written = capsys.readouterr().out
    assert all(line.startswith("wrote ") for line in written.splitlines())
    commands.table([name], **options, show=True)
    whole = capsys.readouterr().out
    assert whole.endswith(written) and "geometric mean" in whole and "the first" not in whole
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("repro.cli.console.ROWS_SHOWN", 1)
    commands.table([name], **options, show=True)
    head, *lines = capsys.readouterr().out.removesuffix(written).splitlines()
    assert head.startswith(f"{name}: ") and all(len(line) <= 60 for line in lines[:2])
    assert len(lines) == 3 and lines[-1].startswith("above are 1 rows and ")
    commands.table([f"{SPMV}/table-problems"], **options, show=True)
    *_, means, heads, mean, least, rest = capsys.readouterr().out.partition("wrote ")[0].splitlines()
    assert not means and heads.startswith("problem") and "of floor" in heads
    assert mean.startswith("geometric mean") and least.startswith("least")
    assert rest.endswith("table-problems.csv has all")


def test_a_last_word_is_a_campaign_and_a_later_one_is_named(
    spmv: SmallCampaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.table(["table-9", spmv.campaign], results=spmv.results)
    commands.table([spmv.campaign], all_=True, study=SPMV, results=spmv.results)
    assert "measured again" not in capsys.readouterr().err
    with pytest.raises(ReproError, match="two campaigns were named"):
        commands.table(["table-9", spmv.campaign], campaign="other", results=spmv.results)
    with pytest.raises(ReproError, match="no such campaign"):
        commands.table(["table-9", "other"], results=spmv.results)
    with pytest.raises(ReproError, match="unknown figure"):
        commands.figure(["table-9", "figure-99", spmv.campaign], results=spmv.results)
    commands.figure(["spgemm_amg/figure-setup", "h200"], figures=tmp_path, formats=["tex"])
    assert "spgemm_amg: measured again later: campaign h200-products\n" in capsys.readouterr().err


def test_a_table_of_another_study_is_named_with_it(spmv: SmallCampaign) -> None:
    with pytest.raises(ReproError, match="unknown table") as error:
        commands.table(["table-5-4"], study=SPMV, campaign=spmv.campaign, results=spmv.results)
    assert error.value.actual == "table-5-4; did you mean dynamic_csr/table-5-4?"
    assert len(str(error.value.expected)) < 120 and "`repro list artifacts` prints all" in str(error.value.expected)


def test_all_is_what_the_configuration_asks_for(spmv: SmallCampaign, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    wanted = f"{{problems: [{MEASURED}], artifacts: [table-1, figure-3]}}"
    config.write_text(f"campaign: {spmv.campaign}\nstudies: {{{SPMV}: {wanted}}}\n")
    commands.table(None, all_=True, results=spmv.results, config_file=config)
    folder = spmv.results / spmv.campaign / "tables"
    assert made(folder) == [f"{SPMV}/table-1.{suffix}" for suffix in ("csv", "tex")]


def test_all_and_the_report_say_how_far_they_are(
    spmv: SmallCampaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spmv.configure(**{SPMV: {"problems": [MEASURED], "artifacts": ["table-1", "table-9", "figure-3"]}})
    options: dict[str, Any] = {"campaign": spmv.campaign, "results": spmv.results}
    commands.table(["table-1"], **options)
    assert capsys.readouterr().err == ""
    commands.table(None, all_=True, **options)
    assert re.fullmatch(rf"tables {spmv.campaign}: {SPMV} 2 of 2, took \d+ s\n", capsys.readouterr().err)
    commands.figure(None, all_=True, figures=tmp_path / "drawn", **options)
    assert re.fullmatch(rf"figures {spmv.campaign}: {SPMV} 1 of 1, took \d+ s\n", capsys.readouterr().err)
    commands.report(campaign=[spmv.campaign], results=spmv.results)
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(", took ")[0] for line in said] == [
        f"report {spmv.campaign}: reading studies 1 of 1",
        f"report {spmv.campaign}: {SPMV} 3 of 3",
    ]


def test_a_configuration_beside_a_campaigns_name_counts(spmv: SmallCampaign, tmp_path: Path) -> None:
    spmv.configure(**{SPMV: {"problems": [MEASURED], "artifacts": ["table-1"]}})
    config = tmp_path / "c.yaml"
    config.write_text(f"campaign: another\nstudies: {{{SPMV}: {{problems: [{MEASURED}], artifacts: [table-9]}}}}\n")
    commands.table(None, all_=True, campaign=spmv.campaign, results=spmv.results, config_file=config)
    assert made(spmv.results)[-2:] == [f"{spmv.campaign}/tables/{SPMV}/table-9.{suffix}" for suffix in ("csv", "tex")]
    assert not (spmv.results / spmv.campaign / "tables" / SPMV / "table-1.csv").exists()


def test_an_unknown_artifact_of_the_configuration_is_named(spmv: SmallCampaign) -> None:
    spmv.configure(**{SPMV: {"problems": [MEASURED], "artifacts": ["table-1", "table-99"]}})
    with pytest.raises(ReproError, match=r"unknown artifact(.|\n)*table-99"):
        commands.table(None, all_=True, campaign=spmv.campaign, results=spmv.results)


def test_a_name_alone_is_that_of_every_study_that_has_it(both: SmallCampaign) -> None:
    commands.table(["table-1", "table-9"], campaign=both.campaign, results=both.results)
    names = [(COO, "table-1"), (SPMV, "table-1"), (SPMV, "table-9")]  # compressed_coo has no table-9
    tables = both.results / both.campaign / "tables"
    expected = [f"{study}/{name}.{suffix}" for study, name in names for suffix in ("csv", "tex")]
    assert made(tables) == sorted(expected)


def test_a_name_with_its_study_is_of_that_study_alone(both: SmallCampaign) -> None:
    commands.table([f"{SPMV}/table-1"], campaign=both.campaign, results=both.results)
    tables = both.results / both.campaign / "tables"
    assert made(tables) == [f"{SPMV}/table-1.{suffix}" for suffix in ("csv", "tex")]


def test_a_figure_that_one_of_two_studies_has(both: SmallCampaign, tmp_path: Path) -> None:
    commands.figure(["figure-speedup"], campaign=both.campaign, results=both.results, figures=tmp_path / "drawn")
    drawn = tmp_path / "drawn" / both.campaign
    assert made(drawn) == [f"{SPMV}/figure-speedup.{suffix}" for suffix in ("pdf", "png", "svg", "tex")]


def test_what_is_named_twice_is_made_once(both: SmallCampaign, capsys: pytest.CaptureFixture[str]) -> None:
    commands.table(["table-1", f"{SPMV}/table-1"], campaign=both.campaign, results=both.results)
    assert len(capsys.readouterr().out.splitlines()) == 2 * 2


@pytest.mark.parametrize("text", ["table-99", f"{COO}/table-9", "figure-speedup"])
def test_an_unknown_name_is_one_message_with_a_few_of_those_there_are(both: SmallCampaign, text: str) -> None:
    with pytest.raises(ReproError, match="unknown table") as error:
        commands.table([text], campaign=both.campaign, results=both.results)
    assert str(error.value.actual).partition(";")[0] == text
    assert text != "table-99" or error.value.actual == text  # not table-9
    assert (f"{COO}/table-" in str(error.value.expected)) == ("/" in text)
    assert len(str(error.value.expected).split(", ")) < 8


def test_tables_name_the_problems_of_their_study_alone(both: SmallCampaign) -> None:
    commands.table(["table-problems"], campaign=both.campaign, results=both.results)
    assert MEASURED in rows(both, SPMV, "table-problems") and OTHERS not in rows(both, SPMV, "table-problems")
    assert OTHERS in rows(both, COO, "table-problems") and MEASURED not in rows(both, COO, "table-problems")


def test_a_study_that_was_not_measured_yet_names_its_own_problems_alone(spmv: SmallCampaign) -> None:
    """Another study of the campaign was: its problem has a record, which is none of this one's."""
    spmv.record(OTHERS, entry="real", n=40_000, nnz=200_000)
    spmv.configure(**{SPMV: {"problems": [MEASURED]}, COO: {"problems": [OTHERS]}})
    for name in ("table-2", "table-problems"):
        commands.table([f"{COO}/{name}"], campaign=spmv.campaign, results=spmv.results)
        assert OTHERS in rows(spmv, COO, name) and MEASURED not in rows(spmv, COO, name)
    commands.table([f"{SPMV}/table-problems"], campaign=spmv.campaign, results=spmv.results)
    assert OTHERS not in rows(spmv, SPMV, "table-problems")


@pytest.mark.wording
def test_a_study_without_a_problem_that_is_built_holds_nothing(spmv: SmallCampaign) -> None:
    spmv.configure(**{SPMV: {"problems": [MEASURED]}, COO: {"problems": [OTHERS]}})
    with pytest.raises(ReproError, match="has no results of this study"):
        commands.table([f"{COO}/table-2"], campaign=spmv.campaign, results=spmv.results)


def test_rows_of_a_problem_that_is_no_longer_configured_stay_out(spmv: SmallCampaign) -> None:
    for precision in ("single", "double"):
        spmv.case("surfaces/bunny", precision)
    spmv.configure(**{SPMV: {"problems": [MEASURED]}})
    for artifact in all_artifacts(SPMV, "table"):
        commands.table([artifact.name], campaign=spmv.campaign, results=spmv.results)
    assert "34834" in rows(spmv, SPMV, "table-1")  # the papers' size
    assert "surfaces/bunny" not in rows(spmv, SPMV, "table-problems") + rows(spmv, SPMV, "table-predicted")


@pytest.mark.parametrize(
    ("names", "all_", "campaign", "study", "what"),
    [
        (["table-1"], True, "synthetic-cuda", None, "both names and --all"),
        (None, False, "synthetic-cuda", None, "no table is named"),
        (["table-1"], False, "nothing-here", None, "no such campaign"),
        (["table-1"], False, "synthetic-cuda", "other", "unknown study"),
        (["other/table-1"], False, "synthetic-cuda", None, "unknown study"),
    ],
)
def test_bad_commands(
    spmv: SmallCampaign, names: list[str] | None, all_: bool, campaign: str, study: str | None, what: str
) -> None:
    with pytest.raises(ReproError, match=what):
        commands.table(names, all_, campaign, study, results=spmv.results)


def test_a_report_beside_another_campaign_is_a_page_of_its_own(spmv: SmallCampaign) -> None:
    again = SmallCampaign(spmv.results.parent, "opencl", SPMV, get_study(SPMV).columns)
    again.all(MEASURED)
    spmv.configure(**{SPMV: {"problems": [MEASURED], "artifacts": ["table-targets"]}})
    commands.report(campaign=[spmv.campaign], results=spmv.results, beside=[again.campaign])
    folder = spmv.results / spmv.campaign
    assert not (folder / "report.html").exists()
    page = (folder / f"report-beside-{again.campaign}.html").read_text()
    assert page.count('<strong class="number">') == 2 and f'id="{SPMV}-beside-table"' in page


def test_campaigns_that_are_named_after_the_first_stand_beside_it(spmv: SmallCampaign) -> None:
    """By either option, and each once; the first is not beside itself."""
    again = SmallCampaign(spmv.results.parent, "opencl", SPMV, get_study(SPMV).columns)
    again.all(MEASURED)
    spmv.configure(**{SPMV: {"problems": [MEASURED], "artifacts": ["table-targets", "table-8"]}})
    commands.report(campaign=[spmv.campaign, again.campaign], results=spmv.results, beside=[again.campaign])
    [page] = (spmv.results / spmv.campaign).glob("report*.html")
    assert page.name == f"report-beside-{again.campaign}.html"
    assert f'id="{SPMV}-beside-table"' in page.read_text()
    with pytest.raises(ReproError, match="cannot be compared with itself"):
        commands.report(campaign=[spmv.campaign, spmv.campaign], results=spmv.results)
    with pytest.raises(ReproError, match=r"no such campaign(.|\n)*nothing"):
        commands.report(campaign=[spmv.campaign, "nothing"], results=spmv.results)


def test_a_campaign_of_other_studies_is_not_set_beside(spmv: SmallCampaign) -> None:
    other = SmallCampaign(spmv.results.parent, "opencl", COO, get_study(COO).columns)
    other.all(OTHERS)
    with pytest.raises(ReproError, match=r"no study in common(.|\n)*compressed_coo"):
        commands.report(campaign=[spmv.campaign], results=spmv.results, beside=[other.campaign])
    with pytest.raises(ReproError, match="no such campaign"):
        commands.report(campaign=[spmv.campaign], results=spmv.results, beside=["nothing"])


@pytest.mark.wording
def test_the_workflows_page_is_of_one_campaign(spmv: SmallCampaign) -> None:
    with pytest.raises(ReproError, match="--receipt is only for the report that the configuration requests"):
        commands.report(beside=[spmv.campaign], receipt=True)
