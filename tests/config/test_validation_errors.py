"""Errors of wrong keys and values in a configuration state the place, the allowed values and the nearest one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from repro.campaign.configuration import load, resolve
from repro.campaign.plan import make_plan
from repro.config import add_place_to_errors
from repro.config.models import Config, Fetch
from repro.errors import ReproError
from repro.problems.fetch import check_mirrors, mirrors
from repro.words import nearest, nearest_file

WRONG = """\
campaign: my campaign/2
device: gpu
studies:
  compound_spmv:
    problem: tiny
    precisions: [single, float64]
    timing: {launche: 5}
    problems:
      - {path: a.mtx, entri: real}
      - path: b.mtx
        entry: quaternoin
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(*texts: str) -> str:
    paths = [Path(f"{name}.yaml") for name, _ in zip("abc", texts, strict=False)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    with pytest.raises(ReproError) as failed:
        load(*paths)
    return failed.value.message


@pytest.mark.parametrize(
    ("place", "key", "near"),
    [
        ("1:1", "campaign", "my-campaign-2"),
        ("2:1", "device", "cuda"),
        ("5:5", "studies.compound_spmv.problem", "problems"),
        ("6:26", "studies.compound_spmv.precisions.1", "double"),
        ("7:14", "studies.compound_spmv.timing.launche", "launches"),
        ("9:23", "studies.compound_spmv.problems.0.entri", "entry"),
        ("11:9", "studies.compound_spmv.problems.1.entry", "quaternion"),
    ],
)
def test_each_mistake_of_a_file_has_line_column_and_the_nearest(place: str, key: str, near: str) -> None:
    lines = [line for line in refused(WRONG).splitlines() if f" {key}: " in line]
    assert len(lines) == 1
    assert f"a.yaml:{place}: {key}: " in lines[0]
    assert f"; did you mean {near}?" in lines[0]
    assert f"; did you mean {near}? (expected " in lines[0]  # before the whole list


@pytest.mark.parametrize(
    ("word", "near"), [("foo", None), ("flooor", "floor"), ("flo", None), ("table-99", None), ("tabel-9", "table-9")]
)
def test_neither_a_short_word_nor_another_number_is_taken_for_a_misspelt_one(word: str, near: str | None) -> None:
    assert nearest(word, ["floor", "table-8", "table-9"]) == near


def test_an_unknown_key_has_those_that_can_stand_in_its_place() -> None:
    (line,) = (line for line in refused(WRONG).splitlines() if "entri" in line)
    assert all(f" {key}," in line for key in ("path", "entry", "name")) and "seed" not in line


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (", entry: quaternion", "`entry: quaternion` is for surfaces and has no `fixed`: write `entry: block3`"),
        ("", "`fixed` is of tetrahedral meshes: add `entry: block3`"),
    ],
)
def test_a_mapping_is_not_told_that_it_is_no_text(entry: str, message: str) -> None:
    said = refused(f"studies: {{compound_spmv: {{problems: [{{path: a.mesh{entry}, fixed: {{x: min}}}}]}}}}\n")
    assert f": studies.compound_spmv.problems.0\n  actual: {message}\n" in said


def test_of_several_files_the_one_that_wrote_a_value_last_is_named() -> None:
    both = "studies: {compound_spmv: {}}\nseed: %s\n"
    assert "where: b.yaml:2:1: seed\n" in refused(both % "1", both % "x", "batch: 2\n")
    assert "where: a.yaml:2:1: seed\n" in refused(both % "x", "batch: 2\n")


def test_keys_that_a_mapping_merges_stand_where_they_are_written() -> None:
    text = "studies:\n  compound_spmv: &a\n    cach1: warm\n  compressed_coo:\n    <<: *a\n"
    assert "a.yaml:3:5: studies.compressed_coo.cach1: unknown key" in refused(text)


