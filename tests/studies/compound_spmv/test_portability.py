"""Two campaigns on two GPUs beside each other: columns of tables, and what winners lose where they did not win."""

import io
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from repro.bench.rows import Row
from repro.campaign.artifacts import CampaignSelection
from repro.results import figure_style
from repro.results.campaign_data import Campaign
from repro.results.cross_campaign import OTHER_CONTENT
from repro.results.output import as_csv, write
from repro.results.published import Published
from repro.results.registry import artifacts, get_artifact
from repro.results.tables import Cell, Table
from repro.studies.compound_spmv.searches import replayed_searches, transfers
from support.synthetic_campaign import LAYOUTS, PROBLEMS, STUDY, Given, Maker

pytestmark = pytest.mark.medium

#: Of the winner here, on the other device, over what it takes here; everything else is as fast there.
FASTER = {"Sl-32-SoA-AoS": 0.8}
OTHER = "NVIDIA H100"


class OtherMaker(Maker):
    """The same on another GPU, where slices win."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "cuda")
        self.campaign, self.device = "elsewhere", OTHER

    def variant(
        self, given: Given, precision: str, layout: str, kind: str, n_t: int, n_b: int, **columns: object
    ) -> Row:
        row = super().variant(given, precision, layout, kind, n_t, n_b, **columns)
        times = {name: getattr(row, name) for name in vars(row) if name.startswith(("event_", "graph_"))}
        factor = FASTER.get(layout, 1.0)
        scaled = {name: seconds * factor for name, seconds in times.items() if isinstance(seconds, float)}
        return replace(row, **scaled)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("two")
    Maker(root, "cuda").all(PROBLEMS[:3])
    OtherMaker(root).all(PROBLEMS[1:3])
    return root / "results"


@pytest.fixture(scope="module")
def both(folder: Path) -> Campaign:
    return CampaignSelection.of("synthetic-cuda", folder, reference_names=["elsewhere"]).read(STUDY)


@pytest.fixture(scope="module")
def less(folder: Path) -> Campaign:
    """The campaign of fewer problems, with the other beside it."""
    return CampaignSelection.of("elsewhere", folder, reference_names=["synthetic-cuda"]).read(STUDY)


def renamed(campaign: Campaign, name: str, **changes: object) -> Campaign:
    """A campaign under another name, its rows under other keys."""
    frames = {
        step: frame.assign(key=f"{name}-" + frame["key"])
        for step, frame in (("report", campaign.report), ("search", campaign.search))
    }
    return replace(campaign, name=name, **frames, **changes)


def with_content(campaign: Campaign, problem: str, checksum: str) -> Campaign:
    """A campaign that recorded the checksum of a problem."""
    record = replace(campaign.problems[problem], checksum=checksum)
    return replace(campaign, problems={**campaign.problems, problem: record})


def line_of(table: Table, problem: str, key: str) -> Cell:
    """The cell of a problem in a column."""
    at = [column.key for column in table.columns].index(key)
    [cell] = [row[at] for row in table.rows if row[0].value == problem]
    return cell


@pytest.mark.exhaustive
def test_losses_both_ways(both: Campaign) -> None:
    (other,) = both.beside
    assert (other.name, other.device) == ("elsewhere", OTHER)
    cases = transfers(both, other)
    assert {problem for problem, _ in cases} == {given.name for given in PROBLEMS[1:3]}
    case = cases["generated/helmholtz", "single"]
    assert case.here.startswith("ELL-SoA-AoS/")
    assert case.there.startswith("Sl-32-SoA-AoS/")
    here, there = LAYOUTS["ELL-SoA-AoS"], FASTER["Sl-32-SoA-AoS"] * LAYOUTS["Sl-32-SoA-AoS"]
    assert case.loss_here == pytest.approx(LAYOUTS["Sl-32-SoA-AoS"] / here - 1)
    assert case.loss_there == pytest.approx(here / there - 1)
    back = transfers(other, both)["generated/helmholtz", "single"]
    assert (back.loss_here, back.loss_there) == (case.loss_there, case.loss_here)


def test_only_variants_that_work_on_both_are_compared(both: Campaign) -> None:
    """A winner that the other device cannot run is no winner of this comparison."""
    (other,) = both.beside
    search = other.search.copy()
    slices = search["layout"] == "Sl-32-SoA-AoS"
    search.loc[slices, "status"] = "launch_error"
    case = transfers(both, replace(other, search=search))["generated/helmholtz", "single"]
    assert case.here == case.there
    assert case.loss_here == case.loss_there == 0


def test_a_cpu_is_not_compared_with_a_gpu(both: Campaign, cpu: Campaign) -> None:
    assert not transfers(both, cpu)


def test_the_table_has_both_ways_and_summaries(both: Campaign, published: Published) -> None:
    table = get_artifact(STUDY, "table-portability").make(both, published)
    keys = [column.key for column in table.columns]
    line = next(row for row in table.rows if (row[0].value, row[1].value) == ("generated/helmholtz", "double"))
    assert line[keys.index("elsewhere_loss_there")].value == pytest.approx(100 * (10 / (0.8 * 10.05) - 1), abs=1e-4)
    assert line[keys.index("elsewhere_loss_here")].value == pytest.approx(0.5, abs=1e-4)
    assert [row[0].value for row in table.summary] == ["median of 4", "worst of 4"]
    assert OTHER in table.caption


@pytest.mark.parametrize("name", ["table-3", "table-8"])
def test_tables_of_the_paper_have_a_column_for_each_gpu(both: Campaign, published: Published, name: str) -> None:
    table = get_artifact(STUDY, name).make(both, published)
    alone = get_artifact(STUDY, name).make(replace(both, beside=()), published)
    keys, keys_alone = ([column.key for column in one.columns] for one in (table, alone))
    added = [key for key in keys if key not in keys_alone]
    assert added and all(key.startswith("ours_elsewhere") for key in added)
    at = keys.index(added[0])
    assert {row[at].value for row in table.rows} - {None}
    for with_it, without in zip(table.rows, alone.rows, strict=True):
        assert [cell.value for cell, key in zip(with_it, keys, strict=True) if key not in added] == [
            cell.value for cell in without
        ]


@pytest.mark.parametrize(("name", "key"), [("table-3", "layout"), ("table-8", "")])
def test_a_problem_that_another_campaign_alone_has_is_a_line(
    less: Campaign, published: Published, name: str, key: str
) -> None:
    """Of the papers' problems and of others, blank on this side; what stands in for one is no other's line."""
    (other,) = less.beside
    assert "mhd1280b" in other.problems.keys() - less.problems.keys()
    table = get_artifact(STUDY, name).make(less, published)
    mine, theirs = ("_".join(word for word in (own, key) if word) for own in ("ours", "ours_synthetic-cuda"))
    cell = line_of(table, "mhd1280b", mine)
    assert (cell.value, cell.notes) == (None, ())
    assert line_of(table, "mhd1280b", theirs).value
    assert not line_of(table, "mhd1280b", "problem").notes
    back = get_artifact(STUDY, name).make(replace(other, beside=(replace(less, beside=()),)), published)
    assert [row[0].value for row in back.rows] == [row[0].value for row in table.rows]


def test_what_is_a_stand_in_elsewhere_has_a_line(less: Campaign, published: Published) -> None:
    record = replace(less.beside[0].problems["mhd1280b"], name="made/like", origin={"stand_in": "mhd1280b"})
    other = replace(less.beside[0], problems={**less.beside[0].problems, "made/like": record})
    table = get_artifact(STUDY, "table-3").make(replace(less, beside=(other,)), published)
    assert line_of(table, "made/like", "problem").notes == ("stand-in for mhd1280b",)


def test_what_is_unavailable_here_and_measured_elsewhere_says_why_on_its_side(
    both: Campaign, published: Published
) -> None:
    record = replace(both.problems["mhd1280b"], status="unavailable", reason="no such file")
    (other,) = both.beside
    other = replace(both, name=other.name, beside=())
    here = replace(both, problems={**both.problems, "mhd1280b": record}, beside=(other,))
    for name, key in (("table-3", "ours_layout"), ("table-8", "ours")):
        table = get_artifact(STUDY, name).make(here, published)
        assert line_of(table, "mhd1280b", "problem").notes == ()
        assert line_of(table, "mhd1280b", key).notes == ("unavailable: no such file",)
        assert line_of(table, "mhd1280b", key.replace("ours", "ours_elsewhere")).value
    alone = get_artifact(STUDY, "table-3").make(replace(here, beside=()), published)
    assert "from timing side by side afterwards, and can be below 1" in alone.caption
    assert line_of(alone, "mhd1280b", "problem").notes == ("unavailable: no such file",)
    assert line_of(alone, "mhd1280b", "ours_layout").notes == ()


def test_another_problem_of_the_same_name_is_not_compared(both: Campaign, published: Published) -> None:
    """As `repro merge` refuses it; a record that does not say its content is taken by its name."""
    name = "generated/helmholtz"
    (other,) = both.beside
    for theirs, count in (("a" * 64, 4), ("b" * 64, 2)):
        here = replace(with_content(both, name, "a" * 64), beside=(with_content(other, name, theirs),))
        assert len(transfers(here, here.beside[0])) == count
        table = get_artifact(STUDY, "table-portability").make(here, published)
        figure = get_artifact(STUDY, "figure-portability").make(here, published)
        for made in (table, figure):
            assert (f"problems of the same name differ: {name} (elsewhere)." in made.caption) == (count == 2)
        for table_name, key in (("table-3", "ours_elsewhere_layout"), ("table-8", "ours_elsewhere")):
            cell = line_of(get_artifact(STUDY, table_name).make(here, published), name, key)
            assert (OTHER_CONTENT in cell.notes, cell.value is None) == ((count == 2,) * 2)
    assert len(transfers(with_content(both, name, "a" * 64), other)) == 4


def test_the_csv_file_has_the_keys_of_each_campaign_in_a_column_of_its_own(
    both: Campaign, published: Published
) -> None:
    (other,) = both.beside
    campaign = replace(both, beside=(renamed(other, "elsewhere"),))
    for name in ("table-3", "table-8"):
        text = as_csv(get_artifact(STUDY, name).make(campaign, published))
        lines = pd.read_csv(io.StringIO(text)).set_index("problem")
        assert list(lines.columns[-2:]) == ["keys", "keys_elsewhere"]
        line = lines.loc["generated/helmholtz"]
        assert {*line["keys"].split()} <= {*campaign.report["key"]}
        assert {*line["keys_elsewhere"].split()} <= {*campaign.beside[0].report["key"]}
    alone = as_csv(get_artifact(STUDY, "table-3").make(replace(both, beside=()), published))
    assert alone.splitlines()[0].endswith(",notes,keys")


def test_several_campaigns_on_one_gpu_are_told_apart_by_their_names(both: Campaign, published: Published) -> None:
    (other,) = both.beside
    three = replace(both, beside=(other, renamed(other, "again")))
    groups = [column.group for column in get_artifact(STUDY, "table-portability").make(three, published).columns]
    assert {f"{OTHER}, elsewhere", f"{OTHER}, again"} <= {*groups}
    groups = [column.group for column in get_artifact(STUDY, "table-3").make(three, published).columns]
    assert {f"ours: {OTHER}, elsewhere", f"ours: {OTHER}, again", "ours: NVIDIA H200"} <= {*groups}
    rows = rows_drawn(three, published)
    assert len(rows) == 4
    assert "won on again,\nrun on NVIDIA H200" in rows
    assert rows_drawn(both, published) == [
        f"won on {OTHER},\nrun on NVIDIA H200",
        f"won on NVIDIA H200,\nrun on {OTHER}",
    ]


def rows_drawn(campaign: Campaign, published: Published) -> list[str]:
    """The names of the rows of the figure."""
    with figure_style.figure_settings():
        drawn = get_artifact(STUDY, "figure-portability").make(campaign, published).draw()
    return [label.get_text() for label in drawn.axes[0].get_yticklabels()]


def test_each_campaigns_cases_are_counted(both: Campaign, published: Published) -> None:
    (other,) = both.beside
    few = renamed(other, "few", problems={name: other.problems[name] for name in ["generated/helmholtz"]})
    few = replace(few, search=few.search[few.search["problem"] == "generated/helmholtz"])
    table = get_artifact(STUDY, "table-portability").make(replace(both, beside=(other, few)), published)
    assert [row[0].value for row in table.summary] == [
        f"{word} of 4 (elsewhere), 2 (few)" for word in ("median", "worst")
    ]


@pytest.mark.wording
def test_captions_say_where_code_differs(both: Campaign, published: Published) -> None:
    (other,) = both.beside
    for source, said in ((None, False), ("a", False), ("b", True)):
        there = replace(other, environments={"e0": {**other.environments["e0"], "source": source}})
        here = replace(both, environments={"e0": {**both.environments["e0"], "source": "a"}}, beside=(there,))
        for name in ("table-3", "table-8", "table-portability", "figure-portability"):
            caption = get_artifact(STUDY, name).make(here, published).caption
            assert ("other code than this campaign: elsewhere." in caption) == said, name


def test_what_another_gpu_teaches_is_judged(both: Campaign, published: Published) -> None:
    judged = replayed_searches(both, "paper", 0.02)
    assert judged and all(one.device_unknown is not None and one.both_unknown is not None for one in judged)
    assert all(one.device_unknown is None for one in replayed_searches(replace(both, beside=()), "paper", 0.02))
    heads = [column.title for column in get_artifact(STUDY, "table-predicted").make(both, published).columns]
    assert {"GPU unknown", "GPU and problem unknown"} <= set(heads)


def test_what_compares_campaigns_is_made_where_there_are_several(
    folder: Path, both: Campaign, published: Published, tmp_path: Path
) -> None:
    several = {artifact.name for artifact in artifacts(STUDY) if artifact.needs == "beside"}
    assert several == {"table-portability", "figure-portability"}
    with_it = CampaignSelection.of("synthetic-cuda", folder, reference_names=["elsewhere"]).artifacts(STUDY)
    alone = CampaignSelection.of("synthetic-cuda", folder).artifacts(STUDY)
    assert {one.name for one in with_it} - {one.name for one in alone} == several
    for name in several:
        artifact = get_artifact(STUDY, name)
        for path in write(artifact, artifact.make(both, published), both, tmp_path):
            assert path.stat().st_size > 0
