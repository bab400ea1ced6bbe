"""What the runnables of one problem in one precision share on the devices: operands, programs, guarded memory.

Memory that a kernel writes has guard zones: bytes before and behind it that reveal a write out of bounds.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError, ModuleError, Operands, Unsupported
from repro.codegen.build_cache import MODULES, DamagedBinary, Module, check_binary
from repro.codegen.templates import COMMON
from repro.devices.base import PART_ALIGNMENT, Buffer, Device, OutOfDeviceMemory, Program
from repro.devices.device_group import Devices
from repro.errors import ReproError

#: Bytes on each side: as far as a block of threads reaches that is one off. Neither they nor any part of them is a
#: number that a kernel would write.
ZONE = 4096
BYTE = 0xA5


class Guarded:
    """Device memory between two guard zones.

    Parameters
    ----------
    device
        Where it is.
    nbytes
        As many as may be written; the zone behind starts with the very next one.
    name
        What it is to who writes it: `its result`.

    Attributes
    ----------
    memory
        The memory, aligned to `PART_ALIGNMENT`.

    Raises
    ------
    OutOfDeviceMemory
    """

    def __init__(self, device: Device, nbytes: int, name: str) -> None:
        self._device, self._name = device, name
        end = ZONE + nbytes
        behind = end // PART_ALIGNMENT * PART_ALIGNMENT  # a part cannot start at any byte
        self._written = end - behind
        self._whole: Buffer | None = device.allocate(behind + PART_ALIGNMENT + ZONE)
        self._parts: list[Buffer] = []
        try:
            for offset, size in ((ZONE, nbytes), (0, ZONE), (behind, PART_ALIGNMENT + ZONE)):
                self._parts.append(device.part(self._whole, offset, size))
            self.memory, self._before, self._behind = self._parts
            self.arm()
        except Exception:
            self.release()
            raise

    @property
    def held(self) -> bool:
        """Whether it was not released yet."""
        return self._whole is not None

    def arm(self) -> None:
        """Put the zones in order; the last bytes of the memory itself, up to `PART_ALIGNMENT` of them, are lost."""
        for zone in (self._before, self._behind):
            self._device.fill(zone, BYTE)

    def out_of_bounds_writes(self) -> list[str]:
        """Wait for what is queued; return what was written outside, a line each side."""
        before, behind = (self._changed(zone) for zone in (self._before, self._behind))
        behind = behind[behind >= self._written] - self._written
        words = []
        if len(before):
            words.append(_words(len(before), ZONE - int(before[0]), "before the start"))
        if len(behind):
            words.append(_words(len(behind), int(behind[-1]) + 1, "past the end"))
        return [f"writes outside of {self._name}: {side}" for side in words]

    def part(self, offset: int, nbytes: int) -> Buffer:
        """Return some bytes of the memory as a buffer of their own, from a multiple of `PART_ALIGNMENT` on.

        Raises
        ------
        OutOfDeviceMemory
            The device does not take it for a buffer.
        """
        assert self._whole is not None, "not released yet"
        return self._device.part(self._whole, ZONE + offset, nbytes)  # no part of a part: OpenCL has none

    def _changed(self, zone: Buffer) -> NDArray[np.intp]:
        """Return which bytes of a zone are not what they were."""
        bytes_now = np.empty(zone.nbytes, np.uint8)
        self._device.download(zone, bytes_now)
        return np.flatnonzero(bytes_now != BYTE)

    def release(self) -> None:
        """Give the memory back; harmless a second time."""
        whole, self._whole = self._whole, None
        if whole is not None:
            for part in self._parts:
                part.release()
            whole.release()


class Guards:
    """All guarded memory of a workspace.

    Parameters
    ----------
    device
        Where it is, unless another is named.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._guarded: list[Guarded] = []

    def allocate(self, nbytes: int, name: str, device: Device | None = None) -> Guarded:
        """Return new, uninitialised memory between guard zones, looked after until it is released.

        Raises
        ------
        OutOfDeviceMemory
        """
        self._guarded = [guarded for guarded in self._guarded if guarded.held]
        self._guarded.append(Guarded(device or self._device, nbytes, name))
        return self._guarded[-1]

    def out_of_bounds_writes(self) -> list[str]:
        """Wait for what is queued; return what was written outside of all memory, and put those zones in order again.

        Raises
        ------
        LaunchError
            Something that was queued failed.
        """
        out_of_bounds_writes = []
        for guarded in self._guarded:
            outside = guarded.out_of_bounds_writes() if guarded.held else []
            if outside:
                guarded.arm()
            out_of_bounds_writes += outside
        return out_of_bounds_writes

    def check(self) -> None:
        """Do nothing if nothing was written outside.

        Raises
        ------
        IncorrectError
            Something was.
        LaunchError
            Something that was queued failed.
        """
        if out_of_bounds_writes := self.out_of_bounds_writes():
            raise IncorrectError("; ".join(out_of_bounds_writes))


