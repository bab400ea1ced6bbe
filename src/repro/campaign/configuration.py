"""A campaign's configuration, read from files.

Later files override earlier ones. A missing key gets the default of its Pydantic model; for a study's settings, the
optional file `config/studies/<study>.yaml` overrides this default. Only studies named in a file are run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, create_model

from repro.config import Source, merge, named, position, read, read_mapping, resolve_input_path, validate
from repro.config.models import Config, Model, StudySettings
from repro.config.validation_errors import shown
from repro.errors import ReproError
from repro.package_data import shipped
from repro.studies import get_study, study_names
from repro.words import shorten, suggestion


def check_study(config: Config, study_name: str) -> None:
    if study_name not in config.studies:
        raise ReproError(
            "unknown study",
            where=f"campaign {config.campaign}: studies",
            expected=f"one of {', '.join(config.studies)}",
            actual=f"{study_name}{suggestion(study_name, config.studies)}",
            todo="name one of these, or pass a configuration that contains it with --config",
        )


STUDIES = "config/studies"


def config_model(studies: Iterable[str]) -> type[Config]:
    """Return a configuration model in which the settings of each study have the study's own model."""
    fields: dict[str, Any] = {}
    for name in studies:
        study = get_study(name)
        model = study.settings or StudySettings
        fields[name] = (model, Field(default_factory=model, description=study.title or name))
    study_fields_model = create_model("Studies", __base__=Model, **fields)
    about = Field(description=Config.model_fields["studies"].description)
    return create_model("Config", __base__=Config, __doc__=Config.__doc__, studies=(study_fields_model, about))


def resolve(data: Mapping[str, Any], source: Source = "the configuration") -> Config:
    """Return the validated configuration with the defaults of each study; studies with the value `false` are omitted.

    `source` is the origin of `data` that error messages name: the merged files, or a description. A relative path of an
    input starts in the folder of the file that has it; if it does not exist there, in the current folder. Raises
    `ReproError`: unknown keys, wrong values, no study, an unknown study or one without problems.
    """
    data = dict(data)
    for path in () if isinstance(source, str) else map(shipped, reversed(source)):
        data = _place_inputs(data, read_mapping(path), path.parent)
    study_overrides = data.get("studies")
    offered_studies = study_names()
    if study_overrides is not None and not isinstance(study_overrides, Mapping):
        raise ReproError(
            "invalid configuration",
            where=f"{position(source, ('studies',)) or f'{named(source)}: '}studies",
            expected=f"a mapping with some of the studies {', '.join(offered_studies)}",
            actual=shown(study_overrides),
            todo=f"write `studies: {{{offered_studies[0]}: {{}}}}`",
        )
    studies = {}
    for name, study_override in (study_overrides or {}).items():
        if name not in offered_studies:
            raise ReproError(
                "unknown study",
                where=f"{position(source, ('studies', str(name))) or f'{named(source)}: '}studies",
                expected=f"one of {', '.join(offered_studies)}",
                actual=f"{shorten(str(name))}{suggestion(name, offered_studies)}",
                todo="`repro list studies` shows which paper each one re-runs",
            )
        if study_override is not False:
            studies[name] = _settings(name, study_override, source)
    if not studies:
        # first report other mistakes that may be the cause, for example a study's settings at the top level
        validate(Config, {**data, "studies": {"any": {}}}, source)
        raise ReproError(
            "the configuration names no study to run",
            where=f"{named(source)}: studies",
            expected=f"at least one of {', '.join(offered_studies)}",
            actual=shown(study_overrides) if study_overrides else "none",
            todo=f"add `studies: {{{offered_studies[0]}: {{}}}}`; each file is complete by itself; the studies of "
            "other files do not count",
        )
    fitting = dict(validate(config_model(studies), {**data, "studies": studies}, source))
    return Config.model_validate({**fitting, "studies": dict(fitting["studies"])})


#: Keys whose values are paths of inputs; of `python` what stands before the colon.
INPUT_PATHS = {"kernels", "registry", "mirrors", "path", "source", "library", "python", "tuned"}


def _place_inputs(value: Any, written: object, folder: Path, key: str = "") -> Any:
    """Return a value with the paths in it of inputs that lie in `folder`, whose file has `written` for the value.

    What comes from elsewhere, such as the command line or a later file, stays as it is.
    """
    if isinstance(value, Mapping) and isinstance(written, Mapping):
        return {name: _place_inputs(inner, written.get(name), folder, name) for name, inner in value.items()}
    if isinstance(value, list) and value == written:
        return [_place_inputs(inner, inner, folder, key) for inner in value]
    if isinstance(value, str) and value == written and key in INPUT_PATHS:
        path, colon, name = value.rpartition(":") if key == "python" else (value, "", "")
        return f"{resolve_input_path(folder, path)}{colon}{name}" if key != "python" or path.endswith(".py") else value
    return value


def _settings(name: str, override: object, source: Source) -> dict[str, Any]:
    if override is not None and not isinstance(override, Mapping):
        raise ReproError(
            "invalid configuration",
            where=f"{position(source, ('studies', name)) or f'{named(source)}: '}studies.{name}",
            expected="a mapping with the changes to the study's defaults, or false",
            actual=shown(override),
            todo=f"write `{name}: {{}}` for the defaults, `{name}: {{problems: [NAME]}}` for other problems",
        )
    path = shipped(f"{STUDIES}/{name}.yaml")
    defaults = read_mapping(path) if path.exists() else {}
    if path.exists() and not defaults:
        raise ReproError("empty study", where=path, todo="give it at least `problems:`")
    settings = merge(defaults, override or {})
    if "problems" in settings and not settings["problems"]:
        raise ReproError(
            "empty study",
            where=f"{position(source, ('studies', name, 'problems')) or f'{named(source)}: '}studies.{name}.problems",
            expected="at least one problem",
            actual=shown(settings["problems"]),
            todo="name problems, or a set such as `generated`",
        )
    return settings


def load(*paths: Path) -> Config:
    """Read configuration files (later ones override earlier ones), and resolve the result."""
    return resolve(read(*paths), paths)
