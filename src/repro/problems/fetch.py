"""Obtains input files from the download folder, from mirrors, or from their original URLs, in this order.

The download folder and mirrors use equal paths, such as `suitesparse/<group>/<name>.mtx.gz`, so that a user may put
files into the download folder by hand. A file is accepted only after its content was read and checked. Downloads are
limited in time and size, repeated after transient errors, and kept in a temporary folder until they are complete.
"""

from __future__ import annotations

import errno
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
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

from repro.config.models import Fetch
from repro.errors import ReproError
from repro.filesystem import try_lock
from repro.problems.files import read_record, timestamp, unpack, update_record

if TYPE_CHECKING:
    import requests


#: Environment variables that replace the certificates of the package certifi in requests.
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def flaw_of_environment(url: str) -> str | None:
    """Return the problem with certificates or proxy set in environment variables, or None if there is none."""
    return flaw_of_bundle() or flaw_of_proxy(url)


def certificates_variable() -> str:
    """Return the environment variable for certificates as `NAME=path`, or words on the default if none is set."""
    bundle = _bundle()
    return "=".join(bundle) if bundle else f"the certificates of the package certifi; {BUNDLES[0]} names others"


def flaw_of_bundle() -> str | None:
    """Return the problem with the certificate file set in an environment variable; folders are not checked."""
    bundle = _bundle()
    if bundle is None:
        return None
    path = bundle[1]
    try:
        ssl.create_default_context(cafile=None if Path(path).is_dir() else path, capath=path)
    except OSError as error:
        return f"no certificates in {certificates_variable()} ({error.strerror or error})"
    return None


def _bundle() -> tuple[str, str] | None:
    return next(((name, os.environ[name]) for name in BUNDLES if os.environ.get(name)), None)


def proxy_of(url: str) -> str | None:
    """Return the environment's proxy for a URL as `NAME=value`, with user and password removed."""
    value = _proxy_value(url)
    if value is None:
        return None
    names = (f"{url.partition(':')[0].lower()}_proxy", "all_proxy")
    name = next((name for name in os.environ if name.lower() in names and os.environ[name] == value), "proxy")
    credentials, separator, host = value.rpartition("@")
    scheme, slashes, _ = credentials.partition("://")
    return f"{name}={scheme + slashes if slashes else ''}{host}" if separator else f"{name}={value}"


def flaw_of_proxy(url: str) -> str | None:
    """Return why the environment's proxy for a URL is invalid; None if it is valid."""
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
        # The message of urllib3 would show the proxy's password.
        reason = str(error) if "SOCKS" in str(error) else "an address such as http://proxy.example:3128 is expected"
    return f"malformed proxy {proxy_of(url)}: {reason}" if reason else None


def _proxy_value(url: str) -> str | None:
    from requests.utils import get_environ_proxies, select_proxy

    try:
        return select_proxy(url, get_environ_proxies(url)) or None
    except ValueError:  # the URL is malformed
        return None


log = logging.getLogger(__name__)
CHUNK = 1 << 16
OK, PARTIAL, RANGE_NOT_SATISFIABLE, TOO_MANY_REQUESTS, SERVER_ERROR = 200, 206, 416, 429, 500


class Refused(Exception):
    """A download failed; the message states the reason."""


