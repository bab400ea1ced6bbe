"""Words that YAML 1.1 takes for truth values, numbers and dates are refused or taken as written, in every field."""

from __future__ import annotations

import json
import math
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from snakemake.cli import parse_config
from snakemake.common.configfile import load_configfile
from snakemake.settings.types import ConfigSettings
from snakemake.utils import update_config
from snakemake_interface_common.exceptions import WorkflowError

from repro.campaign.configuration import config_model
from repro.campaign.workflow import check_configuration_files, configuration_of, files_in_order
from repro.config import dump_yaml, read_assignments, read_yaml, validate
from repro.config.models import Config
from repro.config.validation_errors import _models
from repro.errors import ReproError
from repro.problems.generated_fields import FIELD_KINDS
from repro.problems.generators import KINDS, computed
from repro.problems.registry import Collection, Registry
from repro.studies import study_names

REPOSITORY = Path(__file__).parents[2]
#: What a word is by the core schema of YAML 1.2.
TEXTS = (
    *(
        "on",
        "On",
        "off",
        "yes",
        "Yes",
        "no",
        "NO",
        "n",
        "y",
        "N",
        "Y",
        "tRUE",
        "1_000",
        "1__0",
        "_1",
        "0b11",
        "0b_",
        "0x_",
    ),
    *("12:30:45", "1:30", "190:20:30.15", "2020-01-01", "2020-13-45", "2020-01-01 10:00:00", "=", "<<", "+.5.", "1e"),
    *("1_0.5", ".e1", "١٢", "inf", "nan", "NaN", "Infinity", "None"),
)
VALUES: dict[str, Any] = {
    **{text: text for text in TEXTS},
    **{"true": True, "True": True, "TRUE": True, "false": False, "~": None, "null": None, "": None},
    **{
        "10": 10,
        "-3": -3,
        "+3": 3,
        "0": 0,
        "1e3": 1000.0,
        "1E+3": 1000.0,
        ".5": 0.5,
        "5.": 5.0,
        "1.5": 1.5,
        "-0.": -0.0,
    },
}
REFUSED = (
    "010",
    "-010",
    "00",
    "08",
    "0x10",
    "0o10",
    "0xF",
    "1e400",
    "-1e400",
    "1e-400",
    "9223372036854775808",
    "!!int 3",
)
INFINITE = (".inf", "-.inf", "+.Inf", ".nan", ".NaN")

#: For each model its required keys, and others without which some of its keys are refused.
SOUND: dict[str, list[dict[str, Any]]] = {
    "Config": [{"studies": {"compound_spmv": {}}}],
    "UpdateBatches": [{"batches": 1, "share": 0.5}, {"sizes": [1]}],
    "Fixed": [{"x": "min"}],
    "OwnProblem": [{"path": "a.mtx"}, {"path": "a.msh", "entry": "block3"}, {"path": "a.vtu", "kind": "field"}],
    "Rival": [
        {"name": "a", "source": "a.cu", "kernel": "k"},
        {"name": "a", "library": "a.so"},
        {"name": "a", "python": "m:o"},
    ],
    "Registry": [{"problems": [{"name": "a", "source": "own", "path": "a.mtx", "entry": "real"}]}],
    "Size": [{"rows": 1, "nonzeros": 1}],
    "Suitesparse": [{"name": "a", "source": "suitesparse", "entry": "real", "group": "g", "matrix": "m"}],
    "Stanford": [{"name": "a", "source": "stanford", "model": "m"}],
    "Tetmesh": [{"name": "a", "source": "tetmesh", "mesh": "m"}],
    "Recipe": [{"name": "a", "source": "recipe", "recipe": "r"}],
    "Generated": [{"name": "a", "source": "generated", "entry": "real", "kind": "poisson"}],
    "LocalFile": [{"name": "a", "source": "own", "path": "a.mtx", "entry": "real"}],
    "GeneratedField": [{"name": "a", "source": "field", "kind": "delaunay"}],
    "OwnField": [{"name": "a", "source": "own_field", "path": "a.vtu"}],
    "Collection": [{"name": "a", "title": "t", "query": {}, "resolved": False}],
    "CollectionSource": [{"name": "a", "matrices": 1, "fitting": 1}],
    "Member": [{"group": "g", "matrix": "m", "rows": 1, "nonzeros": 1, "kind": "k"}],
}


