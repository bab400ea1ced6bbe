"""Winners of a campaign: for each case the recommended kernel, beside library and rivals, and its export command."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from math import inf
from shlex import join
from typing import Any, cast

from repro.bench.campaign_folder import RESULTS
from repro.bench.rows import ClockName
from repro.campaign.artifacts import CampaignSelection, all_artifacts, published_of
from repro.codegen.targets import Target, get_target
from repro.config.models import OwnProblem
from repro.entries import get_entry
from repro.errors import ReproError
from repro.export.bundle import parse_variant
from repro.export.campaign_choice import EXPORTED_STUDY
from repro.problems.assembly import advice_on_blocks
from repro.problems.registry import own_name
from repro.results.campaign_data import UNAVAILABLE, Campaign, Case, ProblemRecord, ReportedTime, Selection, one_line
from repro.results.registry import Artifact
from repro.results.report import PageWinners, repeated_kernel_phrase, repetition_differences
from repro.results.shared_artifacts import RivalLine, contests_of, rival_lines
from repro.results.significance import Interval, interval_of_ratio, ratio_of
from repro.results.tables import Cell, Column, Table, move_lead_columns
from repro.sparse.compound.defaults import Rows, default_variant
from repro.sparse.tuning_features import OPERATOR
from repro.studies import get_study, load_artifacts
from repro.words import EXTENDED, SHOWN, nearest, some_of, suggestion

#: Clocks in order of preference; exported kernels run in graphs.
CLOCKS: tuple[ClockName, ...] = ("graph", "event", "host")
#: The default target of `repro export`.
DEFAULT_TARGET = "sm_90"
#: Maximum number of winners that the end of a run and the head of a report show.
MAX_WINNERS = 12
#: First line above winners that were chosen on a CPU, and comment above the commands that export them.
REHEARSAL = "dry run on a CPU: these times tell nothing about a GPU"
CHOSEN_ON_CPU = "# chosen by CPU times, which tell nothing about a GPU"
#: Reason why a winner that was chosen on a CPU is not exported.
CPUS_CHOICE = "the choice of a CPU"
#: Maximum number of variants that are named as equal to a winner.
MAX_EQUAL = 3
#: Maximum number of characters of a reason in a table; the full reason is printed below the table.
REASON_ROOM = 60


@dataclass(frozen=True)
class Winner:
    """The fastest kernel of one case that keeps the order of the unknowns; times are medians with a warm L2 cache."""

    study: str
    problem: str
    precision: str
    #: Type of the non-zeros.
    entry: str | None
    #: Whether the problem is a user's own file.
    own: bool
    #: Whether the times were measured on a CPU.
    on_cpu: bool = False
    #: Phrase that states the difference of two processes' times of one kernel in this study; None if it was not
    #: measured.
    same_kernel_twice: str | None = None
    #: Largest absolute value of this relative difference over the clocks.
    repeats_within: float | None = None
    #: Advice against the entry, if few values of the blocks are non-zeros.
    advice: str | None = None
    #: Name of the variant; None if there is none, and `reason` says why.
    variant: str | None = None
    reason: str | None = None
    #: Clock of all times.
    clock: str | None = None
    seconds: float | None = None
    #: Whether the quartiles of the time are further apart than the timing protocol allows (status `noisy`).
    noisy: bool = False
    #: If other programs disturbed each measurement of the variant: the fastest and the slowest launch in seconds, in
    #: place of `seconds`, and the command that measures the case again.
    disturbed_between: tuple[float, float] | None = None
    measure_again: str | None = None
    #: Another variant with the same order of the unknowns that was faster by more than `tie` in the same rounds. It
    #: does not replace the search's choice, see `Case.faster_than`.
    faster: str | None = None
    faster_seconds: float | None = None
    #: If `faster` is faster within noise only: all variants that equal the winner within noise, the fastest first; else
    #: empty.
    equal: tuple[str, ...] = ()
    #: The fastest library routine for the same order of the unknowns, and its time in seconds.
    library: str | None = None
    library_seconds: float | None = None
    #: The 95 % interval of the speedup over the library; None without samples of several rounds.
    speedup_interval: Interval | None = None
    #: Bytes of the matrix in the variant's layout.
    matrix_bytes: int | None = None
    #: The variant that `repro.operator` runs, which reads vectors of NumPy, CuPy and PyTorch without conversion.
    operator: str | None = None
    operator_seconds: float | None = None
    #: Command that writes `exported` as a C++ library; None if `not_exported` says why there is none.
    export: str | None = None
    #: The fastest variant that can be exported (the winner itself if `not_exported` is None), and its time; of a
    #: campaign on a CPU the default for GPUs, without a time.
    exported: str | None = None
    exported_seconds: float | None = None
    #: Reason why the winner itself is not exported; None if it is.
    not_exported: str | None = None
    #: Lines of Python that make a `repro.operator`; empty if it cannot run the study's kernels.
    python: tuple[str, ...] = ()

    @property
    def speedup(self) -> float | None:
        """Time of the library divided by that of the variant."""
        return self.library_seconds / self.seconds if self.library_seconds and self.seconds else None


def find_winners(selection: CampaignSelection, study_name: str | None = None, own_only: bool = False) -> list[Winner]:
    """Return the winner of each case of the studies that choose one kernel per problem; `own_only`: on own files."""
    winners = []
    for name in selection.studies(study_name):
        own_names = own_problems(selection, name)
        if get_study(name).winners and (own_names or not own_only):
            campaign = selection.read(name)
            winners += [
                _winner(selection, campaign, problem, precision, problem in own_names)
                for problem in campaign.problems
                if problem in own_names or not own_only
                for precision in campaign.precisions
            ]
    return winners


def studies_without_winners(
    selection: CampaignSelection, study_name: str | None = None
) -> Iterator[tuple[Artifact, Table, str]]:
    """Yield of each study that does not choose one kernel per problem its main table, with the table's CSV file.

    It is the first highlighted table that has leading columns, such as a speedup, or else the study's first table.
    """
    for name in selection.studies(study_name):
        if not get_study(name).winners:
            tables = {table.name: table for table in all_artifacts(name, "table")}
            highlights = [tables[key] for key in get_study(name).highlights if key in tables and tables[key].lead]
            artifact = (highlights or [*tables.values()])[0]
            content = artifact.make(selection.read(name), published_of(name))
            yield artifact, cast(Table, content), f"{selection.folder.tables(name)}/{artifact.name}.csv"


def without_ours(selection: CampaignSelection, winners: Iterable[Winner]) -> list[str]:
    """Return the studies whose winners on a GPU are of a search without the space `extended`."""
    studies = selection.config.studies if selection.config else {}
    names = dict.fromkeys(winner.study for winner in winners if winner.variant and not winner.on_cpu)
    return [name for name in names if name in studies and EXTENDED not in studies[name].spaces]


def find_rivals(selection: CampaignSelection, study_name: str | None = None) -> list[RivalLine]:
    """Return the result of each rival of the studies in each case, those with a time first."""
    lines: list[RivalLine] = []
    for name in selection.studies(study_name):
        load_artifacts(name)
        if contests := contests_of(name):
            lines += rival_lines(selection.read(name), contests)
    return sorted(lines, key=lambda line: line.time is None)


def lines_of_problem(
    name: str, winners: Sequence[Winner], rivals: Sequence[RivalLine]
) -> tuple[list[Winner], list[RivalLine]]:
    """Return the winners and the rivals' lines of one problem; raise `ReproError` if it has neither."""
    problem_winners = [winner for winner in winners if winner.problem == name]
    problem_rivals = [line for line in rivals if line.case.problem == name]
    if not problem_winners and not problem_rivals:
        names = [*dict.fromkeys([winner.problem for winner in winners] + [line.case.problem for line in rivals])]
        last = [each for each in names if each.rpartition("/")[2] == name]
        last = last or [each for each in names if nearest(name, [each.rpartition("/")[2]])]
        near = f"; did you mean {' or '.join(last[:SHOWN])}?" if last else suggestion(name, names)
        raise ReproError(
            "the campaign chose no kernel for this problem",
            where="--problem",
            expected=some_of(names, name, "`repro best` without it")
            if names
            else "a campaign with a study that chooses a kernel",
            actual=f"{name}{near}",
        )
    return problem_winners, problem_rivals


