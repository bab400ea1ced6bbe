// The words of a kernel in CUDA C++; opencl.h has the same words in OpenCL C.

// The threads of a warp, which exchange values by shuffles: its lanes.
#define WARP_LANES 32
// The lanes that vote, and work out ranks among each other, by ballots: here those of a warp. A thread without ballots
// ranks alone: 1.
#define BALLOT_LANES WARP_LANES

// A kernel with its threads of a block and the blocks that a multiprocessor shall hold. The name and the parameters
// follow.
#define KERNEL(block_size, blocks_per_sm) extern "C" __global__ void __launch_bounds__(block_size, blocks_per_sm)
// A kernel whose threads of a warp exchange values.
#define WARP_KERNEL(block_size, blocks_per_sm) extern "C" __global__ void __launch_bounds__(block_size, blocks_per_sm)
// A function, which is inlined.
#define INLINE static __device__ __forceinline__

// Before what a pointer points to in global memory.
#define GLOBAL
// Declares shared memory of a block.
#define SHARED __shared__
// Before what a pointer points to in shared memory.
#define IN_SHARED
// Declares memory that no kernel writes.
#define CONSTANT __constant__
// Behind a pointer: no other one is used for what it points to.
#define RESTRICT __restrict__
// A pointer to what is only read, by no other pointer, in global memory: `IN(double) x`.
#define IN(type) const GLOBAL type* RESTRICT
// A pointer to what is written, by no other pointer, in global memory.
#define OUT(type) GLOBAL type* RESTRICT
// Stands between `struct` and its name, whose variables begin at multiples of so many bytes.
#define ALIGNED(bytes) __align__(bytes)

// The thread's number in its block.
#define THREAD (int)threadIdx.x
// The block's number in the grid.
#define BLOCK (int)blockIdx.x
// The number of blocks.
#define BLOCKS (int)gridDim.x

// All threads of a block wait for each other.
#define BARRIER() __syncthreads()
// All threads of a warp wait for each other.
#define WARP_BARRIER() __syncwarp()
// Memory fence of device scope: what a thread writes before it is seen no later than what it writes behind it.
#define FENCE() __threadfence()

// All threads of all blocks wait for each other, in a kernel that is launched so that all its blocks are there at once.
#define GRID_BARRIER() cooperative_groups::this_grid().sync()

#define ATOMIC_ADD(address, value) atomicAdd(address, value)
#define ATOMIC_SWAP(address, value) atomicExch(address, value)
#define ATOMIC_COMPARE(address, expected, value) atomicCAS(address, expected, value)
#define ATOMIC_OR(address, value) atomicOr(address, value)
#define ATOMIC_MAX(address, value) atomicMax(address, value)

// Whether a condition holds for a thread of the warp.
#define ANY(condition) __any_sync(0xffffffffu, condition)
// For which threads of the warp a condition holds, a bit each.
#define BALLOT(condition) __ballot_sync(0xffffffffu, condition)
// The number of the highest bit that is set.
#define HIGHEST_BIT(bits) (31 - __clz(bits))
// The number of the lowest bit that is set.
#define LOWEST_BIT(bits) (__ffs(bits) - 1)
// How many bits are set.
#define POPULATION(bits) __popc(bits)

// The value of the thread of the warp whose number differs in the bits of `distance`.
#define SHUFFLE_XOR(value, distance) __shfl_xor_sync(0xffffffffu, value, distance)
// The value of the thread `distance` later in the warp.
#define SHUFFLE_DOWN(value, distance) __shfl_down_sync(0xffffffffu, value, distance)
// The value of the thread `distance` earlier in the warp.
#define SHUFFLE_UP(value, distance) __shfl_up_sync(0xffffffffu, value, distance)
// The value of the thread `lane` of the warp.
#define SHUFFLE_FROM(value, lane) __shfl_sync(0xffffffffu, value, lane)

// An integer of 64 bits.
#define LONG long long
// An integer that counts bytes.
#define SIZE size_t
// The bits of a float, as an int.
#define BITS_OF_FLOAT(value) __float_as_int(value)
// The float of 32 bits.
#define FLOAT_OF(bits) __uint_as_float(bits)
// The double of its lower and its upper 32 bits.
#define DOUBLE_OF(low, high) __hiloint2double((int)(high), (int)(low))
// The upper 32 bits of the product of two unsigned integers.
#define HIGH_PRODUCT(a, b) __umulhi(a, b)

// The widest unit that a thread loads at once.
#define WORD uint4
// A word of zeros.
#define ZERO_WORD {0, 0, 0, 0}
// Combines a word with others, one statement, so that all of them have to be loaded.
#define COMBINE_WORDS(sum, word) \
    do { sum.x ^= word.x; sum.y ^= word.y; sum.z ^= word.z; sum.w ^= word.w; } while (0)

// Loads by what the caches keep (PTX's ca, cg, cs).
// A load that both caches keep.
#define load_ca(address) *(address)
// A load that L2 keeps and L1 does not.
#define load_cg(address) load_past_l1(address)
// A load that no cache keeps for long.
#define load_cs(address) load_once(address)
// A load of which L2 keeps the share of a variable `policy`, see POLICY.
#define load_el(address) load_kept(address, policy)
// The same for types that the compiler has such loads of.
#define load_word_ca(address) *(address)
#define load_word_cg(address) __ldcg(address)
#define load_word_cs(address) __ldcs(address)
#define load_word_el(address) load_kept(address, policy)
// A store of what is not read again soon.
#define store_cs(address, value) __stcs(address, value)
// What L2 keeps of loads from launch to launch (dialects/cuda.j2).
#define POLICY unsigned long long
// The policy that keeps the share `kept` / `of`.
#define POLICY_TO_KEEP(kept, of) policy_to_keep(kept, of)

// Copies 4, 8 or 16 bytes from global to shared memory while the thread goes on (PTX's cp.async).
#define COPY_ASYNC(type, to, from) __pipeline_memcpy_async(to, from, sizeof(type))
// Makes the thread's copies since the last COMMIT_COPIES a group.
#define COMMIT_COPIES() __pipeline_commit()
// Waits until all but the thread's `newest` latest groups of copies are there.
#define AWAIT_COPIES(newest) __pipeline_wait_prior(newest)

#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")

