"""Every kernel for rows of a product alone on a GPU, under a time limit: one that never ends fails by its name."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.codegen.targets import DTYPES, get_target
from support.products_by_shape import every_shape
from support.sparse_modules import by_precision, loader

pytestmark = pytest.mark.gpu

PRECISIONS = ("single", "double")
#: Seconds that a kernel may take with what it is held against on the host; and the start of a process beside that.
LIMIT, START = 60.0, 60.0
NAMES = {precision: list(every_shape(get_target("sm_90"), DTYPES[precision]().nbytes)) for precision in PRECISIONS}
CASES = [(precision, name) for precision in PRECISIONS for name in NAMES[precision]]
MODULES = ("matrix", "sort", *(f"{kernels}-exact" for kernels in ("count", "one", "symbolic", "numeric", "esc")))


class Alone:
    """What came of kernels, each run in a process of its group, which is started anew behind one that never ended.

    Parameters
    ----------
    modules
        The folder of the compiled modules.
    """

    def __init__(self, modules: Path) -> None:
        self._modules = modules
        self._outcomes: dict[tuple[str, str], str | None] = {}

    def outcome(self, precision: str, name: str) -> str | None:
        """Return what is wrong with a kernel; None: nothing."""
        if (precision, name) not in self._outcomes:
            kind = name.partition("_")[0]
            group = [other for other in NAMES[precision] if other.partition("_")[0] == kind]
            while left := [other for other in group if (precision, other) not in self._outcomes]:
                self._run(precision, left)
        return self._outcomes[precision, name]

    def _run(self, precision: str, names: list[str]) -> None:
        """Run kernels until one of them never ends, or the process does."""
        command = [sys.executable, Path(__file__).with_name("shapes_alone.py"), self._modules, precision, *names]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines: queue.Queue[str | None] = queue.Queue()

        def read() -> None:
            for line in process.stdout or ():
                lines.put(line)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        current, said, limit = names[0], "", LIMIT + START
        try:
            while (line := lines.get(timeout=limit)) is not None:
                limit = LIMIT
                told = json.loads(line) if line.startswith("{") else {}
                current = told.get("begins", current)
                if "ended" in told:
                    self._outcomes[precision, told["ended"]] = told["wrong"]
                elif not told:
                    said += line
            if (precision, current) not in self._outcomes:
                self._outcomes[precision, current] = f"its process ended with {process.wait()}: {said[-2000:]}"
        except queue.Empty:
            self._outcomes[precision, current] = f"it has not ended after {limit:g} s"
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def alone(gpu, templates: Path, tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """The kernels, their modules compiled before any time runs."""
    folder = tmp_path_factory.mktemp("shapes")
    load: Callable = by_precision(loader(gpu, templates, folder))
    for precision in PRECISIONS:
        for module in MODULES:
            load(precision)(module)
    return Alone(folder)


@pytest.mark.parametrize(("precision", "name"), CASES, ids=[f"{precision}-{name}" for precision, name in CASES])
def test_a_kernel_ends_and_is_right(alone: Alone, precision: str, name: str) -> None:
    assert alone.outcome(precision, name) is None
