"""A campaign as a record: the rows of all problems in one file a study and step.

See `repro.bench.recorded` for what is merged into what.
"""

from __future__ import annotations

from pathlib import Path

from repro.bench.parquet import write_table
from repro.bench.recorded import case_files, read_rows, recorded_steps, recorded_studies
from repro.errors import ReproError


def pack(raw: Path) -> list[Path]:
    """Merge the files of all problems into one a study and step, and delete them and their empty folders.

    A merged file is written whole or not at all, and nothing is deleted before all are written: where this was killed,
    the next call ends it.

    Parameters
    ----------
    raw
        `results/<campaign>/raw`.

    Returns
    -------
    list[Path]
        The merged files that were written, by study and step; those with nothing new are left alone.

    Raises
    ------
    ReproError
        There is no such folder; or a file is damaged, of another schema, or of another problem than its folder says.
    """
    if not raw.is_dir():
        raise ReproError("no such campaign", where=raw, todo="measure it first, or name another campaign")
    studies = [raw / name for name in recorded_studies(raw)]
    sources = {(study, step): case_files(study, step) for study in studies for step in recorded_steps(study)}
    merged = {case: read_rows(*case) for case in sources}  # also where nothing is new: what is kept is verified
    written = [
        write_table(merged[study, step], study / f"{step}.parquet") for study, step in sources if sources[study, step]
    ]
    for (study, _), files in sources.items():
        for path in files:
            path.unlink()
        for folder in sorted({parent for path in files for parent in _between(study, path)}, reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()
    return written


def _between(study: Path, path: Path) -> list[Path]:
    """Return the folders of a file below its study's."""
    return [parent for parent in path.parents if study in parent.parents]
