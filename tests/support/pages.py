"""Reading the project's pages: their code blocks, the commands and paths that they name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "config/README.md")),
        *(page for folder in ("docs", "docs/adr", "docs/reference") for page in (REPOSITORY / folder).glob("*.md")),
    ]
)
HOW_TO = sorted((REPOSITORY / "docs").glob("add-*.md"))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# the words that end the paragraph before a block: "… at the end of `path`:"
_FILE = re.compile(r"(?P<how>at the end of|[Ff]rom|)\s+`(?P<path>[\w./-]+)`:\s*$")


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes
    ----------
    language, text
        Of the fence, and inside it.
    path
        The file that the words before the block name; None for commands.
    how
        What is done with it: `write` a new file, `append` to one, or `quote` one.
    """

    language: str
    text: str
    path: str | None
    how: str


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page in their order."""
    text = page.read_text()
    found = []
    for fence in _FENCE.finditer(text):
        file = _FILE.search(text[: fence.start()])
        how = {"at the end of": "append", "from": "quote", "": "write"}[file["how"].lower()] if file else "run"
        found.append(Block(fence[1], fence[2], file["path"] if file else None, how))
    return found


def commands(page: Path) -> list[str]:
    """Return every command line of a page, in blocks and within sentences, without comments."""
    text = page.read_text()
    lines = [line for block in _FENCE.finditer(text) if block[1] in ("sh", "console") for line in block[2].splitlines()]
    prose = _FENCE.sub("", text)
    lines += [line.strip() for line in re.findall(r"^ {4}(\S.*)$", prose, re.MULTILINE)]
    lines += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    return [re.sub(r"\s+#.*", "", line) for line in lines]
