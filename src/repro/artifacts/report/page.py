"""The HTML report: one page that opens without a network."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jinja2
import pandas as pd
from markupsafe import Markup

from repro.artifacts import style
from repro.artifacts.case import NEAR_EMPTY, Case, Timed
from repro.artifacts.data import Campaign, one_line
from repro.artifacts.document import Cell, Column, Figure, Table, letter
from repro.artifacts.lineup import CLOCK_WORDS, name_cell, reading
from repro.artifacts.published import Published
from repro.artifacts.registry import Artifact
from repro.artifacts.write import replacing
from repro.bench.rows import TIMED
from repro.bench.runnable import Clock

if TYPE_CHECKING:
    from repro.tuning.search import Progress

#: In the order in which a time is looked for.
CLOCKS: tuple[Clock, ...] = ("event", "graph", "host")
# campaigns hold thousands of failed variants of one cause: so many names are printed of each
NAMES_SHOWN = 12


@dataclass(frozen=True)
class Part:
    """One study of the page, as it is asked for.

    Attributes
    ----------
    campaign, published, artifacts
        What was measured, what is published, and the tables and figures to show.
    headline
        The tuning whose winner a case is counted by.
    library
        What the baselines are of.
    glance
        The names of the artifacts to look at first, in their order, with what each shows.
    words
        A template of HTML, how this study's tables are read; None where there is nothing to say.
    """

    campaign: Campaign
    published: Published
    artifacts: Sequence[Artifact]
    headline: str = "joint"
    library: str = ""
    glance: Mapping[str, str] = field(default_factory=dict)
    words: Path | None = None


@dataclass(frozen=True)
class Drawn:
    """An artifact as the template takes it; one of `table` and `svg` is None."""

    artifact: Artifact
    caption: str
    table: Table | None = None
    svg: Markup | None = None


@dataclass(frozen=True)
class Section:
    """One study of the page, as the template takes it.

    Attributes
    ----------
    campaign, drawn
        What was measured, and the tables and figures made of it.
    facts
        What stands at the head of the section.
    glance
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
    drawn: Sequence[Drawn]
    facts: Mapping[str, str]
    glance: Mapping[str, str]
    statuses: Table
    failures: Table
    missing: Table
    clocks: Sequence[Clock]
    protocol: Mapping[str, str]
    floor: bool
    disturbed: bool
    words: Markup


def write_report(parts: Sequence[Part], path: Path, progress: Progress = lambda *_: None) -> Path:
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
    environment.globals |= {"letter": letter, "clock_words": CLOCK_WORDS}
    sections = [_section(part, environment, progress) for part in parts]
    first = parts[0].campaign
    page = environment.get_template("report.html.j2").render(
        campaign=first,
        sections=sections,
        environments={key: dict(_flat(record)) for key, record in first.environments.items()},
        near_empty=f"{NEAR_EMPTY:g}",
        tie=" and ".join(dict.fromkeys(f"{100 * part.campaign.tie:g} %" for part in parts)),
    )
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path


def _section(part: Part, environment: jinja2.Environment, progress: Progress) -> Section:
    campaign = part.campaign
    drawn = []
    for done, artifact in enumerate(part.artifacts):
        progress(campaign.study, done, len(part.artifacts))
        drawn.append(_draw(artifact, campaign, part.published))
    progress(campaign.study, len(drawn), len(drawn))
    drawable = {artifact.name for artifact in part.artifacts}
    words = environment.from_string(part.words.read_text("utf-8")).render() if part.words else ""
    return Section(
        campaign=campaign,
        drawn=drawn,
        facts=_facts(part),
        glance={name: what for name, what in part.glance.items() if name in drawable},
        statuses=statuses(campaign),
        failures=failures(campaign),
        missing=missing(campaign, part.headline),
        clocks=_clocks(campaign),
        floor=_has_floor(campaign),
        disturbed=any((frame["status"] == "disturbed").any() for frame in (campaign.search, campaign.report)),
        protocol=_protocol(campaign),
        words=Markup(words),
    )


