"""Errors of fields before and after the filter: as they are measured, in tables and in figures."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from repro.errors import IncorrectError
from repro.filtering.grids import evaluation_points, of_field
from repro.filtering.reference import contour_rows
from repro.filtering.stencil_geometry import point_scales
from repro.galerkin import evaluate
from repro.problems.field import FUNCTIONS
from repro.problems.generated_fields import generate_field
from repro.problems.registry import load_registry
from repro.results import figure_style
from repro.results.registry import get_artifact
from repro.studies.dg_postprocessing import MAX_LOCAL_TRIANGLES, STUDY_NAME
from repro.studies.dg_postprocessing.operands import DgOperands, Filters, exact, make_operands, unfiltered
from support.dg_campaign import (
    LOCAL_GAIN,
    LOCAL_PAIRS,
    LOCAL_SCALE,
    NUMBERS,
    PAIRS,
    Maker,
    errors,
    lines,
    mean_edge,
    table,
    values,
)


class Given(Filters):
    """A runnable whose result is given."""

    def __init__(self, values: np.ndarray, *, local: bool = False) -> None:
        self.values, self.local, self.launch = values, local, lambda: None

    def result(self) -> np.ndarray:
        return self.values


@pytest.fixture(scope="module")
def operands() -> DgOperands:
    return make_operands(generate_field("delaunay", triangles=30, degree=1, field="waves"), "double", 1)


def check(operands: DgOperands, runnable: Given) -> float | None:
    return operands.check(runnable, None)  # type: ignore[arg-type]


# as they are measured ---------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_the_filter_gains_on_the_fields_of_the_default_campaign() -> None:
    registry = load_registry(Path(__file__).parents[3] / "config/problems.yaml")
    fields = [item.parameters for item in registry.expand("dg_small") if item.kind == "delaunay"]
    assert fields
    for parameters in fields:
        field = generate_field("delaunay", **parameters)
        mesh, degree = of_field(field), field.degree
        points = evaluation_points(mesh, degree)
        some = np.random.default_rng(1).choice(len(points), 400, replace=False)
        filtered = contour_rows(mesh, points[some], degree, field.basis) @ field.modes.ravel()
        true = FUNCTIONS["sine"](points[some])
        before = np.linalg.norm(unfiltered(degree, field.basis, field.modes)[some] - true)
        after = np.linalg.norm(filtered - true)
        assert after < before, parameters


def test_a_projection_errs_at_the_quadrature_points_somewhat_less_than_everywhere():
    """Its error is of the sort whose zeros Gauss's points are; and a field that is its function has none."""
    field = generate_field("delaunay", triangles=200, degree=2)
    given = make_operands(field, "double", 1)
    inside = np.random.default_rng(1).dirichlet(np.ones(3), 400)[:, 1:]
    corners = given.mesh.corners
    points = (corners[:, :1] + inside @ (corners[:, 1:] - corners[:, :1])).reshape(-1, 2)
    apart = (field.modes @ evaluate("dubiner", inside, 2).T).ravel() - FUNCTIONS["sine"](points)
    drawn = np.sqrt(2 * given.mesh.areas @ (apart**2).reshape(-1, 400).mean(axis=1) / 2)
    assert 0.7 * drawn < given.columns["dg_l2_error"] < drawn
    assert given.columns["dg_l2_error"] < given.columns["dg_max_error"] <= np.abs(apart).max() * 1.05
    one = make_operands(generate_field("structured", squares=3, degree=1, field="constant"), "double", 1)
    assert one.columns["dg_max_error"] < 1e-14


def test_weights_add_up_to_the_domain_and_values_are_the_fields_own(operands):
    there = exact(operands.mesh, 1, "waves")
    assert there is not None and there.weights.sum() == pytest.approx(1)
    own = unfiltered(1, operands.basis, operands.modes)
    far = there.errors(own + 1).l2
    assert far == pytest.approx(np.sqrt(there.weights @ (own + 1 - there.values) ** 2)) and far > 0.9
    assert exact(operands.mesh, 1, None) is None


@pytest.mark.parametrize("local", [False, True])
def test_a_right_result_has_its_errors_in_its_row(operands, local):
    h = point_scales(operands.mesh, operands.points) if local else None
    filtered = contour_rows(operands.mesh, operands.points, 1, scale=h) @ operands.modes.ravel()
    right = Given(filtered, local=local)
    assert right.errors is None
    assert check(operands, right) is not None
    apart = np.abs(filtered - FUNCTIONS["waves"](operands.points))
    assert right.errors is not None and right.errors.largest == pytest.approx(apart.max())
    with pytest.raises(IncorrectError):
        check(operands, Given(filtered, local=not local))


def test_a_field_of_a_user_has_no_errors(operands):
    field = generate_field("delaunay", triangles=30, degree=1)
    object.__setattr__(field, "origin", {})
    given = make_operands(field, "double", 1)
    assert "dg_l2_error" not in given.columns
    right = Given(contour_rows(given.mesh, given.points, 1) @ given.modes.ravel())
    check(given, right)
    assert right.errors is None


# in tables --------------------------------------------------------------------------------------------------------


