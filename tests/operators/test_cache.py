"""The cache of compiled kernels: whatever lies in it, what comes out of it is right, or one message."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from repro.codegen import build_cache as compiling
from repro.codegen import opencl_runtime
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.operators.runtime import cache_folder, open_runtime

DEVICE = "opencl:0"
SOURCE = "__kernel void fill(__global double *y) { y[get_global_id(0)] = 7.0; }\n"
SUFFIXES = (".cl", ".clbin", ".sha256", ".json")
NAME = "kernels/fill"


def _self_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "rubbish": lambda path: path.write_bytes(b"\xf8\x80rubbish" * 20),
    "link to itself": _self_link,
    "link to nowhere": _dangling,
    "pipe": _pipe,
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with one kernel."""
    folder = tmp_path_factory.mktemp("compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CACHE", str(folder))
        open_runtime(DEVICE).compiled(SOURCE, NAME)
    return folder


@pytest.fixture
def cache(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    folder = tmp_path / "cache"
    shutil.copytree(compiled, folder)
    monkeypatch.setenv("REPRO_CACHE", str(folder))
    return folder


def of_suffix(cache: Path, suffix: str) -> Path:
    (path,) = cache.rglob(f"*{suffix}")
    return path


def filled() -> list[float]:
    """Compile the kernel, unless it is there, and run what is there."""
    runtime = open_runtime(DEVICE)
    module, folder = runtime.compiled(SOURCE, NAME)
    y = runtime.put(np.zeros(3))
    kernel = runtime.device.load(folder / str(module.binary)).kernel("fill")
    runtime.device.bind(kernel, 3, 1, [y.buffer])()
    runtime.finish()
    return [float(value) for value in y.get()]


def everything(cache: Path) -> dict[str, bytes]:
    """Return all files but the log of compilations, which is longer after each."""
    files = (path for path in cache.rglob("*") if path.is_file() and path.name != "seconds.txt")
    return {str(path.relative_to(cache)): path.read_bytes() for path in files}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffixes", [*combinations(SUFFIXES, 1), *combinations(SUFFIXES, 2), SUFFIXES], ids="+".join)
def test_a_damaged_cache_is_made_good(cache: Path, suffixes: tuple[str, ...], damage: str) -> None:
    before = everything(cache)
    for suffix in suffixes:
        DAMAGES[damage](of_suffix(cache, suffix))
    assert filled() == [7.0] * 3
    assert filled() == [7.0] * 3
    if set(suffixes) != {".cl"} and set(suffixes) != {".sha256"} and set(suffixes) != {".cl", ".sha256"}:
        assert everything(cache) == before


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_folder_in_the_place_of_a_file_is_named(cache: Path, suffix: str) -> None:
    """Where it is in the way; source and digests are of no use where binary and manifest are whole."""
    path = of_suffix(cache, suffix)
    DAMAGES["gone"](of_suffix(cache, ".clbin" if suffix == ".json" else ".json"))
    _folder(path)
    with pytest.raises(ReproError, match=re.escape(str(path))) as told:
        filled()
    assert "REPRO_CACHE" in str(told.value)
    path.rmdir()
    assert filled() == [7.0] * 3


def test_a_file_that_cannot_be_read_is_made_anew(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = of_suffix(cache, ".sha256"), of_suffix(cache, ".json")
    read = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path in refused:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert filled() == [7.0] * 3


def test_a_cache_that_has_all_is_not_written_to(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, content: bytes) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(compiling, "write_whole", refuse)
    assert filled() == [7.0] * 3
    of_suffix(cache, ".clbin").unlink()
    with pytest.raises(ReproError, match=r"cannot be stored(.|\n)*Read-only file system"):
        filled()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_is_one_message_and_leaves_nothing_behind(
    cache: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def build(source: Path, binary: Path, target: Target) -> dict[str, dict[str, int]]:
        binary.write_bytes(b"half")
        raise OSError(number, os.strerror(number))

    of_suffix(cache, ".clbin").unlink()
    left = everything(cache)
    with monkeypatch.context() as patch:
        patch.setattr(opencl_runtime, "build", build)
        with pytest.raises(ReproError, match=rf"where: {re.escape(str(cache))}(.|\n)*{os.strerror(number)}"):
            filled()
    assert everything(cache) == left
    assert filled() == [7.0] * 3


@pytest.mark.parametrize(
    "place", ["file", "file/below", "nowhere", "itself", "itself/below", "/proc/nope", "/dev/null"]
)
def test_a_folder_that_is_none_is_named(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "nowhere").symlink_to("/proc/nope")
    (tmp_path / "itself").symlink_to("itself")
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path / place))
    with pytest.raises(ReproError, match="a compiled kernel cannot be stored") as told:
        filled()
    assert str(told.value.where).startswith((str(tmp_path / place.partition("/")[0]), place))


@pytest.mark.parametrize("place", ["new", "new/below", "./new/", "with a space"])
def test_a_relative_folder_is_made_in_the_present_one(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPRO_CACHE", place)
    assert filled() == [7.0] * 3
    assert cache_folder() == tmp_path / place
    assert list((tmp_path / place).rglob("*.clbin"))


def test_an_empty_word_is_none_and_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for word in (None, ""):
        monkeypatch.setenv("REPRO_CACHE", "") if word == "" else monkeypatch.delenv("REPRO_CACHE")
        assert cache_folder() == tmp_path / ".cache/sparse-repro"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg/sparse-repro"
    monkeypatch.setenv("REPRO_CACHE", "~/kernels")
    assert cache_folder() == tmp_path / "kernels"
    assert open_runtime(DEVICE).compiled(SOURCE, NAME)[1].is_relative_to(tmp_path / "kernels")


@pytest.mark.wording
def test_a_relative_folder_of_a_folder_that_is_gone_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setenv("REPRO_CACHE", "kernels")
    with pytest.raises(ReproError, match=r"no folder for compiled kernels(.|\n)*where: kernels"):
        cache_folder()


@pytest.mark.wording
@pytest.mark.parametrize("word", ["~no-such-user/kernels", None])
def test_a_home_that_nobody_knows_is_one_message(word: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no name: a folder called ~ would be made in the present one."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("REPRO_CACHE", word) if word else monkeypatch.delenv("REPRO_CACHE")
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    with pytest.raises(ReproError, match=r"no folder for compiled kernels(.|\n)*REPRO_CACHE"):
        filled()


@pytest.mark.parametrize("place", ["file", "/proc/nope"])
def test_the_users_cache_that_is_none_is_named_with_the_way_out(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("REPRO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / place))
    with pytest.raises(ReproError, match=f"where: {re.escape(str(tmp_path / place))}(.|\n)*variable REPRO_CACHE"):
        filled()


def test_two_processes_compile_the_same_at_once(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from repro.codegen.build_cache import check_binary, compile_module\n"
        "from repro.operators.runtime import open_runtime\n"
        f"runtime = open_runtime({DEVICE!r})\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "for number in range(10):\n"
        f"    source, name = {SOURCE!r} + '\\n' * number, f'{NAME}{{number}}'\n"
        "    module, folder = runtime.compiled(source, name)\n"
        "    check_binary(folder / module.binary)\n"
    )
    environment = {**os.environ, "REPRO_CACHE": str(tmp_path)}
    pipe = subprocess.PIPE
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in both:
        assert process.communicate()[1] == ""
        assert process.returncode == 0
    assert len(list(tmp_path.rglob("*.clbin"))) == 10
    assert not [path for path in tmp_path.rglob(".*")]


def test_modules_are_compiled_side_by_side_and_those_of_the_cache_are_not(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = open_runtime(DEVICE)
    begun: list[str] = []
    both = threading.Barrier(2, timeout=60)

    def compile_module(source: str, target: Target, manifest: Path, **rest: bool) -> compiling.Module:
        begun.append(manifest.stem)
        both.wait()
        return compile_one(source, target, manifest, **rest)

    compile_one = compiling.compile_module
    monkeypatch.setattr("repro.operators.runtime.compile_module", compile_module)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    others = {f"kernels/{name}": SOURCE.replace("fill", name) for name in ("one", "other")}
    runtime.compile_together({NAME: SOURCE, **others})
    assert sorted(begun) == ["one", "other"]
    for name, source in others.items():
        assert runtime.compiled(source, name)[0].status == "ok"
    assert len(begun) == 2  # those two came from the cache
