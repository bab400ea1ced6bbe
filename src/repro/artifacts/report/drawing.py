"""Tables and figures as elements of the page."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from markupsafe import Markup

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure, Table
from repro.artifacts.lineup import REMARKS
from repro.artifacts.published import Published
from repro.artifacts.registry import Artifact

#: Words of a caption that are seen before it is opened.
WORDS_SHOWN = 60
#: What a word ends with where a sentence can be parted.
PAUSES = (".", "!", "?", ";")


@dataclass(frozen=True)
class Caption:
    """A caption as the page has it.

    Attributes
    ----------
    shown, more
        What is always seen, and what is when it is opened.
    clocks
        The clocks that it names.
    marked
        Whether it had the list of problems that are not the papers' own, which stands once in the study's section.
    """

    shown: str
    more: str = ""
    clocks: tuple[str, ...] = ()
    marked: bool = False

    @classmethod
    def of(cls, text: str) -> Caption:
        """Part a caption at the end of a sentence; within a longer one, where it pauses, or else with an ellipsis."""
        sentences = re.split(r"(?<=[.!?]) (?=[^\W\d_a-z])", text)
        kept = [sentence for sentence in sentences if not sentence.startswith(REMARKS)]
        words = " ".join(kept).split()
        end = count = 0
        for sentence in kept:
            count += len(sentence.split())
            end = count if count <= WORDS_SHOWN else end
        end = end or _last_pause(words)
        cut = " …" if end < len(words) and not words[end - 1].endswith(PAUSES) else ""
        clocks = tuple(dict.fromkeys(re.findall(r"by the (event|graph|host) clock", text)))
        return cls(" ".join(words[:end]) + cut, " ".join(words[end:]), clocks, len(kept) < len(sentences))


def _last_pause(words: list[str]) -> int:
    """Return how many words are shown of a sentence that is too long: up to a pause in the second half of the room."""
    ends = [at for at, word in enumerate(words[:WORDS_SHOWN], 1) if word.endswith(PAUSES)]
    return ends[-1] if ends and ends[-1] > WORDS_SHOWN // 2 else WORDS_SHOWN


@dataclass(frozen=True)
class Drawn:
    """An artifact as the template takes it; one of `table` and `svg` is None."""

    artifact: Artifact
    caption: Caption
    table: Table | None = None
    svg: Markup | None = None

    @property
    def size(self) -> tuple[float, float]:
        """A figure's width and height in points."""
        size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', self.svg or "")
        return (float(size[1]), float(size[2])) if size else (0.0, 0.0)


def draw(artifact: Artifact, campaign: Campaign, published: Published) -> Drawn | None:
    """Make an artifact, a figure as an element of the page; None where nothing was measured that it is about."""
    made = artifact.make(campaign, published)
    if made.nothing:
        return None
    caption = Caption.of(made.caption)
    if artifact.kind == "table":
        return Drawn(artifact, caption, table=cast(Table, made))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{artifact.name}.svg"
        style.save(cast(Figure, made), [path], artifact.title, campaign.column, screen=True)
        return Drawn(artifact, caption, svg=inline_svg(path.read_text("utf-8"), artifact))


def inline_svg(text: str, artifact: Artifact) -> Markup:
    """Return an SVG file as an element of the page: no prologue, no metadata, ids only of what is used."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    used = {*re.findall(r'href="#([^"]+)"', text), *re.findall(r"url\(#([^)]+)\)", text)}
    text = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", text)
    prefix = f"{artifact.study}-{artifact.name}-"
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'href="#', f'href="#{prefix}', text)
    text = text.replace("url(#", f"url(#{prefix}")
    # a hundredth of a point is seen on no screen
    text = re.sub(r' (?:d|x|y)="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), text)
    text = re.sub(r"\n\s*", "\n", text)
    width = float(re.findall(r'viewBox="0 0 ([\d.]+)', text)[0])
    label = Markup.escape(artifact.title)
    width *= style.SCREEN / 72
    opening = f'<svg role="img" aria-label="{label}" id="{prefix}svg" style="--width:{width:.0f}px"'
    return Markup(text.replace("<svg", opening, 1))
