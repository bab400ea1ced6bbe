"""By which names a kernel can be exported: what C++, CUDA or CMake take for something else is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from repro.cli import app
from repro.codegen.targets import get_target
from repro.errors import ReproError
from repro.export.bundle import Export, check_name, check_unused, parse_variant, render_export

HERE = Path(__file__).parent
SM_90 = get_target("sm_90")

REFUSED = {
    "in C++": "class template int float and or not_eq bitor co_await concept constinit char8_t contract_assert typeof "
    "asm import module final override restrict main std std2 posix linux",
    "in CUDA": "half half2 float4 uchar2 longlong4_16a dim3 threadIdx blockIdx blockDim gridDim warpSize cuda cub "
    "thrust nv nvcuda cooperative_groups cudaMalloc cudart cuComplex cusparseCreate make_float4 atomicAdd tex2D "
    "surf1Dread h2exp cuda_runtime cuda_runtime_api cuda_fp16 vector_types",
    "in C's library": "assert errno offsetof stdin va_arg sin sinf sqrtl y0 index read time signal abs div min max "
    "printf gmtime_r getc_unlocked size_t my_t pthread_create isnan index major tm stat",
    "as one of C's headers": "string math complex limits memory stdint threads regex",
    "to CMake or the linker": "test install help clean package example m c dl rt",
}
TAKEN = (
    "bunny Bunny part kernel helmholtz class_ quaternion_double h200_part cuda_spmv matrix real row memory_bound "
    "float_csr int_csr std_csr stdev time_step read_only isotropic nvme tower strategy A1b x a1_b2_ Half"
)
MALFORMED = [
    "",
    " ",
    "9lives",
    "fem/bunny",
    "a-b",
    "a b",
    "a.b",
    "a\n",
    "ä",
    "ﬁ",
    "a\u0301",
    "__global__",
    "__x",
    "_Upper",
    "_lower",
    "a__b",
    "a__",
    "\x00",
    "../up",
    "$x",
    "{{ x }}",
]


@pytest.mark.parametrize(
    ("place", "name"), [(place, name) for place, names in REFUSED.items() for name in names.split()]
)
def test_a_word_that_means_something_else_is_refused(place: str, name: str) -> None:
    with pytest.raises(ReproError, match="the name means something else") as told:
        check_name(name)
    assert "--name" in str(told.value.todo)
    assert told.value.what.endswith(place)


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_name_to_cpp_is_refused(name: str) -> None:
    with pytest.raises(ReproError, match="not a name for a C\\+\\+ namespace"):
        check_name(name)


@pytest.mark.parametrize("name", ["NULL", "EOF", "INFINITY", "I", "FE_ALL_EXCEPT", "CUDA_ARRAY_DESCRIPTOR_st", "A1"])
def test_capitals_are_left_to_macros(name: str) -> None:
    with pytest.raises(ReproError, match="left to macros"):
        check_name(name)


@pytest.mark.parametrize("name", TAKEN.split())
def test_other_names_are_taken(name: str) -> None:
    check_name(name)


def test_a_long_name_is_one_of_a_file() -> None:
    check_name("a" * 128)
    for length in (129, 100_000):
        with pytest.raises(ReproError, match="too long") as told:
            check_name("a" * length)
        assert len(str(told.value)) < 500


def rendered(templates: Path, name: str, variant: str = "Sl-8-AoSoA-Padded@clustered/static-64-1") -> dict[str, str]:
    id = parse_variant(variant, SM_90)
    return render_export(templates, Export(name, "block3", "double", id.layout, id.schedule, SM_90))


@pytest.mark.wording
@pytest.mark.parametrize(
    "name",
    ["Matrix", "Vector", "multiply", "Scalar", "CudaError", "cluster_rows", "HostMatrix", "number", "check", "Csr"],
)
def test_what_the_files_have_themselves_is_refused(templates: Path, name: str) -> None:
    with pytest.raises(ReproError, match="the name is used by the exported files themselves"):
        rendered(templates, name)


def test_words_within_functions_and_comments_are_no_names_of_the_files(templates: Path) -> None:
    for name in ("value", "kernel", "row", "rows", "median"):
        assert f"namespace {name} {{" in rendered(templates, name)[f"{name}.h"]
    check_unused("word", ["// word\nvoid other(int word) // word\n{\n    int word;\n}\nusing namespace word;\n"])
    for source in (
        "class word {\n",
        "__global__ void __launch_bounds__(64) word(int n)\n",
        "constexpr int word = 3;\n",
    ):
        with pytest.raises(ReproError):
            check_unused("word", [source])


def test_the_command_refuses_a_name_and_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(HERE.parents[1])
    monkeypatch.setitem(app._state, "debug", False)
    by_hand = ["--precision", "double", "--entry", "complex", "--variant", "Sl-32-SoA-AoS/static-256-4"]
    for name in ("class", ""):
        with pytest.raises(SystemExit) as stopped:
            app.run(["export", *by_hand, "--to", str(tmp_path / "new"), "--name", name])
        assert stopped.value.code == 1
        assert f"actual: {name!r}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_no_name_that_is_taken_is_one_of_the_headers(templates: Path, tmp_path: Path) -> None:
    """Every word in what the exported files include that is not refused can be a namespace beside it."""
    texts = [text for file, text in rendered(templates, "part").items() if file.endswith((".h", ".cpp", ".cu"))]
    includes = sorted({line for text in texts for line in text.splitlines() if re.match(r"#include <[a-z]+>", line)})
    assert "#include <fstream>" in includes
    head = "\n".join([*includes, ""])
    compiler = ["g++", "-std=c++17", "-x", "c++", "-"]
    everything = subprocess.run([*compiler, "-E"], input=head, capture_output=True, text=True, check=True).stdout
    words = []
    for word in sorted(set(re.findall(r"\w+", everything))):
        try:
            check_name(word)
        except ReproError:
            continue
        words.append(word)
    assert len(words) > 1000
    source = head + "".join(f"namespace {word} {{}}\n" for word in words)
    said = subprocess.run([*compiler, "-fsyntax-only"], input=source, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr[:2000]
