"""Packages outside: their studies, baselines, layouts and tables are found by entry points, and their code counts."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from repro import extensions, package_data
from repro.bench.timing import SamplingPlan
from repro.campaign import receipts, steps
from repro.campaign.artifacts import all_artifacts
from repro.codegen import templates as codegen_templates
from repro.codegen.targets import CPU
from repro.errors import ReproError
from repro.extensions import BASELINES, LAYOUTS, STUDIES, TABLES, load_extensions
from repro.results import registry as artifact_registry
from repro.sparse import library
from repro.sparse.compound import outer
from repro.sparse.library import for_problem
from repro.studies import get_study, registry, study_module, study_names

REPOSITORY = Path(__file__).parents[1]
pytestmark = pytest.mark.medium
EFFORT = SamplingPlan(5, 2, 5)
CACHES = (
    extensions.extensions,
    registry._extensions,
    get_study,
    receipts.code_hash,
    steps._compiling_code,
    codegen_templates._environment,
)
BASELINE = """
from repro.sparse.expansions import real_expansion
from repro.sparse.library import baseline
from repro.sparse.library.scipy_products import SciPy


@baseline("opencl")
def products(entry, ordering):
    return [Outside({form!r}, real_expansion(entry), ordering)]


class Outside(SciPy):
    pass
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Put a package with an entry point where Python finds it; what it registers goes again after the test."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(library, "_PROVIDERS", [*library._PROVIDERS])
    monkeypatch.setattr(outer, "_REGISTRY", {**outer._REGISTRY})
    before = {*sys.modules}

    def forget() -> None:
        for cached in CACHES:
            cached.cache_clear()

    def put(group: str, name: str, module: str, files: dict[str, str], distribution: str = "mine") -> Path:
        for path, text in {
            f"{distribution}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n",
            f"{distribution}-1.0.dist-info/entry_points.txt": f"[{group}]\n{name} = {module}\n",
            **files,
        }.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text)
        forget()
        return site

    yield put
    forget()
    for name in {*sys.modules} - before:
        if str(site) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def small_study(name: str) -> dict[str, str]:
    """The files of the study of the tests as a package of another name."""
    folder = REPOSITORY / "tests/small_study"
    files = {}
    for path in folder.rglob("*.*"):
        if path.suffix in (".py", ".j2"):
            inside = path.relative_to(folder).as_posix()
            inside = inside.replace("src/repro/studies/small", name).replace("kernels/small", f"{name}/kernels/{name}")
            files[inside] = path.read_text().replace("repro.studies.small", name).replace('"small"', f'"{name}"')
            files[inside] = files[inside].replace('"small/', f'"{name}/')
    return files


def test_a_baseline_is_among_ours_and_its_code_counts(install, make_bench, small_problem) -> None:
    site = install(BASELINES, "any", "outside_products", {"outside_products.py": BASELINE.format(form="coo")})
    study, module = "repro.studies.compound_spmv.study", "outside_products"
    plain = receipts.code_hash(study)
    assert site / "outside_products.py" in receipts.code_files(study).values()
    assert site / "outside_products.py" not in receipts.code_files("repro.studies.compound_spmv.kernels").values()
    load_extensions(BASELINES)
    [outside] = [found for found in for_problem("complex", "opencl") if type(found).__module__ == module]
    assert outside.name == "scipy/coo/real2"
    assert "scipy/csr/real2" in {found.name for found in for_problem("complex", "opencl")}
    row = make_bench(small_problem("complex")).try_once(outside, "report", EFFORT)
    assert (row.status, row.message, row.kind) == ("ok", None, "baseline")

    own = receipts.code_hash(module)
    imported = {path.name for path in receipts.code_files(module).values()}
    assert {"outside_products.py", "scipy_products.py", "operands.py"} <= imported
    with (site / "outside_products.py").open("a") as file:
        file.write("#\n")
    receipts.code_hash.cache_clear()
    assert receipts.code_hash(module) != own
    assert receipts.code_hash(study) != plain


