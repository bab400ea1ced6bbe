"""What is written for each entry, precision and layout, and that the kernel is the one that is measured."""

from __future__ import annotations

import re
import subprocess
from itertools import product
from pathlib import Path

import pytest

from repro.codegen import nvcc
from repro.codegen.targets import get_target
from repro.entries import entries
from repro.errors import ReproError
from repro.export.bundle import Export, parse_variant, render_export
from repro.sparse.compound.kernels import kernel_name, render_module
from repro.sparse.compound.outer import Outer, outer_formats, register
from repro.sparse.compound.variants import INNER, VECTOR

SM_90 = get_target("sm_90")
ORDERS = list(product(INNER, VECTOR))


def export(entry: str, precision: str, variant: str, name: str = "kernel") -> Export:
    id = parse_variant(variant, SM_90)
    return Export(name, entry, precision, id.layout, id.schedule, SM_90, [("chosen", "by its name")])


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("entry", sorted(name for name, entry in entries().items() if entry.members))
def test_every_outer_format_and_order_is_written(templates: Path, entry: str, precision: str) -> None:
    members = ", ".join(entries()[entry].members)
    for number, outer in enumerate(outer_formats()):
        inner, vector = ORDERS[(number * 2 + len(entry)) % len(ORDERS)]
        files = render_export(templates, export(entry, precision, f"{outer}-{inner}-{vector}/static-64-4"))
        assert set(files) == {"kernel.h", "kernel.cu", "CMakeLists.txt", "example.cpp", "README.md"}
        assert f"Scalar {members};" in files["kernel.h"]
        assert f"using Scalar = {'float' if precision == 'single' else 'double'};" in files["kernel.h"]
        for name, text in files.items():
            assert not re.search(r"\{\{ |\{%|None|Undefined", text), (name, outer, inner, vector)
            assert text.endswith("\n")
            assert not text.endswith("\n\n")
            assert not re.search(r"[ \t]\n|\n\n\n", text), (name, outer, inner, vector)


@pytest.mark.parametrize("entry", sorted(name for name, entry in entries().items() if entry.members))
def test_pairs_are_written_in_every_order(templates: Path, entry: str) -> None:
    for number, (inner, vector) in enumerate(ORDERS):
        ordering = "@clustered" * (number % 2)
        files = render_export(templates, export(entry, "double", f"Pairs-64-{inner}-{vector}{ordering}/direct-64-4"))
        assert ("cluster_rows" in files["kernel.h"]) == bool(ordering)
        assert "or it is not symmetric, exactly" in files["kernel.h"]
        for name, text in files.items():
            assert not re.search(r"\{\{ |\{%|None|Undefined", text), (name, inner, vector)
            assert not re.search(r"[ \t]\n|\n\n\n|\n\n\Z", text), (name, inner, vector)


@pytest.mark.wording
def test_entries_without_values_are_refused(templates: Path) -> None:
    with pytest.raises(ReproError, match="without values cannot be exported"):
        render_export(templates, export("pattern", "double", "CSR-AoS-AoS/static-64-4"))


def test_only_the_one_schedule_is_written(templates: Path) -> None:
    files = render_export(templates, export("complex", "single", "ELL-SoA-AoS/dynamic-96-6"))
    assert re.findall(r"__launch_bounds__\((\d+), (\d+)\) (\w+)", files["kernel.cu"]) == [
        ("96", "6", "spmv_dynamic_96_6")
    ]
    assert "A.grid_, 96, stream" in files["kernel.cu"]
    assert "cudaMemsetAsync(A.scratch_" in files["kernel.cu"]
    assert "may not run at the same time" in files["kernel.h"]
    direct = render_export(templates, export("complex", "single", "ELL-SoA-AoS/direct-96-6-w4"))["kernel.cu"]
    assert "(n * 4LL + 95) / 96" in direct
    assert "cudaMemsetAsync(A.scratch_" not in direct


