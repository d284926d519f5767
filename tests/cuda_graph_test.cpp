// What the CUDA rows promise a host beside their bits: a call can be captured and is right at every
// replay, takes few launches, and leaves the caller's device and errors alone. And that a copy is
// done when it returns.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/support/cuda.hpp"
#include "twinops/twinops.hpp"

namespace twinops::test {
namespace {

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)
#define ASSERT_CUDA(call) ASSERT_EQ(call, cudaSuccess)

// A training step's loss scaling over a list of tensors: one block of bytes, on the host or on a
// device, with the state at its beginning.
class Step {
 public:
  struct State {
    float scale;
    std::int32_t good_steps, bad_steps;
    std::uint8_t found_inf;
  };
  static constexpr std::size_t kHead = 64;

  explicit Step(DLDevice device, int tensors, bool one_type) : device_(device) {
    std::size_t at = kHead;
    for (int i = 0; i < tensors; ++i) {
      constexpr DLDataType kTypes[] = {kFloat16, kFloat32, kBfloat16, kFloat64};
      const DLDataType type = one_type ? kFloat16 : kTypes[i % 4];
      const std::int64_t n = i * 37 % 400;                         // the first is empty
      at = (at + 7) / 8 * 8 + (i % 3 == 0 ? type.bits / 8u : 0u);  // some begin unaligned
      at = (at + type.bits / 8u - 1) / (type.bits / 8u) * (type.bits / 8u);
      members_.push_back({type, n, at});
      at += static_cast<std::size_t>(n) * (type.bits / 8u);
    }
    bytes_ = at;
    check(twinops_allocate(device_, bytes_, &memory_));
  }
  ~Step() { twinops_release(device_, memory_); }
  Step(const Step&) = delete;

  std::size_t bytes() const { return bytes_; }
  void write(const std::vector<char>& block) {
    check(twinops_copy(device_, memory_, kHost, block.data(), bytes_));
  }
  std::vector<char> read() const {
    std::vector<char> block(bytes_);
    check(twinops_copy(kHost, block.data(), device_, memory_, bytes_));
    return block;
  }
  // Queues both operators; returns their launches.
  std::int64_t queue(const Execution& execution) {
    Tensors list;
    for (const Member& m : members_)
      list.emplace_back(at(m.offset), m.type, std::vector{m.n}, device_);
    const Tensor found(at(offsetof(State, found_inf)), kUint8, {}, device_);
    const Tensor scale(at(offsetof(State, scale)), kFloat32, {}, device_);
    const Tensor good(at(offsetof(State, good_steps)), kInt32, {}, device_);
    const Tensor bad(at(offsetof(State, bad_steps)), kInt32, {}, device_);
    CheckFiniteAndUnscaleOptions unscale;
    unscale.reset = true;
    UpdateLossScalingOptions update;
    update.incr_every_n_steps = 2;
    const LossScaleState state{scale, good, bad};
    return check_finite_and_unscale(list, scale, list, found, unscale, execution).launches +
           update_loss_scaling(list, found, state, list, state, update, execution).launches;
  }

  // A block of ordinary gradients; with a value that is not finite if asked for.
  std::vector<char> values(unsigned seed, float scale, bool overflow) const {
    std::vector<char> block(bytes_, 0);
    std::mt19937 random(seed);
    for (const Member& m : members_)
      for (std::int64_t i = 0; i < m.n; ++i) {
        const std::size_t size = m.type.bits / 8u;
        // Sign and fraction at random; an exponent near 1 by its two leading bits.
        std::uint64_t bits = random() * std::uint64_t{0x100000001};
        const int top = m.type.bits - 1;
        bits = (bits & ~(std::uint64_t{3} << (top - 2))) | std::uint64_t{1} << (top - 2);
        std::memcpy(block.data() + m.offset + static_cast<std::size_t>(i) * size, &bits, size);
      }
    if (overflow) {
      const Member& m = members_[members_.size() / 2 | 1];
      const std::uint64_t infinity = m.type.bits == 16 && m.type.code == kDLFloat ? 0x7c00
                                     : m.type.bits == 16                          ? 0x7f80
                                     : m.type.bits == 32                          ? 0x7f800000
                                                         : 0x7ff0000000000000;
      std::memcpy(block.data() + m.offset, &infinity, m.type.bits / 8u);
    }
    const State state{scale, 1, 0, 0};
    std::memcpy(block.data(), &state, sizeof(state));
    return block;
  }

