"""The files of an exported kernel: check of the name, text of the files, and an atomically written folder.

The name of an export becomes a C++ namespace, a header and a library. Therefore some names are refused: keywords of
C++23 and of announced standards; lower-case names that headers of glibc and CUDA declare outside namespaces; names of
standard headers, since `NAME.h` would hide them; and names of CMake targets and linker libraries.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from repro import __version__
from repro.codegen.targets import DTYPES, SCALARS, STATIC_SHARED, Target
from repro.codegen.templates import expand_macros, render_template, render_text, template_exists
from repro.entries import get_entry
from repro.errors import ReproError
from repro.exact_casts import cast
from repro.export.campaign_choice import EXPORTED_STUDY, exported_variant
from repro.problems.matrix import Matrix
from repro.sparse import ordering
from repro.sparse.compound.kernels import finding_of_runs, launches, pairs_constants, render_module
from repro.sparse.compound.outer import get_outer
from repro.sparse.compound.product import is_square_only
from repro.sparse.compound.variants import (
    L2_SHARE,
    RUN_OF_LANE,
    SPLIT,
    TILE,
    TILE_ROWS,
    Layout,
    Schedule,
    VariantId,
    chunks,
)
from repro.sparse.elementwise import padded_size
from repro.sparse.ordering import CLUSTER, LONG_ROW_OF_MEAN, MIN_LONG_ROW, WINDOW
from repro.sparse.pairs import LEADING, MAX_SLOTS, NO_COLUMN, NO_PAIR, ROUNDS, STEPS, STEPS_OF_BLOCK
from repro.words import MAX_PART_LENGTH


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


CPP_WORDS = _word_set(
    """
    alignas alignof and and_eq asm asm auto bitand bitor bool break case catch char char16_t char32_t char8_t
    class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue
    contract_assert decltype default delete do double dynamic_cast else enum explicit export extern false final
    float for fortran friend goto if import inline int long module mutable namespace new noexcept not not_eq
    nullptr operator or or_eq override post pre private protected public register reinterpret_cast
    replaceable_if_eligible requires restrict return short signed sizeof static static_assert static_cast struct
    switch template this thread_local throw trivially_relocatable_if_eligible true try typedef typeid typename
    typeof typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq
    """
)
#: Names that programs cannot use: `main`, reserved namespaces, and macros that compilers define.
PROGRAM_WORDS = frozenset(["main", "std", "posix", "linux", "unix", "i386"])
CUDA_WORDS = _word_set(
    """
    blockDim blockIdx builtin_types cccl channel_descriptor cl_context_flags_enum cl_event_flags_enum
    common_functions cooperative_groups cub cuComplex cuda cuda_awbarrier cuda_awbarrier_helpers
    cuda_awbarrier_primitives cuda_bf16 cuda_device_runtime_api cuda_egl_interop cuda_fp16 cuda_fp4 cuda_fp6
    cuda_fp8 cuda_gl_interop cuda_occupancy cuda_pipeline cuda_pipeline_helpers cuda_pipeline_primitives
    cuda_profiler_api cuda_runtime cuda_runtime_api cuda_stdint cuda_vdpau_interop cudaEGL cudaEGLTypedefs cudaGL
    cudaGLTypedefs cudaProfiler cudaProfilerTypedefs cudart_platform cudaTypedefs cudaVDPAU cudaVDPAUTypedefs
    cupti device_atomic_functions device_double_functions device_functions device_launch_parameters device_types
    driver_functions driver_types fatbinary_section gridDim half host_config host_defines library_types
    math_constants math_functions mma nv nv_bfloat16 nv_bfloat162 nv_decode nv_half nv_half2 nvcuda nvrtc nvtx
    nvtx3 nvvm sm_20_atomic_functions sm_20_intrinsics sm_30_intrinsics sm_32_atomic_functions sm_32_intrinsics
    sm_35_atomic_functions sm_35_intrinsics sm_60_atomic_functions sm_61_intrinsics surface_indirect_functions
    surface_types texture_indirect_functions texture_types threadIdx thrust vector_functions vector_types warpSize
    """
)
#: Names of the C library without endings: `_MEMBER` strips them, so `sinf` counts as `sin`, and `gmtime_r` as `gmtime`.
LIBRARY_WORDS = _word_set(
    """
    a64l abort abs accept accept4 access acct acos acosh addrinfo adjtime alarm aligned_alloc all alloca alphasort
    alphasort64 any arc4random arc4random_buf arc4random_uniform asctime asin asinh asprintf assert assert_perror
    at_quick_exit atan atan2 atanh atexit atof atoi atol backtrace backtrace_symbols backtrace_symbols_fd ballot
    basename bcmp bcopy be16toh be32toh be64toh bind bind_textdomain_codeset bindresvport bindresvport6
    bindtextdomain brk bsearch btowc bzero c16rtomb c32rtomb c8rtomb calloc canonicalize canonicalize_file_name
    catclose catgets catopen cbrt ceil cfgetispeed cfgetospeed cfmakeraw cfsetispeed cfsetospeed cfsetspeed chdir
    chmod chown chroot cl_context_flags cl_event_flags clearenv clearerr clock clock64 clock_adjtime
    clock_getcpuclockid clock_getres clock_gettime clock_nanosleep clock_settime clone close close_range closedir
    closefrom closelog cmsghdr confstr connect copy_file_range copysign cos cosh cospi creat creat64 crypt ctermid
    ctime cuserid cyl_bessel_i0 cyl_bessel_i1 d_fileno dadd daemon daylight dcgettext dcngettext ddivl dfmal
    dgettext difftime dirent dirent64 dirfd dirname div Dl_info Dl_serinfo Dl_serpath dladdr dladdr1 dlclose
    dlerror dlinfo dlmopen dlopen dlsym dlvsym dmul dngettext dprintf drand48 drand48_data drem dsqrtl dsub dup
    dup2 dup3 duplocale dysize eaccess ecvt endgrent endhostent endnetent endnetgrent endorder endprotoent
    endpwent endrpcent endservent endusershell entry environ erand48 erf erfc erfcinv erfcx erfinv err errno error
    error_at_line error_message_count error_one_per_line error_print_progname errx euidaccess execl execle execlp
    execv execve execveat execvp execvpe exit exp exp10 exp2 explicit_bzero expm1 f_owner_ex fabs faccessat fadd
    fallocate fallocate64 fchdir fchmod fchmodat fchown fchownat fclose fcloseall fcntl fcntl64 fcvt fd_mask
    fd_set fdatasync fdim fdiv fdivide fdopen fdopendir feclearexcept fedisableexcept feenableexcept fegetenv
    fegetexcept fegetexceptflag fegetmode fegetround feholdexcept feof feof_unlocked feraiseexcept ferror fesetenv
    fesetexcept fesetexceptflag fesetmode fesetround fetestexcept fetestexceptflag feupdateenv fexecve fflush ffma
    ffs ffsll fgetc fgetgrent fgetpos fgetpos64 fgetpwent fgets fgetwc fgetws file_handle fileno finite flock
    flock64 flockfile floor fma fmax fmaximum fmaximum_mag fmaximum_mag_num fmaximum_num fmaxmag fmemopen fmin
    fminimum fminimum_mag fminimum_mag_num fminimum_num fminmag fmod fmul fnmatch fopen fopen64 fopencookie fork
    fpathconf fpclassify fprintf fputc fputs fputwc fputws fread free freeaddrinfo freelocale freopen freopen64
    frexp fromfp fromfpx fscanf fseek fseeko fseeko64 fsetpos fsetpos64 fsqrt fstat fstat64 fstatat fstatat64 fsub
    fsync ftell ftello ftello64 ftruncate ftruncate64 ftrylockfile ftw ftw64 funlockfile futimens futimes
    futimesat fwide fwprintf fwrite fwscanf gai_cancel gai_error gai_strerror gai_suspend gaicb gamma gcvt
    get_current_dir_name getaddrinfo getaddrinfo_a getc getchar getcpu getcwd getdate getdate_err getdelim
    getdents64 getdirentries getdirentries64 getdomainname getdtablesize getegid getentropy getenv geteuid getgid
    getgrent getgrgid getgrnam getgrouplist getgroups gethostbyaddr gethostbyname gethostbyname2 gethostent
    gethostid gethostname getipv4sourcefilter getitimer getline getloadavg getlogin getnameinfo getnetbyaddr
    getnetbyname getnetent getnetgrent getopt getopt_long getopt_long_only getpagesize getpass getpayload
    getpeername getpgid getpgrp getpid getppid getpriority getprotobyname getprotobynumber getprotoent getpt getpw
    getpwent getpwnam getpwuid getresgid getresuid getrlimit getrlimit64 getrpcbyname getrpcbynumber getrpcent
    getrusage getservbyname getservbyport getservent getsid getsockname getsockopt getsourcefilter getsubopt
    gettext gettid gettimeofday getuid getumask getusershell getw getwc getwchar getwd glob glob64 glob_pattern_p
    globfree globfree64 gmtime grantpt group group_filter group_member group_req group_source_req gsignal h_addr
    h_errno hceil hcos hcreate hdestroy herror hexp hexp10 hexp2 hfloor hlog hlog10 hlog2 hostent hrcp hrint
    hrsqrt hsearch hsearch_data hsin hsqrt hstrerror htanh htanh_approx htobe16 htobe32 htobe64 htole16 htole32
    htole64 htonl htons htrunc hypot iconv iconv_close iconv_open ilogb imaxabs imaxdiv in6_addr in6_pktinfo
    in6addr_any in6addr_loopback in_addr in_pktinfo index initgroups initstate innetgr insque ioctl iovec
    ip6_mtuinfo ip_mreq ip_mreq_source ip_mreqn ip_msfilter ip_opts ipv6_mreq iruserok iruserok_af isalnum isalpha
    isascii isatty isblank iscanonical iscntrl iscntrl_l isctype isdigit iseqsig isfdtype isfinite isgraph
    isgreater isgreaterequal isinf isless islessequal islessgreater islower isnan isnormal isprint ispunct
    issignaling isspace issubnormal isunordered isupper iswalnum iswalpha iswblank iswcntrl iswcntrl_l iswctype
    iswdigit iswgraph iswlower iswprint iswpunct iswspace iswupper iswxdigit isxdigit iszero itimerspec itimerval
    j0 j1 jmp_buf jn jrand48 kill killpg l64a labs lchmod lchown lcong48 lconv ldexp ldiv le16toh le32toh le64toh
    leaf lerp lfind lgamma libraryPropertyType linger link link_map linkat listen ll2double llabs lldiv llmax
    llmin llogb llrint llround localeconv localtime lockf lockf64 log log10 log1p log2 logb longjmp lrand48 lrint
    lround lsearch lseek lseek64 lstat lstat64 lutimes madvise major makedev mallinfo mallinfo2 malloc malloc_info
    malloc_stats malloc_trim malloc_usable_size mallopt math_errhandling max mblen mbrlen mbrtoc16 mbrtoc32
    mbrtoc8 mbrtowc mbsinit mbsnrtowcs mbsrtowcs mbstowcs mbtowc memalign memccpy memchr memcmp memcpy
    memfd_create memfrob memmem memmove mempcpy memrchr memset min mincore minor mkdir mkdirat mkdtemp mkfifo
    mkfifoat mknod mknodat mkostemp mkostemp64 mkostemps mkostemps64 mkstemp mkstemp64 mkstemps mkstemps64 mktemp
    mktime mlock mlock2 mlockall mmap mmap64 mmsghdr modf mprotect mrand48 mremap msghdr msync munlock munlockall
    munmap name_to_handle_at nan nanosleep nearbyint netent newlocale nextafter nextdown nexttoward nextup nftw
    nftw64 ngettext nice nl_catd nl_item nl_langinfo no_argument norm norm3d norm4d normcdf normcdfinv nrand48
    ntohl ntohs obstack offsetof on_exit open open64 open_by_handle_at open_memstream open_wmemstream openat
    openat64 opendir openlog optarg opterr optind option optional_argument optopt osockaddr passwd pathconf pause
    pclose perror pipe pipe2 poll pollfd popen postorder pow ppoll pread pread64 preadv preadv2 preadv64
    preadv64v2 preorder printf prlimit prlimit64 process_madvise process_mrelease process_vm_readv
    process_vm_writev profil program_invocation_name program_invocation_short_name protoent pselect psiginfo
    psignal ptsname putc putchar putenv putgrent putpwent puts putw putwc putwchar pvalloc pwrite pwrite64 pwritev
    pwritev2 pwritev64 pwritev64v2 qecvt qelem qfcvt qgcvt qsort quick_exit r_debug r_debug_extended raise rand
    random random_data rawmemchr rcbrt rcmd rcmd_af re_compile_fastmap re_compile_pattern re_match re_match_2
    re_pattern_buffer re_registers re_search re_search_2 re_set_registers re_set_syntax re_syntax_options read
    readahead readdir readdir64 readlink readlinkat readv realloc reallocarray realpath recv recvfrom recvmmsg
    recvmsg regcomp regerror regexec regfree remainder remap_file_pages remove remque remquo rename renameat
    renameat2 required_argument revoke rewind rewinddir rexec rexec_af rhypot rindex rint rlimit rlimit64 rmdir
    rnorm rnorm3d rnorm4d round roundeven rpcent rpmatch rresvport rresvport_af rsqrt rusage ruserok ruserok_af
    sbrk scalb scalbln scalbn scandir scandir64 scandirat scandirat64 scanf secure_getenv seed48 seekdir select
    send sendmmsg sendmsg sendto servent setbuf setbuffer setdomainname setegid setenv seteuid setgid setgrent
    setgroups sethostent sethostid sethostname setipv4sourcefilter setitimer setjmp setlinebuf setlocale setlogin
    setlogmask setnetent setnetgrent setns setpayload setpayloadsig setpgid setpgrp setpriority setprotoent
    setpwent setregid setresgid setresuid setreuid setrlimit setrlimit64 setrpcent setservent setsid setsockopt
    setsourcefilter setstate settimeofday setuid setusershell setvbuf shm_open shm_unlink shutdown sigabbrev_np
    sigaction sigaddset sigaltstack sigandset sigblock sigcontext sigdelset sigdescr_np sigemptyset sigevent
    sigfillset siggetmask sighold sigignore siginterrupt sigisemptyset sigismember sigjmp_buf siglongjmp sigmask
    signal signbit signgam significand sigorset sigpause sigpending sigprocmask sigqueue sigrelse sigreturn sigset
    sigsetjmp sigsetmask sigstack sigsuspend sigtimedwait sigval sigwait sigwaitinfo sin sincos sincospi sinh
    sinpi sleep snprintf sockaddr sockaddr_in sockaddr_in6 sockaddr_storage sockaddr_un sockatmark socket
    socketpair splice sprintf sqrt srand srand48 srandom sscanf ssignal stat stat64 statx statx_timestamp stderr
    stdin stdout stpcpy stpncpy strcasecmp strcasestr strcat strchr strchrnul strcmp strcoll strcoll_l strcpy
    strcspn strdup strdupa strerror strerrordesc_np strerrorname_np strfromd strfromf strfromf128 strfromf32
    strfromf32x strfromf64 strfromf64x strfroml strfry strftime strlen strncasecmp strncat strncmp strncpy strndup
    strndupa strnlen strpbrk strptime strrchr strsep strsignal strspn strstr strtod strtof strtof128 strtof128_l
    strtof32 strtof32_l strtof32x strtof32x_l strtof64 strtof64_l strtof64x strtof64x_l strtof_l strtoimax strtok
    strtol strtol_l strtold strtoq strtoul strtoul_l strtoumax strtouq strverscmp strxfrm swab swprintf swscanf
    symlink symlinkat sync sync_file_range syncfs syncthreads_and syncthreads_count syncthreads_or syscall sysconf
    syslog system sysv_signal tan tanh tcdrain tcflow tcflush tcgetattr tcgetpgrp tcgetsid tcsendbreak tcsetattr
    tcsetpgrp tdelete tdestroy tee telldir tempnam termio termios textdomain tfind tgamma tgkill time timegm
    timelocal timer_create timer_delete timer_getoverrun timer_gettime timer_settime timeradd timerclear timercmp
    timerisset timersub timespec timespec_get timespec_getres timeval timex timezone tm tmpfile tmpfile64 tmpnam
    toascii tolower totalorder totalordermag toupper towctrans towlower towupper trunc truncate truncate64 tsearch
    ttyname ttyslot twalk tzname tzset u_char u_int u_long u_short ualarm ucred ufromfp ufromfpx uint ull2double
    ullmax ullmin ulong umask umax umin uname ungetc ungetwc unlink unlinkat unlockpt unsetenv unshare uselocale
    ushort usleep utimbuf utime utimensat utimes utsname va_arg va_copy va_end va_list va_start valloc vasprintf
    vdprintf verr verrx versionsort versionsort64 vfork vfprintf vfscanf vfwprintf vfwscanf vhangup vmsplice
    vprintf vscanf vsnprintf vsprintf vsscanf vswprintf vswscanf vsyslog vwarn vwarnx vwprintf vwscanf wait wait3
    wait4 waitid waitpid warn warnx wcpcpy wcpncpy wcrtomb wcscasecmp wcscat wcschr wcschrnul wcscmp wcscoll
    wcscoll_l wcscpy wcscspn wcsdup wcsftime wcslen wcsncasecmp wcsncat wcsncmp wcsncpy wcsnlen wcsnrtombs wcspbrk
    wcsrchr wcsrtombs wcsspn wcsstr wcstod wcstof wcstof128 wcstof128_l wcstof32 wcstof32_l wcstof32x wcstof32x_l
    wcstof64 wcstof64_l wcstof64x wcstof64x_l wcstof_l wcstoimax wcstok wcstol wcstol_l wcstold wcstombs wcstoq
    wcstoul wcstoul_l wcstoumax wcstouq wcswcs wcswidth wcsxfrm wctob wctomb wctrans wctype wcwidth winsize
    wmemchr wmemcmp wmemcpy wmemmove wmempcpy wmemset wprintf write writev wscanf y0 y1 yn
    """
)
HEADER_WORDS = _word_set(
    """
    aio byteswap complex cpio ctype dlfcn elf endian execinfo features fenv fmtmsg grp ifaddrs inttypes iso646
    langinfo libgen libintl limits locale math memory mqueue ndbm netdb nl_types pthread pwd regex sched search
    semaphore spawn stdalign stdarg stdatomic stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn
    string strings tar tgmath threads uchar ucontext ulimit unistd utmpx wchar wordexp
    """
)
BUILD_WORDS = _word_set(
    """
    all c clean culibos dl edit_cache example gcc help install m package package_source preinstall rebuild_cache
    rt test uninstall
    """
)


#: A usable name. Names with two successive underscores, or one at the start, are reserved for compilers.
_NAME = re.compile(r"[A-Za-z](_?[A-Za-z0-9])*_?")
#: Two capitals at the start: macros, and some structures of CUDA.
_MACRO = re.compile(r"[A-Z][A-Z_]")
#: Forms of CUDA names: functions, handles, vector types, textures, atomics, half2 functions.
_CUDA = re.compile(
    r"(cu|cuda|cub|cublas|cufft|cufile|cupti|curand|cusolver|cusparse|nv|nvtx)_?[A-Z].*|cudart.*|C[UL][a-z].*"
    r"|((make|vec)_)?(u?(char|short|int|long|longlong)|float|double|half|dim)[0-9].*|make_(bfloat|cu).*|(InitializeInjection)?Nvtx.*|nvtx_.*"
    r"|(tex|surf)([0-9]D|C).*|atomic[A-Z].*|h2[a-z].*|cudalibrary.*"
)
#: Forms of names in the C library: types, and names with a common prefix.
_LIBRARY = re.compile(
    r".*_t|(dl|inet6?|la|obstack|pkey|posix|pthread|sched|sem)_.*|(Elf|La|Val)(32|64)?_.*|f(32|64)x?(add|div|fma|mul|sqrt|sub)f.*"
)
#: A base name of the C library with optional endings: a number type (`f`, `l`) and a variant (`_r`, `_unlocked`).
_MEMBER = re.compile(r"(.+?)(f16|f32x?|f64x?|f128x?|d32|d64|d128|bf16|64|f|l)?(_r|_l|_unlocked|_np)?")
_COMMENT = re.compile(r"//.*|__[a-z_]+__ *\([^()]*(\([^()]*\))*[^()]*\)")
_WORD = re.compile(r"[A-Za-z_]\w*")


def check_name(name: str) -> None:
    """Raise `ReproError` if a name is unsuitable for a C++ namespace, a header and a library, or already in use."""
    reason, expected = None, f"at most {MAX_PART_LENGTH} letters, digits and _, a letter first, no two _ on end"
    if not _NAME.fullmatch(name):
        reason = "not a name for a C++ namespace"
    elif len(name) > MAX_PART_LENGTH:
        reason = "too long for the name of a file"
    elif _MACRO.match(name) or not any(letter.islower() for letter in name):
        reason, expected = "names in capitals are left to macros", "a name with small letters, not two capitals first"
    elif clash := _name_clash(name):
        reason, expected = f"the name means something else {clash}", "a name that nobody else has"
    if reason:
        raise ReproError(
            reason,
            where="the name of the export",
            expected=expected,
            actual=repr(name) if len(name) <= MAX_PART_LENGTH else f"{name[:40]!r}… of {len(name)} characters",
            todo="choose a different --name, for example quaternion_double",
        )


def _name_clash(name: str) -> str | None:
    """Return where a name is already used (C++, CUDA, the C library, …), or None."""
    member = _MEMBER.fullmatch(name)
    places = {
        "in C++": name in CPP_WORDS or name in PROGRAM_WORDS or re.fullmatch(r"std\d+", name),
        "in CUDA": name in CUDA_WORDS or _CUDA.fullmatch(name),
        "in C's library": name in LIBRARY_WORDS or _LIBRARY.fullmatch(name) or (member and member[1] in LIBRARY_WORDS),
        "as one of C's headers": name in HEADER_WORDS,
        "to CMake or the linker": name in BUILD_WORDS,
    }
    return next((place for place, names in places.items() if names), None)


def check_unused(name: str, sources: Iterable[str]) -> None:
    """Raise `ReproError` if one of the exported sources already declares the name."""
    if name in {word for source in sources for word in _declared(source)}:
        raise ReproError(
            "the name is used by the exported files themselves",
            where="the name of the export",
            actual=repr(name),
            todo="choose a different --name, for example quaternion_double",
        )


def _declared(source: str) -> Iterable[str]:
    """Yield the words that a source declares outside functions and classes, which are the lines without indentation."""
    for line in _COMMENT.sub("", source).splitlines():
        if (line[:1].isalpha() or line[:1] == "_") and "namespace" not in line:
            yield from _WORD.findall(re.split(r"[(={;]", line, maxsplit=1)[0])


def parse_variant(name: str, target: Target) -> VariantId:
    """Return the variant with this name.

    Raises `ReproError` if the name is unknown, or the variant exceeds the target's limits or renumbers the unknowns.
    """
    id = exported_variant(name, target)
    if id.layout.unknowns != "natural":
        raise ReproError(
            "a layout that renumbers the unknowns cannot be exported",
            expected="a variant in natural ordering, @clustered or @sigma",
            actual=name,
            todo=f"reorder the matrix and vectors yourself, and export {replace(id, layout=id.layout.stored)}",
        )
    return id


def kind_of_file(entry: str, precision: str) -> str:
    """Return the text line at the start of a matrix file."""
    return f"sparse-repro CSR {entry} {precision}"


def write_matrix(problem: Matrix, precision: str, path: Path) -> None:
    """Write a matrix to a file that the example program of an exported kernel reads.

    Format, little-endian: one line of text; number of rows and of non-zeros as int64, and of columns if the matrix is
    rectangular, which the first line says; row pointers and columns as int32; the members of all entries in the given
    precision.
    """
    columns = () if problem.square else problem.shape[1:]
    with path.open("wb") as file:
        file.write(f"{kind_of_file(problem.entry, precision)}{' rectangular' if columns else ''}\n".encode())
        for array in (
            np.array([problem.n, problem.nnz, *columns], "<i8"),
            problem.indptr.astype("<i4"),
            problem.indices.astype("<i4"),
            cast(problem.values, np.dtype(DTYPES[precision]).newbyteorder("<"), f"{problem.name}: values"),
        ):
            array.tofile(file)


@dataclass(frozen=True)
class Export:
    """A kernel to export; its `name` is also that of the namespace, library and files.

    `provenance`: (label, value) pairs that say where the layout and schedule come from.
    """

    name: str
    entry: str
    precision: str
    layout: Layout
    schedule: Schedule
    target: Target
    provenance: Sequence[tuple[str, str]] = ()


def render_export(templates: Path, export: Export) -> dict[str, str]:
    """Return the files of an exported kernel: a dictionary from file name to content.

    The kernel comes from the template that was measured, with only the export's schedule. It has C++ linkage, so
    several exports can be linked into one program.

    Raises
    ------
    ReproError
        The name cannot be used, the entry has no values, the outer format has no conversion on the GPU, or a template
        is wrong.
    """
    check_name(export.name)
    if not get_entry(export.entry).members:
        raise ReproError(
            "a matrix without values cannot be exported",
            where=f"the entry {export.entry}",
            todo="export the entry real, with ones as values",
        )
    pairs = export.layout.stores_pairs
    outer = None if pairs else get_outer(export.layout.outer)
    if outer is not None and not template_exists(templates, f"export/outer/{outer.template}.j2"):
        raise ReproError(
            "this format cannot be converted on the GPU yet",
            where=export.layout.outer,
            todo=f"write {templates}/export/outer/{outer.template}.j2",
        )
    context = _context(export)
    module = render_module(
        templates,
        export.entry,
        export.precision,
        export.layout,
        [export.schedule],
        export.target,
        EXPORTED_STUDY,
    )
    module = expand_macros(templates, export.target.dialect, module)
    includes = [line for line in module.splitlines() if line.startswith("#include")]
    kernel = "\n".join(line for line in module.splitlines() if line not in includes) + "\n"
    files = {
        f"{export.name}.h": "header",
        f"{export.name}.cu": "source",
        "CMakeLists.txt": "cmake",
        "example.cpp": "example",
        "README.md": "readme",
    }
    context |= {"includes": includes, "kernel_source": kernel.replace('extern "C" __global__', "__global__")}
    of_c = [file for file in files if Path(file).suffix in (".h", ".cu", ".cpp")]
    texts = {
        file: (render_template if file in of_c else render_text)(templates, f"export/{template}.j2", **context)
        for file, template in files.items()
    }
    check_unused(export.name, [texts[file] for file in of_c])
    return texts


def _context(export: Export) -> dict[str, Any]:
    entry, pairs = get_entry(export.entry), export.layout.stores_pairs
    outer = None if pairs else get_outer(export.layout.outer)
    scalar, scalar_bytes = SCALARS[export.precision]
    stride = padded_size(entry.size) if export.layout.vector == "Padded" else entry.size
    run_entries, is_split = RUN_OF_LANE * export.target.warp, export.schedule.kind == SPLIT
    return {
        "library": export.name,
        "dialect": export.target.dialect,
        "title": f"y = A x for sparse matrices with {export.entry} entries in {export.precision} precision, layout "
        f"{export.layout}, schedule {export.schedule}",
        "made_by": f"Written by `repro export` of sparse-repro {__version__}",
        "entry": entry,
        "scalar": scalar,
        "members": _members(entry.members, scalar_bytes),
        "layout": export.layout,
        "pairs": pairs,
        "clustered": export.layout.permutes_rows,
        "cluster": CLUSTER,
        "window": WINDOW if export.layout.ordering == "sigma" else None,
        "bisection": ordering,
        "long_row": MIN_LONG_ROW,
        "long_row_of_mean": LONG_ROW_OF_MEAN,
        **({"outer": outer.template, **outer.constants} if outer else _of_pairs(export)),
        "schedule": export.schedule,
        "share_of_l2": L2_SHARE,
        "launches": launches(export.schedule, export.target),
        "finding": finding_of_runs(export.target),
        "run_entries": run_entries,
        "warp": export.target.warp,
        "tile": TILE,
        "steps": STEPS_OF_BLOCK if export.layout.permutes_rows else run_entries if is_split else STEPS,
        "vector_stride": stride,
        "square_only": is_square_only(export.layout, export.entry),
        "where_members_lie": _where(export.layout.vector, stride - entry.size),
        "architecture": export.target.name.removeprefix("sm_"),
        "file_kind": kind_of_file(export.entry, export.precision),
        "provenance": export.provenance,
    }


def _of_pairs(export: Export) -> dict[str, Any]:
    """Return the template variables for converting a matrix to a pair format."""
    rows = TILE_ROWS[export.layout.outer]
    return {
        **pairs_constants(export.entry, export.layout),
        "leading_of_mean": LEADING,
        "no_column": NO_COLUMN,
        "most_slots": min(MAX_SLOTS, NO_PAIR // rows),
        "rounds": ROUNDS,
        "shared_bytes": STATIC_SHARED - 2 * rows,
    }


def _where(order: str, spare_count: int) -> str:
    """Describe how the members of a vector entry are stored; `spare_count` unused values follow them."""
    if order == "SoA":
        return "member by member"
    unused_note = f", and {spare_count} unused number{'s' * (spare_count > 1)} after them" if spare_count else ""
    return f"the members of an entry side by side{unused_note}"


def _members(names: Sequence[str], scalar_bytes: int) -> list[dict[str, Any]]:
    """Return name, offset and chunk (first member, size) of each member of a matrix entry in a tile."""
    return [
        {"name": names[offset], "offset": offset, "chunk": {"first": first, "size": size}}
        for first, size in chunks(len(names), scalar_bytes)
        for offset in range(first, first + size)
    ]


def write_folder(folder: Path, texts: Mapping[str, str], binaries: Mapping[str, Callable[[Path], None]]) -> list[Path]:
    """Write text files and binaries to a new folder atomically; return their paths.

    `binaries` maps a file name to a function that writes the file. If the folder is not empty, it raises `ReproError`.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise ReproError("the folder is not empty", where=folder, todo="choose a new folder with --to")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        partial.chmod(0o755)
        for name, text in texts.items():
            (partial / name).write_text(text)
        for name, write in binaries.items():
            write(partial / name)
        partial.replace(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return [folder / name for name in (*texts, *binaries)]