def test_errors_and_their_orders(dg_campaign_of_some):
    by_name = lines(table(dg_campaign_of_some, "table-errors"))
    line, expected = by_name["siac/low_16k_p1"], errors(1, 16_000)
    assert values(line, "function", "mean_edge") == ["sine", pytest.approx(mean_edge(16_000))]
    assert values(line, "dg_l2", "dg_max", "filtered_l2", "filtered_max") == pytest.approx(list(expected.values()))
    orders = values(line, "dg_l2_order", "dg_max_order", "filtered_l2_order", "filtered_max_order")
    assert orders == pytest.approx([2, 2, 4, 4])
    assert line["l2_gain"].value == pytest.approx(expected["dg_l2_error"] / expected["l2_error"])
    # the coarsest, and the only one of its degree
    assert by_name["tiny"]["dg_l2_order"].value is by_name["siac/high_4k_p2"]["filtered_l2_order"].value is None
    assert by_name["gone"]["problem"].notes == ("unavailable: no such file",)


def test_meshes_of_one_size_have_no_order(tmp_path):
    maker = Maker(tmp_path)
    maker.case("one", "low", 1, 4000)
    maker.case("other", "low", 1, 4100)
    maker.case("coarse", "low", 2, 1000)
    by_name = lines(table(maker.load(), "table-errors"))
    assert len(by_name) == 3 and all(line["dg_l2_order"].value is None for line in by_name.values())


def test_a_field_whose_function_is_not_known_says_so(tmp_path):
    maker = Maker(tmp_path)
    maker.record("mine", kind="field", dimension=2, cells=100, degree=1, origin={"source": "own"})
    rows = maker.rows("mine", 1, 100)
    for row in rows:
        for name in errors(1, 100):
            row.own.pop(name, None)
    maker.measured("mine", rows)
    campaign = maker.load()
    for name, cells in (
        ("table-errors", ("dg_l2", "filtered_max", "l2_gain")),
        ("table-local", ("local_l2", "dg_max")),
    ):
        line = lines(table(campaign, name))["mine"]
        assert values(line, *cells) == [None] * len(cells)
        assert line["problem"].notes == ("no exact function of it is known",)


def test_local_h_beside_one(dg_campaign_of_some):
    made = table(dg_campaign_of_some, "table-local")
    by_name = lines(made)
    line, expected = by_name["siac/high_4k_p2"], errors(2, 4000)
    assert values(line, "longest_edge", "mean_scale") == pytest.approx(
        [1.5 * mean_edge(4000), LOCAL_SCALE * mean_edge(4000)]
    )
    assert values(line, "dg_l2", "whole_l2", "local_l2", "l2_gain") == pytest.approx(
        [expected["dg_l2_error"], expected["l2_error"], expected["l2_error"] / LOCAL_GAIN, LOCAL_GAIN]
    )
    assert values(line, "local_max", "max_gain") == pytest.approx([expected["max_error"] / LOCAL_GAIN, LOCAL_GAIN])
    assert values(line, "whole_pairs", "local_pairs") == [PAIRS, LOCAL_PAIRS]
    assert values(line, "whole_ms", "local_ms", "speedup") == pytest.approx([200, 80, 2.5])
    assert f"{MAX_LOCAL_TRIANGLES // 1000}\N{NO-BREAK SPACE}000 triangles" in made.caption


def test_local_h_that_failed_or_was_left_out_says_so(tmp_path):
    maker = Maker(tmp_path)
    maker.field("left", "low", 1, 100)
    maker.measured("left", [row for row in maker.rows("left", 1, 100) if row.name != "local-t64"])
    maker.field("odd", "low", 1, 100)
    failed = maker.row("odd", "double", "variant", "local-t64", None, status="out_of_memory", message="2 GiB more",
                       phase="report", what="local")  # fmt: skip
    maker.measured("odd", [*(row for row in maker.rows("odd", 1, 100) if row.name != failed.name), failed])
    maker.case("large", "low", 1, MAX_LOCAL_TRIANGLES + 1)
    by_name = lines(table(maker.load(), "table-local"))
    assert by_name["left"]["problem"].notes == ("local h was not measured",)
    assert by_name["odd"]["problem"].notes == ("local-t64: out of memory (2 GiB more)",)
    assert values(by_name["odd"], "local_l2", "local_ms", "speedup") == [None] * 3
    assert by_name["odd"]["whole_l2"].value == pytest.approx(errors(1, 100)["l2_error"])
    assert "large" not in by_name


# in figures -------------------------------------------------------------------------------------------------------


def drawn(campaign, name):
    made = get_artifact(STUDY_NAME, name).make(campaign, NUMBERS)
    with mpl.rc_context(figure_style.RC):
        figure = made.draw()
        figure.draw_without_rendering()
    return figure, made.caption


def test_errors_over_triangles(dg_campaign_of_some):
    figure, _ = drawn(dg_campaign_of_some, "figure-errors")
    low, high = figure.axes
    assert {"before the filter", "filtered"} <= {text.get_text() for text in figure.legends[0].get_texts()}
    hollow = {tuple(line.get_xdata()): line.get_ydata() for line in low.lines if line.get_linestyle() == "--"}
    full = {tuple(line.get_xdata()): line.get_ydata() for line in low.lines if line.get_linestyle() == "-"}
    sizes = (300, 4000, 16_000)
    assert hollow[sizes] == pytest.approx([errors(1, size)["dg_l2_error"] for size in sizes])
    assert full[sizes] == pytest.approx([errors(1, size)["l2_error"] for size in sizes])
    assert set(hollow) == set(full) == {sizes, (4000,)}
    assert len(high.lines) == 2 and low.get_yscale() == "log"
