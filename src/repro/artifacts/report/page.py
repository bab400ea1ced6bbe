"""The HTML report: one page that opens without a network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jinja2
import pandas as pd
from markupsafe import Markup, escape

from repro.artifacts.case import NEAR_EMPTY, Case
from repro.artifacts.data import Campaign
from repro.artifacts.document import ABSENT, Result, Table, letter
from repro.artifacts.lineup import CLOCK_WORDS, lacking, lineup, reading, remarks, sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import Artifact
from repro.artifacts.report.accounts import CLOCKS, failures, has_floor, missing, statuses, winner_of
from repro.artifacts.report.drawing import Drawn, draw
from repro.artifacts.report.headline import Card, make_card
from repro.artifacts.write import replacing
from repro.bench.rows import TIMED
from repro.bench.runnable import Clock

if TYPE_CHECKING:
    from repro.tuning.search import Progress


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
    glance: Mapping[str, str] = field(default_factory=dict)
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
    title: str
    reference: str
    card: Card | None
    facts: Mapping[str, str]
    remarks: str
    rows: Mapping[str, str]
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


def _section(part: Part, environment: jinja2.Environment, folder: Path, progress: Progress) -> Section:
    campaign = part.campaign
    drawn = []
    left_out = []
    for done, artifact in enumerate(part.artifacts):
        progress(campaign.study, done, len(part.artifacts))
        made = draw(artifact, campaign, part.published)
        if made is None:
            left_out.append(artifact.name)
        else:
            drawn.append(made)
    progress(campaign.study, len(part.artifacts), len(part.artifacts))
    shown = {item.artifact.name for item in drawn}
    lines = lineup(campaign, part.published)
    words = environment.from_string(part.words.read_text("utf-8")).render() if part.words else ""
    return Section(
        campaign=campaign,
        drawn=drawn,
        title=part.title or campaign.study,
        reference=part.reference,
        card=_card(part, drawn),
        facts=_facts(part) | ({"left out, as not measured": ", ".join(left_out)} if left_out else {}),
        remarks=sentences([remarks(lines), lacking(lines)]),
        rows=_rows(folder, campaign.study),
        glance={name: what for name, what in part.glance.items() if name in shown},
        statuses=statuses(campaign),
        failures=failures(campaign),
        missing=missing(campaign, part.headline),
        clocks=_clocks(campaign),
        floor=has_floor(campaign),
        disturbed=any((frame["status"] == "disturbed").any() for frame in (campaign.search, campaign.report)),
        protocol=_protocol(campaign),
        words=Markup(words),
    )


def _card(part: Part, drawn: Sequence[Drawn]) -> Card | None:
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


def _summary(parts: Sequence[Part]) -> dict[str, str]:
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


def _clocks(campaign: Campaign) -> list[Clock]:
    """Return the clocks that anything was reported by; both of a launch on the device where none was yet."""
    reported = [clock for clock in CLOCKS if campaign.report[f"{clock}_median"].notna().any()]
    return reported or ["event", "graph"]


def _facts(part: Part) -> dict[str, str]:
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
