"""`repro config`: the configuration in full, and its schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

SCHEMAS = Path("workflow/schemas")
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        help="A configuration file in place of config/config.yaml; given again, later ones lie over earlier ones.",
    ),
]


def config(
    files: Files = None,
    schema: Annotated[bool, typer.Option("--schema", help="Write the JSON schemas instead, for editors.")] = False,
    folder: Annotated[Path, typer.Option(help="Where the schemas go.")] = SCHEMAS,
) -> None:
    """Print the resolved configuration, every default included, as YAML.

    A file stands alone, for this and every command and for `snakemake --configfile`: a key that it does not name has
    its default, a study that it does not name is not run, and nothing of config/config.yaml lies under it. Of several
    files later ones lie over earlier ones, key by key.

    Examples:

        repro config

        repro config --config config/paper.yaml

        repro config --config config/paper.yaml --config mine.yaml

        repro config --schema
    """
    if schema:
        for path in write_schemas(folder):
            typer.echo(f"wrote {path}")
        return
    from repro.campaign.plan import as_yaml
    from repro.config import load

    typer.echo(as_yaml(load(*(files or [Path("config/config.yaml")]))), nl=False)


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON schemas of configuration, study and registry files, by file name."""
    from pydantic import BaseModel

    from repro.config import Config, StudySettings
    from repro.problems.registry import Registry

    models: dict[str, type[BaseModel]] = {"config": Config, "study": StudySettings, "problems": Registry}
    return {f"{name}.schema.json": model.model_json_schema() for name, model in models.items()}


def write_schemas(folder: Path) -> list[Path]:
    """Write the schemas, each whole or not at all, and return their paths."""
    import json

    from repro.whole import write_whole

    paths = []
    for name, schema in schemas().items():
        path = folder / name
        write_whole(path, json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
        paths.append(path)
    return paths
