"""Comparison of measured quantities with our targets, and with the papers' claims.

A target is a value that we want to reach (`config/targets`). A claim is a published statement: a value or range, a
relation (equal, at least, at most), and the direction in which a measured value makes it stronger. Each claim gets a
verdict, computed from the measured value of its quantity.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from repro.errors import ReproError
from repro.package_data import shipped
from repro.results.campaign_data import Campaign, one_line
from repro.results.columns import count
from repro.results.comparisons import CaseNumber, JudgedBy, Measured, Quantity
from repro.results.problem_lines import join_sentences
from repro.results.published import FOLDER, Published, Record, read_records
from repro.results.registry import OURS, table
from repro.results.significance import Interval
from repro.results.tables import Cell, Column, Table, table_of

#: Device for which the wanted values in `config/targets` were set.
WANTED_ON = "NVIDIA H200"
#: Devices with wanted values, and the factor by which a wanted time is longer than on `WANTED_ON`. Wanted ratios and
#: rates are the same on all these devices.
TIME_ALLOWANCES = {WANTED_ON: 1.0, "NVIDIA H100 80GB HBM3": 1.35}
#: Reason why a campaign of a user's own problems alone judges no claim.
NO_PAPERS_PROBLEM = "no problem is a paper’s"
#: Printed in place of a wanted value on any other device.
NO_TARGET = "no target for this device"
#: Maximum number of characters of a note on cases without a number.
MAX_NOTE_LETTERS = 500
D = TypeVar("D")


def target_columns(campaign: Campaign) -> tuple[Column, ...]:
    """Return the columns: target, wanted value, measured value, verdict, number of cases, worst case."""
    return (
        Column("target", "target", numeric=False),
        Column("wanted", "wanted"),
        Column("measured", "measured", campaign.column),
        Column("reached", "reached", campaign.column, numeric=False),
        Column("cases", "cases", campaign.column),
        Column("worst", "worst", campaign.column),
        Column("worst_case", "worst case, or why there is none", campaign.column, numeric=False),
    )


def targets_table(
    campaign: Campaign, published: Published, quantities: Mapping[str, Quantity[D]], data: D, caption: str
) -> Table:
    """Return the table of a study's targets; targets without a quantity of the same name are omitted."""
    rows = [
        target_cells(item, quantity, quantity.measure(data), time_allowance(campaign))
        for item in published.targets
        if (quantity := quantities.get(item["quantity"])) is not None
    ]
    return Table(target_columns(campaign), rows, caption)


def target_cells(
    item: Record, quantity: Quantity[Any], measured: Measured, allowance: float | None
) -> tuple[Cell, ...]:
    """Return the table line (`target_columns`) for a target; without a wanted value it has no verdict.

    `allowance` is the result of `time_allowance`.
    """
    numbers, missing_reasons = measured.numbers, one_line(measured.missing_reasons, MAX_NOTE_LETTERS)
    target_cell = wanted_cell(item, allowance, quantity.is_time)
    target_value = None if target_cell.value is None else float(target_cell.value)
    if target_value is not None:
        target_cell = Cell(target_value, f"{'≤' if quantity.at_most else '≥'} {target_cell.text}")
    first_cells = Cell(item["what"].replace("'", "’")), target_cell
    if not numbers:
        reasons = Cell(missing_reasons) if missing_reasons else Cell(None, " ")
        return (*first_cells, Cell(), Cell(None, " "), Cell(0), Cell(), reasons)
    worst_number, value = quantity.worst(numbers), quantity.value(numbers)
    verdict = Cell(None, " ")
    if target_value is not None:
        verdict = Cell("yes" if (value <= target_value if quantity.at_most else value >= target_value) else "no")
    n_numbers = len(numbers)
    count_cell = Cell(n_numbers, f"{n_numbers} of {measured.cases}", (f"no number of {missing_reasons}",))
    return (
        *first_cells,
        Cell(value, f"{value:.2f}", measured.notes, sample=measured.sample),
        verdict,
        count_cell if missing_reasons else Cell(n_numbers),
        Cell(worst_number.value, f"{worst_number.value:.2f}"),
        Cell(worst_number.case, notes=worst_number.notes),
    )