def models_below(model: type[BaseModel], found: dict[type[BaseModel], None]) -> dict[type[BaseModel], None]:
    """Return a model with all that its keys have, of every study as well."""
    if model not in found:
        found[model] = None
        for field in model.model_fields.values():
            for inner in _models(field):
                models_below(inner, found)
    return found


MODELS: dict[type[BaseModel], None] = {}
for root in (config_model(study_names()), Config, Registry, Collection):
    models_below(root, MODELS)
FIELDS = [(model, name) for model in MODELS for name in model.model_fields]


def read_word(word: str, folder: Path) -> Any:
    path = folder / "word.yaml"
    path.write_text(f"a: {word}\n", encoding="utf-8")
    return read_yaml(path)["a"]


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {word: read_word(word, tmp_path_factory.getbasetemp()) for word in (*VALUES, *INFINITE, "'10'", "'010'")}


def is_same(value: Any, other: Any) -> bool:
    """Whether values are equal and of one type, but for a whole number where a number is meant."""
    if isinstance(value, tuple | list) and isinstance(other, tuple | list):
        return len(value) == len(other) and all(map(is_same, value, other))
    return value == other and (type(value) is type(other) or {type(value), type(other)} == {int, float})


@pytest.mark.parametrize("word", VALUES)
def test_a_word_is_what_yaml_1_2_says(word: str, tmp_path: Path) -> None:
    value = read_word(word, tmp_path)
    assert (type(value), value) == (type(VALUES[word]), VALUES[word])
    assert json.dumps(read_assignments([f"a={word}"])) == json.dumps({"a": value})


@pytest.mark.parametrize("word", REFUSED)
def test_a_number_that_readers_take_otherwise_is_refused(word: str, tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="unreadable YAML"):
        read_word(word, tmp_path)
    with pytest.raises(ReproError, match="where: --config seed, line 1"):
        read_assignments([f"seed={word}"])
    assert read_word(f"'{word}'", tmp_path) == word


@pytest.mark.sampled(100)
@pytest.mark.parametrize(("model", "name"), FIELDS, ids=[f"{model.__name__}-{name}" for model, name in FIELDS])
def test_no_field_takes_a_word_for_another_value(model: type[BaseModel], name: str, values: dict[str, Any]) -> None:
    bases = SOUND.get(model.__name__, [{}])
    for base in bases:
        validate(model, base, "the test")
    for value in (value for word in values.values() for value in (word, [word], [[word]])):
        for base in bases:
            try:
                made = getattr(model.model_validate({**base, name: value}), name)
            except ValueError:
                continue
            flat = value
            while isinstance(flat, list):
                (flat,) = flat
            assert not (isinstance(flat, float) and not math.isfinite(flat)), (value, made)
            if not isinstance(made, BaseModel):
                assert is_same(made, value), (value, made)


@pytest.mark.parametrize(
    ("subject", "kinds", "kind", "name"),
    [
        (subject, kinds, kind, name)
        for subject, kinds in (("problem", KINDS), ("field", FIELD_KINDS))
        for kind in kinds
        for name in signature(kinds[kind].build).parameters  # type: ignore[attr-defined]
    ],
)
def test_no_parameter_of_a_generated_problem_takes_a_word_for_a_number(
    subject: str, kinds: Any, kind: str, name: str, values: dict[str, Any]
) -> None:
    for word in ("on", "yes", "true", "1_000", "12:30:45", "1:30", "'10'", "'010'", *INFINITE):
        value = values[word]
        for given in (value, [value], [value] * 2, [value] * 3):
            with pytest.raises(ReproError, match="wrong parameters"):
                computed(subject, kinds, kind, {name: given})


