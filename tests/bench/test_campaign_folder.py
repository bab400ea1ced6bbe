"""Where a campaign's files lie, as the page on the architecture draws it, and in one module alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from repro.bench.campaign_folder import CampaignFolder, step_file
from repro.errors import ReproError

REPOSITORY = Path(__file__).parents[2]
CASE = ("<study>", "<problem>", "<precision>")


def drawn() -> set[str]:
    """Return the paths that the page draws, relative to `results/<campaign>`."""
    text = (REPOSITORY / "docs/architecture.md").read_text()
    text = text[text.index("    results/<campaign>/\n") :]
    text = text[: text.index("    figures/")]
    folders: list[str] = []
    paths = set()
    for line in text.splitlines()[1:]:
        name = line[4:30].split("  ")  # two blanks a level
        depth = next((place for place, part in enumerate(name) if part), None)
        if depth is None or depth > 3:
            continue
        folders[depth - 1 :] = [line.split()[0].rstrip(",")]
        paths.add("/".join(part.rstrip("/") for part in folders))
    return paths


def test_files_lie_where_the_architecture_draws_them() -> None:
    folder = CampaignFolder.of("<campaign>", Path("results"))
    case = folder.case(*CASE)
    paths = [
        folder.config,
        folder.job_config("<hash>"),
        folder.problem("<problem>"),
        step_file(folder.store(*CASE), "rows").with_suffix(".jsonl"),
        folder.record("<problem>"),
        folder.environment("<hash>"),
        case,
        *(step_file(case, step) for step in ("search", "baseline", "report", "choices", "repeat", "counters")),
        step_file(folder.study("<study>"), "<step>"),
        folder.tables("<study>"),
        folder.complete,
        folder.commits,
        folder.notes,
        folder.page("report.html"),
        folder.batch("<study>").parent,
        folder.receipt("check").parent,
    ]
    assert {str(path.relative_to(folder.path)) for path in paths} - drawn() == set()


def test_no_other_module_spells_the_folders_of_a_campaign() -> None:
    """Joined by `/`, or as words of a path."""
    names = {"raw", "environment", "store"}
    spelt = []
    for path in (REPOSITORY / "src/repro").rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if any(f'"{name}"' in text for name in names) else ():
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                words = [node.right]
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("Path", "self.path.joinpath"):
                words = node.args
            else:
                continue
            spelt += [path.name for word in words if isinstance(word, ast.Constant) and word.value in names]
    assert set(spelt) == {"campaign_folder.py"}


@pytest.mark.parametrize("name", ["", ".hidden", "-option", "a/b", "..", "a b", "a\n", "a" * 300])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ReproError, match="invalid name of a campaign"):
        CampaignFolder.named(name)


def test_campaigns_are_those_with_measured_files(tmp_path: Path) -> None:
    for path in ("b/raw", "a/raw", "begun/problems", ".partial/raw"):
        (tmp_path / path).mkdir(parents=True)
    assert [folder.name for folder in CampaignFolder.measured(tmp_path)] == ["a", "b"]
