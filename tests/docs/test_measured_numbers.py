"""Every measured number that a page states stands in a recorded table, as the comment behind it says."""

from pathlib import Path

import pytest
from measured import agrees, passages, stands_in
from pages import REPOSITORY

from repro.errors import ReproError

pytestmark = pytest.mark.medium

NAMES = (
    "results", "performance", "performance-coordinates", "performance-dynamic", "performance-products",
    "performance-filters", "performance-devices", "tuning", "multigrid", "products", "dynamic", "siac", "operator",
    "collection", "inputs",
)  # fmt: skip
PAGES = [REPOSITORY / "README.md", *(REPOSITORY / f"docs/{name}.md" for name in NAMES)]
#: The part of README.md that states results; what else it has are sizes and settings.
RESULT = "Result"
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@pages
def test_every_number_is_that_of_its_table(page: Path) -> None:
    wrong = [
        f"{reference.number} is {reference.value}: {passage.text[:60]}…"
        for passage in passages(page)
        for reference in passage.references
        if not agrees(reference)
    ]
    assert not wrong


@pages
def test_every_comment_stands_behind_its_number(page: Path) -> None:
    moved = [
        f"{reference.number} is not in: {passage.text[:60]}…"
        for passage in passages(page)
        for reference in passage.references
        if not stands_in(reference.number, passage.text)
    ]
    assert not moved


@pages
def test_every_number_that_looks_measured_has_a_comment(page: Path) -> None:
    bare = {
        passage.text[:60]: missing
        for passage in passages(page)
        if page.name != "README.md" or passage.heading.startswith(RESULT)
        if (missing := passage.stated - {reference.number for reference in passage.references})
    }
    assert not bare


SPEEDUPS = """\
On an H200 they are 1.07 to 3.32 times as fast, 2.11 times in the mean, on 18 matrices of section 5.4 (`k-1.5`).

<!-- h200/tables/compound_spmv/table-targets
2.11 = ours | speedup over the fastest routine, graph clock: geometric mean
-->

<!-- h200/tables/compound_spmv/table-problems
3.32 = max speedup
3.33 = max speedup
-->
"""


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(SPEEDUPS)
    (passage,) = passages(page)
    assert passage.stated == {"1.07", "3.32", "2.11"}
    references = list(passage.references)
    assert [reference.number for reference in references if agrees(reference)] == ["3.32"]
    assert [one.number for one in references if not stands_in(one.number, passage.text)] == ["3.33"]


@pytest.mark.parametrize("line", ["3.32 max speedup", "3.32 = speedup", "3.32 = speedup | of no line"])
def test_a_comment_that_names_no_single_number_is_refused(tmp_path: Path, line: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"3.05 times\n\n<!-- h200/tables/compound_spmv/table-problems\n{line}\n-->\n")
    with pytest.raises(ReproError):
        list(passages(page)[0].references)


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("takes 12 µs for 1,000 and 2.5 for more", {"12", "2.5"}),
        ("75 to 110 % of it, 3, 4 and 5 times", {"75", "110", "3", "4", "5"}),
        ("3×3 blocks of 8 × 4 on CUSP 0.5.1, chapter 6, doi 10.1145/25.30", set()),
        ("| 3.010e-02 | [two](x-1.5.md) `1.5` |", {"3.010e-02"}),
    ],
)
def test_what_looks_measured(tmp_path: Path, text: str, stated: set[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    assert passages(page)[0].stated == stated