@pytest.mark.parametrize("word", [*VALUES, *REFUSED, *INFINITE, "a: b", "- a", "a # b", "'", "é"])
def test_what_is_written_is_read_back(word: str, tmp_path: Path) -> None:
    path = tmp_path / "written.yaml"
    path.write_text(dump_yaml({"a": word, word: [word]}), encoding="utf-8")
    assert read_yaml(path) == yaml.safe_load(path.read_text(encoding="utf-8")) == {"a": word, word: [word]}


@pytest.mark.parametrize("folder", ["config", "results"])
def test_files_of_the_repository_mean_the_same_by_both_versions_of_yaml(folder: str) -> None:
    paths = [*(REPOSITORY / folder).rglob("*.yaml")]
    assert paths
    for path in paths:
        assert json.dumps(read_yaml(path)) == json.dumps(yaml.safe_load(path.read_text(encoding="utf-8"))), path


class StandInWorkflow(SimpleNamespace):
    """What Snakemake's workflow says of its configuration, from files and the words after `--config`."""

    def __init__(self, files: list[Path], words: list[str], named: Path | None = None) -> None:
        settings = ConfigSettings(config=parse_config(words), configfiles=files, config_args=words)
        self.config: dict[str, Any] = load_configfile(named) if named else {}
        update_config(self.config, settings.overwrite_config)
        configfiles = [*settings.configfiles, *([named] if named else [])]
        super().__init__(config_settings=settings, overwrite_configfiles=settings.configfiles, configfiles=configfiles)

    def read(self, config: dict[str, Any] | None = None) -> Any:
        return configuration_of(self, self.config if config is None else config, files_in_order(self))


@pytest.mark.parametrize("word", [*VALUES, *INFINITE])
def test_snakemakes_configuration_is_read_as_ours(word: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"a: {{b: {word}, c: [{word}]}}\ndd: 1\n", encoding="utf-8")
    try:
        workflow = StandInWorkflow([path], [f"dd={word}", f"ee={{f: {word}}}"])
    except (ValueError, WorkflowError):
        with pytest.raises(SystemExit, match=r"error: Snakemake cannot read a word of the configuration file\n"):
            check_configuration_files(["--configfile", str(path)])
        return
    check_configuration_files(["--configfile", str(path)])
    ours = {**read_yaml(path), "dd": read_word(word, tmp_path), "ee": {"f": read_word(word, tmp_path)}}
    assert repr(workflow.read()) == repr(ours)


def test_files_of_the_line_lie_over_the_one_that_a_snakefile_names(tmp_path: Path) -> None:
    named, given, later = (tmp_path / name for name in ("named.yaml", "given.yaml", "later.yaml"))
    named.write_text("a: on\nb: on\nc: on\ndd: on\n")
    given.write_text("b: yes\nc: yes\ndd: yes\n")
    later.write_text("c: 1_000\ndd: 1_000\n")
    workflow = StandInWorkflow([given, later], ["dd=12:30:45"], named)
    assert workflow.read() == {"a": "on", "b": "yes", "c": "1_000", "dd": "12:30:45"}


@pytest.mark.parametrize(("text", "is_sound"), [("seed: 3\n", True), ("seed: 1_0\n", False), ("a: on\n", False)])
def test_another_configuration_of_a_module_is_taken_unless_words_were_misread(
    text: str, is_sound: bool, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    workflow = StandInWorkflow([path], [])
    other = {**workflow.config, "campaign": "other"}
    if is_sound:
        assert workflow.read(other) == other
    else:
        with pytest.raises(ReproError, match="misread"):
            workflow.read(other)


def test_a_json_file_is_read_as_yaml(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"a": "on", "b": 1.5, "c": [true, null], "d": "010"}')
    assert StandInWorkflow([path], []).read() == {"a": "on", "b": 1.5, "c": [True, None], "d": "010"}
    for number in ("1" * 30, "1e999"):
        path.write_text(f'{{"a": {number}}}')
        with pytest.raises(ReproError, match="unreadable YAML"):
            StandInWorkflow([path], []).read()
