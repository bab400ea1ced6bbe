"""Writes the lock files beside it: the newest of all packages of pyproject.toml, with hashes, in one resolution.

`make lock` runs it where uv is installed. `run.txt` has what every environment needs, the packages that build this one
among them; `<extra>.txt` what an extra needs beside that. No file names an index: pip takes what it is configured to,
and the hashes hold.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

LOCKS = Path(__file__).parent
#: Of the extra that is no extra.
RUN = "run"
#: The first Python that not all packages have wheels for yet.
BEFORE = "3.15"
PLATFORM = "platform_machine == 'x86_64' and platform_python_implementation == 'CPython' and sys_platform == 'linux'"


def main() -> None:
    """Resolve everything once, and write a file for each extra."""
    described = tomllib.loads((LOCKS.parent / "pyproject.toml").read_text())
    project = described["project"]
    extras = project["optional-dependencies"]
    python = f"{project['requires-python']},<{BEFORE}"
    with tempfile.TemporaryDirectory() as folder:
        # uv's own lock file names an index, so it is made elsewhere and left there; JSON's texts and lists are TOML's
        lines = [
            "[project]",
            'name = "locked"',
            'version = "0"',
            f"requires-python = {json.dumps(python)}",
            f"dependencies = {json.dumps([*project['dependencies'], *described['build-system']['requires']])}",
            "[project.optional-dependencies]",
            *(f"{extra} = {json.dumps(names)}" for extra, names in extras.items()),
            "[tool.uv]",
            f"environments = [{json.dumps(PLATFORM)}]",
        ]
        Path(folder, "pyproject.toml").write_text("\n".join(lines))
        subprocess.run([sys.executable, "-m", "uv", "lock", "--quiet", "--project", folder], check=True)
        run = exported(folder)
        write(RUN, f"What every environment needs (Python {python})", run)
        for extra in extras:
            more = [block for block in exported(folder, extra) if block not in run]
            write(extra, f"What the extra {extra} needs beside {RUN}.txt (Python {python})", more)


def exported(folder: str, extra: str | None = None) -> list[str]:
    """Return the requirements of an extra, each with its hashes, on the lines that it has in the file."""
    words = ["export", "--frozen", "--no-emit-project", "--no-header", "--no-annotate", "--format", "requirements.txt"]
    chosen = ["--extra", extra] if extra else []
    command = [sys.executable, "-m", "uv", *words, *chosen, "--quiet", "--project", folder]
    text = subprocess.run(command, check=True, text=True, capture_output=True).stdout
    # the platform goes without saying: on another one a hash that fits no file is a clearer end than nothing installed
    text = text.replace(f" and {PLATFORM}", "").replace(f" ; {PLATFORM}", "")
    return re.findall(r"^\S.*(?:\n .*)*", text, re.MULTILINE)


def write(name: str, what: str, requirements: list[str]) -> None:
    """Write one file."""
    head = f"# {what}, on Linux and x86-64, with hashes. Made by `make lock`.\n"
    (LOCKS / f"{name}.txt").write_text(head + "".join(f"{requirement}\n" for requirement in requirements))


if __name__ == "__main__":
    main()
