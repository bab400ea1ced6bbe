"""Campaigns beside each other in a table: their problems, the titles of their columns, what captions say of them."""

from __future__ import annotations

from dataclasses import replace

from repro.artifacts.data import Campaign, ProblemRecord

#: Of a number that stands in no line with another campaign's.
OTHER_CONTENT = "another problem by this name: its content is not that of the line’s, so that no number stands here"


def together(campaign: Campaign) -> Campaign:
    """Return a campaign with the problems of those beside it as well: what a table of all has lines of.

    The record of a problem is the first one's that could have it, so that what is unavailable here has a line of what
    was measured elsewhere.
    """
    records: dict[str, ProblemRecord] = {}
    for one in (campaign, *campaign.beside):
        for name, record in one.problems.items():
            if name not in records or (record.available and not records[name].available):
                records[name] = record
    return replace(campaign, problems=dict(sorted(records.items())))


def why_blank(record: ProblemRecord | None, line: ProblemRecord | None) -> tuple[str, ...] | None:
    """Return what a campaign's cell has to say where it has no number to show in a line; None where it may have one.

    Parameters
    ----------
    record
        The campaign's own of the problem, None where it has none.
    line
        That of the line, which says itself why it is unavailable.
    """
    if record is None:
        return ()
    if not record.available:
        return () if record is line else (str(record.remark),)
    return (OTHER_CONTENT,) if line is not None and record.differs(line) else None


def apart(campaign: Campaign, other: Campaign) -> list[str]:
    """Return the names by which two campaigns mean different problems."""
    shared = ((name, record, other.problems.get(name)) for name, record in campaign.problems.items())
    return [name for name, mine, theirs in shared if theirs is not None and mine.differs(theirs)]


def set_apart(campaign: Campaign) -> str:
    """Return the sentence that names the problems that are not compared for that; empty where there is none."""
    names = {other.name: apart(campaign, other) for other in campaign.beside}
    said = [f"{', '.join(problems)} ({name})" for name, problems in names.items() if problems]
    return f"Not compared, since their content differs in spite of the name: {'; '.join(said)}." if said else ""


def others_on(campaign: Campaign) -> str:
    """Return the sentences that say which campaigns stand beside this one, and of which code; empty where none does."""
    if not campaign.beside:
        return ""
    places = [f"campaign {other.name} on {other.device or 'no device yet'}" for other in campaign.beside]
    changed = [other.name for other in campaign.beside if campaign.sources and other.sources - campaign.sources]
    code = f" Measured, in part at least, with other code than this campaign: {', '.join(changed)}." if changed else ""
    return f"Beside it, by the same clock: {', '.join(places)}.{code}"


def column_beside(campaign: Campaign, other: Campaign) -> str:
    """Return the title of another campaign's column: its device, and its name where another has the same device."""
    return f"{other.column}, {other.name}" if _repeats(campaign, other) else other.column


def place(campaign: Campaign, one: Campaign) -> str:
    """Return what stands for this campaign, or one beside it, in few words: its device, its name where that repeats."""
    return one.name if _repeats(campaign, one) else one.column


def _repeats(campaign: Campaign, one: Campaign) -> bool:
    return [each.column for each in (campaign, *campaign.beside)].count(one.column) > 1
