"""Writing tables as CSV and LaTeX (booktabs), and figures as PDF, SVG and PNG with their captions in LaTeX.

Every file is written atomically.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from repro import filesystem
from repro.bench.campaign_folder import CampaignFolder
from repro.errors import ReproError
from repro.results import figure_style
from repro.results.campaign_data import Campaign
from repro.results.registry import Artifact
from repro.results.tables import Cell, Figure, Table, Value, letter, move_lead_columns, sentences

# characters per row above which a LaTeX table gets a smaller font, and above which it is also scaled to the text width
SMALL_FONT_FROM, SHRUNK = 85, 115

_GREEK = (
    "alpha α", "beta β", "gamma γ", "delta δ", "epsilon ε", "theta θ", "kappa κ", "lambda λ", "nu ν", "xi ξ", "pi π",
    "rho ρ", "sigma σ", "tau τ", "phi φ", "chi χ", "psi ψ", "omega ω", "Delta Δ", "Sigma Σ", "Omega Ω",
)  # fmt: skip
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "'": "'", "`": r"\textasciigrave{}",
    "–": "--", "—": "---", "…": r"\dots{}", "×": r"$\times$", "·": r"$\cdot$", "≤": r"$\leq$", "≥": r"$\geq$",
    "±": r"$\pm$", "−": r"$-$", "→": r"$\rightarrow$", "≈": r"$\approx$", "⌈": r"$\lceil$", "⌉": r"$\rceil$",
    "µ": r"\textmu{}", "μ": r"\textmu{}", "§": r"\S{}", "\N{NO-BREAK SPACE}": "~", "\n": " ", "\r": " ",
    "\t": " ", "’": "'", "‘": "`", "“": "``", "”": "''", "†": r"\textdagger{}", "‡": r"\textdaggerdbl{}",
    "⌊": r"$\lfloor$", "⌋": r"$\rfloor$", "ᵀ": r"$^T$", "⁻": r"$^-$",
    **{exponent: f"$^{power}$" for power, exponent in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    **{symbol: rf"$\{name}$" for name, symbol in map(str.split, _GREEK)},
}  # fmt: skip


def latex_escape(text: str) -> str:
    """Escape text for LaTeX; letters that pdfLaTeX cannot print become `?`."""
    replacements = {
        c: c for c in text if c.isprintable() and (c.isascii() or (c.isalpha() and ord(c) < 0x180))
    } | _LATEX
    return "".join(replacements.get(c, "?") for c in text)


#: Characters that start a formula in spreadsheets, or may precede one.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def as_text(value: Value) -> Value:
    """Return a value for a CSV file; text that a spreadsheet would take for a formula gets the prefix `'`."""
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def as_csv(table: Table) -> str:
    """Return a table as CSV: values at full precision, then columns `notes` and `keys`.

    Summary rows are omitted, so that a program that averages a column does not include its mean.

    A column with confidence intervals is followed by columns `…_low` and `…_high`. `keys` names the recorded rows from
    which a line was computed, separated by blanks; `keys_<campaign>` does so for other campaigns in the table.
    """
    has_interval = [any(row[index].interval for row in table.rows) for index in range(len(table.columns))]
    headers = [
        key
        for column, ends in zip(table.columns, has_interval, strict=True)
        for key in (column.key, *((f"{column.key}_low", f"{column.key}_high") if ends else ()))
    ]
    reference_names = [*dict.fromkeys(column.campaign for column in table.columns if column.campaign)]
    lines = [_csv_line([*headers, "notes", "keys", *(f"keys_{name}" for name in reference_names)])]
    for row in table.rows:
        notes = dict.fromkeys(note for cell in row for note in cell.notes)
        keys = [_keys(table, row, name) for name in ("", *reference_names)]
        values: list[Value] = [
            "" if value is None else value
            for cell, ends in zip(row, has_interval, strict=True)
            for value in (cell.value, *((cell.interval or (None, None)) if ends else ()))
        ]
        lines.append(_csv_line([*values, "; ".join(notes), *keys]))
    return "".join(lines)


def _csv_line(values: list[Value]) -> str:
    """Return one CSV line; the writer's line end CR LF makes it quote values that contain a CR."""
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\r\n").writerow([as_text(value) for value in values])
    return stream.getvalue().removesuffix("\r\n") + "\n"


def _keys(table: Table, row: tuple[Cell, ...], campaign: str) -> str:
    """Return the distinct keys of the recorded rows of one campaign from which a table line was computed."""
    cells = (cell for cell, column in zip(row, table.columns, strict=True) if column.campaign == campaign)
    return " ".join(dict.fromkeys(key for cell in cells for key in cell.keys))


# escape HTML, links and images, and replace line breaks, which would end a table row
_MARKDOWN = {
    **{character: f"\\{character}" for character in "\\|_*"},
    **{"&": "&amp;", "<": "&lt;", ">": "&gt;"},
    **dict.fromkeys("\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "),
}


