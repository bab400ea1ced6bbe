"""The HTML report: all studies of a campaign on one page that opens without a network.

On top of the page stands the result of each study in one number. Below it each study has its tables and figures as
elements of the page, what was measured on what and how, and a summary of all rows and problems by status: what
failed, what is missing, and why.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jinja2
import pandas as pd
from markupsafe import Markup, escape

from repro.bench.rows import TIMED
from repro.bench.runnable import ClockName
from repro.results import figure_style
from repro.results.campaign_data import NEAR_EMPTY, Campaign, Case, ReportedTime, one_line
from repro.results.output import replacing
from repro.results.problem_rows import (
    CLOCK_WORDS,
    REMARKS,
    empty_kernel_reading,
    join_sentences,
    missing_note,
    name_cell,
    problem_rows,
    remarks,
)
from repro.results.published import Published
from repro.results.registry import Artifact
from repro.results.tables import ABSENT, Cell, Column, Figure, Result, Table, letter

if TYPE_CHECKING:
    from repro.tuning.search import ProgressCallback


#: In the order in which a time is looked for.
REPORT_CLOCKS: tuple[ClockName, ...] = ("event", "graph", "host")
# campaigns hold thousands of failed variants of one cause: so many names are printed of each
NAMES_SHOWN = 12


def statuses(campaign: Campaign) -> Table:
    """Return how many rows have which status, by phase, state of the cache and kind."""
    titles = ("phase", "cache", "kind", "status")
    counts: Counter[tuple[str, ...]] = Counter()
    for frame in (campaign.search, campaign.report):
        counts.update(zip(*(frame[title] for title in titles), strict=True))
    rows = [(*map(Cell, key), Cell(count)) for key, count in sorted(counts.items())]
    columns = (*(Column(title, title, numeric=False) for title in titles), Column("rows", "rows"))
    return Table(columns, rows, "Rows by status. Only `ok` and `noisy` rows have a time.")


def failures(campaign: Campaign) -> Table:
    """Return every row that is not `ok`, those of one cause together."""
    causes: dict[tuple[str, ...], list[str]] = {}
    for problem in campaign.problems.values():
        for precision in campaign.precisions if problem.available else ():
            for row in campaign.search_rows(problem.name, precision) + campaign.report_rows(problem.name, precision):
                if row["status"] != "ok":
                    message = one_line(str(row["message"] or ""))
                    key = (problem.name, precision, row["phase"], row["kind"], row["status"], message)
                    causes.setdefault(key, []).append(str(row["name"]))
    rows: list[tuple[Cell, ...]] = []
    for (name, precision, phase, kind, status, message), names in causes.items():
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        shown = ", ".join(names[:NAMES_SHOWN]) + more
        texts = (name, precision, phase, kind, status, message)
        first, *rest = texts
        rows.append((name_cell(campaign.problems[first]), *map(Cell, rest), Cell(len(names)), Cell(shown)))
    titles = ("problem", "precision", "phase", "kind", "status", "message")
    columns = (
        *(Column(title, title, numeric=False) for title in titles),
        Column("rows", "rows"),
        Column("names", "names", numeric=False),
    )
    return Table(columns, rows, "Every row that is not ok; those of one cause stand together.")


def missing(campaign: Campaign, headline: str) -> Table:
    """Return what has no winner or no floor: unavailable problems, cases not measured or not chosen, and why."""
    rows: list[tuple[Cell, ...]] = []
    floor = has_floor(campaign)
    for problem in campaign.problems.values():
        if not problem.available:
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
    """Return the winner of a tuning by the first clock that has one."""
    return next((winner for clock in REPORT_CLOCKS if (winner := case.winner(headline, clock))), None)


def has_floor(campaign: Campaign) -> bool:
    """Return whether a floor was tried on anything: a study need not have one."""
    return bool((campaign.report["kind"] == "floor").any())


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
class PageArtifact:
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


def render_artifact(artifact: Artifact, campaign: Campaign, published: Published) -> PageArtifact | None:
    """Make an artifact, a figure as an element of the page; None where nothing was measured that it is about."""
    made = artifact.make(campaign, published)
    if made.nothing:
        return None
    caption = Caption.of(made.caption)
    if artifact.kind == "table":
        return PageArtifact(artifact, caption, table=cast(Table, made))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{artifact.name}.svg"
        figure_style.save(cast(Figure, made), [path], artifact.title, campaign.column, screen=True)
        return PageArtifact(artifact, caption, svg=inline_svg(path.read_text("utf-8"), artifact))


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
    width *= figure_style.SCREEN / 72
    opening = f'<svg role="img" aria-label="{label}" id="{prefix}svg" style="--width:{width:.0f}px"'
    return Markup(text.replace("<svg", opening, 1))


@dataclass(frozen=True)
class Card:
    """A study's result, as the template takes it.

    Attributes
    ----------
    result
        Which number it is.
    says
        What the number is, the library named.
    numbers
        As printed, by campaign.
    others
        By campaign the same number by other clocks.
    table
        The tables of these campaigns beside each other; None where there is one alone.
    """

    result: Result
    says: str
    numbers: Mapping[str, str]
    others: Mapping[str, Mapping[str, str]]
    table: Table | None = None


def make_card(result: Result, library: str, tables: Mapping[str, Table]) -> Card:
    """Return the result of a study.

    Parameters
    ----------
    library
        What the baselines are of; may be empty.
    tables
        By campaign the table that the result is in.
    """
    return Card(
        result,
        result.said_of(next(iter(tables.values()))).format(library=library or "the library"),
        {name: result.cell(table).shown for name, table in tables.items()},
        {
            name: {clock: cell.shown for clock, cell in result.by_other_clocks(table).items()}
            for name, table in tables.items()
        },
        side_by_side(tables) if len(tables) > 1 else None,
    )


def side_by_side(tables: Mapping[str, Table]) -> Table:
    """Return one table of several campaigns' tables of one kind: lines of the same first cell are one line.

    Columns without a group, which say nothing of a campaign, are the first one's.
    """
    first = next(iter(tables.values()))
    shared = [at for at, column in enumerate(first.columns) if not column.group]
    columns = [first.columns[at] for at in shared]
    own: dict[str, list[int]] = {}
    for name, table in tables.items():
        own[name] = [at for at, column in enumerate(table.columns) if column.group]
        columns += [_of(name, table.columns[at]) for at in own[name]]
    by_line = {name: {row[0].shown: row for row in table.rows} for name, table in tables.items()}
    lines = dict.fromkeys(line for rows in by_line.values() for line in rows)
    rows = []
    for line in lines:
        heads = by_line[next(iter(tables))].get(line)
        cells = [heads[at] for at in shared] if heads else [Cell(line), *[Cell()] * (len(shared) - 1)]
        for name, places in own.items():
            row = by_line[name].get(line)
            cells += [row[at] if row else Cell() for at in places]
        rows.append(tuple(cells))
    return Table(tuple(columns), rows, f"{first.caption.partition('. ')[0].rstrip('.')}: {' beside '.join(tables)}.")


def _of(campaign: str, column: Column) -> Column:
    return replace(column, group=f"{campaign}, {column.group}")


@dataclass(frozen=True)
class PageStudy:
    """One study of the page, as it is asked for.

    Attributes
    ----------
    campaign, published, artifacts
        What was measured, what is published, and the tables and figures to show.
    headline
        The tuning whose winner a case is counted by.
    library
        What the baselines are of.
    highlights
        The names of the artifacts to look at first, in their order, with what each shows.
    words
        A template of HTML, how this study's tables are read; None where there is nothing to say.
    title, reference
        What the study is about, and the papers.
    result
        The study's result in one number; None where it has none. Those of the campaigns beside it, and the tables that
        they are in, stand beside it.
    """

    campaign: Campaign
    published: Published
    artifacts: Sequence[Artifact]
    headline: str = "joint"
    library: str = ""
    highlights: Mapping[str, str] = field(default_factory=dict)
    words: Path | None = None
    title: str = ""
    reference: str = ""
    result: Result | None = None


@dataclass(frozen=True)
class Section:
    """One study of the page, as the template takes it.

    Attributes
    ----------
    campaign, drawn
        What was measured, and the tables and figures made of it.
    title, reference
        What the study is about, and the papers.
    card
        Its result in one number; None where the page has no such table.
    facts
        What stands at the head of the section.
    remarks
        The problems that are not the papers' own, and what is missing of theirs, in sentences; empty where there is
        neither.
    rows
        Where the measured rows lie, from the page.
    highlights
        Names of what is drawn and to be looked at first, with what each shows.
    statuses, failures, missing
        Tables of rows by status, of rows that are not ok, and of what has no result.
    clocks
        The clocks that anything was reported by.
    protocol
        Launches a row, by phase and protocol.
    floor
        Whether a floor was tried on anything: a study need not have one.
    disturbed
        Whether any row was disturbed.
    words
        How this study's tables are read; empty where there is nothing to say.
    """

    campaign: Campaign
    drawn: Sequence[PageArtifact]
    title: str
    reference: str
    card: Card | None
    facts: Mapping[str, str]
    remarks: str
    rows: Mapping[str, str]
    highlights: Mapping[str, str]
    statuses: Table
    failures: Table
    missing: Table
    clocks: Sequence[ClockName]
    protocol: Mapping[str, str]
    floor: bool
    disturbed: bool
    words: Markup


def write_report(parts: Sequence[PageStudy], path: Path, progress: ProgressCallback = lambda *_: None) -> Path:
    """Write the page with all studies of one campaign.

    Parameters
    ----------
    parts
        A campaign's studies.
    path
        `results/<campaign>/report.html`.
    progress
        Is told of each table and figure, by its study.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = _code
    environment.globals |= {"letter": letter, "clock_words": CLOCK_WORDS, "absent": ABSENT}
    sections = [_section(part, environment, path.parent, progress) for part in parts]
    first = parts[0].campaign
    page = environment.get_template("report.html.j2").render(
        campaign=first,
        summary=_summary(parts),
        others=list({other.name: other for part in parts for other in part.campaign.beside}.values()),
        sections=sections,
        environments={key: dict(_flat(record)) for key, record in first.environments.items()},
        near_empty=f"{NEAR_EMPTY:g}",
        tie=" and ".join(dict.fromkeys(f"{100 * part.campaign.tie:g} %" for part in parts)),
    )
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path


