"""The HTML report: all studies of a campaign on one page that opens without a network."""

from __future__ import annotations

import base64
import csv
import re
import tempfile
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jinja2
from markupsafe import Markup, escape

from repro.bench.campaign_folder import CampaignFolder, step_file
from repro.bench.records import UNCOMMITTED, code_count, code_words
from repro.bench.rows import ClockName, RecordedRow, median_column
from repro.results import figure_style
from repro.results.campaign_data import NEAR_EMPTY, UNAVAILABLE, Campaign, Case, ReportedTime, Selection, one_line
from repro.results.claims import CLAIMS, VERDICT_ORDER, Verdict, close_calls, tally
from repro.results.figure_style import add_titles
from repro.results.output import as_csv, replace_artifact
from repro.results.problem_lines import (
    CLOCK_WORDS,
    REMARKS,
    empty_kernel_reading,
    events_note,
    join_sentences,
    missing_note,
    name_cell,
    problem_lines,
    remarks,
)
from repro.results.published import Published
from repro.results.registry import Artifact
from repro.results.significance import interval_of_ratio
from repro.results.tables import ABSENT, Cell, Column, Figure, Result, Table, letter, move_lead_columns, sentences
from repro.words import EXTENDED, PAPER, PAPER_TUNED

if TYPE_CHECKING:
    from repro.tuning.search import ProgressCallback


#: Clocks of the report, in order of preference.
REPORT_CLOCKS: tuple[ClockName, ...] = ("event", "graph", "host")
# maximum number of names printed for each reason, since thousands of variants can fail for the same one
NAMES_SHOWN = 12
#: Maximum number of rows of a table that is shown unfolded on the page.
ROWS_OPEN = 12


def statuses(campaign: Campaign) -> Table:
    """Return a table with the number of rows for each phase, cache state, kind and status."""
    titles = ("phase", "cache", "kind", "status")
    timed_rows = (*campaign.searched, *campaign.reported)
    counts = Counter((row.phase, row.cache, row.kind, row.status) for row in timed_rows)
    rows = [(*map(Cell, key), Cell(count)) for key, count in sorted(counts.items())]
    columns = (*(Column(title, title, numeric=False) for title in titles), Column("rows", "rows"))
    return Table(columns, rows, "Rows by status. Only `ok` and `noisy` rows have a time.")


def failures(campaign: Campaign) -> Table:
    """Return a table of all rows with another status than `ok`, grouped by cause."""
    causes: dict[tuple[str, ...], list[str]] = {}
    for problem in campaign.problems.values():
        for precision in campaign.precisions if problem.is_available else ():
            for row in campaign.search_rows(problem.name, precision) + campaign.report_rows(problem.name, precision):
                if row.status != "ok":
                    message = one_line(row.message or "")
                    key = (problem.name, precision, row.phase, row.kind, row.status, message)
                    causes.setdefault(key, []).append(row.name)
    rows: list[tuple[Cell, ...]] = []
    for (name, precision, phase, kind, status, message), names in causes.items():
        remainder = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        names_text = ", ".join(names[:NAMES_SHOWN]) + remainder
        texts = (name, precision, phase, kind, status, message)
        first, *other_texts = texts
        rows.append((name_cell(campaign.problems[first]), *map(Cell, other_texts), Cell(len(names)), Cell(names_text)))
    titles = ("problem", "precision", "phase", "kind", "status", "message")
    columns = (
        *(Column(title, title, numeric=False) for title in titles),
        Column("rows", "rows"),
        Column("names", "names", numeric=False),
    )
    return Table(columns, rows, "Every row that is not ok, grouped by cause.")


