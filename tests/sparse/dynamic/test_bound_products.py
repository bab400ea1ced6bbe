"""Products of a matrix that changes after they were bound to it."""

import numpy as np
import pytest

from repro.codegen.targets import CPU
from repro.sparse.dynamic.host_layout import lay_out
from repro.sparse.dynamic.matrix import bind_product
from repro.sparse.dynamic.schedules import Schedule, usual_schedule
from support.dynamic_matrices import random_matrix

pytestmark = pytest.mark.medium


@pytest.mark.sampled(1)
def test_a_product_sees_what_is_inserted_after_it_was_bound(load_module, device, on_cpu, make_batch):
    generator = np.random.default_rng(3)
    start = random_matrix(300, 200, 0.04)
    matrix = on_cpu(lay_out(start, 4, 30_000), slack=2)
    x, y = generator.random(200), np.full(300, np.nan)
    on_device = device.upload(x), device.upload(y)
    schedule = usual_schedule(device.target, 8.0)
    launch = bind_product(load_module("double/product"), schedule, matrix.storage, *on_device)
    rows, columns, values = generator.integers(0, 300, 600), generator.integers(0, 200, 600), generator.random(600)
    matrix.insert(make_batch(rows, columns, values))
    launch()
    device.download(on_device[1], y)
    expected = start @ x
    np.add.at(expected, rows, values * x[columns])
    np.testing.assert_allclose(y, expected, rtol=1e-13)


@pytest.mark.parametrize(("mean", "width"), [(0.0, 1), (4.0, 1), (5.0, 2), (14.0, 4), (64.0, 16), (2600.0, 16)])
def test_the_usual_schedule_has_four_entries_a_thread(mean, width):
    schedule = usual_schedule(CPU, mean)
    assert (schedule.kind, schedule.width, schedule.exact) == ("mixed", width, False)
    assert Schedule.parse(str(schedule)) == schedule
