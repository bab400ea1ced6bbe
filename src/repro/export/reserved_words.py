"""Words that mean something else to a C++ compiler, to CUDA or to CMake, so that no export can be named by them.

C++23 with the words that later standards and compilers add; what glibc's and CUDA's headers declare outside of any
namespace in lower case, by which name either a function, a type, a variable or a macro; the headers themselves, since
`NAME.h` would be found in their place; and what CMake and linkers have by that name. A namespace cannot have any of
these, but for the headers and CMake's.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = _words(
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
#: And what they stand for at the top: the program, reserved namespaces, macros of compilers.
PROGRAM = frozenset(["main", "std", "posix", "linux", "unix", "i386"])
CUDA = _words(
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
#: Without the members of families that end in a type or a kind: `sinf` and `gmtime_r` are `sin` and `gmtime`.
LIBRARY = _words(
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
HEADERS = _words(
    """
    aio byteswap complex cpio ctype dlfcn elf endian execinfo features fenv fmtmsg grp ifaddrs inttypes iso646
    langinfo libgen libintl limits locale math memory mqueue ndbm netdb nl_types pthread pwd regex sched search
    semaphore spawn stdalign stdarg stdatomic stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn
    string strings tar tgmath threads uchar ucontext ulimit unistd utmpx wchar wordexp
    """
)
BUILD = _words(
    """
    all c clean culibos dl edit_cache example gcc help install m package package_source preinstall rebuild_cache
    rt test uninstall
    """
)
