"""A rival that Kernel Tuner tuned: the fastest configuration of its cache file is compiled and launched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repro.codegen import nvcc
from repro.codegen.targets import get_target
from repro.config.models import Rival
from repro.errors import ReproError
from repro.sparse.rivals.files import as_tuned, rival_files, rival_identity
from repro.sparse.rivals.forms import KernelRival, compile_source

EXAMPLE = Path(__file__).parents[3] / "examples/rivals/warp_per_row.cu"
CACHE = {
    "schema_version": "1.1.0",
    "device_name": "NVIDIA A100",
    "kernel_name": "warp_per_row",
    "problem_size": [4096],
    "tune_params_keys": ["block_size_x", "unrolled", "load"],
    "tune_params": {"block_size_x": [64, 128, 256], "unrolled": [False, True], "load": ["__ldg"]},
    "objective": "time",
    "cache": {
        "64,0": {"block_size_x": 64, "unrolled": False, "load": "__ldg", "time": 3.5, "times": [3.4, 3.6]},
        "128,1": {"block_size_x": 128, "unrolled": True, "load": "__ldg", "time": 2.5, "times": [2.5]},
        "256,0": {"block_size_x": 256, "unrolled": False, "load": "__ldg", "time": "CompilationFailedConfig"},
        "256,1": {"block_size_x": 256, "unrolled": True, "load": "__ldg", "time": 1e20},
    },
}
FASTEST = {"block_size_x": 128, "unrolled": 1, "load": "__ldg"}


def tuned(path: Path, text: str, kernel: str = "warp_per_row") -> Rival:
    path.write_text(text)
    return Rival(name="warp", source=str(EXAMPLE), kernel=kernel, threads_per_row=32, tuned=str(path))


@pytest.mark.parametrize("ending", ["}}", "", ","])
def test_the_fastest_configuration_is_taken_also_of_an_unfinished_run(tmp_path: Path, ending: str) -> None:
    rival = tuned(tmp_path / "cache.json", json.dumps(CACHE).removesuffix("}}") + ending)
    launched, configuration = as_tuned(rival)
    assert configuration == FASTEST
    assert (launched.block, launched.threads_per_row) == (128, 32)
    assert Path(str(rival.tuned)) in rival_files(rival)


def test_a_rival_without_a_cache_is_as_before_and_another_cache_makes_another_rival(tmp_path: Path) -> None:
    plain = Rival(name="warp", source=str(EXAMPLE), kernel="warp_per_row")
    assert as_tuned(plain) == (plain, {})
    identity = rival_identity(tuned(tmp_path / "cache.json", json.dumps(CACHE)))
    assert identity != rival_identity(tuned(tmp_path / "cache.json", json.dumps(CACHE | {"device_name": "other"})))


def changed(**values: object) -> str:
    return json.dumps({**CACHE, "cache": {"1": {**CACHE["cache"]["128,1"], **values}}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "JSON"),
        ("{", "JSON"),
        ("[" * 200, "nested"),
        ("[]", "kernel_name, tune_params_keys, cache"),
        (json.dumps({"cache": {}}), "kernel_name, tune_params_keys, cache"),
        (json.dumps(CACHE | {"cache": []}), "kernel_name, tune_params_keys, cache"),
        (json.dumps(CACHE | {"kernel_name": "conv"}), "kernel_name: warp_per_row"),
        (json.dumps(CACHE | {"cache": {"1": {"time": "InvalidConfig"}, "2": 3}}), "2 without one"),
        (json.dumps(CACHE | {"tune_params_keys": ["a=1 -o/x"]}), "identifiers"),
        (json.dumps(CACHE | {"tune_params_keys": [["block_size_x"]]}), "identifiers"),
        (changed(load='"; rm'), "a number or a word"),
        (changed(load=None), "a number or a word"),
        (changed(block_size_x=2048), "blocks of 1 to 1024 threads"),
        (changed(block_size_x="128"), "blocks of 1 to 1024 threads"),
        (changed(time=float("nan")), "1 without one"),
    ],
)
def test_a_bad_file_is_one_message_that_names_it(tmp_path: Path, text: str, said: str) -> None:
    rival = tuned(tmp_path / "cache.json", text)
    with pytest.raises(ReproError, match="not a usable cache file of Kernel Tuner") as error:
        rival_files(rival)
    assert said in str(error.value) and "cache.json" in str(error.value)
    with pytest.raises(ReproError, match="no such file of the rival"):
        rival_files(rival.model_copy(update={"tuned": str(tmp_path / "none.json")}))


def test_only_a_kernel_is_tuned() -> None:
    with pytest.raises(ValueError, match="`tuned` is of a `kernel`"):
        Rival(name="library", source=str(EXAMPLE), tuned="cache.json")


@pytest.mark.exhaustive
@pytest.mark.skipif(nvcc.find() is None, reason="there is no nvcc")
def test_the_macros_reach_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "kernel.cu"
    wanted = "#if !kernel_tuner || block_size_x != 128 || unrolled != 1\n#error not tuned\n#endif\n"
    source.write_text(wanted + EXAMPLE.read_text().replace("values[at]", "load(values + at)"))
    rival = tuned(tmp_path / "cache.json", json.dumps(CACHE)).model_copy(update={"source": str(source)})
    binary = compile_source(rival, get_target("sm_90"), "double", 1)
    assert "warp_per_row" in nvcc.kernel_names(binary)

    class Loaded:
        def load(self, path: Path) -> Loaded:
            return self

        def kernel(self, name: str) -> str:
            return name

        def bind(self, kernel: str, grid: int, block: int, arguments: list[object]) -> tuple[str, int]:
            return kernel, block

    loaded = KernelRival(rival, Loaded(), binary)  # type: ignore[arg-type]
    assert loaded.label == "warp_per_row block_size_x=128 unrolled=1 load=__ldg"
