"""A page of HTML, read to check that it is sound."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Collects ids, links and sources, and checks that tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.targets: list[str] = []
        self.sources: list[str] = []
        self.stack: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.stack.append(tag)
        self.collect(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.collect(attrs)

    def collect(self, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "id":
                self.ids[str(value)] += 1
            elif key in ("href", "xlink:href"):
                self.targets.append(str(value))
            elif key == "src":
                self.sources.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag
