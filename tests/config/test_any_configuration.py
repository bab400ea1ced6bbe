"""Whatever a configuration says, it ends in a configuration or in one message."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from repro.campaign.configuration import load, resolve
from repro.campaign.plan import make_plan
from repro.config import read_yaml, validate
from repro.config.models import Config
from repro.errors import ReproError
from repro.problems.registry import Registry, load_registry

REPOSITORY = Path(__file__).parents[2]
#: A message that is longer buries what it says.
READABLE = 8_000
SOUND: dict[str, Any] = {
    "campaign": "mine",
    "device": "opencl:0/2",
    "seed": 3,
    "fetch": {"cache": "resources", "mirrors": ["/data"], "timeout": 1.5},
    "studies": {
        "compound_spmv": {
            "problems": ["generated", "surfaces/bunny", {"path": "a/part.msh", "entry": "block3", "name": "part"}],
            "precisions": ["single"],
            "layouts": ["CSR-AoS-AoS"],
            "timing": {"rounds": 3, "tie": 0.02},
        },
        "compressed_coo": False,
    },
}
ITEM = {"name": "toy", "source": "generated", "entry": "real", "kind": "poisson", "parameters": {"points": [2, 3, 4]}}
MESH = {"name": "a/b", "source": "tetmesh", "entry": "block3", "mesh": "m", "parts": [".node"], "urls": [["x"]]}
REGISTRY: dict[str, Any] = {"problems": [{**ITEM, "sets": ["s"], "published": {"rows": 1, "nonzeros": 1}}, MESH]}

words = st.sampled_from(
    [*("", "all", "auto", "false", "cuda:0,0", "../x", "a\n", "a\x00b"), *("{wild}", "~nobody/x", "x" * 5000, "\ud800")]
) | st.text(max_size=12)
numbers = st.sampled_from([-1, 0, 1, 2**63 - 1, 2**63, 10**400, 0.5, float("inf"), float("nan"), -0.0]) | st.floats()
scalars = st.none() | st.booleans() | numbers | words | st.binary(max_size=3) | st.dates()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | st.integers() | st.none(), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn, sound: dict[str, Any]) -> dict[str, Any]:
    """Return sound data in which a few values, anywhere, are others, more, or missing."""
    data = copy.deepcopy(sound)
    for _ in range(draw(st.integers(1, 3))):
        place: Any = data
        while True:
            keys = [*place] if isinstance(place, dict) else [*range(len(place))]
            key = draw(st.sampled_from(keys)) if keys else None
            inner = place[key] if keys else None
            if isinstance(inner, dict | list) and inner and draw(st.booleans()):
                place = inner
                continue
            break
        change = draw(st.sampled_from(["other", "more", "missing"]))
        if change == "more" or key is None:
            if isinstance(place, dict):
                place[draw(words | st.integers())] = draw(values)
            else:
                place.append(draw(values))
        elif change == "other":
            place[key] = draw(values)
        else:
            del place[key]
    return data


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)


few = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@few
@given(mutated(SOUND))
@example({"compound_spmv": True})
@example({"studies": True})
@example({"studies": {"compound_spmv": True}})
@example({"studies": {"\x00": {}}})
@example({"studies": {"x" * 5000: {}}})
@example({"studies": {None: {}}})
@example({"studies": {"compound_spmv": {"problems": {"a": 1}}}})
@example({"studies": {"compound_spmv": {"layouts": ["\ud800"] * 2}}})
@example({1: 2, "studies": {"compound_spmv": {}}})
def test_any_configuration(data: dict[str, Any]) -> None:
    try:
        config = resolve(data)
        assert isinstance(config, Config)
        assert resolve(config.model_dump(mode="json")) == config
        for study in config.studies.values():
            load_registry(Path("config/problems.yaml")).expand(study.problems, "the study")
    except ReproError as error:
        assert len(error.message) < READABLE
        assert "\n  where: " in error.message


@settings(few, max_examples=40)
@given(mutated(SOUND["studies"]["compound_spmv"]))
def test_any_settings_of_a_study_can_be_planned_or_not(study: dict[str, Any]) -> None:
    try:
        make_plan(resolve({"device": "opencl", "studies": {"compound_spmv": {**study, "problems": "tiny"}}}))
    except ReproError as error:
        assert len(error.message) < READABLE


@few
@given(mutated(REGISTRY))
@example({})
@example({"problems": {}})
@example({"problems": [{"source": []}]})
def test_any_registry(data: dict[str, Any]) -> None:
    try:
        assert validate(Registry, data, "problems.yaml").names()
    except ReproError as error:
        assert len(error.message) < READABLE


@few
@given(text=st.text(alphabet="ab:-[]{}&*!,'\"|>?%@`#<~ \n\t0123é\x00", max_size=40) | values.map(yaml.dump))
@example(text="a: &a [*a]")
@example(text="!!int ''")
@example(text="!!timestamp x")
@example(text="!!bool x")
@example(text="a: 0x" + "f" * 9000)
@example(text="- " * 3000)
def test_any_file(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    for read in (read_yaml, load, load_registry):
        try:
            read(path)
        except ReproError as error:
            assert str(path) in error.message
            assert len(error.message) < READABLE
