"""Several simulated GPUs without computation: a stream is the time in ms at which its queued work ends."""

from __future__ import annotations

import ctypes
import enum
import struct
import sys
from types import ModuleType, SimpleNamespace

from repro.devices import cuda as cuda_device
from repro.devices import nvml

FLUSH = 100
BYTES_PER_MS = 1000


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704
    CUDA_ERROR_TOO_MANY_PEERS = 711


class Machine:
    """GPUs of one host.

    Attributes
    ----------
    stack
        The GPUs whose contexts PyCUDA has on its stack; the last one is current.
    switches
        How often that changed.
    calls
        Functions of the driver that were called, with the GPU whose context was current.
    peers
        Pairs that can reach each other's memory.
    lost
        Whether the contexts are lost by a fault: the driver answers every call with an error.
    room
        Bytes that each GPU has left.
    allocated
        Sizes of what was taken from the driver, in turn.
    shared
        Bytes of shared memory that each launch gave to a block.
    """

    def __init__(self, gpus):
        self.stack, self.switches, self.calls = [], 0, []
        self.peers = {(a, b) for a in range(gpus) for b in range(gpus)}
        self.enabled = []
        self.streams, self.memory = {}, {}
        self.lost = False
        self.shared = []
        self.room, self.allocated = [(1 << 40) + gpu for gpu in range(gpus)], []

    @property
    def current(self):
        assert self.stack, "no context is current"
        return self.stack[-1]


class Context:
    machine: Machine

    def __init__(self, gpu):
        self.gpu = gpu

    def push(self):
        self.machine.stack.append(self.gpu)
        self.machine.switches += 1

    @classmethod
    def pop(cls):
        cls.machine.stack.pop()
        cls.machine.switches += 1

    def detach(self):
        assert self.machine.current == self.gpu, "the driver's stack would keep this context"
        self.machine.stack.pop()


def make_pycuda(machine):
    """Return `pycuda.driver` of that machine."""

    class Stream:
        def __init__(self, flags=0):
            self.gpu, self.now, self.flags = machine.current, 0, flags
            self.handle = 1000 + len(machine.streams)
            machine.streams[self.handle] = self

        def synchronize(self):
            assert machine.current == self.gpu

        def is_done(self):
            if machine.lost:
                raise driver.Error("illegal address")
            return True

        def wait_for_event(self, event):
            assert machine.current == self.gpu == event.gpu
            self.now = max(self.now, event.at)

        def add(self, duration):
            assert machine.current == self.gpu, f"queued on GPU {self.gpu} with GPU {machine.current} current"
            self.now += duration

    class Event:
        def __init__(self, flags=None):
            self.gpu = machine.current

        def record(self, stream):
            assert self.gpu == stream.gpu
            self.at = stream.now

        def time_since(self, start):
            return float(self.at - start.at)

    class Kernel:
        def __init__(self, name, allowed):
            self.name, self.allowed = name, allowed  # by name: it is the driver's, whoever has the kernel

        def get_attribute(self, attribute):
            return self.allowed.get(self.name, 48 << 10)

        def set_attribute(self, attribute, value):
            if value > 227 << 10:
                raise driver.Error(f"invalid value of {attribute}")
            self.allowed[self.name] = value

        def _launch_kernel(self, grid, block, packed, shared, stream):
            assert shared <= self.get_attribute("most shared")
            machine.shared.append(shared)
            stream.add(struct.unpack_from("i", packed)[0])

    class Program:
        def __init__(self):
            self.gpu, self.allowed = machine.current, {}

        def get_function(self, name):
            assert machine.current == self.gpu
            return Kernel(name, self.allowed)

    class Allocation:
        def __init__(self, nbytes):
            if nbytes > machine.room[machine.current]:
                raise driver.MemoryError("out of memory")
            self.gpu, self.nbytes = machine.current, nbytes
            self.address = 1 << 20 | len(machine.allocated) << 8
            machine.memory[self.address] = self
            machine.allocated.append(nbytes)
            machine.room[self.gpu] -= nbytes

        def __int__(self):
            return self.address

        def free(self):
            del machine.memory[self.address]
            machine.room[self.gpu] += self.nbytes

    class Device:
        def __init__(self, ordinal):
            self.ordinal = ordinal

        count = staticmethod(lambda: 8)
        compute_capability = staticmethod(lambda: (9, 0))
        name = staticmethod(lambda: "Fake")
        total_memory = staticmethod(lambda: 1 << 30)
        get_attribute = staticmethod(lambda attribute: attribute)

        def pci_bus_id(self):
            return f"0000:0{self.ordinal}:00.0"

        def retain_primary_context(self):
            return Context(self.ordinal)

    driver = ModuleType("pycuda.driver")
    Context.machine = machine
    driver.__dict__.update(
        Error=type("Error", (Exception,), {}),
        MemoryError=type("MemoryError", (Exception,), {}),
        Context=Context,
        Device=Device,
        Event=Event,
        Stream=Stream,
        function_attribute=SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="most shared"),
        device_attribute=SimpleNamespace(MULTIPROCESSOR_COUNT=132, L2_CACHE_SIZE=50 << 20),
        event_flags=SimpleNamespace(DISABLE_TIMING="no clock"),
        init=lambda: None,
        get_driver_version=lambda: 12080,
        get_version=lambda: (12, 8, 0),
        mem_alloc=Allocation,
        mem_get_info=lambda: (machine.room[machine.current], 0),
        memset_d8_async=lambda pointer, byte, nbytes, stream: stream.add(FLUSH),
        memcpy_htod_async=lambda pointer, array, stream: stream.add(array.nbytes / BYTES_PER_MS),
        memcpy_dtoh_async=lambda array, pointer, stream: stream.add(array.nbytes / BYTES_PER_MS),
        module_from_file=lambda path: Program(),
    )
    return driver


