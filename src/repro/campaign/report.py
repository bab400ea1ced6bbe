"""Reports of a campaign: the HTML page with all studies, the table of claims, and the reproduction report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from repro.campaign.artifacts import CampaignSelection, all_artifacts, published_of
from repro.campaign.winners import find_winners, own_problems, page_winners
from repro.errors import ReproError
from repro.results.campaign_data import Campaign
from repro.results.claims import CLAIMS, NO_PAPERS_PROBLEM, Verdict, tally, verdict_count
from repro.results.common_tables import SETUP_COSTS
from repro.results.output import as_markdown, markdown_escape, replace_artifact
from repro.results.problem_lines import missing_note, own_problems_table, problem_lines, remarks
from repro.results.report import PageStudy, measurement_days, read_legend, write_report
from repro.results.tables import Result, Table
from repro.studies import get_study, study_module

if TYPE_CHECKING:
    from repro.tuning.search import ProgressCallback


#: HTML template in a study's folder that explains how to read its tables.
WORDS_TEMPLATE = "words.html.j2"
#: File in a study's folder with the meanings of the parts of a variant's name (optional).
LEGEND = "legend.csv"
#: File name without suffix of a campaign's own page.
REPORT = "report"


def report(
    selection: CampaignSelection,
    study_name: str | None = None,
    progress: ProgressCallback = lambda *_: None,
    page: str = REPORT,
) -> Path:
    """Write the HTML report of a campaign with one or all studies, and return its path.

    The page of all studies of one campaign, `report`, has the reproduction report beside it (`write_reproduction`).
    """
    names = selection.studies(study_name)
    parts = []
    for number, name in enumerate(names):
        progress("reading studies", number, len(names))
        parts.append(_part(selection, name))
    progress("reading studies", len(names), len(names))
    for reference in selection.others:
        if not set(names) & set(reference.studies()):
            raise ReproError(
                "the campaigns have no study in common",
                where=reference.folder.raw,
                expected=f"one of {', '.join(names)}",
                actual=", ".join(reference.studies()),
            )
    path = selection.folder.page(f"{page}.html")
    records = {
        problem: record
        for part in parts
        for problem, record in part.campaign.problems.items()
        if problem in own_problems(selection, part.campaign.study)
    }
    winners = page_winners(find_winners(selection, study_name, own_only=True), selection.campaign)
    problems_table = own_problems_table(records.values()) if records else None
    report_files = write_report(parts, path, progress, winners, problems_table)
    if study_name is None and page == REPORT:
        judged_campaigns = (part.campaign for part in parts if not selection.is_own_alone(part.campaign.study))
        write_reproduction(selection, _tables_of_claims(judged_campaigns))
    return report_files


def _part(selection: CampaignSelection, name: str) -> PageStudy:
    study, campaign = get_study(name), selection.read(name)
    first = (*study.highlights, SETUP_COSTS) if selection.is_own_alone(name) else ()
    ordered_artifacts = sorted(
        selection.artifacts(name),
        key=lambda artifact: (
            artifact.needs != "rivals",
            first.index(artifact.name) if artifact.name in first else len(first),
        ),
    )
    return PageStudy(
        campaign,
        published_of(name),
        ordered_artifacts,
        study.headline,
        study.libraries.get(campaign.backend or "", ""),
        study.highlights,
        _beside_study(name, WORDS_TEMPLATE),
        legend_of(name),
        study.title,
        study.reference,
        Result.of(study.result) if study.result else None,
    )


def legend_of(study_name: str) -> dict[str, str]:
    """Return the meanings of the parts of a variant's name, by regular expression; empty if there is no `LEGEND`."""
    legend = _beside_study(study_name, LEGEND)
    return read_legend(legend) if legend else {}


def _beside_study(study_name: str, name: str) -> Path | None:
    """Return the path of a file in a study's folder, or None if it has none of this name."""
    module = study_module(study_name, "study")
    spec = find_spec(module) if module else None
    path = Path(str(spec.origin)).parent / name if spec else None
    return path if path and path.exists() else None


# claims --------------------------------------------------------------------------------------------------------------

#: File name of the reproduction report.
REPRODUCTION = "reproduction.md"


def claim_tables(selection: CampaignSelection, study_name: str | None = None) -> dict[str, tuple[Campaign, Table]]:
    """Return for each study of a campaign that has claims the measured data and the table of claims.

    A study that a later campaign measured again is judged by that campaign.
    """
    return _tables_of_claims(selection.read(name) for name in selection.studies(study_name))


def _tables_of_claims(campaigns: Iterable[Campaign]) -> dict[str, tuple[Campaign, Table]]:
    claim_table_of = {}
    for campaign in (campaign.later or campaign for campaign in campaigns):
        artifact = next(
            (candidate for candidate in all_artifacts(campaign.study, "table") if candidate.name == CLAIMS), None
        )
        if artifact is not None:
            table = artifact.make(campaign, published_of(campaign.study))
            assert isinstance(table, Table)
            claim_table_of[campaign.study] = campaign, table
    return claim_table_of


