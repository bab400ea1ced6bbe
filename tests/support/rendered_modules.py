"""Modules that are made of each template of kernels, rendered."""

from __future__ import annotations

from pathlib import Path

from repro.codegen.targets import Target
from repro.codegen.templates import render_common
from repro.filtering import kernels as filtering
from repro.sparse.compound import kernels as compound
from repro.sparse.compound.device_csr import render_check
from repro.sparse.compound.device_packing import PACKINGS, render_packing
from repro.sparse.compound.variants import Layout, Schedule
from repro.sparse.dynamic import kernels as dynamic
from repro.sparse.elementwise import render_vectors
from repro.sparse.multigrid import kernels as multigrid
from repro.sparse.solvers.kernels import METHODS, SOLVERS, render_persistent, render_solver
from repro.sparse.spgemm import kernels as spgemm
from repro.studies import get_study
from repro.studies.dynamic_csr.kernels import OWN

#: Layouts of modules of `compound_spmv`, by their space.
LAYOUTS = {
    "paper": ("CSR-AoS-AoS", "ELL-SoA-SoA"),
    "extended": ("CSR-AoSoA-AoS", "ELLPACK-AoSoA-AoS", "Sl-8-AoSoA-AoS", "Pairs-64-AoSoA-AoS"),
}
#: Keys of modules, by study.
KEYS = {
    "compound_spmv": [f"{space}/block3-double/{layout}" for space, layouts in LAYOUTS.items() for layout in layouts],
    "compressed_coo": [
        *(f"paper/double/{layout}" for layout in ("COO", "CCOO")),
        *(f"extended/double/{layout}" for layout in ("CCOO-unpadded", "CCOO-aligned", "CSELL-8", "Pairs")),
    ],
    "dg_postprocessing": ["p1/vector-w18", "p2/vector-w16", "p1/ours", "p2/ours", "p1/clip"],
    "dynamic_csr": [f"double/{module}" for module in OWN],
}


def rendered_modules(templates: Path, target: Target) -> dict[str, str]:
    """Return the sources of modules of all templates, by a name of each."""
    modules = {"common": render_common(templates, target)}
    for module in spgemm.MODULES:
        modules[f"spgemm/{module}"] = spgemm.render_spgemm(templates, f"double/{module}", target, "tests")
    for module in multigrid.MODULES:
        modules[f"multigrid/{module}"] = multigrid.render_multigrid(templates, f"double/{module}", target, "tests")
    for module in dynamic.TEMPLATES:
        modules[f"dynamic/{module}"] = dynamic.render_module(templates, f"double/{module}", target, "tests")
    for kernels in filtering.KERNELS:
        modules[f"filtering/{kernels}"] = filtering.render_siac(templates, f"{kernels}-p2", target, "tests")
    for solver in SOLVERS:
        modules[f"solver/{solver}"] = render_solver(templates, solver, "double", target)
    for method in METHODS:
        modules[f"persistent/{method}"] = render_persistent(templates, method, "block3", "double", target)
    for entry in ("real", "block3"):
        modules[f"vectors/{entry}"] = render_vectors(templates, entry, "double", "AoS", target)
    for entry in ("real", "block3"):
        layout, schedules = Layout.parse("CSR-AoSoA-AoS"), [Schedule("split", 128, 4, in_flight=2)]
        modules[f"columns/{entry}"] = compound.render_module(
            templates, entry, "double", layout, schedules, target, "tests", columns=3
        )
    modules["checks"] = render_check(templates, target, "tests")
    for name in PACKINGS:
        modules[f"packing/{name}"] = render_packing(templates, "block3", "double", name, target, "tests")
    for study, keys in KEYS.items():
        modules |= {f"{study}/{key}": get_study(study).render(templates, key, target) for key in keys}
    return modules