def time_allowance(campaign: Campaign) -> float | None:
    """Return the factor for wanted times on the campaign's device (1 if the device is not recorded), or None if it has
    no wanted values.
    """
    return 1.0 if campaign.device is None else TIME_ALLOWANCES.get(campaign.device)


def wanted_cell(item: Record, allowance: float | None, is_time: bool = False) -> Cell:
    """Return the cell of a wanted value; `allowance` is the result of `time_allowance` and scales times only."""
    if not item["wanted"]:
        return Cell(None, "reported")
    if allowance is None:
        return Cell(None, NO_TARGET)
    if not is_time or allowance == 1:
        return Cell(float(item["wanted"]), item["wanted"])
    return Cell(allowance * float(item["wanted"]), f"{allowance * float(item['wanted']):.3g}")


def target_device_note(campaign: Campaign) -> str:
    """Return a sentence on wanted values that were set for another device; empty if they were for this device."""
    if campaign.on_cpu:
        return f"The goals were set for an {WANTED_ON}; the CPU’s numbers are only a dry run."
    allowance = time_allowance(campaign)
    if allowance is None:
        return f"The goals were set only for an {WANTED_ON}."
    if allowance == 1:
        return ""
    return f"The goals were set for an {WANTED_ON}; here times may be {allowance:g} times as long."


Relation = Literal["equal", "at least", "at most", "same GPU"]
Direction = Literal["more", "less", "neither"]
#: What a claim is judged by: measured `rows`; the paper's own `published` numbers, which suffice; or `construction`,
#: if its value follows from definitions that we share with the paper, so that no measurement could contradict it.
Basis = Literal["rows", "published", "construction"]
#: Units of claims. A ratio is one time, rate or size over another; a gain is a ratio of times less one; a share is a
#: fraction of 1, of cases, of the time or of linear, or `%` of it; GFLOPS are 10⁹ operations a second.
UNITS = ("ratio", "gain", "share", "%", "GFLOPS", "bytes", "registers", "cases", "count")
COLUMNS = (
    "id", "place", "claim", "gpu", "published", "unit", "number", "basis", "relation", "better", "tolerance",
    "neutral", "quantity", "variants", "reading_of", "note",
)  # fmt: skip


#: Allowed words of each column with a fixed vocabulary.
WORDS: Mapping[str, tuple[str, ...]] = {
    "basis": get_args(Basis),
    "relation": get_args(Relation),
    "better": get_args(Direction),
    "variants": get_args(JudgedBy),
    "unit": UNITS,
}


class Verdict(StrEnum):
    """Verdict on a claim from measured rows."""

    HOLDS = "holds"
    WEAKER = "weaker"
    STRONGER = "stronger"
    REVERSED = "reversed"
    #: It could not have failed, and is counted apart from the others.
    BY_CONSTRUCTION = "by construction"
    NOT_TESTABLE = "not testable here"


def verdict_count(verdict: str, number: int) -> str:
    """Return how many claims have a verdict, as words: `1 holds`, `2 hold`, `2 reversed`."""
    return f"{number} {'hold' if verdict == Verdict.HOLDS and number != 1 else verdict}"


