"""Two campaigns on two GPUs beside each other: columns of tables, and what winners lose where they did not win."""

from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_campaign import LAYOUTS, PROBLEMS, STUDY, Given, Maker

from repro.artifacts.data import Campaign
from repro.artifacts.published import Published
from repro.artifacts.registry import artifacts, get_artifact
from repro.artifacts.write import write
from repro.bench.rows import Row
from repro.campaign.artifacts import Asked
from repro.studies.compound_spmv.portability import journeys
from repro.studies.compound_spmv.searched import judged_searches

#: Of the winner here, on the other device, over what it takes here; everything else is as fast there.
FASTER = {"Sl-32-SoA-AoS": 0.8}
OTHER = "NVIDIA H100"


class OtherMaker(Maker):
    """The same on another GPU, where slices win."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "cuda")
        self.campaign, self.device = "elsewhere", OTHER
        self.raw = self.results / self.campaign / "raw"

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
    return Asked.of("synthetic-cuda", folder, beside=["elsewhere"]).read(STUDY)


def test_losses_both_ways(both: Campaign) -> None:
    (other,) = both.beside
    assert (other.name, other.device) == ("elsewhere", OTHER)
    cases = journeys(both, other)
    assert {problem for problem, _ in cases} == {given.name for given in PROBLEMS[1:3]}
    case = cases["generated/helmholtz", "single"]
    assert case.here.startswith("ELL-SoA-AoS/")
    assert case.there.startswith("Sl-32-SoA-AoS/")
    here, there = LAYOUTS["ELL-SoA-AoS"], FASTER["Sl-32-SoA-AoS"] * LAYOUTS["Sl-32-SoA-AoS"]
    assert case.loss_here == pytest.approx(LAYOUTS["Sl-32-SoA-AoS"] / here - 1)
    assert case.loss_there == pytest.approx(here / there - 1)
    back = journeys(other, both)["generated/helmholtz", "single"]
    assert (back.loss_here, back.loss_there) == (case.loss_there, case.loss_here)


def test_only_variants_that_work_on_both_are_compared(both: Campaign) -> None:
    """A winner that the other device cannot run is no winner of this comparison."""
    (other,) = both.beside
    search = other.search.copy()
    slices = search["layout"] == "Sl-32-SoA-AoS"
    search.loc[slices, "status"] = "launch_error"
    case = journeys(both, replace(other, search=search))["generated/helmholtz", "single"]
    assert case.here == case.there
    assert case.loss_here == case.loss_there == 0


def test_a_cpu_is_not_compared_with_a_gpu(both: Campaign, cpu: Campaign) -> None:
    assert not journeys(both, cpu)


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


def test_what_another_gpu_teaches_is_judged(both: Campaign, published: Published) -> None:
    judged = judged_searches(both, "paper", 0.02)
    assert all(one.device_unknown is not None and one.both_unknown is not None for one in judged)
    assert all(one.device_unknown is None for one in judged_searches(replace(both, beside=()), "paper", 0.02))
    heads = [column.title for column in get_artifact(STUDY, "table-predicted").make(both, published).columns]
    assert {"GPU unknown", "GPU and problem unknown"} <= set(heads)


def test_what_compares_campaigns_is_made_where_there_are_several(
    folder: Path, both: Campaign, published: Published, tmp_path: Path
) -> None:
    several = {artifact.name for artifact in artifacts(STUDY) if artifact.several}
    assert several == {"table-portability", "figure-portability"}
    with_it = Asked.of("synthetic-cuda", folder, beside=["elsewhere"]).artifacts(STUDY)
    alone = Asked.of("synthetic-cuda", folder).artifacts(STUDY)
    assert {one.name for one in with_it} - {one.name for one in alone} == several
    for name in several:
        for path in write(get_artifact(STUDY, name), both, published, tmp_path):
            assert path.stat().st_size > 0
