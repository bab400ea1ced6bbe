"""Reading, merging and resolving configurations; every mistake is one message that names the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro.config import load, resolve
from repro.config.load import merge, read_yaml
from repro.config.models import OwnProblem
from repro.errors import ReproError

REPOSITORY = Path(__file__).parents[2]
CONFIGURATIONS = {path.name for path in (REPOSITORY / "config").glob("*.yaml")} - {"problems.yaml"}


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)


def test_later_files_lie_over_earlier_ones_key_by_key(tmp_path: Path) -> None:
    over = tmp_path / "over.yaml"
    over.write_text("studies: {compound_spmv: {precisions: [double], timing: {rounds: 9}}}\n")
    config = load(Path("config/config.yaml"), over)
    study = config.studies["compound_spmv"]
    assert study.precisions == ("double",)
    assert study.timing.rounds == 9
    assert study.problems == "generated"
    assert config.campaign == "default"


def test_merging_changes_neither_of_both() -> None:
    base, over = {"a": {"b": 1}, "c": 2}, {"a": {"d": 3}, "c": {"e": 4}}
    assert merge(base, over) == {"a": {"b": 1, "d": 3}, "c": {"e": 4}}
    assert base == {"a": {"b": 1}, "c": 2}


@pytest.mark.parametrize("name", sorted(CONFIGURATIONS))
def test_every_configuration_in_the_repository_resolves(name: str) -> None:
    config = load(Path("config/config.yaml"), Path("config", name))
    assert resolve(config.model_dump(mode="json")) == config


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
        ({"bogus": 1}, r"bogus: unknown key \(is 1\)"),
        ({"fetch": {"timeouts": 1}}, "fetch.timeouts: unknown key"),
        ({"device": "gpu"}, "device: .*'gpu'"),
        ({"campaign": ".."}, "campaign: "),
        ({"campaign": "a/b"}, "campaign: "),
        ({"seed": "x"}, "seed: "),
        ({"studies": {}}, "studies: "),
        ({"studies": None}, "studies: "),
        ({"studies": {"compound_smpv": {}}}, "unknown study(.|\n)*compound_spmv(.|\n)*compound_smpv"),
        *(({"studies": {"compound_spmv": over}}, "does not fit(.|\n)*a mapping") for over in (True, [], "all", 0)),
        ({"studies": {"compound_spmv": {"precision": "single"}}}, "precision: unknown key"),
        ({"studies": {"compound_spmv": {"precisions": ["half"]}}}, "precisions.0: .*'half'"),
        ({"studies": {"compound_spmv": {"precisions": []}}}, "precisions: "),
        ({"studies": {"compound_spmv": {"problems": []}}}, "empty study"),
        ({"studies": {"compound_spmv": {"problems": None}}}, "empty study"),
        ({"studies": {"compound_spmv": {"problems": [{"path": "a.mtx", "kind": "x"}]}}}, "kind: unknown key"),
        ({"studies": {"compound_spmv": {"timing": {"rounds": 1}}}}, "timing.rounds: "),
    ],
)
def test_a_mistake_is_one_message_that_names_the_key(data: dict[str, object], message: str) -> None:
    whole = {"studies": {"compound_spmv": {}}, **data}
    with pytest.raises(ReproError, match=message) as failed:
        resolve(whole, "my.yaml")
    assert "my.yaml" in failed.value.message


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
        (b"- a\n- b\n", "does not fit(.|\n)*a mapping"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_bytes(content)
    with pytest.raises(ReproError, match=message) as failed:
        load(path)
    assert "broken.yaml" in failed.value.message


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ReproError, match=r"no such configuration file\n  where: none.yaml"):
        read_yaml(Path("none.yaml"))


def test_the_readme_explains_every_key_with_its_default() -> None:
    readme = (REPOSITORY / "config/README.md").read_text()
    resolved = load(Path("config/config.yaml")).model_dump(mode="json")
    study = resolved["studies"]["compound_spmv"]
    for keys in (resolved, resolved["fetch"], study, study["timing"]):
        for key, default in keys.items():
            rows = [line for line in readme.splitlines() if line.startswith(f"| `{key}` |")]
            assert rows, f"config/README.md does not explain {key}"
            if isinstance(default, str) or type(default) in (int, float):
                printed = f"{default:g}" if isinstance(default, float) else str(default)
                assert any(f"`{printed}`" in row for row in rows), f"config/README.md: {key} is {printed}"
