"""Facts of fields: Table 3.1 and Figure 3.7 on our own meshes."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from repro.problems.generated_fields import generate_field
from repro.studies.dg_postprocessing import STUDY_NAME
from repro.studies.dg_postprocessing.facts import facts
from support.dg_campaign import NUMBERS, Maker, lines, table, values

PROBLEMS = Path(__file__).parents[3] / "config" / "problems.yaml"
#: Meshes that take less than a second.
SMALL = ("4k", "16k", "64k")


@cache
def registry() -> dict[str, dict[str, object]]:
    """Return the parameters of the registry's fields by name."""
    problems = yaml.safe_load(PROBLEMS.read_text())["problems"]
    return {item["name"]: item["parameters"] for item in problems if item["name"].startswith("siac/")}


def parameters(name: str) -> dict[str, object]:
    """Return what the registry has of a field."""
    return registry()[name]


@pytest.mark.parametrize("item", [item for item in NUMBERS["tests"] if item["printed"] in SMALL])
def test_table_3_1_is_that_of_our_meshes_of_low_variance(tmp_path, item):
    name = item["problem"]
    counted = facts(generate_field("delaunay", **parameters(name)))
    maker = Maker(tmp_path)
    maker.record(name, kind="field", dimension=2, cells=counted["triangles"], degree=1, facts={STUDY_NAME: counted})
    line = lines(table(maker.load(), "table-3-1"))[name]
    over = values(line, "point_over_published", "element_over_published")
    assert over == pytest.approx([1, 1], abs=0.1)
    assert 1.84 < float(str(line["ratio"].value)) < 1.90


def test_sizes_of_the_registry_are_those_that_are_published():
    sizes = {"4k": 4096, "16k": 16384, "64k": 65536, "256k": 262144, "1024k": 1048576}
    plane = [item for item in NUMBERS["sizes"] if item["variance"]]
    space = [item for item in NUMBERS["sizes"] if not item["variance"]]
    assert (len(plane), len(space)) == (30, 2)
    for item in space:
        given = parameters(item["problem"])
        assert (given["cubes"], given["degree"]) == (int(item["printed"]), int(item["degree"]))
    for item in plane:
        given = parameters(item["problem"])
        assert (given["variance"], given["degree"]) == (item["variance"], int(item["degree"]))
        assert given["triangles"] == sizes[item["printed"]]


def test_copies_fall_as_meshes_grow_and_rise_with_patches():
    small, large = (
        facts(generate_field("delaunay", triangles=count, variance="low", degree=1, seed=1))["overhead"]
        for count in (1000, 16_000)
    )
    assert isinstance(small, dict) and isinstance(large, dict)
    assert 0 < large["16"] < small["16"] < small["132"]
    assert large["16"] < large["132"]


def test_facts_of_a_higher_degree_have_no_tests_and_of_cubes_nothing():
    plane = facts(generate_field("delaunay", triangles=100, variance="high", degree=2, seed=1))
    assert plane["points"] == 12 * int(str(plane["triangles"]))
    assert plane["degree"] == 2
    assert float(str(plane["longest_edge"])) > float(str(plane["mean_edge"])) > 0
    assert "tests_per_point" not in plane
    assert facts(generate_field("cubes", cubes=2, degree=1)) == {}


def test_building_a_problem_does_not_load_what_measures():
    program = "import sys, repro.studies.dg_postprocessing.facts; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "repro.filtering.grids" in loaded
    measures = ("repro.bench.runnable", "repro.devices", "repro.tuning", "repro.sparse")
    assert not [name for name in loaded if name.startswith(measures)]
