// So much of CUDA as exported code needs, on the host: a block is as many threads as it has, blocks run one by one, device
// memory is host memory filled with bytes that are no number. For tests where there is no GPU.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static  // of the one block that runs

using std::max;
using std::min;

struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct Dim { unsigned x; };
inline thread_local Dim threadIdx, blockIdx, blockDim, gridDim;

namespace host {
constexpr int warp = 32;
inline std::unique_ptr<std::barrier<>> block;
inline std::vector<std::unique_ptr<std::barrier<>>> warps;
inline char lanes[1024][8];
// of the last launch
inline int grid = 0;
inline std::vector<int> numbers;  // among its arguments
}  // namespace host

inline void __syncthreads() { host::block->arrive_and_wait(); }

namespace host {
/// The value that another thread of the warp passes.
template <class T>
T value_of(unsigned other, T value)
{
    std::barrier<>& meet = *warps[threadIdx.x / warp];
    std::memcpy(lanes[threadIdx.x], &value, sizeof value);
    meet.arrive_and_wait();
    std::memcpy(&value, lanes[other], sizeof value);
    meet.arrive_and_wait();
    return value;
}
}  // namespace host

template <class T>
T __shfl_xor_sync(unsigned, T value, int distance)
{
    return host::value_of(threadIdx.x ^ distance, value);
}

template <class T>
T __shfl_up_sync(unsigned, T value, int distance)
{
    const unsigned first = threadIdx.x / host::warp * host::warp;
    return host::value_of(threadIdx.x < first + distance ? threadIdx.x : threadIdx.x - distance, value);
}

template <class T>
T __shfl_down_sync(unsigned, T value, int distance)
{
    const unsigned last = threadIdx.x / host::warp * host::warp + host::warp - 1;
    return host::value_of(min(threadIdx.x + distance, last), value);
}

template <class T>
T __shfl_sync(unsigned, T value, int lane)
{
    return host::value_of(threadIdx.x / host::warp * host::warp + lane, value);
}

inline unsigned __ballot_sync(unsigned, bool condition)
{
    unsigned votes = condition ? 1u << threadIdx.x % host::warp : 0;
    for (int distance = 1; distance < host::warp; distance *= 2)
        votes |= __shfl_xor_sync(0, votes, distance);
    return votes;
}

inline bool __any_sync(unsigned mask, bool condition) { return __ballot_sync(mask, condition) != 0; }
inline void __syncwarp() { host::warps[threadIdx.x / host::warp]->arrive_and_wait(); }
inline int __ffs(unsigned bits) { return __builtin_ffs(static_cast<int>(bits)); }
inline int __clz(unsigned bits) { return bits ? __builtin_clz(bits) : 32; }

template <class T> T __ldcg(const T* address) { return *address; }
template <class T> T __ldcs(const T* address) { return *address; }
inline int atomicAdd(int* address, int value) { return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST); }
inline int atomicOr(int* address, int value) { return __atomic_fetch_or(address, value, __ATOMIC_SEQ_CST); }

namespace host {
template <class... P>
void run(void (*kernel)(P...), int blocks, int count, P... arguments)
{
    grid = blocks;
    numbers.clear();
    const auto note = [](auto argument) {
        if constexpr (std::is_same_v<decltype(argument), int>)
            numbers.push_back(argument);
    };
    (note(arguments), ...);
    for (int b = 0; b < blocks; ++b) {
        block = std::make_unique<std::barrier<>>(count);
        warps.clear();
        for (int first = 0; first < count; first += warp)
            warps.push_back(std::make_unique<std::barrier<>>(min(warp, count - first)));
        std::vector<std::thread> threads;
        for (int t = 0; t < count; ++t)
            threads.emplace_back([=] {
                threadIdx = {unsigned(t)}, blockIdx = {unsigned(b)}, blockDim = {unsigned(count)}, gridDim = {unsigned(blocks)};
                kernel(arguments...);
                block->arrive_and_drop();
                warps[t / warp]->arrive_and_drop();
            });
        for (std::thread& thread : threads)
            thread.join();
    }
}
}  // namespace host

enum cudaError_t {
    cudaSuccess,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100
};
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16, cudaDevAttrL2CacheSize = 38 };
using cudaStream_t = void*;

inline const char* cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "out of memory"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) { return *value = 2, cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaFree(void* memory) { return std::free(memory), cudaSuccess; }

template <class T>
cudaError_t cudaMalloc(T** memory, std::size_t bytes)
{
    if (std::getenv("HOST_CUDA_WITHOUT_A_GPU"))
        return cudaErrorNoDevice;
    if (bytes > (std::size_t(1) << 32))
        return cudaErrorMemoryAllocation;
    *memory = static_cast<T*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    std::memset(static_cast<void*>(*memory), 0xff, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t)
{
    if (bytes > 0)  // an empty array may have no address
        std::memcpy(to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* memory, int byte, std::size_t bytes, cudaStream_t)
{
    return std::memset(memory, byte, bytes), cudaSuccess;
}

// A graph is launched while it is captured, and every event reads the same.
using cudaGraph_t = void*;
using cudaGraphExec_t = void*;
using cudaEvent_t = void*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
inline cudaError_t cudaStreamCreate(cudaStream_t*) { return cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return cudaSuccess; }
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) { return cudaSuccess; }
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t*, cudaGraph_t, unsigned long long) { return cudaSuccess; }
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
inline cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t*) { return cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) { return *milliseconds = 0.5f, cudaSuccess; }