@dataclass(frozen=True)
class Claim:
    """A sentence, table or figure of a paper that states a result."""

    id: str
    #: Paper, section, table or figure; `ours` for a claim of no paper, which is judged but not counted.
    place: str
    #: The statement in our words.
    claim: str
    #: GPU on which the papers measured it; empty if the number depends on no GPU.
    gpu: str
    #: Lower and upper end of the published range; equal for a single value.
    least: float
    most: float
    #: Unit of the published and of the measured value: one of `UNITS`.
    unit: str
    #: Location of the published value in `config/published/<study>`, as `FILE: QUANTITY @ COLUMN=VALUE`; two ends of a
    #: range are separated by `;`, and `FILE: COLUMN` means a whole column. Empty if the paper states it only in words.
    number: str
    basis: Basis
    #: Whether the claim says that the quantity is in the range, at least the value, or at most the value; `same GPU`:
    #: in the range on the published GPU, so that another GPU does not test it.
    relation: Relation
    #: The direction in which a value makes the claim stronger. With `neither`, a value outside the range makes it
    #: weaker.
    better: Direction
    #: Allowed relative deviation of the measured value from the published one.
    tolerance: float
    #: The value beyond which the opposite of the claim is true, such as 1 for a speedup; None if there is none.
    neutral: float | None
    #: Key of the function in the study's quantities that computes the measured value.
    quantity: str
    variants: JudgedBy
    #: Id of the claim that reads the same sentence in another way; empty for the first reading.
    reading_of: str = ""
    #: A remark that the verdict needs besides the claim; may be empty.
    note: str = ""

    @property
    def published(self) -> str:
        """Text of the published value or range with the claim's relation."""
        ends = [f"{end:,.0f}" if end >= 1000 else f"{end:g}" for end in dict.fromkeys((self.least, self.most))]
        text = " to ".join(ends)
        return {"at least": "≥ ", "at most": "≤ "}.get(self.relation, "") + text

    def verdict(self, value: float | None) -> Verdict:
        """Return the verdict for a measured value; None means that it was not measured.

        The claim holds if the value is in the range widened by the tolerance, or on the right side of a bound. Outside,
        it is stronger in the better direction and else weaker. It is reversed if the value is weaker and on the
        opposite side of the neutral value from the whole published range.
        """
        if value is None:
            return Verdict.NOT_TESTABLE
        if self.basis == "construction":
            return Verdict.BY_CONSTRUCTION
        low = self.least - self.tolerance * abs(self.least)
        high = self.most + self.tolerance * abs(self.most)
        is_above = value > high and self.relation != "at least"
        is_below = value < low and self.relation != "at most"
        if not is_above and not is_below:
            return Verdict.HOLDS
        if self.better == ("more" if is_above else "less"):
            return Verdict.STRONGER
        if self.neutral is not None:
            is_reversed = value < self.neutral <= self.least if is_below else value > self.neutral >= self.most
            if is_reversed:
                return Verdict.REVERSED
        return Verdict.WEAKER


#: What follows a verdict if the measured value's interval or range reaches into another one, and part of its note.
CLOSE, REACHES = ", close", " reaches: "
#: What precedes the least and the largest number of cases that are too few for an interval.
RANGE = "range "


@dataclass(frozen=True)
class Judgement:
    """A claim with its measured value and the data of the verdict."""

    claim: Claim
    #: The measured value; if it is None, or gives no verdict, `reason` says why.
    value: float | None = None
    #: Bootstrap confidence interval of the value (`significance`); None if there are too few samples.
    interval: Interval | None = None
    #: Least and largest number of several cases that are too few for an interval.
    range: Interval | None = None
    #: Numbers of the single cases from which the value was computed.
    numbers: Sequence[CaseNumber] = ()
    #: The variants that were measured; they may differ from the claim's.
    variants: JudgedBy = "none"
    #: Name of the campaign whose rows were used, if it is not the judged campaign but its `Campaign.as_published`.
    campaign: str = ""
    #: The judgement from the judged campaign's own rows of the same variants, if `campaign` has other cases; else None.
    own: Judgement | None = None
    reason: str = ""
    #: Remarks on the cases that `reason` names.
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        return Verdict.NOT_TESTABLE if self.reason else self.claim.verdict(self.value)

    @property
    def undecided(self) -> tuple[Verdict, ...]:
        """Other verdicts that the ends of the interval, or of the range, would give."""
        if self.verdict == Verdict.NOT_TESTABLE:
            return ()
        ends = dict.fromkeys(self.claim.verdict(end) for end in self.interval or self.range or ())
        return tuple(verdict for verdict in ends if verdict != self.verdict)

    @property
    def shown(self) -> str:
        """The verdict as tables print it, with `CLOSE` if an end of the interval would give another one."""
        return f"{self.verdict}{CLOSE}" if self.undecided else str(self.verdict)

    @property
    def worst(self) -> CaseNumber | None:
        """The case that contradicts the claim most; without a better direction, the one farthest from the range."""
        claim = self.claim

        def contradiction(number: CaseNumber) -> float:
            excess, shortfall = number.value - claim.most, claim.least - number.value
            return {"less": excess, "more": shortfall, "neither": max(excess, shortfall)}[claim.better]

        return max(self.numbers, key=contradiction, default=None)