def test_a_misspelt_study_is_told_with_the_nearest() -> None:
    said = refused("studies:\n  compound_spmv: {}\n  dynamic_crs: {}\n")
    assert "where: a.yaml:3:3: studies\n" in said and "did you mean dynamic_csr?" in said


def test_what_planning_refuses_has_line_and_column_as_well() -> None:
    path = Path("a.yaml")
    path.write_text("campaign: x\nstudies:\n  compound_spmv:\n    problems: [no-such]\n")
    with pytest.raises(ReproError) as failed, add_place_to_errors([path]):
        make_plan(load(path))
    assert failed.value.what == "unknown problem"
    assert failed.value.where == "a.yaml:4:16: studies.compound_spmv.problems.0"
    with pytest.raises(ReproError, match="damaged") as other, add_place_to_errors([path]):
        raise ReproError("damaged", where="elsewhere.mtx")
    assert other.value.where == "elsewhere.mtx"


def test_a_list_is_called_a_list() -> None:
    said = refused("studies: {compound_spmv: {precisions: double}}\n")
    assert "precisions\n  expected: a list: write `[double]`\n  actual: 'double'\n" in said


def test_slips_with_files_and_rivals_say_what_to_write() -> None:
    said = refused(
        "studies: {compound_spmv: {problems: {path: mine.mtx}}}\nrivals: [{name: my lib, python: mine.py, kernel: a b}]"
    )
    assert "problems: {path: mine.mtx} (expected text or a list: write `- path: mine.mtx`)" in said
    assert "rivals.0.name: 'my lib' (expected a letter or digit, then also . _ and -, at most 64 characters)" in said
    assert "rivals.0.python: 'mine.py' (expected file.py:object or module:object, " in said
    assert "rivals.0.kernel: 'a b' (expected the name of a kernel" in said
    assert "pattern" not in said


@pytest.mark.parametrize(
    ("problems", "where", "words"),
    [
        ("[helmholtz_box, matrices/mine.mtx]", "a.yaml:3:31: studies.compound_spmv.problems.1", "`- path: matrices/"),
        ("[{path: no.mtx}]", "a.yaml:3:16: studies.compound_spmv.problems.0: no.mtx", "no such file"),
        (
            "[{path: m/prat.msh}]",
            "a.yaml:3:16: studies.compound_spmv.problems.0: m/prat.msh",
            "did you mean m/part.msh?",
        ),
        ("[zzzzzzzz]", "a.yaml:3:16: studies.compound_spmv.problems.0", "problems and sets, such as mhd1280b, "),
    ],
)
def test_a_file_has_a_key_and_a_wrong_problem_its_place(problems: str, where: str, words: str) -> None:
    Path("m").mkdir()
    Path("m/part.msh").touch()
    path = Path("a.yaml")
    path.write_text(f"studies:\n  compound_spmv:\n    problems: {problems}\n")
    with pytest.raises(ReproError) as failed, add_place_to_errors([path]):
        make_plan(load(path))
    assert failed.value.where == where
    assert words in failed.value.message
    assert len(failed.value.message) < 600


@pytest.mark.parametrize(
    ("key", "content"),
    [
        ("studies.compound_spmv.problems.0: m/a.mtx", "studies: {compound_spmv: {problems: [{path: m/a.mtx}]}}"),
        ("rivals: r: source", "rivals: [{name: r, source: m/a.mtx}]\nstudies: {compound_spmv: {}}"),
        ("rivals: r: python", "rivals: [{name: r, python: m/a.py:A}]\nstudies: {compound_spmv: {}}"),
    ],
)
def test_a_missing_input_names_both_places_that_were_tried(key: str, content: str, tmp_path: Path) -> None:
    path = Path("sub/a.yaml")
    path.parent.mkdir()
    path.write_text(f"device: opencl\n{content}\n")
    for source in (path, path.absolute()):
        with pytest.raises(ReproError) as failed, add_place_to_errors([source]):
            make_plan(load(source))
        assert failed.value.what.startswith("no such file")
        assert re.fullmatch(rf"{source}:2:\d+: {key}", str(failed.value.where))
        places = re.fullmatch(r"there is no (\S+) and no (\S+)", str(failed.value.actual))
        assert places is not None
        assert {Path(place).parent for place in places.groups()} == {tmp_path / "sub/m", tmp_path / "m"}