def _words(count: int, reach: int, where: str) -> str:
    bytes_ = "1 byte" if count == 1 else f"{count} bytes"
    return f"{bytes_} {where}" + (f", within {reach} of it" if reach > count else "")


T = TypeVar("T")


@dataclass(frozen=True)
class Common:
    """The module that every campaign needs, loaded on the first device; its file, its source's hash, what made it."""

    program: Program
    binary: Path
    hash: str
    compiler: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class _Packed:
    """A packed operand on the host, and the seconds that it took."""

    packing: Hashable
    facts: Any
    arrays: Mapping[str, NDArray[Any]]
    seconds: float


class Workspace:
    """Operands with what runnables share of them on a device: packed arrays, loaded programs, buffers.

    Parameters
    ----------
    devices
        What to run on.
    operands
        What to run on it.
    modules
        The folder of compiled modules.
    resident
        How many packings, and programs, stay on the device. A search comes packing by packing and needs one; the
        attribute of that name is set before more are needed.
    say
        Told, a line at a time, what took seconds on the host beside what is measured.
    lend
        Lets others measure on the devices for as long as its body works on the host.
    turns
        How many processes take turns so, and share the devices' memory.

    Attributes
    ----------
    guards
        All memory of the devices that runnables write, between guard zones.
    packing_bytes
        Bytes that packings may take together; one that is larger is held alone. Set by a search, which prepares one
        runnable at a time, so that all other packings may give way. None: they may be in use, and their number counts.
    packed_seconds
        Seconds that packings took which `pack` made and `hold` then brought to the device.
    """

    def __init__(
        self,
        devices: Devices,
        operands: Operands,
        modules: Path = MODULES,
        resident: int = 1,
        say: Callable[[str], None] = lambda line: None,
        lend: Callable[[], AbstractContextManager[None]] = nullcontext,
        turns: int = 1,
    ) -> None:
        self.devices = devices
        self.operands = operands
        self.resident = resident
        self.say = say
        self.turns = turns
        self.packing_bytes: int | None = None
        self.packed_seconds = 0.0
        self.guards = Guards(devices.first)
        self._modules = modules
        self._lend = lend
        self._packed: _Packed | None = None
        self._packings: OrderedDict[Hashable, tuple[Any, dict[str, Buffer]]] = OrderedDict()
        self._refused: dict[Hashable, str] = {}
        self._programs: OrderedDict[tuple[int, Path], Program] = OrderedDict()
        self._buffers: dict[Hashable, Buffer] = {}
        self._written: dict[Hashable, Guarded] = {}
        self._facts: dict[Hashable, Any] = {}

    @property
    def device(self) -> Device:
        """The device, or the first of several."""
        return self.devices.first

    @cached_property
    def common(self) -> Common:
        """The common module, loaded at first use.

        Raises
        ------
        ReproError
            It is not compiled, does not compile, or is damaged.
        """
        manifest = self._modules / self.device.target.name / f"{COMMON}.json"
        module = Module.load(manifest)
        if module.binary is None:
            raise ReproError("the common module does not compile", where=manifest, actual=module.message)
        binary = manifest.parent / module.binary
        try:
            check_binary(binary)
        except DamagedBinary as damage:
            manifest.unlink()  # nothing can be measured without it: the next run has to make it
            raise ReproError(
                "the common module is damaged",
                where=manifest,
                actual=damage,
                todo="it is deleted: run the same command again, or `repro compile common`",
            ) from None
        return Common(self.device.load(binary), binary, module.hash, module.compiler, module.flags)

    def pack(self, packing: Hashable, pack: Callable[[], tuple[Any, Mapping[str, NDArray[Any]]]]) -> None:
        """Pack an operand on the host for `hold` to bring to the device next, unless it is resident.

        Others may measure on the devices meanwhile. What is refused is remembered, for `hold` to say; where the host
        has no memory for it, `hold` will find that out.

        Parameters
        ----------
        packing, pack
            As for `hold`.
        """
        if packing in self._refused or packing in self._packings or (self._packed and self._packed.packing == packing):
            return
        self._packed = None  # of what is packed here no more than one is kept
        with self._away(), suppress(Unsupported, MemoryError):
            start = time.perf_counter()
            facts, arrays = self._packed_now(packing, pack)
            self._packed = _Packed(packing, facts, arrays, time.perf_counter() - start)

    @contextmanager
    def _away(self) -> Iterator[None]:
        """Let others measure while the body works on the host; nothing of this process runs in their time."""
        self.devices.synchronize()
        with self._lend():
            yield

    def upload_packed(
        self, packing: Hashable, pack: Callable[[], tuple[T, Mapping[str, NDArray[Any]]]]
    ) -> tuple[T, dict[str, Buffer]]:
        """Return a packed operand with its arrays on the device, packed now unless it is, or is resident.

        Those that are longest out of use give way to a new one, once it is packed. A refusal is remembered: all
        schedules of a layout would pack for it again.

        Parameters
        ----------
        packing
            What it is packed as.
        pack
            Returns what is to be known of it on the host, and its arrays by name.

        Raises
        ------
        Unsupported
            As `pack` does, or did.
        OutOfDeviceMemory
        """
        if packing in self._refused:
            raise Unsupported(self._refused[packing])
        if packing not in self._packings:
            facts, arrays = self._taken(packing) or self._packed_now(packing, pack)
            self._make_room(sum(array.nbytes for array in arrays.values()))
            self._packings[packing] = facts, self._on_device(arrays)
        self._packings.move_to_end(packing)
        return self._packings[packing]

    def _taken(self, packing: Hashable) -> tuple[Any, Mapping[str, NDArray[Any]]] | None:
        """Return what is packed already, which is not kept any longer; None where that is another operand."""
        packed, self._packed = self._packed, None
        if packed is None or packed.packing != packing:
            return None
        self.packed_seconds += packed.seconds
        return packed.facts, packed.arrays

    def _packed_now(
        self, packing: Hashable, pack: Callable[[], tuple[T, Mapping[str, NDArray[Any]]]]
    ) -> tuple[T, Mapping[str, NDArray[Any]]]:
        """Return what is packed now; a refusal is remembered."""
        try:
            return pack()
        except Unsupported as refusal:
            self._refused[packing] = str(refusal)
            raise

    def _make_room(self, nbytes: int) -> None:
        """Give packings back, the one longest out of use first, until there is room for one of so many bytes."""
        while self._packings and (len(self._packings) >= self.resident or self._are_too_many(nbytes)):
            _release(self._packings.popitem(last=False)[1][1])

    def _are_too_many(self, nbytes: int) -> bool:
        """Return whether the packings take too many bytes together with one of so many."""
        held = sum(buffer.nbytes for _, buffers in self._packings.values() for buffer in buffers.values())
        return self.packing_bytes is not None and held + nbytes > self.packing_bytes

    def _on_device(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Buffer]:
        """Upload arrays; where there is no room for them, once more without the other packings."""
        try:
            return self._uploaded(arrays)
        except OutOfDeviceMemory:
            if self.packing_bytes is None or not self._packings:
                raise
        self.drop_packings()
        return self._uploaded(arrays)

    def _uploaded(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Buffer]:
        buffers: dict[str, Buffer] = {}
        try:
            for name, array in arrays.items():
                buffers[name] = self.device.upload(array)
        except Exception:
            _release(buffers)
            raise
        return buffers

    def drop_packings(self) -> None:
        """Give the memory of all packings back; no runnable that is prepared may hold one."""
        for _, buffers in self._packings.values():
            _release(buffers)
        self._packings.clear()
        self._packed = None

    def program(self, binary: Path, at: int = 0) -> Program:
        """Return a module, loaded on the device of that number.

        Raises
        ------
        ModuleError
            Its binary is not what was compiled.
        """
        key = at, binary
        if key not in self._programs:
            try:
                check_binary(binary)
            except DamagedBinary as damage:
                raise ModuleError(str(damage)) from None
            while len(self._programs) >= self.resident * len(self.devices):
                self._programs.popitem(last=False)
            self._programs[key] = self.devices[at].load(binary)
        return self._programs[key]

    def buffer(self, key: Hashable, make: Callable[[], Buffer]) -> Buffer:
        """Return device memory that runnables share under a key, made at first use and kept to the end."""
        if key not in self._buffers:
            self._buffers[key] = make()
        return self._buffers[key]

    def written(self, key: Hashable, nbytes: int, name: str) -> Buffer:
        """Return uninitialised memory that runnables share under a key to write to, between guard zones.

        Parameters
        ----------
        nbytes
            As many as a runnable may write: runnables that write fewer need a key of their own.
        name
            What it is to a runnable, for the message about a write outside of it: `its result`.
        """
        return self.guarded(key, nbytes, name).memory

    def guarded(self, key: Hashable, nbytes: int, name: str, at: int = 0) -> Guarded:
        """Return memory as `written` does, with its guard zones, on the device of that number."""
        if key not in self._written:
            self._written[key] = self.guards.allocate(nbytes, name, self.devices[at])
        return self._written[key]

    def fact(self, key: Hashable, compute: Callable[[], T], *, away: bool = False) -> T:
        """Return what runnables want to know of the operands under a key, computed at first use.

        Parameters
        ----------
        away
            Whether others may measure on the devices meanwhile.
        """
        if key not in self._facts:
            with self._away() if away else nullcontext():
                self._facts[key] = compute()
        value: T = self._facts[key]
        return value

    def release(self) -> None:
        """Give all device memory back."""
        self.drop_packings()
        _release(self._buffers)
        _release(self._written)
        self._programs.clear()
        self._buffers.clear()
        self._written.clear()


def _release(buffers: Mapping[Any, Buffer | Guarded]) -> None:
    for buffer in buffers.values():
        buffer.release()
