"""A hook of MkDocs: files of the repository that pages link to go along into the site, and links lead to them there.

Pages are written for a clone, where `../results/h200/report.html` is beside `docs`. In the site that file is
`repository/results/h200/report.html`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
ROOT = DOCS.parent
OUTSIDE = "repository"
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")
#: The decisions, one line of the navigation each.
_DECISIONS = "adr"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the decisions in the navigation, and name headings as links in the pages do."""
    config.mdx_configs["toc"]["slugify"] = _anchor
    for section in config.nav or ():
        for pages in section.values() if isinstance(section, dict) else ():
            for item in pages:
                if isinstance(item, dict) and item.get("Decisions") == _DECISIONS:
                    item["Decisions"] = [f"adr/{path.name}" for path in sorted((DOCS / _DECISIONS).glob("*.md"))]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside of docs that pages link to, and those that these link to."""
    from mkdocs.structure.files import File, InclusionLevel

    sources = [Path(file.abs_src_path) for file in files.documentation_pages() if file.abs_src_path]
    seen: set[Path] = set()
    while sources:
        source = sources.pop()
        for target in (_target(source, link.partition("#")[0]) for link in _LINK.findall(source.read_text())):
            if target.is_relative_to(DOCS) or target in seen or not target.is_file():
                continue
            seen.add(target)
            file = File.generated(config, _in_site(target), abs_src_path=str(target))
            file.inclusion = InclusionLevel.NOT_IN_NAV
            files.append(file)
            if target.suffix == ".md":
                sources.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead the links of a page to where files lie in the site."""
    source, here = Path(str(page.file.abs_src_path)), page.file.src_uri

    def led(link: re.Match[str]) -> str:
        target = _target(source, link[1])
        if source.is_relative_to(DOCS) and target.is_relative_to(DOCS):
            return link[1]
        return os.path.relpath(_in_site(target), Path(here).parent)

    return _LINK.sub(led, markdown)


def _anchor(heading: str, separator: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", separator)


def _target(source: Path, link: str) -> Path:
    return Path(os.path.normpath(source.parent / link))


def _in_site(target: Path) -> str:
    if target.is_relative_to(DOCS):
        return target.relative_to(DOCS).as_posix()
    return f"{OUTSIDE}/{target.relative_to(ROOT).as_posix()}"