#: Function that returns the input data of a study's quantities for some variants; None if they were not measured.
ClaimData = Callable[[Campaign, JudgedBy], D | None]
#: Functions that compute the measured values, by the name in `Claim.quantity`.
ClaimQuantities = Mapping[str, Quantity[D]]


def judge(
    claims: Sequence[Claim], campaign: Campaign, quantities: ClaimQuantities[D], data: ClaimData[D]
) -> list[Judgement]:
    """Return the verdict on each claim.

    The papers' kernels of `campaign.as_published` are used first, then those of the campaign itself. If the exact
    kernels were not measured, their further tuned versions are used, else ours. `Judgement.variants` and
    `Judgement.campaign` record the source. All rows of a verdict are of one campaign. CPU times give no verdict on
    claims that were measured on a GPU, and rows of the user's own problems give none on any claim.
    """

    there = [record for record in campaign.problems.values() if record.is_available]
    own_alone = bool(there) and all(record.is_own for record in there)
    campaign = campaign.only([name for name, record in campaign.problems.items() if not record.is_own])
    data_cache: dict[tuple[str, JudgedBy], D | None] = {}  # cached, since many claims of a study use the same variants
    published_campaign = campaign.as_published

    def measured_of(quantity: Quantity[D], source: Campaign, variants: JudgedBy) -> Measured | None:
        if (source.name, variants) not in data_cache:
            data_cache[source.name, variants] = data(source, variants)
        source_data = data_cache[source.name, variants]
        return quantity.measure(source_data) if source_data is not None else None

    def add_own_cases(judgement: Judgement, quantity: Quantity[D]) -> Judgement:
        own_numbers = measured_of(quantity, campaign, judgement.variants)
        numbers = own_numbers.numbers if own_numbers else ()
        if not numbers or {number.case for number in numbers} == {number.case for number in judgement.numbers}:
            return judgement
        return replace(judgement, own=_measured(replace(judgement, campaign=""), quantity, numbers))

    def judgement_of(claim: Claim) -> Judgement:
        if own_alone:
            return Judgement(claim, reason=NO_PAPERS_PROBLEM)
        if campaign.on_cpu and claim.gpu:
            return Judgement(claim, reason="CPU times are a dry run and judge no claim about a GPU")
        quantity = quantities.get(claim.quantity)
        if quantity is None:
            near = get_close_matches(claim.quantity, quantities, n=1, cutoff=0.75)
            meant = "".join(f"; did you mean {name}?" for name in near)
            return Judgement(claim, reason=f"no recorded quantity measures it{meant}")
        reason: str = ""
        notes: tuple[str, ...] = ()
        sources = [(campaign, variants) for variants in STAND_INS.get(claim.variants, (claim.variants,))]
        if published_campaign is not None and claim.variants in STAND_INS:
            sources.insert(0, (published_campaign, claim.variants))
        for source, variants in sources:
            source_numbers = measured_of(quantity, source, variants)
            if source_numbers is not None and (numbers := source_numbers.numbers):
                source_name = source.name if source is not campaign else ""
                on_other_gpu = claim.relation == "same GPU" and claim.gpu not in (source.device or "")
                other_gpu_reason = "a rate of a GPU other than the published one" if on_other_gpu else ""
                judgement = Judgement(claim, variants=variants, campaign=source_name, reason=other_gpu_reason)
                judgement = _measured(judgement, quantity, numbers)
                return add_own_cases(judgement, quantity) if source_name else judgement
            if source_numbers is not None and not reason:
                reason = one_line(source_numbers.missing_reasons, MAX_NOTE_LETTERS)
                notes = tuple(dict.fromkeys(note for case in source_numbers.missing for note in case.notes))
        return Judgement(claim, reason=reason or "not measured in this campaign", notes=notes)

    return [judgement_of(claim) for claim in claims]


