// CUB's exclusive sum, on the host.
#pragma once
#include <cuda_runtime_api.h>

#include <numeric>

namespace cub {
struct DeviceScan {
    template <class In, class Out>
    static cudaError_t ExclusiveSum(void* scratch, std::size_t& bytes, In in, Out out, int count, cudaStream_t)
    {
        bytes = 1;
        if (scratch != nullptr)
            std::exclusive_scan(in, in + count, out, 0LL);
        return cudaSuccess;
    }
};
}  // namespace cub
