"""Base classes: runnables, which are verified and timed; the operands of a problem; and shared device memory."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.bench.guards import Guarded, Guards
from repro.bench.rows import OUTSIDE, ClockName
from repro.bench.variant_id import BaseId
from repro.bench.worker import ContextLost
from repro.codegen.build_cache import MODULES, DamagedBinary, Module, check_binary
from repro.codegen.templates import COMMON
from repro.containment import ENDING, Containment, text_of
from repro.devices.base import Buffer, Device, LaunchError, OutOfDeviceMemory, Program
from repro.devices.device_group import Devices
from repro.errors import ModuleError, ReproError, Unsupported
from repro.extensions import is_of_extension
from repro.words import EXTENDED, PAPER, PAPER_TUNED

#: Whose solutions of a task are compared by their energy (`Runnable.contender`); rivals have their own names.
OURS, PAPERS_TUNED, PAPERS, LIBRARY = CONTENDERS = ("ours", "papers_tuned", "papers", "library")
_BY_SPACE: Mapping[Any, str] = {EXTENDED: OURS, PAPER_TUNED: PAPERS_TUNED, PAPER: PAPERS}


class Runnable:
    """Base class of everything that is verified and timed.

    Calls come in this order: `compile`, `pack`, `prepare`, any number of `before`, `launch` and `result`, `release`.
    The first launch and one after the last timed launch are verified; `erase_result` is called before each of the two.

    Attributes
    ----------
    kind
        Kind in the row: `variant`, `baseline`, `solver`, `floor`, `copy`, `empty`, or a kind that the study defines.
    name
        Name in the row, unique for each problem and precision.
    clocks
        Clocks that can time the runnable: `event` or `host` for screening, and optionally others. The clock `graph` is
        impossible if `before` must restore an operand between launches. A launch that waits for the device can only use
        `host`.
    launch
        Function that queues one launch with all its operations, such as resetting a counter; set by `prepare`.
    stages
        Functions for the parts of a launch by name, in order, if there are several; together they equal `launch`. Set
        by `prepare`; the names are known before.
    cold
        Whether to time with a cold cache too; False if times do not depend on the cache or are very long.
    devices
        Number of devices to run on and to time, starting with the first device; 0 means all.
    bytes_moved
        Minimum number of bytes that a launch moves; 0 if unknown. Set by `prepare`.
    device_only
        Whether times depend only on the device, not on the problem; a batch then measures them once.
    before_is_free
        Whether `before` only frees the last result, so that launches repeated with it use the energy of launches.
    """

    kind: str
    name: str
    clocks: tuple[ClockName, ...] = ("event", "graph")
    launch: Callable[[], None]
    stages: Mapping[str, Callable[[], None]] = {}
    cold: bool = True
    devices: int = 1
    bytes_moved: int = 0
    device_only: bool = False
    before_is_free: bool = False

    @property
    def contender(self) -> tuple[str, str] | None:
        """A task, and whose solution of it this is: one of `CONTENDERS`, `floor`, or a rival's name.

        Of each, the energy of the fastest is measured (`Timing.energy_seconds`); None: never.
        """
        whose = {"baseline": LIBRARY, OUTSIDE: self.name}.get(self.kind)
        if self.kind == "variant":
            whose = _BY_SPACE.get(self.columns.get("space"))
        return ("", whose) if whose else None

    @property
    def columns(self) -> Mapping[str, Any]:
        """Additional columns of this runnable's row, either common columns or the study's own."""
        return {}

    @property
    def identity(self) -> str:
        """Text that distinguishes runnables with equal names, such as a module's hash or a library's version."""
        return self.name

    @property
    def on_demand(self) -> bool:
        """Whether `compile` has something to do."""
        return False

    def compile(self) -> None:
        """Compile a module that is compiled on demand. Several threads call it at once, each for another runnable."""

    def pack(self, workspace: Workspace) -> None:
        """Do what takes long on the host, such as `Workspace.upload_packed`, and lend the device to other processes.

        Errors appear in `prepare`.
        """

    def prepare(self, workspace: Workspace) -> None:
        """Upload operands to the device and run a library's own analysis.

        Raises
        ------
        Unsupported, ModuleError, OutOfDeviceMemory, LaunchError
        """

    def before(self) -> None:
        """Restore data that a launch overwrites; called before each launch and not timed."""

    def erase_result(self, workspace: Workspace) -> None:
        """Overwrite the last result, so that verification fails if a launch does not write a result, or adds to it."""

    @cached_property
    def containment(self) -> Containment | None:
        """What keeps its code apart from this process; None for our own runnables."""
        return Containment(self.name) if is_of_extension(type(self)) else None

    @property
    def remark(self) -> str | None:
        """What a row says beside times: what foreign code changed in this process."""
        return self.containment.message if self.containment else None

    @contextmanager
    def contained(self) -> Iterator[None]:
        """Call foreign code in the body; what it raises is its failure, and what it changes in this process is put
        back.

        Raises
        ------
        LaunchError
            It raised what is no error of a runnable, or changed what cannot be put back, so that only a new process can
            go on (`sticky`).
        """
        if (containment := self.containment) is None:
            yield
            return
        try:
            with self.kept_apart(containment):
                yield
        except (*ENDING, ContextLost):
            raise
        except BaseException as error:
            failure = self.failure_of(error)
            if containment.beyond_repair:
                raise LaunchError(f"{text_of(failure)}; {containment.beyond_repair}", sticky=True) from None
            if failure is error:
                raise
            raise failure from None
        if containment.beyond_repair:
            raise LaunchError(containment.beyond_repair, sticky=True)

    @contextmanager
    def kept_apart(self, containment: Containment) -> Iterator[None]:
        """Hold the state of the process during the body, and print what was printed behind the runnable's name."""
        lines = {*containment.lines}
        try:
            with containment.call():
                yield
        finally:
            for line in containment.lines:
                if line not in lines:
                    self.warn(f"{self.name}: {printed(line)}")

    def warn(self, message: str) -> None:
        """Print a remark on foreign code."""
        print(message, flush=True)

    def failure_of(self, error: BaseException) -> BaseException:
        """Return the error of a runnable for what foreign code raised."""
        if type(error).__module__.partition(".")[0] == "repro" or isinstance(error, MemoryError):
            return error
        return LaunchError(f"it raised {type(error).__name__}: {text_of(error)}")

    def rounds(self, launches: int) -> list[int]:
        """Split timed launches into rounds; `disturb` is called before each, and the result is verified after it."""
        return [launches]

    def disturb(self) -> str | None:
        """Change an operand, to reveal skipped launches; return what was changed, None if nothing was."""
        return None

    def as_left(self) -> AbstractContextManager[None]:
        """Let launches do nothing in the body, in which the result of the last timed launch is verified."""
        return nullcontext()

    def result(self) -> Any:
        """Return the result of a launch for `Operands.check`; None if there is nothing to verify."""
        return None

    def release(self) -> None:
        """Free the runnable's device memory; may be called before `prepare`."""


