"""Downloading one file: within a time and a size, again where that may help, and with a reason where it fails."""

from __future__ import annotations

import gzip
import logging
import lzma
import ssl
import sys
import threading
import time
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pooch

from repro.config.models import Fetch
from repro.errors import ReproError
from repro.problems.network import flaw_of_bundle, flaw_of_proxy, proxy_of, what_is_trusted

if TYPE_CHECKING:
    import requests

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
