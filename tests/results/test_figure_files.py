"""Files of a figure: LaTeX with the caption, and a width, a font and formats of one's own; titles of its marks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from repro.errors import ReproError
from repro.results.figure_style import (
    COLUMN_WIDTH,
    Shape,
    add_titles,
    canvas,
    draw_layout,
    figure_settings,
    rounded,
    save,
)
from repro.results.output import CAPTION_WORDS, caption_and_note, figure_as_latex, write_figure
from repro.results.registry import Artifact
from repro.results.tables import Figure

CAPTION = "Times & 95 % intervals of `a_b`."


def draw() -> Any:
    drawn = canvas(COLUMN_WIDTH, 2)
    axes = drawn.add_subplot()
    axes.barh([0, 1], [1.5, float("nan")], label="<ours>")
    axes.set_yticks([0, 1], ["web", "mesh"])
    axes.set_xlabel("speedup")
    axes.scatter([1, 2], [0, 1])
    return drawn


FIGURE = Figure(draw, CAPTION)
ARTIFACT = Artifact("made_up", "figure-1", "A figure", "ours", "figure", lambda campaign, published: FIGURE)


def points_wide(path: Path) -> float:
    return float(re.findall(r'viewBox="0 0 ([\d.]+)', path.read_text())[0])


def test_a_figure_has_its_caption_beside_it_in_latex(tmp_path: Path) -> None:
    paths = {path.suffix: path for path in write_figure(ARTIFACT, FIGURE, tmp_path)}
    assert [*paths] == [".pdf", ".svg", ".png", ".tex"] and all(path.stat().st_size for path in paths.values())
    text = paths[".tex"].read_text()
    assert r"\includegraphics[width=\linewidth]{figure-1.pdf}" in text and r"\label{fig:figure-1}" in text
    assert (
        rf"\caption[{{{ARTIFACT.title}}}]{{Times" in text
        and r"]{Times \& 95 \% intervals of \textasciigrave{}a\_b\textasciigrave{}.}" in text
    )
    assert points_wide(paths[".svg"]) == pytest.approx(72 * COLUMN_WIDTH, abs=0.1)
    assert "minipage" not in text, "there is no more to say"


def test_a_caption_in_latex_is_short_and_all_else_stands_below() -> None:
    source = "Ours: a GPU, campaign c, medians by the event clock, cache warm."
    caption = f"Times of all problems. Marks: ours. {source} An empty kernel takes 1 µs."
    assert caption_and_note("A title", caption) == (
        f"Times of all problems. {source}",
        "Marks: ours. An empty kernel takes 1 µs.",
    )
    drawn = replace(FIGURE, caption=caption, foot="a GPU, campaign c, event clock")
    lines = figure_as_latex(drawn, "x", ARTIFACT.title).splitlines()
    assert r"\caption[{A figure}]{Times of all problems. a GPU, campaign c, event clock.}" in lines
    assert r"\begin{minipage}{\linewidth}\footnotesize\raggedright" in lines
    assert any(line.startswith(r"Marks: ours. Ours: a GPU, campaign c") and line.endswith(r"\par") for line in lines)
    long_sentence = f"Times of {'many ' * CAPTION_WORDS}problems."
    assert caption_and_note("A title", f"{long_sentence} {source}") == (f"A title. {source}", long_sentence)


def test_a_figure_takes_a_width_a_font_and_formats(tmp_path: Path) -> None:
    before = mpl.rcParams["font.family"]
    paths = write_figure(ARTIFACT, FIGURE, tmp_path, Shape(5.0, "STIXGeneral", ("svg", "pdf")))
    assert [path.name for path in paths] == ["figure-1.svg", "figure-1.pdf"] and len([*tmp_path.iterdir()]) == 2
    assert points_wide(paths[0]) == pytest.approx(360, abs=0.1)
    assert b"STIXGeneral" in paths[1].read_bytes() and b"DejaVu" not in paths[1].read_bytes()
    assert mpl.rcParams["font.family"] == before


def test_what_is_too_wide_for_a_narrow_figure_is_broken_and_not_cut_off() -> None:
    def draw_wide() -> Any:
        drawn = canvas(COLUMN_WIDTH, 2.0)
        axes = drawn.subplots()
        for number in range(4):
            axes.plot([number], [1], "o", label=f"a long name of series {number}")
        axes.set_xlabel("speedup over the fastest of all the routines of a library")
        drawn.legend(loc="outside upper left", ncols=4)
        return drawn

    with figure_settings():
        drawn = draw_layout(Figure(draw_wide, "A caption.", foot="a device"), Shape(2.2))
    words = [*drawn.legends, drawn.axes[0].xaxis.label]
    boxes = [text.get_window_extent() for text in words]
    assert all(box.x0 >= -0.5 and box.x1 <= drawn.bbox.width + 0.5 for box in boxes)
    names = [text.get_text() for legend in drawn.legends for text in legend.get_texts()]
    assert {f"a long name of series {number}" for number in range(4)} < set(names)


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ({"font": "stixgenera"}, "STIXGeneral"),
        ({"font": "DejaVu"}, "DejaVu Sans or DejaVu Serif"),
        ({"formats": ("pgn",)}, "png"),
    ],
)
def test_a_font_or_a_format_that_is_not_there_is_refused_with_the_nearest(wrong: dict[str, Any], near: str) -> None:
    with pytest.raises(ReproError, match=f"did you mean {near}"):
        Shape(**wrong)


def test_bars_and_points_have_titles_in_what_a_browser_shows(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    texts = save(FIGURE, [path], "A figure", screen=True)
    svg = add_titles(path.read_text(), texts)
    assert re.findall(r"<title>(.*?)</title>", svg, re.DOTALL)[1:] == [  # the first is the file's
        "&lt;ours&gt;\nweb\nspeedup: 1.5", "speedup: 1\nweb", "speedup: 2\nmesh",
    ]  # fmt: skip
    few = add_titles(path.read_text(), {name: [*said, "one more"] for name, said in texts.items()})
    assert few.count("<title>") == 1, "a series of which not all is drawn has no titles"


def test_titles_are_of_ratios_on_a_logarithmic_axis_and_of_no_mark_beside_a_panel(tmp_path: Path) -> None:
    def draw_ratios() -> Any:
        drawn = canvas(COLUMN_WIDTH, 2)
        axes = drawn.add_subplot()
        axes.barh([0, 1], [4.0, -0.5], left=1)
        axes.set_yticks([0, 1], ["web", "mesh"])
        axes.set_xscale("log")
        axes.plot([2], [1.04], "x", transform=axes.get_xaxis_transform(), clip_on=False)
        return drawn

    texts = save(Figure(draw_ratios, CAPTION), [tmp_path / "a.svg"], "A figure", screen=True)
    assert list(texts.values()) == [["web\n5"], ["mesh\n0.5"]]


def test_an_svg_file_has_coordinates_of_three_decimals(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    save(FIGURE, [path], "A title")
    svg = path.read_text()
    assert not re.findall(r' (?:d|x|y)="[^"]*\.\d{4}', svg) and not re.findall(r"translate\([^)]*\.\d{4}", svg)
    here, there = (f'<path d="M 46.086256 {y} L -0.0000004 7"/>' for y in ("225.894593", "225.894592"))
    assert rounded(here) == rounded(there) == '<path d="M 46.086 225.895 L 0 7"/>'
    kept = '<g transform="scale(0.015625)"><title>0.123456</title></g>'  # a scale of letters, and a text
    assert rounded(kept) == kept


def test_ids_of_an_svg_file_depend_on_no_last_bit_of_a_coordinate(tmp_path: Path) -> None:
    """Matplotlib makes ids of hashes, which differ between machines whose sums end in other bits."""

    def drawn_at(left: float) -> str:
        def draw() -> Any:
            drawing = canvas(2, 2)
            drawing.set_layout_engine(None)
            for bottom in (0.1, 0.6):
                axes = drawing.add_axes((left, bottom, 0.8, 0.3))
                axes.plot([1, 2, 3], [1, 3, 2], marker="o")
                axes.bar([1], [1], hatch="//")
            return drawing

        path = tmp_path / f"{left}.svg"
        save(Figure(draw, CAPTION), [path], "A figure")
        return path.read_text()

    here, there = drawn_at(0.1), drawn_at(0.1 + 1e-12)
    assert here == there
    defined = re.findall(r'\bid="(\w+)"', here)
    assert {"p", "m", "h"} <= {name.rstrip("0123456789") for name in defined}
    assert set(re.findall(r"url\(#(\w+)\)", here)) <= set(defined)


@pytest.mark.exhaustive
@pytest.mark.medium
@pytest.mark.parametrize("font", [None, "cmr10"])
def test_matplotlib_has_no_word_with_the_user(font: str | None, tmp_path: Path) -> None:
    """Neither of settings and a cache that it cannot use, nor of letters that a font lacks."""
    (tmp_path / "own").write_text("no.such.key: 3\nfigure.dpi: x\nfont.family: NoSuchFont\n")
    own = dict.fromkeys(("HOME", "MPLCONFIGDIR"), "/proc/none")
    own |= {"MPLBACKEND": "nonsense", "MATPLOTLIBRC": str(tmp_path / "own")}
    words = ["figure", "compound_spmv/figure-speedup", "--campaign", "h200", "--figures", str(tmp_path / "figures")]
    words += ["--font", font] if font else []
    repository = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "repro", *words],
        cwd=repository, env={**os.environ, **own}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    drawn = tmp_path / "figures/h200/compound_spmv/figure-speedup.svg"
    recorded = repository / "figures/h200/compound_spmv/figure-speedup.svg"
    assert (drawn.read_bytes() == recorded.read_bytes()) == (font is None)
