"""Which commit measured a record: found by the hash of the source, in the history of a repository."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.bench.campaign_folder import COMMITS, CampaignFolder
from repro.bench.environment import package_hash
from repro.bench.records import code_count, code_of, code_words, read_commits, read_environments
from repro.campaign.archive import find_commits, record_commits
from repro.cli.records import record
from repro.errors import ReproError
from support.campaigns import recorded_campaigns

FILES = {
    "src/repro/a.py": "first",
    "src/repro/a/b.py": "second",
    "src/repro/a-c.py": "third",
    "src/repro/words.j2": "no code",
    "kernels/common/x.cl.j2": "a template",
    "kernels/common/x.h": "a header",
    "README.md": "of no interest",
}


def git(folder: Path, *words: str) -> str:
    author = ["-c", "user.name=A", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", folder, *author, *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def commit(tmp_path: Path) -> Callable[..., str]:
    """Commit changed files in a small repository, and return the commit."""
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q")

    def make(**changes: str) -> str:
        for name, text in changes.items():
            path = repository / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git(repository, "add", "-A")
        git(repository, "commit", "-q", "--allow-empty", "-m", "Change")
        return git(repository, "rev-parse", "HEAD").strip()

    return make


def hash_of_tree(repository: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a package in this folder would record of itself."""
    with monkeypatch.context() as patch:
        patch.setattr("repro.bench.environment.__file__", str(repository / "src/repro/bench/environment.py"))
        patch.chdir(repository)
        package_hash.cache_clear()
        found = package_hash()
    package_hash.cache_clear()
    return found


def test_the_commit_is_found_whose_files_have_the_hash(
    commit: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repository"
    first = commit(**FILES)
    old = hash_of_tree(repository, monkeypatch)
    second = commit(**{"kernels/common/x.h": "another header"})
    new = hash_of_tree(repository, monkeypatch)
    third = commit(**{"README.md": "other words"})
    (repository / "src/repro/a.py").write_text("not committed")
    dirty = hash_of_tree(repository, monkeypatch)
    assert len({old, new, dirty}) == 3
    found = find_commits({old: second, new: third, dirty: third}, repository)
    assert found == {old: first, new: third, dirty: None}
    assert find_commits({new: None}, repository) == {new: second}  # the oldest where none is stated
    assert find_commits({}, tmp_path) == {}


def test_a_folder_without_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="the git command failed"):
        find_commits({"0123": None}, tmp_path)


def environments(folder: Path, *records: dict[str, object]) -> list[str]:
    (folder / "raw/environment").mkdir(parents=True)
    names = []
    for number, content in enumerate(records):
        names.append(f"{number:016x}")
        (folder / f"raw/environment/{names[-1]}.json").write_text(json.dumps(content))
    return names


def test_a_record_says_which_commit_or_that_there_is_none(
    commit: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repository, folder = tmp_path / "repository", tmp_path / "results/made"
    known = commit(**FILES)
    source = hash_of_tree(repository, monkeypatch)
    names = environments(
        folder,
        {"source": source, "commit": "b" * 40, "dirty": True},
        {"source": "f" * 16, "commit": known, "dirty": True},
        {"device": "some"},
        {"source": "e" * 16, "repro": "0.1.0"},
    )
    before = code_of(read_environments(CampaignFolder(folder)), read_commits(CampaignFolder(folder)))
    assert list(before) == [
        f"commit {'b' * 12} with changes",
        f"commit {known[:12]} with changes",
        "no commit is recorded",
        "no commit is recorded, of version 0.1.0",
    ]
    monkeypatch.setattr("repro.bench.environment.checkout", lambda: repository)
    with pytest.raises(ReproError, match="in no commit") as refused:
        record("made", results=tmp_path / "results")
    assert f"{'e' * 16}, {'f' * 16}" in str(refused.value) and not (folder / COMMITS).exists()
    record("made", uncommitted=True, results=tmp_path / "results")
    said = capsys.readouterr().out
    assert f"commit {known[:12]}: environment {names[0]}" in said
    changed = f"code that no commit of the history has, changed from commit {known[:12]}"
    assert f"{changed}: environment {names[1]}" in said
    assert json.loads((folder / COMMITS).read_text()) == {source: known, "f" * 16: None, "e" * 16: None}
    codes = code_of(read_environments(CampaignFolder(folder)), read_commits(CampaignFolder(folder)))
    assert code_words(codes) == (
        f"commit {known[:12]}; {changed}: 1 of 4 environments; no commit is recorded: 1 of 4 environments; "
        "code that no commit of the history has, of version 0.1.0: 1 of 4 environments"
    )
    # in a clone with less history what was found stays
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    kept = {source: known, "f" * 16: None, "e" * 16: None}
    assert record_commits(CampaignFolder(folder), other) == kept


def test_the_head_of_a_report_counts_commits_and_names_a_single_one() -> None:
    codes = {f"commit {letter}": [letter] for letter in "abcde"}
    assert code_words(codes) == "commit a, commit b, commit c, commit d, commit e"
    assert code_count(codes) == "5 commits"
    assert code_count(codes | {"no commit is recorded": ["f", "g"]}) == "5 commits, 2 environments without one"
    assert code_count({"commit a": ["a"], "no commit is recorded": ["b"]}) == "1 commit, 1 environment without one"
    assert code_count({"commit a": ["a", "b"]}) == "commit a" and code_count({}) == code_words({}) == "not recorded"


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '{"a": "two words"}'])
def test_a_damaged_file_of_commits_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / COMMITS).write_text(text)
    with pytest.raises(ReproError, match="the list of commits in a record cannot be read"):
        read_commits(CampaignFolder(tmp_path))


def test_every_record_says_of_which_commit_its_code_is(request: pytest.FixtureRequest) -> None:
    results = request.config.rootpath / "results"
    for name in recorded_campaigns():
        sources = {one["source"] for one in read_environments(CampaignFolder.of(name, results)).values()}
        assert set(read_commits(CampaignFolder.of(name, results))) == sources
