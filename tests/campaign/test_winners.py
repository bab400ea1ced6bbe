"""`repro best`: the winner of each own problem beside the library, and lines to paste that do what they say."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from repro.campaign.artifacts import Asked
from repro.campaign.report import report
from repro.campaign.winners import find_winners, ways_out
from repro.cli.app import run
from repro.cli.best import print_end_of_run
from repro.problems.matrix import Matrix
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


def campaign(folder: Path, backend: str, problems: object = OWN, target: str = "cpu", fastest: str = BEST) -> Recorder:
    maker = Recorder(folder, backend, STUDY, get_study(STUDY).columns)
    maker.configure(**{STUDY: problems})
    maker.record("part", entry=PART, n=2, nnz=2)
    maker.environment()
    path = maker.raw / "environment" / "e0.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "target": target}))
    told = {"phase": "report", "entry": PART}
    timed = [("variant", fastest, 10.0, "natural"), ("variant", DIRECT, 12.0, "natural")]
    timed += [("baseline", "library/csr", 15.0, "natural"), ("baseline", "library/csr@rcm", 1.0, "rcm")]
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
    [winner] = find_winners(Asked.of(maker.campaign, Path("results")))
    assert (winner.variant, winner.operator, winner.library) == (BEST, DIRECT, "library/csr")
    assert winner.own and winner.matrix_bytes == 1 << 20 and winner.clock == "graph"
    assert winner.speedup == pytest.approx(1.5)
    run_command(f"repro best {maker.campaign} --json")
    [said] = json.loads(capsys.readouterr().out)
    assert said["seconds"] == pytest.approx(8e-6)  # by the graph clock
    assert said["operator_seconds"] == pytest.approx(9.6e-6)
    assert said["export"] == winner.export and said["speedup"] == pytest.approx(1.5)


@pytest.mark.medium
@pytest.mark.parametrize(("backend", "target"), [("opencl", "cpu"), ("cuda", "sm_80")])
def test_the_lines_to_paste_do_what_they_say(small: Matrix, backend: str, target: str) -> None:
    maker = campaign(Path(), backend, target=target)
    small.save(Path("results", maker.campaign, "problems", "part.npz"))
    asked = Asked.of(maker.campaign, Path("results"))
    [(problem, [export, *python])] = ways_out(find_winners(asked))
    assert problem == "part"
    run_command(export)
    assert Path("part-double", "block3_double.cu").exists()
    assert BEST.replace("/", " ").split()[1] in Path("part-double", "README.md").read_text()
    told: dict[str, object] = {}
    exec("\n".join(python), told)
    operator = told["A"]
    assert operator.name == DIRECT  # type: ignore[attr-defined]
    x = np.arange(6.0)
    blocks = small.values.reshape(-1, 3, 3)
    assert np.allclose(operator @ x, np.concatenate([blocks[0] @ x[3:], blocks[1] @ x[:3]]))  # type: ignore[operator]


@pytest.mark.medium
def test_in_place_of_a_winner_that_fits_no_gpu_the_fastest_that_does_is_exported(small: Matrix) -> None:
    maker = campaign(Path(), "opencl", fastest=CPU_ONLY)
    [winner] = find_winners(Asked.of(maker.campaign, Path("results")))
    assert (winner.variant, winner.exported) == (CPU_ONLY, DIRECT)
    assert winner.exported_seconds == pytest.approx(9.6e-6)
    [(_, [remark, export, *_])] = ways_out([winner])
    assert remark.startswith("#") and CPU_ONLY in remark and f"{DIRECT}, 9.60 µs" in remark
    run_command(export)
    assert DIRECT.replace("/", " ").split()[1] in Path("part-double", "README.md").read_text()


@pytest.mark.medium
def test_the_end_of_a_run_and_the_report_show_own_problems_alone(
    small: Matrix, capsys: pytest.CaptureFixture[str]
) -> None:
    maker = campaign(Path(), "opencl")
    print_end_of_run(maker.campaign)
    said = capsys.readouterr().out
    assert BEST in said and "repro export --variant" in said and f"repro best {maker.campaign}" in said
    page = report(Asked.of(maker.campaign, Path("results"))).read_text()
    assert 'id="winners"' in page and "repro export --variant" in page
    assert "Table 1 of the 2020 paper" not in page and f'id="{STUDY}-table-problems"' in page
    assert (
        "None of the campaign’s studies has claims." in Path("results", maker.campaign, "reproduction.md").read_text()
    )


def test_registered_problems_are_no_own_ones_and_keep_the_tables_of_papers(small: Matrix) -> None:
    maker = campaign(Path(), "cuda", {"problems": [*OWN["problems"], "mhd1280b"]}, target="sm_80")
    asked = Asked.of(maker.campaign, Path("results"))
    assert {winner.problem for winner in find_winners(asked, own=True)} == {"part"}
    assert {"table-1", "table-targets"} <= {artifact.name for artifact in asked.artifacts(STUDY)}
