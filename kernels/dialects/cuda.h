// Each kernel is one template for GPUs and for the CPU. Where CUDA C++ and OpenCL C differ, the template uses a word of
// its own, such as KERNEL or load_cs: this header defines it for CUDA C++, and opencl.h for OpenCL C. The comments here
// say what each word means in both; those in opencl.h say what is special there. What both languages spell alike, such
// as size_t, min or int4, has no word.

// Threads of a warp, the lanes: they run together, and exchange values by the SHUFFLE_… words.
#define WARP_LANES 32
// Lanes that vote by BALLOT: a whole warp. It is 1 where a device has no ballots; templates have another branch for it.
#define BALLOT_LANES WARP_LANES

// Begins the definition of a kernel; its name and parameters follow. `block_size` is the number of threads per block.
// The compiler limits the registers of a thread so that `blocks_per_sm` blocks fit on a multiprocessor at once.
#define KERNEL(block_size, blocks_per_sm) extern "C" __global__ void __launch_bounds__(block_size, blocks_per_sm)
// The same for a kernel that uses ANY or SHUFFLE_…; in OpenCL it needs another attribute.
#define WARP_KERNEL(block_size, blocks_per_sm) extern "C" __global__ void __launch_bounds__(block_size, blocks_per_sm)
// Begins the definition of a function that kernels call, and that is always inlined.
#define INLINE static __device__ __forceinline__

// Address spaces. In OpenCL C the type of a pointer names the memory that it points into; in CUDA C++ it does not, so
// GLOBAL and IN_SHARED are empty here.
// A pointer into global memory: `GLOBAL int* counter`.
#define GLOBAL
// A variable or an array in shared memory, one for each block: `SHARED int counts[32]`.
#define SHARED __shared__
// A pointer into shared memory: `IN_SHARED int* counts`.
#define IN_SHARED
// A constant table outside of functions.
#define CONSTANT __constant__
// Promises that no other pointer of the kernel reaches the same data, so that the compiler may move loads and stores.
#define RESTRICT __restrict__
// Array parameters of a kernel with this promise: one that is only read, `IN(double) x`, and one that is written.
#define IN(type) const GLOBAL type* RESTRICT
#define OUT(type) GLOBAL type* RESTRICT
// Aligns the variables of a struct, so that one is loaded at once: `struct ALIGNED(16) step { … };`.
#define ALIGNED(bytes) __align__(bytes)

// Index of the thread in its block, index of the block in the grid, and number of blocks; int, like all indices.
#define THREAD (int)threadIdx.x
#define BLOCK (int)blockIdx.x
#define BLOCKS (int)gridDim.x

// Waits for all threads of the block; then they see each other's stores to shared and global memory.
#define BARRIER() __syncthreads()
// The same for the threads of a warp.
#define WARP_BARRIER() __syncwarp()
// Orders the stores of a thread: who sees a store behind the fence also sees all stores in front of it. It is needed
// where a thread of another block waits for a flag and then reads data.
#define FENCE() __threadfence()
// Waits for all threads of all blocks. Only for a cooperative launch, whose blocks all run at the same time.
#define GRID_BARRIER() cooperative_groups::this_grid().sync()

// Atomic operations in global or shared memory; each returns the old value. ATOMIC_COMPARE stores `value` only if the
// old value is `expected`.
#define ATOMIC_ADD(address, value) atomicAdd(address, value)
#define ATOMIC_SWAP(address, value) atomicExch(address, value)
#define ATOMIC_COMPARE(address, expected, value) atomicCAS(address, expected, value)
#define ATOMIC_OR(address, value) atomicOr(address, value)
#define ATOMIC_MAX(address, value) atomicMax(address, value)

