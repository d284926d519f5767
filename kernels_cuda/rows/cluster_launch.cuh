// Launches over rows: grids, clusters and shared memory, and how many of them a device holds at
// once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels_cuda/common/launch.cuh"
#include "operators/execution.hpp"

namespace twinops {

inline bool fits_shared_memory(std::size_t shared, int device) {  // of one block
  return shared <= static_cast<std::size_t>(
                       device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
}

inline unsigned grid_of(std::int64_t blocks) {
  return static_cast<unsigned>(std::min<std::int64_t>(blocks, 0x7fffffff));
}

// In place of a cluster's size: no clusters, but all blocks of the grid are resident at once.
inline constexpr int kResident = 0;

// A launch in clusters of `cluster` blocks, with `shared` bytes of dynamic shared memory.
struct RowLaunch {
  template <class... Parameters>
  RowLaunch(void (*kernel)(Parameters...), dim3 blocks, unsigned threads, std::size_t shared,
            int cluster, int device, void* stream) {
    config.gridDim = blocks;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = static_cast<cudaStream_t>(stream);
    if (cluster == kResident) {
      attribute.id = cudaLaunchAttributeCooperative;
      attribute.val.cooperative = 1;
    } else {
      attribute.id = cudaLaunchAttributeClusterDimension;
      attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
      attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    }
    config.attrs = &attribute;
    config.numAttrs = cluster != 1 ? 1 : 0;
    allow_shared(kernel, shared, device);
    if (cluster > 8)
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
            "cudaFuncSetAttribute");
  }
  RowLaunch(const RowLaunch&) = delete;
  RowLaunch& operator=(const RowLaunch&) = delete;

  cudaLaunchConfig_t config{};
  cudaLaunchAttribute attribute{};
};

template <class... Parameters, class... Values>
void launch_rows(Execution& execution, void (*kernel)(Parameters...), dim3 blocks, unsigned threads,
                 std::size_t shared, int cluster, const Values&... values) {
  const RowLaunch launch(kernel, blocks, threads, shared, cluster, execution.device.index,
                         execution.stream);
  check(cudaLaunchKernelEx(&launch.config, kernel, values...), "launch over rows");
  ++execution.launches;
}

// How many clusters the device holds at once: 0 where it, or the part of it that this process has,
// is too small.
template <class... Parameters>
int active_clusters(void (*kernel)(Parameters...), unsigned threads, std::size_t shared,
                    int cluster, int device) {
  const RowLaunch launch(kernel, static_cast<unsigned>(cluster), threads, shared, cluster, device,
                         nullptr);
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &launch.config),
        "cudaOccupancyMaxActiveClusters");
  return clusters;
}

// How many blocks the device holds at once.
template <class... Parameters>
int resident_blocks(void (*kernel)(Parameters...), unsigned threads, std::size_t shared,
                    int device) {
  const RowLaunch launch(kernel, 1, threads, shared, kResident, device, nullptr);
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, static_cast<int>(threads),
                                                      shared),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return blocks * device_attribute(cudaDevAttrMultiProcessorCount, device);
}

}  // namespace twinops
