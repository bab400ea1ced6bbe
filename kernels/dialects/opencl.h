// The words of a kernel in OpenCL C; cuda.h has the same words in CUDA C++, and says what each means.

// A warp is a sub-group, of as many work-items as the target `cpu` says. They exchange values by shuffles, but have no
// ballots: each work-item works out ranks by itself.
#define WARP_LANES 16
#define BALLOT_LANES 1

// How many blocks a core shall hold is no part of a kernel here: the grid alone says it.
#define KERNEL(block_size, blocks_per_sm) __kernel __attribute__((reqd_work_group_size(block_size, 1, 1))) void
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

// On the CPU the threads of a warp wait for all of their block.
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define WARP_BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define FENCE() mem_fence(CLK_GLOBAL_MEM_FENCE)

#define ATOMIC_ADD(address, value) atomic_add(address, value)
#define ATOMIC_SWAP(address, value) atomic_xchg(address, value)
#define ATOMIC_COMPARE(address, expected, value) atomic_cmpxchg(address, expected, value)
#define ATOMIC_OR(address, value) atomic_or(address, value)
#define ATOMIC_MAX(address, value) atomic_max(address, value)

#define ANY(condition) sub_group_any(condition)
#define POPULATION(bits) popcount(bits)

#define SHUFFLE_XOR(value, distance) sub_group_shuffle_xor(value, distance)
#define SHUFFLE_DOWN(value, distance) sub_group_shuffle(value, get_sub_group_local_id() + (distance) & (WARP_LANES - 1))
#define SHUFFLE_UP(value, distance) sub_group_shuffle(value, get_sub_group_local_id() - (distance) & (WARP_LANES - 1))

#define LONG long
#define SIZE ulong
#define BITS_OF_FLOAT(value) as_int(value)
#define FLOAT_OF(bits) as_float(bits)
#define DOUBLE_OF(low, high) as_double((uint2)(low, high))
#define HIGH_PRODUCT(a, b) mul_hi(a, b)

// The unit of which the compiler makes vectors across work-items.
#define WORD uint
#define ZERO_WORD 0
#define COMBINE_WORDS(sum, word) sum ^= word

// There are no hints for caches here.
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

// The work-item copies by itself and is done at once.
#define COPY_ASYNC(type, to, from) *(__local type*)(to) = *(const __global type*)(from)
#define COMMIT_COPIES()
#define AWAIT_COPIES(newest)

#define UNROLL
#define NO_UNROLL