// Votes and exchanges within a warp; all of its lanes have to take part.
// Whether the condition holds in at least one lane.
#define ANY(condition) __any_sync(0xffffffffu, condition)
// A number whose bit l says whether the condition holds in lane l.
#define BALLOT(condition) __ballot_sync(0xffffffffu, condition)
// Index of the highest and of the lowest bit that is set, and number of bits that are set, for results of BALLOT.
#define HIGHEST_BIT(bits) (31 - __clz(bits))
#define LOWEST_BIT(bits) (__ffs(bits) - 1)
#define POPULATION(bits) __popc(bits)
// The value that another lane passes: lane l gets that of lane l ^ distance, l + distance, l - distance, or `lane`.
// Where SHUFFLE_DOWN or SHUFFLE_UP would leave the warp, the result is not to be used.
#define SHUFFLE_XOR(value, distance) __shfl_xor_sync(0xffffffffu, value, distance)
#define SHUFFLE_DOWN(value, distance) __shfl_down_sync(0xffffffffu, value, distance)
#define SHUFFLE_UP(value, distance) __shfl_up_sync(0xffffffffu, value, distance)
#define SHUFFLE_FROM(value, lane) __shfl_sync(0xffffffffu, value, lane)

// A signed integer of 64 bits. For offsets in memory, which may exceed 32 bits, templates use size_t, a type of both
// languages: `(size_t)row * pitch + i`.
#define LONG long long
// The bits of a float as an int, a float of its bits, and a double of its lower and its upper 32 bits.
#define BITS_OF_FLOAT(value) __float_as_int(value)
#define FLOAT_OF(bits) __uint_as_float(bits)
#define DOUBLE_OF(low, high) __hiloint2double((int)(high), (int)(low))
// The upper 32 bits of the product of two unsigned integers of 32 bits.
#define HIGH_PRODUCT(a, b) __umulhi(a, b)

// The unit in which kernels stream or copy memory whatever it holds; here 16 bytes, the most of one load.
#define WORD uint4
// Initialises a WORD with zeros.
#define ZERO_WORD {0, 0, 0, 0}
// Combines `word` into `sum`. A kernel that only measures loads uses each word, so that the compiler keeps the load.
#define COMBINE_WORDS(sum, word) \
    do { sum.x ^= word.x; sum.y ^= word.y; sum.z ^= word.z; sum.w ^= word.w; } while (0)

// Loads with a hint to the caches, named as in PTX; a schedule chooses one of the four. Those that call a function of
// cuda.j2 take any type of 4, 8 or 16 bytes.
// Both caches keep the data.
#define load_ca(address) *(address)
// L2 keeps the data, L1 does not.
#define load_cg(address) load_past_l1(address)
// The data is read once: caches evict it first.
#define load_cs(address) load_once(address)
// L2 keeps a share of the data from launch to launch (evict_last). The kernel has a variable `policy`, see POLICY.
#define load_el(address) load_kept(address, policy)
// The same loads of types that CUDA has intrinsic functions for, such as int, int2 or double.
#define load_word_ca(address) *(address)
#define load_word_cg(address) __ldcg(address)
#define load_word_cs(address) __ldcs(address)
#define load_word_el(address) load_kept(address, policy)
// A store of data that is not read again soon: caches evict it first.
#define store_cs(address, value) __stcs(address, value)
// Type of the variable `policy` that load_el reads, and its value for a share of `kept` / `of`:
// `const POLICY policy = POLICY_TO_KEEP(kept, slots);`.
#define POLICY unsigned long long
#define POLICY_TO_KEEP(kept, of) policy_to_keep(kept, of)

// Asynchronous copies of 4, 8 or 16 bytes from global to shared memory (cp.async in PTX). COPY_ASYNC starts one and the
// thread goes on; COMMIT_COPIES closes a group of the copies that the thread has started since the last group;
// AWAIT_COPIES waits for all groups of the thread but the `newest` last ones.
#define COPY_ASYNC(type, to, from) __pipeline_memcpy_async(to, from, sizeof(type))
#define COMMIT_COPIES() __pipeline_commit()
#define AWAIT_COPIES(newest) __pipeline_wait_prior(newest)

// On a line of their own in front of a loop, these say how the compiler unrolls it: completely, `times` times, or not
// at all. Templates have these words in place of pragmas, since the CPU's compiler must not follow each of them.
#define PRAGMA(text) _Pragma(#text)
#define UNROLL PRAGMA(unroll)
#define UNROLL_BY(times) PRAGMA(unroll times)
#define NO_UNROLL PRAGMA(unroll 1)