class Candidate(Runnable):
    """A runnable that takes part in a search: a variant.

    Attributes
    ----------
    id
        Id of the variant; `name` is this id as text. Needed only by a predicted search and by `Study.id_class`.
    space
        The search space, one of `repro.config.models.SPACES`.
    packing
        Key of the packed operand; candidates with equal keys share one packed operand on the device.
    group
        Group of the candidate, or None. The best candidates of each group are timed with the full protocol, for tables
        by group.
    """

    id: BaseId
    space: str
    packing: Hashable
    group: Hashable


def printed(line: str) -> str:
    return f"it prints: {line}"


def not_prepared() -> None:
    """Launch function of a runnable that is not prepared or was released."""
    raise RuntimeError("launched before it was prepared")


class Operands(Protocol):
    """Operands of one problem in one precision on the host, and the check of results.

    The study defines the type of a result: a vector, a matrix (pattern and values), or a state.
    """

    @property
    def precision(self) -> str:
        """`single` or `double`."""

    @property
    def checksum(self) -> str:
        """Hash of the problem and of the random operands together."""

    @property
    def min_bytes(self) -> tuple[int, int]:
        """Minimum bytes that any algorithm must read and write, if it touches each byte once."""

    @property
    def operations(self) -> int:
        """Minimum number of additions and multiplications of any algorithm."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """The study's columns that are equal in all rows of these operands."""

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Launch a prepared runnable once and return its largest error divided by the bound; None if nothing is
        verified.

        Raises
        ------
        IncorrectError
            The result is wrong.
        """


class VerifiedResults:
    """Errors of correct results; a result that equals an earlier correct one bit by bit is not compared again."""

    def __init__(self) -> None:
        self._errors: dict[tuple[Hashable, bytes], float] = {}

    def error(self, expected: Hashable, arrays: Iterable[NDArray[Any]], compare: Callable[[], float]) -> float:
        """Return the largest ratio of error to bound of the arrays of a result.

        Parameters
        ----------
        expected
            Key of the reference with which the arrays are compared.
        arrays
            The arrays of the result, of any shapes and types, always in the same order.
        compare
            Computes the ratio; it is called only if no equal arrays were compared with this reference before.
        """
        digest = hashlib.blake2b()
        for array in arrays:
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        key = expected, digest.digest()
        if key not in self._errors:
            self._errors[key] = compare()
        return self._errors[key]


T = TypeVar("T")


@dataclass(frozen=True)
class CommonModule:
    """The compiled module that every campaign uses, loaded on the first device."""

    program: Program
    binary: Path
    hash: str
    compiler: str
    flags: tuple[str, ...]


class Workspace:
    """Operands of a problem, and device memory that runnables share: packed operands, loaded programs, buffers.

    Parameters
    ----------
    modules
        Folder that contains the compiled modules.
    kept_packings
        Maximum number of packed operands, and of programs, on the device. In a search, candidates with equal packing
        follow each other, so 1 is enough; other steps increase this attribute.
    say
        Function that prints a message about slow work on the host.
    lend
        Context manager that lets other processes use the devices while this process works on the host.
    turns
        Number of processes that take turns on the devices and share device memory.
    """

    def __init__(
        self,
        devices: Devices,
        operands: Operands,
        modules: Path = MODULES,
        kept_packings: int = 1,
        say: Callable[[str], None] = lambda line: None,
        lend: Callable[[], AbstractContextManager[None]] = nullcontext,
        turns: int = 1,
    ) -> None:
        self.devices = devices
        self.operands = operands
        self.kept_packings = kept_packings
        self.say = say
        self.turns = turns
        #: Maximum total bytes of all packed operands on the device; a larger operand is kept alone. A search sets this
        #: limit because it prepares one runnable at a time. None: packed operands may all be in use, and only
        #: `kept_packings` limits them.
        self.packing_bytes: int | None = None
        #: Seconds to make each packed operand, including the cached values that it needs, without copies to the device.
        self.packing_seconds: dict[Hashable, float] = {}
        self.guards = Guards(devices.first)
        self._modules = modules
        self._lend = lend
        self._packings: OrderedDict[Hashable, tuple[Any, Mapping[str, Buffer], ExitStack]] = OrderedDict()
        self._refused: dict[Hashable, str] = {}
        self._programs: OrderedDict[tuple[int, Path], Program] = OrderedDict()
        self._buffers: dict[Hashable, Any] = {}
        self._written: dict[Hashable, Guarded] = {}
        self._cached: dict[Hashable, tuple[Any, float]] = {}
        #: Host seconds that runnables saved because cached values were known already.
        self._saved_seconds = 0.0

    @property
    def device(self) -> Device:
        return self.devices.first

    @cached_property
    def common(self) -> CommonModule:
        """The common module, loaded on first use; raises `ReproError` if it is missing or damaged."""
        manifest = self._modules / self.device.target.name / f"{COMMON}.json"
        module = Module.load(manifest)
        if module.binary is None:
            raise ReproError("the common module does not compile", where=manifest, actual=module.message)
        binary = manifest.parent / module.binary
        try:
            check_binary(binary)
        except DamagedBinary as damage:
            manifest.unlink()  # the next run then compiles the module again
            raise ReproError(
                "the common module is damaged",
                where=manifest,
                actual=damage,
                todo="it is deleted: run the same command again, or `repro compile common`",
            ) from None
        return CommonModule(self.device.load(binary), binary, module.hash, module.compiler, module.flags)

    @contextmanager
    def device_lent(self) -> Iterator[None]:
        """Let other processes use the device while the body of the `with` statement works on the host."""
        self.devices.synchronize()
        with self._lend():
            yield

    def upload_packed(
        self,
        packing: Hashable,
        pack: Callable[[], tuple[T, Mapping[str, NDArray[Any]]]],
        *,
        lend_device: bool = False,
    ) -> tuple[T, Mapping[str, Buffer]]:
        """Do as `packed_on_device` with an operand that the host packs. `lend_device` is as in `cached`."""

        @cache
        def packed() -> tuple[T, Mapping[str, NDArray[Any]]]:
            with self.device_lent() if lend_device else nullcontext(), self.packing_noted(packing):
                return pack()

        def upload(stack: ExitStack) -> tuple[T, Mapping[str, Buffer]]:
            facts, arrays = packed()
            self.make_room(sum(array.nbytes for array in arrays.values()))
            buffers: dict[str, Buffer] = {}
            stack.callback(_release, buffers)
            for name, array in arrays.items():
                buffers[name] = self.device.upload(array)
            return facts, buffers

        return self.packed_on_device(packing, upload)

    def packed_on_device(
        self, packing: Hashable, pack: Callable[[ExitStack], tuple[T, Mapping[str, Buffer]]]
    ) -> tuple[T, Mapping[str, Buffer]]:
        """Return facts about a packed operand and its arrays on the device; `pack` makes them if they are not there.

        `pack` calls `make_room` before it allocates, packs in `packing_noted`, and lets its argument release the
        memory. Where memory is exhausted, it is called again after all other packed operands are freed, if they are not
        in use. `Unsupported` is remembered, since otherwise every schedule of this layout would pack the operand again.

        Raises
        ------
        Unsupported, OutOfDeviceMemory
        """
        if packing in self._refused:
            raise Unsupported(self._refused[packing])
        while packing not in self._packings:
            try:
                with ExitStack() as stack:
                    self._packings[packing] = *pack(stack), stack.pop_all()
            except Unsupported as refusal:
                self._refused[packing] = str(refusal)
                raise
            except OutOfDeviceMemory:
                if self.packing_bytes is None or not self._packings:
                    raise
                self.drop_packings()
        self._packings.move_to_end(packing)
        return self._packings[packing][:2]

    @contextmanager
    def packing_noted(self, packing: Hashable) -> Iterator[None]:
        """Note the seconds of the body, which packs an operand and waits for the device."""
        start = self._clock()
        yield
        self.packing_seconds[packing] = self._clock() - start

    def _clock(self) -> float:
        """Return the host's clock in seconds, advanced by the time that cached values saved."""
        return perf_counter() + self._saved_seconds

    def make_room(self, nbytes: int) -> None:
        """Free least recently used packed operands until `nbytes` of new memory fit."""
        while self._packings:
            packed_bytes = sum(buffer.nbytes for _, arrays, _ in self._packings.values() for buffer in arrays.values())
            too_large = self.packing_bytes is not None and packed_bytes + nbytes > self.packing_bytes
            if len(self._packings) < self.kept_packings and not too_large:
                break
            self._packings.popitem(last=False)[1][2].close()

    def drop_packings(self) -> None:
        """Free all packed operands; no prepared runnable may still use one."""
        for *_, memory in self._packings.values():
            memory.close()
        self._packings.clear()

    def program(self, binary: Path, index: int = 0) -> Program:
        """Load a compiled module on device number `index`; raise `ModuleError` if its file is damaged."""
        key = index, binary
        if key not in self._programs:
            try:
                check_binary(binary)
            except DamagedBinary as damage:
                raise ModuleError(str(damage)) from None
            while len(self._programs) >= self.kept_packings * len(self.devices):
                self._programs.popitem(last=False)
            self._programs[key] = self.devices[index].load(binary)
        return self._programs[key]

    def buffer(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return device memory, or what owns some, that runnables share under a key; it is kept until `release`."""
        if key not in self._buffers:
            self._buffers[key] = make()
        buffer: T = self._buffers[key]
        return buffer

    def written(self, key: Hashable, nbytes: int, name: str) -> Buffer:
        """Return uninitialised output memory with guard zones, which runnables share under a key.

        `nbytes` must be the exact output size; runnables with a smaller output need another key. Messages call the
        memory `name`.
        """
        return self.guarded(key, nbytes, name).memory

    def guarded(self, key: Hashable, nbytes: int, name: str, index: int = 0) -> Guarded:
        """Like `written`, but return the memory together with its guard zones, on device number `index`."""
        if key not in self._written:
            self._written[key] = self.guards.allocate(nbytes, name, self.devices[index])
        return self._written[key]

    def cached(self, key: Hashable, compute: Callable[[], T], *, lend_device: bool = False) -> T:
        """Return a value about the operands, computed once per key. With `lend_device`, other processes may use the
        device while it is computed.
        """
        if key in self._cached:
            value: T
            value, seconds = self._cached[key]
            self._saved_seconds += seconds
            return value
        with self.device_lent() if lend_device else nullcontext():
            start = self._clock()
            computed = compute()
            self._cached[key] = computed, self._clock() - start
        return computed

    def release(self) -> None:
        self.drop_packings()
        _release(self._buffers)
        _release(self._written)
        self._programs.clear()
        self._buffers.clear()
        self._written.clear()


def _release(buffers: Mapping[Any, Buffer | Guarded]) -> None:
    for buffer in buffers.values():
        buffer.release()
