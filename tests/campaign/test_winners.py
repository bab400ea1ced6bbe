"""`repro best`: the winner of each own problem beside the library, and commands to paste that work."""

import json
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import scipy.sparse as sp

from repro.campaign.artifacts import CampaignSelection, published_of
from repro.campaign.plan import Plan
from repro.campaign.report import report
from repro.campaign.winners import (
    CHOSEN_ON_CPU,
    REHEARSAL,
    find_rivals,
    find_winners,
    lines_of_problem,
    notes,
    table_rows,
    usage_lines,
)
from repro.cli.app import run
from repro.cli.campaign import _print_remarks
from repro.cli.end_of_run import print_end_of_run
from repro.codegen.targets import get_target
from repro.errors import ReproError
from repro.operators.product import MatrixSource
from repro.operators.variant_choice import find_variant
from repro.problems.assembly import fold_blocks
from repro.problems.matrix import Matrix
from repro.sparse.compound.defaults import RECORDED
from repro.studies import get_study
from support.campaigns import Recorder

STUDY, PART = "compound_spmv", "block3"
BEST, DIRECT = "Sl-8-AoSoA-Padded/direct-64-3", "Sl-8-AoSoA-AoS/direct-64-3"
#: As fast as a CPU likes it: no GPU has so many threads a block.
CPU_ONLY = "CSR-AoS-AoS/static-4096-2"
OWN = {"problems": [{"path": "part.msh", "entry": PART}]}


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Matrix:
    """A matrix of 3×3 blocks, and the folder of a user as the current one."""
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(1).uniform(1, 2, (2, 9))
    return Matrix("part", PART, 2, np.array([0, 1, 2], np.int32), np.array([1, 0], np.int32), values)


def campaign(
    folder: Path,
    backend: str,
    problems: object = OWN,
    target: str = "cpu",
    fastest: str = BEST,
    others: Sequence[tuple[str, str, float]] = (),
) -> Recorder:
    """A campaign of the matrix; `others` are kind, name and microseconds of further rows of its report."""
    maker = Recorder(folder, backend, STUDY, get_study(STUDY).columns)
    maker.configure(**{STUDY: problems})
    maker.record("part", entry=PART, n=2, nnz=2)
    maker.environment()
    path = maker.raw / "environment" / "e0.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "target": target}))
    told = {"phase": "report", "entry": PART}
    timed = [("variant", fastest, 10.0, "natural"), ("variant", DIRECT, 12.0, "natural")]
    timed += [("baseline", "library/csr", 15.0, "natural"), ("baseline", "library/csr@rcm", 1.0, "rcm")]
    timed += [(kind, name, micro, "natural") for kind, name, micro in others]
    rows = [
        maker.row("part", "double", kind, name, micro, ordering=ordering, matrix_bytes=1 << 20, **told)
        for kind, name, micro, ordering in timed
    ]
    maker.write("part", "double", "report", rows)
    chosen = {(tuning, clock): (name, []) for tuning, name in (("extended", fastest), ("operator", DIRECT))
              for clock in ("event", "graph")}  # fmt: skip
    maker.choose("part", "double", chosen)
    return maker


def run_command(line: str) -> None:
    """Run a command line as a shell would."""
    words = shlex.split(line)
    assert words[0] == "repro"
    with pytest.raises(SystemExit) as ended:
        run(words[1:])
    assert not ended.value.code


def test_a_winner_stands_beside_the_library_in_its_own_order(small: Matrix, capsys: pytest.CaptureFixture[str]) -> None:
    maker = campaign(Path(), "opencl")
    [winner] = find_winners(CampaignSelection.of(maker.campaign, Path("results")))
    assert (winner.variant, winner.operator, winner.library) == (BEST, DIRECT, "library/csr")
    assert winner.own and winner.matrix_bytes == 1 << 20 and winner.clock == "graph"
    assert winner.speedup == pytest.approx(1.5)
    run_command(f"repro best {maker.campaign} --json")
    told = json.loads(capsys.readouterr().out)
    [said] = told["winners"]
    assert told["rivals"] == []
    assert said["seconds"] == pytest.approx(8e-6)  # by the graph clock
    assert said["operator_seconds"] == pytest.approx(9.6e-6)
    assert said["export"] == winner.export and said["speedup"] == pytest.approx(1.5)