def json_text(winners: Iterable[Winner], rivals: Iterable[RivalLine]) -> str:
    """Return the winners and the rivals as JSON, with seconds and bytes."""
    document = {
        "winners": [{**asdict(winner), "speedup": winner.speedup} for winner in winners],
        "rivals": [
            {
                "rival": line.rival,
                "study": line.case.campaign.study,
                "task": line.title,
                "problem": line.case.problem,
                "precision": line.case.precision,
                "status": line.row.status,
                "message": line.row.message,
                "seconds": line.time.seconds if line.time else None,
                "clock": line.clock,
                "speedup_over_ours": ratio_of(line.ours, line.time),
                "speedup_over_library": ratio_of(line.library, line.time),
            }
            for line in rivals
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


#: Heads of the columns of `table_rows` after the problem (and the study, if there are several).
HEADS = (
    "precision", "speedup", "95 % interval", "µs", "library µs", "fastest", "library", "clock", "entry", "matrix",
)  # fmt: skip
#: Heads that a narrow terminal leaves out, in this order.
SPARE_HEADS = ("matrix", "entry", "clock", "library", "95 % interval")


def table_headers(winners: Iterable[Winner]) -> tuple[str, ...]:
    """Return the heads of the columns of `table_rows`."""
    return ("problem", *(("study",) if _has_several_studies(winners) else ()), *HEADS)


def table_rows(winners: Sequence[Winner]) -> Iterator[tuple[str | None, ...]]:
    """Yield the cells of a table with a line for each case; for a case without a winner, the reason replaces the
    variant.

    With several studies, the study's name follows the problem.
    """
    with_study = _has_several_studies(winners)
    for winner in winners:
        interval = winner.speedup_interval
        yield (
            winner.problem,
            *((winner.study,) if with_study else ()),
            winner.precision,
            None if winner.speedup is None else f"{winner.speedup:.2f}",
            f"{interval[0]:.2f} to {interval[1]:.2f}" if interval else None,
            _time_words(winner),
            None if winner.library_seconds is None else f"{winner.library_seconds * 1e6:.2f}",
            winner.variant or one_line((winner.reason or "").partition("\n")[0], REASON_ROOM),
            winner.library,
            _clock_words(winner),
            winner.entry,
            None if winner.matrix_bytes is None else f"{winner.matrix_bytes / 2**20:.3g} MiB",
        )


def notes(winners: Sequence[Winner], reasons: bool = True) -> Iterator[str]:
    """Yield the notes below the table: noise between processes, cases where the library is faster, contradicted
    choices, and with `reasons` why cases have no winner.
    """
    with_study = _has_several_studies(winners)
    for study, share in dict.fromkeys((winner.study, winner.repeats_within) for winner in winners if winner.variant):
        if share is not None:
            percent = f"{100 * share:.{0 if share >= 0.01 else 1}f} %"
            kernel = f"One kernel of {study}" if with_study else "One kernel"
            yield f"{kernel}, timed in two processes, differed by {percent}; an interval is of the rounds of one."
    for winner in winners:
        if winner.measure_again:
            yield (
                f"{_case(winner, with_study)}: other programs disturbed each measurement of {winner.variant}, which "
                f"the search chose. Measure it again without them: {winner.measure_again}"
            )
    slower = [winner for winner in winners if winner.speedup is not None and winner.speedup < 1]
    for library, cases in groupby(
        sorted(slower, key=lambda winner: winner.library or ""), key=lambda winner: winner.library
    ):
        names = ", ".join(_case(winner, with_study) for winner in cases)
        yield f"No kernel of this campaign beats {library} on {names}."
    for winner in winners:
        if winner.equal:
            remainder = f" and {len(winner.equal) - MAX_EQUAL} more" if len(winner.equal) > MAX_EQUAL else ""
            equal_names = ", ".join(winner.equal[:MAX_EQUAL])
            yield f"{_case(winner, with_study)}: equal within noise: {winner.variant}, {equal_names}{remainder}."
    contradicted = [winner for winner in winners if winner.faster and winner.faster_seconds and not winner.equal]
    for winner in contradicted:
        assert winner.faster_seconds is not None
        yield (
            f"{_case(winner, with_study)}: {winner.faster} took {winner.faster_seconds * 1e6:.2f} µs in the "
            f"same rounds, which do not confirm that {winner.variant} is the fastest."
        )
    if contradicted:
        yield "The search's choice stands all the same: the least of several noisy times would flatter it."
    if unexported_studies := dict.fromkeys(winner.study for winner in winners if winner.seconds and not winner.python):
        yield (
            f"Kernels of {' and '.join(unexported_studies)} cannot be exported or run as an operator; "
            f"those of {EXPORTED_STUDY} can."
        )
    yield from dict.fromkeys(f"{winner.problem}: {winner.advice}." for winner in winners if winner.advice)
    if reasons:
        yield from dict.fromkeys(f"{winner.problem}: {winner.reason}" for winner in winners if winner.reason)


def _time_words(winner: Winner) -> str | None:
    if winner.disturbed_between is not None:
        return " to ".join(f"{seconds * 1e6:.2f}" for seconds in winner.disturbed_between)
    return None if winner.seconds is None else f"{winner.seconds * 1e6:.2f}"


def _clock_words(winner: Winner) -> str | None:
    remark = "disturbed" if winner.disturbed_between else "noisy" if winner.noisy else None
    return f"{winner.clock}, {remark}" if remark else winner.clock


def _has_several_studies(winners: Iterable[Winner]) -> bool:
    return len({winner.study for winner in winners}) > 1


def _case(winner: Winner, with_study: bool) -> str:
    return f"{winner.problem} ({winner.precision}{f', {winner.study}' if with_study else ''})"


#: Heads of the columns of `rival_rows`.
RIVAL_HEADS = (
    "rival", "task", "problem", "precision", "µs", "speedup over ours", "over the library", "what became of it",
)  # fmt: skip


def rival_rows(rivals: Iterable[RivalLine]) -> Iterator[tuple[str | None, ...]]:
    """Yield the cells of a table with a line for each rival in each case."""
    for line in rivals:
        ratios = [ratio_of(reference_time, line.time) for reference_time in (line.ours, line.library)]
        yield (
            line.rival,
            line.title,
            line.case.problem,
            line.case.precision,
            f"{line.time.seconds * 1e6:.2f}" if line.time else None,
            *(None if value is None else f"{value:.2f}" for value in ratios),
            line.why_not or "right",
        )


def faster_rivals(rivals: Iterable[RivalLine]) -> Iterator[str]:
    """Yield a sentence for each case (and task) in which a rival is faster than ours, on the fastest such rival."""
    fastest: dict[tuple[str, str, str], tuple[float, str]] = {}
    for line in rivals:
        ratio, case = ratio_of(line.ours, line.time) or 0.0, (line.case.problem, line.case.precision, line.title)
        fastest[case] = max(fastest.get(case, (1.0, "")), (ratio, line.rival))
    has_several_tasks = len({title for _, _, title in fastest}) > 1
    for (problem, precision, title), (ratio, rival) in fastest.items():
        if rival:
            task = f", {title}" if has_several_tasks else ""
            yield f"{rival} is {ratio:.2f} times as fast as ours on {problem} ({precision}{task})."


def usage_lines(winners: Iterable[Winner]) -> Iterator[tuple[str, list[str]]]:
    """Yield for each problem its name, and lines that use its winners: shell commands that export them, then Python."""
    for problem, cases in groupby(winners, key=lambda winner: winner.problem):
        found_winners = [winner for winner in cases if winner.variant]
        lines = [line for winner in found_winners if winner.python for line in _export_lines(winner)]
        if lines and found_winners[0].on_cpu:
            lines.insert(0, CHOSEN_ON_CPU)
        lines += dict.fromkeys(line for winner in found_winners for line in winner.python[:-1])
        for winner in found_winners:
            if winner.python:
                lines += [*_operator_remark(winner), winner.python[-1]]
        if lines:
            yield problem, lines


def _operator_remark(winner: Winner) -> Iterator[str]:
    """Yield a comment that names the variant the operator runs, if it is not the winner."""
    if winner.operator != winner.variant and winner.operator_seconds is not None:
        name = winner.python[-1].partition(" ")[0]
        yield (
            f"# {name} runs {winner.operator}, {winner.operator_seconds * 1e6:.2f} µs: "
            "the fastest that takes vectors as NumPy, CuPy and PyTorch have them"
        )


def _export_lines(winner: Winner) -> Iterator[str]:
    """Yield the export command, after comments that say if the library is faster or the winner cannot be exported."""
    if winner.speedup is not None and winner.speedup < 1 and winner.library_seconds is not None:
        yield f"# {winner.precision}: slower than {winner.library}, which takes {winner.library_seconds * 1e6:.2f} µs"
    if winner.not_exported:
        alternative = "no other fits either"
        if winner.exported is not None and winner.exported_seconds is None:
            alternative = f"the default for GPUs instead: {winner.exported}"
        if winner.exported is not None and winner.exported_seconds is not None:
            alternative = f"the fastest that fits: {winner.exported}, {winner.exported_seconds * 1e6:.2f} µs"
        yield f"# {winner.precision}: {winner.variant} is not exported ({winner.not_exported}); {alternative}"
    if winner.export:
        yield winner.export


#: Columns of the report's table that a phone shows beside those that name the case.
PAGE_LEAD = ("speedup", "fastest")


def page_winners(winners: Sequence[Winner], campaign: str) -> PageWinners | None:
    """Return the head of the report's page; None if there is nothing to show."""
    if not winners:
        return None
    shown_winners = winners[:MAX_WINNERS]
    headers = table_headers(shown_winners)
    rows = [
        tuple(
            Cell(winner.speedup, text or "") if header == "speedup" else Cell(text)
            for header, text in zip(headers, row, strict=True)
        )
        for winner, row in zip(shown_winners, table_rows(shown_winners), strict=True)
    ]
    numeric = ("speedup", "µs", "library µs", "matrix")
    caption = f"{REHEARSAL[0].upper()}{REHEARSAL[1:]}. " if winners[0].on_cpu else ""
    caption += (
        "For each problem and precision, the search’s fastest kernel that keeps the order of the unknowns, beside the "
        "library’s fastest routine: medians of the shuffled rounds with a warm cache. Speedups below 1 mean that the "
        f"kernel is slower. `repro best {campaign}` prints the same."
    )
    if len(shown_winners) < len(winners):
        caption += f" These are the first {len(shown_winners)} of {len(winners)}."
    columns = tuple(Column(header, header, numeric=header in numeric) for header in headers)
    table = move_lead_columns(Table(columns, rows, caption), PAGE_LEAD)
    return PageWinners(table, list(notes(shown_winners)), dict(usage_lines(shown_winners)))


def own_problems(selection: CampaignSelection, study_name: str) -> set[str]:
    """Return the names of a study's problems that are the user's own files."""
    settings = selection.config.studies.get(study_name) if selection.config else None
    selected_items = settings.problems if settings else ()
    return {own_name(item) for item in selected_items if isinstance(item, OwnProblem)}


def _winner(
    selection: CampaignSelection, campaign: Campaign, problem_name: str, precision: str, is_own: bool
) -> Winner:
    case, record = Case(campaign, problem_name, precision), campaign.problems[problem_name]
    common = Winner(
        campaign.study,
        problem_name,
        precision,
        record.entry or record.kind,
        is_own,
        campaign.on_cpu,
        advice=advice_on_blocks(record.origin),
    )
    best, clock = _fastest(case, get_study(campaign.study).winners)
    if best is None:
        return _disturbed_winner(selection, common, case) or replace(common, reason=_missing_reason(case, record))
    operator = case.winner(OPERATOR, clock) or best
    if case.is_faster(operator, best):  # the search chose both, and these rounds say which of the two is faster
        best = operator
    faster = case.faster_than(best, clock)
    repeats_within = max((abs(difference) for difference in repetition_differences(campaign)), default=None)
    library = case.select(lambda row: row.get("ordering") in (None, "natural"), kind="baseline").fastest(clock)
    winner = replace(
        common,
        variant=best.name,
        clock=clock,
        seconds=best.seconds,
        noisy=best.noisy,
        faster=faster.name if faster else None,
        faster_seconds=faster.seconds if faster else None,
        same_kernel_twice=repeated_kernel_phrase(campaign),
        equal=_equal_variants(case, best, faster, max(campaign.tie, repeats_within or 0.0), clock),
        repeats_within=repeats_within,
        library=library.name if library else None,
        library_seconds=library.seconds if library else None,
        speedup_interval=interval_of_ratio(library, best),
        matrix_bytes=best.row.get("matrix_bytes"),
    )
    if campaign.study != EXPORTED_STUDY:
        return winner
    return replace(
        winner,
        operator=operator.name,
        operator_seconds=operator.seconds,
        python=_operator_lines(selection, winner, campaign.precisions),
        **_export_fields(selection, case, winner, best),
    )


def _disturbed_winner(selection: CampaignSelection, common: Winner, case: Case) -> Winner | None:
    """Return the search's choice with the spread of its times, if all rounds were disturbed; else None."""
    for clock in CLOCKS:
        for tuning in map(case.campaign.tuning, get_study(case.campaign.study).winners):
            names = {choice.name for choice in case.choices if (choice.tuning, choice.clock) == (tuning, clock)}
            for row in case.select(kind="variant", name=tuple(names), status="disturbed"):
                ends = [row[f"{clock}_{quantile}"] for quantile in ("min", "max")]
                if all(end and end > 0 for end in ends):
                    arguments = ["repro", "measure", common.study, common.problem, common.precision, "--receipt"]
                    return replace(
                        common,
                        variant=row.name,
                        clock=clock,
                        disturbed_between=(float(ends[0]), float(ends[1])),
                        measure_again=join([*arguments, "--config", str(selection.folder.config)]),
                    )
    return None


def _equal_variants(
    case: Case, best: ReportedTime, faster: ReportedTime | None, share: float, clock: ClockName
) -> tuple[str, ...]:
    """Return the variants whose times equal the winner's within noise; empty if `faster` is None or not among them.

    Two times are equal within noise if they differ by at most the fraction `share`, by which two processes' times of
    one kernel differ, or if the interval of their ratio, of at least two rounds, contains 1.
    """

    def equals_best(time: ReportedTime) -> bool:
        low, high = interval_of_ratio(best, time, min_rounds=2) or (inf, -inf)
        return abs(best.seconds / time.seconds - 1) <= share or low <= 1 <= high

    if faster is None or not equals_best(faster):
        return ()
    order = best.row.get("ordering")
    rows = case.select(lambda row: row.get("ordering") == order, kind=best.row.kind, status="ok")
    times = [time for row in rows if (time := Selection([row]).fastest(clock)) and time.name != best.name]
    return tuple(time.name for time in sorted(times, key=lambda time: time.seconds) if equals_best(time))


def _missing_reason(case: Case, record: ProblemRecord) -> str:
    """Return why a case has no winner, with the whole message if the problem or the study refused the case."""
    if not record.is_available and record.reason:
        return f"{UNAVAILABLE}: {record.reason}"
    rows = case.campaign.report_rows(case.problem, case.precision)  # in any cache state, since a refused row has none
    refusals = (row.message for row in rows if row.status == "unavailable")
    return next(filter(None, refusals), None) or case.why_not()


def _fastest(case: Case, tunings: Sequence[str]) -> tuple[ReportedTime | None, ClockName]:
    """Return the time of a winner and its clock: the first clock with a time, and for it the first tuning with one."""
    for clock in CLOCKS:
        for tuning in tunings:
            if (best := case.winner(tuning, clock)) is not None:
                return best, clock
    return None, CLOCKS[0]


def _export_fields(selection: CampaignSelection, case: Case, winner: Winner, best: ReportedTime) -> dict[str, Any]:
    """Return the fields of `Winner` on the export of the winner, or else of the fastest exportable variant."""
    campaign = case.campaign
    assert winner.entry is not None
    members = get_entry(winner.entry).members
    arguments = ["repro", "export"]
    target_options = ["--to", f"{winner.problem.replace('/', '-')}-{winner.precision}"]
    chosen, _ = _fastest(case, get_study(campaign.study).winners)
    if not campaign.on_cpu and members and chosen and chosen.name == best.name:
        arguments += [winner.problem, "--precision", winner.precision, "--campaign", campaign.name]
        arguments += ["--results", str(selection.results)] if selection.results != RESULTS else []
        return {"export": join([*arguments, *target_options]), "exported": best.name, "exported_seconds": best.seconds}
    entry = winner.entry if members else "real"  # a pattern is exported with real ones as values
    if campaign.on_cpu:  # its choice says nothing of a GPU
        record = campaign.problems[winner.problem]
        rows = Rows.described(record.n or 0, record.nnz or 0, (record.statistics or {}).get("row_length"))
        default = str(default_variant(entry, winner.precision, rows, get_target(DEFAULT_TARGET)))
        arguments += ["--variant", default, "--entry", entry, "--precision", winner.precision]
        return {"export": join([*arguments, *target_options]), "exported": default, "not_exported": CPUS_CHOICE}
    targets = {str(record.get("target")) for record in campaign.environments.values()}
    target = get_target(min(targets) if len(targets) == 1 else DEFAULT_TARGET)
    reason = _export_refusal(best.name, target)
    exported_time = best if reason is None else _fastest_exported(case, winner, target)
    if exported_time is None:
        return {"not_exported": reason}
    arguments += ["--variant", exported_time.name, "--entry", entry, "--precision", winner.precision]
    arguments += ["--target", target.name] if target.name != DEFAULT_TARGET else []
    return {
        "export": join([*arguments, *target_options]),
        "exported": exported_time.name,
        "exported_seconds": exported_time.seconds,
        "not_exported": reason,
    }


def _export_refusal(variant: str, target: Target) -> str | None:
    try:
        parse_variant(variant, target)
    except ReproError as error:
        return error.what
    return None


def _fastest_exported(case: Case, winner: Winner, target: Target) -> ReportedTime | None:
    """Return the fastest variant that fits a target's limits: from the shuffled rounds, or else from the search."""
    clock = next(clock for clock in CLOCKS if clock == winner.clock)
    for rows in (case.select(kind="variant"), case.searched.select(kind="variant", cache=case.campaign.cache)):
        fitting = rows.select(lambda row: row.timed and _export_refusal(row.name, target) is None)
        if (fastest := fitting.fastest(clock)) is not None:
            return fastest
    return None


def _operator_lines(selection: CampaignSelection, winner: Winner, precisions: Sequence[str]) -> tuple[str, ...]:
    """Return lines of Python that make the operator, from the campaign's problem file if it still exists."""
    name = "A" if len(precisions) == 1 else f"A_{winner.precision}"
    problem_file = selection.folder.problem(winner.problem)
    results = f", results={str(selection.results)!r}" if selection.results != RESULTS else ""
    options = f'"{selection.campaign}:{winner.problem}", precision="{winner.precision}"{results}'
    if not problem_file.exists():
        operator_line = f"{name} = repro.operator(matrix, {options})"
        return "import repro", "# matrix: one of SciPy's that is like this one", operator_line
    return (
        "from pathlib import Path",
        "import repro",
        "from repro.problems.matrix import Matrix",
        f'{name} = repro.operator(Matrix.load(Path("{problem_file}")), {options})',
    )
