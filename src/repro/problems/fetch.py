"""Fetching files: from the download folder, from mirrors, and from their own addresses, in this order.

All three have one layout, `suitesparse/<group>/<name>.mtx.gz` and so on, so a file that is put into the download
folder by hand is as good as a downloaded one. A candidate counts only once its content has been read and checked; a
mirror that serves something else does not hide the next one.

A download has limits of time and size, is tried again where that may help, and gives a reason where it fails. Files
that are only partly written lie in a folder of their own until they are complete.
"""

from __future__ import annotations

import fcntl
import gzip
import logging
import lzma
import os
import shutil
import ssl
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

import pooch

from repro.config.models import Fetch
from repro.errors import ReproError
from repro.problems.files import now, read_record, unpack, update_record

if TYPE_CHECKING:
    import requests


#: Variables that requests reads the file or folder of certificates from, in place of the package certifi's.
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def flaw_of_environment(url: str) -> str | None:
    """Return what is wrong with the certificates or the proxy that the environment names; None where nothing is."""
    return flaw_of_bundle() or flaw_of_proxy(url)


def what_is_trusted() -> str:
    """Return what the certificates of servers are held against, a variable as `NAME=path`."""
    named = _bundle()
    return "=".join(named) if named else f"the certificates of the package certifi; {BUNDLES[0]} names others"


def flaw_of_bundle() -> str | None:
    """Return why what the environment names has no certificates; None where it has, or where it names nothing.

    A folder is looked into for a certificate once a server shows one, so here it is always right.
    """
    named = _bundle()
    if named is None:
        return None
    path = named[1]
    try:
        ssl.create_default_context(cafile=None if Path(path).is_dir() else path, capath=path)
    except OSError as error:
        return f"no certificates in {what_is_trusted()} ({error.strerror or error})"
    return None


def _bundle() -> tuple[str, str] | None:
    return next(((name, os.environ[name]) for name in BUNDLES if os.environ.get(name)), None)


def proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for an address, as `NAME=value` without user and password."""
    value = _proxy_value(url)
    if value is None:
        return None
    names = (f"{url.partition(':')[0].lower()}_proxy", "all_proxy")
    name = next((name for name in os.environ if name.lower() in names and os.environ[name] == value), "proxy")
    before, at, host = value.rpartition("@")
    scheme, slashes, _ = before.partition("://")
    return f"{name}={scheme + slashes if slashes else ''}{host}" if at else f"{name}={value}"


def flaw_of_proxy(url: str) -> str | None:
    """Return why what the environment names as proxy for an address can be none; None where it can."""
    from requests.adapters import HTTPAdapter  # slow to import
    from requests.utils import prepend_scheme_if_needed
    from urllib3.util import parse_url

    value = _proxy_value(url)
    if value is None:
        return None
    try:
        address = prepend_scheme_if_needed(value, "http")
        HTTPAdapter().proxy_manager_for(address)
        reason = "" if parse_url(address).host else "it names no host"
    except ValueError as error:
        # what urllib3 says of an address repeats it, with the password that it may have
        reason = str(error) if "SOCKS" in str(error) else "an address such as http://proxy.example:3128 is expected"
    return f"malformed proxy {proxy_of(url)}: {reason}" if reason else None


def _proxy_value(url: str) -> str | None:
    from requests.utils import get_environ_proxies, select_proxy

    try:
        return select_proxy(url, get_environ_proxies(url)) or None
    except ValueError:  # of an address that is malformed itself
        return None


log = logging.getLogger(__name__)
CHUNK = 1 << 16
TOO_MANY_REQUESTS, SERVER_ERROR = 429, 500


class Refused(Exception):
    """A download that failed, with the reason in words."""


class _Limited:
    """A file that takes no more than the settings allow, and nothing once the download is given up."""

    def __init__(self, file: IO[bytes], settings: Fetch) -> None:
        self.given_up = False
        self._file = file
        self._left = settings.max_bytes
        self._settings = settings

    def write(self, chunk: bytes) -> None:
        """Write what came: a server may send for ever, or what it packed for the way alone."""
        if self.given_up:
            raise Refused("given up")
        self._left -= len(chunk)
        if self._left < 0:
            raise _too_large(self._settings)
        self._file.write(chunk)

    def flush(self) -> None:
        """Leave it to the file, which is closed when all is there."""

    def check(self, answer: requests.Response, **_: Any) -> None:
        """Refuse an answer by the length that it states."""
        if answer.is_redirect:
            answer.close()  # what it says beside the address would be read to its end, and may have none
            return
        length = answer.headers.get("Content-Length", "0").strip()
        if not (length.isascii() and length.isdigit()):
            raise Refused(f"malformed answer: Content-Length {length[:40]!r}")
        if int(length) > self._settings.max_bytes:
            raise _too_large(self._settings, f", it would be {int(length):,}")


def _too_large(settings: Fetch, rest: str = "") -> Refused:
    return Refused(f"larger than {settings.max_bytes:,} bytes (fetch.max_bytes){rest}")


def download(url: str, target: Path, settings: Fetch) -> None:
    """Download one URL to a file, trying again where that may help; where it fails, what the file has is not whole.

    Raises
    ------
    Refused
        It failed: the address or the answer is malformed, or the download takes longer or is larger than the settings
        allow, say.
    OSError
        The file cannot be written.
    """
    import_module("requests")  # pooch would, where the time already runs, and on a busy machine that takes seconds
    end = time.monotonic() + settings.max_seconds
    reason = ""
    for attempt in range(settings.retries + 1):
        if attempt:
            pause = min(0.25 * 2**attempt, 8)
            if time.monotonic() + pause >= end:
                break
            time.sleep(pause)
            log.info("trying %s again (%s)", url, reason)
        else:
            log.info("downloading %s", url)
        failed, may_help = _attempt(url, target, settings, end - time.monotonic())
        if failed is None:
            return
        reason = failed
        if not may_help:
            break
    raise Refused(reason)


def _attempt(url: str, target: Path, settings: Fetch, seconds: float) -> tuple[str | None, bool]:
    """Try once; return the reason where it failed, and whether another time may help."""
    with target.open("wb") as file:
        limited = _Limited(file, settings)
        downloader = pooch.HTTPDownloader(
            # what it draws is for people; a log gets lines
            progressbar=sys.stderr.isatty(),
            chunk_size=CHUNK,
            timeout=settings.timeout,
            headers={"Accept-Encoding": "identity"},
            hooks={"response": limited.check},
        )
        try:
            if _ends_within(seconds, lambda: downloader(url, limited, None)):
                return None, False
        except Exception as error:
            if reason := _lasting(error, url):
                return reason, False
            if reason := _passing(error, url, settings):
                return reason, True
            raise
        limited.given_up = True
    return f"not done in {settings.max_seconds:g} s (fetch.max_seconds)", False


def _ends_within(seconds: float, work: Callable[[], None]) -> bool:
    """Run something in a thread, which is left alone where it does not end in time; raise what it raises.

    Only so is the limit one in all: a socket's time-out starts again with each byte, those of the header among them,
    and looking up a name has none.
    """
    raised: list[Exception] = []

    def run() -> None:
        try:
            work()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(min(max(seconds, 0.0), threading.TIMEOUT_MAX))
    if thread.is_alive():
        return False
    if raised:
        raise raised[0]
    return True


def _lasting(error: Exception, url: str) -> str | None:
    """Return why a download failed where it would again; else None."""
    import requests  # slow to import, and only needed here

    reason = None
    match error:
        case Refused():
            reason = str(error)
        case requests.HTTPError(response=answer) if answer is not None:
            passing = answer.status_code >= SERVER_ERROR or answer.status_code == TOO_MANY_REQUESTS
            reason = None if passing else f"HTTP {answer.status_code} {answer.reason}"
        case requests.TooManyRedirects():
            reason = f"it leads in a circle: {error}"
        case requests.exceptions.InvalidHeader() | requests.exceptions.ContentDecodingError():
            reason = f"malformed answer: {_said(error)}"
        case ValueError():  # which requests' own are too, of an address
            reason = flaw_of_proxy(url) or f"malformed address: {error}"
        case requests.exceptions.SSLError() if isinstance(inner := _innermost(error), ssl.SSLCertVerificationError):
            reason = f"the server's certificate is not trusted ({inner.verify_message}) by {what_is_trusted()}"
        case requests.exceptions.SSLError():
            reason = flaw_of_bundle()
        case OSError(errno=None) if not isinstance(error, requests.RequestException):  # no file's of this machine
            reason = flaw_of_bundle()
    return reason


def _passing(error: Exception, url: str, settings: Fetch) -> str | None:
    """Return why a download failed where it may do another time; None where it is no matter of the network."""
    import requests

    text, reason = str(error), None
    match error:
        case requests.HTTPError(response=answer) if answer is not None:
            reason = f"HTTP {answer.status_code} {answer.reason}"
        case requests.Timeout():
            reason = f"no answer in {settings.timeout:g} s"
        case requests.exceptions.ProxyError():
            reason = f"no connection to the proxy {proxy_of(url)} ({_said(error)})"
        case requests.RequestException() if "Read timed out" in text:
            reason = f"stalled: not a byte in {settings.timeout:g} s"
        case requests.RequestException() if "IncompleteRead" in text:
            reason = f"cut off before the end ({_said(error)})"
        case requests.RequestException():
            reason = f"no connection ({_said(error)})"
    return reason


def _innermost(error: BaseException) -> BaseException:
    """Return the bottom of a chain of exceptions: the upper ones only repeat in brackets what it says."""
    below = error.__cause__ or error.__context__
    return error if below is None else _innermost(below)


def _said(error: BaseException) -> str:
    return str(_innermost(error)) or type(_innermost(error)).__name__


def check_unpacked(path: Path, settings: Fetch) -> None:
    """Refuse a packed file that is too large once it is unpacked; nothing of it is kept.

    Raises
    ------
    ReproError
        It is. One that is damaged is left to its reader.
    """
    left = settings.max_bytes
    try:
        with _open(path) as stream:
            while chunk := stream.read(CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise ReproError(
                        "the file is too large once it is unpacked",
                        where=path,
                        expected=f"at most {settings.max_bytes:,} bytes (fetch.max_bytes)",
                        actual=f"more, from {path.stat().st_size:,}",
                    )
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile):
        return


def _open(path: Path) -> IO[bytes] | gzip.GzipFile | lzma.LZMAFile:
    """Open a file for what is packed in it, as its first bytes say."""
    with path.open("rb") as file:
        start = file.read(6)
    if start[:2] == b"\x1f\x8b":
        return gzip.open(path)
    return lzma.open(path) if start == b"\xfd7zXZ\x00" else path.open("rb")


PREFIX = ".partial-"
#: Seconds within which a folder that was just made gets its lock.
YOUNG = 60.0


@contextmanager
def partial_folder(beside: Path) -> Iterator[Path]:
    """Make a folder in `beside` that is removed at the end, and remove those that killed processes left there.

    A folder is locked while its process lives: so one whose process is gone, here or on another machine, can be told.
    """
    remove_leftovers(beside)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=beside) as folder, ExitStack() as held:
        with suppress(OSError):  # where a file system has no locks, nobody takes a folder for a leftover either
            held.enter_context(_locked(Path(folder)))
        yield Path(folder)


def remove_leftovers(beside: Path) -> None:
    """Remove the folders in `beside` that no process fills any more."""
    for folder in beside.glob(f"{PREFIX}*"):
        # what cannot be looked at or removed is in nobody's way
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > YOUNG:
                with _locked(folder):
                    shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, or raise OSError where another process has it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


T = TypeVar("T")


@dataclass(frozen=True)
class Address:
    """One place on the network that has all parts of a file.

    Attributes
    ----------
    urls
        One for each part.
    member
        Path inside the archive that the (only) URL leads to; None where it leads to the file itself.
    details
        What the record of a download keeps beside the address.
    remark
        Said beside the reason when this address fails.
    """

    urls: tuple[str, ...]
    member: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""


@dataclass(frozen=True)
class Wanted:
    """A file, or several that belong together, and where it may be.

    Attributes
    ----------
    name
        The problem it is for.
    stem
        Its path in a mirror without suffixes, such as `suitesparse/Bai/mhd1280b`.
    suffixes
        The wrappings it may come in, each with one suffix for each part.
    addresses
        Called when neither the download folder nor a mirror has it: asking an index may need the network.
    """

    name: str
    stem: str
    suffixes: tuple[tuple[str, ...], ...]
    addresses: Callable[[], Iterable[Address]]

    @property
    def pattern(self) -> str:
        """The stem with all suffixes, for messages."""
        every = list(dict.fromkeys(suffix for parts in self.suffixes for suffix in parts))
        return self.stem + (every[0] if len(every) == 1 else "{" + ",".join(every) + "}")


@dataclass(frozen=True)
class Found(Generic[T]):
    """A file that is there, with its content.

    Attributes
    ----------
    paths
        The parts on this machine.
    address
        Where they came from: a URL, `mirror: ` and the path in it, or `put by hand: ` and the path.
    content
        What `read` made of them.
    details
        What the download's address said of itself, such as the index entry.
    """

    paths: tuple[Path, ...]
    address: str
    content: T
    details: Mapping[str, Any] = field(default_factory=dict)


class _Failures:
    """What was tried, and why it did not do."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.refused: list[str] = []

    def add(self, place: object, reason: object) -> None:
        """Note a place; where there is a file, and its content does not do, the reason is a `ReproError`."""
        if refused := isinstance(reason, ReproError):
            told = [f"expected {reason.expected}"] if reason.expected else []
            told += [f"found {reason.actual}"] if reason.actual else []
            reason = ", ".join([reason.what, *told])
        self.lines.append(f"{place}: {reason}")
        if refused:
            self.refused.append(self.lines[-1])

    def listed(self) -> str:
        """All places, one line each."""
        return "".join(f"\n    {line}" for line in self.lines)


