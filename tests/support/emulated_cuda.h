// CUDA kernels on the CPU, for tests where no GPU is: the blocks of a launch run one after the other, and the threads of a
// block take turns, each until it waits for others: in every other block from the last to the first, so that of two threads
// that use the same word without waiting for each other either may come first, and a test sees it where that matters. What
// would never end on a GPU ends the process with a message. Blocks that wait for each other take turns too, each until all its
// threads wait for others; shared memory is that of the block whose turn it is.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <setjmp.h>
#include <ucontext.h>
#include <vector>

#define __CUDA_ARCH__ 750  // without what this has no words for, such as loads by a policy of L2
#define __global__
#define __device__
#define __constant__ static
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __shared__ static __attribute__((section("shared_of_block")))
extern char __start_shared_of_block[] __attribute__((weak, visibility("hidden")));
extern char __stop_shared_of_block[] __attribute__((weak, visibility("hidden")));

struct int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct dim3 { unsigned x; };

static dim3 threadIdx, blockIdx, gridDim;
using std::isfinite;
using std::isnan;
using std::max;
using std::min;

namespace emulated {

constexpr int WARP = 32;
constexpr size_t STACK = 1 << 17;

// A context of its own to begin with; from then on jumps, which ask nothing of the system.
struct Fiber {
    ucontext_t context;
    jmp_buf place;
    std::unique_ptr<char[]> stack;
    bool begun = false, done = false;
};

// Threads that wait for each other: of a block, or of a warp, where each brings a value.
struct Meeting {
    int members = 0, arrived = 0, round = 0;
    const char* what[2] = {};
    uint64_t values[2][WARP];
};

// A copy to shared memory that is asked for: it is there when the thread has waited for it, and not before.
struct Copy { void* to; const void* from; size_t bytes; int group; };
struct Copies { std::vector<Copy> asked; int group = 0; };

static std::vector<Copies> copies;
static jmp_buf scheduler;
static std::vector<Fiber> fibers;
static std::vector<Meeting> warps;
static Meeting block, grid;
static std::function<void()> kernel;
static int current;
static bool moved;

inline void fail(const char* why)
{
    std::fprintf(stderr, "block %u, thread %d: %s\n", blockIdx.x, current, why);
    std::abort();
}

inline void leave(Fiber& fiber)
{
    if (_setjmp(fiber.place) == 0)
        _longjmp(scheduler, 1);
}

inline void go_on(Fiber& fiber)
{
    if (_setjmp(scheduler))
        return;
    if (fiber.begun)
        _longjmp(fiber.place, 1);
    fiber.begun = true;
    setcontext(&fiber.context);
}

inline void meet(Meeting& meeting, const char* what)
{
    const int round = meeting.round;
    if (meeting.arrived && meeting.what[round & 1] != what && std::strcmp(meeting.what[round & 1], what))
        fail("threads wait for each other at different places");
    meeting.what[round & 1] = what;
    if (++meeting.arrived == meeting.members) {
        meeting.arrived = 0;
        meeting.round++;
        moved = true;
        return;
    }
    while (meeting.round == round)
        leave(fibers[current]);
}

template <typename T> T exchange(T value, int from, const char* what)
{
    Meeting& warp = warps[current / WARP];
    if (warp.members != WARP)
        fail("a thread of the warp has ended");
    const int round = warp.round & 1;
    std::memcpy(&warp.values[round][current % WARP], &value, sizeof(T));
    meet(warp, what);
    T result;
    std::memcpy(&result, &warp.values[round][from], sizeof(T));
    return result;
}

inline unsigned vote(bool condition, const char* what)
{
    Meeting& warp = warps[current / WARP];
    const int round = warp.round & 1;
    exchange<uint64_t>(condition, 0, what);
    unsigned bits = 0;
    for (int lane = 0; lane < WARP; lane++)
        bits |= unsigned(warp.values[round][lane] & 1) << lane;
    return bits;
}

inline void enter()
{
    kernel();
    fibers[current].done = true;
    moved = true;
    // those that are left do not wait for it
    for (Meeting* meeting : {&block, &warps[current / WARP]})
        if (--meeting->members && meeting->arrived == meeting->members) {
            meeting->arrived = 0;
            meeting->round++;
        }
    leave(fibers[current]);
}

// The threads of one block, of which the ones of a launch that waits for no other block have the only one.
struct Block {
    std::vector<Fiber> fibers;
    std::vector<Meeting> warps;
    std::vector<Copies> copies;
    Meeting block;
    std::vector<char> shared;
};

// Takes a block's state, or leaves it.
inline void exchange_state(Block& with)
{
    std::swap(fibers, with.fibers);
    std::swap(warps, with.warps);
    std::swap(copies, with.copies);
    std::swap(block, with.block);
}

inline void begin_block(int number, int threads)
{
    fibers.resize(std::max<size_t>(fibers.size(), threads));
    blockIdx.x = number;
    block = Meeting();
    block.members = threads;
    copies.assign(threads, Copies());
    warps.assign(threads / WARP, Meeting());
    for (Meeting& warp : warps)
        warp.members = WARP;
    for (int t = 0; t < threads; t++) {
        Fiber& fiber = fibers[t];
        if (!fiber.stack)
            fiber.stack.reset(new char[STACK]);
        fiber.begun = fiber.done = false;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = STACK;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, enter, 0);
    }
}

// Each thread of the block takes its turns until none goes on: how many are left.
inline int run_block(int threads)
{
    const bool backward = blockIdx.x % 2 == 0;
    int left = threads;
    do {
        moved = false;
        left = 0;
        for (int turn = 0; turn < threads; turn++) {
            const int t = backward ? threads - 1 - turn : turn;
            if (fibers[t].done)
                continue;
            current = t;
            threadIdx.x = t;
            go_on(fibers[t]);
            left += !fibers[t].done;
        }
    } while (left && moved);
    return left;
}

