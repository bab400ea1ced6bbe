"""The HTML report: one page that opens without a network."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import jinja2
import pandas as pd
from markupsafe import Markup

from repro.artifacts import style
from repro.artifacts.case import NEAR_EMPTY, TIE, TIMED, Case, Clock
from repro.artifacts.data import Campaign, one_line
from repro.artifacts.document import Cell, Column, Figure, Table, letter
from repro.artifacts.lineup import name_cell, reading
from repro.artifacts.published import Published
from repro.artifacts.registry import Artifact
from repro.artifacts.write import replacing

Part = tuple[Campaign, Published, Sequence[Artifact]]
# times of many campaigns hold thousands of failed variants of one cause: so many names are printed of each
NAMES_SHOWN = 12


@dataclass(frozen=True)
class Drawn:
    """An artifact as the template takes it; one of `table` and `svg` is None."""

    artifact: Artifact
    caption: str
    table: Table | None = None
    svg: Markup | None = None


@dataclass(frozen=True)
class Section:
    """One study of the page."""

    campaign: Campaign
    drawn: Sequence[Drawn]
    facts: Mapping[str, str]
    statuses: Table
    failures: Table
    missing: Table
    protocol: Mapping[str, str]


def write_report(parts: Sequence[Part], path: Path) -> Path:
    """Write the page with all studies of one campaign.

    Parameters
    ----------
    parts
        A campaign's studies, each with the published numbers and the artifacts to show.
    path
        `results/<campaign>/report.html`.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("repro.artifacts"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["letter"] = letter
    sections = [_section(*part) for part in parts]
    first = parts[0][0]
    page = environment.get_template("report.html.j2").render(
        campaign=first,
        sections=sections,
        environments={key: dict(_flat(record)) for key, record in first.environments.items()},
        near_empty=f"{NEAR_EMPTY:g}",
        tie=f"{100 * TIE:g} %",
    )
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path


def _section(campaign: Campaign, published: Published, artifacts: Sequence[Artifact]) -> Section:
    return Section(
        campaign=campaign,
        drawn=[_draw(artifact, campaign, published) for artifact in artifacts],
        facts=_facts(campaign),
        statuses=statuses(campaign),
        failures=failures(campaign),
        missing=missing(campaign),
        protocol=_protocol(campaign),
    )


def _draw(artifact: Artifact, campaign: Campaign, published: Published) -> Drawn:
    made = artifact.make(campaign, published)
    if artifact.kind == "table":
        return Drawn(artifact, made.caption, table=cast(Table, made))
    figure = cast(Figure, made)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{artifact.name}.svg"
        style.save(figure, [path], artifact.title)
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


def missing(campaign: Campaign) -> Table:
    """Return what has no winner or no floor: unavailable problems, cases not measured or not chosen, and why."""
    rows: list[tuple[Cell, ...]] = []
    for problem in campaign.problems.values():
        if not problem.available:
            reason = one_line(problem.reason or "no reason recorded", 2000)
            rows.append((Cell(problem.name), Cell("all"), Cell("unavailable"), Cell(reason)))
            continue
        for precision in campaign.precisions:
            case = Case(campaign, problem.name, precision)
            if case.winner("joint", "event") is None:
                rows.append((name_cell(problem), Cell(precision), Cell("no winner"), Cell(case.why_not())))
            elif case.bound("floor", "graph") is None:
                rows.append((name_cell(problem), Cell(precision), Cell("no floor"), Cell(case.why_no_floor())))
    titles = ("problem", "precision", "what", "why")
    return Table(
        tuple(Column(title, title, numeric=False) for title in titles),
        rows,
        "Problems and precisions without a result, and why.",
    )


def _facts(campaign: Campaign) -> dict[str, str]:
    records = list(campaign.problems.values())
    timed = campaign.search["status"].isin(TIMED)
    cases = [Case(campaign, r.name, precision) for r in records for precision in campaign.precisions]
    reported = sum(case.winner("joint", "event") is not None for case in cases)
    stamps = pd.concat([campaign.search, campaign.report])["measured_at"].dropna()
    facts = {
        "device": f"{campaign.device or 'none'}" + (" (CPU, through OpenCL)" if campaign.on_cpu else ""),
        "baseline": campaign.library,
        "problems": f"{sum(r.available for r in records)} of {len(records)} available",
        "cases with a winner": f"{reported} of {len(cases)} (problem and precision)",
        "variants": f"{int(timed.sum())} timed of {len(campaign.search)} tried",
        "cache": " and ".join(campaign.caches) or campaign.cache,
    }
    if len(stamps):
        facts["measured"] = f"{min(stamps)[:19]} to {max(stamps)[:19]} UTC"
    clocks: tuple[Clock, ...] = ("event", "graph")
    for clock in clocks:
        if readings := reading(campaign, clock):
            facts[f"empty kernel, {clock}"] = readings
    return facts


def _protocol(campaign: Campaign) -> dict[str, str]:
    """Return launches a row, as the rows say: the configuration that made them need not be at hand."""
    rows = pd.concat([campaign.search, campaign.report])
    rows = rows[rows["status"].isin(TIMED)]
    found = {}
    for phase, protocol in (("search", "screen"), ("search", "full"), ("report", "full")):
        part = rows[(rows["phase"] == phase) & (rows["protocol"] == protocol)]
        words = []
        for clock in ("event", "graph"):
            launches = part[f"{clock}_launches"].dropna()
            if len(launches):
                low, high = int(launches.min()), int(launches.max())
                words.append(f"{low}–{high} by {clock}s" if low != high else f"{low} by {clock}s")
        if len(part):
            found[f"{phase}, {protocol}"] = f"{len(part)} rows; launches a row: {', '.join(words) or 'not recorded'}"
    return found


def _flat(record: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(record, Mapping):
        for key, value in sorted(record.items()):
            yield from _flat(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(record, (list, tuple)):
        yield prefix, " ".join(map(str, record)) or "none"
    else:
        yield prefix, "unknown" if record is None else str(record)