def test_only_a_clustered_layout_orders_rows(templates: Path) -> None:
    natural, clustered = (
        render_export(templates, export("block3", "single", f"Sl-8-AoSoA-AoS{suffix}/direct-64-4-w4"))
        for suffix in ("", "@clustered")
    )
    in_windows = render_export(templates, export("real", "single", "Sl-32-AoSoA-AoS@sigma/direct-256-4-u4"))
    for name in ("kernel.h", "kernel.cu", "README.md"):
        assert "sort_rows" in in_windows[name] and "cluster_rows" not in in_windows[name]
        assert not re.search("cluster|order_rows|row_order", natural[name])
        assert "cluster_rows" in clustered[name]
    assert "cudaStream_t stream = nullptr);" in natural["kernel.h"]
    assert "cudaStream_t stream = nullptr,\n        const int* row_order = nullptr);" in clustered["kernel.h"]
    assert "layout Sl-8-AoSoA-AoS@clustered, " in clustered["README.md"]
    assert "(n * 4LL + 63) / 64" in natural["kernel.cu"]
    assert "((n - order.long_rows) * 4LL + 63) / 64" in clustered["kernel.cu"]


@pytest.mark.parametrize(
    ("layout", "margin"),
    [("CSR-AoS-AoS", "128LL * std::max(stride_, 1)"), ("Sl-16-AoS-AoS", "128LL * std::max(stride_, 16)"),
     ("Sl-8-AoS-AoS@clustered", "4096LL * 8")],
)  # fmt: skip
def test_the_last_step_past_the_end_is_counted_too(templates: Path, layout: str, margin: str) -> None:
    source = render_export(templates, export("complex", "single", f"{layout}/direct-64-4-w4"))["kernel.cu"]
    assert f"as_int(slots_ + {margin});" in source


def test_the_readme_says_where_it_came_from(templates: Path) -> None:
    readme = render_export(templates, export("complex", "single", "ELL-SoA-AoS/dynamic-96-6"))["README.md"]
    assert "| chosen | by its name |" in readme
    assert "layout ELL-SoA-AoS, schedule dynamic-96-6" in readme
    assert max(map(len, readme.splitlines())) <= 120


def test_a_name_has_to_be_one_in_cpp(templates: Path) -> None:
    with pytest.raises(ReproError, match="namespace"):
        render_export(templates, export("complex", "single", "CSR-AoS-AoS/static-32-1", name="fem/bunny"))


def test_a_format_without_conversion_is_refused(templates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from repro.sparse.compound import outer

    monkeypatch.setattr(outer, "_REGISTRY", dict(outer._REGISTRY))
    csr = outer_formats()["CSR"]
    register(Outer("COO", "coo", csr.count, csr.locate))
    with pytest.raises(ReproError, match=r"export/outer/coo\.j2"):
        render_export(templates, export("complex", "single", "COO-AoS-AoS/static-32-1"))


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("CSR-AoS-AoS@rcm/static-32-1", "export CSR-AoS-AoS/static-32-1"),
        ("Sl-8-AoS-AoS@sorted/static-32-1", "renumbers the unknowns"),
        ("CSR-AoS/static-32-1", "unknown layout"),
        ("CSR-AoS-AoS", "unknown schedule"),
        ("CSR-AoS-AoS/static-32", "unknown schedule"),
        ("CSR-AoS-AoS/guided-32-1", "unknown schedule"),
        ("CSR-AoS-AoS/static-48-1", "sm_90 does not support the schedule: 48 threads a block, no multiple of 32"),
        ("CSR-AoS-AoS/static-1024-3", "does not support"),
        ("CSR-AoS-AoS/static-32-64", "does not support"),
        ("CSR-AoS-AoS/direct-64-1-w3", "does not support"),
        ("CSR-AoS-AoS/direct-64-1-cs", "only tiles"),
        ("ELLPACK-AoSoA-AoS@clustered/direct-64-1-w2", "does not support the row order clustered"),
    ],
)
def test_what_cannot_be_exported_is_one_message(variant: str, message: str) -> None:
    with pytest.raises(ReproError, match=message):
        parse_variant(variant, SM_90)