class _Limited:
    """A file that raises an error after too many bytes, or after the download was abandoned. It keeps what arrived, so
    that the next request can ask for the rest.
    """

    def __init__(self, file: IO[bytes], fetch_settings: Fetch) -> None:
        self.given_up = False
        #: Seconds after which the server wants to be asked again.
        self.pause = 0.0
        self._file = file
        self._left = fetch_settings.max_bytes
        self._settings = fetch_settings
        self._version: str | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers of a request: for the rest of the file, if the server can tell whether it changed."""
        size = self._file.tell()
        rest = {"Range": f"bytes={size}-", "If-Range": self._version} if size and self._version else {}
        return {"Accept-Encoding": "identity", **rest}

    def write(self, chunk: bytes) -> None:
        """Write a chunk and check the size, since a server may send endless or compressed data."""
        if self.given_up:
            raise Refused("the download was abandoned")
        self._left -= len(chunk)
        if self._left < 0:
            raise _too_large(self._settings)
        self._file.write(chunk)

    def flush(self) -> None:
        """Do nothing; the file is flushed when it is closed."""

    def check(self, answer: requests.Response, **_: Any) -> None:
        """Reject a response whose stated length exceeds the limit; begin anew unless it continues the file."""
        from urllib3.exceptions import HTTPError  # slow to import
        from urllib3.util import Retry

        if answer.is_redirect:
            answer.close()  # otherwise the package requests reads the body of a redirect, which may be endless
            return
        with suppress(ValueError, HTTPError):  # a malformed header is ignored
            self.pause = Retry().parse_retry_after(answer.headers.get("Retry-After", "0"))
        size = self._file.tell()
        continues = answer.headers.get("Content-Range", "").startswith(f"bytes {size}-")
        if answer.status_code == PARTIAL and not continues:
            raise Refused("malformed answer: Content-Range is not the range that was asked for")
        if answer.status_code in (OK, RANGE_NOT_SATISFIABLE):
            if size:
                self._file.seek(0)
                self._file.truncate()
            self._left = self._settings.max_bytes
            tag = answer.headers.get("ETag", "W/")
            self._version = answer.headers.get("Last-Modified") if tag.startswith("W/") else tag
        length = answer.headers.get("Content-Length", "0").strip()
        if not (length.isascii() and length.isdigit()):
            raise Refused(f"malformed answer: Content-Length {length[:40]!r}")
        if int(length) > self._left:
            raise _too_large(self._settings, f", it would be {int(length):,}")


def _too_large(fetch_settings: Fetch, addition: str = "") -> Refused:
    return Refused(f"larger than {fetch_settings.max_bytes:,} bytes (fetch.max_bytes){addition}")


def download(url: str, target: Path, fetch_settings: Fetch) -> None:
    """Download one URL to a file, with retries; if an error is raised, the file is incomplete.

    Raises
    ------
    Refused
        The address or answer is malformed, takes longer or is larger than the settings allow, or the server refuses.
    OSError
        The file cannot be written.
    """
    import pooch

    import_module("requests")  # slow import, outside of the timeout
    end = time.monotonic() + fetch_settings.max_seconds
    reason, pause = "", 0.0
    with target.open("wb") as file:
        limited_file = _Limited(file, fetch_settings)
        for attempt in range(fetch_settings.retries + 1):
            if time.monotonic() + pause >= end:
                reason += f"; the server asks to wait {pause:,.0f} s" * (limited_file.pause > 0)
                break
            time.sleep(pause)
            log.info("%s %s%s", "trying" if attempt else "downloading", url, f" again ({reason})" * (attempt > 0))
            downloader = pooch.HTTPDownloader(
                # Progress bars are for terminals; log files get lines instead.
                progressbar=sys.stderr.isatty(),
                chunk_size=CHUNK,
                timeout=fetch_settings.timeout,
                headers=limited_file.headers(),
                hooks={"response": limited_file.check},
            )
            try:
                if _finishes_in_time(end - time.monotonic(), partial(downloader, url, limited_file, None)):
                    return
            except Exception as error:
                if lasting_reason := _lasting_reason(error, url):
                    raise Refused(lasting_reason) from error
                if not (passing_reason := _passing_reason(error, url, fetch_settings)):
                    raise
                reason = passing_reason
            else:
                limited_file.given_up = True
                reason = f"not done in {fetch_settings.max_seconds:g} s (fetch.max_seconds)"
                break
            pause = max(min(0.5 * 2**attempt, 8), limited_file.pause)
    raise Refused(reason)


def _finishes_in_time(seconds: float, work: Callable[[], None]) -> bool:
    """Run a function in a thread for at most `seconds`, then abandon the thread; return whether the function ended.

    An exception of the function is raised here. Timeouts of sockets do not suffice: they restart with each received
    byte and do not apply to name resolution.
    """
    errors: list[Exception] = []

    def run() -> None:
        try:
            work()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(min(max(seconds, 0.0), threading.TIMEOUT_MAX))
    if thread.is_alive():
        return False
    if errors:
        raise errors[0]
    return True


def _lasting_reason(error: Exception, url: str) -> str | None:
    """Return the reason if the error is permanent, else None."""
    import requests  # slow to import, and only needed here

    reason = None
    match error:
        case Refused():
            reason = str(error)
        case requests.HTTPError(response=answer) if answer is not None:
            passing = answer.status_code >= SERVER_ERROR or answer.status_code in (
                RANGE_NOT_SATISFIABLE,
                TOO_MANY_REQUESTS,
            )
            reason = None if passing else f"HTTP {answer.status_code} {answer.reason}"
        case requests.TooManyRedirects():
            reason = f"it leads in a circle: {error}"
        case requests.exceptions.InvalidHeader() | requests.exceptions.ContentDecodingError():
            reason = f"malformed answer: {_reason(error)}"
        case ValueError():  # requests raises it for invalid URLs
            reason = flaw_of_proxy(url) or f"malformed address: {error}"
        case requests.exceptions.SSLError() if isinstance(inner := _innermost(error), ssl.SSLCertVerificationError):
            reason = f"the server's certificate is not trusted ({inner.verify_message}) by {certificates_variable()}"
        case requests.exceptions.SSLError():
            reason = flaw_of_bundle()
        # network errors only, not errors of local files
        case OSError(errno=None) if not isinstance(error, requests.RequestException):
            reason = flaw_of_bundle()
    return reason


def _passing_reason(error: Exception, url: str, fetch_settings: Fetch) -> str | None:
    """Return the reason if the error is a transient network failure, else None."""
    import requests

    text, reason = str(error), None
    match error:
        case requests.HTTPError(response=answer) if answer is not None:
            reason = f"HTTP {answer.status_code} {answer.reason}"
        case requests.Timeout():
            reason = f"no answer in {fetch_settings.timeout:g} s"
        case requests.exceptions.ProxyError():
            reason = f"no connection to the proxy {proxy_of(url)} ({_reason(error)})"
        case requests.RequestException() if "Read timed out" in text:
            reason = f"stalled: not a byte in {fetch_settings.timeout:g} s"
        case requests.RequestException() if "IncompleteRead" in text:
            reason = f"cut off before the end ({_reason(error)})"
        case requests.RequestException():
            reason = f"no connection ({_reason(error)})"
    return reason


def _innermost(error: BaseException) -> BaseException:
    """Return the innermost exception of a chain, since outer exceptions only repeat its message."""
    cause = error.__cause__ or error.__context__
    return error if cause is None else _innermost(cause)


def _reason(error: BaseException) -> str:
    return str(_innermost(error)) or type(_innermost(error)).__name__


def check_unpacked(path: Path, fetch_settings: Fetch) -> None:
    """Raise `ReproError` if a compressed file is too large when unpacked. Damaged files are left for the reader to
    report.
    """
    remaining = fetch_settings.max_bytes
    try:
        with _open(path) as stream:
            while chunk := stream.read(CHUNK):
                remaining -= len(chunk)
                if remaining < 0:
                    raise ReproError(
                        "the unpacked file is too large",
                        where=path,
                        expected=f"at most {fetch_settings.max_bytes:,} bytes (fetch.max_bytes)",
                        actual=f"more, from {path.stat().st_size:,}",
                    )
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile):
        return


def _open(path: Path) -> IO[bytes] | gzip.GzipFile | lzma.LZMAFile:
    """Open a file with the decompressor that its first bytes indicate."""
    with path.open("rb") as file:
        start = file.read(6)
    if start[:2] == b"\x1f\x8b":
        return gzip.open(path)
    return lzma.open(path) if start == b"\xfd7zXZ\x00" else path.open("rb")


PREFIX = ".partial-"
#: A temporary folder is locked at most this many seconds after its creation.
YOUNG = 60.0


@contextmanager
def partial_folder(neighbour: Path) -> Iterator[Path]:
    """Create a temporary folder in `neighbour`, and remove temporary folders of processes that were killed.

    The folder is locked while this process lives. Other machines with the same file system see the lock.
    """
    remove_leftovers(neighbour)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=neighbour) as folder, ExitStack() as stack:
        with suppress(OSError):  # if the file system has no locks, no folder is removed as a leftover
            stack.enter_context(_locked(Path(folder)))
        yield Path(folder)


def remove_leftovers(neighbour: Path) -> None:
    """Remove temporary folders in `neighbour` whose processes have ended."""
    for folder in neighbour.glob(f"{PREFIX}*"):
        # Keep a folder that cannot be removed; it does no harm.
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > YOUNG:
                with _locked(folder):
                    shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder; raise OSError if another process holds the lock."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not try_lock(handle):
            raise BlockingIOError(errno.EWOULDBLOCK, "another process has it", str(folder))
        yield
    finally:
        os.close(handle)


T = TypeVar("T")


@dataclass(frozen=True)
class Address:
    """Source of a file: one URL for each part."""

    urls: tuple[str, ...]
    #: Path inside the archive at the URL; None if the URL leads to the file itself.
    member: str | None = None
    #: Further data stored with the URL in the record of the download.
    details: Mapping[str, Any] = field(default_factory=dict)
    #: Text added to the error message if this source fails.
    remark: str = ""


@dataclass(frozen=True)
class Wanted:
    """A problem's input file, which may consist of several parts, and its possible sources."""

    name: str
    #: Path in the download folder and on mirrors, without suffixes, such as `suitesparse/Bai/mhd1280b`.
    stem: str
    #: Alternative packagings of the file; each has one suffix for each part.
    suffixes: tuple[tuple[str, ...], ...]
    #: Returns the original sources. Called only if the file is on no mirror, since this may need the network.
    addresses: Callable[[], Iterable[Address]]

    @property
    def pattern(self) -> str:
        """File path with all possible suffixes, for messages."""
        suffixes = list(dict.fromkeys(suffix for parts in self.suffixes for suffix in parts))
        return self.stem + (suffixes[0] if len(suffixes) == 1 else "{" + ",".join(suffixes) + "}")


