"""What the pages name is there: commands with their options, make's targets, files, links."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import tokenize
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from repro.bench.rows import STATUSES, Row
from repro.campaign.artifacts import all_artifacts
from repro.campaign.configuration import load
from repro.cli.app import COMMANDS, build
from repro.extensions import LOADERS, STUDIES
from repro.results.common_tables import BASELINES, TIMES
from repro.studies import study_names
from support.pages import HOW_TO, PAGES, REPOSITORY, blocks, commands

#: Trees of studies that are laid over a checkout.
LAID_OVER = (REPOSITORY / "tests/product_study", REPOSITORY / "tests/small_study")
ROOTS = ("src", "config", "docs", "kernels", "tests", "workflow", "profiles")
TARGETS = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))


def words(page: Path, program: str) -> list[list[str]]:
    """Return the words after a program's name, for each command line of a page that calls it."""
    found = []
    for line in commands(page):
        call = re.sub(r"^([A-Z_]+=\S+ )+", "", line)
        if call.startswith(f"{program} ") and "…" not in call:
            found.append(shlex.split(call)[1:])
    return found


def written(page: Path) -> set[str]:
    """Return the files that the examples of a page write, and those of the trees that it lays over a checkout."""
    laid_over = {
        path.relative_to(tree).as_posix()
        for tree in LAID_OVER
        if str(tree.relative_to(REPOSITORY)) in page.read_text()
        for path in tree.rglob("*.*")
    }
    return laid_over | {block.path for block in blocks(page) if block.how == "write" and block.path}


@pages
def test_every_command_of_repro_is_there_with_its_options(page):
    known = get_command(build()).commands
    for name, *arguments in words(page, "repro"):
        if name == "COMMAND":
            continue
        assert name in COMMANDS, f"repro {name}"
        options = {
            "--help",
            *(option for parameter in known[name].params for option in (*parameter.opts, *parameter.secondary_opts)),
        }
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments  # others are another program's
        used = {argument.split("=")[0] for argument in own if argument.startswith("-")}
        assert used <= options, f"repro {name} has no {used - options}"


@pages
def test_every_target_of_make_is_there(page):
    for target, *_ in words(page, "make"):
        assert target in TARGETS, f"make {target}"


def test_the_page_on_installing_says_what_make_runs():
    recipe = (REPOSITORY / "Makefile").read_text().replace("$(N)", "N").replace(" $(ARGS)", "")
    (pytest_command,) = re.findall(r"^PYTEST = (.+)$", recipe, re.MULTILINE)
    recipe = recipe.replace("$(PYTEST)", pytest_command)
    run = [
        line
        for line in commands(REPOSITORY / "docs/installing.md")
        if line.startswith(("snakemake --cores N", "pytest -n N"))
    ]
    assert len(run) == 2
    for line in run:
        assert f"$(RUN) {line}\n" in recipe, line


@pages
def test_every_configuration_file_that_is_given_can_be_read(page, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    for arguments in (*words(page, "snakemake"), *words(page, "repro")):
        for option, value in pairwise(arguments):
            if option in ("--configfile", "--config") and value.startswith("config/") and value not in written(page):
                load(Path(value))


@pages
def test_every_file_that_is_named_is_there(page):
    named = re.findall(rf"`((?:{'|'.join(ROOTS)})/[\w./-]+)`", page.read_text())
    missing = {name for name in named if not (REPOSITORY / name).exists()} - written(page)
    # pages name files of a configuration beside it
    assert not {name for name in missing if not (page.parent / name).exists()}


def test_a_name_that_is_said_to_be_in_a_file_is_in_it():
    said = {
        (page.name, *found)
        for page in HOW_TO
        for found in re.findall(r"`(\w+)`[\w\s]{0,20}(?:in|of|\()\s*`([\w./-]+\.(?:py|j2))`", page.read_text())
    }
    assert len(said) >= 8
    files = {name: REPOSITORY / name for *_, name in said}
    assert {
        (page, word, name) for page, word, name in said if not re.search(rf"\b{word}\b", files[name].read_text())
    } == set()


@pages
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        other = page.parent / path if path else page
        assert other.exists(), target
        if not anchor:
            continue
        headings = {
            re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", other.read_text(), re.MULTILINE)
        }
        assert anchor in headings, target


@pages
def test_lines_are_no_longer_than_elsewhere(page):
    long = [
        line
        for line in page.read_text().splitlines()
        if len(line) > 120 and not line.startswith("|") and "](" not in line
    ]
    assert not long


def test_the_map_leads_to_every_page_and_the_navigation_to_every_decision():
    docs = REPOSITORY / "docs"
    map_of = (docs / "index.md").read_text()
    assert not [page.name for page in docs.glob("*.md") if page.name != "index.md" and f"({page.name})" not in map_of]
    assert not [page.name for page in docs.glob("reference/*.md") if f"(reference/{page.name})" not in map_of]
    navigation = (REPOSITORY / "mkdocs.yml").read_text()
    assert not [page.name for page in docs.glob("*.md") if f"- {page.name}\n" not in navigation]
    assert "- Decisions: adr\n" in navigation  # all of the folder: docs/site_links.py
    numbers = sorted(int(page.name.partition("-")[0]) for page in docs.glob("adr/*.md"))
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_types_that_flow_are_in_the_modules_that_the_architecture_names():
    architecture = (REPOSITORY / "docs/architecture.md").read_text()
    types = architecture.partition("## The types that flow\n")[2].partition("\n## ")[0]
    found = re.findall(r"^ {4,6}([A-Z]\w+) +(\w+/\w+\.py) ", types, re.MULTILINE)
    assert len(found) == len(re.findall(r"^ {4,6}[A-Z]", types, re.MULTILINE)) > 10
    for name, module in found:
        assert re.search(rf"^class {name}\b", (REPOSITORY / "src/repro" / module).read_text(), re.MULTILINE), name


@pytest.mark.parametrize("path", ["Reproduce", "Use", "Extend"])
def test_each_path_is_a_thread_from_its_first_page_to_its_last(path):
    navigation = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())["nav"]
    (names,) = (part[path] for part in navigation if path in part)
    names = [name for name in names if isinstance(name, str)]
    for name, following in pairwise(names):
        last = (REPOSITORY / "docs" / name).read_text().rstrip().rpartition("\n\n")[2]
        assert re.fullmatch(r"Next: \[[^]]+\]\(([\w-]+\.md)\)\.", last)[1] == following, name
    on_map = (REPOSITORY / "docs/index.md").read_text().partition(f"## {path}\n")[2].partition("\n## ")[0]
    assert re.findall(r"\]\(([\w-]+\.md)\)", on_map) == names


