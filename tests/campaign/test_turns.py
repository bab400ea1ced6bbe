"""How many processes take turns at a GPU, and how many GPUs a job claims so that they do."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from repro.campaign.workflow import claimed_gpus, processes_per_device


def plan(gpus: int = 1, *, on_gpu: bool = True) -> SimpleNamespace:
    return SimpleNamespace(gpus=gpus, on_gpu=on_gpu)


@pytest.mark.parametrize(
    ("gpus", "limit", "lending", "others"),
    [
        (1, None, (1, 1), (1, 1)),
        (1, 1, (1, 1), (1, 1)),
        (1, 2, (2, 1), (1, 1)),  # a case of another study gets ready while one is measured
        (1, 6, (6, 1), (1, 5)),  # and has one packer beside it at the most
        (2, 2, (1, 2), (1, 2)),
        (2, 7, (3, 2), (1, 4)),
        (4, 2, (1, 4), (1, 4)),
    ],
)
def test_a_study_that_packs_for_long_takes_turns_and_others_leave_room_for_one(
    gpus: int, limit: int | None, lending: tuple[int, int], others: tuple[int, int]
) -> None:
    for name, wanted in (("compound_spmv", lending), ("compressed_coo", lending), ("spgemm_amg", others)):
        assert (processes_per_device(plan(gpus), name, limit), claimed_gpus(plan(gpus), name, limit)) == wanted


def test_nobody_takes_turns_on_a_cpu() -> None:
    cpu = plan(on_gpu=False)
    assert (processes_per_device(cpu, "compound_spmv", 6), claimed_gpus(cpu, "compound_spmv", 6)) == (1, 1)
