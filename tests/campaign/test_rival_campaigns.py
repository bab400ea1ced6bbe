"""Rivals in a campaign: found stale when their files change, measured beside ours, and shown."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from matplotlib.figure import Figure as Canvas

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import OUTSIDE
from repro.campaign.completeness import find_missing_of_case
from repro.campaign.configuration import load
from repro.campaign.plan import Plan, make_plan
from repro.campaign.steps import Freshness
from repro.cli.end_of_run import print_end_of_run
from repro.config.models import Config, Rival, Timing
from repro.errors import ReproError
from repro.problems.problem import Outline
from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.results.registry import get_artifact
from repro.sparse.rivals.files import include_folder
from repro.studies import get_study, load_artifacts
from support.benches import QUICK
from support.made_campaign import make_all, plan_of
from support.small_case import LAYOUTS, NAME, STUDY, config

pytestmark = pytest.mark.medium

SPOILT = Path(__file__).parents[1] / "support/spoilt_rivals.py"
CASE = f"measure {STUDY} dirac_torus single"
MINE = """
class Product:
    def setup(self, problem): self.problem = problem
    def run(self): pass
    def teardown(self): pass
"""
TIMEOUT = 8.0


def with_rivals(*names: str, libraries: Sequence[str] = ()) -> Config:
    """The small case, with rivals in Python and in C that do as they are named."""
    timing = Timing(**{**QUICK, "timeout": TIMEOUT})
    rivals = [Rival(name=name.lower(), python=f"{SPOILT}:{name}") for name in names]
    for name in libraries:
        path = f"lib{name}.so"
        words = ["gcc", "-shared", "-fPIC", f"-DSPOILT={name}", f"-I{include_folder()}", "-o", path]
        subprocess.run([*words, SPOILT.with_name("spoilt.c")], check=True)
        rivals.append(Rival(name=f"c-{name.lower()}", library=path))
    few = config(layouts=LAYOUTS[:1], space="paper", timing=timing)
    return few.model_copy(update={"rivals": tuple(rivals)})


def points_of(canvas: Canvas) -> set[float]:
    """Return where marks are along the x axis, of a figure with a cross, which a note explains."""
    lines = canvas.axes[0].lines
    assert [line.get_marker() for line in lines].count("x") == 1
    assert any(text.get_text().startswith("× no time: ") for legend in canvas.legends for text in legend.get_texts())
    return {float(x) for line in lines for x in line.get_xdata()}


@pytest.mark.exhaustive
def test_what_crashes_hangs_or_leaves_costs_its_row_and_stands_in_tables_and_figures(
    measuring, templates, capsys, monkeypatch
) -> None:
    Path("config").symlink_to(templates.parent / "config")
    names = ("Right", "Wrong", "Crashing", "Hanging", "Leaving", "Outside")
    libraries = ("RIGHT", "WRONG", "CRASHING", "HANGING")
    Path("c.yaml").write_text(yaml.safe_dump(with_rivals(*names, libraries=libraries).model_dump(mode="json")))
    words = [sys.executable, "-m", "repro", "measure", STUDY, NAME, "single", "--config", "c.yaml"]
    done = subprocess.run(words, text=True, check=False, timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    report = pd.read_parquet(f"results/c/raw/{STUDY}/{NAME}/single/report.parquet")
    warm = report[report.cache == "warm"].set_index("name")
    rivals = warm[warm.kind == OUTSIDE]
    assert dict(rivals.status) == {
        "rival/right": "ok",
        "rival/wrong": "incorrect",
        "rival/crashing": "launch_error",
        "rival/hanging": "timeout",
        "rival/leaving": "launch_error",
        "rival/outside": "incorrect",
        "rival/c-right": "ok",
        "rival/c-wrong": "incorrect",
        "rival/c-crashing": "launch_error",
        "rival/c-hanging": "timeout",
    }
    assert rivals.message["rival/crashing"] == "the process was ended by SIGSEGV (Segmentation fault)"
    assert rivals.message["rival/c-crashing"] == rivals.message["rival/crashing"]
    assert rivals.message["rival/hanging"] == f"rival/hanging did not end within {TIMEOUT:g} s"
    assert set(warm[warm.kind != OUTSIDE].status) == {"ok"}
    assert rivals.preprocess["rival/right"] > 0

    load_artifacts(STUDY)
    campaign = Campaign.load(CampaignFolder.of("c"), STUDY, get_study(STUDY).columns)
    published = Published.load(STUDY, get_study(STUDY).published, get_study(STUDY).targets)
    table = get_artifact(STUDY, "table-rivals").make(campaign, published)
    keys = [column.key for column in table.columns]
    lines = {row[2].shown.partition(" ")[0]: dict(zip(keys, row, strict=True)) for row in table.rows}
    right = lines["right"]
    assert right["rival"].value == "right (right 3)"
    assert right["status"].value == "right"
    assert right["time_us"].value == pytest.approx(1e6 * rivals.graph_median["rival/right"])
    assert right["speedup_over_ours"].value == pytest.approx(right["ours_us"].value / right["time_us"].value)
    assert right["speedup_over_library"].value == pytest.approx(right["library_us"].value / right["time_us"].value)
    hanging = lines["hanging"]["status"]
    assert (hanging.value, hanging.notes) == ("timeout", (f"rival/hanging did not end within {TIMEOUT:g} s",))
    assert lines["hanging"]["time_us"].value is None
    figure = get_artifact(STUDY, "figure-rivals").make(campaign, published)
    assert right["speedup_over_ours"].value in points_of(figure.draw())
    assert "wrong (incorrect, 1 of its cases), " in figure.caption
    baselines = get_artifact(STUDY, "table-baselines").make(campaign, published)
    assert {"rival/right", "rival/wrong"} <= {row[1].shown for row in baselines.rows}
    # the library is the library's, however fast a rival is
    assert "rival" not in str(
        [row[0].shown for row in get_artifact(STUDY, "table-setup-costs").make(campaign, published).rows]
    )

    outline = Outline(NAME, "matrix", entry="complex")
    plan = replace(plan_of({"layouts": LAYOUTS[:1]}, campaign="c"), problems={NAME: outline})
    remarks = [part for part in find_missing_of_case(plan, STUDY, NAME, "single") if "rival/" in part.what]
    assert {part.what.split()[0] for part in remarks} == {name for name in rivals.status.index if "right" not in name}
    assert all(part.remark for part in remarks)
    assert f"timeout: rival/hanging did not end within {TIMEOUT:g} s" in {part.reason for part in remarks}

    monkeypatch.setenv("COLUMNS", "200")  # else what a rival is may stand on the next line
    print_end_of_run("c")
    said = capsys.readouterr().out.partition("Your own kernels")[2]
    for name, status in rivals.status.items():
        line = next(line for line in said.splitlines() if line.startswith(f"{name.partition('/')[2]} "))
        assert ("right" if status == "ok" else status.replace("_", " ")) in line, line


def test_a_process_that_exits_while_it_measures_has_crashed(tmp_path: Path) -> None:
    from test_supervising import run, stored

    script = """