def test_every_how_to_page_is_linked_from_the_readme():
    readme = (REPOSITORY / "README.md").read_text()
    assert HOW_TO
    assert all(f"docs/{page.name}" in readme for page in HOW_TO)


SOURCES = [
    path
    for folder in ("src", "tests", "kernels", "workflow", "config", "examples")
    for path in sorted((REPOSITORY / folder).rglob("*"))
    if path.suffix in (".py", ".j2", ".smk", ".yaml", ".rst")
]
# a path that is not glued to something before it, nor a pattern
PATH = re.compile(
    r"(?<![\w./<>{}*\"'-])(?:src/repro|config|docs|kernels|tests|workflow|profiles)/[\w./-]*\w(?![\w./-]*[<{*])"
)


DOTTED = re.compile(r"`(repro(?:\.\w+)+)`")


def remarks(path: Path) -> str:
    """Return the comments and docstrings of a source, or all of a text that is none."""
    if path.suffix != ".py":
        return path.read_text()
    with tokenize.open(path) as file:
        said = [token.string for token in tokenize.generate_tokens(file.readline) if token.type == tokenize.COMMENT]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, documented)]
    return "\n".join([*said, *(ast.get_docstring(node) or "" for node in nodes)])


def named_by(pattern: re.Pattern[str], path: Path) -> list[str]:
    """Return what comments and docstrings of a file name; only a file that has such a name at all is parsed."""
    return sorted(set(pattern.findall(remarks(path)))) if pattern.search(path.read_text()) else []


def test_every_file_that_a_comment_or_docstring_names_is_there():
    missing = [
        f"{source.relative_to(REPOSITORY)}: {name}"
        for source in SOURCES
        for name in named_by(PATH, source)
        if not any((folder / name).exists() for folder in (REPOSITORY, *LAID_OVER))
    ]
    assert not missing


def test_every_dotted_name_of_pages_and_docstrings_is_there():
    missing = [
        f"{source.relative_to(REPOSITORY)}: {name}"
        for source in (*PAGES, *SOURCES)
        for name in named_by(DOTTED, source)
        if not names_something(name)
    ]
    assert not missing


def names_something(name: str) -> bool:
    """Say whether a dotted name is a module, what a module holds, an attribute of that, or a group of entry points."""
    if name in (STUDIES, *LOADERS):
        return True
    module, *parts = name.split(".")
    while parts and find_spec(f"{module}.{parts[0]}"):
        module = f"{module}.{parts.pop(0)}"
        if module == "repro.torch" and find_spec("torch") is None:
            return True  # it cannot be imported without PyTorch
        if not hasattr(import_module(module), "__path__"):
            break
    held: object = import_module(module)
    for part in parts:
        if part not in getattr(held, "__annotations__", {}) and not hasattr(held, part):
            return False
        held = getattr(held, part, None)
    return True


def test_statuses_and_columns_of_the_page_on_tables_are_the_rows_own():
    text = (REPOSITORY / "docs/reading-the-tables.md").read_text()
    table = text.split("A row's `status`:")[1].split("##")[0]
    named = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert named == set(STATUSES)
    columns = re.search(r"\[\[(.*?)\]\]", text)[1]
    assert set(re.findall(r'"(\w+)"', columns)) <= set(inspect.signature(Row).parameters)


def test_artifacts_that_pages_name_are_there():
    there = {artifact.name for study in study_names() for artifact in all_artifacts(study)}
    named = {name for page in PAGES for name in re.findall(r"`((?:table|figure)-[\w-]+)`", page.read_text())}
    assert named
    assert named <= there | {TIMES, BASELINES}


def test_the_words_of_the_glossary_are_in_the_order_of_the_alphabet():
    _, words_of_glossary = (REPOSITORY / "docs/glossary.md").read_text().split("\n## Words\n")
    heads = [head.lower() for head in re.findall(r"^- \*\*`?(.+?)\*\*", words_of_glossary, re.MULTILINE)]
    assert heads == sorted(heads) and len(heads) > 40