def obtain(wanted: Wanted, settings: Fetch, read: Callable[[tuple[Path, ...]], T]) -> Found[T]:
    """Find a file or download it, and read it.

    Parameters
    ----------
    wanted
        What to look for and where.
    settings
        Download folder, mirrors, limits and retries; the environment variable `REPRO_MIRROR` comes before the
        mirrors given here.
    read
        Reads the parts and checks the content; a `ReproError` makes the next candidate be tried.

    Raises
    ------
    ReproError
        No candidate did. The message names each address and path tried with its reason, and where to put the
        file by hand.
    """
    failures = _Failures()
    if obtained := _look(wanted, settings, read, failures):
        return obtained
    for address in wanted.addresses():
        suffixes = _suffixes_of(address, wanted)
        if obtained := _download_all(wanted, address, suffixes, settings, read, failures):
            return obtained
    raise ReproError(
        f"{wanted.name} could not be fetched",
        expected=f"the file at one of {len(failures.lines)} places",
        actual=failures.listed(),
        todo=_by_hand(wanted, settings),
    )


def obtain_or_make(
    wanted: Wanted, settings: Fetch, read: Callable[[tuple[Path, ...]], T], make: Callable[[], Found[T]]
) -> Found[T]:
    """Find a file in the download folder or a mirror, else make what would be in it.

    Parameters
    ----------
    wanted, settings, read
        As for `obtain`; there are no addresses.
    make
        Makes it on this machine.

    Raises
    ------
    ReproError
        It is not there, and making it failed. The message is the latter's, with each path tried and its reason.
    """
    failures = _Failures()
    if obtained := _look(wanted, settings, read, failures):
        return obtained
    for line in failures.refused:
        log.warning("%s: making it anew", line)
    try:
        return make()
    except ReproError as error:
        raise ReproError(
            error.what,
            where=error.where,
            expected=error.expected,
            actual=f"{error.actual or 'it failed'}; and it is not ready-made at{failures.listed()}",
            todo=f"{error.todo}; or {_by_hand(wanted, settings)}" if error.todo else _by_hand(wanted, settings),
        ) from error


