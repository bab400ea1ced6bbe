"""Tables and figure of calls, of a campaign on a GPU that was never measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro.campaign.artifacts import published_of
from repro.results.campaign_data import Campaign
from repro.results.registry import get_artifact
from repro.results.tables import Figure, Table
from repro.studies import get_study, load_artifacts
from repro.studies.calls import LIBRARIES, OURS
from support.campaigns import READS, Recorder

SIZES = {"small": (500, 2_400), "large": (1_000_000, 7_000_000)}
#: Microseconds of calls on the small problem, by function, library, arrays and result; on the large one ten times that.
TIMES = {
    ("product", OURS, "CuPy", "new"): 10.0,
    ("product", OURS, "CuPy", "out"): 8.0,
    ("product", "CuPy", "CuPy", "new"): 25.0,
    ("product", OURS, "PyTorch", "new"): 12.0,
    ("product", "PyTorch", "PyTorch", "new"): 24.0,
    ("product", "PyTorch", "PyTorch", "out"): 22.0,
    ("product", OURS, "NumPy", "new"): 40.0,
    ("product", "SciPy", "NumPy", "new"): 20.0,
    ("product", "cuSPARSE CSR ALG1", "CuPy", "out"): 60.0,
    ("product", "cuSPARSE CSR ALG2", "CuPy", "out"): 50.0,
    ("insert", OURS, "CuPy", "new"): 30.0,
    ("set-up", OURS, "CuPy", "new"): 7_000.0,
}
#: Microseconds of our kernel and of each routine alone, on the small problem.
KERNELS = {OURS: 2.0, "cuSPARSE CSR ALG1": 5.0, "cuSPARSE CSR ALG2": 3.0}
REASON = "of a library"


def campaign(folder: Path, backend: str = "cuda", left_out: tuple[str, ...] = ()) -> Campaign:
    """Return a campaign of both problems; CuPy cannot multiply into an array, and `left_out` has no calls."""
    load_artifacts("calls")
    maker = Recorder(folder, backend, "calls", get_study("calls").columns)
    maker.environment()
    for number, (problem, (rows, entries)) in enumerate(SIZES.items()):
        maker.record(problem, entry="real", n=rows, nnz=entries)
        made = []
        for (function, library, arrays, result), micro in (TIMES | {("product", "CuPy", "CuPy", "out"): None}).items():
            about = {"function": function, "library": library, "arrays": arrays, "result": result}
            kernel = {}
            if library in KERNELS and function == "product":
                kernel = {"kernel_seconds": 1e-6 * KERNELS[library] * 10**number}
            time = None if micro is None else micro * 10**number / READS["host"]
            failed = {} if time else {"status": "unsupported", "message": REASON}
            name = f"{function}/{library}/{arrays}/{result}"
            columns = {"phase": "report", "rows": rows, "entries": entries, **about, **kernel, **failed}
            if arrays not in left_out:
                made.append(maker.row(problem, "double", "call", name, time, ("host",), **columns))
        maker.write(problem, "double", "report", made)
    return maker.load()


def table(of: Campaign, name: str) -> Table:
    made = get_artifact("calls", name).make(of, published_of("calls"))
    assert isinstance(made, Table)
    return made


def test_each_library_has_its_line_beside_ours_and_the_kernel(tmp_path: Path) -> None:
    made = table(campaign(tmp_path), "table-calls")
    keys = [column.key for column in made.columns]
    lines = {tuple(cell.value for cell in row[:4]): dict(zip(keys, row, strict=True)) for row in made.rows}
    functions = [
        *(("set-up", name, "CuPy") for name in SIZES),
        *(("product", problem, arrays) for problem in SIZES for arrays in LIBRARIES),
    ]
    assert [(line[0], line[1], line[3]) for line in lines] == [
        *functions,
        *(("insert", name, "CuPy") for name in SIZES),
    ]
    cupy = lines["product", "small", "double", "CuPy"]
    expected = {"ours_new_us": 10, "ours_out_us": 8, "kernel_us": 2, "library_new_us": 25, "library_out_us": None,
                "routine_us": 3, "ratio": 2.5, "rows": 500, "entries": 2_400}  # fmt: skip
    for key, value in expected.items():
        assert cupy[key].value == (None if value is None else pytest.approx(value)), key
    assert cupy["library_out_us"].notes == (f"product/CuPy/CuPy/out: unsupported ({REASON})",)
    assert lines["product", "large", "double", "PyTorch"]["library_out_us"].value == pytest.approx(220)
    assert lines["product", "small", "double", "NumPy"]["ratio"].value == pytest.approx(0.5)
    insert = lines["insert", "small", "double", "CuPy"]
    assert insert["kernel_us"].value is None and insert["library_new_us"].value is None
    assert not made.is_empty and "No calls of" not in made.caption


def test_a_target_is_the_mean_of_all_problems(tmp_path: Path) -> None:
    lines = {row[0].value: row for row in table(campaign(tmp_path), "table-targets").rows}
    wanted, measured, reached, cases = lines["A @ x: time of CuPy’s call over ours"][1:5]
    assert (wanted.value, measured.value, reached.value, cases.value) == (1, pytest.approx(2.5), "yes", 2)
    assert lines["A @ x of NumPy’s arrays: time of SciPy’s call over ours"][2].value == pytest.approx(0.5)
    kernels = lines["A @ x, kernels alone: time of cuSPARSE’s fastest routine over ours, mean"]
    assert (kernels[2].value, kernels[4].value) == (pytest.approx(1.5), 2)
    set_up = lines["set-up from a matrix of CuPy: milliseconds, worst"]
    assert (set_up[2].value, set_up[3].value) == (pytest.approx(70), "no")
    assert lines["A @ A: time of CuPy’s call over ours"][-1].shown == "no calls of CuPy"


@pytest.mark.parametrize(
    ("backend", "left_out", "said"),
    [
        ("cuda", ("CuPy",), "No calls of CuPy: not installed where this was measured."),
        ("opencl", ("CuPy", "PyTorch"), "No calls of CuPy and PyTorch: their arrays are on a GPU."),
    ],
)
def test_libraries_without_calls_are_named(tmp_path: Path, backend: str, left_out: tuple[str, ...], said: str) -> None:
    of = campaign(tmp_path, backend, left_out)
    for name in ("table-calls", "figure-calls"):
        assert said in get_artifact("calls", name).make(of, published_of("calls")).caption


def test_the_figure_has_a_line_of_each_kind_by_entries(tmp_path: Path) -> None:
    figure = get_artifact("calls", "figure-calls").make(campaign(tmp_path), published_of("calls"))
    assert isinstance(figure, Figure) and not figure.is_empty
    (axes,) = figure.draw().axes
    drawn = {line.get_label(): line.get_xydata().tolist() for line in axes.get_lines()}
    assert drawn.keys() == {
        "ours, CuPy’s arrays, new", "ours, CuPy’s arrays, out", "CuPy, new", "PyTorch, new", "PyTorch, out",
        "SciPy (CPU), new", "our kernel alone",
    }  # fmt: skip
    assert drawn["CuPy, new"] == [[2_400, pytest.approx(25)], [7_000_000, pytest.approx(250)]]
    assert drawn["our kernel alone"] == [[2_400, pytest.approx(2)], [7_000_000, pytest.approx(20)]]
