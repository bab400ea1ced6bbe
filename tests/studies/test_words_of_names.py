"""Every part of a variant's name has its line in the study's legend, which the report and docs/reference print."""

import re
from collections.abc import Iterator
from dataclasses import fields
from itertools import product
from typing import get_args

import pyarrow.parquet as pq
import pytest

from repro.campaign.report import legend_of
from repro.codegen.targets import CPU, Target, get_target
from repro.entries import get_entry
from repro.results.report import printed_part
from repro.sparse.compound.variants import (
    ORDERINGS,
    Layout,
    Schedule,
    VariantId,
    all_layouts,
    extended_layouts,
    schedules,
)
from repro.studies import study_names
from repro.studies.calls import FUNCTIONS, LIBRARIES, OURS
from repro.studies.compressed_coo.ids import SPLITS, CoordinateId, blockings
from repro.studies.dg_postprocessing.ids import REGION_DEGREES, filter_ids, own_region_ids, paper_region_ids
from repro.studies.dynamic_csr.ids import product_ids
from repro.studies.spgemm_amg import PRODUCTS
from repro.studies.spgemm_amg.ids import BinMode, KernelId, shapes_for
from repro.words import Space
from support.campaigns import REPOSITORY, RESULTS

SPACES = get_args(Space)
TARGETS = (CPU, get_target("sm_90"))
#: Kinds of rows whose names are of the library, or of no variant.
OTHERS = ("baseline", "copy", "empty", "floor", "own floor", "solver", "outside")
#: The library's, in names of ours.
LIBRARY = re.compile(r"cusparse/\S*|cub/\S*")


def ids(study: str, target: Target) -> Iterator[object]:
    """Yield the ids of a study's spaces."""
    if study == "compound_spmv":
        layouts = [*all_layouts(), *extended_layouts(get_entry("block3"))]
        layouts += [Layout("CSR", "AoSoA", "AoS", ordering) for ordering in ORDERINGS]
        for layout, space in product(layouts, SPACES):
            yield from (VariantId(layout, schedule) for schedule in schedules(target, space, layout))
    if study == "compressed_coo":
        yield from (CoordinateId(layout, blocking) for layout in SPLITS for blocking in blockings(target, layout))
    if study == "dynamic_csr":
        for space in SPACES:
            yield from product_ids(target, space, 8)
    if study == "spgemm_amg":
        for of, mode in product(PRODUCTS, get_args(BinMode)):
            yield from (KernelId(of, mode, 2, shape) for shape in shapes_for(target, 8, mode, 128, 64))
    if study == "dg_postprocessing":
        yield from filter_ids(target, SPACES)
        for degree in REGION_DEGREES:
            yield from (*paper_region_ids(degree, target), *own_region_ids(degree, target))
    if study == "calls":
        for function, (arrays, library) in product(FUNCTIONS, LIBRARIES.items()):
            yield from (f"{function}/{whose}/{arrays}/{out}" for whose in (OURS, library) for out in ("new", "out"))


def recorded(study: str) -> Iterator[str]:
    """Yield the names of a study's operations in the records' reports."""
    for path in RESULTS.glob(f"*/raw/{study}/report.parquet"):
        rows = pq.read_table(path, columns=["kind", "name"]).to_pylist()
        yield from (row["name"] for row in rows if row["kind"] not in OTHERS)


@pytest.mark.parametrize("study", study_names())
def test_a_legend_has_each_part_of_every_name(study: str) -> None:
    names = {str(id) for target in TARGETS for id in ids(study, target)} | {*recorded(study)}
    assert len(names) > 40
    legend = [re.compile(rf"(?<!\w)(?:{part})(?!\w)") for part in legend_of(study)]
    unexplained: dict[str, str] = {}
    for name in names:
        text = LIBRARY.sub("", name)
        said = [found.span() for part in legend for found in part.finditer(text)]
        for word in re.finditer(r"\w+", text):
            if not any(start <= word.start() and word.end() <= end for start, end in said):
                unexplained[word[0]] = name
    assert not unexplained


def test_the_glossary_has_the_column_of_each_field_of_a_schedule() -> None:
    glossary = (REPOSITORY / "docs/glossary.md").read_text("utf-8")
    columns = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", glossary, re.MULTILINE))
    assert columns.keys() == {field.name for field in fields(Schedule)} - {"kind"}
    id = VariantId.parse("Sl-8-AoSoA-AoS/direct-256-6-w2-u4-cs-p")
    assert {column: id.columns[column] for column in columns.values()} == {
        column: getattr(id.schedule, field) for field, column in columns.items()
    }


@pytest.mark.parametrize(
    ("part", "meaning", "printed"),
    [
        (r"w(\d+)", r"\1 threads", ("wN", "N threads")),
        (r"(?<=-)cg", "L1", ("-cg", "L1")),
        (r"c(\d+(?:\.\d+)?)", r"\1 edges", ("cN", "N edges")),
        ("(A|B)-(C|D)", r"\1, \2", ("(A|B)-(C|D)", "A or B, C or D")),
    ],
)
def test_a_legends_patterns_are_printed_for_readers(part: str, meaning: str, printed: tuple[str, str]) -> None:
    assert printed_part(part, meaning) == printed