def test_lines_that_take_kernels_away_are_printed_of_few_problems_or_when_asked_for(
    small: Matrix, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = campaign(Path(), "cuda", target="sm_80")
    monkeypatch.setattr("repro.cli.results.MAX_RECIPES", 0)
    for option, printed in (("", False), ("--recipes", True), ("--problem part", True)):
        run_command(f"repro best {maker.campaign} {option}")
        said = capsys.readouterr().out
        assert BEST in said and ("repro export" in said) is printed
        assert ("--problem NAME" in said and "--recipes" in said) is not printed
    monkeypatch.setattr("repro.cli.results.MAX_RECIPES", 1)
    run_command(f"repro best {maker.campaign}")
    assert "repro export" in capsys.readouterr().out


@pytest.mark.medium
def test_a_faster_kernel_of_the_report_is_named_and_does_not_replace_the_choice(small: Matrix) -> None:
    literal = "CSR-AoS-AoS/dynamic-32-2-rolled"
    others = [("variant", literal, 5.0), ("baseline", "library/fast", 2.0)]
    maker = campaign(Path(), "cuda", target="sm_80", others=others)
    asked = CampaignSelection.of(maker.campaign, Path("results"))
    [winner] = find_winners(asked)
    assert (winner.variant, winner.faster) == (BEST, literal)
    assert winner.faster_seconds == pytest.approx(4e-6)
    lost, named, why = notes([winner])
    assert lost == "No kernel of this campaign beats library/fast on part (double)."
    assert f"{literal} took 4.00 µs" in named and BEST in named and "choice stands" in why
    assert next(notes([replace(winner, repeats_within=0.096)])).startswith(
        "One kernel, timed in two processes, differed by 10 %"
    )
    # the page says the same, and so does the table of problems where the papers' winner is the faster one
    assert named in report(asked).read_text()
    maker.choose("part", "double", {(tuning, "graph"): (name, []) for tuning, name in
                                    (("extended", BEST), ("joint", literal))})  # fmt: skip
    told = [artifact.make(asked.read(STUDY), published_of(STUDY)).caption for artifact in asked.artifacts(STUDY)
            if artifact.name in ("table-problems", "figure-speedup")]  # fmt: skip
    assert all("the papers’ winner was faster on part (double)" in caption for caption in told) and len(told) == 2


def test_two_studies_are_told_apart_and_one_whose_kernels_stay_says_so(
    small: Matrix, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    other, coordinates = "compressed_coo", "CCOO/b128-k4-c1"
    maker = campaign(Path(), "cuda", target="sm_80")
    beside = Recorder(Path(), "cuda", other, get_study(other).columns)
    beside.configure(**{STUDY: OWN, other: OWN})
    told = {"phase": "report", "entry": "real", "ordering": "natural", "graph_samples": [[8e-6, 8.1e-6]] * 5}
    rows = [beside.row("part", "double", kind, name, micro, **told) for kind, name, micro in
            (("variant", coordinates, 10.0), ("baseline", "library/csr", 5.0))]  # fmt: skip
    beside.write("part", "double", "report", rows)
    beside.choose("part", "double", {("extended", "graph"): (coordinates, [])})
    run_command(f"repro best {maker.campaign}")
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert lines[0] == STUDY and lines[4] == other and lines[1].split()[:3] == ["problem", "precision", "speedup"]
    assert lines[6].split()[:6] == ["part", "double", "0.50", "0.50", "to", "0.50"] and "also:" not in said
    monkeypatch.setenv("COLUMNS", "90")
    run_command(f"repro best {maker.campaign}")
    narrow = capsys.readouterr().out.splitlines()
    assert narrow[1].split() == ["problem", "precision", "speedup", "µs", "library", "µs", "fastest"]
    assert narrow[7] == "a wider terminal, a pipe or --json has also: matrix, entry, clock, library, 95 % interval"
    assert all(len(line) <= 90 for line in narrow[:8])
    assert f"No kernel of this campaign beats library/csr on part (double, {other})." in said
    assert f"Kernels of {other} cannot be exported or run as an operator; those of {STUDY} can." in said
    # and so do both ways out, of a problem that this study alone measured, and of a variant
    shutil.rmtree(maker.case_folder("part", "double"))
    refused = f"kernels of {other} cannot be exported or run as an operator"
    for tuned, message in (
        (f"{maker.campaign}:part", refused),
        (coordinates, "kernels of other studies cannot be exported or run as an operator"),
    ):
        with pytest.raises(ReproError, match=message):
            find_variant(tuned, MatrixSource(small), "double", get_target("sm_80"))
    with pytest.raises(SystemExit):
        run(["export", "part", "--precision", "double", "--campaign", maker.campaign, "--to", "out"])
    assert refused in capsys.readouterr().err


@pytest.mark.medium
def test_a_rival_stands_beside_ours_and_the_library_and_first_on_the_page(
    small: Matrix, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    maker = campaign(
        Path(), "cuda", target="sm_80", others=[("outside", "rival/mine", 5.0)], problems=OWN | {"space": "extended"}
    )
    path = maker.raw.parent / "config.yaml"
    rivals = [{"name": "mine", "python": "mine.py:Mine"}]
    path.write_text(json.dumps({**json.loads(path.read_text()), "rivals": rivals}))
    run_command(f"repro best {maker.campaign} --json")
    [said] = json.loads(capsys.readouterr().out)["rivals"]
    assert (said["rival"], said["problem"], said["status"]) == ("mine", "part", "ok")
    assert said["speedup_over_ours"] == pytest.approx(2) and said["speedup_over_library"] == pytest.approx(3)
    run_command(f"repro best {maker.campaign}")
    block = capsys.readouterr().out.partition("Your own kernels")[2].splitlines()
    assert block[-2].split() == ["mine", "SpMV", "part", "double", "4.00", "2.00", "3.00", "right"]
    assert block[-1] == "mine is 2.00 times as fast as ours on part (double)."
    page = report(CampaignSelection.of(maker.campaign, Path("results"))).read_text()
    sections = re.findall(rf'<section id="{STUDY}-((?:table|figure)-[^"]+)"', page)
    assert sections[:2] == ["table-rivals", "figure-rivals"] and len(sections) > 4
    assert f'Your own kernels: <a href="#{STUDY}-table-rivals">' in page


def test_rivals_with_a_time_come_first_since_the_end_of_a_run_names_a_few(small: Matrix) -> None:
    maker = campaign(Path(), "cuda", target="sm_80")
    told = {"phase": "report", "entry": PART}
    rows = [
        maker.row("part", "double", "outside", f"rival/{name}", micro, status=status, **told)
        for name, micro, status in (("a", None, "unsupported"), ("b", 5.0, "ok"), ("c", None, "timeout"))
    ]
    maker.write("part", "double", "report", rows)
    rivals = find_rivals(CampaignSelection.of(maker.campaign, Path("results")))
    assert [line.rival for line in rivals] == ["b", "a", "c"]


def test_what_is_within_a_tie_or_noisy_or_in_another_order_contradicts_no_choice(small: Matrix) -> None:
    maker = campaign(Path(), "cuda", target="sm_80")
    told = {"phase": "report", "entry": PART}
    rows = [
        maker.row("part", "double", "variant", name, micro, ordering=ordering, status=status, **told)
        for name, micro, ordering, status in (
            (BEST, 10.0, "natural", "ok"),
            ("CSR-AoS-AoS/static-32-1", 9.95, "natural", "ok"),
            ("CSR-AoS-AoS/static-64-1", 5.0, "natural", "noisy"),
            (f"{BEST}@rcm", 5.0, "rcm", "ok"),
        )
    ]
    maker.write("part", "double", "report", rows)
    [winner] = find_winners(CampaignSelection.of(maker.campaign, Path("results")))
    assert winner.variant == BEST and winner.faster is None


def test_the_winner_is_what_the_operator_runs_where_the_rounds_find_that_faster(
    small: Matrix, capsys: pytest.CaptureFixture[str]
) -> None:
    """The search chose both; of its choices alone the faster one is named, and exported by its own name."""
    maker = campaign(Path(), "cuda", target="sm_80")
    told = {"phase": "report", "entry": PART, "ordering": "natural", "status": "noisy"}
    for micro, expected in ((7.0, DIRECT), (9.95, BEST)):
        rows = [maker.row("part", "double", "variant", name, time, **told) for name, time in
                ((BEST, 10.0), (DIRECT, micro), ("CSR-AoS-AoS/static-64-1", 5.0))]  # fmt: skip
        maker.write("part", "double", "report", rows)
        [winner] = find_winners(CampaignSelection.of(maker.campaign, Path("results")))
        assert (winner.variant, winner.operator) == (expected, DIRECT)
        assert winner.seconds is not None and winner.operator_seconds is not None
        assert winner.seconds <= winner.operator_seconds * 1.01 and winner.exported == expected
        assert winner.export and ("--variant" in winner.export) is (expected == DIRECT)
    maker.write("part", "double", "report", [replace(rows[0], status="ok"), replace(rows[1], graph_median=5e-6)])
    run_command(f"repro best {maker.campaign}")
    said = capsys.readouterr().out
    assert DIRECT in said and BEST not in said and "runs" not in said


def test_a_winner_that_was_disturbed_in_all_rounds_is_named_with_its_spread(
    small: Matrix, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    maker = campaign(Path(), "opencl")
    told = {"phase": "report", "entry": PART, "ordering": "natural", "status": "disturbed"}
    maker.write("part", "double", "report", [maker.row("part", "double", "variant", BEST, 10.0, **told)])
    [winner] = find_winners(CampaignSelection.of(maker.campaign, Path("results")))
    assert (winner.variant, winner.seconds, winner.reason) == (BEST, None, None)
    assert winner.disturbed_between == (pytest.approx(7.2e-6), pytest.approx(16e-6))
    run_command(f"repro best {maker.campaign}")
    said = " ".join(capsys.readouterr().out.split())
    assert "7.20 to 16.00" in said and "graph, disturbed" in said and "cannot be exported" not in said
    assert f"repro measure {STUDY} part double --receipt --config results/{maker.campaign}/config.yaml" in said


def test_problems_that_a_study_refuses_are_not_counted_as_measured(small: Matrix) -> None:
    maker = campaign(Path(), "opencl")
    maker.record("oblong", entry=PART, n=2, nnz=2, origin={"source": "own"}, statistics=small.describe())
    for precision in ("single", "double"):
        maker.write("oblong", precision, "report", [maker.unavailable("oblong", precision, "it is not square")])
    problems = [{"path": "part.msh", "entry": PART}, {"path": "oblong.mtx", "entry": PART}]
    maker.configure(**{STUDY: {"problems": problems}})
    page = report(CampaignSelection.of(maker.campaign, Path("results"))).read_text()
    assert "1 of 2, 1 refused" in page and "2 of 2 available, 1 refused" in page
    own = page.partition('id="own-table"')[2].partition("</table>")[0]
    assert "not tested" in own  # for symmetry, which no record tells


def test_variants_that_differ_by_chance_alone_are_one_line(small: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [
        ("variant", f"CSR-AoS-AoS/static-{threads}-1", micro) for threads, micro in ((32, 8.5), (64, 9.5), (96, 7))
    ]
    maker = campaign(Path(), "cuda", target="sm_80", others=others)
    asked = CampaignSelection.of(maker.campaign, Path("results"))
    [winner] = find_winners(asked)
    assert winner.faster == "CSR-AoS-AoS/static-96-1" and winner.equal == ()  # by far more than a tie
    monkeypatch.setattr("repro.campaign.winners.repetition_differences", lambda campaign: [-0.5])
    [winner] = find_winners(asked)
    assert winner.equal == ("CSR-AoS-AoS/static-96-1", "CSR-AoS-AoS/static-32-1", "CSR-AoS-AoS/static-64-1", DIRECT)
    _, equal = notes([winner])
    names = ", ".join([BEST, *winner.equal[:3]])
    assert equal == f"part (double): equal within noise: {names} and 1 more."


def test_in_two_precisions_the_lines_to_paste_make_two_operators(small: Matrix) -> None:
    maker = campaign(Path(), "cuda", target="sm_80")
    [winner] = find_winners(CampaignSelection.of(maker.campaign, Path("results")))
    assert winner.python[-1].startswith("A = ")
    maker.write("part", "single", "report", [maker.row("part", "single", "variant", BEST, 6.0, ordering="natural",
                                                       phase="report", entry=PART)])  # fmt: skip
    maker.choose("part", "single", {("extended", "graph"): (BEST, [])})
    [(_, lines)] = usage_lines(find_winners(CampaignSelection.of(maker.campaign, Path("results"))))
    made = [line.partition(" = ")[0] for line in lines if " = " in line]
    assert made == ["A_single", "A_double"]


def test_a_refused_file_is_one_short_cell_and_its_whole_message_below(small: Matrix) -> None:
    maker = campaign(Path(), "cuda", target="sm_80")
    reason = "the matrix is not square: " + 100 * "x" + "\n  where: part.msh\n  to do: cut it"
    maker.record("part", status="unavailable", reason=reason)
    for step in ("report", "choices"):
        maker.case_folder("part", "double").joinpath(f"{step}.parquet").unlink()
    maker.write("part", "double", "report", [maker.unavailable("part", "double", reason)])
    winners = find_winners(CampaignSelection.of(maker.campaign, Path("results")))
    assert len(winners) == 1 and winners[0].reason == f"unavailable: {reason}"
    [row] = table_rows(winners)
    assert max(len(cell or "") for cell in row) <= 60
    assert [*notes([*winners, replace(winners[0], precision="single")])] == [f"part: unavailable: {reason}"]
    maker.record("part", entry=PART, n=2, nnz=2)  # built, but refused by the study
    [refused] = find_winners(CampaignSelection.of(maker.campaign, Path("results")))
    assert refused.reason == reason


def test_a_kernel_that_is_slower_than_the_librarys_is_taken_away_with_that_remark(small: Matrix) -> None:
    [winner] = find_winners(CampaignSelection.of(campaign(Path(), "cuda").campaign, Path("results")))
    assert winner.seconds and winner.library
    [(_, lines)] = usage_lines([replace(winner, library_seconds=winner.seconds / 2)])
    remark = f"# double: slower than {winner.library}, which takes {winner.seconds * 5e5:.2f} µs"
    assert lines[lines.index(remark) + 1].startswith("repro export")
    [(_, lines)] = usage_lines([replace(winner, library_seconds=winner.seconds * 2)])
    assert not any("slower" in line for line in lines)


@pytest.mark.medium
@pytest.mark.parametrize(("backend", "target"), [("opencl", "cpu"), ("cuda", "sm_80")])
def test_the_lines_to_paste_do_what_they_say(small: Matrix, backend: str, target: str) -> None:
    maker = campaign(Path(), backend, target=target)
    small.save(Path("results", maker.campaign, "problems", "part.npz"))
    asked = CampaignSelection.of(maker.campaign, Path("results"))
    [winner] = find_winners(asked)
    [(problem, lines)] = usage_lines([winner])
    assert problem == "part" and (CHOSEN_ON_CPU in lines) == winner.on_cpu
    assert f"# A runs {DIRECT}, 9.60 µs: the fastest that takes vectors as NumPy, CuPy and PyTorch have them" in lines
    export, *python = [line for line in lines if not line.startswith("#")]
    run_command(export)
    assert Path("part-double", "block3_double.cu").exists()
    exported = RECORDED[PART, "double"] if winner.on_cpu else BEST
    assert exported.replace("/", " ").split()[1] in Path("part-double", "README.md").read_text()
    assert (f"# double: {BEST} is not exported (the choice of a CPU); the default for GPUs instead: {exported}" in
            lines) == winner.on_cpu  # fmt: skip
    told: dict[str, object] = {}
    exec("\n".join(python), told)
    operator = told["A"]
    assert operator.name == DIRECT  # type: ignore[attr-defined]
    x = np.arange(6.0)
    blocks = small.values.reshape(-1, 3, 3)
    assert np.allclose(operator @ x, np.concatenate([blocks[0] @ x[3:], blocks[1] @ x[:3]]))  # type: ignore[operator]


@pytest.mark.medium
def test_in_place_of_a_winner_that_fits_no_gpu_the_fastest_that_does_is_exported(small: Matrix) -> None:
    maker = campaign(Path(), "cuda", target="sm_80", fastest=CPU_ONLY)
    maker.record("part", entry="pattern", n=2, nnz=2)  # exported by the variant's name
    [winner] = find_winners(CampaignSelection.of(maker.campaign, Path("results")))
    assert (winner.variant, winner.exported) == (CPU_ONLY, DIRECT)
    assert winner.exported_seconds == pytest.approx(9.6e-6)
    [(_, [remark, export, *_])] = usage_lines([winner])
    assert remark.startswith("#") and CPU_ONLY in remark and f"{DIRECT}, 9.60 µs" in remark
    run_command(export)
    assert DIRECT.replace("/", " ").split()[1] in Path("part-double", "README.md").read_text()


@pytest.mark.medium
def test_the_end_of_a_run_and_the_report_show_own_problems_alone(
    small: Matrix, capsys: pytest.CaptureFixture[str]
) -> None:
    maker = campaign(Path(), "opencl")
    notes = ["64 of 1088 vertices fixed"]
    symmetry = {"symmetry": {"single": "symmetric", "double": "symmetric"}}
    maker.record("part", entry=PART, n=2, nnz=2, origin={"source": "own", "notes": notes}, statistics=small.describe(),
                 facts={STUDY: {"pairs": symmetry}})  # fmt: skip
    print_end_of_run(maker.campaign)
    said = capsys.readouterr().out
    assert REHEARSAL in said.splitlines()
    assert BEST in said and "repro export --variant" in said and f"repro best {maker.campaign}" in said
    page = report(CampaignSelection.of(maker.campaign, Path("results"))).read_text()
    assert 'id="winners"' in page and "repro export --variant" in page
    own = page.partition('id="own-table"')[2].partition("</table>")[0]
    cells = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", own.partition("<tbody>")[2])
    assert cells == ["part", PART, "2", "2", "1 to 1, mean 1", "symmetric", *notes]
    sections = re.findall(rf'<section id="{STUDY}-((?:table|figure)-[^"]+)"', page)
    assert sections[:3] == ["table-problems", "figure-speedup", "table-setup-costs"]
    assert "Table 1 of the 2020 paper" not in page and f'id="{STUDY}-table-problems"' in page
    told = Path("results", maker.campaign, "reproduction.md").read_text()
    assert "No claim is judged: no problem is a paper’s." in told
    capsys.readouterr()
    run_command(f"repro claims {maker.campaign}")
    said = capsys.readouterr().out
    assert re.search(r"not testable here: all \d+ claims: no problem is a paper’s$", said, re.MULTILINE), said
    assert "Measured: 2024-05-01" in told and "Code of the records: commit abc" in told


@pytest.mark.parametrize(
    ("backend", "space", "said"),
    [("cuda", "paper", True), ("cuda", "paper_tuned", True), ("cuda", "extended", False), ("opencl", "paper", False)],
)
def test_a_search_on_a_gpu_without_our_kernels_says_so(
    backend: str, space: str, said: bool, small: Matrix, capsys: pytest.CaptureFixture[str]
) -> None:
    target = "cpu" if backend == "opencl" else "sm_80"
    maker = campaign(Path(), backend, OWN | {"space": space}, target=target)
    print_end_of_run(maker.campaign)
    end = capsys.readouterr().out.splitlines()[-1]
    run_command(f"repro best {maker.campaign}")
    for last in (end, capsys.readouterr().out.splitlines()[-1]):
        assert (last == f"Ours were not searched: `space: extended` in studies.{STUDY} does.") is said


def test_registered_problems_are_no_own_ones_and_keep_the_tables_of_papers(small: Matrix) -> None:
    maker = campaign(Path(), "cuda", {"problems": [*OWN["problems"], "mhd1280b"]}, target="sm_80")
    asked = CampaignSelection.of(maker.campaign, Path("results"))
    assert {winner.problem for winner in find_winners(asked, own_only=True)} == {"part"}
    assert {"table-1", "table-targets"} <= {artifact.name for artifact in asked.artifacts(STUDY)}


def test_best_shows_one_problem_and_names_those_there_are(small: Matrix, capsys: pytest.CaptureFixture[str]) -> None:
    maker = campaign(Path(), "cuda", {"problems": [*OWN["problems"], "mhd1280b"]}, target="sm_80")
    run_command(f"repro best {maker.campaign} --problem part --json")
    assert [winner["problem"] for winner in json.loads(capsys.readouterr().out)["winners"]] == ["part"]
    with pytest.raises(SystemExit) as ended:
        run(["best", maker.campaign, "--problem", "prat"])
    said = capsys.readouterr().err
    assert ended.value.code == 1 and "one of part" in said and "prat; did you mean part?" in said


def test_blocks_with_few_values_are_advised_against(
    small: Matrix, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = campaign(Path(), "opencl")
    band, dense = sp.csr_array(sp.diags_array(np.ones(12))), sp.csr_array(np.ones((12, 12)))
    for matrix, advised in ((band, True), (dense, False)):
        maker.record(
            "part", entry=PART, n=2, nnz=2, origin={"source": "own", "notes": fold_blocks(matrix, PART, "m").notes}
        )
        said = [*notes(find_winners(CampaignSelection.of(maker.campaign, Path("results"))))]
        advice = "few of the blocks' values are non-zeros (33%): `entry: real` stores less"
        assert (f"part: {advice}." in said) is advised
        plan = SimpleNamespace(problems={"part": SimpleNamespace(free_body=False)}, folder=maker.folder)
        _print_remarks(cast("Plan", plan))
        assert (f"part: {advice}" in " ".join(capsys.readouterr().out.split())) is advised


@pytest.mark.parametrize(("asked", "meant"), [("bunny", "surfaces/bunny"), ("buny", "surfaces/bunny")])
def test_a_problem_is_found_by_the_part_behind_its_slash_and_many_are_not_listed(
    asked: str, meant: str, small: Matrix
) -> None:
    [winner] = find_winners(CampaignSelection.of(campaign(Path(), "cuda").campaign, Path("results")))
    names = ["surfaces/bunny", "other/bump", *(f"matrix_{number}" for number in range(40))]
    with pytest.raises(ReproError) as error:
        lines_of_problem(asked, [replace(winner, problem=name) for name in names], [])
    assert error.value.actual == f"{asked}; did you mean {meant}?"
    expected = str(error.value.expected)
    assert expected.startswith("one of 42, such as ") and expected.count("matrix_") < 3
    assert expected.endswith("; `repro best` without it prints all")
