"""Writes the variants that `tuned="now"` may time on a GPU, with their times on recorded matrices.

    python tools/make_candidates.py             # write src/repro/operators/candidates.csv
    python tools/make_candidates.py --evaluate  # print what `now` loses on each record's matrices, each left out

Variants are chosen greedily, to make the mean loss of the best of them least: first those whose set-up needs no order
by the host, then all. Times are hundredths of the natural logarithm of a time over the matrix's least; what no record
has is empty.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.records import read_environments, read_problems
from repro.bench.store import read_rows
from repro.codegen.targets import TARGETS, get_target
from repro.errors import ReproError
from repro.operators import variant_choice
from repro.operators.variant_choice import FACTS, LEAST_HOPE, LEAST_SHARE, MOST_TRIED, RECORDED, recorded
from repro.sparse.compound.defaults import Rows, default_variant
from repro.sparse.compound.variants import VariantId, fitting
from repro.tuning.recordings import Machine, recordings
from repro.tuning.strategies import prior, variant_covariance

REPOSITORY = Path(__file__).parents[1]
#: Campaigns with complete searches of our space, and a record of times of the default and others on real matrices.
CAMPAIGNS = ("h200", "h100", "h200-real")
TRIAL = ("h200", REPOSITORY / "results/h200/trials/defaults.csv")
#: Numbers of variants that need no order of the host, and of others; variants slower than this are all alike.
FAST, OTHERS, SLOW = 45, 30, 1.5
#: Fewest variants of a record that is evaluated.
FEWEST = 8


@dataclass(frozen=True, eq=False)
class Case:
    """A recorded matrix in a precision: its columns in the file, and the logarithm of each variant's time."""

    record: str
    device: tuple[str, str, int, int]
    problem: str
    entry: str
    precision: str
    rows: Rows
    logarithms: dict[str, float]


@cache
def is_candidate(name: str) -> bool:
    """Return whether a variant runs on every GPU, takes a user's vectors as they are, and has no counter.

    Records also have variants that there are no longer.
    """
    try:
        id = VariantId.parse(name)
    except ReproError:
        return False
    if id.layout.vector != "AoS" or id.layout.unknowns != "natural" or id.schedule.kind in ("static", "dynamic"):
        return False
    try:
        for target in TARGETS.values():
            if target.dialect == "cuda":
                fitting(id, target)
    except ReproError:
        return False
    return True


@cache
def needs_order(name: str) -> bool:
    """Return whether the host orders the rows."""
    layout = VariantId.parse(name).layout
    return layout.stores_pairs or layout.ordering == "clustered"


def cases() -> tuple[Case, ...]:
    """Return the recorded matrices, but for those of the trial whose default is a variant that there is no longer."""
    found = []
    for name in CAMPAIGNS:
        folder = CampaignFolder.of(name, REPOSITORY / "results")
        search = read_rows(folder.study("compound_spmv"), "search").to_pandas()
        search = search[(search.space == "extended") & (search.ordering == "natural")]
        problems, environments = read_problems(folder), read_environments(folder)
        device = next(
            (str(e["device"]), str(e["target"]), int(e["multiprocessors"]), int(e["cache_bytes"]))
            for e in environments.values()
        )
        for one in recordings(search, problems, environments, lambda *_: np.empty(0)):
            statistics = problems[one.problem]["statistics"]
            rows = Rows.described(statistics["rows"], statistics["nonzeros"], statistics["row_length"])
            times = {v: float(np.log(s)) for v, s in one.seconds.items() if s is not None}
            found.append(Case(name, device, one.problem, one.family, one.precision, rows, times))
    of, path = TRIAL
    device = next(case.device for case in found if case.record == of)
    times_of: dict[tuple[str, str], dict[str, list[float]]] = {}
    rows_of, gone = {}, set()
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            key = line["matrix"], line["precision"]
            name = line["variant"].removeprefix("default: ")
            if "/" in name:
                if name != line["variant"] and not is_candidate(name):
                    gone.add(key)
                times_of.setdefault(key, {}).setdefault(name, []).append(float(line["us"]))
                rows_of[key] = Rows(*(int(line[column]) for column in ("rows", "entries", "longest", "entries")))
    for (problem, precision), repeated in times_of.items():
        if (problem, precision) in gone:
            continue
        logarithms = {name: float(np.log(np.median(us))) for name, us in repeated.items()}
        found.append(Case(f"{of}: real", device, problem, "real", precision, rows_of[problem, precision], logarithms))
    return tuple(found)


@cache
def losses_of(case: Case) -> dict[str, float]:
    """Return the logarithm of each candidate's time over the matrix's least."""
    least = min(case.logarithms.values())
    return {name: time - least for name, time in case.logarithms.items() if is_candidate(name)}


@cache
def all_losses(known: tuple[Case, ...]) -> tuple[list[str], NDArray[np.float64]]:
    """Return the names of all candidates, and their losses on each matrix."""
    names = sorted({name for case in known for name in losses_of(case)})
    return names, np.array([[losses_of(case).get(name, SLOW) for name in names] for case in known])


