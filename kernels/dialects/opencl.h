// The words of cuda.h in OpenCL C, for the CPU. cuda.h says what each means, and the comments here say what is special.
// BALLOT, HIGHEST_BIT and GRID_BARRIER are missing: only branches of templates for GPUs use them.

// A warp is a sub-group; its size is the warp of the target `cpu`. A sub-group can exchange values, but has no ballots.
#define WARP_LANES 16
#define BALLOT_LANES 1

// OpenCL cannot limit registers by the number of blocks, so `blocks_per_sm` has no effect here.
#define KERNEL(block_size, blocks_per_sm) __kernel __attribute__((reqd_work_group_size(block_size, 1, 1))) void
// The attribute is needed for sub-groups to have WARP_LANES work-items.
#define WARP_KERNEL(block_size, blocks_per_sm) \
    __kernel __attribute__((reqd_work_group_size(block_size, 1, 1))) \
    __attribute__((intel_reqd_sub_group_size(WARP_LANES))) void
#define INLINE static inline

#define GLOBAL __global
#define SHARED __local
#define IN_SHARED __local
#define CONSTANT __constant
#define RESTRICT restrict
#define IN(type) const GLOBAL type* RESTRICT
#define OUT(type) GLOBAL type* RESTRICT
#define ALIGNED(bytes) __attribute__((aligned(bytes)))

#define THREAD (int)get_local_id(0)
#define BLOCK (int)get_group_id(0)
#define BLOCKS (int)get_num_groups(0)

// WARP_BARRIER is that of the whole block here, so all of its threads have to reach it.
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define WARP_BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define FENCE() mem_fence(CLK_GLOBAL_MEM_FENCE)

#define ATOMIC_ADD(address, value) atomic_add(address, value)
#define ATOMIC_SWAP(address, value) atomic_xchg(address, value)
#define ATOMIC_COMPARE(address, expected, value) atomic_cmpxchg(address, expected, value)
#define ATOMIC_OR(address, value) atomic_or(address, value)
#define ATOMIC_MAX(address, value) atomic_max(address, value)

#define ANY(condition) sub_group_any(condition)
#define LOWEST_BIT(bits) (int)popcount(((bits) & -(bits)) - 1)
#define POPULATION(bits) popcount(bits)
// The index of the other lane is kept below WARP_LANES, since sub_group_shuffle is undefined for others.
#define SHUFFLE_FROM(value, lane) sub_group_shuffle(value, lane)
#define SHUFFLE_XOR(value, distance) sub_group_shuffle_xor(value, distance)
#define SHUFFLE_DOWN(value, distance) \
    sub_group_shuffle(value, (get_sub_group_local_id() + (distance)) & (WARP_LANES - 1))
#define SHUFFLE_UP(value, distance) \
    sub_group_shuffle(value, (get_sub_group_local_id() - (distance)) & (WARP_LANES - 1))

#define LONG long
#define BITS_OF_FLOAT(value) as_int(value)
#define FLOAT_OF(bits) as_float(bits)
#define DOUBLE_OF(low, high) as_double((uint2)(low, high))
#define HIGH_PRODUCT(a, b) mul_hi(a, b)

// 4 bytes: the compiler combines the loads of neighbouring work-items to vectors.
#define WORD uint
#define ZERO_WORD 0
#define COMBINE_WORDS(sum, word) sum ^= word

// OpenCL has no hints to caches: all loads and stores are plain ones, and a policy has no effect.
#define load_ca(address) *(address)
#define load_cg(address) *(address)
#define load_cs(address) *(address)
#define load_el(address) *(address)
#define load_word_ca(address) *(address)
#define load_word_cg(address) *(address)
#define load_word_cs(address) *(address)
#define load_word_el(address) *(address)
#define store_cs(address, value) *(address) = value
#define POLICY int
#define POLICY_TO_KEEP(kept, of) kept

// The copy is done when COPY_ASYNC returns, so there are no groups to close and nothing to wait for.
#define COPY_ASYNC(type, to, from) *(__local type*)(to) = *(const __global type*)(from)
#define COMMIT_COPIES()
#define AWAIT_COPIES(newest)

// UNROLL is empty: fully unrolled loops would take this compiler many times as long, and it unrolls short ones itself.
#define PRAGMA(text) _Pragma(#text)
#define UNROLL
#define UNROLL_BY(times) PRAGMA(unroll times)
#define NO_UNROLL PRAGMA(unroll 1)