def markdown_escape(text: str) -> str:
    """Escape text for GitHub's Markdown and join it to one line; words in backticks remain code."""
    return "".join(_MARKDOWN.get(c, c) for c in text).replace("](", "]\\(")


#: Maximum number of columns of a table that is whole in its LaTeX file, and number of columns of any other.
WHOLE_COLUMNS, FIRST_COLUMNS = 12, 10


def first_columns(table: Table, artifact: Artifact) -> Table:
    """Return the part of a table for its LaTeX file: of a wide table, the columns that the report shows first."""
    if len(table.columns) <= WHOLE_COLUMNS:
        return table
    led = move_lead_columns(table, artifact.lead, artifact.lead_instead)
    rows, summary = ([row[:FIRST_COLUMNS] for row in part] for part in (led.rows, led.summary))
    return replace(led, columns=led.columns[:FIRST_COLUMNS], rows=rows, summary=summary)


def latex_file(table: Table, artifact: Artifact) -> str:
    """Return the LaTeX file of a table, whose note names the CSV file if that has more columns."""
    first = first_columns(table, artifact)
    if first is not table:
        remark = f"{FIRST_COLUMNS} of {len(table.columns)} columns; {artifact.name}.csv has all."
        first = replace(first, caption=f"{table.caption} {remark}".strip())
    return as_latex(first, artifact.name, artifact.title)


def as_markdown(table: Table) -> str:
    """Return a table in GitHub's Markdown: the caption's first sentence above it, the others below."""

    def cell_text(cell: Cell) -> str:
        letters = table.letters(cell)
        return markdown_escape(cell.shown) + (f"<sup>{letters}</sup>" if letters else "")

    headers = [markdown_escape(f"{c.group}: {c.title}" if c.group else c.title) for c in table.columns]
    first, *others = sentences(table.caption)
    lines = [markdown_escape(first), "", _pipe(headers)]
    lines.append(_pipe(["---:" if column.numeric else "---" for column in table.columns]))
    lines += [_pipe([cell_text(cell) for cell in row]) for row in (*table.rows, *table.summary)]
    if table.notes:
        lines.append("")
        lines += [f"<sup>{letter(i)}</sup> {markdown_escape(note)}  " for i, note in enumerate(table.notes)]
    if others:
        lines += ["", markdown_escape(" ".join(others))]
    return "\n".join(lines) + "\n"


def _pipe(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


#: Maximum number of words of a LaTeX caption; what else is to be said stands in a note below.
CAPTION_WORDS = 60
#: The sentence of a caption that names device, campaign and clock.
_SOURCE = re.compile(r"Ours: .*, campaign ")


def caption_and_note(title: str, caption: str, foot: str = "") -> tuple[str, str]:
    """Return a LaTeX caption of at most `CAPTION_WORDS` words, and a note with the other sentences.

    The caption has the first sentence, or the title if that is too long, and the source: `foot` as a sentence, or that
    of the sentences that names device, campaign and clock.
    """
    first, *others = sentences(caption)
    source = f"{foot}." if foot else next((sentence for sentence in others if _SOURCE.match(sentence)), "")
    is_brief = len(f"{first} {source}".split()) <= CAPTION_WORDS
    opening = first if is_brief and first else f"{title}."
    note = [*([] if is_brief else [first]), *(sentence for sentence in others if sentence != source)]
    return f"{opening} {source}".strip(), " ".join(note)


def latex_caption(title: str, caption: str) -> str:
    r"""Return a LaTeX `\caption`, which has the title in lists of tables and figures."""
    return rf"\caption[{{{latex_escape(title)}}}]{{{latex_escape(caption)}}}"


def latex_note(lines: Sequence[str], size: str) -> list[str]:
    """Return the lines of a note of the text's width in letters of a size, such as `footnotesize`; none of none."""
    if not lines:
        return []
    opening = rf"\begin{{minipage}}{{\linewidth}}\{size}\raggedright"
    return [r"\par\smallskip", opening, *(rf"{line}\par" for line in lines), r"\end{minipage}"]


def as_latex(table: Table, label: str, title: str) -> str:
    """Return a LaTeX `table*`, with a note below it.

    It needs the package booktabs, and graphicx if the table is scaled to the text width.
    """
    caption, note = caption_and_note(title, table.caption)

    def cell_text(cell: Cell) -> str:
        letters = table.letters(cell)
        return latex_escape(cell.shown) + (rf"\textsuperscript{{{letters}}}" if letters else "")

    def line(row: tuple[Cell, ...]) -> str:
        text = " & ".join(cell_text(cell) for cell in row) + r" \\"
        # LaTeX would take a leading [ or * for an argument of the previous row's \\
        return f"{{}}{text}" if text.startswith(("[", "*")) else text

    width = sum(
        max([len(column.title), *(len(row[i].shown + table.letters(row[i])) for row in table.rows)])
        for i, column in enumerate(table.columns)
    )
    is_wide, is_too_wide = width > SMALL_FONT_FROM, width > SHRUNK
    alignment = "".join("r" if column.numeric else "l" for column in table.columns)
    lines = [
        "% needs \\usepackage{booktabs" + (",graphicx}" if is_too_wide else "}"),
        r"\begin{table*}",
        r"\centering",
        latex_caption(title, caption),
        rf"\label{{tab:{label}}}",
        r"\scriptsize" if is_wide else r"\footnotesize",
        rf"\setlength{{\tabcolsep}}{{{'2.5' if is_wide else '4'}pt}}",
        (r"\resizebox{\linewidth}{!}{" if is_too_wide else "") + rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}",
        r"\toprule",
    ]
    if table.is_grouped:
        headers, rules, first = [], [], 1
        for group, span in table.groups():
            headers.append(rf"\multicolumn{{{span}}}{{c}}{{{latex_escape(group)}}}" if group else "")
            if group:
                rules.append(rf"\cmidrule(lr){{{first}-{first + span - 1}}}")
            first += span
        lines += [" & ".join(headers) + r" \\", " ".join(rules)]
    lines.append(" & ".join(latex_escape(column.title) for column in table.columns) + r" \\")
    lines.append(r"\midrule")
    lines += [line(row) for row in table.rows]
    if table.summary:
        lines += [r"\midrule", *(line(row) for row in table.summary)]
    lines += [r"\bottomrule", r"\end{tabular}" + ("}" if is_too_wide else "")]
    remarks = [rf"\textsuperscript{{{letter(i)}}}~{latex_escape(remark)}" for i, remark in enumerate(table.notes)]
    lines += latex_note([*remarks, *([latex_escape(note)] if note else [])], "scriptsize")
    return "\n".join([*lines, r"\end{table*}"]) + "\n"


