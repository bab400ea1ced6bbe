"""The census counts correctly on small packages."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[1] / "tools/census.py"


@pytest.fixture(scope="module")
def census() -> ModuleType:
    spec = spec_from_file_location("census", FILE)
    module = module_from_spec(spec)
    sys.modules["census"] = module
    spec.loader.exec_module(module)
    return module


def sources(census: ModuleType, folder: Path, **texts: str) -> list:
    """Write a package, modules by their names with `__` for a dot, and read it."""
    for name, text in texts.items():
        path = folder / "repro" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return census.read(folder)


def test_modules_that_only_export_are_left_out(census: ModuleType, tmp_path: Path) -> None:
    sources(census, tmp_path, a="x = 1\n" * 7)
    for name, text in (("b", '"""B."""\n\nfrom repro import a\n\n__all__ = ["a"]\n'), ("c", "x = 1\n")):
        (tmp_path / "repro" / name).mkdir()
        (tmp_path / "repro" / name / "__init__.py").write_text(text)
    assert sorted(census.module_lines(census.read(tmp_path))) == [1, 7]
    assert census.long_modules(census.read(tmp_path), most=6) == ["repro.a"]


DOCUMENTED = '''"""Two
lines."""

class A:
    field: int
    """One."""

    def method(self):
        """One."""
        def nested():
            return "no docstring"
        return nested
'''


def test_functions_and_docstrings_have_their_lines(census: ModuleType, tmp_path: Path) -> None:
    found = sources(census, tmp_path, a=DOCUMENTED)
    assert census.function_lines(found) == [5, 2]
    assert census.docstring_lines(found) == 4


def test_ids_are_parsed_where_a_class_is_asked(census: ModuleType, tmp_path: Path) -> None:
    text = "import ast\nast.parse('1')\nVariantId.parse(text)\n[*map(ids.Layout.parse, texts)]\n"
    assert sorted(census.parse_calls(sources(census, tmp_path, a=text))) == ["repro.a:3", "repro.a:4"]


ROWS = """
def read(row, case, item: Record, published):
    match = PATTERN.fullmatch(text)
    row["status"], case.rows["status"], case.rows[["status", "kind"]], row.get("kind", 0)  # these count
    row["other"], item["status"], match["status"], case.facts["status"], [i["kind"] for i in published["x"]]
    row["status"] = 1

def other(item):
    return item["status"]  # and this one
"""


def test_rows_are_read_by_the_names_of_their_columns(census: ModuleType, tmp_path: Path) -> None:
    found = sources(census, tmp_path, studies__a=ROWS, bench__b=ROWS)
    there = census.row_keys(found, {"status", "kind"})
    assert sorted(there) == ["repro.studies.a:4"] * 4 + ["repro.studies.a:9"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("row.event_median", True),
        ("Row(event_median=1)", True),
        ("x = 'graph_samples'", True),
        ("f'{clock}_median'", True),
        ("f'event_{quantile}'", True),
        ("f'{clock}_medians'", False),
        ("'''event_median'''", False),
        ("row.median('event')", False),
    ],
)
def test_a_time_is_named_by_its_column(census: ModuleType, tmp_path: Path, text: str, names: bool) -> None:
    found = sources(census, tmp_path, a=text)
    assert bool(census.time_files(found, {"event_median", "graph_samples"})) == names


def test_circles_are_what_reaches_itself(census: ModuleType) -> None:
    edges = {"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a", "e"], "e": []}
    assert census.circles(edges) == [["b", "c"]]


def test_packages_import_what_their_modules_import(census: ModuleType) -> None:
    imports = {"repro": {"repro.a.x"}, "repro.a": set(), "repro.a.x": {"repro.a.b.y", "repro"}, "repro.a.b.y": set()}
    assert census.package_imports(imports) == {"repro.a": {"repro.a.b"}}


def test_imports_upwards_are_named(census: ModuleType) -> None:
    imports = {
        "repro": {"repro.high"},
        "repro.high.y": {"repro.low.x"},
        "repro.low.x": {"repro.high.y", "repro.same.z"},
    }
    assert census.upward_imports(imports, ["high", "low | same"]) == ["repro.low.x -> repro.high.y"]


def test_what_is_taken_away_asks_for_a_study(census: ModuleType) -> None:
    imports = {"repro.export.a": {"repro.studies.one", "repro.bench"}, "repro.cli": {"repro.studies"}}
    assert census.study_imports(imports) == ["repro.export.a -> repro.studies.one"]


def test_the_table_has_a_line_each_with_the_places_that_were_asked_for(census: ModuleType) -> None:
    lines = [census.Line("rows", 3, 2, limit=4, places=("a:1", "b:2")), census.Line("median", 9, 9, at_least=True)]
    said = census.table(lines, lambda line: line.what == "rows").splitlines()
    assert said[2].split() == ["rows", "3", "≤", "2", "≤", "4", "not", "yet"]
    assert said[3:5] == ["    a:1", "    b:2"]
    assert said[5].split() == ["median", "9", "≥", "9", "≥", "9"]


def test_no_number_of_this_project_is_further_from_its_target_than_today(census: ModuleType) -> None:
    assert not [line for line in census.census() if not line.is_held]