inline void prepare(int blocks, int threads, std::function<void()> body)
{
    if (threads % WARP)
        fail("a block of no whole warps");
    gridDim.x = blocks;
    kernel = body;
}

inline void launch(int blocks, int threads, std::function<void()> body)
{
    prepare(blocks, threads, body);
    grid.members = 0;
    for (int b = 0; b < blocks; b++) {
        begin_block(b, threads);
        if (run_block(threads))
            fail("threads wait for each other and none goes on");
    }
}

inline void launch_together(int blocks, int threads, std::function<void()> body)
{
    prepare(blocks, threads, body);
    grid = Meeting();
    grid.members = blocks * threads;
    const size_t bytes = __stop_shared_of_block - __start_shared_of_block;
    std::vector<Block> all(blocks);
    for (int b = 0; b < blocks; b++) {
        exchange_state(all[b]);
        begin_block(b, threads);
        all[b].shared.assign(bytes, (char)0xa5);
        exchange_state(all[b]);
    }
    for (int left = blocks; left;) {
        left = 0;
        const int before = grid.round * grid.members + grid.arrived;
        for (int b = 0; b < blocks; b++) {
            blockIdx.x = b;
            std::copy(all[b].shared.begin(), all[b].shared.end(), __start_shared_of_block);
            exchange_state(all[b]);
            left += run_block(threads) > 0;
            exchange_state(all[b]);
            all[b].shared.assign(__start_shared_of_block, __start_shared_of_block + bytes);
        }
        if (left && before == grid.round * grid.members + grid.arrived)
            fail("blocks wait for each other and none goes on");
    }
}

}  // namespace emulated

namespace cooperative_groups {
struct Grid {
    void sync()
    {
        if (!emulated::grid.members)
            emulated::fail("blocks wait for each other that are not there at once");
        emulated::meet(emulated::grid, "grid barrier");
    }
};
inline Grid this_grid() { return {}; }
}  // namespace cooperative_groups

#define __syncthreads() emulated::meet(emulated::block, "barrier")
#define __syncwarp() emulated::exchange(0, 0, "warp barrier")
#define __threadfence() ((void)0)
#define __shfl_sync(mask, value, lane) emulated::exchange(value, (lane) & 31, "shuffle")
#define __shfl_up_sync(mask, value, n) \
    emulated::exchange(value, emulated::current % 32 >= (n) ? emulated::current % 32 - (n) : emulated::current % 32, "up")
#define __shfl_down_sync(mask, value, n) \
    emulated::exchange(value, emulated::current % 32 + (n) < 32 ? emulated::current % 32 + (n) : emulated::current % 32, "down")
#define __shfl_xor_sync(mask, value, n) emulated::exchange(value, emulated::current % 32 ^ (n), "xor")
#define __ballot_sync(mask, condition) emulated::vote(condition, "ballot")
#define __any_sync(mask, condition) (emulated::vote(condition, "any") != 0)
template <typename T> unsigned __match_any_sync(unsigned, T value)
{
    unsigned bits = 0;
    for (int lane = 0; lane < 32; lane++)
        bits |= unsigned(emulated::exchange(value, lane, "match") == value) << lane;
    return bits;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
#define __popc(bits) __builtin_popcount(bits)
#define __ffs(bits) __builtin_ffs(bits)
inline int __clz(unsigned bits) { return bits ? __builtin_clz(bits) : 32; }
inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes)
{
    if ((bytes != 4 && bytes != 8 && bytes != 16) || (uintptr_t)to % bytes || (uintptr_t)from % bytes)
        emulated::fail("a copy of a size or to a place that there is none for");
    emulated::Copies& of = emulated::copies[emulated::current];
    of.asked.push_back({to, from, bytes, of.group});
}
inline void __pipeline_commit() { emulated::copies[emulated::current].group++; }
inline void __pipeline_wait_prior(int newest)
{
    emulated::Copies& of = emulated::copies[emulated::current];
    std::vector<emulated::Copy> later;
    for (const emulated::Copy& copy : of.asked)
        if (copy.group < of.group - newest)
            std::memcpy(copy.to, copy.from, copy.bytes);
        else
            later.push_back(copy);
    of.asked = later;
}
template <typename T> T __ldcs(const T* address) { return *address; }
template <typename T> void __stcs(T* address, T value) { *address = value; }
template <typename T> T __ldcg(const T* address) { return *address; }
template <typename T, typename U> T atomicAdd(T* address, U value) { T old = *address; *address = old + T(value); return old; }
template <typename T, typename U> T atomicOr(T* address, U value) { T old = *address; *address = old | T(value); return old; }
template <typename T, typename U> T atomicMax(T* address, U value) { T old = *address; *address = std::max(old, T(value)); return old; }
template <typename T, typename U> T atomicExch(T* address, U value) { T old = *address; *address = T(value); return old; }
template <typename T, typename U, typename V> T atomicCAS(T* address, U expected, V value)
{
    T old = *address;
    if (old == T(expected))
        *address = T(value);
    return old;
}
inline double __hiloint2double(int high, int low)
{
    const unsigned halves[2] = {unsigned(low), unsigned(high)};
    double d;
    std::memcpy(&d, halves, 8);
    return d;
}
inline float __uint_as_float(unsigned bits) { float f; std::memcpy(&f, &bits, 4); return f; }
inline int __float_as_int(float value) { int bits; std::memcpy(&bits, &value, 4); return bits; }
