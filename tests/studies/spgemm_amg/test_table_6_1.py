"""Table 6.1 compared with the sizes that the grids give."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from repro.problems.generators import generate
from support.amg_campaign import NOTHING_PUBLISHED, NUMBERS, Maker, lines, table, values

PROBLEMS = Path(__file__).parents[3] / "config" / "problems.yaml"
#: Printed as 5 and 9 entries a row.
WRONG = {"poisson/5pt_512": 5 * 512**2, "poisson/9pt_512": 9 * 512**2}
BY_PROBLEM = {item["problem"]: item for item in NUMBERS["sizes"]}


def parameters(name: str) -> dict[str, object]:
    """Return what the registry has of a problem."""
    problems = yaml.safe_load(PROBLEMS.read_text())["problems"]
    given = next(item["parameters"] for item in problems if item["name"] == name)
    assert isinstance(given, dict)
    return given


def entries(points: list[int], stencil: int) -> int:
    """Return how many entries a stencil gives on a grid whose boundary is left out."""
    side = points[0]
    if stencil in (9, 27):
        return (3 * side - 2) ** len(points)
    return side ** len(points) + 2 * len(points) * (side - 1) * side ** (len(points) - 1)


@pytest.mark.parametrize("stencil", [5, 7, 9, 27])
def test_the_count_of_entries_is_the_generators(stencil):
    points = [6] * (2 if stencil in (5, 9) else 3)
    made = generate("diffusion", points=points, stencil=stencil)
    assert (made.n, len(made.indices)) == (6 ** len(points), entries(points, stencil))


def test_the_paper_is_right_but_for_two():
    assert len(BY_PROBLEM) == 8
    for name, item in BY_PROBLEM.items():
        given = parameters(name)
        count = entries(given["points"], given["stencil"])
        assert int(item["unknowns"]) == given["points"][0] ** len(given["points"])
        assert int(item["nonzeros"]) == WRONG.get(name, count)
        assert (int(item["nonzeros"]) == count) == (name not in WRONG)


@pytest.mark.parametrize("name", ["poisson/5pt_512", "poisson/9pt_512", "poisson/7pt_64"])
def test_the_problems_have_the_sizes_of_the_table(tmp_path, name):
    made = generate("diffusion", **parameters(name))
    maker = Maker(tmp_path)
    maker.record(name, entry="real", n=made.n, nnz=len(made.indices))
    line = lines(table(maker.load(), "table-6-1"))[(name,)]
    unknowns, nonzeros, own, own_nonzeros = values(line, "published_unknowns", "published_nonzeros", "unknowns",
                                                   "nonzeros")  # fmt: skip
    assert own == unknowns
    if name in WRONG:
        assert nonzeros == WRONG[name] > own_nonzeros
        assert "times the unknowns: rows at the boundary are shorter" in line["nonzeros"].notes[0]
    else:
        assert nonzeros == own_nonzeros
        assert not line["nonzeros"].notes


def test_other_problems_and_absent_ones(tmp_path):
    maker = Maker(tmp_path)
    maker.record("beam", entry="block3", n=10, nnz=30)
    maker.record("odd", entry="real", n=5, nnz=13)
    maker.gone("poisson/7pt_128")
    made = table(maker.load(), "table-6-1")
    by_name = lines(made)
    assert len(by_name) == 10
    assert values(by_name[("beam",)], "abbreviation", "published_nonzeros", "unknowns", "nonzeros") == [
        None, None, 30, 270
    ]  # fmt: skip
    gone = by_name[("poisson/7pt_128",)]
    assert values(gone, "abbreviation", "published_nonzeros", "nonzeros") == ["3-7-b", 14_581_760, None]
    assert gone["problem"].notes == ("unavailable: no such file",)
    assert by_name[("poisson/7pt_64",)]["problem"].notes == ("not in this campaign",)
    assert "2-5-a and 2-9-a are printed with 5n and 9n non-zeros" in made.caption


def test_a_size_that_differs_elsewhere_is_noted(tmp_path):
    maker = Maker(tmp_path)
    maker.record("poisson/7pt_64", entry="real", n=262144, nnz=3)
    line = lines(table(maker.load(), "table-6-1"))[("poisson/7pt_64",)]
    assert line["nonzeros"].notes == ("not as printed",)
    assert not line["unknowns"].notes


def test_without_published_numbers(tmp_path):
    maker = Maker(tmp_path)
    maker.record("odd", entry="real", n=5, nnz=13)
    made = table(maker.load(), "table-6-1", NOTHING_PUBLISHED)
    assert len(made.rows) == 1
    assert "printed with" not in made.caption
