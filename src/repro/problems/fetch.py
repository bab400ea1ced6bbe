"""Getting files: from the download folder, from mirrors, and from their own addresses, in this order.

All three have one layout, `suitesparse/<group>/<name>.mtx.gz` and so on, so a file put into the download folder by
hand is as good as a downloaded one. A candidate counts only once its content has been read and checked; a mirror
that serves something else does not hide the next one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from repro.config.models import Fetch
from repro.errors import ReproError
from repro.problems.content import now, read_record, unpack, update_record
from repro.problems.download import Refused, check_unpacked, download
from repro.problems.partial import partial_folder

T = TypeVar("T")
log = logging.getLogger(__name__)


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