def test_a_layout_brings_its_template(install, templates) -> None:
    before = steps._compiling_code("compound_spmv"), steps._compiling_code("dynamic_csr")
    site = install(LAYOUTS, "rows", "aligned_rows.layout", {})
    shutil.copytree(REPOSITORY / "examples/aligned-rows/aligned_rows", site / "aligned_rows")
    load_extensions(LAYOUTS)
    assert outer.outer_formats()["CSR4"].template == "aligned_rows"
    study = get_study("compound_spmv")
    assert ("CSR4-SoA-AoS", "paper") in study.layouts()
    source = study.render(templates, "paper/complex-single/CSR4-SoA-AoS", CPU)
    assert "const int first = index[row], end = index[row + 1], slot_stride = 1;" in source
    assert codegen_templates.template_exists(templates, "export/outer/aligned_rows.j2")
    after = steps._compiling_code("compound_spmv"), steps._compiling_code("dynamic_csr")
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True]
    (site / "aligned_rows/kernels/sparse/compound/csr.j2").write_text("")
    codegen_templates._environment.cache_clear()
    with pytest.raises(ReproError, match="two templates have the same name"):
        study.render(templates, "paper/complex-single/CSR4-SoA-AoS", CPU)


def test_a_study_is_among_ours_with_its_kernels_and_defaults(install, templates) -> None:
    defaults = "outside_small/config/studies/outside_small.yaml"
    files = small_study("outside_small") | {defaults: "problems: [tiny/dirac]\n"}
    site = install(STUDIES, "outside_small", "outside_small", files)
    assert "outside_small" in study_names()
    study = get_study("outside_small")
    assert study.name == "outside_small"
    key = study.modules(None, None, "double", CPU)[0]
    assert "take" in study.render(templates, key, CPU)
    assert package_data.shipped("config/studies/outside_small.yaml") == site / defaults
    assert study_module("outside_small", "tables") == "outside_small.tables"
    assert study_module("outside_small", "figures") is None
    assert {site / name for name in files} == {
        path for path in receipts.code_files("outside_small.study").values() if path.is_relative_to(site)
    }


TABLE = """
from repro.results.registry import table


@table("compound_spmv", "table-outside", title="Of a package", numbering="ours")
def outside(campaign, published):
    raise NotImplementedError
"""


def test_a_table_of_one_of_our_studies_counts_where_tables_are_made(install, monkeypatch) -> None:
    all_artifacts("compound_spmv")
    monkeypatch.setattr(artifact_registry, "_REGISTRY", {**artifact_registry._REGISTRY})
    path = install(TABLES, "any", "outside_tables", {"outside_tables.py": TABLE}) / "outside_tables.py"
    assert "table-outside" in {artifact.name for artifact in all_artifacts("compound_spmv", "table")}
    assert path in receipts.code_files("repro.campaign.artifacts").values()
    measuring = receipts.code_files("repro.campaign.measurement", "repro.studies.compound_spmv.study")
    assert path not in measuring.values()


FAILING = "raise RuntimeError('no such thing')"
TAKEN = """
from repro.sparse.compound.outer import Outer, register
register(Outer("CSR", "mine", len, len))
"""


@pytest.mark.parametrize(
    ("group", "name", "files", "message"),
    [
        (BASELINES, "one", {"bad.py": FAILING}, "an extension cannot be imported.*RuntimeError: no such thing"),
        (BASELINES, "one", {}, "an extension cannot be imported.*No module named 'bad'"),
        (LAYOUTS, "one", {"bad.py": "import no_such_package"}, "cannot be imported.*No module named 'no_such_package'"),
        (LAYOUTS, "one", {"bad.py": TAKEN}, "an outer format of this name already exists: CSR.*csr.j2"),
        (STUDIES, "spgemm_amg", {"bad/__init__.py": ""}, "a study of this name already exists"),
        (STUDIES, "Mine", {"bad/__init__.py": ""}, "not a valid name for a study"),
        (STUDIES, "mine", {"bad/__init__.py": FAILING}, "cannot be imported.*no such thing"),
        (STUDIES, "mine", {"bad/__init__.py": ""}, "cannot be imported.*No module named 'bad.study'"),
        (STUDIES, "mine", {"bad/__init__.py": "", "bad/study.py": "STUDY = 3"}, "a module without the study.*is mine"),
    ],
)
def test_what_is_wrong_with_a_package_is_one_message(install, group, name, files, message) -> None:
    install(group, name, "bad", files)
    with pytest.raises(ReproError) as error:
        if group == STUDIES:
            get_study(name)
        else:
            load_extensions(group)
    text = str(error.value).replace("\n", " ")
    assert re.search(message, text), text
    assert f"mine 1.0: entry point {name} = bad" in text
    assert "pip uninstall mine" in text


def test_two_baselines_of_one_name_are_refused(install) -> None:
    install(BASELINES, "any", "outside_products", {"outside_products.py": BASELINE.format(form="csr")})
    load_extensions(BASELINES)
    with pytest.raises(ReproError, match="two baselines have the same name") as error:
        for_problem("complex", "opencl")
    assert "outside_products" in str(error.value)