def _code(text: str) -> Markup:
    """Return text for the page in which words in backticks are code, as they are in Markdown."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _section(part: PageStudy, environment: jinja2.Environment, folder: Path, progress: ProgressCallback) -> Section:
    campaign = part.campaign
    drawn = []
    left_out = []
    for done, artifact in enumerate(part.artifacts):
        progress(campaign.study, done, len(part.artifacts))
        made = render_artifact(artifact, campaign, part.published)
        if made is None:
            left_out.append(artifact.name)
        else:
            drawn.append(made)
    progress(campaign.study, len(part.artifacts), len(part.artifacts))
    shown = {item.artifact.name for item in drawn}
    lines = problem_rows(campaign, part.published)
    words = environment.from_string(part.words.read_text("utf-8")).render() if part.words else ""
    return Section(
        campaign=campaign,
        drawn=drawn,
        title=part.title or campaign.study,
        reference=part.reference,
        card=_card(part, drawn),
        facts=_facts(part) | ({"left out, as not measured": ", ".join(left_out)} if left_out else {}),
        remarks=join_sentences([remarks(lines), missing_note(lines)]),
        rows=_rows(folder, campaign.study),
        highlights={name: what for name, what in part.highlights.items() if name in shown},
        statuses=statuses(campaign),
        failures=failures(campaign),
        missing=missing(campaign, part.headline),
        clocks=_clocks(campaign),
        floor=has_floor(campaign),
        disturbed=any((frame["status"] == "disturbed").any() for frame in (campaign.search, campaign.report)),
        protocol=_protocol(campaign),
        words=Markup(words),
    )


def _card(part: PageStudy, drawn: Sequence[PageArtifact]) -> Card | None:
    """Return the study's result, beside those of the other campaigns."""
    result = part.result
    shown = next((item for item in drawn if result and item.artifact.name == result.table), None)
    if result is None or shown is None or shown.table is None:
        return None
    tables = {part.campaign.name: shown.table}
    for other in part.campaign.beside:
        tables[other.name] = cast(Table, shown.artifact.make(other, part.published))
    return make_card(result, part.library, tables)