def make_tools(pycuda):
    """Return `pycuda.tools`, whose pool gives a block again for as many bytes as it was taken for."""

    class Block:
        def __init__(self, pool, allocation):
            self.pool, self.allocation = pool, allocation

        def __int__(self):
            return int(self.allocation)

        def free(self):
            self.pool.active_bytes -= self.allocation.nbytes
            self.pool.kept.append(self.allocation)
            if not self.pool.holding:
                self.pool.free_held()

    class DeviceMemoryPool:
        def __init__(self):
            self.kept, self.active_bytes, self.managed_bytes, self.holding = [], 0, 0, True

        def allocate(self, nbytes):
            allocation = next((kept for kept in self.kept if kept.nbytes == nbytes), None)
            if allocation:
                self.kept.remove(allocation)
            else:
                try:
                    allocation = pycuda.mem_alloc(nbytes)
                except pycuda.MemoryError:
                    self.free_held()
                    allocation = pycuda.mem_alloc(nbytes)
                self.managed_bytes += nbytes
            self.active_bytes += nbytes
            return Block(self, allocation)

        def free_held(self):
            while self.kept:
                allocation = self.kept.pop()
                allocation.free()
                self.managed_bytes -= allocation.nbytes

        def stop_holding(self):
            self.holding = False
            self.free_held()

    tools = ModuleType("pycuda.tools")
    tools.DeviceMemoryPool = DeviceMemoryPool
    return tools


