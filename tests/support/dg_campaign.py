"""Writing a campaign of filtered fields that was never measured: each number in its tables can be worked out.

Times are in microseconds by the event clock, of which the graph clock reads 0.8 and the host's 3.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.text import Text

from repro.bench.rows import Row
from repro.results import figure_style
from repro.results.published import Published
from repro.results.registry import get_artifact
from repro.results.tables import Cell, Figure, Table
from repro.studies import load_artifacts
from repro.studies.dg_postprocessing import PUBLISHED, STUDY_NAME, TARGETS
from repro.studies.dg_postprocessing.ids import FilterId
from repro.studies.dg_postprocessing.study import DgPostprocessing
from support.campaigns import DEVICES, READS, Recorder

load_artifacts(STUDY_NAME)
NUMBERS = Published.load(STUDY_NAME, PUBLISHED, TARGETS, Path(__file__).parents[2] / "config")
NOTHING_PUBLISHED = Published({}, [])

#: Of each tuning what is chosen and how long it takes; the paper's point and element come first.
CHOSEN = {
    "paper/point": ("point-t64-c1-b1", 30_000.0), "paper/element": ("element-t64-c0.5-b1", 20_000.0),
    "paper_tuned/point": ("point-t128-c1-b8", 25_000.0), "paper_tuned/element": ("element-t128-c0.5-b4", 16_000.0),
    "atomic": ("atomic-t64-c0.5-b4", 8_000.0), "edges": ("edges-t64-c0.5-b16", 4_000.0),
}  # fmt: skip
POINTS_OF_TRIANGLE = {1: 6, 2: 12, 3: 20}
#: Numbers of a point: pairs, sub-triangles, segments, operations.
PAIRS, SUBTRIANGLES, SEGMENTS, OPERATIONS = 100, 300, 400, 50_000
COPIES = 2
#: Times of products by the fields at once, and of making the matrix by the host's clock, which reads three times that.
APPLIES = {1: 500.0, 4: 600.0, 16: 900.0}
MAKE = 4_000.0
#: Of streaming a product's bytes, by the words in flight, and of the library's products, by routine and fields.
STREAMS = {1: 450.0, 4: 400.0}
LIBRARY = {("spmv-csr-alg1", 1): 900.0, ("spmv-csr-alg2", 1): 800.0, ("spmm-csr-alg2", 4): 1200.0,
           ("spmm-csr-alg3", 16): 1080.0}  # fmt: skip
MATRIX_BYTES = 1_600_000_000
#: Of local h: microseconds, pairs at a point, the mean of h in mean edges, and by what its errors are smaller.
LOCAL, LOCAL_PAIRS, LOCAL_SCALE, LOCAL_GAIN = 10_000.0, 40, 1.2, 4.0
#: Of 132 multiprocessors with 64 lanes at 1980 MHz.
PEAK = 2 * 132 * 64 * 1.98


def mean_edge(triangles: int) -> float:
    """Return the mean edge length of a mesh; its longest edge is 1.5 times as long."""
    return (2 / triangles) ** 0.5


def errors(degree: int, triangles: int) -> dict[str, float]:
    """Return the errors of a field and of the filtered one: of order P + 1 and 2P + 2 in the mean edge."""
    before, after = mean_edge(triangles) ** (degree + 1), 10 * mean_edge(triangles) ** (2 * degree + 2)
    return {"dg_l2_error": before, "dg_max_error": 3 * before, "l2_error": after, "max_error": 5 * after}


class Maker(Recorder):
    """Writes the raw folder of a campaign of this study."""

    def __init__(self, root: Path, backend: str = "cuda") -> None:
        super().__init__(root, backend, STUDY_NAME, DgPostprocessing.columns)
        self.environment()

    def environment(self) -> None:
        """Write the one environment record, of a GPU whose peak is known."""
        path = self.raw / "environment" / "e0.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        known = {"target": "sm_90", "multiprocessors": 132, "max_sm_clock_mhz": 1980} if self.backend == "cuda" else {}
        path.write_text(json.dumps({"device": DEVICES[self.backend], "backend": self.backend, "commit": "abc",
                                    "dirty": False, "cache_bytes": 60 << 20, "flags": [], "packages": {},
                                    **known}))  # fmt: skip

    def field(self, problem: str, variance: str, degree: int, triangles: int, **facts: Any) -> None:
        """Write the record of a field; tests are counted of degree 1 as 320 and 170 a point."""
        points = POINTS_OF_TRIANGLE[degree] * triangles
        counted = {"tests_per_point": 320 * points, "tests_per_element": 170 * points} if degree == 1 else {}
        edge = mean_edge(triangles)
        counts = {"triangles": triangles, "points": points, "degree": degree, "longest_edge": 1.5 * edge,
                  "mean_edge": edge, "overhead": {"16": 1.75, "132": 7.5}, **counted, **facts}  # fmt: skip
        self.record(problem, kind="field", dimension=2, cells=triangles, degree=degree,
                    origin={"source": "field", "function": "sine", "parameters": {"variance": variance}},
                    facts={STUDY_NAME: counts})  # fmt: skip

    def rows(self, problem: str, degree: int, triangles: int, weight: float = 1.0) -> list[Row]:
        """Return everything that a report has of a field."""
        points = POINTS_OF_TRIANGLE[degree] * triangles
        shared = {"triangles": triangles, "points": points, "degree": degree, "scale": 0.03, "pairs": PAIRS * points,
                  "subtriangles": SUBTRIANGLES * points, "segments": SEGMENTS * points,
                  "operations": OPERATIONS * points}  # fmt: skip

        def row(kind: str, name: str, micro: float, clocks: tuple[str, ...] = ("event", "graph"), **own: Any) -> Row:
            columns = {"phase": "report", **shared, **own}
            # so that times by events alone are in proportion to those by graphs
            scale = READS["graph"] if clocks == ("event",) else 1.0
            return self.row(problem, "double", kind, name, scale * micro, clocks, **columns)

        both = errors(degree, triangles)
        before = {name: value for name, value in both.items() if name.startswith("dg_")}
        shared |= before
        after = {name: value for name, value in both.items() if name not in before}
        filters = [
            row("variant", name, micro * weight, ("event",), what="filter", space=FilterId.parse(name).space, **after,
                **FilterId.parse(name).columns, **({"copies": COPIES * points} if name.startswith("element") else {}))
            for name, micro in CHOSEN.values()
        ]  # fmt: skip
        local = row("variant", "local-t64", LOCAL * weight, ("event",), what="local", local_pairs=LOCAL_PAIRS * points,
                    mean_scale=LOCAL_SCALE * mean_edge(triangles),
                    **{name: value / LOCAL_GAIN for name, value in after.items()})  # fmt: skip
        size = {"matrix_pairs": PAIRS * points, "matrix_bytes": MATRIX_BYTES}
        products = [
            row("variant", f"matrix/apply-{number}", micro, what="apply", fields=number, bytes=MATRIX_BYTES, **size)
            for number, micro in APPLIES.items()
        ]
        make = row("variant", "matrix/make", MAKE, ("host",), what="make", **size)
        streams = [
            row("variant", f"matrix/stream-u{unroll}", micro, what="stream", fields=1, bytes=MATRIX_BYTES, **size)
            for unroll, micro in STREAMS.items()
        ]
        library = [
            row(
                "baseline",
                f"cusparse/{routine}-{number}",
                micro,
                what="library",
                fields=number,
                routine=routine,
                **size,
            )
            for (routine, number), micro in LIBRARY.items()
        ]
        return [*filters, local, make, *products, *streams, *library, row("empty", "empty", 1.0)]

    def case(self, problem: str, variance: str, degree: int, triangles: int, weight: float = 1.0) -> None:
        """Write everything of a field that was measured, its direct ways slower by a factor."""
        self.field(problem, variance, degree, triangles)
        self.measured(problem, self.rows(problem, degree, triangles, weight))

    def measured(self, problem: str, rows: list[Row]) -> None:
        """Write the rows of a field, and the choices among its methods."""
        self.write(problem, "double", "report", rows)
        there = {row.name for row in rows}
        chosen = {tuning: name for tuning, (name, _) in CHOSEN.items() if name in there}
        clocks = ("event", "graph")
        choices = {(tuning, clock): (name, [name]) for tuning, name in chosen.items() for clock in clocks}
        self.choose(problem, "double", choices)

    def gone(self, problem: str) -> None:
        """Write a problem that could not be had."""
        self.record(problem, kind="field", status="unavailable", reason="no such file")
        self.write(problem, "double", "report", [self.unavailable(problem, "double", "no such file")])


def table(campaign: object, name: str, published: Published = NUMBERS) -> Table:
    """Make a table of the study."""
    made = get_artifact(STUDY_NAME, name).make(campaign, published)  # type: ignore[arg-type]
    assert isinstance(made, Table)
    return made


def drawn(campaign: object, name: str, published: Published = NUMBERS) -> tuple[Canvas, list[str], str]:
    """Make a figure of the study; return it with its texts and caption."""
    made = get_artifact(STUDY_NAME, name).make(campaign, published)  # type: ignore[arg-type]
    assert isinstance(made, Figure)
    with mpl.rc_context(figure_style.RC):
        figure = made.draw()
        figure.draw_without_rendering()
    return figure, [text.get_text() for text in figure.findobj(Text)], made.caption


def lines(made: Table, key: str = "problem") -> dict[object, dict[str, Cell]]:
    """Return the cells of each row by the value of one of its columns."""
    heads = [column.key for column in made.columns]
    assert len(set(heads)) == len(heads)
    cells = [dict(zip(heads, row, strict=True)) for row in made.rows]
    return {line[key].value: line for line in cells}


def values(line: dict[str, Cell], *keys: str) -> list[object]:
    """Return the values of some cells."""
    return [line[key].value for key in keys]