def _rows(folder: Path, study: str) -> dict[str, str]:
    """Return where the rows that all is made of lie, seen from the page: files of a record, else a folder."""
    own = folder / "raw" / study
    steps = [f"raw/{study}/{path.name}" for path in sorted(own.glob("*.parquet"))]
    return {path.rpartition("/")[2]: path for path in steps} or {f"raw/{study}": f"raw/{study}"}


def _summary(parts: Sequence[PageStudy]) -> dict[str, str]:
    """Return on what the campaign was measured, when, and of how much."""
    campaigns = [part.campaign for part in parts]
    records = {name: record for campaign in campaigns for name, record in campaign.problems.items()}
    stamps = pd.concat([rows["measured_at"] for one in campaigns for rows in (one.search, one.report)]).dropna()
    timed = sum(int(rows["status"].isin(TIMED).sum()) for one in campaigns for rows in (one.search, one.report))
    days = dict.fromkeys((min(stamps)[:10], max(stamps)[:10])) if len(stamps) else {}
    devices = dict.fromkeys(campaign.device or "none yet" for campaign in campaigns)
    return {
        "device": ", ".join(devices) + " (a CPU, through OpenCL)" * campaigns[0].on_cpu,
        "campaign": campaigns[0].name + (f", {' to '.join(days)}" if days else ""),
        "problems": f"{sum(record.available for record in records.values())} of {len(records)}",
        "timed": f"{timed:,} rows",
    }