import os, sys
from pathlib import Path
from repro.bench.rows import Row
from repro.bench.store import Store

path, run, *_ = sys.argv[1:]
with Store(Path(path), run) as store:
    row = Row("k0", "study", "p", "single", "variant", "variant-0", "launch_error")
    if store.get(row.key) is None:
        with store.journal(row):
            os._exit(3)
"""
    path = tmp_path / "rows.jsonl"
    assert run(path, script=script) == 0
    assert stored(path, 1) == [("launch_error", "the process was ended by exit(3)")]


def test_a_rivals_file_that_changes_makes_its_cases_stale(tmp_path, monkeypatch, templates) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("config", "kernels"):
        Path(folder).symlink_to(templates.parent / folder)
    Path("mine.py").write_text(MINE)

    def plan(**keys: object) -> Plan:
        return plan_of(rivals=[{"name": "mine", "python": "mine.py:Product", **keys}])

    make_all(plan())
    assert not Freshness(plan()).stale
    assert {"table-rivals"} == set(plan().studies[STUDY].tables) - set(plan_of().studies[STUDY].tables)
    assert "rivals differs" in Freshness(plan(format="bsr")).unlike[CASE]
    assert CASE in Freshness(plan_of()).stale
    Path("mine.py").write_text(MINE + "#\n")
    unlike = dict(Freshness(plan()).unlike)
    assert unlike == {name: "mine.py changed" for name in unlike}
    assert CASE in unlike


def test_a_rival_is_refused_before_anything_is_measured(measuring, templates) -> None:
    Path("config").symlink_to(templates.parent / "config")
    Path("kernels").symlink_to(templates)
    with pytest.raises(ReproError, match="no such file of the rival"):
        make_plan(load_with({"name": "mine", "library": "libno.so"}))
    with pytest.raises(ReproError, match="no study of the configuration times this rival") as error:
        make_plan(load_with({"name": "mine", "python": f"{SPOILT}:Right"}, study="dg_postprocessing"))
    assert STUDY in str(error.value)


def load_with(rival: dict[str, str], study: str = STUDY) -> Config:
    Path("mine.yaml").write_text(yaml.safe_dump({"device": "opencl", "studies": {study: {}}, "rivals": [rival]}))
    return load(Path("mine.yaml"))
