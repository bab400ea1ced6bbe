"""What all figures are drawn by."""

from itertools import pairwise

import pytest
from matplotlib.colors import same_color

from repro.results import figure_style
from repro.results.tables import Figure, digits


@pytest.mark.parametrize(
    "limits", [(2.2, 35), (30, 62), (0.5, 900), (1.6, 2.5), (0.0612, 0.0688), (1e-4, 0.5), (1e-3, 1e5)]
)
@pytest.mark.parametrize("side", ["x", "y"])
def test_labels_of_a_logarithmic_axis_do_not_collide(limits, side):
    drawn = figure_style.canvas(figure_style.COLUMN_WIDTH, 1.5)
    axes = drawn.add_subplot()
    axes.set(**{f"{side}scale": "log", f"{side}lim": limits})
    axis = axes.xaxis if side == "x" else axes.yaxis
    with figure_style.figure_settings():
        figure_style.log_ticks(axis)
        drawn.draw_without_rendering()
    low, high = limits
    shown = [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    ends = sorted(getattr(label.get_window_extent(), f"interval{side}").tolist() for label in shown)
    assert len(shown) >= 2 and all("$" not in label.get_text() for label in shown)
    assert all(left[1] < right[0] for left, right in pairwise(ends))
    assert not [tick for tick in axis.get_minor_ticks() if tick.label1.get_text()]


def test_a_number_has_as_many_digits_as_were_measured():
    numbers = (0.0004567, 0.004, 0.0456, 0.456, 4.567, 45.67, 456.7)
    assert [digits(number) for number in numbers] == ["0.00046", "0.0040", "0.046", "0.46", "4.57", "45.7", "457"]


def test_a_foot_without_room_beside_the_footnote_stands_below_it():
    def draw():
        drawn = figure_style.canvas(figure_style.COLUMN_WIDTH, 1.5)
        drawn.add_subplot()
        figure_style.write_footnote(drawn, "† a stand-in")
        return drawn

    foot = "NVIDIA H100 80GB HBM3, campaign h100-products, event clock, double precision"
    [legend] = figure_style.draw_layout(Figure(draw, "A caption.", foot=foot)).legends
    first, *others = legend.get_texts()[0].get_text().splitlines()
    assert first == "† a stand-in" and " ".join(others) == foot and len(others) == 2
    assert same_color(legend.get_texts()[0].get_color(), figure_style.GREY)


def test_the_device_stands_below_every_figure_beside_its_footnote(tmp_path):
    def draw():
        drawn = figure_style.canvas(figure_style.COLUMN_WIDTH, 1.5)
        drawn.add_subplot().set_xlabel("time")
        figure_style.write_footnote(drawn, "† a stand-in")
        made.append(drawn)
        return drawn

    made = []
    figure_style.save(Figure(draw, "A caption.", foot="NVIDIA H200"), [tmp_path / "figure.svg"], "A title")
    left, right = (legend.get_window_extent() for legend in made[0].legends)
    assert [legend.get_texts()[0].get_text() for legend in made[0].legends] == ["† a stand-in", "NVIDIA H200"]
    assert left.x1 < right.x0 and right.x1 <= made[0].bbox.x1 and right.y0 >= 0
    label = made[0].axes[0].xaxis.label.get_window_extent()
    assert max(left.y1, right.y1) <= label.y0 + 2


@pytest.mark.parametrize("words", ["no file: $HOME/$USER", "$_^$", "a $x$ b", r"C:\$x$\y", "cost $5", "$\\frac{$"])
def test_words_with_dollars_are_no_mathematics(words, tmp_path):
    def draw():
        drawn = figure_style.canvas(figure_style.COLUMN_WIDTH, 1.5)
        axes = drawn.add_subplot()
        axes.plot([1], [1], label=words)
        axes.set_xlabel("threads $n_t$")
        axes.set_title(words)
        axes.legend()
        figure_style.write_panel_reason(axes, words)
        figure_style.write_footnote(drawn, words)
        return drawn

    figure_style.save(Figure(draw, words, foot=words), [tmp_path / "figure.svg"], words, screen=True)
    svg = (tmp_path / "figure.svg").read_text()
    assert svg.count(f">{words}</text>") == 5
    assert "$n_t$</text>" not in svg

    figure_style.save(Figure(lambda: figure_style.empty_canvas(words), ""), [tmp_path / "empty.svg"], "", screen=True)
    assert f">{words}</text>" in (tmp_path / "empty.svg").read_text()


@pytest.mark.parametrize("shape", [figure_style.Shape(), figure_style.Shape(width=2.0)])
def test_a_figure_that_has_nothing_to_show_is_drawn_without_a_warning(shape, tmp_path, recwarn):
    figure = Figure(lambda: figure_style.canvas(figure_style.COLUMN_WIDTH, 1.5), "A caption.", foot="campaign mine")
    figure_style.save(figure, [tmp_path / "a.svg"], "nothing", shape=shape)
    assert "campaign mine" in "".join(text.get_text() for text in _texts(figure_style.draw_layout(figure, shape)))
    assert [str(warning.message) for warning in recwarn] == []


def _texts(drawn):
    return [text for legend in drawn.legends for text in legend.get_texts()]
