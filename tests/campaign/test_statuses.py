"""Which statuses leave a campaign incomplete."""

from __future__ import annotations

from repro.bench.rows import STATUSES, TIMED
from repro.campaign.completeness import HARMLESS, failed_rows_missing


def test_a_disturbed_row_of_a_gpu_is_missing_and_an_unstable_one_is_not() -> None:
    rows = [
        {
            "name": "copy/64-1",
            "status": "disturbed",
            "message": "copy median 6,500 µs, 189.0 µs before",
            "backend": "cuda",
        },
        {"name": "bicgstab-10/scipy/csr/real", "status": "unstable", "message": "1.5 of what is tolerated"},
        {"name": "scipy/csr/real", "status": "ok", "message": None},
    ]
    (missing,) = failed_rows_missing("made_up on lp1, double", rows, winners=())
    assert not missing.remark
    assert missing.reason == "1 row disturbed, the first copy/64-1: copy median 6,500 µs, 189.0 µs before"
    assert set(STATUSES) > HARMLESS
    assert set(TIMED) < HARMLESS
