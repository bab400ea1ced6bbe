from __future__ import annotations

import re
from pathlib import Path

import pytest

from repro.config.models import OwnProblem
from repro.errors import ReproError
from repro.problems.generators import KINDS, generate
from repro.problems.problem import describe_pattern
from repro.problems.registry import Generated, Registry, Suitesparse, load_registry

SHIPPED = Path(__file__).parents[2] / "config/problems.yaml"

# Table 1 of the 2020 paper
TABLE_1 = """
mhd1280b 1280 22778 complex / RFdevice 74104 365580 complex / fem_filter 74062 1731206 complex /
mono_500Hz 169410 5033796 complex / surfaces/bunny 34834 243410 quaternion /
surfaces/armadillo 172974 1210806 quaternion /
surfaces/dragon 435545 3049463 quaternion / surfaces/buddha 543524 3805882 quaternion /
fem/armadillo_1000.1 1016 11180 block3 / fem/bunny2.4M 27112 284846 block3 / fem/nut_37k 9095 112685 block3 /
fem/dragon_100K 26436 315006 block3 / fem/NX_MotorH67k 66840 899478 block3
"""


@pytest.fixture(scope="module")
def shipped() -> Registry:
    return load_registry(SHIPPED)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "problems.yaml"
    path.write_text(text)
    return path


def test_the_papers_problems_are_those_of_table_1(shipped: Registry) -> None:
    rows = [line.split() for line in TABLE_1.replace("\n", " ").split(" / ")]
    items = shipped.expand("papers")
    assert [[i.name, str(i.published.rows), str(i.published.nonzeros), i.entry] for i in items] == rows
    assert [item.name for item in items if item.is_rebuilt] == [row[0] for row in rows if row[0].startswith("fem/")]


def test_the_mirror_set_needs_no_network(shipped: Registry) -> None:
    names = {item.name for item in shipped.expand("mirror")}
    assert names == {
        "surfaces/bunny", "dragon_dithered", "mhd1280b", "qc324", "armadillo_13k", "bunny_closed", "armadillo_4k",
    }  # fmt: skip
    assert all(item.checksum for item in shipped.expand("mirror"))
    assert shipped.find("dragon_dithered").stand_in == "surfaces/dragon"


def test_the_h200_set_has_something_for_every_problem_of_the_papers_but_two(shipped: Registry) -> None:
    items = shipped.expand("h200")
    assert len(items) == 18
    there = {item.stand_in or item.name for item in items}
    assert {item.name for item in shipped.expand("papers")} - there == {"RFdevice", "surfaces/armadillo"}
    assert all(item.checksum or isinstance(item, Generated) for item in items), "the same on every machine"


def test_the_kings_set_is_that_of_table_5_1_with_a_stand_in_for_each(shipped: Registry) -> None:
    items = shipped.expand("king")
    assert len(items) == 16
    assert all(isinstance(item, Suitesparse) and item.kind_of_problem == "updates" for item in items)
    assert {item.name for item in items if item.stored} == {"dblp-2010", "hollywood-2009", "kron_g500-logn18"}
    assert [item.name for item in items if item.published.columns] == ["rail4284"]
    stand_ins = shipped.expand("king_stand_ins")
    assert [item.stand_in for item in stand_ins] == [item.name for item in items]
    assert [item.published for item in stand_ins] == [item.published for item in items]
    assert all(tuple(item.parameters["size"]) == (item.published.rows, item.published.nonzeros) for item in stand_ins)


