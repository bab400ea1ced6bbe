// The words of a kernel in CUDA C++; opencl.h has the same words in OpenCL C.

// A kernel with its threads of a block and the blocks that a multiprocessor shall hold; threads of a WARP_KERNEL
// exchange values. The name and the parameters follow.
#define KERNEL(block_size, blocks_per_sm) extern "C" __global__ void __launch_bounds__(block_size, blocks_per_sm)
#define WARP_KERNEL(block_size, blocks_per_sm) extern "C" __global__ void __launch_bounds__(block_size, blocks_per_sm)
#define INLINE static __device__ __forceinline__

// Where memory is. SHARED declares it; GLOBAL and IN_SHARED stand before what a pointer points to.
#define GLOBAL
#define SHARED __shared__
#define IN_SHARED
#define CONSTANT __constant__
#define RESTRICT __restrict__
// What a pointer refers to in global memory is read, or written, and by no other pointer: `IN(double) x`.
#define IN(type) const GLOBAL type* RESTRICT
#define OUT(type) GLOBAL type* RESTRICT
// Stands between `struct` and its name, whose variables begin at multiples of so many bytes.
#define ALIGNED(bytes) __align__(bytes)

// Which thread of its block this is, which block, and how many blocks there are.
#define THREAD (int)threadIdx.x
#define BLOCK (int)blockIdx.x
#define BLOCKS (int)gridDim.x

// All threads of a block wait for each other; those of a warp do; a thread's writes are in order for all others.
#define BARRIER() __syncthreads()
#define WARP_BARRIER() __syncwarp()
#define FENCE() __threadfence()

// All threads of all blocks wait for each other, in a kernel that is launched so that all its blocks are there at once.
#define GRID_BARRIER() cooperative_groups::this_grid().sync()

#define ATOMIC_ADD(address, value) atomicAdd(address, value)
#define ATOMIC_SWAP(address, value) atomicExch(address, value)
#define ATOMIC_COMPARE(address, expected, value) atomicCAS(address, expected, value)
#define ATOMIC_OR(address, value) atomicOr(address, value)
#define ATOMIC_MAX(address, value) atomicMax(address, value)

// Threads of a warp that work out ranks among each other; whether a condition holds for one of them, and for which;
// bits.
#define LANES 32
#define ANY(condition) __any_sync(0xffffffffu, condition)
#define BALLOT(condition) __ballot_sync(0xffffffffu, condition)
#define HIGHEST_BIT(bits) (31 - __clz(bits))
#define LOWEST_BIT(bits) (__ffs(bits) - 1)
#define POPULATION(bits) __popc(bits)

// The value of another thread of the warp: of the one whose number differs in the bits of `distance`, of a later one,
// of an earlier one, and of the one named.
#define SHUFFLE_XOR(value, distance) __shfl_xor_sync(0xffffffffu, value, distance)
#define SHUFFLE_DOWN(value, distance) __shfl_down_sync(0xffffffffu, value, distance)
#define SHUFFLE_UP(value, distance) __shfl_up_sync(0xffffffffu, value, distance)
#define SHUFFLE_FROM(value, lane) __shfl_sync(0xffffffffu, value, lane)

// Integers of 64 bits, and what counts bytes; the bits of numbers.
#define LONG long long
#define SIZE size_t
#define BITS_OF_FLOAT(value) __float_as_int(value)
#define FLOAT_OF(bits) __uint_as_float(bits)
#define DOUBLE_OF(low, high) __hiloint2double((int)(high), (int)(low))
// The upper 32 bits of the product of two unsigned integers.
#define HIGH_PRODUCT(a, b) __umulhi(a, b)

// The widest unit that a thread loads at once; two of them combined.
#define WORD uint4
#define ZERO_WORD {0, 0, 0, 0}
#define COMBINE_WORDS(sum, word) sum.x ^= word.x; sum.y ^= word.y; sum.z ^= word.z; sum.w ^= word.w

// Loads by what the caches keep: everything; nothing in L1, all in L2; nothing for long (PTX's ca, cg, cs). Of words
// the type is one that the compiler knows. `load_el` needs a variable `policy`, of which L2 keeps a share
// (dialects/cuda.j2).
#define load_ca(address) *(address)
#define load_cg(address) load_past_l1(address)
#define load_cs(address) load_once(address)
#define load_el(address) load_kept(address, policy)
#define load_word_ca(address) *(address)
#define load_word_cg(address) __ldcg(address)
#define load_word_cs(address) __ldcs(address)
#define load_word_el(address) load_kept(address, policy)
// A store of what is not read again soon.
#define store_cs(address, value) __stcs(address, value)
#define POLICY unsigned long long
#define POLICY_TO_KEEP(kept, of) policy_to_keep(kept, of)

// Copies of 4, 8 or 16 bytes from global to shared memory while the thread goes on (PTX's cp.async): those since the
// last COPIES_ASKED are a group; after COPIES_DONE all but the thread's newest so many groups are there.
#define COPY_ASYNC(type, to, from) __pipeline_memcpy_async(to, from, sizeof(type))
#define COPIES_ASKED() __pipeline_commit()
#define COPIES_DONE(newest) __pipeline_wait_prior(newest)

#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")