def _draw(artifact: Artifact, campaign: Campaign, published: Published) -> Drawn:
    """Make an artifact; a figure becomes an element of the page."""
    made = artifact.make(campaign, published)
    if artifact.kind == "table":
        return Drawn(artifact, made.caption, table=cast(Table, made))
    figure = cast(Figure, made)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{artifact.name}.svg"
        style.save(figure, [path], artifact.title, campaign.column)
        return Drawn(artifact, made.caption, svg=inline_svg(path.read_text("utf-8"), artifact))


def inline_svg(text: str, artifact: Artifact) -> Markup:
    """Return an SVG file as an element of the page: no prologue, no metadata, ids that no other figure has."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    prefix = f"{artifact.study}-{artifact.name}-"
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'href="#', f'href="#{prefix}', text)
    text = text.replace("url(#", f"url(#{prefix}")
    width = float(re.findall(r'viewBox="0 0 ([\d.]+)', text)[0])
    label = Markup.escape(artifact.title)
    # a point of the paper becomes two pixels on the screen
    opening = f'<svg role="img" aria-label="{label}" style="width:{2 * width:.0f}px"'
    return Markup(text.replace("<svg", opening, 1))


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
    floor = _has_floor(campaign)
    for problem in campaign.problems.values():
        if not problem.available:
            reason = one_line(problem.reason or "no reason recorded", 2000)
            rows.append((Cell(problem.name), Cell("all"), Cell("unavailable"), Cell(reason)))
            continue
        for precision in campaign.precisions:
            case = Case(campaign, problem.name, precision)
            if _winner(case, headline) is None:
                rows.append((name_cell(problem), Cell(precision), Cell("no winner"), Cell(case.why_not())))
            elif floor and not any(case.bound("floor", clock) for clock in CLOCKS):
                rows.append((name_cell(problem), Cell(precision), Cell("no floor"), Cell(case.why_no_floor())))
    titles = ("problem", "precision", "what", "why")
    return Table(
        tuple(Column(title, title, numeric=False) for title in titles),
        rows,
        "Problems and precisions without a result, and why.",
    )


def _winner(case: Case, headline: str) -> Timed | None:
    """Return the winner of a tuning by the first clock that has one."""
    return next((winner for clock in CLOCKS if (winner := case.winner(headline, clock))), None)


def _has_floor(campaign: Campaign) -> bool:
    """Return whether a floor was tried on anything: a study need not have one."""
    return bool((campaign.report["kind"] == "floor").any())


def _clocks(campaign: Campaign) -> list[Clock]:
    """Return the clocks that anything was reported by; both of a launch on the device where none was yet."""
    reported = [clock for clock in CLOCKS if campaign.report[f"{clock}_median"].notna().any()]
    return reported or ["event", "graph"]


def _facts(part: Part) -> dict[str, str]:
    """Return what was measured, on what, against what and when."""
    campaign = part.campaign
    records = list(campaign.problems.values())
    timed = campaign.search["status"].isin(TIMED)
    cases = [Case(campaign, r.name, precision) for r in records for precision in campaign.precisions]
    reported = sum(_winner(case, part.headline) is not None for case in cases)
    stamps = pd.concat([campaign.search, campaign.report])["measured_at"].dropna()
    facts = {
        "device": f"{campaign.device or 'none'}" + (" (CPU, through OpenCL)" if campaign.on_cpu else ""),
        "baseline": part.library or "none",
        "problems": f"{sum(r.available for r in records)} of {len(records)} available",
        "cases with a winner": f"{reported} of {len(cases)} (problem and precision)",
        "variants": f"{int(timed.sum())} timed of {len(campaign.search)} tried",
        "cache": " and ".join(campaign.caches) or campaign.cache,
    }
    if len(stamps):
        facts["measured"] = f"{min(stamps)[:19]} to {max(stamps)[:19]} UTC"
    for clock in CLOCKS:
        if readings := reading(campaign, clock):
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
        for clock in CLOCKS:
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
