// A float16 tensor of more than 2^31 elements, alike but for a few that are marked on both sides of
// what 32 bits count. On the device of a row; skipped where 10 GB of memory are not free.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "tools/proof/trial.hpp"
#include "twinops/twinops.hpp"

namespace twinops::test {

inline std::int64_t available_memory() {
  std::int64_t kilobytes = 0;
  if (FILE* file = std::fopen("/proc/meminfo", "r")) {
    char line[256];
    while (std::fgets(line, sizeof(line), file) != nullptr)
      if (long long value; std::sscanf(line, "MemAvailable: %lld", &value) == 1) kilobytes = value;
    std::fclose(file);
  }
  return kilobytes * 1024;
}

class HugeTensor : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::int64_t k31 = std::int64_t{1} << 31;
  static constexpr std::int64_t kElements = k31 + (1 << 27) + 77;
  static constexpr std::size_t kBytes = kElements * 2;
  static constexpr std::int64_t kMarks[] = {0,   1,       k31 / 2 + 3,         k31 - 1,
                                            k31, k31 + 1, k31 + (1 << 26) + 5, kElements - 1};
  using Marks = std::array<std::uint16_t, std::size(kMarks)>;

  void SetUp() override {
    if (available_memory() < std::int64_t{10} << 30)
      GTEST_SKIP() << "needs 10 GB of memory that is free";
    host_ = static_cast<std::uint16_t*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(host_, MAP_FAILED);
    device_ = proof::device_of(GetParam());
    on_device_ = device_.device_type != kDLCPU;
    if (on_device_)
      check(twinops_allocate(device_, kBytes + 64, &memory_));
    else
      memory_ = host_;
    small_ = on_device_ ? static_cast<char*>(memory_) + kBytes + 8 - kBytes % 8 : local_;
  }
  void TearDown() override {
    if (host_ != nullptr && host_ != MAP_FAILED) munmap(host_, kBytes);
    if (on_device_) twinops_release(device_, memory_);
  }

  // All elements `value`, but for the marked ones.
  void fill(std::uint16_t value, const Marks& marks) {
    const std::uint64_t four = 0x0001000100010001u * value;
    for (std::int64_t i = 0; i + 4 <= kElements; i += 4) std::memcpy(host_ + i, &four, 8);
    for (std::int64_t i = kElements / 4 * 4; i < kElements; ++i) host_[i] = value;
    for (std::size_t k = 0; k < marks.size(); ++k) host_[kMarks[k]] = marks[k];
    if (on_device_) check(twinops_copy(device_, memory_, kHost, host_, kBytes));
  }
  // The tensor as it is now, on the host.
  std::uint16_t* fetch() {
    if (on_device_) check(twinops_copy(kHost, host_, device_, memory_, kBytes));
    return host_;
  }
  // The first element that is not as fill(value, marks) would leave it; kElements if there is none.
  std::int64_t first_other(std::uint16_t value, const Marks& marks) {
    fetch();
    for (std::size_t k = 0; k < marks.size(); ++k) {
      if (host_[kMarks[k]] != marks[k]) return kMarks[k];
      host_[kMarks[k]] = value;
    }
    return first_unlike(value, kElements);
  }
  // Of the first `count` elements on the host, the first that is not `value`.
  std::int64_t first_unlike(std::uint16_t value, std::int64_t count) const {
    std::int64_t i = 0;
    const std::uint64_t four = 0x0001000100010001u * value;
    for (std::uint64_t word = four; i + 4 <= count; i += 4)
      if (std::memcpy(&word, host_ + i, 8); word != four) break;
    while (i < count && host_[i] == value) ++i;
    return i;
  }
  template <class T>
  void put(std::size_t at, T value) {
    check(twinops_copy(device_, small_ + at, kHost, &value, sizeof(value)));
  }
  template <class T>
  T get(std::size_t at) {
    T value;
    check(twinops_copy(kHost, &value, device_, small_ + at, sizeof(value)));
    return value;
  }
  Tensor scalar(std::size_t at, DLDataType type) { return Tensor(small_ + at, type, {}, device_); }
  Tensor tensor() { return tensor({kElements}); }
  Tensor tensor(std::vector<std::int64_t> shape) {
    return Tensor(memory_, kFloat16, std::move(shape), device_);
  }

  std::uint16_t* host_ = nullptr;
  void* memory_ = nullptr;
  char* small_ = nullptr;
  alignas(8) char local_[64] = {};
  DLDevice device_{kDLCPU, 0};
  bool on_device_ = false;
};

}  // namespace twinops::test