def _measured(judgement: Judgement, quantity: Quantity[Any], numbers: Sequence[CaseNumber]) -> Judgement:
    """Return a judgement with the quantity's value over the cases."""
    interval, extremes = quantity.interval(numbers), quantity.range(numbers)
    return replace(judgement, value=quantity.value(numbers), interval=interval, range=extremes, numbers=numbers)


#: For the variants of a claim, those that may be used instead, in order of preference.
STAND_INS: Mapping[JudgedBy, tuple[JudgedBy, ...]] = {
    "as_published": ("as_published", "paper_tuned", "ours"),
    "paper_tuned": ("paper_tuned", "ours"),
}
VARIANT_WORDS: Mapping[JudgedBy, str] = {
    "as_published": "as published",
    "paper_tuned": "the paper’s, tuned further",
    "ours": "ours",
    "none": "no kernel",
}
#: Name of the table of claims in each study.
CLAIMS = "table-claims"
#: Display order of verdicts, the most important first.
VERDICT_ORDER = (
    Verdict.REVERSED, Verdict.WEAKER, Verdict.HOLDS, Verdict.STRONGER, Verdict.BY_CONSTRUCTION, Verdict.NOT_TESTABLE
)  # fmt: skip


def _value_cell(number: float | None) -> Cell:
    return Cell() if number is None else Cell(number, f"{number:.3g}" if abs(number) < 1000 else f"{number:,.0f}")


def _measured_cell(judgement: Judgement) -> Cell:
    return replace(_value_cell(judgement.value), interval=judgement.interval)


def _interval_cell(judgement: Judgement) -> Cell:
    ends = " to ".join(_value_cell(end).shown for end in judgement.interval or judgement.range or ())
    return Cell(f"{RANGE}{ends}" if judgement.range else ends) if ends else Cell()


def _worst_case_cell(judgement: Judgement) -> Cell:
    if judgement.reason:
        return Cell(judgement.reason, notes=judgement.notes)
    return Cell(judgement.worst.case, notes=judgement.worst.notes) if judgement.worst else Cell()


def _verdict_cell(judgement: Judgement) -> Cell:
    ends = "its interval" if judgement.interval else "its range"
    reached_note = f"{ends}{REACHES}{', '.join(judgement.undecided)}" if judgement.undecided else ""
    return Cell(str(judgement.verdict), judgement.shown, notes=(reached_note,) if reached_note else ())


def _kernels_cell(judgement: Judgement) -> Cell:
    kernels_text = VARIANT_WORDS[judgement.claim.variants if judgement.value is None else judgement.variants]
    if judgement.claim.basis == "published":
        kernels_text = "the published numbers alone"
    has_other_variants = judgement.value is not None and judgement.variants != judgement.claim.variants
    notes = [f"those {VARIANT_WORDS[judgement.claim.variants]} were not measured"] if has_other_variants else []
    notes += [f"by the rows of campaign {judgement.campaign}"] if judgement.campaign else []
    if own_judgement := judgement.own:
        is_same = own_judgement.verdict == judgement.verdict
        verdict = "the same verdict" if is_same else f"the verdict would be: {own_judgement.verdict}"
        cases = f"{len(own_judgement.numbers)} {'case' if len(own_judgement.numbers) == 1 else 'cases'}"
        value = _value_cell(own_judgement.value).shown
        notes += [f"this campaign’s own rows of these kernels have other cases: {value} of {cases}, {verdict}"]
    return Cell(kernels_text, notes=tuple(notes))


