"""Which variants can be exported, and by which names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from repro.codegen.targets import Target
from repro.config.models import LONGEST
from repro.errors import ReproError
from repro.export.reserved_words import BUILD, CUDA, HEADERS, KEYWORDS, LIBRARY, PROGRAM
from repro.studies.compound_spmv.variant_id import VariantId, fitting

#: Names with two underscores on end, or one at the start, belong to compilers and their libraries.
_NAME = re.compile(r"[A-Za-z](_?[A-Za-z0-9])*_?")
#: Of macros, and of CUDA's structures beside them.
_MACRO = re.compile(r"[A-Z][A-Z_]")
#: Of the CUDA toolkit by their form: functions, handles, vector types, textures, atomics, functions of half2.
_CUDA = re.compile(
    r"(cu|cuda|cub|cublas|cufft|cufile|cupti|curand|cusolver|cusparse|nv|nvtx)_?[A-Z].*|cudart.*|C[UL][a-z].*"
    r"|((make|vec)_)?(u?(char|short|int|long|longlong)|float|double|half|dim)[0-9].*|make_(bfloat|cu).*|(InitializeInjection)?Nvtx.*|nvtx_.*"
    r"|(tex|surf)([0-9]D|C).*|atomic[A-Z].*|h2[a-z].*|cudalibrary.*"
)
#: Of the C library by their form: types, and functions and structures of one part of it.
_LIBRARY = re.compile(
    r".*_t|(dl|inet6?|la|obstack|pkey|posix|pthread|sched|sem)_.*|(Elf|La|Val)(32|64)?_.*|f(32|64)x?(add|div|fma|mul|sqrt|sub)f.*"
)
#: How the C library marks the members of a family: by a type, and by what else they do or take.
_MEMBER = re.compile(r"(.+?)(f16|f32x?|f64x?|f128x?|d32|d64|d128|bf16|64|f|l)?(_r|_l|_unlocked|_np)?")
_COMMENT = re.compile(r"//.*|__[a-z_]+__ *\([^()]*(\([^()]*\))*[^()]*\)")
_WORD = re.compile(r"[A-Za-z_]\w*")


def check_name(name: str) -> None:
    """Refuse what can be no name of a C++ namespace, a header and a library at once.

    Raises
    ------
    ReproError
        It is none to C++, too long for a file, or means something else to C++, the C library, CUDA or CMake.
    """
    reason, expected = None, f"at most {LONGEST} letters, digits and _, a letter first, no two _ on end"
    if not _NAME.fullmatch(name):
        reason = "not a name for a C++ namespace"
    elif len(name) > LONGEST:
        reason = "too long for the name of a file"
    elif _MACRO.match(name) or not any(letter.islower() for letter in name):
        reason, expected = "names in capitals are left to macros", "a name with small letters, not two capitals first"
    elif taken := _taken(name):
        reason, expected = f"the name means something else {taken}", "a name that nobody else has"
    if reason:
        raise ReproError(
            reason,
            where="the name of the export",
            expected=expected,
            actual=repr(name) if len(name) <= LONGEST else f"{name[:40]!r}… of {len(name)} characters",
            todo="name it otherwise with --name, as quaternion_double",
        )


def _taken(name: str) -> str | None:
    """Say to whom a name means something else; None where to nobody."""
    member = _MEMBER.fullmatch(name)
    places = {
        "in C++": name in KEYWORDS or name in PROGRAM or re.fullmatch(r"std\d+", name),
        "in CUDA": name in CUDA or _CUDA.fullmatch(name),
        "in C's library": name in LIBRARY or _LIBRARY.fullmatch(name) or (member and member[1] in LIBRARY),
        "as one of C's headers": name in HEADERS,
        "to CMake or the linker": name in BUILD,
    }
    return next((place for place, taken in places.items() if taken), None)


def check_unused(name: str, sources: Iterable[str]) -> None:
    """Refuse a name that exported sources have themselves, of a class or a function say.

    Raises
    ------
    ReproError
    """
    if name in {word for source in sources for word in _declared(source)}:
        raise ReproError(
            "the exported files have that name themselves",
            where="the name of the export",
            actual=repr(name),
            todo="name it otherwise with --name, as quaternion_double",
        )


def _declared(source: str) -> Iterable[str]:
    """Return the words by which a source, indented as ours are, declares something outside of functions and classes."""
    for line in _COMMENT.sub("", source).splitlines():
        if (line[:1].isalpha() or line[:1] == "_") and "namespace" not in line:
            yield from _WORD.findall(re.split(r"[(={;]", line, maxsplit=1)[0])


def parse_variant(name: str, target: Target) -> VariantId:
    """Return the variant of a name that a kernel can be exported of.

    Raises
    ------
    ReproError
        The name is not a variant's, the target cannot hold the schedule, or the layout renumbers the unknowns.
    """
    variant = VariantId.parse(name)
    if variant.layout.unknowns != "natural":
        raise ReproError(
            "a layout that renumbers the unknowns cannot be exported",
            expected="a variant in natural ordering, or clustered",
            actual=name,
            todo=f"reorder matrix and vectors yourself, and export {replace(variant, layout=variant.layout.stored)}",
        )
    return fitting(variant, target)