def test_small_graphs_grow_and_are_as_the_default_campaign_promises(shipped: Registry) -> None:
    for item in shipped.expand("graphs"):
        assert isinstance(item, Generated)
        assert item.kind_of_problem == "updates"
        built = generate(item.kind, **item.parameters)
        assert 2**12 <= built.n <= 2**14
        mean = len(built.indices) // built.n
        assert item.parameters["width"] == -(-mean // 4) * 4, "HYB's width, which the overflow is meant for"
    sweeps = [item for item in shipped.expand(["graphs", "king_sweeps"]) if item.updates.sizes]
    assert [item.updates.rows for item in sweeps] == ["uniform", "degree"] * 2
    assert all(list(item.updates.sizes) == sorted(item.updates.sizes) for item in sweeps)


def test_every_downloadable_problem_says_its_terms(shipped: Registry) -> None:
    downloaded = [item for item in shipped.problems if item.source in ("suitesparse", "stanford", "tetmesh")]
    assert len(downloaded) > 20
    assert all(item.licence and item.credit for item in downloaded)


def test_the_generated_set_is_what_the_default_campaign_promises(shipped: Registry) -> None:
    items = shipped.expand("generated")
    entries = [item.entry for item in items]
    assert all(entries.count(entry) >= 2 for entry in ("complex", "quaternion", "block3"))
    longest = {}
    for item in items:
        assert isinstance(item, Generated)
        built = generate(item.kind, **item.parameters)
        assert 5_000 <= built.n <= 20_000, item.name
        lengths = describe_pattern(built.indptr, built.indices)["row_length"]
        longest[item.name] = lengths["max"] / lengths["median"]
    assert max(longest.values()) > 10


def test_generated_problems_name_kinds_that_exist(shipped: Registry) -> None:
    for item in shipped.problems:
        if isinstance(item, Generated):
            assert KINDS[item.kind].entry == item.entry


@pytest.mark.parametrize(
    ("name", "suggested"),
    [("bunny", "surfaces/bunny"), ("mhd1280", "mhd1280b"), ("RFdevise", "RFdevice"), ("nut_37K", "fem/nut_37k")],
)
def test_an_unknown_name_suggests_close_ones(shipped: Registry, name: str, suggested: str) -> None:
    with pytest.raises(ReproError, match="unknown problem") as caught:
        shipped.find(name)
    asked, _, told = str(caught.value.actual).partition("; did you mean ")
    assert asked == name
    assert suggested in told.removesuffix("?").split(" or ")


@pytest.mark.wording
def test_of_an_unknown_name_without_close_ones_the_message_shows_a_few(shipped: Registry) -> None:
    with pytest.raises(ReproError, match=r"one of the registry's [0-9]+ .*such as mhd1280b, [^\n]{0,200}"):
        shipped.expand(["xxxxxxxxxxxx"])


def test_sets_names_and_own_problems_expand_once_and_in_order(shipped: Registry) -> None:
    own = OwnProblem(path="some/where/mine.mtx.gz", entry="real")
    found = shipped.expand(["qc324", own, "mirror", "qc324", own])
    assert found[0].name == "qc324"
    assert found[1] == own
    assert len(found) == len(shipped.expand("mirror")) + 1


@pytest.mark.wording
@pytest.mark.parametrize("name", ["mhd1280b", None])
def test_an_own_problem_cannot_take_a_name(shipped: Registry, name: str | None) -> None:
    mine = [OwnProblem(path="a/qc324.mtx", name=name), OwnProblem(path="b/qc324.mtx", name=name)]
    with pytest.raises(ReproError, match="name of a problem is taken"):
        shipped.expand(mine)


@pytest.mark.wording
@pytest.mark.parametrize(
    "own",
    [
        OwnProblem(path="my matrix.mtx"),
        *(
            OwnProblem(path="a.mtx", name=name)
            for name in ("../a", "a\n", "{wild}", "a/{b}", "", "a//b", "a" * 20, "x-abab" + "ab" * 19, "a" * 129)
        ),
        OwnProblem(path="a.mtx", name="/".join(["0123456789"] * 30)),
    ],
)
def test_an_own_problem_needs_a_name_that_can_be_a_file(shipped: Registry, own: OwnProblem) -> None:
    with pytest.raises(ReproError, match=r"invalid name of a problem[\s\S]*give it a `name:`"):
        shipped.expand([own])


TOY = "{name: toy, source: generated, entry: real, kind: poisson, sets: [s]%s}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("problems: []", "problems: .*at least 1"),
        (f"problems: [{TOY % ', colour: red'}]", "colour: unknown key"),
        (f"problems: [{TOY % ''}, {TOY % ''}]", "two problems are called toy"),
        (f"problems: [{TOY % ''}, {(TOY % '').replace('name: toy', 'name: s')}]", "both a problem and a set: s"),
        (f"problems: [{TOY % ', stand_in: gone'}]", "not registered: .*gone"),
        (f"problems: [{TOY % ', checksum: abc'}]", "checksum"),
        (f"problems: [{TOY % ', updates: {batches: 3}'}]", "updates: .*either `batches` and `share`, or `sizes`"),
        (f"problems: [{TOY % ', updates: {share: 0.1, batches: 2, sizes: [1]}'}]", "either `batches` and `share`"),
        (f"problems: [{TOY % ', updates: {sizes: [-1]}'}]", "sizes.0"),
        (f"problems: [{(TOY % ', updates: {sizes: [1]}').replace('real', 'complex')}]", "real matrices.*complex"),
        ("problems: [{name: toy, source: suitesparce}]", "1:24: problems.0.source: .*did you mean suitesparse"),
        ("problems: [{name: toy, entry: real}]", "1:12: problems.0.source: missing in .*the key `source`"),
        ("problems: [{name: toy, source: recipe, recipe: toy_1, young: -3}]", "1:55: problems.0.young: "),
        (
            "problems: [{name: toy, source: recipe, recipe: toy_1, yung: 3}]",
            r"1:55: problems.0.yung: unknown .* did you mean young\? .expected (?!.* group).* recipe,",
        ),
        ("problems: [{name: '../toy', source: generated, entry: real, kind: poisson}]", "name"),
        (
            "problems: [{name: toy, source: tetmesh, mesh: toy, parts: [.node, .ele], urls: [[one]]}]",
            "needs 2 addresses",
        ),
        (
            f"problems: [{(TOY % '').replace('toy', 'a' * 20)}]",
            "problems.0.name: 'aaa.*an end that is not 'a' 20 times",
        ),
        (
            'problems: [{name: "toy\\n", source: generated, entry: real, kind: poisson}]',
            "problems.0.name: 'toy.*expected letters",
        ),
        ("problems: [{name: toy, source: suitesparse, entry: real, group: .., matrix: m}]", "problems.0.group: "),
        ("", "null .expected a mapping with some of the keys .*problems"),
        ("[a, b]", ".a, b. .expected a mapping with some of the keys .*problems"),
        ("problems: [", "unreadable YAML"),
    ],
)
def test_a_registry_that_does_not_fit(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ReproError) as caught:
        load_registry(write(tmp_path, text))
    error = caught.value
    assert re.search(said, f"{error.where}: {error.actual} (expected {error.expected})\n{error.message}")
    assert str(error.where).startswith(str(tmp_path / "problems.yaml"))


@pytest.mark.parametrize("kind", ["missing", "a folder"])
def test_a_registry_that_is_no_file_names_the_key(tmp_path: Path, kind: str) -> None:
    path = tmp_path if kind == "a folder" else tmp_path / "none.yaml"
    with pytest.raises(ReproError, match=r"(not a|no such) registry of problems(.|\n)*registry:") as caught:
        load_registry(path)
    assert str(path) in str(caught.value.where)


@pytest.mark.wording
def test_an_unknown_problem_is_told_with_the_key_that_names_it(shipped: Registry) -> None:
    with pytest.raises(ReproError, match=r"unknown problem\n  where: studies.mine.problems"):
        shipped.expand(["surfaces/bunni"], "studies.mine.problems")


def test_a_name_of_any_length_is_looked_for(shipped: Registry) -> None:
    with pytest.raises(ReproError, match="unknown problem") as caught:
        shipped.expand(["surfaces/bunny" * 20_000])
    assert len(caught.value.message) < 5000
