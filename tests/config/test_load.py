"""Reading, merging and resolving configurations; every mistake is one message that names the key."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from pydantic import Field

from repro.campaign import configuration
from repro.campaign.configuration import load, resolve
from repro.campaign.plan import as_yaml, make_plan
from repro.config import MAX_BYTES, merge, models, read_yaml
from repro.config.models import OwnProblem, StudySettings
from repro.errors import ReproError
from repro.problems.registry import load_registry, problem_names
from repro.studies import get_study, study_names
from repro.words import MAX_NAME_LENGTH, MAX_PART_LENGTH

pytestmark = pytest.mark.medium

REPOSITORY = Path(__file__).parents[2]
CONFIGURATIONS = {path.name for path in (REPOSITORY / "config").glob("*.yaml")} - {"problems.yaml"}


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)


class Damped(StudySettings):
    damping: float = Field(0.5, gt=0)


def test_a_study_has_settings_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get_study("compound_spmv"), "settings", Damped)
    config = resolve({"studies": {"compound_spmv": {"damping": 2}, "compressed_coo": {}}})
    assert yaml.safe_load(as_yaml(config))["studies"]["compound_spmv"]["damping"] == 2
    both = r"compound_spmv.damping: 0 .expected more than 0.*\n.*compressed_coo.damping: unknown"
    with pytest.raises(ReproError, match=both):
        resolve({"studies": {"compound_spmv": {"damping": 0}, "compressed_coo": {"damping": 2}}})


def test_later_files_lie_over_earlier_ones_key_by_key(tmp_path: Path) -> None:
    over = tmp_path / "over.yaml"
    over.write_text("studies: {compound_spmv: {precisions: [single], timing: {rounds: 9}}}\n")
    config = load(Path("config/config.yaml"), over)
    study, before = (made.studies["compound_spmv"] for made in (config, load(Path("config/config.yaml"))))
    assert study.precisions == ("single",) != before.precisions
    assert study.timing.rounds == 9 != before.timing.rounds
    assert study.problems == before.problems
    assert config.campaign == "default"


def test_merging_changes_neither_of_both() -> None:
    base, over = {"a": {"b": 1}, "c": 2}, {"a": {"d": 3}, "c": {"e": 4}}
    assert merge(base, over) == {"a": {"b": 1, "d": 3}, "c": {"e": 4}}
    assert base == {"a": {"b": 1}, "c": 2}


@pytest.mark.parametrize("name", sorted(CONFIGURATIONS))
def test_every_configuration_in_the_repository_stands_alone(name: str) -> None:
    config = load(Path("config", name))
    assert resolve(config.model_dump(mode="json")) == config
    said = yaml.safe_load(Path("config", name).read_text())
    assert set(config.studies) == {study for study, settings in said["studies"].items() if settings is not False}


def test_a_second_gpus_campaign_is_of_problems_and_by_protocols_of_the_recorded_one() -> None:
    """Else there would be nothing beside a number of it, or one that was found by another search."""
    second, recorded = (load(Path("config", f"{name}.yaml")) for name in ("second", "h200"))
    assert second.beside == (recorded.campaign,)
    registry = load_registry(Path(second.registry))
    for study, settings in second.studies.items():
        there = recorded.studies[study]
        assert settings.model_copy(update={"problems": there.problems}) == there, study
        assert {*problem_names(registry, settings.problems)} <= {*problem_names(registry, there.problems)}, study
    # its larger problems are those that are not read from a cache
    assert second.studies["compound_spmv"].problems == recorded.studies["compound_spmv"].problems


def test_the_record_of_a_second_gpu_is_of_what_it_is_measured_by() -> None:
    second, record = (load(Path("config", f"{name}.yaml")) for name in ("second", "h100"))
    assert record.replay and record.beside == second.beside
    assert record.studies == second.studies


def test_a_key_that_no_file_names_has_its_default_and_a_study_that_none_names_is_not_run(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("studies: {compressed_coo: {}}\n")
    config = load(mine)
    assert list(config.studies) == ["compressed_coo"]
    default = load(Path("config/config.yaml"))
    assert default.batch > config.batch == 1  # a number that jobs alone depend on
    assert config.model_dump(exclude={"studies", "batch"}) == default.model_dump(exclude={"studies", "batch"})


@pytest.mark.wording
@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "campaign: mine\n", "studies: {compound_spmv: false}\n"])
def test_a_configuration_that_names_no_study_is_one_message(text: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(text)
    with pytest.raises(ReproError, match=r"names no study to run\n  where: .*mine.yaml: studies\n.*compound_spmv"):
        load(mine)


@pytest.mark.wording
def test_settings_of_a_study_at_the_top_level_are_an_unknown_key() -> None:
    with pytest.raises(ReproError, match=r"compound_spmv\n.*\n  actual: unknown key"):
        resolve({"compound_spmv": True})


def test_a_study_can_be_left_out() -> None:
    config = resolve({"studies": {"compound_spmv": False, "compressed_coo": {}}})
    assert list(config.studies) == ["compressed_coo"]


def test_an_own_problem_is_read() -> None:
    problems = [{"path": "part.msh", "entry": "block3"}, "generated"]
    config = resolve({"studies": {"compound_spmv": {"problems": problems}}})
    assert config.studies["compound_spmv"].problems == (OwnProblem(path="part.msh", entry="block3"), "generated")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"bogus": 1}, "bogus: unknown key, 1 .expected one of the keys campaign, "),
        ({"fetch": {"timeouts": 1}}, "fetch.timeouts: unknown key"),
        ({"device": "gpu"}, "device: .*'gpu'"),
        ({"campaign": ".."}, "campaign: "),
        ({"campaign": "a/b"}, "campaign: "),
        ({"campaign": "a" * (MAX_PART_LENGTH + 1)}, f"campaign: .*{MAX_PART_LENGTH} characters"),
        ({"campaign": "a\n"}, "campaign: "),
        ({"seed": "x"}, "seed: "),
        ({"seed": -1}, "seed: -1 .expected at least 0"),
        ({"seed": 1 << 63}, "seed: "),
        ({"registry": ""}, "registry: "),
        ({"registry": "a\0b"}, "registry: "),
        ({"kernels": "a{b}"}, "kernels: .*braces"),
        ({"fetch": {"timeout": float("inf")}}, "fetch.timeout: .*finite"),
        ({"studies": {}}, "names no study(.|\n)*studies"),
        ({"studies": None}, "names no study(.|\n)*studies"),
        ({"studies": True}, "studies: .*mapping"),
        ({"studies": {None: {}}}, "unknown study"),
        ({"studies": {"../../config/studies/compound_spmv": {}}}, "unknown study"),
        ({"studies": {"x" * 5000: {}}}, "unknown study"),
        ({"studies": {"compound_smpv": {}}}, "unknown study(.|\n)*compound_spmv(.|\n)*compound_smpv"),
        *(
            ({"studies": {"compound_spmv": over}}, "invalid configuration(.|\n)*a mapping")
            for over in (True, [], "all", 0)
        ),
        ({"studies": {"compound_spmv": {"precision": "single"}}}, "precision: unknown key"),
        ({"studies": {"compound_spmv": {"precisions": ["half"]}}}, "precisions.0: .*'half'"),
        ({"studies": {"compound_spmv": {"precisions": []}}}, "precisions: "),
        ({"studies": {"compound_spmv": {"problems": []}}}, "empty study"),
        ({"studies": {"compound_spmv": {"problems": None}}}, "empty study"),
        ({"studies": {"compound_spmv": {"problems": [{"path": "a.mtx", "sort": "x"}]}}}, "sort: unknown key"),
        (
            {"studies": {"compound_spmv": {"problems": [{"path": "a.mtx", "kind": "x"}]}}},
            "kind: 'x' .expected field",
        ),
        ({"studies": {"compound_spmv": {"problems": [3]}}}, "studies.compound_spmv.problems.0: 3; in quotes, '3', it"),
        (
            {"studies": {"compound_spmv": {"problems": [{"path": 3}]}}},
            r"studies.compound_spmv.problems.0.path: ",
        ),
        ({"studies": {"compound_spmv": {"problems": [{"path": "~nobody_/x"}]}}}, "problems.0.path: .*home"),
        ({"studies": {"compound_spmv": {"precisions": ["double"] * 2}}}, "precisions: named twice: double"),
        ({"studies": {"compound_spmv": {"baselines": ["a", "b", "a"]}}}, "baselines: named twice: a"),
        ({"rivals": [{"name": "a", "python": "m:o", "of": "spmv"}] * 2}, "rivals: named twice: a"),
        ({"studies": {"compound_spmv": {"layouts": "some"}}}, "studies.compound_spmv.layouts: 'some'"),
        ({"studies": {"compound_spmv": {"timing": {"rounds": 1}}}}, "timing.rounds: "),
    ],
)
def test_a_mistake_is_one_message_that_names_the_key(data: dict[str, object], message: str) -> None:
    whole = {"studies": {"compound_spmv": {}}, **data}
    with pytest.raises(ReproError) as failed:
        resolve(whole, "my.yaml")
    error = failed.value
    assert re.search(message, f"{error.where}: {error.actual} (expected {error.expected})\n{error.message}")
    assert "my.yaml" in str(error.where)
    assert error.todo


def test_a_study_without_a_file_of_defaults_has_those_of_its_model_and_runs_only_where_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(configuration, "STUDIES", "config/nothing")
    studies = resolve({"studies": {"compound_spmv": {"precisions": ["double"]}}}).studies
    assert [*studies] == ["compound_spmv"]
    assert studies["compound_spmv"].problems == StudySettings.model_fields["problems"].default
    assert studies["compound_spmv"].precisions == ("double",)


def test_an_empty_default_file_of_a_study_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config/studies").mkdir(parents=True)
    (tmp_path / "config/studies/compound_spmv.yaml").write_text("# nothing\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ReproError, match=r"empty study\n.*compound_spmv.yaml"):
        resolve({"studies": {"compound_spmv": {}}})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"campaign: [a\nstudies: {}\n", "unreadable YAML(.|\n)*line 2"),
        (b"\xff\xfe\x00", "unreadable YAML"),
        (b"- a\n- b\n", "invalid configuration(.|\n)*a mapping"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_bytes(content)
    with pytest.raises(ReproError, match=message) as failed:
        load(path)
    assert "broken.yaml" in failed.value.message


def test_a_long_value_is_named_in_a_message_that_can_be_read() -> None:
    with pytest.raises(ReproError) as failed:
        resolve({"studies": {"compound_spmv": {"problems": [*range(1000)], "layouts": "x" * 10_000}}})
    assert len(failed.value.message) < 5000
    assert "in 1001 places" in failed.value.message


def test_the_names_of_a_batch_fit_into_one_argument() -> None:
    most = 500
    assert resolve({"studies": {"compound_spmv": {}}, "batch": most}).batch == most
    assert most * (MAX_NAME_LENGTH + 1) < (128 << 10) - 2048  # bytes that Linux takes, beside the rest of the command
    with pytest.raises(ReproError, match=r"batch(.|\n)*at most 500"):
        resolve({"studies": {"compound_spmv": {}}, "batch": most + 1})


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BOMB, "aliases stand for more than 100,000 values"),
        ("a: &a {b: *a}\n", "alias .a stands in what it stands for"),
        ("a: " + "[" * 3000 + "]" * 3000, "nested more than 50 deep"),
        ("".join(f"{' ' * depth}a:\n" for depth in range(1000)), "nested more than 50 deep"),
        ("seed: " + "1" * 5000, "integer of more than 63 bits"),
        ("seed: 0x" + "f" * 5000, "not in plain decimal digits"),
        ("seed: 9223372036854775808", "integer of more than 63 bits"),
        ("studies:\n\tcompound_spmv: {}\n", "a tab, and YAML indents by spaces"),
        ("a: !!bool yes", "a tag, .*the tag !!bool"),
        ("a: !!python/name:os.system x", "a tag, .*the tag !!python/name:os.system"),
        ("seed: 1\nstudies: {}\nseed: 2\n", "the key 'seed' is there twice, in lines 1 and 3"),
        ("studies:\n  compound_spmv:\n    cache: warm\n    cache: cold\n", "'cache' is there twice, in lines 3 and 4"),
        ("a: &a {x: 1}\nb:\n  <<: *a\n  y: 1\n  y: 2\n", "'y' is there twice, in lines 4 and 5"),
    ],
)
def test_yaml_that_no_configuration_can_mean_is_one_message(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    with pytest.raises(ReproError, match=rf"unreadable YAML\n  where: .*mine.yaml.*\n  actual: .*{message}"):
        load(path)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("campaign: a\nstudies\n  compound_spmv: {}\n", 2),
        ("campaign a\ndevice: cuda\n", 1),
        ("studies:\n  compound_spmv:\n    space extended\n    cache: warm\n", 3),
        ("campaign: a\nb: c: d\n", 2),
    ],
)
def test_a_missing_colon_is_reported_where_it_is_missing(content: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    with pytest.raises(ReproError, match=rf"unreadable YAML\n  where: \S+mine.yaml, line {line}, column"):
        load(path)


def test_a_mapping_can_merge_another_and_lay_its_own_keys_over(tmp_path: Path) -> None:
    path = tmp_path / "merged.yaml"
    path.write_text("a: &a {x: 1, y: 1}\nb: {<<: *a, x: 2}\nc: [{<<: *a}, {<<: *a, z: 3}]\n")
    assert read_yaml(path)["b"] == {"x": 2, "y": 1}
    assert read_yaml(path)["c"] == [{"x": 1, "y": 1}, {"x": 1, "y": 1, "z": 3}]


@pytest.mark.wording
def test_text_in_another_encoding_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("campaign: a\n# für mich\n".encode("latin-1"))
    with pytest.raises(ReproError, match=r"UTF-8\n  actual: byte 0xfc in line 2"):
        load(path)


def test_utf_8_is_read_whatever_the_locale_says_and_with_a_mark_of_its_order(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes("\ufeffcampaign: é\n".encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("locale.getpreferredencoding", lambda *_: "ascii")
        assert read_yaml(path) == {"campaign": "é"}


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("folder", "expected: a regular file\n  actual: a folder"),
        ("pipe", "expected: a regular file\n  actual: a pipe or a device"),
        ("device", "expected: a regular file\n  actual: a pipe or a device"),
        ("file as folder", "no such configuration file"),
        ("long", "cannot be read(.|\n)*too long"),
        ("loop", "(?i)no such configuration file|too many levels"),
        ("large", f"the configuration file is too large(.|\n)*{MAX_BYTES:,}"),
    ],
)
def test_what_is_no_file_to_read_is_one_message(kind: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "file as folder":
        path.write_text("a: 1\n")
        path = path / "mine.yaml"
    elif kind == "long":
        path = tmp_path / ("a" * 300)
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ReproError, match=message):
        load(path)


@pytest.mark.wording
def test_the_defaults_of_a_study_that_are_no_mapping_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config/studies").mkdir(parents=True)
    (tmp_path / "config/studies/compound_spmv.yaml").write_text("true\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ReproError, match=r"invalid configuration\n  where: .*compound_spmv.yaml\n.*a mapping"):
        resolve({"studies": {"compound_spmv": {}}})


@pytest.mark.wording
def test_a_missing_file_is_named() -> None:
    with pytest.raises(ReproError, match=r"no such configuration file\n  where: none.yaml"):
        read_yaml(Path("none.yaml"))


def test_the_readme_explains_every_key_with_its_default() -> None:
    readme = (REPOSITORY / "config/README.md").read_text()
    resolved = resolve({"studies": {"compound_spmv": {}}}).model_dump(mode="json")
    study = resolved["studies"]["compound_spmv"]
    for keys in (resolved, study):
        for key, default in keys.items():
            rows = [line for line in readme.splitlines() if line.startswith(f"| `{key}` |")]
            assert rows, f"config/README.md does not explain {key}"
            if isinstance(default, str) or type(default) in (int, float):
                printed = f"{default:g}" if isinstance(default, float) else str(default)
                assert any(f"`{printed}`" in row for row in rows), f"config/README.md: {key} is {printed}"


def test_the_readme_has_the_defaults_that_depend_on_the_study() -> None:
    readme = (REPOSITORY / "config/README.md").read_text()
    studies = resolve({"studies": {name: {} for name in study_names()}}).studies
    for name, settings in studies.items():
        row = f"| `{name}` | `{settings.problems}` | `[{', '.join(settings.precisions)}]` | `{settings.space}` |"
        assert row in readme


def write_inputs(folder: Path, name: str, **settings: object) -> Path:
    """Write a configuration with a problem, rivals, a registry and templates, all named relative to `folder`."""
    rivals = [
        {"name": "source", "source": "mine/a.cu"},
        {"name": "library", "library": "mine/a.so"},
        {"name": "file", "python": "mine/a.py:A"},
        {"name": "module", "python": "mine:A"},
    ]
    content = {
        "kernels": "mine/kernels",
        "registry": "mine/registry.yaml",
        "fetch": {"mirrors": ["mine/mirror", "https://example.org/mine"]},
        "rivals": rivals,
        "studies": {"compound_spmv": {"problems": ["generated", {"path": "mine/a.mtx"}]}},
    }
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(content | settings))
    return path


def inputs_of(config: models.Config) -> list[object]:
    problem = config.studies["compound_spmv"].problems[1]
    assert isinstance(problem, OwnProblem)
    forms = [rival.source or rival.library or rival.python for rival in config.rivals]
    return [config.kernels, config.registry, config.fetch.mirrors[0], *forms, problem.path]


NAMED = ["kernels", "registry.yaml", "mirror", "a.cu", "a.so", "a.py:A", "mine:A", "a.mtx"]


def make_inputs(folder: Path) -> None:
    (folder / "mine/kernels").mkdir(parents=True)
    (folder / "mine/mirror").mkdir()
    for name in ("registry.yaml", "a.cu", "a.so", "a.py", "a.mtx"):
        (folder / "mine" / name).touch()


def test_a_path_starts_in_the_folder_of_its_file_or_else_in_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = [name if name == "mine:A" else f"mine/{name}" for name in NAMED]
    path = write_inputs(Path("sub"), "c.yaml")
    assert inputs_of(load(path)) == expected, "in neither: as it is written"
    make_inputs(Path())
    assert inputs_of(load(path)) == expected, "in the current folder alone"
    make_inputs(Path("sub"))
    beside = [name if name == "mine:A" else f"sub/{name}" for name in expected]
    assert inputs_of(load(path)) == beside, "in both"
    assert inputs_of(load(path.absolute())) == beside
    assert inputs_of(load(path)) == inputs_of(resolve(yaml.safe_load(path.read_text()), [path.absolute()]))
    assert load(path).fetch.mirrors[1] == "https://example.org/mine"
    monkeypatch.chdir(Path("sub"))
    assert inputs_of(load(Path("c.yaml"))) == expected, "a file of the current folder says what it says"
    Path("other").mkdir()
    monkeypatch.chdir("other")
    assert inputs_of(load(Path("../c.yaml"))) == [
        name if name == "mine:A" else str(tmp_path / "sub" / name) for name in expected
    ]


def test_each_of_merged_files_has_its_own_folder_and_the_command_line_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_inputs(Path("one"))
    make_inputs(Path("two"))
    first = write_inputs(Path("one"), "c.yaml")
    second = Path("two/c.yaml")
    second.write_text("{rivals: [{name: r, source: mine/a.cu}], studies: {compound_spmv: {precisions: [double]}}}")
    config = load(first, second)
    assert inputs_of(config)[3:] == ["two/mine/a.cu", "one/mine/a.mtx"]
    content = merge(yaml.safe_load(first.read_text()), yaml.safe_load(second.read_text()))
    assert resolve(content, [first, second]) == config
    given = resolve(merge(content, {"kernels": "mine"}), [first, second])
    assert given.kernels == "mine"


def test_a_registry_names_files_beside_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    registry = Path("sub/problems.yaml")
    item = "{name: mine, source: own, entry: real, path: a.mtx}"
    registry.write_text(f"problems: [{item}]")
    path = Path("c.yaml")
    path.write_text("{device: opencl, registry: sub/problems.yaml, studies: {compound_spmv: {problems: [mine]}}}")
    with pytest.raises(ReproError) as failed:
        make_plan(load(path))
    assert failed.value.where == "sub/problems.yaml: mine: a.mtx"
    assert failed.value.actual == f"there is no {tmp_path}/sub/a.mtx and no {tmp_path}/a.mtx"
    Path("sub/a.mtx").write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2.0\n")
    assert load_registry(registry).find("mine").path == "sub/a.mtx"
    assert make_plan(load(path)).problems["mine"].size == (1, 1)
