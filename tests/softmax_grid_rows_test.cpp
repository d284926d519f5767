// Long rows whose chunks go round all blocks that a device holds at once, which exchange parts
// through scratch memory (kernels_cuda/rows/tile_scheduler.cuh). The bits are those of the same
// call without scratch memory, whatever the memory held before, at every replay of a capture, and
// beside another such call.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>

#include "numerics/float16.hpp"
#include "tests/support/cuda.hpp"
#include "twinops/twinops.hpp"

namespace twinops::test {
namespace {

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)

constexpr unsigned kSeed = 20261122;
constexpr DLDevice kDevice{kDLCUDA, 0};

// Scratch memory, which is lent again and again as the last call left it.
struct ScratchMemory {
  Managed<unsigned char> memory{1 << 20};
  int lent = 0;

  Execution execution(cudaStream_t stream) {
    Execution execution;
    execution.stream = stream;
    execution.workspace_context = this;
    execution.allocate = [](void* self, std::size_t bytes, void*) -> void* {
      auto& scratch = *static_cast<ScratchMemory*>(self);
      ++scratch.lent;
      return bytes <= scratch.memory.size() ? scratch.memory.get() : nullptr;
    };
    return execution;
  }
};

// Rows of `length` elements in one of the types, on the device.
class Problem {
 public:
  Problem(std::string op, DLDataType type, std::int64_t rows, std::int64_t length, unsigned seed)
      : op_(std::move(op)),
        type_(type),
        shape_{rows, length},
        bytes_(static_cast<std::size_t>(rows * length) * (type.bits / 8u)),
        x_(bytes_),
        dy_(bytes_),
        out_(bytes_) {
    draw(seed);
  }
  void draw(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 3);
    for (const auto* to : {&x_, &dy_})
      for (std::size_t i = 0; i < bytes_ / element(); ++i) put(to->get(), i, normal(random));
  }
  // Every fifth row and the last two: far beyond exp's reach, in float16 infinite.
  void move_rows_away() {
    const auto length = static_cast<std::size_t>(shape_[1]), rows = bytes_ / element() / length;
    for (std::size_t r = 0; r < rows; ++r)
      if (r % 5 == 3 || r + 2 >= rows)
        for (std::size_t i = r * length; i < (r + 1) * length; ++i)
          put(x_.get(), i, 1e9f * static_cast<float>(i % 1000) - 3e8f);
  }
  // One row of infinity, one of NaN, one all masked out.
  void put_specials() {
    const auto length = static_cast<std::size_t>(shape_[1]);
    constexpr float kInf = std::numeric_limits<float>::infinity();
    put(x_.get(), length - 1, kInf);
    put(x_.get(), length, std::numeric_limits<float>::quiet_NaN());
    for (std::size_t i = 2 * length; i < 3 * length; ++i) put(x_.get(), i, -kInf);
  }
  void run(const Execution& execution) {
    Call call(op_);
    const Tensor x = tensor(x_), dy = tensor(dy_), out = tensor(out_);
    if (op_.find("grad") == std::string::npos)
      call.argument("x", x).argument("out", out);
    else
      call.argument("y", x).argument("dy", dy).argument("dx", out);
    EXPECT_EQ(call.run(execution).launches, 1);
  }
  void spoil() { std::fill_n(out_.get(), bytes_, static_cast<unsigned char>(0x5a)); }
  std::vector<unsigned char> out() const { return {out_.get(), out_.get() + bytes_}; }

 private:
  std::size_t element() const { return type_.bits / 8u; }
  Tensor tensor(const Managed<unsigned char>& of) const {
    return Tensor(of.get(), type_, shape_, kDevice);
  }
  void put(unsigned char* to, std::size_t i, float value) const {
    if (type_.bits == 32)
      reinterpret_cast<float*>(to)[i] = value;
    else if (type_.code == kDLFloat)
      reinterpret_cast<float16*>(to)[i] = portable::narrow_float16(value);
    else
      reinterpret_cast<bfloat16*>(to)[i] = portable::narrow_bfloat16(value);
  }

  std::string op_;
  DLDataType type_;
  std::vector<std::int64_t> shape_;
  std::size_t bytes_;
  Managed<unsigned char> x_, dy_, out_;
};

constexpr const char* kOperators[] = {"softmax", "log_softmax", "softmax_grad", "log_softmax_grad"};

// Without scratch memory the call goes by clusters.
void expect_same_with_scratch(Problem& problem, ScratchMemory& scratch) {
  problem.spoil();
  problem.run({});
  EXPECT_CUDA(cudaDeviceSynchronize());
  const auto expected = problem.out();
  problem.spoil();
  const int lent = scratch.lent;
  problem.run(scratch.execution(nullptr));
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(scratch.lent, lent + 1) << "no scratch memory was asked for";
  EXPECT_EQ(problem.out(), expected);
}