def test_a_configuration_that_is_of_no_file_has_no_line() -> None:
    with pytest.raises(ReproError, match=r"where: the merged campaign: seed\n"):
        resolve({"seed": "x", "studies": {"compound_spmv": {}}}, "the merged campaign")


def test_nothing_is_offered_for_a_word_that_resembles_nothing() -> None:
    assert nearest("zzzz", Config.model_fields) is None
    assert nearest("GPU", ("auto", "cuda")) == "cuda"


def test_a_mirror_that_an_environment_variable_has_to_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = Fetch(mirrors=("$HERE", "/elsewhere"))
    monkeypatch.delenv("REPRO_MIRROR", raising=False)
    monkeypatch.delenv("HERE", raising=False)
    with pytest.raises(ReproError, match=r"HERE is not set(.|\n)*is not set\n.*export HERE="):
        check_mirrors(settings)
    assert mirrors(settings) == ["/elsewhere"]
    monkeypatch.setenv("HERE", str(tmp_path / "nothing"))
    with pytest.raises(ReproError, match=r"actual: .*nothing"):
        check_mirrors(settings)
    for place in (str(tmp_path), "https://example.org"):
        monkeypatch.setenv("HERE", place)
        check_mirrors(settings)
        assert mirrors(settings) == [place, "/elsewhere"]


def test_for_a_missing_file_no_folder_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    assert nearest_file(tmp_path / "profile.yaml") is None
    (tmp_path / "profiled.yaml").touch()
    assert str(nearest_file(tmp_path / "profile.yaml")).endswith(
        "did you mean " + str(tmp_path / "profiled.yaml") + "?"
    )


def test_a_missing_file_has_the_ending_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "profile.txt").touch()
    assert nearest_file(tmp_path / "profil.yaml") is None


def test_the_name_of_a_recorded_configuration_is_told_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config").mkdir()
    Path("config", "demo.yaml").touch()
    assert nearest_file(Path("demo")) == "demo; did you mean config/demo.yaml?"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "timing: {rounds: 3}\nstudies:\n  compound_spmv: {}\n",
            "a.yaml:1:1: timing: unknown key, {rounds: 3} (expected `timing` under studies.compound_spmv (a.yaml:3:3))",
        ),
        (
            "studies:\n  spgemm_amg: {}\n  compound_spmv:\n    rounds: 3\n    timing: {tie: 0.1}\n",
            "a.yaml:4:5: studies.compound_spmv.rounds: unknown key, 3 "
            "(expected `rounds` under studies.compound_spmv.timing (a.yaml:5:5))",
        ),
        (
            "space: paper\nstudies:\n  spgemm_amg: {}\n  dynamic_csr: {}\n",
            "(expected `space` under studies.spgemm_amg (a.yaml:3:3) or under studies.dynamic_csr (a.yaml:4:3)",
        ),
        (
            "studies:\n  spgemm_amg: {device: cuda}\n",
            "unknown key, 'cuda' (expected `device` at the top level or under repeats)",
        ),
        ("space: paper\n", "a.yaml:1:1: space: unknown key, 'paper' (expected `space` under studies.<name>)"),
    ],
)
def test_a_key_in_a_wrong_place_is_told_where_it_belongs(text: str, said: str) -> None:
    Path("a.yaml").write_text(text)
    with pytest.raises(ReproError) as failed:
        load(Path("a.yaml"))
    error = failed.value
    assert said in f"{error.where}: {error.actual} (expected {error.expected})"