def _look(
    wanted: Wanted, settings: Fetch, read: Callable[[tuple[Path, ...]], T], failures: _Failures
) -> Found[T] | None:
    """Look in the download folder and in the mirrors."""
    for place in [settings.cache, *mirrors(settings)]:
        obtained = (
            _from_web_mirror(wanted, place, settings, read, failures)
            if _is_url(place)
            else _from_folder(wanted, Path(place), Path(settings.cache), read, failures)
        )
        if obtained:
            return obtained
    return None


def _by_hand(wanted: Wanted, settings: Fetch) -> str:
    place = Path(settings.cache) / wanted.pattern
    return f"put the file at {place}, or name a mirror that has it in REPRO_MIRROR"


def mirrors(settings: Fetch) -> list[str]:
    """Return the mirrors, folders or URLs, in the order in which they are tried."""
    first = os.environ.get("REPRO_MIRROR", "")
    return list(dict.fromkeys([*([first] if first else []), *settings.mirrors]))


def _is_url(place: str) -> bool:
    return "://" in place  # also of a kind that is refused: it is no folder


def _from_folder(
    wanted: Wanted, folder: Path, cache: Path, read: Callable[[tuple[Path, ...]], T], failures: _Failures
) -> Found[T] | None:
    seen = False
    for suffixes in wanted.suffixes:
        paths = tuple(folder / f"{wanted.stem}{suffix}" for suffix in suffixes)
        if not all(path.is_file() for path in paths):
            continue
        seen = True
        try:
            content = read(paths)
        except ReproError as error:
            failures.add(paths[0], error)
            continue
        # what is recorded must not name this machine's folders: results are shared
        place = f"{wanted.stem}{suffixes[0]}"
        if folder != cache:
            return Found(paths, f"mirror: {place}", content)
        record = read_record(cache, wanted.name)
        address = record.get("address", f"put by hand: {place}")
        return Found(paths, address, content, record.get("details", {}))
    if not seen:
        failures.add(folder / wanted.pattern, "no such file")
    return None


