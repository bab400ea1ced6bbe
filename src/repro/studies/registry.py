"""Look-up of studies by name, and of the modules of each, which provide facts, tables, claims and figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING

from repro.errors import ReproError
from repro.extensions import STUDIES, Extension, extensions
from repro.studies.contract import Study
from repro.words import suggestion

if TYPE_CHECKING:
    from repro.problems.problem import Problem  # other steps build problems

#: The package of the project's own studies, each in a folder.
PACKAGE = __name__.rpartition(".")[0]


def study_names() -> tuple[str, ...]:
    """Return the names of all studies: folders next to this file with a `study.py`, and those of extensions."""
    return tuple(sorted([*_own_names(), *_extensions()]))


def _own_names() -> list[str]:
    return [path.parent.name for path in Path(__file__).parent.glob("*/study.py")]


@cache
def _extensions() -> Mapping[str, Extension]:
    """Return the studies of extensions (other packages) by name; raise an error for a name that is taken or invalid."""
    extensions_by_name: dict[str, Extension] = {}
    for extension in extensions(STUDIES):
        if extension.name in (*_own_names(), *extensions_by_name):
            raise extension.error("a study of this name already exists", actual=extension.name)
        if not re.fullmatch(r"[a-z][a-z0-9_]*", extension.name):
            raise extension.error(
                "not a valid name for a study", expected="lower-case letters, digits and _", actual=extension.name
            )
        extensions_by_name[extension.name] = extension
    return extensions_by_name


def study_module(name: str, part: str) -> str | None:
    """Return the full name of a study's module `part`, such as `study` or `tables`; None if the study has no such
    module.

    Raises
    ------
    ReproError
        The package of the study cannot be imported.
    """
    extension = _extensions().get(name)
    if extension is not None:
        extension.load()
    module = f"{_package(name)}.{part}"
    return module if find_spec(module) is not None else None


def _package(name: str) -> str:
    """Return the full name of a study's package."""
    extension = _extensions().get(name)
    return extension.module if extension else f"{PACKAGE}.{name}"


@cache
def get_study(name: str) -> Study:
    """Return the study with this name.

    Raises
    ------
    ReproError
        There is no such study, or its module has no object `STUDY` of its name.
    """
    if name not in study_names():
        raise ReproError(
            "unknown study",
            expected=f"one of {', '.join(study_names())}",
            actual=f"{name}{suggestion(name, study_names())}",
            todo="`repro list studies` shows which paper each one re-runs",
        )
    if (extension := _extensions().get(name)) is not None:
        return _study_of(extension)
    module = f"{PACKAGE}.{name}.study"
    todo = "give `STUDY` the name of its folder, or the folder that of `STUDY`"
    return _study_in(module, name, partial(ReproError, where=module, todo=todo))


def _study_of(extension: Extension) -> Study:
    """Return the study of an extension; raise an error if its name differs from the entry point's."""
    extension.load()
    part = replace(extension, module=f"{extension.module}.study")
    part.load()
    return _study_in(part.module, extension.name, part.error)


def _study_in(module: str, name: str, error: Callable[..., ReproError]) -> Study:
    """Return the object `STUDY` of a module; raise an error made by `error` if it is missing or has another name."""
    study = getattr(import_module(module), "STUDY", None)
    if not isinstance(study, Study) or study.name != name:
        expected = f"an object STUDY of a subclass of repro.studies.Study, whose name is {name}"
        raise error("a module without the study", expected=expected, actual=getattr(study, "name", study))
    return study


def failed_line(failure: BaseException) -> str | None:
    """Return the innermost line of a study that an exception passed, as `path:line`; None if it passed none."""
    packages = tuple(f"{_package(name)}." for name in study_names())
    folder, place = Path.cwd(), None
    for frame, line in walk_tb(failure.__traceback__):
        module = str(frame.f_globals.get("__name__"))
        if module.startswith(packages):
            path = Path(frame.f_code.co_filename)
            # for an extension, the path from the folder that contains its package
            parts = path.parts[-module.count(".") - 1 :]
            place = f"{path.relative_to(folder) if path.is_relative_to(folder) else Path(*parts)}:{line}"
    return place


def study_facts(problem: Problem) -> dict[str, Mapping[str, object]]:
    """Return, for each study, the additional data of a problem for its tables: the result of `facts()` in `facts.py`.

    `facts.py` is a separate module, so that problems are rebuilt after an edit of it but not of other study code.
    """
    facts_by_study = {}
    for name in study_names():
        module = study_module(name, "facts")
        if module is not None and (facts := import_module(module).facts(problem)):
            facts_by_study[name] = facts
    return facts_by_study


def check_facts(study_name: str, facts: Mapping[str, object]) -> None:
    """Validate facts of a study by the model `Facts` in its `facts.py`, if there is one.

    Raises
    ------
    pydantic.ValidationError
        The facts do not fit the model.
    """
    module = study_module(study_name, "facts")
    if module is not None and (model := getattr(import_module(module), "Facts", None)):
        model.model_validate(facts, strict=True)


@cache
def load_artifacts(name: str) -> None:
    """Import the modules `tables`, `claims` and `figures` of a study, if present, which register artifacts.

    If such a module is a folder, its `__init__` imports all files in it; see `repro.plugins`. Studies themselves are
    not imported that way, because their package contains all of them.
    """
    for part in ("tables", "claims", "figures"):
        if (module := study_module(name, part)) is not None:
            import_module(module)