def claim_columns(column: str) -> tuple[Column[Judgement], ...]:
    """Return the columns of a table of claims; `column` is the head of the measured values."""
    return (
        Column("id", "id", numeric=False, cell=lambda judgement: Cell(judgement.claim.id)),
        Column(
            "claim",
            "claim",
            numeric=False,
            cell=lambda judgement: Cell(
                judgement.claim.claim, notes=(judgement.claim.note,) * bool(judgement.claim.note)
            ),
        ),
        Column("place", "place", numeric=False, cell=lambda judgement: Cell(judgement.claim.place)),
        Column("gpu", "on", "published", numeric=False, cell=lambda judgement: Cell(judgement.claim.gpu or None)),
        Column("published", "value", "published", cell=lambda judgement: Cell(judgement.claim.published)),
        Column("verdict", "verdict", column, numeric=False, cell=_verdict_cell),
        Column("measured", "value", column, cell=_measured_cell),
        Column("interval", "95 % interval", column, numeric=False, cell=_interval_cell),
        Column("cases", "cases", column, cell=lambda judgement: count(len(judgement.numbers) or None)),
        Column("worst", "worst", column, cell=lambda judgement: _value_cell(judgement.worst and judgement.worst.value)),
        Column("worst_case", "worst case, or why there is none", column, numeric=False, cell=_worst_case_cell),
        Column("kernels", "kernels", column, numeric=False, cell=_kernels_cell),
    )


def claims_table(
    campaign: Campaign, claims: Sequence[Claim], quantities: ClaimQuantities[D], data: ClaimData[D]
) -> Table:
    """Return the table of a study's claims with a verdict for each (artifact `table-claims`).

    Campaigns in `campaign.beside` get further columns, and a note marks verdicts that differ.
    """
    judgements = judge(claims, campaign, quantities, data)
    reference_judgements = {reference.name: judge(claims, reference, quantities, data) for reference in campaign.beside}
    columns = list(claim_columns(campaign.column))
    for reference in campaign.beside:
        judgement_of = {judgement.claim.id: judgement for judgement in reference_judgements[reference.name]}
        columns += _reference_columns(reference, judgement_of)
    own = ", ".join(claim.id for claim in claims if claim.place == OURS)
    caption = [
        "The papers’ claims, judged by one rule from this campaign’s rows. Holds: within the published range or the",
        "claim’s tolerance. Weaker, stronger: outside, on that side. Reversed: the opposite was measured. By",
        "construction: the claim follows from a definition, so no measurement could contradict it. Not testable here:",
        "there are no rows, or the claim is a rate of another GPU; the reason is given. Interval: from a bootstrap",
        "over at least five cases, or five rounds of a single case. Range: least and largest of fewer cases. Close:",
        "one of the ends would get another verdict, as a note states. Worst: the case that contradicts the claim most.",
        _source_sentence(judgements),
        "The published GPUs differ from this one." * (not campaign.on_cpu),
        "CPU times are a dry run and judge no claim about a GPU." * campaign.on_cpu,
        f"Claims that are ours are not counted: {own}." * bool(own),
    ]
    return table_of(columns, judgements, join_sentences(caption))


def register_claims(
    study_name: str,
    source: str,
    quantities: ClaimQuantities[D],
    data: Callable[[Campaign, Published, JudgedBy], D | None],
    papers: str = "paper’s",
) -> None:
    """Register the table of a study's claims; `source` is cited, and `data` returns what the quantities measure."""

    @table(study_name, CLAIMS, title=f"The {papers} claims, and the verdict on each", numbering=f"text of {source}")
    def claims(campaign: Campaign, published: Published) -> Table:
        def data_of(source: Campaign, variants: JudgedBy) -> D | None:
            return data(source, published, variants)

        return claims_table(campaign, load_claims(study_name), quantities, data_of)


def _source_sentence(judgements: Sequence[Judgement]) -> str:
    """Return a sentence on the claims that another campaign's rows judge; empty if there are none."""
    foreign = [judgement for judgement in judgements if judgement.campaign]
    if not foreign:
        return ""
    return (
        f"{len(foreign)} of the {len(judgements)} claims are judged by campaign {foreign[0].campaign}, on the same "
        "GPU model, which ran the papers’ kernels to the letter and the library in the same run."
    )


