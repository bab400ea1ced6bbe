"""What a step depends on, on a small package and on ours."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import repro
from repro.campaign import receipts
from repro.campaign import steps as planned
from repro.campaign.configuration import resolve
from repro.campaign.plan import make_plan
from repro.errors import ReproError
from repro.studies import study_names as all_studies

PACKAGE = Path(repro.__file__).parent
MADE_UP = {
    "__init__.py": "def later():\n    from made_up import program\n",
    "program.py": "",
    "plugins.py": "",
    "step.py": """
        from typing import TYPE_CHECKING
        from made_up.tools.sharp import cut
        if TYPE_CHECKING:
            from made_up.program import Program
        def run():
            from made_up import lazy
    """,
    "lazy.py": "",
    "tools/__init__.py": "from made_up import beside",
    "tools/sharp.py": "",
    "tools/blunt.py": "",
    "beside.py": "",
    "asks.py": "from made_up.kinds import get_kind",
    "kinds/__init__.py": "from made_up.plugins import import_all\nimport_all(__name__, __path__)",
    "kinds/one.py": "",
    "kinds/two/__init__.py": "",
    "kinds/two/part.py": "",
    "writer.py": 'TEMPLATE = "page.html.j2"; RECORD = "page.json"',
    "page/page.html.j2": '{% include "looks/page.css" %}',
    "page/looks/page.css": "",
    "page/page.js": "",
    "studies/__init__.py": "",
}


def write(folder: Path) -> None:
    for name, text in MADE_UP.items():
        path = folder / "made_up" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(re.sub(r"^ {8}", "", text, flags=re.MULTILINE))


def forget() -> None:
    for function in (receipts.code_hash, receipts._package, receipts._names):
        function.cache_clear()


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a package `made_up` that can be imported."""
    write(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    return tmp_path / "made_up"


def names(folder: Path, *modules: str) -> set[str]:
    """Return the files behind some modules of the package that is made up."""
    paths = receipts.code_files(*(f"made_up.{module}" for module in modules), root="made_up").values()
    return {path.relative_to(folder).as_posix() for path in paths}


def hash_now(*modules: str) -> str:
    forget()
    return receipts.code_hash(*(f"made_up.{module}" for module in modules), root="made_up")


class TestFiles:
    """Of a package that is made up."""

    def test_imports_count_where_they_run_and_so_do_the_packages_around(self, made_up: Path) -> None:
        assert names(made_up, "step") == {
            "__init__.py",
            "step.py",
            "lazy.py",
            "tools/__init__.py",
            "tools/sharp.py",
            "beside.py",
        }

    def test_a_package_that_loads_its_folder_depends_on_all_of_it(self, made_up: Path) -> None:
        kinds = {"kinds/__init__.py", "kinds/one.py", "kinds/two/__init__.py", "kinds/two/part.py"}
        assert names(made_up, "asks") == {"__init__.py", "plugins.py", "asks.py", *kinds}

    def test_a_package_stands_for_all_that_is_in_it(self, made_up: Path) -> None:
        assert names(made_up, "kinds.two") >= {"kinds/two/part.py"}
        assert names(made_up, "tools") >= {"tools/sharp.py", "tools/blunt.py"}

    def test_data_count_where_they_are_named(self, made_up: Path) -> None:
        assert names(made_up, "writer") == {
            "__init__.py",
            "writer.py",
            "page/page.html.j2",
            "page/looks/page.css",
        }

    @pytest.mark.wording
    def test_any_other_module_has_to_be_there(self, made_up: Path) -> None:
        with pytest.raises(ReproError, match=r"no such module.*\n  actual: made_up.stepp"):
            names(made_up, "stepp")

    @pytest.mark.wording
    def test_a_folder_whose_imports_cannot_be_seen_is_refused(self, made_up: Path) -> None:
        (made_up / "tools/__init__.py").unlink()
        with pytest.raises(ReproError, match=r"a folder of modules has no __init__.py\n  where: .*/made_up/tools"):
            names(made_up, "step")

    def test_what_no_program_can_import_does_not_count(self, made_up: Path) -> None:
        before = names(made_up, "kinds")
        (made_up / "kinds/.backups").mkdir()
        (made_up / "kinds/.backups/one-1.py").touch()
        forget()
        assert names(made_up, "kinds") == before


class TestHash:
    """Of a package that is made up."""

    def test_the_hash_does_not_depend_on_order_or_place(
        self, made_up: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here = hash_now("step", "asks")
        assert re.fullmatch("[0-9a-f]{16}", here)
        assert hash_now("asks", "step") == here
        write(tmp_path / "elsewhere")
        shutil.rmtree(made_up)
        monkeypatch.syspath_prepend(tmp_path / "elsewhere")
        assert hash_now("step", "asks") == here

    @pytest.mark.parametrize("name", ["step.py", "lazy.py", "tools/__init__.py", "beside.py"])
    def test_an_edit_of_what_runs_changes_it(self, made_up: Path, name: str) -> None:
        before = hash_now("step")
        with (made_up / name).open("a") as file:
            file.write("\nEDITED = True\n")
        assert hash_now("step") != before

    @pytest.mark.parametrize("name", ["program.py", "tools/blunt.py", "kinds/one.py", "page/page.css"])
    def test_an_edit_of_anything_else_does_not(self, made_up: Path, name: str) -> None:
        before = hash_now("step")
        with (made_up / name).open("a") as file:
            file.write("\nEDITED = True\n")
        assert hash_now("step") == before

    def test_a_new_file_in_a_folder_that_is_loaded_changes_it(self, made_up: Path) -> None:
        before = hash_now("asks")
        (made_up / "kinds/three.py").touch()
        assert hash_now("asks") != before

    def test_an_edit_of_named_data_changes_it(self, made_up: Path) -> None:
        before = hash_now("writer")
        (made_up / "page/looks/page.css").write_text("body {}")
        after = hash_now("writer")
        assert after != before
        (made_up / "page/page.js").write_text("let a = 1")
        assert hash_now("writer") == after


# our package: which steps an edit of a file repeats

STUDIES = ("compound_spmv", "compressed_coo")
OURS, COO = ({f"{study} {step}" for step in ("compile", "measure", "tables", "figures")} for study in STUDIES)
ALL = {"problems", "common", "report", *OURS, *COO}


@pytest.fixture(scope="module")
def steps() -> dict[str, frozenset[Path]]:
    """The files behind each step of a campaign of both studies, from the modules that its hash of code is of."""
    cached = (planned._building_code, planned._compiling_code)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planned, "code_hash", lambda *modules: modules)
        for of_this_process in cached:
            of_this_process.cache_clear()
        small = {"problems": ["tiny/poisson"]}
        plan = make_plan(resolve({"device": "opencl", "studies": {study: small for study in STUDIES}}))
        modules: dict[str, Any] = {short(step.name): step.values["code"] for step in planned.steps(plan)}
        for of_this_process in cached:
            of_this_process.cache_clear()
    del modules["check"]
    return {step: set(receipts.code_files(*names).values()) for step, names in modules.items()}


def short(step: str) -> str:
    """Return what kind of step it is: `problems`, `common`, `report`, `check`, or a study's."""
    words = step.split()
    if words[0] in ("report", "check"):
        return words[0]
    return {"problem": "problems"}.get(words[0], "common" if words[1] == "common" else f"{words[1]} {words[0]}")


@pytest.mark.parametrize(
    ("edited", "repeated"),
    [
        ("results/report.html.j2", {"report"}),
        ("results/report.css", {"report"}),
        ("studies/compound_spmv/words.html.j2", {"report"}),
        # how large a matrix is in each format is recorded when the problem is built
        ("sparse/compound/outer/builtin.py", {"problems", "report", *OURS}),
        ("studies/compound_spmv/facts.py", {"problems"}),
        ("studies/compound_spmv/study.py", {"report", *OURS} - {"compound_spmv compile"}),
        ("studies/compressed_coo/runnables.py", {"report", *COO} - {"compressed_coo compile"}),
        ("studies/compound_spmv/figures/search.py", {"report", "compound_spmv figures"}),
        ("studies/compressed_coo/tables.py", {"report", "compressed_coo tables"}),
        ("problems/generators.py", {"problems"}),
        ("campaign/problem_files.py", {"problems"}),
        ("campaign/measurement.py", {"compound_spmv measure", "compressed_coo measure"}),
        # what measures is not what compiles or builds
        ("bench/timing.py", {"report", *OURS, *COO} - {"compound_spmv compile", "compressed_coo compile"}),
        ("tuning/session.py", {"report", *OURS, *COO} - {"compound_spmv compile", "compressed_coo compile"}),
        ("sparse/operands.py", {"report", *OURS, *COO} - {"compound_spmv compile", "compressed_coo compile"}),
        ("sparse/solvers/kernels.py", {"report", *OURS, *COO}),
        ("entries/builtin.py", ALL - {"common"}),
        ("errors.py", ALL),
        ("operators/spmv.py", set()),
        ("cli/app.py", set()),
    ],
)
def test_an_edit_repeats_what_it_can_change(edited: str, repeated: set[str], steps: dict[str, frozenset[Path]]) -> None:
    assert (PACKAGE / edited).is_file()
    assert set(steps) == ALL
    assert {step for step, files in steps.items() if PACKAGE / edited in files} == repeated


@pytest.mark.parametrize("study", all_studies())
def test_no_edit_of_what_presents_repeats_what_measures(study: str) -> None:
    # a study says which columns its published files have, which `results/published.py` reads
    presents = ("results/", *(f"studies/{study}/{what}" for what in ("results", "tables", "figures")))
    files = {
        path.relative_to(PACKAGE).as_posix()
        for path in receipts.code_files("repro.campaign.measurement", f"repro.studies.{study}.study").values()
        if path.relative_to(PACKAGE).as_posix().startswith(presents)
    }
    assert files <= {"results/__init__.py", "results/published.py"}


def test_one_module_loads_what_is_in_a_folder() -> None:
    # the imports of a loop of its own would go unnoticed
    loops = {path for path in PACKAGE.rglob("*.py") if "iter_modules" in path.read_text()}
    assert loops == {PACKAGE / "plugins.py"}


def test_an_edit_of_a_copy_changes_its_hash(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "repro", ignore=shutil.ignore_patterns("__pycache__"))

    def hashes() -> dict[str, str]:
        code = """if True:
            import sys
            from repro.campaign.receipts import code_hash
            for study in sys.argv[1:]:
                print(study, code_hash("repro.campaign.measurement", f"repro.studies.{study}.study"))
        """
        said = subprocess.run(
            [sys.executable, "-c", code, *STUDIES],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        return dict(line.split() for line in said.splitlines())

    before = hashes()
    assert before == {
        study: receipts.code_hash("repro.campaign.measurement", f"repro.studies.{study}.study") for study in STUDIES
    }
    with (tmp_path / "repro/sparse/compound/outer/builtin.py").open("a") as file:
        file.write("\nEDITED = True\n")
    after = hashes()
    assert after["compound_spmv"] != before["compound_spmv"]
    assert after["compressed_coo"] == before["compressed_coo"]
