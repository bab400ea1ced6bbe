"""The file of the variants that `now` may time: it is what its script writes of the records."""

import csv
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from repro.operators.variant_choice import FACTS, RECORDED, recorded

SCRIPT = Path(__file__).parents[2] / "tools/make_candidates.py"


@pytest.mark.medium
def test_the_file_is_what_the_records_say(monkeypatch):
    spec = spec_from_file_location("make_candidates", SCRIPT)
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "make_candidates", module)
    spec.loader.exec_module(module)
    assert module.text(module.cases()) == RECORDED.read_text(), "run python tools/make_candidates.py"


def test_what_is_read_is_what_the_file_has():
    variants, recordings = recorded()
    lines = list(csv.reader(RECORDED.read_text().splitlines()[1:]))
    assert [*map(str, variants)] == lines[0][FACTS:] and len(recordings) == len(lines) - 1
    for recording, line in zip(recordings, lines[1:], strict=True):
        facts = dict(zip(lines[0], line, strict=True))
        assert [recording.problem, recording.family, recording.precision] == [
            facts[name] for name in ("problem", "entry", "precision")
        ]
        for name, seconds in recording.seconds.items():
            assert 100 * np.log(seconds) == pytest.approx(int(facts[name]))
        assert recording.features[1] == pytest.approx(np.log2(int(facts["nonzeros"]) / int(facts["rows"])))
        assert np.isfinite(recording.features).all()