def _from_web_mirror(
    wanted: Wanted, root: str, settings: Fetch, read: Callable[[tuple[Path, ...]], T], failures: _Failures
) -> Found[T] | None:
    for suffixes in wanted.suffixes:
        address = Address(tuple(f"{root.rstrip('/')}/{wanted.stem}{suffix}" for suffix in suffixes))
        if obtained := _download_all(wanted, address, suffixes, settings, read, failures):
            return obtained
    return None


def _suffixes_of(address: Address, wanted: Wanted) -> tuple[str, ...]:
    """Return the suffixes under which to keep what an address gives: those that its own name ends with."""
    names = [address.member] if address.member else address.urls
    for suffixes in sorted(wanted.suffixes, key=lambda parts: -len(parts[0])):
        if all(name.endswith(suffix) for name, suffix in zip(names, suffixes, strict=True)):
            return suffixes
    return wanted.suffixes[0]


def _download_all(
    wanted: Wanted,
    address: Address,
    suffixes: Sequence[str],
    settings: Fetch,
    read: Callable[[tuple[Path, ...]], T],
    failures: _Failures,
) -> Found[T] | None:
    """Download all parts into a folder of their own, read them, and only then move them into the cache, if at all."""
    cache = Path(settings.cache)
    target = (cache / wanted.stem).parent
    name = Path(wanted.stem).name
    url = address.urls[0]
    try:
        target.mkdir(parents=True, exist_ok=True)
        with partial_folder(target) as folder:
            partial: list[Path] = []
            for url, suffix in zip(address.urls, suffixes, strict=True):
                file = folder / f"{name}{suffix}"
                download(url, file, settings)
                check_unpacked(file, settings)
                partial.append(_unwrap(file, address.member))
                if address.member is not None:  # which may be packed again
                    check_unpacked(partial[-1], settings)
            content = read(tuple(partial))
            for file in partial if settings.keep else ():  # else it goes with its folder
                file.replace(target / file.name)
            paths = tuple(target / file.name for file in partial)
    except (ReproError, Refused) as error:
        failures.add(url, error)
        if address.remark:
            failures.lines[-1] += f" ({address.remark})"
        return None
    except OSError as error:
        raise ReproError(
            "cannot write to the download folder",
            where=target,
            actual=error,
            todo="make room and allow writing there, or set fetch.cache to another folder",
        ) from None
    details = dict(address.details)
    update_record(cache, wanted.name, {"address": address.urls[0], "fetched_at": now(), "details": details})
    return Found(paths, address.urls[0], content, details)


def _unwrap(file: Path, member: str | None) -> Path:
    """Take the member out of an archive, and drop a `.gz` from the name of a file that the server unpacked."""
    if member is not None:
        file.write_bytes(unpack(file, member))
    elif file.suffix == ".gz":
        with file.open("rb") as stream:
            packed = stream.read(2) == b"\x1f\x8b"
        if not packed:
            return file.rename(file.with_suffix(""))
    return file
