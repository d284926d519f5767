// What tests with kernels of their own need of a device.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace twinops::test {

inline bool has_device() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count > 0;
  cudaGetLastError();
  return false;
}

#define TWINOPS_NEEDS_DEVICE \
  if (!has_device()) GTEST_SKIP() << "needs a GPU"

// Memory that host and device both see.
template <class T>
class Managed {
 public:
  explicit Managed(std::size_t n) : n_(n) {
    EXPECT_EQ(cudaMallocManaged(&data_, n * sizeof(T)), cudaSuccess);
    for (std::size_t i = 0; i < n; ++i) data_[i] = T{};
  }
  ~Managed() { cudaFree(data_); }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  T* get() const { return data_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  std::size_t size() const { return n_; }

 private:
  T* data_ = nullptr;
  std::size_t n_;
};

}  // namespace twinops::test