def missing(campaign: Campaign, headline: str) -> Table:
    """Return a table of cases without a winner or a floor time, with reasons."""
    rows: list[tuple[Cell, ...]] = []
    floor = has_floor(campaign)
    for problem in campaign.problems.values():
        if not problem.is_available:
            reason = one_line(problem.reason or "no reason recorded", 2000)
            rows.append((Cell(problem.name), Cell("all"), Cell("unavailable"), Cell(reason)))
            continue
        for precision in campaign.precisions:
            case = Case(campaign, problem.name, precision)
            if winner_of(case, headline) is None:
                rows.append((name_cell(problem), Cell(precision), Cell("no winner"), Cell(case.why_not())))
            elif floor and not any(case.bound("floor", clock) for clock in REPORT_CLOCKS):
                rows.append((name_cell(problem), Cell(precision), Cell("no floor"), Cell(case.why_no_floor())))
    titles = ("problem", "precision", "what", "why")
    return Table(
        tuple(Column(title, title, numeric=False) for title in titles),
        rows,
        "Problems and precisions without a result, and why.",
    )


def winner_of(case: Case, headline: str) -> ReportedTime | None:
    """Return the winner of a tuning by the first clock in `REPORT_CLOCKS` that has one."""
    return next((winner for clock in REPORT_CLOCKS if (winner := case.winner(headline, clock))), None)


def has_floor(campaign: Campaign) -> bool:
    """Return whether any floor (streaming kernel as a lower bound) was measured; some studies have none."""
    return bool(campaign.reported.select(kind="floor"))


#: Width in points from which a figure is scrolled on a phone, as `.paper svg` in `report.css` has it.
WIDE = 256
#: Maximum number of words of a collapsed caption.
WORDS_SHOWN = 60
#: Characters after which a long sentence may be split.
PAUSES = (".", "!", "?", ";")


@dataclass(frozen=True)
class Caption:
    """A caption on the page, collapsed if long."""

    #: Always visible text; `more` is visible when the caption is expanded.
    shown: str
    more: str = ""
    #: Clocks that the caption names.
    clocks: tuple[str, ...] = ()
    #: Whether the list of problems that are not from the papers was removed; the study's section prints it once.
    marked: bool = False

    @classmethod
    def of(cls, text: str) -> Caption:
        """Split a caption after a sentence; within a too long sentence at a pause, else with an ellipsis."""
        all_sentences = sentences(text)
        kept_sentences = [sentence for sentence in all_sentences if not sentence.startswith(REMARKS)]
        words = " ".join(kept_sentences).split()
        end = count = 0
        for sentence in kept_sentences:
            count += len(sentence.split())
            end = count if count <= WORDS_SHOWN else end
        if not end:  # the first sentence is too long: split at a pause in the second half of the allowed words
            pauses = [number for number, word in enumerate(words[:WORDS_SHOWN], 1) if word.endswith(PAUSES)]
            end = pauses[-1] if pauses and pauses[-1] > WORDS_SHOWN // 2 else WORDS_SHOWN
        cut = " …" if end < len(words) and not words[end - 1].endswith(PAUSES) else ""
        clocks = tuple(dict.fromkeys(re.findall(r"by the (event|graph|host) clock", text)))
        return cls(" ".join(words[:end]) + cut, " ".join(words[end:]), clocks, len(kept_sentences) < len(all_sentences))