// Fewer groups of chunks than a device has blocks, and many times as many; rows whose groups go
// round a small part of the blocks, and nearly all of them.
TEST(SoftmaxGridRows, GiveTheBitsOfClusters) {
  TWINOPS_NEEDS_DEVICE;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  ScratchMemory scratch;
  std::fill_n(scratch.memory.get(), scratch.memory.size(), static_cast<unsigned char>(0xff));
  struct Shape {
    std::int64_t rows, length;
  };
  for (const std::string op : kOperators)
    for (DLDataType type : {kFloat16, kBfloat16, kFloat32}) {
      if (type.bits == 32 && op != "log_softmax_grad")
        continue;  // never goes by the tile scheduler
      for (const Shape shape : {Shape{1, (1 << 18) + 1},
                                {5, 400008},
                                {70, (1 << 18) + 1},
                                {43, 270335},
                                {20, 524287},
                                {17, 600001},
                                {9, 1 << 20}})
        for (bool away : {false, true}) {
          if (away && op.ends_with("grad")) continue;  // the backward passes know one kind of row
          Problem problem(op, type, shape.rows, shape.length, kSeed);
          if (away) problem.move_rows_away();
          if (away && shape.rows > 3) problem.put_specials();
          SCOPED_TRACE(testing::Message() << op << ' ' << int{type.code} << ' ' << shape.length
                                          << (away ? ", away" : ""));
          expect_same_with_scratch(problem, scratch);
        }
    }
}

TEST(SoftmaxGridRows, AreRightAtEveryReplay) {
  TWINOPS_NEEDS_DEVICE;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  struct Shape {
    const char* op;
    DLDataType type;
    std::int64_t rows, length;
  };
  for (const auto& [op, type, rows, length] : {Shape{"softmax", kFloat16, 5, 700001},
                                               {"softmax_grad", kBfloat16, 5, 700001},
                                               {"log_softmax_grad", kFloat16, 40, 270001},
                                               {"log_softmax", kBfloat16, 40, 270001}}) {
    ScratchMemory scratch;
    Problem problem(op, type, rows, length, kSeed);
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    problem.run(scratch.execution(stream));
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(scratch.lent, 1);
    for (unsigned replay = 0; replay < 4; ++replay) {
      problem.draw(kSeed + replay);
      if (replay % 2 == 1) problem.move_rows_away();
      problem.run({});
      EXPECT_CUDA(cudaDeviceSynchronize());
      const auto expected = problem.out();
      problem.spoil();
      EXPECT_CUDA(cudaGraphLaunch(executable, stream));
      EXPECT_CUDA(cudaStreamSynchronize(stream));
      EXPECT_EQ(problem.out(), expected) << op << ", replay " << replay;
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
  }
}

// Each call takes the whole device, and its blocks wait for one another.
TEST(SoftmaxGridRows, WaitForOneAnother) {
  TWINOPS_NEEDS_DEVICE;
  constexpr int kStreams = 3;
  std::vector<std::unique_ptr<ScratchMemory>> scratches;
  std::vector<std::unique_ptr<Problem>> problems;
  std::vector<cudaStream_t> streams(kStreams);
  for (int i = 0; i < kStreams; ++i) {
    scratches.push_back(std::make_unique<ScratchMemory>());
    problems.push_back(std::make_unique<Problem>(kOperators[i], i == 1 ? kBfloat16 : kFloat16, 20,
                                                 530000 + i, kSeed + static_cast<unsigned>(i)));
    ASSERT_EQ(
        cudaStreamCreateWithFlags(&streams[static_cast<std::size_t>(i)], cudaStreamNonBlocking),
        cudaSuccess);
  }
  std::vector<std::vector<unsigned char>> expected;
  for (auto& problem : problems) {
    problem->run({});
    EXPECT_CUDA(cudaDeviceSynchronize());
    expected.push_back(problem->out());
    problem->spoil();
  }
  for (int round = 0; round < 10; ++round)
    for (std::size_t i = 0; i < kStreams; ++i)
      problems[i]->run(scratches[i]->execution(streams[i]));
  EXPECT_CUDA(cudaDeviceSynchronize());
  for (std::size_t i = 0; i < kStreams; ++i) {
    EXPECT_EQ(problems[i]->out(), expected[i]) << i;
    EXPECT_EQ(scratches[i]->lent, 10);
    cudaStreamDestroy(streams[i]);
  }
}

}  // namespace
}  // namespace twinops::test
