"""Finding studies by name, and the line of a study's code at which an exception began."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from repro.cli.app import reason_of
from repro.codegen.targets import CPU, Target
from repro.errors import ReproError
from repro.studies import Study, get_study

REPOSITORY = Path(__file__).parents[2]
STUDY, KEY = "compressed_coo", "paper/double/COO"


def test_a_study_of_another_name_than_its_folders_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get_study(STUDY), "name", "compresed_coo")
    get_study.cache_clear()
    with pytest.raises(ReproError, match=rf"whose name is {STUDY}\n  actual: compresed_coo\n.*that of `STUDY`"):
        get_study(STUDY)


def test_matplotlib_is_imported_where_a_figure_is_drawn_and_not_where_its_name_is_asked_for() -> None:
    code = (
        "import sys\n"
        "from repro.studies import load_artifacts, study_names\n"
        "for name in study_names():\n    load_artifacts(name)\n"
        "print('matplotlib' in sys.modules)\n"
        "from repro.results import plotting\n"
        "print(all(getattr(plotting, name) for name in plotting.__all__))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", "True"]


@pytest.mark.parametrize(("folder", "place"), [(REPOSITORY, "src/repro"), (REPOSITORY / "docs", "repro")])
def test_a_bug_in_a_studys_code_is_told_with_its_line(
    monkeypatch: pytest.MonkeyPatch, folder: Path, place: str
) -> None:
    def trip(*_: object, **names: object) -> None:
        raise ValueError("too many values\nto unpack")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(f"repro.studies.{STUDY}.kernels.render_template", trip)
    with pytest.raises(ValueError, match="too many") as failure:
        get_study(STUDY).render(REPOSITORY / "kernels", KEY, CPU)
    file = re.escape(f"{place}/studies/{STUDY}/kernels.py")
    assert re.fullmatch(rf"ValueError: too many values \(at {file}:\d+\)\nto unpack", reason_of(failure.value))


class Misspelt(Study):
    name = "transp"

    def rendr(self, templates: Path, key: str, target: Target) -> str:
        return ""


class OfOneKey(Study):
    name = "transp"

    def render(self, templates: Path, key: str, target: Target) -> str:
        return super().render(templates, key, target)


@pytest.mark.parametrize(
    ("kind", "words"),
    [(Misspelt, "`transp` overrides no `render`"), (OfOneKey, "the study has no module with this key")],
)
def test_a_study_without_render_is_told_from_one_without_a_key(kind: type[Study], words: str) -> None:
    with pytest.raises(ReproError, match=words):
        kind().render(REPOSITORY / "kernels", KEY, CPU)


def test_a_bug_elsewhere_is_told_without_a_line() -> None:
    assert reason_of(ZeroDivisionError("by 0")) == "ZeroDivisionError: by 0"