@dataclass(frozen=True)
class Found(Generic[T]):
    """A file that was obtained, with its source and content."""

    paths: tuple[Path, ...]
    #: URL, or `mirror: ` and the path on the mirror, or `put by hand: ` and the path in the download folder.
    address: str
    #: Content as returned by the function `read`.
    content: T
    details: Mapping[str, Any] = field(default_factory=dict)


class _Failures:
    """Sources that were tried and failed, with the reasons."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.refused: list[str] = []

    def add(self, location: object, reason: object) -> None:
        """Add a failed source. The reason is a `ReproError` if a file was found but its content is wrong."""
        if is_refusal := isinstance(reason, ReproError):
            details = [f"expected {reason.expected}"] if reason.expected else []
            details += [f"found {reason.actual}"] if reason.actual else []
            reason = ", ".join([reason.what, *details])
        self.lines.append(f"{location}: {reason}")
        if is_refusal:
            self.refused.append(self.lines[-1])

    def listed(self) -> str:
        return "".join(f"\n    {line}" for line in self.lines)


def obtain(wanted_files: Wanted, fetch_settings: Fetch, read: Callable[[tuple[Path, ...]], T]) -> Found[T]:
    """Find or download a file, and read it.

    `read` checks the content of all parts; if it raises `ReproError`, the next source is tried. The environment
    variable `REPRO_MIRROR` names a mirror that is tried before the configured mirrors. Raises `ReproError`: no
    candidate was valid. The message lists each with its reason, and where to put the file by hand.
    """
    failures = _Failures()
    if found := _find_or_download(wanted_files, fetch_settings, read, failures):
        return found
    for address in wanted_files.addresses():
        suffixes = _suffixes_of(address, wanted_files)
        if found := _download_all(wanted_files, address, suffixes, fetch_settings, read, failures):
            return found
    raise ReproError(
        f"{wanted_files.name} could not be fetched",
        expected=f"the file at one of {len(failures.lines)} places",
        actual=failures.listed(),
        todo=_manual_instructions(wanted_files, fetch_settings),
    )


def obtain_or_make(
    wanted_files: Wanted, fetch_settings: Fetch, read: Callable[[tuple[Path, ...]], T], make: Callable[[], Found[T]]
) -> Found[T]:
    """Obtain a file that has no URL; if it is neither in the download folder nor on a mirror, call `make`."""
    failures = _Failures()
    if found := _find_or_download(wanted_files, fetch_settings, read, failures):
        return found
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
            todo=f"{error.todo}; or {_manual_instructions(wanted_files, fetch_settings)}"
            if error.todo
            else _manual_instructions(wanted_files, fetch_settings),
        ) from error


def _find_or_download(
    wanted_files: Wanted, fetch_settings: Fetch, read: Callable[[tuple[Path, ...]], T], failures: _Failures
) -> Found[T] | None:
    for location in [fetch_settings.cache, *mirrors(fetch_settings)]:
        if "://" in location:  # a URL of any scheme, not a folder
            for suffixes in wanted_files.suffixes:
                address = Address(tuple(f"{location.rstrip('/')}/{wanted_files.stem}{suffix}" for suffix in suffixes))
                if found := _download_all(wanted_files, address, suffixes, fetch_settings, read, failures):
                    return found
        elif found := _from_folder(wanted_files, Path(location), Path(fetch_settings.cache), read, failures):
            return found
    return None


def _manual_instructions(wanted_files: Wanted, fetch_settings: Fetch) -> str:
    location = Path(fetch_settings.cache) / wanted_files.pattern
    return f"put the file at {location}, or name a mirror that has it in REPRO_MIRROR"


def mirrors(fetch_settings: Fetch) -> list[str]:
    """Return all mirrors, which are folders or URLs, in the order in which they are tried.

    A configured mirror such as `$REPRO_MIRROR` is the value of this environment variable.
    """
    locations = [
        os.environ.get(location[1:], "") if location.startswith("$") else location
        for location in fetch_settings.mirrors
    ]
    return [*dict.fromkeys(location for location in (os.environ.get("REPRO_MIRROR", ""), *locations) if location)]


def check_mirrors(fetch_settings: Fetch) -> None:
    """Raise `ReproError` if a configured mirror is an environment variable that is not set, or names no folder."""
    for variable in (location for location in fetch_settings.mirrors if location.startswith("$")):
        location = os.environ.get(variable[1:], "")
        if "://" not in location and not Path(location or "/dev/null").is_dir():
            raise ReproError(
                f"the configuration needs a mirror, but {variable[1:]} is not set",
                where="fetch.mirrors",
                expected="a folder or a URL with the input files",
                actual=location or "the variable is not set",
                todo=f'export {variable[1:]}=FOLDER; docs/campaigns.md, "A mirror", says what lies where',
            )


def _from_folder(
    wanted_files: Wanted, folder: Path, cache: Path, read: Callable[[tuple[Path, ...]], T], failures: _Failures
) -> Found[T] | None:
    has_candidate = False
    for suffixes in wanted_files.suffixes:
        paths = tuple(folder / f"{wanted_files.stem}{suffix}" for suffix in suffixes)
        if not all(path.is_file() for path in paths):
            continue
        has_candidate = True
        try:
            content = read(paths)
        except ReproError as error:
            failures.add(paths[0], error)
            continue
        # Records are shared between machines, so they must not contain local paths.
        location = f"{wanted_files.stem}{suffixes[0]}"
        if folder != cache:
            return Found(paths, f"mirror: {location}", content)
        record = read_record(cache, wanted_files.name)
        address = record.get("address", f"put by hand: {location}")
        return Found(paths, address, content, record.get("details", {}))
    if not has_candidate:
        failures.add(folder / wanted_files.pattern, "no such file")
    return None


def _suffixes_of(address: Address, wanted_files: Wanted) -> tuple[str, ...]:
    names = [address.member] if address.member else address.urls
    for suffixes in sorted(wanted_files.suffixes, key=lambda parts: -len(parts[0])):
        if all(name.endswith(suffix) for name, suffix in zip(names, suffixes, strict=True)):
            return suffixes
    return wanted_files.suffixes[0]


def _download_all(
    wanted_files: Wanted,
    address: Address,
    suffixes: Sequence[str],
    fetch_settings: Fetch,
    read: Callable[[tuple[Path, ...]], T],
    failures: _Failures,
) -> Found[T] | None:
    """Download all parts into a temporary folder and read them; if downloads are kept, move them to the download
    folder.
    """
    cache = Path(fetch_settings.cache)
    target = (cache / wanted_files.stem).parent
    name = Path(wanted_files.stem).name
    url = address.urls[0]
    try:
        target.mkdir(parents=True, exist_ok=True)
        with partial_folder(target) as folder:
            partial: list[Path] = []
            for url, suffix in zip(address.urls, suffixes, strict=True):
                file = folder / f"{name}{suffix}"
                download(url, file, fetch_settings)
                check_unpacked(file, fetch_settings)
                partial.append(_unwrap(file, address.member))
                if address.member is not None:  # a file in an archive may be compressed too
                    check_unpacked(partial[-1], fetch_settings)
            content = read(tuple(partial))
            # if not kept, the files vanish with the temporary folder
            for file in partial if fetch_settings.keep else ():
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
            todo="free some space and allow writing there, or set fetch.cache to another folder",
        ) from None
    details = dict(address.details)
    update_record(cache, wanted_files.name, {"address": address.urls[0], "fetched_at": timestamp(), "details": details})
    return Found(paths, address.urls[0], content, details)


def _unwrap(file: Path, member: str | None) -> Path:
    """Extract a file from an archive, and remove the suffix `.gz` if the server has already decompressed the file."""
    if member is not None:
        file.write_bytes(unpack(file, member))
    elif file.suffix == ".gz":
        with file.open("rb") as stream:
            is_compressed = stream.read(2) == b"\x1f\x8b"
        if not is_compressed:
            return file.rename(file.with_suffix(""))
    return file
