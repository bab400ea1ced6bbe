"""A symmetric problem measured on the CPU in a pair format: its reference and its own floor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repro.campaign.problem_files import record_of
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import CPU
from repro.codegen.templates import render_common
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline, describe_pattern
from repro.sparse.compound.runnables import OWN_FLOOR
from repro.sparse.symmetry import HERMITIAN
from repro.sparse.tuning_features import OPERATOR
from repro.studies import get_study
from repro.studies.compound_spmv.study import REORDERED_UNPAIRED, UNPAIRED
from support.small_case import NAME, STUDY, config, run
from support.symmetric_problems import disturbed, symmetric_problem, without_entry

pytestmark = pytest.mark.medium

#: Whatever is fastest here, what takes the fewest bytes is chosen as well.
SETTINGS = {"layouts": ("Pairs-64-AoSoA-AoS",), "memory_weight": 50.0}


@pytest.fixture(scope="module")
def modules(templates: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules that the case needs."""
    folder = tmp_path_factory.mktemp("modules")
    study = get_study(STUDY)
    for key in study.modules(config(**SETTINGS).studies[STUDY], Outline(NAME, "matrix", "complex"), "single", CPU):
        compile_module(study.render(templates, key, CPU), CPU, manifest_path(CPU.name, STUDY, key, folder))
    compile_module(render_common(templates, CPU), CPU, folder / CPU.name / "common.json")
    return folder


@pytest.fixture
def measured(
    monkeypatch: pytest.MonkeyPatch, modules: Path, tmp_path: Path
) -> Callable[[Matrix], dict[str, pd.DataFrame]]:
    """Measures a matrix in the place of the small case's."""
    (tmp_path / "modules").symlink_to(modules)
    monkeypatch.chdir(tmp_path)

    def measure(problem: Matrix, **settings: object) -> dict[str, pd.DataFrame]:
        described(problem).save(Path(f"results/c/problems/{NAME}.npz"))
        return run(**{**SETTINGS, **settings})

    return measure


def described(problem: Matrix) -> Matrix:
    """Return it by the small case's name, with the statistics that it has once it is built."""
    return replace(problem, name=NAME, statistics=describe_pattern(problem.indptr, problem.indices))


def build_record(problem: Matrix, path: Path) -> None:
    """Write what a build leaves of it beside its file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record_of(described(problem))))


@pytest.mark.slow
def test_a_format_of_pairs_has_a_floor_of_its_own(measured: Callable[[Matrix], dict[str, pd.DataFrame]]) -> None:
    problem = symmetric_problem("complex", HERMITIAN)
    found = measured(problem)
    search, choices, report = (found[step] for step in ("search", "choices", "report"))
    searched = search.set_index("name")
    assert set(searched.status) == {"ok"}
    wanted = get_study(STUDY).tunings(config(**SETTINGS).studies[STUDY], Outline(NAME, "matrix", "complex"))
    assert set(choices.tuning) == {*wanted, OPERATOR, UNPAIRED, REORDERED_UNPAIRED}
    for tuning in (UNPAIRED, REORDERED_UNPAIRED):
        chosen = searched.loc[choices[choices.tuning == tuning].name]
        assert not chosen.outer.str.startswith("Pairs").any()
        assert {name for name in chosen.index} <= set(report.name), "not timed beside the others"

    winners = report[(report.kind == "variant") & report.outer.str.startswith("Pairs")]
    floors = report[report.kind == OWN_FLOOR]
    assert len(winners)
    assert set(floors.layout) == set(winners.layout)
    assert set(found["baseline"].kind) == {"floor", "copy", "empty", OWN_FLOOR}
    assert set(floors.name) <= set(found["baseline"].name)
    assert set(floors.status) == {"ok"} and set(floors.cache) == {"warm", "cold"}
    plain = report[report.kind == "floor"]
    for layout, of_layout in floors.groupby("layout"):
        own = winners[winners.layout == layout].bytes.iloc[0]
        assert set(of_layout.bytes - own) <= set(range(8)), "matrix and both vectors, in whole words"
        assert of_layout.bytes.max() < plain.bytes.min()


@pytest.mark.exhaustive
def test_what_is_not_symmetric_has_none(measured: Callable[[Matrix], dict[str, pd.DataFrame]]) -> None:
    problem = disturbed(symmetric_problem("complex", HERMITIAN))
    values = problem.values.copy()
    values[:, 1] *= 1.0 + 1e-3 * (values[:, 1] > 0)  # also once it is rounded
    found = measured(replace(problem, values=values))
    pairs = found["search"][found["search"].outer.str.startswith("Pairs", na=False)]
    assert len(pairs) and set(pairs.status) == {"unsupported"}
    assert pairs.message.str.startswith("not symmetric: the values of row").all()
    assert not {UNPAIRED, REORDERED_UNPAIRED} & set(found["choices"].tuning)
    assert OWN_FLOOR not in set(found["report"].kind) | set(found["baseline"].kind)


@pytest.mark.exhaustive
def test_a_search_with_a_budget_tries_pairs_where_the_matrix_is_symmetric(
    measured: Callable[..., dict[str, pd.DataFrame]],
) -> None:
    problem = symmetric_problem("complex", HERMITIAN)
    found = measured(problem, search="random", budget=1.0)["search"]
    assert set(found[found.outer.str.startswith("Pairs")].status) == {"ok"}
    shutil.rmtree("results")
    without = measured(without_entry(problem), search="random", budget=1.0)["search"]
    assert not without.outer.str.startswith("Pairs").any()
    assert set(without.space) >= {"paper"} and set(without.status) == {"ok"}


@pytest.mark.exhaustive
def test_a_predicted_search_learns_from_what_was_recorded_of_pairs(
    monkeypatch: pytest.MonkeyPatch, measured: Callable[..., dict[str, pd.DataFrame]]
) -> None:
    """Rows and records of this CPU: another campaign, searched in full, tells of a matrix that is like its own."""
    problem = symmetric_problem("complex", HERMITIAN)
    measured(problem)
    record = Path(f"results/c/raw/problems/{NAME}.json")
    build_record(problem, record)
    Path("results/c").rename("results/other")
    compared = []
    monkeypatch.setattr(
        "repro.tuning.strategies.likeness_weights",
        lambda features, target: compared.append((features, target)) or np.ones(len(features)) / len(features),
    )
    build_record(problem, record)
    found = measured(problem, search="predicted", training=["other"], budget=0.5)["search"]
    assert {(len(features), len(target)) for features, target in compared} == {(1, 13)}
    for features, target in compared:
        np.testing.assert_array_equal(features[0], target)  # the same matrix, on the same machine
        assert target[9] == 1 and np.isfinite(target).all()
    assert found.outer.str.startswith("Pairs").any()
