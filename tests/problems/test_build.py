from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from repro.cli import problems as commands
from repro.config.models import Config, OwnProblem, StudySettings
from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems import generators, recipes
from repro.problems.builder import build, find
from repro.problems.matrix import Matrix
from repro.problems.problem import Unavailable
from repro.problems.repositories import write_mesh
from repro.studies.compound_spmv.facts import measure_memory

MTX = "%%MatrixMarket matrix coordinate real general\n4 4 4\n1 1 1\n2 2 2\n3 3 3\n4 1 4\n"
Make = Callable[..., Config]


@pytest.fixture
def registered(tmp_path: Path, make_config: Make) -> Callable[..., Config]:
    """A configuration whose registry holds the given problems, in YAML's flow style."""

    def register(*items: str, **keys: Any) -> Config:
        path = tmp_path / "problems.yaml"
        path.write_text("problems:\n" + "".join(f"  - {item}\n" for item in items))
        return make_config(registry=str(path), **keys)

    return register


@pytest.mark.parametrize("name", ["tiny/helmholtz", "tiny/dirac", "tiny/elasticity", "tiny/poisson"])
def test_a_generated_problem_of_each_entry(make_config: Make, name: str) -> None:
    problem = build(name, make_config())
    assert problem.values.shape == (problem.nnz, len(get_entry(problem.entry).members))
    assert problem.statistics["rows"] == problem.n < 1000
    assert problem.origin["source"] == "generated"
    assert problem.checksum() == build(name, make_config()).checksum()


def test_the_campaigns_seed_reaches_generated_fields(make_config: Make) -> None:
    one, two = (build("tiny/dirac", make_config(seed=seed)) for seed in (1, 2))
    assert two.origin["parameters"]["seed"] == 2
    assert not np.array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.indices, two.indices)


def test_a_problem_of_ones_own(tmp_path: Path, make_config: Make) -> None:
    (tmp_path / "mine.mtx").write_text(MTX)
    own = OwnProblem(path=str(tmp_path / "mine.mtx"), name="my/matrix")
    config = make_config(studies={"compound_spmv": StudySettings(problems=("generated", own))})
    assert find("my/matrix", config) == own
    problem = build("my/matrix", config)
    assert (problem.name, problem.entry, problem.n) == ("my/matrix", "real", 4)
    assert problem.origin["source"] == "own"
    assert build(own, config).checksum() == problem.checksum()


def test_a_size_that_differs_from_the_published_one(tmp_path: Path, registered: Make) -> None:
    (tmp_path / "mine.mtx").write_text(MTX)
    item = f"{{name: toy, source: own, entry: real, path: {tmp_path}/mine.mtx, published: {{rows: %d, nonzeros: %d}}}}"
    assert build("toy", registered(item % (4, 4))).origin["published"] == {"rows": 4, "nonzeros": 4}
    with pytest.raises(
        ReproError, match=r"the size of the matrix differs from the published one[\s\S]*5 rows\n  actual: 4 rows"
    ):
        build("toy", registered(item % (5, 4)))
    with pytest.raises(
        ReproError,
        match=r"the size of the matrix differs from the published one[\s\S]*3 non-zeros\n  actual: 4 non-zeros",
    ):
        build("toy", registered(item % (4, 3)))


def test_a_registered_size_may_be_that_of_a_rectangular_matrix(tmp_path: Path, registered: Make) -> None:
    (tmp_path / "mine.mtx").write_text(MTX.replace("4 4 4", "4 6 4"))
    item = f"{{name: toy, source: own, entry: real, path: {tmp_path}/mine.mtx, published: {{rows: 4, nonzeros: 4%s}}}}"
    for columns, expected in (("", 4), (", columns: 5", 5)):
        with pytest.raises(
            ReproError,
            match=rf"differs from the published one[\s\S]*{expected} columns\n  actual: 6 columns",
        ):
            build("toy", registered(item % columns))
    built = build("toy", registered(item % ", columns: 6"))
    assert built.summary() == {"entry": "real", "n": 4, "columns": 6, "nnz": 4}
    assert built.origin["published"] == {"rows": 4, "nonzeros": 4, "columns": 6}