TABLE_FORMATS: Mapping[str, Callable[[Table, Artifact], str]] = {
    "csv": lambda table, artifact: as_csv(table),
    "tex": latex_file,
}


def tables_folder(results: Path, campaign: str, study_name: str) -> Path:
    return CampaignFolder.of(campaign, results).tables(study_name)


def figures_folder(figures: Path, campaign: str, study_name: str) -> Path:
    return figures / campaign / study_name


@contextmanager
def replace_artifact(path: Path) -> Iterator[Path]:
    """Yield a temporary file next to `path` that replaces it at the end, or is deleted after an error."""
    try:
        with filesystem.replacing(path) as partial:
            yield partial
    except OSError as error:
        raise ReproError(
            "cannot write an artifact",
            where=path,
            actual=error.strerror or error,
            todo="check the folder's permissions and free space",
        ) from error


def write_table_artifact(artifact: Artifact, table: Table, folder: Path) -> list[Path]:
    """Write one table as CSV and LaTeX; return the files."""
    paths = []
    for suffix, render in TABLE_FORMATS.items():
        path = folder / f"{artifact.name}.{suffix}"
        with replace_artifact(path) as partial:
            partial.write_text(render(table, artifact), encoding="utf-8")
        paths.append(path)
    return paths


def figure_as_latex(figure: Figure, name: str, title: str) -> str:
    """Return a LaTeX figure that includes the PDF file of the same folder, with a note below it."""
    caption, note = caption_and_note(title, figure.caption, figure.foot)
    return "\n".join(
        [
            r"% needs \usepackage{graphicx}, and \graphicspath where this file is included from another folder",
            r"\begin{figure}",
            r"\centering",
            rf"\includegraphics[width=\linewidth]{{{name}.pdf}}",
            latex_caption(title, caption),
            rf"\label{{fig:{name}}}",
            *latex_note([latex_escape(note)] if note else [], "footnotesize"),
            r"\end{figure}",
            "",
        ]
    )


def write_figure(
    artifact: Artifact, figure: Figure, folder: Path, shape: figure_style.Shape | None = None
) -> list[Path]:
    """Write one figure in all formats of `shape`; return the files.

    The `.tex` file includes the PDF file, with a caption and a note.
    """
    shape = shape or figure_style.Shape()
    paths = [folder / f"{artifact.name}.{suffix}" for suffix in shape.formats]
    with ExitStack() as stack:
        partial = {path.suffix: stack.enter_context(replace_artifact(path)) for path in paths}
        if text := partial.pop(".tex", None):
            text.write_text(figure_as_latex(figure, artifact.name, artifact.title), encoding="utf-8")
        figure_style.save(figure, partial.values(), artifact.title, shape=shape)
    return paths


def write(
    artifact: Artifact,
    content: Table | Figure,
    campaign: Campaign,
    folder: Path,
    shape: figure_style.Shape | None = None,
) -> list[Path]:
    """Write a table or figure of a campaign in all formats (figures in those of `shape`); return the files.

    If yardstick times of the campaign were disturbed, a table's caption starts with a warning.
    """
    if isinstance(content, Table):
        if campaign.disturbance:
            content = replace(content, caption=f"{campaign.disturbance} {content.caption}")
        return write_table_artifact(artifact, content, folder)
    return write_figure(artifact, content, folder, shape)