def _reference_columns(reference: Campaign, judgements: Mapping[str, Judgement]) -> tuple[Column[Judgement], ...]:
    """Return the additional columns for the verdicts of another campaign."""

    def verdict(judgement: Judgement) -> Cell:
        other_judgement = judgements[judgement.claim.id]
        reference_verdict = other_judgement.verdict
        is_testable = Verdict.NOT_TESTABLE not in (reference_verdict, judgement.verdict)
        notes = ("another verdict here",) if is_testable and reference_verdict != judgement.verdict else ()
        return Cell(str(reference_verdict), other_judgement.shown, notes=notes)

    key, head = re.sub(r"\W", "_", reference.name), f"{reference.name}: {reference.column}"
    return (
        Column(f"{key}_verdict", "verdict", head, numeric=False, campaign=reference.name, cell=verdict),
        Column(
            f"{key}_measured",
            "value",
            head,
            campaign=reference.name,
            cell=lambda judgement: _measured_cell(judgements[judgement.claim.id]),
        ),
    )


def tally(table: Table, key: Literal["id", "claim"] = "id") -> dict[str, list[str]]:
    """Return, for each verdict, the ids (or the sentences) of the papers' claims in a table from `claims_table`."""
    keys = [column.key for column in table.columns]
    named, verdicts, place = keys.index(key), keys.index("verdict"), keys.index("place")
    rows = [row for row in table.rows if row[place].value != OURS]
    return {
        str(verdict): [row[named].shown for row in rows if row[verdicts].value == str(verdict)]
        for verdict in VERDICT_ORDER
    }


def close_calls(table: Table) -> Counter[str]:
    """Return, for each verdict, the number of its claims whose interval reaches into another verdict."""
    keys = [column.key for column in table.columns]
    cells = (row[keys.index("verdict")] for row in table.rows if row[keys.index("place")].value != OURS)
    return Counter(str(cell.value) for cell in cells if cell.shown.endswith(CLOSE))


def reasons_of(table: Table) -> dict[str, list[str]]:
    """Return, for each reason why claims were not judged, their ids in a table from `claims_table`."""
    keys = [column.key for column in table.columns]
    named, verdicts, reasons = (keys.index(key) for key in ("id", "verdict", "worst_case"))
    found: dict[str, list[str]] = {}
    for row in table.rows:
        if row[verdicts].value == str(Verdict.NOT_TESTABLE):
            found.setdefault(row[reasons].shown, []).append(row[named].shown)
    return found


def load_claims(study_name: str, folder: Path = FOLDER) -> list[Claim]:
    """Read `<folder>/claims/<study>.csv`; a study without claims has no file.

    Raises
    ------
    ReproError
        The file has wrong columns, a line has too few or too many cells, or a cell has a wrong value.
    """
    path = shipped(folder / "claims" / f"{study_name}.csv")
    if not path.is_file():
        return []
    claims = [_read_claim(line, f"{path}:{number}") for number, line in enumerate(read_records(path, COLUMNS), start=2)]
    repeated_ids = [claim_id for claim_id, number in Counter(claim.id for claim in claims).items() if number > 1]
    if repeated_ids:
        raise ReproError("two claims have the same id", where=path, actual=", ".join(repeated_ids))
    return claims


def _read_claim(line: Record, where: str) -> Claim:
    for key, values in WORDS.items():
        if line[key] not in values:
            expected = f"one of {', '.join(values)}"
            raise ReproError(f"unknown {key} of a claim", where=where, expected=expected, actual=line[key])
    given: dict[str, Any] = dict(line)
    least, _, most = given.pop("published").partition(" to ")
    try:
        numbers = {"least": float(least), "most": float(most or least), "tolerance": float(given["tolerance"])}
        neutral = float(given["neutral"]) if given["neutral"] else None
    except ValueError as error:
        raise ReproError("a claim's number cannot be read", where=where, actual=error) from None
    return Claim(**given | numbers | {"neutral": neutral})