@dataclass(frozen=True)
class PageArtifact:
    """A table or figure for the HTML template; either `table` or `svg` is None."""

    artifact: Artifact
    caption: Caption
    table: Table | None = None
    svg: Markup | None = None
    #: The table's CSV file as a `data:` URL, a link that works wherever the page is.
    csv: str = ""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a figure in points."""
        size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', self.svg or "")
        return (float(size[1]), float(size[2])) if size else (0.0, 0.0)


def render_artifact(artifact: Artifact, campaign: Campaign, published: Published) -> PageArtifact | None:
    """Make a table or figure for the page; None if none of its data was measured, or a papers' table has none."""
    content = artifact.make(campaign, published)
    if is_empty(artifact, content, campaign):
        return None
    caption = Caption.of(content.caption)
    if artifact.kind == "table":
        table = cast(Table, content)
        encoded_csv = base64.b64encode(as_csv(table).encode()).decode()
        url = f"data:text/csv;charset=utf-8;base64,{encoded_csv}"
        return PageArtifact(
            artifact, caption, table=move_lead_columns(table, artifact.lead, artifact.lead_instead), csv=url
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{artifact.name}.svg"
        texts = figure_style.save(cast(Figure, content), [path], artifact.title, screen=True)
        titled_svg = add_titles(path.read_text("utf-8"), texts)
        return PageArtifact(artifact, caption, svg=inline_svg(titled_svg, artifact))


def is_empty(artifact: Artifact, content: Table | Figure, campaign: Campaign) -> bool:
    """Return whether none of the data of a table or figure was measured, or a papers' table has published ones only."""
    return content.is_empty or (isinstance(content, Table) and artifact.is_of_papers and lacks_ours(content, campaign))


def lacks_ours(table: Table, campaign: Campaign) -> bool:
    """Return whether a table has columns for this campaign's numbers, and no line has one: only published ones."""
    columns = [*enumerate(table.columns)]
    indices = [index for index, column in columns if "measured" in (column.key, column.title, column.group)]
    indices = indices or [index for index, column in columns if column.group.startswith(("ours", campaign.column))]
    return bool(indices) and all(row[index].value is None for row in table.rows for index in indices)


def inline_svg(text: str, artifact: Artifact) -> Markup:
    """Return an SVG file as an HTML element, without prologue, metadata and unused ids."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    used_ids = {*re.findall(r'href="#([^"]+)"', text), *re.findall(r"url\(#([^)]+)\)", text)}
    text = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used_ids else "", text)
    prefix = f"{artifact.study}-{artifact.name}-"
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'href="#', f'href="#{prefix}', text)
    text = text.replace("url(#", f"url(#{prefix}")
    # two decimals of a point are exact enough for a screen
    text = re.sub(r' (?:d|x|y)="[^"]*"', lambda match: re.sub(r"(\.\d\d)\d+", r"\1", match[0]), text)
    text = re.sub(r"\n\s*", "\n", text)
    width = float(re.findall(r'viewBox="0 0 ([\d.]+)', text)[0])
    label = Markup.escape(artifact.title)
    width *= figure_style.SCREEN / 72
    opening = f'<svg role="img" aria-label="{label}" id="{prefix}svg" style="--width:{width:.0f}px"'
    return Markup(text.replace("<svg", opening, 1))


@dataclass(frozen=True)
class Card:
    """The main result of a study for the HTML template."""

    result: Result
    #: Description of the number with the library's name.
    description: str
    #: The main number of each campaign; `others` has the numbers by other clocks.
    numbers: Mapping[str, Cell]
    others: Mapping[str, Mapping[str, Cell]]
    #: Numbers that the main one leaves out, by their descriptions.
    left_out: Mapping[str, Cell]
    #: The result's table with the columns of all campaigns; None if there is a single campaign.
    table: Table | None = None
    #: Name of the campaign that measured the study again later, and its number.
    later: tuple[str, Cell] | None = None


def make_card(
    result: Result, library: str, tables: Mapping[str, Table], published_pair: tuple[str, Table] | None = None
) -> Card:
    """Return a study's main result.

    `library` provides the baselines, `tables` has the result's table per campaign, the main one first, and
    `published_pair` the name and the table of the campaign with the papers' kernels exactly as published.
    """
    (first, own_table), *_ = tables.items()
    library = library or "the library"
    published_table = published_pair[1] if published_pair else None
    numbers = {name: result.cell(table) for name, table in tables.items()}
    description, omitted_numbers = result.description_of(own_table), result.left_out(own_table, published_table)
    if result.own_description and published_pair and published_table and result.cell(published_table).value is not None:
        omitted_numbers = {f"{first}, {result.own_description}": numbers[first], **omitted_numbers}
        numbers[first], description = result.cell(published_table), f"{description}; campaign {published_pair[0]}"
    return Card(
        result,
        description.format(library=library),
        numbers,
        {name: result.numbers_of_other_clocks(table) for name, table in tables.items()},
        {text.format(library=library): cell for text, cell in omitted_numbers.items() if cell.value is not None},
        join_tables(tables) if len(tables) > 1 else None,
    )


def join_tables(tables: Mapping[str, Table]) -> Table:
    """Join the same table from several campaigns; lines with the same first cell become one line.

    Columns without a group do not depend on the campaign and are taken from the first table.
    """
    first = next(iter(tables.values()))
    shared = [index for index, column in enumerate(first.columns) if not column.group]
    columns = [first.columns[index] for index in shared]
    group_indices: dict[str, list[int]] = {}
    for name, table in tables.items():
        group_indices[name] = [index for index, column in enumerate(table.columns) if column.group]
        grouped = [table.columns[index] for index in group_indices[name]]
        columns += [replace(column, group=f"{name}, {column.group}") for column in grouped]
    rows_by_line = {name: {row[0].shown: row for row in table.rows} for name, table in tables.items()}
    lines = dict.fromkeys(line for rows in rows_by_line.values() for line in rows)
    rows = []
    for line in lines:
        shared_row = rows_by_line[next(iter(tables))].get(line)
        cells = [shared_row[index] for index in shared] if shared_row else [Cell(line), *[Cell()] * (len(shared) - 1)]
        for name, indices in group_indices.items():
            row = rows_by_line[name].get(line)
            cells += [row[index] if row else Cell() for index in indices]
        rows.append(tuple(cells))
    return Table(tuple(columns), rows, f"{first.caption.partition('. ')[0].rstrip('.')}: {' beside '.join(tables)}.")


@dataclass(frozen=True)
class PageStudy:
    """Input of `write_report` for one study."""

    campaign: Campaign
    published: Published
    artifacts: Sequence[Artifact]
    #: The tuning whose winner represents a case.
    headline: str = "joint"
    #: Name of the library that provides the baselines.
    library: str = ""
    #: Descriptions of the most important tables and figures by name, in display order.
    highlights: Mapping[str, str] = field(default_factory=dict)
    #: HTML template that explains how to read the study's tables.
    words: Path | None = None
    #: Meanings of the parts of a variant's name, by regular expression: see `read_legend`.
    legend: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    #: Citation of the papers.
    reference: str = ""
    #: The study's result in one number; the page also shows it for `campaign.beside`.
    result: Result | None = None


@dataclass(frozen=True)
class Section:
    """Section of one study for the HTML template."""

    campaign: Campaign
    drawn: Sequence[PageArtifact]
    title: str
    #: Citation of the papers.
    reference: str
    #: The study's result in one number; None if the page lacks the result's table.
    card: Card | None
    #: Summary of the folded content below the section's head: `23 tables, 13 figures`.
    contents: str
    #: Names and values that are printed at the head of the section.
    facts: Mapping[str, str]
    #: Sentences on problems that are not from the papers, and on missing ones from the papers.
    remarks: str
    #: Links from the page to the measured rows.
    rows: Mapping[str, str]
    #: The papers' claims for each verdict, as sentences; empty if the page has no table of claims.
    claims: Mapping[str, Sequence[str]]
    #: How many of them are close, for each verdict.
    close_calls: Mapping[str, int]
    #: Descriptions of the most important tables and figures on the page, by name.
    highlights: Mapping[str, str]
    statuses: Table
    failures: Table
    missing: Table
    #: Clocks with reported times.
    clocks: Sequence[ClockName]
    #: Number of launches per row, for each phase and protocol.
    protocol: Mapping[str, str]
    #: Whether any floor (streaming kernel as a lower bound) was measured.
    floor: bool
    #: Whether any row was disturbed.
    disturbed: bool
    #: HTML that explains how to read the study's tables.
    words: Markup
    #: Meanings of the parts of a variant's name, by regular expression.
    legend: Mapping[str, str]


@dataclass(frozen=True)
class PageWinners:
    """The head of the page: the winners on the user's own problems (`winners.html.j2`)."""

    table: Table
    #: Remarks below the table of winners.
    notes: Sequence[str]
    #: For each problem, shell commands that export its kernels, and lines of Python that use them.
    lines: Mapping[str, Sequence[str]]


def write_report(
    parts: Sequence[PageStudy],
    path: Path,
    progress: ProgressCallback = lambda *_: None,
    winners: PageWinners | None = None,
    own_problems: Table | None = None,
) -> Path:
    """Write the page with all studies of one campaign; `progress` is called for each table and figure.

    The head of the page shows `winners`, and the table `own_problems`, which describes the user's own problems.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"code": code_html}
    environment.globals |= {
        "letter": letter,
        "printed_part": printed_part,
        "row_number": row_number,
        "clock_words": CLOCK_WORDS,
        "events_note": events_note,
        "absent": ABSENT,
        "rows_open": ROWS_OPEN,
        "wide": WIDE,
        "uncommitted": UNCOMMITTED,
        "codes": code_words(parts[0].campaign.codes),
    }
    sections = [_section(part, environment, path.parent, progress) for part in parts]
    first = parts[0].campaign
    page = environment.get_template("report.html.j2").render(
        campaign=first,
        winners=winners,
        own=own_problems,
        papers=any(item.artifact.is_of_papers for section in sections for item in section.drawn),
        summary=_summary(parts),
        others=list({reference.name: reference for part in parts for reference in part.campaign.beside}.values()),
        sections=sections,
        environments={key: dict(_flattened_items(record)) for key, record in first.environments.items()},
        verdicts=[str(verdict) for verdict in VERDICT_ORDER],
        reversed=str(Verdict.REVERSED),
        claims_table=CLAIMS,
        legends={section.campaign.study: list(section.legend.items()) for section in sections},
        near_empty=f"{NEAR_EMPTY:g}",
        tie=" and ".join(dict.fromkeys(f"{100 * part.campaign.tie:g} %" for part in parts)),
    )
    with replace_artifact(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path


def code_html(text: str) -> Markup:
    """Return text as HTML, with words in backticks as `<code>`."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def read_legend(path: Path) -> dict[str, str]:
    """Read the meanings of the parts of a variant's name: a CSV file with columns `part` and `meaning`.

    A part is a regular expression that must match whole words of a name; `\\1` in the meaning stands for the text that
    its first group matched.
    """
    with path.open(encoding="utf-8", newline="") as file:
        return {line["part"]: line["meaning"] for line in csv.DictReader(file)}


def printed_part(part: str, meaning: str) -> tuple[str, str]:
    """Return a legend's line made readable: `N` for numbers in the pattern, alternatives listed in the meaning."""
    pattern = re.sub(r"\(\?<?=([^)]*)\)", r"\1", part)  # print the text of lookaheads and lookbehinds too
    groups = re.findall(r"\(((?:[^()]|\([^()]*\))*)\)", pattern)
    group_texts = ["N" if r"\d" in group else group.replace("|", " or ") for group in groups]
    printed_meaning = re.sub(r"\\(\d)", lambda match: group_texts[int(match[1]) - 1], meaning)
    for group, text in zip(groups, group_texts, strict=True):
        pattern = pattern.replace(f"({group})", "N") if text == "N" else pattern
    return pattern, printed_meaning


def row_number(table: Table, text: str) -> int:
    """Return the number of the first row of which a cell begins with a text, counted from 1; 0 if there is none."""
    rows = enumerate([*table.rows, *table.summary], 1)
    return next((number for number, row in rows if any(cell.shown.startswith(text) for cell in row)), 0)


def _section(part: PageStudy, environment: jinja2.Environment, folder: Path, progress: ProgressCallback) -> Section:
    campaign = part.campaign
    page_artifacts = []
    omitted_names = []
    for number, artifact in enumerate(part.artifacts):
        progress(campaign.study, number, len(part.artifacts))
        page_artifact = render_artifact(artifact, campaign, part.published)
        if page_artifact is None:
            omitted_names.append(artifact.name)
        else:
            page_artifacts.append(page_artifact)
    progress(campaign.study, len(part.artifacts), len(part.artifacts))
    page_names = {item.artifact.name for item in page_artifacts}
    judged = next((item.table for item in page_artifacts if item.artifact.name == CLAIMS), None)
    lines = problem_lines(campaign, part.published)
    words = environment.from_string(part.words.read_text("utf-8")).render() if part.words else ""
    return Section(
        campaign=campaign,
        drawn=page_artifacts,
        title=part.title or campaign.study,
        reference=part.reference,
        card=_card(part, page_artifacts),
        contents=_contents(page_artifacts),
        facts=_facts(part) | ({"left out, as not measured": ", ".join(omitted_names)} if omitted_names else {}),
        remarks=join_sentences([remarks(lines), missing_note(lines)]),
        rows=_rows(folder, campaign.study),
        claims=tally(judged, "claim") if judged else {},
        close_calls=close_calls(judged) if judged else {},
        highlights={name: description for name, description in part.highlights.items() if name in page_names},
        statuses=statuses(campaign),
        failures=failures(campaign),
        missing=missing(campaign, part.headline),
        clocks=_clocks(campaign),
        floor=has_floor(campaign),
        disturbed=any(rows.select(status="disturbed") for rows in (campaign.searched, campaign.reported)),
        protocol=_protocol(campaign),
        words=Markup(words),
        legend=part.legend,
    )


def _contents(page_artifacts: Sequence[PageArtifact]) -> str:
    counts = {
        "table": sum(item.table is not None for item in page_artifacts),
        "figure": sum(bool(item.svg) for item in page_artifacts),
    }
    counts_text = [f"{number} {kind}{'s' * (number > 1)}" for kind, number in counts.items() if number]
    return ", ".join([*counts_text, "what was not measured, rows by status, protocol"])


def _card(part: PageStudy, page_artifacts: Sequence[PageArtifact]) -> Card | None:
    result = part.result
    result_artifact = next((item for item in page_artifacts if result and item.artifact.name == result.table), None)
    if result is None or result_artifact is None or result_artifact.table is None:
        return None
    tables = {part.campaign.name: result_artifact.table}
    for reference in part.campaign.beside:
        tables[reference.name] = cast(Table, result_artifact.artifact.make(reference, part.published))
    published_campaign, later_campaign = part.campaign.as_published, part.campaign.later
    published_table = None
    if published_campaign and (result.own_description or any(line.as_published for line in result.lines)):
        published_table = (
            published_campaign.name,
            cast(Table, result_artifact.artifact.make(published_campaign, part.published)),
        )
    card = make_card(result, part.library, tables, published_table)
    if later_campaign is None:
        return card
    later_table = cast(Table, result_artifact.artifact.make(later_campaign, part.published))
    later = make_card(result, part.library, {later_campaign.name: later_table})
    number = later.numbers[later_campaign.name]
    return replace(card, later=(later_campaign.name, number), left_out=later.left_out or card.left_out)


def _rows(folder: Path, study_name: str) -> dict[str, str]:
    """Return links from the page to the measured rows: the Parquet files of a packed campaign, else a folder."""
    study_folder = CampaignFolder(folder).study(study_name)
    relative_path = str(study_folder.relative_to(folder))
    steps = sorted(study_folder.glob(step_file(study_folder, "*").name))
    return {path.name: f"{relative_path}/{path.name}" for path in steps} or {relative_path: relative_path}


def measurement_days(campaigns: Sequence[Campaign]) -> str:
    """Return the first and the last day on which rows were measured, `2026-11-24 to 2026-11-25`; empty if none."""
    rows = (row for campaign in campaigns for row in (*campaign.searched, *campaign.reported))
    stamps = [row.measured_at for row in rows if row.measured_at]
    return " to ".join(dict.fromkeys((min(stamps)[:10], max(stamps)[:10]))) if stamps else ""


def _summary(parts: Sequence[PageStudy]) -> dict[str, str]:
    campaigns = [part.campaign for part in parts]
    records = {name: record for campaign in campaigns for name, record in campaign.problems.items()}
    available = {name for name, record in records.items() if record.is_available}
    refused = _refused(campaigns, available)
    rows = [row for source in campaigns for row in (*source.searched, *source.reported)]
    days = measurement_days(campaigns)
    devices = dict.fromkeys(campaign.device or "none yet" for campaign in campaigns)
    return {
        "device": ", ".join(devices) + " (a CPU, through OpenCL)" * campaigns[0].on_cpu,
        "campaign": campaigns[0].name + (f", {days}" if days else ""),
        "problems": f"{len(available) - len(refused)} of {len(records)}" + f", {len(refused)} refused" * bool(refused),
        "timed": f"{sum(row.timed for row in rows):,} rows",
        "code": code_count(campaigns[0].codes),
    }


def _refused(campaigns: Iterable[Campaign], available: Container[str]) -> set[str]:
    """Return the problems that were built, but refused by each study that was to measure them."""
    statuses: dict[str, set[str]] = {}
    for row in (row for campaign in campaigns for row in campaign.reported):
        statuses.setdefault(row.problem, set()).add(row.status)
    return {name for name, found in statuses.items() if found == {UNAVAILABLE} and name in available}


def _clocks(campaign: Campaign) -> list[ClockName]:
    """Return the clocks with reported times; both device clocks if there are no reported times yet."""
    reported = [clock for clock in REPORT_CLOCKS if campaign.report[median_column(clock)].notna().any()]
    return reported or ["event", "graph"]


#: Whose kernels a space has, in the words of the page.
WHOSE = {PAPER: "the papers’ kernels", PAPER_TUNED: "the papers’ kernels, tuned further,", EXTENDED: "our kernels"}


def repeated_kernel_phrase(campaign: Campaign) -> str | None:
    """Return a phrase that states by how many percent two processes' times of the same kernel differ, by each clock.

    The phrase also names the kernel, and the 95 % intervals of the ratio. None if no winner was timed twice.
    """
    repeated_row, pairs = _repeated_times(campaign)
    if repeated_row is None:
        return None
    parts = []
    for clock, (first, second) in pairs.items():
        interval_ends = [_percent_difference(end) for end in interval_of_ratio(second, first) or ()]
        interval_text = f" (95 % interval: {' to '.join(interval_ends)} %)" if interval_ends else ""
        parts.append(f"{_percent_difference(second.seconds / first.seconds)} % by the {clock} clock{interval_text}")
    winner_text = _win_phrase(Case(campaign, repeated_row.problem, repeated_row.precision), repeated_row.name)
    return f"two times of one kernel differ by {' and '.join(parts)}: {winner_text}, in two processes"


def repetition_differences(campaign: Campaign) -> list[float]:
    """Return, for each clock, the relative difference second / first - 1 of two processes' times of one kernel."""
    return [second.seconds / first.seconds - 1 for first, second in _repeated_times(campaign)[1].values()]


def _repeated_times(
    campaign: Campaign,
) -> tuple[RecordedRow | None, dict[ClockName, tuple[ReportedTime, ReportedTime]]]:
    """Return the first row that a second process timed again, and its (first, second) times by each clock."""
    for repeated_row in campaign.repeated.select(cache=campaign.cache):
        case = {
            "problem": repeated_row.problem,
            "precision": repeated_row.precision,
            "name": repeated_row.name,
            "cache": repeated_row.cache,
        }
        pairs = {}
        for clock in REPORT_CLOCKS:
            first = campaign.reported.select(kind=repeated_row.kind, **case).fastest(clock)
            second = Selection([repeated_row]).fastest(clock)
            if first and second:
                pairs[clock] = first, second
        if pairs:
            return repeated_row, pairs
    return None, {}


def _percent_difference(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}".replace("-", "−")


def _win_phrase(case: Case, name: str) -> str:
    """Return a phrase that names the clock and the space in which a kernel won; others can have another winner."""
    clocks = dict.fromkeys(choice.clock for choice in case.choices if choice.name == name)
    spaces = dict.fromkeys(row.space for row in case.select(name=name) if row.space in WHOSE)
    clock_text = f"the {next(iter(clocks))} clock’s winner" if clocks else "a winner"
    space_text = f" of {WHOSE[next(iter(spaces))]}" if spaces else ""
    return f"{clock_text}{space_text} on {case.problem}, {case.precision}, {name}"


def _facts(part: PageStudy) -> dict[str, str]:
    campaign = part.campaign
    records = list(campaign.problems.values())
    available = {record.name for record in records if record.is_available}
    refused = len(_refused([campaign], available))
    searched_rows = campaign.searched.select(lambda row: row.kind != "solver")
    cases = [Case(campaign, r.name, precision) for r in records for precision in campaign.precisions]
    reported = sum(winner_of(case, part.headline) is not None for case in cases)
    stamps = [row.measured_at for row in (*campaign.searched, *campaign.reported) if row.measured_at]
    facts = {
        "device": f"{campaign.device or 'none'}" + (" (CPU, through OpenCL)" if campaign.on_cpu else ""),
        "baseline": part.library or "none",
        "problems": f"{len(available)} of {len(records)} available" + f", {refused} refused" * bool(refused),
        "cases with a winner": f"{reported} of {len(cases)} (problem and precision)",
        "variants": f"{sum(row.timed for row in searched_rows)} timed of {len(searched_rows)} tried",
        "cache": " and ".join(campaign.caches) or campaign.cache,
    }
    if stamps:
        facts["measured"] = f"{min(stamps)[:19]} to {max(stamps)[:19]} UTC"
    facts["the same kernel twice"] = repeated_kernel_phrase(campaign) or "not timed twice"
    for clock in REPORT_CLOCKS:
        if readings := empty_kernel_reading(campaign, clock):
            facts[f"empty kernel, {clock}"] = readings
    return facts


def _protocol(campaign: Campaign) -> dict[str, str]:
    """Return the number of launches per row, read from the rows because the configuration may be unavailable."""
    rows = Selection([row for row in (*campaign.searched, *campaign.reported) if row.timed])
    protocols = {}
    for phase, protocol in (("search", "screen"), ("search", "full"), ("report", "full")):
        part = rows.select(phase=phase, protocol=protocol)
        clock_texts = []
        for clock in REPORT_CLOCKS:
            launches = [launches for row in part if (launches := row.get(f"{clock}_launches")) is not None]
            if launches:
                low, high = min(launches), max(launches)
                clock_text = "by the host" if clock == "host" else f"by {clock}s"
                clock_texts.append(f"{low}–{high} {clock_text}" if low != high else f"{low} {clock_text}")
        if part:
            protocols[f"{phase}, {protocol}"] = (
                f"{len(part)} rows; launches a row: {', '.join(clock_texts) or 'not recorded'}"
            )
    return protocols


def _flattened_items(record: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of a nested record with their dotted keys, as text."""
    if isinstance(record, Mapping):
        for key, value in sorted(record.items()):
            yield from _flattened_items(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(record, (list, tuple)):
        yield prefix, " ".join(map(str, record)) or "none"
    else:
        yield prefix, "unknown" if record is None else str(record)
