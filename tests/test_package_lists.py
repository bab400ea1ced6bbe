"""The lists of packages in pyproject.toml equal the imports of the layers: operators need no package of campaigns."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from repro.cli import CAMPAIGN_MODULES

REPOSITORY = Path(__file__).parents[1]
PACKAGE = REPOSITORY / "src/repro"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
#: Modules that packages have under another name than their own.
MODULES = {
    "pyyaml": {"yaml"},
    "scikit-fem": {"skfem"},
    "nvmath-python": {"nvmath"},
    "cuda-bindings": {"cuda"},
    "nvidia-ml-py": {"pynvml"},
    "fast-simplification": {"fast_simplification"},
}
#: Modules that come with packages of the lists: with Jinja2, pydantic and pooch; and one that only type checkers have.
COMPANIONS = {"markupsafe", "pydantic_core", "typing_extensions", "requests", "urllib3", "_typeshed"}
#: Packages whose files are loaded, not imported: the CPU's OpenCL, and NVRTC with headers for it.
LOADED = {
    "intel-opencl-rt", "intel-cmplr-lib-rt", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl",
}  # fmt: skip
#: Blocks the campaigns' packages, uses operators and renders an export, and prints what else has been imported.
USE = """
    import json, sys, tempfile
    from importlib import import_module
    from pathlib import Path

    class Blocked:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {blocked}:
                raise ModuleNotFoundError(f"{{name}} is blocked", name=name)

    sys.meta_path.insert(0, Blocked())
    import numpy as np
    import scipy.sparse as sp
    import repro
    from repro.codegen.targets import get_target
    from repro.export import bundle, campaign_choice

    for name in repro.__all__:
        getattr(repro, name)
    matrix, x = sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(40, 40)).tocsr(), np.ones(40)
    with repro.operator(matrix, device="opencl", tuned="CSR-AoS-AoS/static-64-1") as operator:
        assert np.allclose(operator @ x, matrix @ x)
    assert np.allclose((repro.spgemm(matrix, matrix, device="opencl") - matrix @ matrix).toarray(), 0)
    ml = repro.amg(matrix, max_coarse=10, device="opencl")
    for x0 in (repro.solve(matrix, x, device="opencl"), repro.solve(matrix, x, M=ml, device="opencl"), ml.solve(x)):
        assert np.allclose(matrix @ x0, x, atol=1e-4)
    grown = repro.DynamicCSR.from_csr(matrix, device="opencl")
    assert np.allclose(grown @ x, matrix @ x)
    try:
        repro.operator(matrix, "h200:fem/nut_37k", device="opencl")
    except repro.errors.ReproError as error:
        assert "[campaign]" in str(error)
    else:
        raise AssertionError("a campaign was read")
    bundle.parse_variant("Sl-32-SoA-AoS/static-256-4", get_target("sm_90"))
    print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


def modules_of(*lists: str) -> set[str]:
    """Return the modules of the packages in `dependencies` and in extras."""
    packages = {Requirement(item).name for name in lists for item in listed(name)} - LOADED
    return {module for package in packages for module in MODULES.get(package, {package})}


def listed(name: str) -> list[str]:
    return PROJECT["dependencies"] if name == "dependencies" else PROJECT["optional-dependencies"][name]


@cache
def nodes(folder: Path) -> list[ast.AST]:
    """Return all that the code in a folder consists of, read once."""
    return [node for path in folder.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]


def imported(folder: Path) -> set[str]:
    """Return all modules of others that the code in a folder imports, anywhere in it."""
    names: set[str] = set()
    for node in nodes(folder):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names - {*sys.stdlib_module_names, "repro"}


@pytest.mark.medium
def test_operators_need_the_dependencies_alone() -> None:
    code = textwrap.dedent(USE).format(blocked={*CAMPAIGN_MODULES})
    quickly_compiled = {**os.environ, "PYOPENCL_BUILD_OPTIONS": "-cl-opt-disable"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=quickly_compiled)
    assert done.returncode == 0, done.stderr
    loaded = {*json.loads(done.stdout)}
    assert modules_of("dependencies") <= loaded
    assert not loaded & modules_of("campaign")


def test_the_packages_that_are_listed_are_those_that_the_code_imports() -> None:
    every_list = ("dependencies", "campaign", "cpu", "cuda", "mesh")
    assert modules_of("campaign") == {*CAMPAIGN_MODULES}
    # imported by names in strings, some of them in processes of their own; Snakemake runs the Snakefile
    by_name = modules_of("mesh") | {"snakemake", "pycuda", "pyopencl", "ssgetpy"}
    optional = {"torch"}  # `repro.torch` is for those who have it
    found = imported(PACKAGE)
    assert found - modules_of(*every_list) - COMPANIONS == optional
    assert modules_of(*every_list) - found - by_name == set()


def test_a_command_without_the_campaigns_packages_is_one_message() -> None:
    code = (
        "import importlib.util as util, sys\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name in ('snakemake', 'typer') else find(name, *rest)\n"
        "from repro.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "list"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no module snakemake, typer" in done.stderr and "[campaign]'" in done.stderr
    assert "Traceback" not in done.stderr


#: Packages that messages name beside the project's own lists; the index has them: looked at in November 2026.
IN_THE_INDEX = {
    "cuda-bindings", "nvidia-cuda-cccl-cu12", "nvidia-cuda-nvcc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime-cu12",
}  # fmt: skip


def test_messages_name_packages_that_the_index_has() -> None:
    """Beside the project itself with an extra, for which `test_wheel.py` gives pip what is installed."""
    named: set[str] = set()
    for node in nodes(PACKAGE):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for words in re.findall(r"\bpip install ((?:'?[a-z][\w-]*(?:<\d+)?'?(?: |$))+)", node.value):
                named |= {word for word in re.findall(r"[a-z][a-z\d]*(?:-[a-z\d]+)+", words)}
    assert named == IN_THE_INDEX
