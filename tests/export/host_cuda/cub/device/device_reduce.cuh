// CUB's maximum, on the host.
#pragma once
#include <cuda_runtime_api.h>

namespace cub {
struct DeviceReduce {
    template <class In, class Out>
    static cudaError_t Max(void* scratch, std::size_t& bytes, In in, Out out, int count, cudaStream_t)
    {
        bytes = 1;
        if (scratch != nullptr)
            *out = *std::max_element(in, in + count);
        return cudaSuccess;
    }
};
}  // namespace cub