def test_a_rebuilt_mesh_may_differ_a_little(registered: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipes.MeshRecipe("toy_1", lambda _: recipes.Made(*generators.lattice_box((4, 4, 4)), ("made again",)))
    monkeypatch.setitem(recipes._RECIPES, "toy_1", made)

    def size(rows: int, nonzeros: int) -> Config:
        published = f"{{rows: {rows}, nonzeros: {nonzeros}}}"
        return registered(f"{{name: fem/toy, source: recipe, recipe: toy_1, published: {published}}}")

    problem = build("fem/toy", size(125, 1333))
    assert (problem.n, problem.nnz) == (125, 1333)
    assert problem.origin["rebuilt"] is True
    assert problem.origin["notes"] == ["made again", "longest row 15, ELL factor 1.4", "singular: six rigid motions"]
    build("fem/toy", size(126, 1395))
    with pytest.raises(ReproError, match="127 rows within 1%"):
        build("fem/toy", size(127, 1333))
    with pytest.raises(ReproError, match="1420 non-zeros within 5%"):
        build("fem/toy", size(125, 1420))


def test_a_recipe_of_no_published_mesh_rebuilds_nothing(registered: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipes.MeshRecipe("toy_1", lambda _: recipes.Made(*generators.lattice_box((2, 2, 2)), ()))
    monkeypatch.setitem(recipes._RECIPES, "toy_1", made)
    assert "rebuilt" not in build("fem/toy", registered("{name: fem/toy, source: recipe, recipe: toy_1}")).origin


@pytest.mark.wording
def test_a_kind_with_another_entry(registered: Make) -> None:
    with pytest.raises(ReproError, match=r"a different entry[\s\S]*expected: entry: real"):
        build("toy", registered("{name: toy, source: generated, entry: block3, kind: poisson}"))


@pytest.fixture(scope="module")
def real_problems() -> dict[str, Matrix]:
    """Problems of real inputs by name, those that several tests look at: each is built once."""
    return {}


def build_once(name: str, config: Config, built: dict[str, Matrix]) -> Matrix:
    """Build a problem, and keep it where another test looks at it."""
    problem = built.get(name) or build(name, config)
    if name in TABLE_9:
        built[name] = problem
    return problem


@pytest.mark.slow
@pytest.mark.mirror
@pytest.mark.parametrize(
    ("name", "entry", "rows", "nonzeros"),
    [
        ("mhd1280b", "complex", 1280, 22778),
        ("qc324", "complex", 324, 26730),
        ("surfaces/bunny", "quaternion", 34834, 243410),
        ("dragon_dithered", "quaternion", 435545, 3049463),
        ("dragon_res3", "quaternion", 22982, 162000),
        ("bunny_subdivided", "quaternion", 556051, 3890591),
        ("armadillo_4k", "block3", 1180, 13074),
        ("bunny_closed", "block3", 13897, 163583),
        ("armadillo_13k", "block3", 13230, 166954),
        ("bcsstk16", "block3", 1628, 32890),
        ("bayer10", "real", 13436, 71594),
        ("rajat01", "real", 6833, 43250),
    ],
)
def test_real_problems(
    make_config: Make, real_problems: dict[str, Matrix], name: str, entry: str, rows: int, nonzeros: int
) -> None:
    problem = build_once(name, make_config(), real_problems)
    assert (problem.entry, problem.n, problem.nnz) == (entry, rows, nonzeros)
    assert problem.origin["checksum"]["state"] == "pinned"
    assert problem.origin["address"].startswith("mirror: ")
    notes = " ".join(problem.origin["notes"])
    assert ("duplicate faces" in notes) == (name == "dragon_res3")
    assert ("explicit zeros" in notes) == (name == "bayer10")
    assert ("each triangle cut into 16" in notes) == (name == "bunny_subdivided")
    stand_ins = {"dragon_dithered": "surfaces/dragon", "bunny_subdivided": "surfaces/buddha"}
    assert problem.origin.get("stand_in") == stand_ins.get(name)


# Table 9 of the 2020 paper: bytes as CSR, then ELL, Sl-16, Sl-32 and cuSPARSE as multiples
TABLE_9 = {
    "mhd1280b": (449.9 * 2**10, 1.8, 1.5, 1.7, 1.0),
    "surfaces/bunny": (8.5 * 2**20, 1.7, 1.1, 1.2, 3.6),
    "dragon_dithered": (106.4 * 2**20, 2.3, 1.3, 1.4, 3.6),
}


@pytest.mark.mirror
@pytest.mark.parametrize("name", ["mhd1280b", "surfaces/bunny", "dragon_dithered"])
def test_memory_is_the_published_one(make_config: Make, real_problems: dict[str, Matrix], name: str) -> None:
    held = measure_memory(build_once(name, make_config(), real_problems))["double"]
    size, *multiples = TABLE_9[name]
    unit = 2**20 if size > 2**20 else 2**10
    assert round(held["CSR"] / unit, 1) == pytest.approx(size / unit)
    assert [round(held[each] / held["CSR"], 1) for each in ("ELL", "Sl-16", "Sl-32", "cuSPARSE")] == multiples


# The commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a command on a registry with one problem that is there, one that cannot be had, and one that is computed."""
    monkeypatch.delenv("REPRO_MIRROR", raising=False)
    (tmp_path / "cache/suitesparse/G").mkdir(parents=True)
    (tmp_path / "cache/suitesparse/G/toy.mtx").write_text(MTX)
    (tmp_path / "problems.yaml").write_text(
        "problems:\n"
        "  - {name: toy, source: suitesparse, entry: real, group: G, matrix: toy, sets: [all]}\n"
        "  - {name: lost/surface, source: stanford, model: lost, urls: ['http://127.0.0.1:9/lost.ply'], sets: [all]}\n"
        "  - {name: box, source: generated, entry: real, kind: poisson, parameters: {points: [4, 5, 6]}, sets: [all]}\n"
    )
    (tmp_path / "config.yaml").write_text(
        f"registry: {tmp_path}/problems.yaml\n"
        f"fetch: {{cache: {tmp_path}/cache, retries: 0, timeout: 2}}\n"
        "studies: {compound_spmv: {problems: [toy]}}\n"
    )
    monkeypatch.chdir(Path(__file__).parents[2])
    app = typer.Typer()
    app.command()(commands.fetch)
    app.command()(commands.problem)

    def invoke(*arguments: str) -> Any:
        return CliRunner().invoke(app, [*arguments, "--config", str(tmp_path / "config.yaml")])

    return invoke


def test_problem_writes_one_file_that_loads(run: Callable[..., Any], tmp_path: Path) -> None:
    result = run("problem", "toy", "--output", str(tmp_path / "out/toy.npz"))
    assert result.exit_code == 0, result.exception
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["toy.npz"]
    problem = Matrix.load(tmp_path / "out/toy.npz")
    assert (problem.name, problem.n, problem.nnz) == ("toy", 4, 4)
    assert problem.origin["address"] == "put by hand: suitesparse/G/toy.mtx"


def test_what_was_odd_about_an_input_is_said(run: Callable[..., Any], tmp_path: Path) -> None:
    matrix = tmp_path / "cache/suitesparse/G/toy.mtx"
    matrix.write_text("%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1\n1 1 1\n2 2 1\n")
    result = run("problem", "toy", "--output", str(tmp_path / "toy.npz"))
    assert result.exit_code == 0, result.exception
    assert result.stderr == "note: 1 duplicate entries added up\n"


def test_problem_records_all_but_the_matrix(run: Callable[..., Any], tmp_path: Path) -> None:
    record = tmp_path / "raw/toy.json"
    assert run("problem", "toy", "--record", str(record)).exit_code == 0
    written = json.loads(record.read_text())
    assert (written["name"], written["status"], written["n"], written["nnz"]) == ("toy", "ok", 4, 4)
    assert (written["kind"], written["entry"]) == ("matrix", "real")
    assert "columns" not in written
    assert written["origin"]["checksum"]["state"] == "unpinned"
    assert written["statistics"]["ell_factor"] == 1
    assert written["facts"]["compound_spmv"]["memory"]["double"]["CSR"] == 4 * (4 + 8) + 5 * 4


def test_info_prints_what_a_problem_is_and_builds_it_if_need_be(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    first = run("problem", "toy", "--info")
    for word in ("real", "ell factor", "bandwidth percent", "unpinned", "suitesparse/G/toy.mtx", "explicit_zeros 0"):
        assert word in first.output
    monkeypatch.setattr(commands, "build_problem", None)  # not built again
    again = run("problem", "toy", "--info")
    assert again.exit_code == 0
    assert again.output == first.output


def test_info_is_of_the_configuration_and_the_file_as_they_are_now(run: Callable[..., Any], tmp_path: Path) -> None:
    mesh, config = tmp_path / "beam.meshb", tmp_path / "config.yaml"
    write_mesh(mesh, *generators.lattice_box((2, 2, 2)))
    campaign = config.read_text()

    def shown(fixed: str) -> str:
        config.write_text(campaign.replace("[toy]", f"[{{path: {mesh}, entry: block3{fixed}}}]"))
        said = run("problem", "beam", "--info")
        return str(said.output or said.exception)

    assert "9 of 27 vertices fixed" in shown(", fixed: {x: min}")
    assert "vertices fixed" not in shown("")
    mesh.write_bytes(mesh.read_bytes()[:-100])
    assert "truncated" in shown("")


@pytest.mark.parametrize("size", ["0 0 0", "3 0 0", "2 5 0"])
def test_an_empty_matrix_of_ones_own(run: Callable[..., Any], tmp_path: Path, size: str) -> None:
    rows, columns, _ = map(int, size.split())
    (tmp_path / "mine.mtx").write_text(f"%%MatrixMarket matrix coordinate real general\n{size}\n")
    with (tmp_path / "problems.yaml").open("a") as registry:
        registry.write(f"  - {{name: mine, source: own, entry: real, path: {tmp_path}/mine.mtx}}\n")
    record = tmp_path / "mine.json"
    result = run("problem", "mine", "--record", str(record), "--output", str(tmp_path / "mine.npz"))
    assert result.exit_code == 0, result.exception
    written = json.loads(record.read_text())
    assert (written["n"], written["nnz"], written["statistics"]["rows"]) == (rows, 0, rows)
    assert written.get("columns", rows) == columns
    assert Matrix.load(tmp_path / "mine.npz").shape == (rows, columns)


def test_a_problem_that_cannot_be_had_fails_and_writes_nothing(run: Callable[..., Any], tmp_path: Path) -> None:
    result = run("problem", "lost/surface", "--output", str(tmp_path / "lost.npz"))
    assert isinstance(result.exception, ReproError)
    assert not (tmp_path / "lost.npz").exists()


def test_a_problem_that_cannot_be_had_is_recorded_when_asked(run: Callable[..., Any], tmp_path: Path) -> None:
    path, record = tmp_path / "lost.npz", tmp_path / "raw/lost/surface.json"
    result = run("problem", "lost/surface", "--record-unavailable", "--output", str(path), "--record", str(record))
    assert result.exit_code == 0
    written = json.loads(record.read_text())
    assert (written["status"], written["kind"], written["entry"]) == ("unavailable", "matrix", "quaternion")
    assert "stanford/lost" in written["reason"]
    assert "warning: lost/surface is unavailable" in result.stderr
    with pytest.raises(Unavailable, match="stanford/lost"):
        Matrix.load(path)


def test_the_mesh_of_a_problem_is_written_for_a_mirror(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recipes.MeshRecipe("toy_1", lambda _: recipes.Made(*generators.lattice_box((4, 4, 4)), ("made again",)))
    monkeypatch.setitem(recipes._RECIPES, "toy_1", made)
    with (tmp_path / "problems.yaml").open("a") as registry:
        registry.write("  - {name: fem/toy, source: recipe, entry: block3, recipe: toy_1}\n")
    path = tmp_path / "mirror/recipe/toy_1.meshb.xz"
    result = run("problem", "fem/toy", "--mesh", str(path))
    assert result.exit_code == 0, result.exception
    assert "125 vertices, 384 cells from recipe: toy_1" in result.stdout
    assert "note: made again" in result.stderr
    monkeypatch.setenv("REPRO_MIRROR", str(tmp_path / "mirror"))
    assert "mirror: recipe/toy_1.meshb.xz" in run("problem", "fem/toy", "--info").stdout


def test_a_problem_without_a_mesh(run: Callable[..., Any], tmp_path: Path) -> None:
    result = run("problem", "box", "--mesh", str(tmp_path / "box.meshb"))
    assert isinstance(result.exception, ReproError)
    assert result.exception.what == "the problem has no mesh"
    both = run("problem", "box", "--mesh", str(tmp_path / "box.meshb"), "--info")
    assert "writes only the mesh" in str(both.exception)
    assert not (tmp_path / "box.meshb").exists()


def test_an_unknown_problem_is_an_error_even_when_recording(run: Callable[..., Any], tmp_path: Path) -> None:
    result = run("problem", "toi", "--record-unavailable", "--output", str(tmp_path / "toi.npz"))
    assert isinstance(result.exception, ReproError)
    assert "did you mean toy?" in str(result.exception.actual)
    assert not (tmp_path / "toi.npz").exists()


def test_a_place_that_cannot_be_written(run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = run("problem", "box", "--output", str(tmp_path / "file/box.npz"))
    assert isinstance(result.exception, ReproError)
    assert result.exception.what == "cannot write the problem"


def test_fetch_does_what_it_can_and_then_fails(run: Callable[..., Any]) -> None:
    result = run("fetch", "all")
    assert "toy: put by hand: suitesparse/G/toy.mtx (unpinned)" in result.stdout
    assert "box: generated, nothing to fetch" in result.stdout
    assert "http://127.0.0.1:9/lost.ply: no connection" in result.stderr
    assert isinstance(result.exception, ReproError)
    assert (result.exception.what, result.exception.actual) == ("1 of 3 could not be fetched", "lost/surface")
    assert run("fetch", "--all").stdout == result.stdout
    assert run("fetch", "toy", "box").exit_code == 0


@pytest.mark.parametrize("arguments", [(), ("toy", "--all")])
def test_fetch_wants_names_or_all(run: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    result = run("fetch", *arguments)
    assert isinstance(result.exception, ReproError)


@pytest.mark.parametrize("command", ["fetch", "problem"])
def test_help_has_examples(run: Callable[..., Any], command: str) -> None:
    assert f"repro {command} " in run(command, "--help").output