def _clocks(campaign: Campaign) -> list[ClockName]:
    """Return the clocks that anything was reported by; both of a launch on the device where none was yet."""
    reported = [clock for clock in REPORT_CLOCKS if campaign.report[f"{clock}_median"].notna().any()]
    return reported or ["event", "graph"]


def _facts(part: PageStudy) -> dict[str, str]:
    """Return what was measured, on what, against what and when."""
    campaign = part.campaign
    records = list(campaign.problems.values())
    tried = campaign.search[campaign.search["kind"] != "solver"]
    timed = tried["status"].isin(TIMED)
    cases = [Case(campaign, r.name, precision) for r in records for precision in campaign.precisions]
    reported = sum(winner_of(case, part.headline) is not None for case in cases)
    stamps = pd.concat([campaign.search, campaign.report])["measured_at"].dropna()
    facts = {
        "device": f"{campaign.device or 'none'}" + (" (CPU, through OpenCL)" if campaign.on_cpu else ""),
        "baseline": part.library or "none",
        "problems": f"{sum(r.available for r in records)} of {len(records)} available",
        "cases with a winner": f"{reported} of {len(cases)} (problem and precision)",
        "variants": f"{int(timed.sum())} timed of {len(tried)} tried",
        "cache": " and ".join(campaign.caches) or campaign.cache,
    }
    if len(stamps):
        facts["measured"] = f"{min(stamps)[:19]} to {max(stamps)[:19]} UTC"
    for clock in REPORT_CLOCKS:
        if readings := empty_kernel_reading(campaign, clock):
            facts[f"empty kernel, {clock}"] = readings
    return facts


def _protocol(campaign: Campaign) -> dict[str, str]:
    """Return launches a row, as the rows say: the configuration that made them need not be at hand."""
    rows = pd.concat([campaign.search, campaign.report])
    rows = rows[rows["status"].isin(TIMED)]
    protocols = {}
    for phase, protocol in (("search", "screen"), ("search", "full"), ("report", "full")):
        part = rows[(rows["phase"] == phase) & (rows["protocol"] == protocol)]
        words = []
        for clock in REPORT_CLOCKS:
            launches = part[f"{clock}_launches"].dropna()
            if len(launches):
                low, high = int(launches.min()), int(launches.max())
                by = "by the host" if clock == "host" else f"by {clock}s"
                words.append(f"{low}–{high} {by}" if low != high else f"{low} {by}")
        if len(part):
            protocols[f"{phase}, {protocol}"] = (
                f"{len(part)} rows; launches a row: {', '.join(words) or 'not recorded'}"
            )
    return protocols


def _flat(record: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Return the values of a nested record with their dotted keys, as text."""
    if isinstance(record, Mapping):
        for key, value in sorted(record.items()):
            yield from _flat(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(record, (list, tuple)):
        yield prefix, " ".join(map(str, record)) or "none"
    else:
        yield prefix, "unknown" if record is None else str(record)
