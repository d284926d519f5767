// A host vector's copy in the memory of a row's device, for tests that run on every row.
#pragma once

#include <string>
#include <vector>

#include "twinops/twinops.hpp"

namespace twinops::test {

inline std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}

template <class T>
class OnDevice {
 public:
  OnDevice(const std::string& row, const std::vector<T>& values)
      : device_(row.starts_with("cuda") ? DLDevice{kDLCUDA, 0} : kHost) {
    check(twinops_allocate(device_, values.size() * sizeof(T) + 64, &data_));
    check(twinops_copy(device_, data_, kHost, values.data(), values.size() * sizeof(T)));
  }
  ~OnDevice() { twinops_release(device_, data_); }
  OnDevice(const OnDevice&) = delete;
  Tensor tensor(std::vector<std::int64_t> shape) const {
    return Tensor(static_cast<T*>(data_), std::move(shape), device_);
  }
  void* data() const { return data_; }
  DLDevice device() const { return device_; }
  void read(std::vector<T>& values) const {
    check(twinops_synchronize(device_));
    check(twinops_copy(kHost, values.data(), device_, data_, values.size() * sizeof(T)));
  }

 private:
  DLDevice device_;
  void* data_ = nullptr;
};

}  // namespace twinops::test