def choose(known: tuple[Case, ...], without: str | None = None) -> list[str]:
    """Return the variants for the file, those that need no order first, by all matrices but one."""
    names, slow = all_losses(known)
    learnt = [case for case in known if case.problem != without]
    slow = np.minimum(slow[[case.problem != without for case in known]], SLOW)
    sizes = Counter(case.entry for case in learnt)
    weights = np.array([1 / sizes[case.entry] for case in learnt])
    ordered = np.array([needs_order(name) for name in names])
    best = np.full(len(learnt), SLOW)
    chosen: list[int] = []
    for count, allowed in ((FAST, ~ordered), (FAST + OTHERS, np.ones(len(names), bool))):
        while len(chosen) < count:
            costs = weights @ np.minimum(best[:, None], slow) + 1e-5 * (weights @ slow)
            costs[~allowed] = np.inf
            costs[chosen] = np.inf
            chosen.append(int(np.argmin(costs.astype(np.float32))))
            best = np.minimum(best, slow[:, chosen[-1]])
    return [names[index] for index in chosen]


def text(known: tuple[Case, ...], without: str | None = None) -> str:
    """Return the text of the file, by all matrices but one."""
    names = choose(known, without)
    out = io.StringIO()
    out.write(f"# by tools/make_candidates.py from results/{', results/'.join(CAMPAIGNS)} and {TRIAL[1].name}\n")
    writer = csv.writer(out, lineterminator="\n")
    facts = ("device", "target", "multiprocessors", "cache_bytes", "problem", "entry", "precision", "rows", "nonzeros",
             "longest")  # fmt: skip
    assert len(facts) == FACTS
    writer.writerow([*facts, *names])
    for case in known:
        if case.problem == without:
            continue
        rows = case.rows
        losses = (losses_of(case).get(name) for name in names)
        hundredths = ("" if loss is None else str(round(100 * loss)) for loss in losses)
        about = (case.problem, case.entry, case.precision, rows.count, rows.entries, rows.longest)
        writer.writerow([*case.device, *about, *hundredths])
    return out.getvalue()


def lost(case: Case, known: tuple[Case, ...], folder: Path, orders: bool) -> tuple[float, float, int] | None:
    """Return the losses of the default and of `now` on a matrix that was left out, and the number of variants tried.

    Only variants of which there is a time are tried.
    """
    path = folder / f"{case.problem.replace('/', '-').replace(' ', '-')}.csv"
    if not path.exists():
        path.write_text(text(known, case.problem))
    variants, learnt = recorded(path)
    default = str(default_variant(case.entry, case.precision, described(case), get_target(case.device[1])))
    names = dict.fromkeys((default, *map(str, variants)))
    space = tuple(n for n in names if n in losses_of(case) and (orders or not needs_order(n)))
    if len(space) < FEWEST:
        return None
    losses = losses_of(case)
    least = min(loss for name, loss in losses.items() if orders or not needs_order(name))
    _, target, multiprocessors, cache_bytes = case.device
    machine = Machine(multiprocessors, get_target(target).threads_per_sm, cache_bytes)
    this = variant_choice._features(case.entry, case.precision, case.rows, machine)
    belief = prior(space, learnt, this, variant_covariance(space, VariantId), LEAST_SHARE)
    index, times = 0, []
    for _ in range(1 + MOST_TRIED):
        times.append(losses[space[index]])
        belief.observe(index, float(np.exp(times[-1])))
        if belief.promises().max() < LEAST_HOPE:
            break
        index = belief.most_promising()
    first = losses.get(default, np.nan)
    return float(np.exp(first - least)), float(np.exp(max(min(times) - least, 0.0))), len(times)


def described(case: Case) -> Rows:
    """Return the rows with an estimate of the slots in slices, which the record of real matrices lacks."""
    rows = case.rows
    if case.entry != "real":
        return rows
    even = rows.longest <= 1.1 * rows.mean
    return Rows(rows.count, rows.entries, rows.longest, rows.entries if even else 2 * rows.entries)


def evaluate(known: tuple[Case, ...], folder: Path) -> str:
    """Return a Markdown table of the losses of the default and of `now`, with each matrix left out in turn."""
    lines = [
        "| record | candidates | cases | default | worst | `now` | worst | tried |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for record in dict.fromkeys(case.record for case in known):
        for orders in (False, True) if ":" not in record else (False,):
            found = [lost(case, known, folder, orders) for case in known if case.record == record]
            default, now, tried = np.array([one for one in found if one is not None]).T
            default = default[np.isfinite(default)]
            numbers = [f"{f(x):.2f}" for x in (default, now) for f in (lambda x: np.exp(np.log(x).mean()), np.max)]
            which = "all" if orders else "without orders"
            lines.append(f"| {record} | {which} | {len(now)} | {' | '.join(numbers)} | {tried.mean():.1f} |")
    return "\n".join(lines)


def main(arguments: Collection[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluate", action="store_true", help="print the losses of matrices that are left out")
    if parser.parse_args(arguments).evaluate:
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as folder:
            print(evaluate(cases(), Path(folder)))
    else:
        RECORDED.write_text(text(cases()))


if __name__ == "__main__":
    main()
