"""A campaign of few rows, for what holds of any study's.

Times are in microseconds by the event clock, a half more in double precision; by the graph clock 0.8 of that. `SLOW`
looks faster in the search than in the report.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from recorder import Recorder
from repro.bench.rows import CLOCKS, Row
from repro.results.campaign_data import Campaign

FAST, CLOSE, SLOW, BROKEN = "fast/1", "close/1", "slow/1", "broken/1"
SEARCHED = {FAST: 10.0, CLOSE: 10.05, SLOW: 14.0, BROKEN: None}
REPORTED = {FAST: 10.0, SLOW: 21.0}
LIBRARY, UNSUPPORTED = "library/one", "library/two"
OTHERS = {LIBRARY: 15.0, "floor/256-4": 8.0, "floor/128-1": 16.0, "copy": 1000.0, "empty": 3.3}
KINDS = {"library": "baseline"}
PRECISIONS = ("single", "double")


class SmallCampaign(Recorder):
    """Writes it: `case` by `case`, or `all` of some problems."""

    def timed(self, problem: str, precision: str, kind: str, name: str, micro: float | None, **columns: Any) -> Row:
        scaled = None if micro is None else micro * (1.5 if precision == "double" else 1.0)
        failed = {"status": "launch_error", "message": "too many\nresources"} if micro is None else {}
        return self.row(problem, precision, kind, name, scaled, **{**failed, **columns})

    def search(self, problem: str, precision: str) -> list[Row]:
        return [self.timed(problem, precision, "variant", name, micro) for name, micro in SEARCHED.items()]

    def report(self, problem: str, precision: str, clocks: Iterable[str] = CLOCKS) -> list[Row]:
        told = {"phase": "report", "clocks": clocks}
        rows = [self.timed(problem, precision, "variant", name, micro, **told) for name, micro in REPORTED.items()]
        for name, micro in OTHERS.items():
            kind = name.split("/")[0]
            rows.append(self.timed(problem, precision, KINDS.get(kind, kind), name, micro, **told))
        unsupported = {"status": "unsupported", "message": "needs_a_newer & library"}
        return [*rows, self.timed(problem, precision, "baseline", UNSUPPORTED, None, **unsupported, **told)]

    def case(self, problem: str, precision: str) -> None:
        self.write(problem, precision, "search", self.search(problem, precision))
        self.write(problem, precision, "report", self.report(problem, precision))
        chosen = {"joint": (FAST, [CLOSE]), "schedule": (SLOW, [])}
        self.choose(problem, precision, {(t, clock): answer for clock in CLOCKS for t, answer in chosen.items()})

    def all(self, *problems: str) -> Campaign:
        """Write and read a whole campaign."""
        self.environment()
        for problem in problems:
            self.record(problem, entry="real", n=1000, nnz=7000)
            for precision in PRECISIONS:
                self.case(problem, precision)
        return self.load()