@pytest.mark.parametrize(
    "text", ["static-256-4", "dynamic-32-32", "direct-64-2-w4-u2-cs", "direct-64-2-u2-cg", "chunk-1024-1-cs"]
)
def test_a_schedules_name_is_read_back(text: str) -> None:
    assert str(parse_variant(f"CSR-AoSoA-AoS/{text}", SM_90).schedule) == text


#: What is compiled; every one is a namespace of its own.
COMPILED = {
    "papers_sliced": ("quaternion", "single", "Sl-32-SoA-AoS/static-64-6"),
    "papers_ellpack": ("complex", "double", "ELL-SoA-AoS/dynamic-64-6"),
    "sliced": ("block3", "single", "Sl-8-AoSoA-Padded/direct-64-4-w4-u2-cs"),
    "ellpack": ("real", "double", "ELLPACK-AoSoA-AoS/chunk-512-2-u4-cs"),
    "rows": ("complex", "single", "CSR-AoSoA-AoS/direct-128-4-w8-cg"),
    "clusters": ("block3", "double", "Sl-8-AoSoA-Padded@clustered/chunk-512-2-w4-u2"),
    "clustered_rows": ("quaternion", "single", "CSR-AoSoA-AoS@clustered/direct-64-16-w4"),
    "pairs_of_clusters": ("complex", "double", "Pairs-128-AoSoA-AoS@clustered/direct-256-2-w2-u2-cs"),
    "pairs": ("block3", "single", "Pairs-64-SoA-Padded/direct-64-8"),
}


def assembly(source: Path) -> str:
    """Compile to PTX."""
    ptx = source.with_suffix(".ptx")
    subprocess.run(
        [nvcc.find(), "-arch=sm_90", "-O3", "-std=c++17", "-Werror", "all-warnings", "-ptx", "-o", ptx, source],
        cwd=source.parent,
        check=True,
    )
    return ptx.read_text()


def instructions(ptx: str, kernel: str) -> str:
    """Return a kernel's instructions, without the names that differ between two sources."""
    found = re.findall(rf"(\.entry (\w*{kernel}\w*)\(.*?^}}$)", ptx, re.DOTALL | re.MULTILINE)
    assert len(found) == 1
    text = re.sub(r"\$L__BB\d+_", "$L__BB_", found[0][0].replace(found[0][1], "kernel"))
    return re.sub(r"\w*(drawn|partial|first_slot|shared)E?\b", r"\1", text)


@pytest.fixture(scope="module")
def exported(templates: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """All exports compiled as one source, which takes as long as one of them."""
    folder = tmp_path_factory.mktemp("exported")
    for case, what in COMPILED.items():
        for name, text in render_export(templates, export(*what, name=case)).items():
            (folder / name).write_text(text)
    (folder / "all.cu").write_text("".join(f'#include "{case}.cu"\n' for case in COMPILED))
    return assembly(folder / "all.cu")


@pytest.mark.sampled(4)
@pytest.mark.medium
@pytest.mark.skipif(nvcc.find() is None, reason="nvcc is not installed")
@pytest.mark.parametrize("case", COMPILED)
def test_an_export_compiles_without_a_warning_to_the_code_that_is_measured(
    templates: Path, tmp_path: Path, exported: str, case: str
) -> None:
    entry, precision, variant = COMPILED[case]
    what = export(entry, precision, variant)
    # the module's own warnings are not the export's
    module = render_module(templates, entry, precision, what.layout, [what.schedule], SM_90, "tests")
    (tmp_path / "module.cu").write_text(f"#pragma nv_diag_suppress 177\n{module}")
    kernel = kernel_name(what.schedule, SM_90)
    measured = instructions(assembly(tmp_path / "module.cu"), kernel)
    assert instructions(exported, rf"{len(case)}{case}\w*{kernel}") == measured