def make_driver(machine, pycuda):
    """Return `cuda.bindings.driver` of that machine."""
    driver = ModuleType("cuda.bindings.driver")

    def entry(function):
        def call(*arguments):
            machine.calls.append((function.__name__, machine.current))
            if machine.lost:
                return (CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,)
            answer = function(*arguments)
            return answer if isinstance(answer, tuple) else (CUresult.CUDA_SUCCESS, answer)

        setattr(driver, function.__name__, call)
        return call

    @entry
    def cuCtxGetCurrent():  # noqa: N802
        return f"context {machine.current}"

    @entry
    def cuCtxGetDevice():  # noqa: N802
        return machine.current

    @entry
    def cuDeviceCanAccessPeer(gpu, peer):  # noqa: N802
        return int((gpu, peer) in machine.peers)

    @entry
    def cuCtxEnablePeerAccess(context, flags):  # noqa: N802
        pair = machine.current, context
        again = pair in machine.enabled
        machine.enabled.append(pair)
        return (CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED if again else CUresult.CUDA_SUCCESS,)

    @entry
    def cuEventCreate(flags):  # noqa: N802
        assert flags in ("no clock", 0, 2)
        return SimpleNamespace(gpu=machine.current, at=0)

    @entry
    def cuEventRecord(event, stream):  # noqa: N802
        assert event.gpu == machine.streams[stream].gpu == machine.current
        event.at = machine.streams[stream].now
        return (CUresult.CUDA_SUCCESS,)

    @entry
    def cuStreamWaitEvent(stream, event, flags):  # noqa: N802
        assert machine.streams[stream].gpu == machine.current
        machine.streams[stream].now = max(machine.streams[stream].now, event.at)
        return (CUresult.CUDA_SUCCESS,)

    @entry
    def cuStreamCreate(flags):  # noqa: N802
        assert flags in ("no order with the default stream", 0)
        return pycuda.Stream().handle

    @entry
    def cuStreamDestroy(stream):  # noqa: N802
        assert machine.streams[stream].gpu == machine.current
        return (CUresult.CUDA_SUCCESS,)

    @entry
    def cuEventDestroy(event):  # noqa: N802
        return (CUresult.CUDA_SUCCESS,)

    @entry
    def cuMemcpyDtoDAsync(target, source, nbytes, stream):  # noqa: N802
        gpus = machine.memory[target].gpu, machine.memory[source].gpu
        assert gpus[0] == machine.streams[stream].gpu
        if gpus[0] != gpus[1] and (gpus[0], f"context {gpus[1]}") not in machine.enabled:
            return (CUresult.CUDA_ERROR_INVALID_HANDLE,)
        machine.streams[stream].add(nbytes // BYTES_PER_MS)
        return (CUresult.CUDA_SUCCESS,)

    @entry
    def cuMemcpyPeerAsync(target, to, source, at, nbytes, stream):  # noqa: N802
        assert (to, at) == tuple(f"context {machine.memory[pointer].gpu}" for pointer in (target, source))
        machine.streams[stream].add(nbytes // BYTES_PER_MS)
        return (CUresult.CUDA_SUCCESS,)

    add_what_pycuda_does(driver, machine, pycuda)
    driver.cuDeviceGet = lambda ordinal: (CUresult.CUDA_SUCCESS, ordinal)
    driver.cuDeviceGetUuid = lambda gpu: (0, SimpleNamespace(bytes=bytes([gpu] * 16)))
    driver.CUresult = CUresult
    driver.CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING="no order with the default stream")
    driver.CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING="no clock")
    return driver


