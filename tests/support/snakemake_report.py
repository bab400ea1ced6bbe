"""Reading what `snakemake --report` wrote."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.checkouts import Checkout


@dataclass(frozen=True)
class SnakemakeReport:
    """The data that Snakemake passes to the scripts of its report page.

    Attributes
    ----------
    categories
        Files by category and subcategory.
    results
        What it says of each file.
    description
        The words that it begins with, in HTML.
    """

    categories: dict[str, dict[str, list[str]]]
    results: dict[str, dict[str, Any]]
    description: str

    @classmethod
    def read(cls, path: Path) -> SnakemakeReport:
        text = path.read_text(encoding="utf-8")

        def given(name: str) -> Any:
            start = re.search(rf'<script id="{name}">\s*var \w+ = ', text)
            assert start, name
            return json.JSONDecoder().raw_decode(text, start.end())[0]

        assert not re.findall(r"""(?:src|href)=["']https?://""", text)
        return cls(given("categories"), given("results"), given("workflow-desc"))


def write_report(checkout: Checkout, *words: str) -> SnakemakeReport:
    """Let Snakemake write its report on the existing files, and read it."""
    said = checkout.snakemake("--report", "shown.html", *words, cores=False)
    assert said.code == 0, said.text
    assert "Missing metadata" not in said.text
    return SnakemakeReport.read(checkout.folder / "shown.html")
