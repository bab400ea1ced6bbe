"""Reading the published numbers of a study, and its targets: whole, damaged and missing."""

from pathlib import Path

import pytest

from repro.errors import ReproError
from repro.results.published import Published

FILES = {"sizes": ("problem", "entry", "rows"), "devices": ("gpu",)}
TARGETS = ("quantity", "wanted")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    contents = {
        "published/made_up/sizes.csv": "problem,entry,rows\nnut,block3,9095\nbunny,quaternion,34834\n",
        "published/made_up/devices.csv": "gpu\nK2000\nGP100\n",
        "targets/made_up.csv": "quantity,wanted\nspeedup,1.50\n",
    }
    for name, text in contents.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_numbers_stay_as_they_are_printed(folder: Path) -> None:
    published = Published.load("made_up", FILES, TARGETS, folder)
    assert published["sizes"][0] == {"problem": "nut", "entry": "block3", "rows": "9095"}
    assert published.problems == {"nut": "block3", "bunny": "quaternion"}
    assert [device["gpu"] for device in published["devices"]] == ["K2000", "GP100"]
    assert published.targets == [{"quantity": "speedup", "wanted": "1.50"}]


def test_a_study_without_a_paper_or_targets_has_none(tmp_path: Path) -> None:
    published = Published.load("made_up", {}, folder=tmp_path)
    assert published == Published({}, []) and published.problems == {}


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("published/made_up/sizes.csv", "problem,kind,rows\n", r"the wrong columns(.|\n)*problem, entry, rows"),
        ("published/made_up/sizes.csv", "problem,entry,rows\nnut,block3\n", r"sizes.csv:2"),
        ("targets/made_up.csv", "quantity,wanted\nspeedup,1,5\n", "the wrong number of columns"),
        ("published/made_up/devices.csv", 'gpu\n"K2000\n', "cannot be read"),
        ("targets/made_up.csv", None, "the file of published numbers was not found"),
        ("published/made_up/sizes.csv", None, "the file of published numbers was not found"),
    ],
)
def test_damaged_and_missing_files_are_one_message(folder: Path, name: str, text: str | None, what: str) -> None:
    (folder / name).write_text(text) if text is not None else (folder / name).unlink()
    with pytest.raises(ReproError, match=what):
        Published.load("made_up", FILES, TARGETS, folder)