def add_what_pycuda_does(driver, machine, pycuda):  # noqa: PLR0915
    """Add to the driver what `repro.devices.bindings_driver` calls, by the objects of the fake PyCUDA."""
    done, kernels, programs, host = (CUresult.CUDA_SUCCESS,), {}, {}, {}

    def entry(function):  # needs a context, and is not counted as a call of the bindings
        def call(*arguments):
            assert machine.current is not None
            if machine.lost:
                return (CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,)
            answer = function(*arguments)
            return answer if isinstance(answer, tuple) else (CUresult.CUDA_SUCCESS, answer)

        setattr(driver, function.__name__, call)

    def plain(name, answer):  # needs no current context
        setattr(driver, name, lambda *arguments: (CUresult.CUDA_SUCCESS, answer(*arguments)))

    plain("cuDriverGetVersion", lambda: 12080)
    plain("cuDeviceGetCount", lambda: 8)
    plain("cuDeviceGetAttribute", lambda attribute, gpu: {75: 9, 76: 0, 16: 132, 38: 50 << 20}[attribute])
    plain("cuDeviceGetName", lambda length, gpu: b"Fake".ljust(length, b"\0"))
    plain("cuDeviceGetPCIBusId", lambda length, gpu: f"0000:0{gpu}:00.0".encode().ljust(length, b"\0"))
    plain("cuDeviceTotalMem", lambda gpu: 1 << 30)
    plain("cuDevicePrimaryCtxRetain", Context)
    plain("cuDevicePrimaryCtxRelease", lambda gpu: None)
    plain("cuInit", lambda flags: None)
    plain("cuCtxPushCurrent", lambda context: context.push())
    plain("cuCtxPopCurrent", Context.pop)
    driver.CUdevice_attribute = driver.CUfunction_attribute = int

    @entry
    def cuEventElapsedTime(start, end):  # noqa: N802
        return float(end.at - start.at)

    @entry
    def cuEventSynchronize(event):  # noqa: N802
        return done

    @entry
    def cuStreamSynchronize(stream):  # noqa: N802
        machine.streams[stream].synchronize()
        return done

    @entry
    def cuStreamQuery(stream):  # noqa: N802
        return done

    @entry
    def cuModuleLoad(path):  # noqa: N802
        programs[len(programs)] = pycuda.module_from_file(path)
        return len(programs) - 1

    @entry
    def cuModuleUnload(module):  # noqa: N802
        return done

    @entry
    def cuModuleGetFunction(module, name):  # noqa: N802
        kernels[len(kernels)] = programs[module].get_function(name.decode())
        return len(kernels) - 1

    @entry
    def cuFuncGetAttribute(attribute, function):  # noqa: N802
        assert attribute == 8
        return kernels[function].get_attribute("most shared")

    @entry
    def cuFuncSetAttribute(function, attribute, value):  # noqa: N802
        try:
            kernels[function].set_attribute(attribute, value)
        except pycuda.Error:
            return (CUresult.CUDA_ERROR_INVALID_HANDLE,)
        return done

    @entry
    def cuLaunchKernel(function, *sizes):  # noqa: N802
        *_, shared, stream, parameters, extra = sizes
        assert not parameters
        words = (ctypes.c_void_p * 5).from_address(extra)
        assert (words[0], words[2], words[4]) == (1, 2, None)
        size = ctypes.c_size_t.from_address(words[3]).value
        packed = ctypes.string_at(words[1], size)
        kernels[function]._launch_kernel(sizes[:3], sizes[3:6], packed, shared, machine.streams[stream])
        return done

    @entry
    def cuMemAlloc(nbytes):  # noqa: N802
        try:
            return int(pycuda.mem_alloc(nbytes))
        except pycuda.MemoryError:
            return (CUresult.CUDA_ERROR_OUT_OF_MEMORY,)

    def free(address):
        machine.memory[address].free()
        return done

    driver.cuMemFree = free

    @entry
    def cuMemGetInfo():  # noqa: N802
        return CUresult.CUDA_SUCCESS, machine.room[machine.current], 0

    @entry
    def cuMemsetD8Async(address, byte, nbytes, stream):  # noqa: N802
        machine.streams[stream].add(FLUSH)
        return done

    def copied(name, size, stream):
        def copy(*arguments):
            machine.streams[arguments[stream]].add(arguments[size] / BYTES_PER_MS)
            return done

        copy.__name__ = name
        entry(copy)

    for name in ("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"):
        copied(name, 2, 3)

    @entry
    def cuMemHostAlloc(nbytes, flags):  # noqa: N802
        memory = ctypes.create_string_buffer(nbytes)
        host[ctypes.addressof(memory)] = memory
        return ctypes.addressof(memory)

    @entry
    def cuMemHostGetDevicePointer(address, flags):  # noqa: N802
        return address

    @entry
    def cuMemFreeHost(address):  # noqa: N802
        del host[address]
        return done


class Graph:
    """Replays the launches one by one."""

    def __init__(self, stream, launch, count, failure):
        self.launch, self.count = launch, count

    def replay(self):
        for _ in range(self.count):
            self.launch()

    def close(self):
        pass


def install(monkeypatch, gpus, has_pycuda=True):
    """Replace the real machine by one with a number of GPUs, with or without PyCUDA, and return it."""
    machine = Machine(gpus)
    runtime = ModuleType("cuda.bindings.runtime")
    runtime.cudaRuntimeGetVersion = lambda: (0, 12080)
    graph = ModuleType("repro.devices.cuda_bindings")
    graph.Graph = Graph
    pycuda = make_pycuda(machine)
    modules = {
        "pycuda": ModuleType("pycuda"),
        "pycuda.driver": pycuda,
        "pycuda.tools": make_tools(pycuda),
        "cuda": ModuleType("cuda"),
        "cuda.bindings": ModuleType("cuda.bindings"),
        "cuda.bindings.driver": make_driver(machine, pycuda),
        "cuda.bindings.runtime": runtime,
        "repro.devices.cuda_bindings": graph,
    }
    if not has_pycuda:
        modules |= {"pycuda": None, "pycuda.driver": None, "pycuda.tools": None}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.setenv("CUDA_MODULE_LOADING", "EAGER")
    monkeypatch.setattr(cuda_device.CudaDevice, "_resident", None)
    monkeypatch.setattr(nvml, "_library", lambda: None)
    # it binds the driver when it is imported: what is put back at the end is a module that is imported anew
    for name in ("repro.devices.cuda_link", "repro.devices.bindings_driver"):
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    return machine
