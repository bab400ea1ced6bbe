"""The layers hold, and the check that says so can fail; no file outgrows what can be read in one sitting."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
MAX_COLUMNS = 120
LONGEST = 800


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package, and of the contracts that it keeps."""
    shutil.copytree(REPOSITORY / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    return tmp_path


def lint(folder: Path) -> tuple[int, str]:
    """Return what `lint-imports` says of a copy, and whether it is content (0)."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


#: Layers above the studies; and the module of the others that may name one.
ABOVE_STUDIES = ("cli", "campaign", "studies")
NAMED = {"export/campaign_choice.py": {"compound_spmv"}}


def named_studies(source: str, studies: set[str]) -> set[str]:
    """Return the studies that a module names in its strings, other than docstrings and names of modules.

    A name without an underscore may be a word of a sentence: it has to be a whole string or a part of a path.
    """
    tree = ast.parse(source)
    texts = {
        id(node): node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            texts.pop(id(node.value), None)
    words = {word for text in texts.values() for word in re.findall(r"(?<![\w.])\w+", text)}
    parts = {part for text in texts.values() for part in text.split("/")}
    return {study for study in studies if study in (words if "_" in study else parts)}


def test_layers_below_the_studies_name_none_of_them_but_where_it_is_listed() -> None:
    package = REPOSITORY / "src/repro"
    studies = {path.parent.name for path in package.glob("studies/*/study.py")}
    assert len(studies) == 6
    named = {
        str(path.relative_to(package)): found
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] not in ABOVE_STUDIES
        and (found := named_studies(path.read_text(), studies))
    }
    assert named == NAMED


def test_a_name_of_a_study_in_a_string_is_seen() -> None:
    source = '"""Of a_1."""\nimport a_1\nkey = f"b_1/{key}, c"\nmodule = "repro.a_1"\npath = "raw/d/e f"\n'
    assert named_studies(source, {"a_1", "b_1", "c", "d", "e"}) == {"b_1", "d"}


def test_the_layers_hold(copy: Path) -> None:
    code, said = lint(copy)
    assert code == 0, said


@pytest.mark.parametrize(
    ("module", "line", "contract", "imported"),
    [
        (
            "bench.trial",
            "from repro.studies.compound_spmv import study",
            "Nothing imports upwards",
            "studies.compound_spmv.study",
        ),
        ("problems.builder", "def later(): import repro.sparse.operands", "Nothing imports upwards", "sparse.operands"),
        (
            "studies.compressed_coo.study",
            "from repro.studies.compound_spmv import results",
            "No study imports another",
            "studies.compound_spmv.results",
        ),
    ],
)
def test_an_import_that_breaks_a_contract_is_named(
    copy: Path, module: str, line: str, contract: str, imported: str
) -> None:
    with (copy / "src/repro" / module.replace(".", "/")).with_suffix(".py").open("a") as file:
        file.write(f"\n{line}\n")
    code, said = lint(copy)
    assert code != 0
    assert f"{contract} BROKEN" in said
    assert f"repro.{module} -> repro.{imported}" in said


def test_a_package_without_a_layer_is_named(copy: Path) -> None:
    (copy / "src/repro/elsewhere").mkdir()
    (copy / "src/repro/elsewhere/__init__.py").touch()
    code, said = lint(copy)
    assert code != 0
    assert "repro.elsewhere" in said


def test_no_file_is_too_long() -> None:
    files = [
        *(path for folder in ("src", "tests") for path in (REPOSITORY / folder).rglob("*.py")),
        *(REPOSITORY / "kernels").rglob("*.j2"),
    ]
    lines = {str(path.relative_to(REPOSITORY)): len(path.read_text().splitlines()) for path in files}
    assert lines
    assert {path: count for path, count in lines.items() if count > LONGEST} == {}


def test_no_line_of_a_template_is_long() -> None:
    templates = [path for folder in ("kernels", "examples", "tests") for path in (REPOSITORY / folder).rglob("*.j2")]
    files = [*templates, *(REPOSITORY / "kernels").rglob("*.h")]
    assert len(files) > 80
    lines = {str(path.relative_to(REPOSITORY)): path.read_text().splitlines() for path in files}
    assert [(path, line) for path, of_file in lines.items() for line in of_file if len(line) > MAX_COLUMNS] == []


def properties(tree: ast.Module) -> list[ast.FunctionDef]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    decorators = [{ast.unparse(decorator) for decorator in function.decorator_list} for function in functions]
    return [each for each, names in zip(functions, decorators, strict=True) if names & {"property", "cached_property"}]


def test_docstrings_of_properties_are_nouns() -> None:
    verbs = [
        f"{path}:{node.lineno}"
        for path in (REPOSITORY / "src").rglob("*.py")
        for node in properties(ast.parse(path.read_text("utf-8")))
        if (ast.get_docstring(node) or "").startswith("Return ")
    ]
    assert not verbs


def test_files_that_templates_and_comments_name_exist() -> None:
    source = [path for folder in ("src", "tests", "tools") for path in (REPOSITORY / folder).rglob("*.py")]
    templates = list((REPOSITORY / "kernels").rglob("*.j2"))
    texts = {path: path.read_text() for path in templates}
    texts |= {path: "\n".join(re.findall(r"#[^\n]*", path.read_text())) for path in source if "src" in path.parts}
    # names end at a "/" on the left, so that a path is compared from its end on
    known = [f"/{path.relative_to(REPOSITORY)}" for path in [*source, *templates]]
    names = {
        (str(path.relative_to(REPOSITORY)), name)
        for path, text in texts.items()
        for name in re.findall(r"(?<![\w./}*-])([\w./-]*\w\.(?:py|j2))\b", text)
    }
    assert len(names) > 100
    assert [(path, name) for path, name in sorted(names) if not any(file.endswith(f"/{name}") for file in known)] == []