 private:
  struct Member {
    DLDataType type;
    std::int64_t n;
    std::size_t offset;
  };
  void* at(std::size_t offset) const { return static_cast<char*>(memory_) + offset; }

  DLDevice device_;
  std::vector<Member> members_;
  std::size_t bytes_;
  void* memory_ = nullptr;
};

constexpr DLDevice kDevice{kDLCUDA, 0};

Execution on_stream(cudaStream_t stream) {
  Execution execution;
  execution.stream = stream;
  return execution;
}
std::vector<std::string> host_rows() {
  std::vector<std::string> rows;
  for (const std::string& row : available_rows())
    if (row.rfind("cpu/", 0) == 0) rows.push_back(row);
  return rows;
}

class Stream {
 public:
  Stream() { EXPECT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

TEST(CudaGraph, ReplaysWithWhatMemoryHoldsThen) {
  TWINOPS_NEEDS_DEVICE;
  Step on_device(kDevice, 300, false), on_host(kHost, 300, false);
  const Stream stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  const std::vector<char> first = on_device.values(1, 1024, false);
  on_device.write(first);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  on_device.queue(on_stream(stream));
  ASSERT_CUDA(cudaStreamEndCapture(stream, &graph));
  EXPECT_EQ(on_device.read(), first) << "capturing has run something";
  ASSERT_CUDA(cudaGraphInstantiate(&executable, graph, 0));

  const std::vector<std::string> rows = host_rows();
  for (unsigned replay = 0; replay < 8; ++replay) {
    const bool overflow = replay % 3 == 1;
    const float scale = static_cast<float>(1 << replay) * 1.5f;
    const std::vector<char> block = on_device.values(100 + replay, scale, overflow);
    on_device.write(block);
    ASSERT_CUDA(cudaGraphLaunch(executable, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    const std::vector<char> result = on_device.read();
    for (const std::string& row : rows) {
      on_host.write(block);
      Execution execution;
      execution.row = row;
      on_host.queue(execution);
      ASSERT_EQ(result, on_host.read()) << row << ", replay " << replay;
    }
    Step::State state;
    std::memcpy(&state, result.data(), sizeof(state));
    EXPECT_EQ(state.found_inf, overflow);
    EXPECT_EQ(state.scale, overflow ? scale : 2 * scale);
  }
  // Replays one after the other, nothing written between: the state goes on.
  on_device.write(first);
  on_host.write(first);
  for (int replay = 0; replay < 5; ++replay) {
    ASSERT_CUDA(cudaGraphLaunch(executable, stream));
    on_host.queue({});
  }
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(on_device.read(), on_host.read());
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST(CudaLaunches, OneForAListOfOneType) {
  TWINOPS_NEEDS_DEVICE;
  for (const int tensors : {2, 300, 2000}) {
    Step step(kDevice, tensors, true);
    step.write(step.values(3, 1024, false));
    EXPECT_EQ(step.queue({}), 2) << tensors << " tensors, two operators";
    EXPECT_CUDA(cudaDeviceSynchronize());
  }
}

// Members that lie one behind the other are one to a launch, whose parameters hold some thousands.
TEST(CudaLaunches, OneForAFlatBuffer) {
  TWINOPS_NEEDS_DEVICE;
  constexpr std::int64_t kMembers = 20000, kElements = 3;
  const auto launches = [](std::int64_t step) {
    const auto bytes = static_cast<std::size_t>(kMembers * step + 2) * 4;
    void* memory = nullptr;
    check(twinops_allocate(kDevice, bytes, &memory));
    const std::vector<char> zeros(bytes);
    check(twinops_copy(kDevice, memory, kHost, zeros.data(), bytes));
    auto* const floats = static_cast<float*>(memory);
    Tensors list;
    for (std::int64_t i = 0; i < kMembers; ++i)
      list.emplace_back(floats + 2 + i * step, kFloat32, std::vector{kElements}, kDevice);
    const Tensor found(floats, kFloat32, {}, kDevice), scale(floats + 1, kFloat32, {}, kDevice);
    const Report report = check_finite_and_unscale(list, scale, list, found);
    EXPECT_CUDA(cudaDeviceSynchronize());
    twinops_release(kDevice, memory);
    return report.launches;
  };
  EXPECT_EQ(launches(kElements), 1);
  EXPECT_GT(launches(kElements + 1), 1) << "with gaps";
}

TEST(CudaLaunches, OneATypeOfAMixedList) {
  TWINOPS_NEEDS_DEVICE;
  Step step(kDevice, 300, false);
  step.write(step.values(3, 1024, false));
  EXPECT_EQ(step.queue({}), 8) << "four types, two operators";
  EXPECT_CUDA(cudaDeviceSynchronize());
}

TEST(CudaLaunches, AnEmptyListStepsTheStateInOne) {
  TWINOPS_NEEDS_DEVICE;
  Step step(kDevice, 0, true);
  std::vector<char> block(Step::kHead, 0);
  const Step::State before{8, 0, 0, 1};
  std::memcpy(block.data(), &before, sizeof(before));
  step.write(block);
  EXPECT_EQ(step.queue({}), 1);
  Step::State after;
  std::memcpy(&after, step.read().data(), sizeof(after));
  EXPECT_EQ(after.found_inf, 0) << "reset";
  EXPECT_EQ(after.good_steps, 1);
}

TEST(CudaCaller, KeepsItsDeviceAndItsLastError) {
  TWINOPS_NEEDS_DEVICE;
  int devices = 0, current = -1;
  ASSERT_CUDA(cudaGetDeviceCount(&devices));
  for (int device = 0; device < devices; ++device) {
    ASSERT_CUDA(cudaSetDevice(device));
    Step step({kDLCUDA, devices - 1 - device}, 20, false);
    const std::vector<char> block = step.values(5, 4, false);
    step.write(block);
    EXPECT_EQ(cudaSetDevice(9999), cudaErrorInvalidDevice);  // an error that is the caller's
    step.queue({});
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    cudaGetLastError();
    ASSERT_CUDA(cudaGetDevice(&current));
    EXPECT_EQ(current, device);
    ASSERT_CUDA(cudaSetDevice(devices - 1 - device));
    ASSERT_CUDA(cudaDeviceSynchronize());
    EXPECT_NE(step.read(), block);
  }
  cudaSetDevice(0);
}

// What cudaMemcpy takes from pageable memory may come later than it returns, the later the more
// others copy. A stream that does not wait for the default one sees it nevertheless.
TEST(CudaCopy, IsDoneWhenItReturns) {
  TWINOPS_NEEDS_DEVICE;
  constexpr std::size_t kBytes = 48 << 10, kOthers = 64 << 20;
  unsigned char *others = nullptr, *others_to = nullptr, *seen = nullptr;
  void* memory = nullptr;
  ASSERT_CUDA(cudaMallocHost(&others, kOthers));
  ASSERT_CUDA(cudaMallocHost(&seen, kBytes));
  ASSERT_CUDA(cudaMalloc(&others_to, kOthers));
  check(twinops_allocate(kDevice, kBytes, &memory));
  const Stream busy, reader;
  for (int turn = 1; turn <= 30; ++turn) {
    for (int i = 0; i < 4; ++i)
      ASSERT_CUDA(cudaMemcpyAsync(others_to, others, kOthers, cudaMemcpyHostToDevice, busy));
    const std::vector<unsigned char> value(kBytes, static_cast<unsigned char>(turn));
    check(twinops_copy(kDevice, memory, kHost, value.data(), kBytes));
    ASSERT_CUDA(cudaMemcpyAsync(seen, memory, kBytes, cudaMemcpyDeviceToHost, reader));
    ASSERT_CUDA(cudaStreamSynchronize(reader));
    ASSERT_EQ(std::memcmp(seen, value.data(), kBytes), 0) << "turn " << turn;
  }
  ASSERT_CUDA(cudaStreamSynchronize(busy));
  check(twinops_release(kDevice, memory));
  cudaFree(others_to);
  cudaFreeHost(seen);
  cudaFreeHost(others);
}

// A launch that cannot be made is reported, and does not stay behind.
TEST(CudaCaller, HearsOfALaunchThatFails) {
  TWINOPS_NEEDS_DEVICE;
  Step step(kDevice, 20, true);
  step.write(step.values(5, 4, false));
  const Stream stream;
  // A capture that another stream's work may not join: the default stream is refused meanwhile.
  Stream capturing;
  cudaStream_t blocking = nullptr;
  ASSERT_CUDA(cudaStreamCreate(&blocking));
  ASSERT_CUDA(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
  EXPECT_THROW(step.queue({}), Error);
  EXPECT_NE(std::string(twinops_last_error()).find("cuda"), std::string::npos)
      << twinops_last_error();
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(blocking, &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
  cudaStreamDestroy(blocking);
  EXPECT_EQ(step.queue(on_stream(stream)), 2);
  EXPECT_CUDA(cudaStreamSynchronize(stream));
}

}  // namespace
}  // namespace twinops::test
