"""The strategy that a configuration asks for, with what it learns from."""

from __future__ import annotations

from pathlib import Path

from repro.bench.trial import Bench
from repro.config.models import Config
from repro.tuning.recordings import Machine, features, load_recordings
from repro.tuning.strategies import Strategy
from repro.tuning.strategies.exhaustive import Exhaustive
from repro.tuning.strategies.predicted import Predicted
from repro.tuning.strategies.random_sample import RandomSample

RESULTS = Path("results")


def strategy(config: Config, study: str, bench: Bench) -> Strategy:
    """Return what decides which variants are measured.

    Raises
    ------
    ReproError
        A predicted search has no recorded campaign to learn from.
    """
    settings = config.studies[study]
    if settings.search == "random":
        return RandomSample(settings.budget, config.seed)
    if settings.search == "exhaustive":
        return Exhaustive()
    device, operands = bench.device, bench.operands
    campaigns = None if settings.training == "all" else settings.training
    machine = Machine(device.n_s, device.target.threads_per_sm, device.l2_bytes)
    problem = operands.problem
    return Predicted(
        load_recordings(RESULTS, study, device.backend, campaigns, without=config.campaign),
        features(problem.statistics, problem.entry, operands.precision, machine),
        settings.budget,
    )