def verdict_line(table: Table) -> str:
    """Return the number of claims for each verdict, with names of reversed ones: `2 hold, 1 reversed (best_k)`."""
    parts = []
    for verdict, ids in tally(table).items():
        claim_ids = f" ({', '.join(ids)})" if verdict == Verdict.REVERSED else ""
        if ids:
            parts.append(f"{verdict_count(verdict, len(ids))}{claim_ids}")
    return ", ".join(parts)


def write_reproduction(selection: CampaignSelection, tables: Mapping[str, tuple[Campaign, Table]]) -> Path:
    """Write `results/<campaign>/reproduction.md`: reproduced papers, device, claims, missing data."""
    # studies without claims were measured too
    facts = _facts([tables[name][0] if name in tables else selection.read(name) for name in selection.studies()])
    sources = {name: source.name for name, (source, _) in tables.items() if source.name != selection.campaign}
    if sources:
        facts["Judged again"] = ", ".join(f"{name} by campaign {source}" for name, source in sources.items())
    path = selection.folder.page(REPRODUCTION)
    with replace_artifact(path) as partial:
        partial.write_text(_markdown(selection, facts, tables), encoding="utf-8")
    return path


def _facts(campaigns: list[Campaign]) -> dict[str, str]:
    """Return the device, date and code version of a campaign's measurement."""
    environments = [record for campaign in campaigns for record in campaign.environments.values()]
    sources = sorted({source for campaign in campaigns for source in campaign.sources})
    codes = dict.fromkeys(code for campaign in campaigns for code in campaign.codes)
    facts = {
        "Device": ", ".join(sorted({campaign.column for campaign in campaigns})),
        "Measured": measurement_days(campaigns) or "nothing yet",
        "Code of the records": ", ".join(codes) or "not recorded",
        "Hashes of the sources": ", ".join(source[:12] for source in sources) or "none recorded",
    }
    letter = sorted({campaign.as_published.name for campaign in campaigns if campaign.as_published})
    if letter:
        facts["Kernels to the letter"] = f"campaign {', '.join(letter)}, which decides wherever it has measurements"
    for key, title in (("driver", "Driver"), ("cuda_runtime", "CUDA runtime"), ("compiler", "Compiler")):
        values = sorted({str(record[key]) for record in environments if record.get(key)})
        if values:
            facts[title] = ", ".join(values)
    return facts


def _parts(tables: Mapping[str, tuple[Campaign, Table]]) -> list[tuple[str, str, str, str, Table]]:
    """Return for each study: title, papers, verdicts, unavailable problems, and the table of claims."""
    parts = []
    for name, (campaign, table) in tables.items():
        lines = problem_lines(campaign, published_of(name))
        inputs = " ".join(text for text in (_origins(campaign), remarks(lines), missing_note(lines)) if text)
        study = get_study(name)
        parts.append((study.title or name, study.reference, verdict_line(table), inputs, table))
    return parts


#: Words for the sources of problems in a sentence; any other source is a user's file.
SOURCES = {
    "generated": "generated",
    "field": "generated",
    "suitesparse": "from the SuiteSparse collection",
    "stanford": "from the Stanford scans",
    "tetmesh": "on published tetrahedral meshes",
    "recipe": "on rebuilt meshes",
}


def _origins(campaign: Campaign) -> str:
    """Return a sentence that counts a study's problems by their source: `6 problems: 4 generated, 2 files.`"""
    available_records = [record for record in campaign.problems.values() if record.is_available]
    sources = [
        SOURCES.get(str((record.origin or {}).get("source")), "from the user's files") for record in available_records
    ]
    counts = ", ".join(f"{number} {source}" for source, number in Counter(sources).most_common())
    return f"{len(available_records)} problems: {counts}." if available_records else "No problem is available."


OPENING = (
    "One rule judges each claim of the papers from measured rows; no verdict is entered by hand. The captions state "
    "the rule."
)
NO_CLAIMS = "None of the campaign’s studies has claims."
NONE_JUDGED = f"No claim is judged: {NO_PAPERS_PROBLEM}."


def _markdown(
    selection: CampaignSelection, facts: Mapping[str, str], tables: Mapping[str, tuple[Campaign, Table]]
) -> str:
    lines = [f"# Reproduction report: campaign {markdown_escape(selection.campaign)}", "", OPENING, ""]
    lines += [f"- {key}: {markdown_escape(value)}" for key, value in facts.items()]
    if not tables:
        has_own_alone = any(selection.is_own_alone(name) for name in selection.studies())
        lines += ["", NONE_JUDGED if has_own_alone else NO_CLAIMS]
    for title, reference, verdicts, inputs, table in _parts(tables):
        lines += ["", f"## {markdown_escape(title)}", "", markdown_escape(reference), ""]
        lines += [
            f"**{markdown_escape(verdicts)}.**",
            "",
            f"Inputs: {markdown_escape(inputs)}",
            "",
            as_markdown(table),
        ]
    return "\n".join(lines).rstrip() + "\n"
