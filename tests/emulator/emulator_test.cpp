// The emulator itself: what threads tell each other, when copies come, and that it notices what a
// kernel must not do.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cfenv>

#include "numerics/float16.hpp"
#include "tests/emulator/kernels_cuda/common/ptx.cuh"

namespace twinops {
namespace {

struct Extent {
  dim3 blocks = 1, threads = 1;
  std::size_t shared = 0;
  unsigned cluster = 1;
  bool resident = false;
};
template <class... Parameters, class... Values>
cudaError_t launch(const Extent& extent, void (*kernel)(Parameters...), const Values&... values) {
  cudaLaunchConfig_t config{extent.blocks, extent.threads, extent.shared, nullptr, nullptr, 0};
  cudaLaunchAttribute attribute{};
  attribute.id =
      extent.resident ? cudaLaunchAttributeCooperative : cudaLaunchAttributeClusterDimension;
  if (extent.resident)
    attribute.val.cooperative = 1;
  else
    attribute.val.clusterDim = {extent.cluster, 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, values...);
}

__global__ void count_kernel(int* counts) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  ++counts[block * blockDim.x * blockDim.y * blockDim.z + thread];
}
TEST(Emulator, RunsEveryThreadOnce) {
  std::vector<int> counts(2 * 3 * 4 * 7 * 3 * 5);
  ASSERT_EQ(launch({dim3(2, 3, 4), dim3(7, 3, 5)}, count_kernel, counts.data()), cudaSuccess);
  EXPECT_EQ(counts, std::vector<int>(counts.size(), 1));
}

__global__ void shuffle_kernel(unsigned* out) {
  const unsigned lane = threadIdx.x;
  out[lane] = __shfl_xor_sync(~0u, lane, 5);
  out[32 + lane] = __shfl_down_sync(~0u, lane, 3, 8);
  out[64 + lane] = __shfl_sync(~0u, lane, 2, 4);
  out[96 + lane] = __ballot_sync(~0u, lane % 3 == 0);
  out[128 + lane] = static_cast<unsigned>(__reduce_max_sync(~0u, 7 - static_cast<int>(lane)));
  out[160 + lane] = __syncthreads_or(lane == 31);
  out[192 + lane] = __syncthreads_and(lane != 31);
}
TEST(Emulator, LanesTellEachOther) {
  std::vector<unsigned> out(7 * 32);
  ASSERT_EQ(launch({1, 32}, shuffle_kernel, out.data()), cudaSuccess);
  for (unsigned lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[lane], lane ^ 5);
    EXPECT_EQ(out[32 + lane], lane % 8 < 5 ? lane + 3 : lane);
    EXPECT_EQ(out[64 + lane], lane / 4 * 4 + 2);
    EXPECT_EQ(out[96 + lane], 0x49249249u);
    EXPECT_EQ(out[128 + lane], 7u);
    EXPECT_EQ(out[160 + lane], 1u);
    EXPECT_EQ(out[192 + lane], 0u);
  }
}

__global__ void ballot_kernel(unsigned* out) {  // some lanes have ended, others end at once
  if (threadIdx.x >= 20) return;
  out[threadIdx.x] = __ballot_sync(~0u, 1);
}
TEST(Emulator, LanesThatHaveEndedSayNothing) {
  std::vector<unsigned> out(20);
  ASSERT_EQ(launch({1, 32}, ballot_kernel, out.data()), cudaSuccess);
  EXPECT_EQ(out, std::vector<unsigned>(20, 0xfffffu));
}

__global__ void reverse_kernel(int* out, bool barrier) {
  __shared__ int turned[256];
  turned[255 - threadIdx.x] = static_cast<int>(threadIdx.x + 1000 * blockIdx.x);
  if (barrier) __syncthreads();
  out[256 * blockIdx.x + threadIdx.x] = turned[threadIdx.x];
}
TEST(Emulator, ShowsABarrierThatIsNotThere) {
  std::vector<int> expected, out(1024);
  for (int i = 0; i < 1024; ++i) expected.push_back(255 - i % 256 + i / 256 * 1000);
  ASSERT_EQ(launch({4, 256}, reverse_kernel, out.data(), true), cudaSuccess);
  EXPECT_EQ(out, expected);
  ASSERT_EQ(launch({4, 256}, reverse_kernel, out.data(), false), cudaSuccess);
  EXPECT_NE(out, expected);
}

__global__ void unset_kernel(std::uint32_t* out) {
  TWINOPS_DYNAMIC_SHARED(memory);
  auto& word = reinterpret_cast<std::uint32_t*>(memory)[threadIdx.x];
  out[blockIdx.x * 32 + threadIdx.x] = word;
  word = 1;
}
TEST(Emulator, SharedMemoryBeginsAsNans) {
  std::vector<std::uint32_t> out(64);
  ASSERT_EQ(launch({2, 32, 128}, unset_kernel, out.data()), cudaSuccess);
  EXPECT_EQ(out, std::vector<std::uint32_t>(64, ~0u));
}

__global__ void copy_kernel(const uint4* from, unsigned* before, unsigned* after) {
  TWINOPS_DYNAMIC_SHARED(memory);
  auto* const mine = reinterpret_cast<uint4*>(memory) + 3 * threadIdx.x;
  copy_16_bytes_async<0, true>(shared_address(mine), from + threadIdx.x);
  __pipeline_commit();
  __pipeline_memcpy_async(mine + 1, from + threadIdx.x, 16);
  __pipeline_commit();
  copy_16_bytes_async<16, false>(shared_address(mine + 1), from + threadIdx.x - 1);
  before[threadIdx.x] = mine->x;
  __pipeline_wait_prior(1);
  after[threadIdx.x] = mine->x + (mine[1].x == ~0u ? 0 : 1000);
  wait_for_copies();
  after[threadIdx.x] += mine[1].x + mine[2].x;
}
TEST(Emulator, CopiesComeWhenTheyAreWaitedFor) {
  std::vector<uint4> from(65);
  for (unsigned i = 0; i < 65; ++i) from[i] = {i, 0, 0, 0};
  std::vector<unsigned> before(64), after(64);
  ASSERT_EQ(launch({1, 64, 3 * 1024}, copy_kernel, from.data(), before.data(), after.data()),
            cudaSuccess);
  for (unsigned i = 0; i < 64; ++i) {
    EXPECT_EQ(before[i], ~0u);
    EXPECT_EQ(after[i], 3 * i);
  }
}

// Every block sends its rank to all of its cluster, in two ways.
__global__ void cluster_kernel(int* sums, int blocks) {
  TWINOPS_DYNAMIC_SHARED(memory);
  auto& arrived = *reinterpret_cast<std::uint64_t*>(memory);
  int* const sent = reinterpret_cast<int*>(memory) + 4;
  int* const stored = sent + blocks;
  if (threadIdx.x == 0) start_barrier(arrived);
  cluster_sync();
  const int lane = static_cast<int>(threadIdx.x), rank = static_cast<int>(blockIdx.x) % blocks;
  if (lane < blocks) {
    send_to_block(sent + rank, &arrived, lane, rank + 1);
    *in_block_of_cluster(stored + rank, lane) = 100 * (rank + 1);
  }
  if (threadIdx.x == 0) expect_bytes(shared_address(&arrived), blocks * 4);
  wait_for_phase(shared_address(&arrived), 0);
  int sum = 0;
  for (int i = 0; i < blocks; ++i) sum += sent[i];
  cluster_arrive_relaxed();
  cluster_wait();
  for (int i = 0; i < blocks; ++i) sum += stored[i];
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
TEST(Emulator, BlocksOfAClusterSendToEachOther) {
  for (const int blocks : {1, 2, 8}) {
    std::vector<int> sums(24);
    ASSERT_EQ(
        launch({24, 64, 1024, static_cast<unsigned>(blocks)}, cluster_kernel, sums.data(), blocks),
        cudaSuccess);
    EXPECT_EQ(sums, std::vector<int>(24, 101 * blocks * (blocks + 1) / 2));
  }
}

// One warp hands numbers to another, which says when it has taken one.
__global__ void hand_over_kernel(int* sum, int rounds) {
  TWINOPS_DYNAMIC_SHARED(memory);
  auto* const barriers = reinterpret_cast<std::uint64_t*>(memory);  // given, taken
  int* const number = reinterpret_cast<int*>(memory) + 4;
  if (threadIdx.x < 2) start_barrier(barriers[threadIdx.x]);
  __syncthreads();
  const auto given = shared_address(barriers), taken = shared_address(barriers + 1);
  for (int i = 0; i < rounds; ++i) {
    if (threadIdx.x == 0) {
      if (i > 0) wait_for_phase(taken, (i - 1) & 1);
      *number = i + 1;
      arrive(given);
    } else if (threadIdx.x == 32) {
      wait_for_phase(given, i & 1);
      atomicAdd(sum, *number);
      arrive(taken);
    }
  }
}
TEST(Emulator, WarpsHandOverByPhases) {
  int sum = 0;
  ASSERT_EQ(launch({1, 64, 1024}, hand_over_kernel, &sum, 100), cudaSuccess);
  EXPECT_EQ(sum, 5050);
}

__global__ void grid_kernel(unsigned long long* words, unsigned long long* sums) {
  if (threadIdx.x == 0) write_relaxed(words + blockIdx.x, blockIdx.x + 1);
  cooperative_groups::this_grid().sync();
  unsigned long long sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) {
    unsigned long long word[1];
    read_relaxed(words + i, word);
    sum += word[0];
  }
  if (threadIdx.x == 31) sums[blockIdx.x] = sum;
}
TEST(Emulator, BlocksOfAGridMeet) {
  std::vector<unsigned long long> words(8), sums(8);
  ASSERT_EQ(launch({8, 32, 0, 1, true}, grid_kernel, words.data(), sums.data()), cudaSuccess);
  EXPECT_EQ(sums, std::vector<unsigned long long>(8, 36));
}

__global__ void quotient_kernel(float* out, float a, float b) { *out = a / b; }
TEST(Emulator, HasNoneOfTheHostsModes) {
  float out = 0;
  std::fesetround(FE_UPWARD);
  launch({}, quotient_kernel, &out, 5.0f, 3.0f);
  const int mode = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(mode, FE_UPWARD);
  EXPECT_EQ(to_bits(out), 0x3fd55555u);  // the next one if it were rounded up
}

TEST(Emulator, OrdersNumbersOf16Bits) {
  const std::uint16_t zero = 0, minus_zero = 0x8000, one = 0x3c00, infinity = 0x7c00, nan = 0x7e00;
  const auto greater = [](std::uint16_t a, std::uint16_t b) {
    return __hmax2_nan(__half2{{a}, {b}}, __half2{{b}, {a}});
  };
  const auto lesser = [](std::uint16_t a, std::uint16_t b) {
    return __hmin2(__half2{{a}, {b}}, __half2{{b}, {a}});
  };
  const auto both = [](__half2 two, std::uint16_t expected) {
    return two.low.bits == expected && two.high.bits == expected;
  };
  EXPECT_TRUE(both(greater(zero, minus_zero), zero));
  EXPECT_TRUE(both(lesser(zero, minus_zero), minus_zero));
  EXPECT_TRUE(both(greater(one, infinity), infinity));
  EXPECT_TRUE(both(lesser(one, infinity), one));
  EXPECT_TRUE(both(greater(one, nan), 0x7fff));
  EXPECT_TRUE(both(lesser(one, nan), one));
  EXPECT_TRUE(both(lesser(nan, nan), 0x7fff));
}

struct Large {
  char bytes[32765];
};
__global__ void large_kernel(Large) {}
__global__ void nothing_kernel() {}
TEST(Emulator, RefusesWhatADeviceRefuses) {
  EXPECT_EQ(launch({1, 1024}, nothing_kernel), cudaSuccess);
  EXPECT_EQ(launch({1, 1025}, nothing_kernel), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch({0, 32}, nothing_kernel), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch({dim3(1, 65536), 32}, nothing_kernel), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch({6, 32, 0, 4}, nothing_kernel), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch({100, 32, 0, 1, true}, nothing_kernel), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch({}, large_kernel, Large{}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  // What a kernel has to be allowed first.
  EXPECT_EQ(launch({1, 32, 48 * 1024 + 1}, nothing_kernel), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch({16, 32, 0, 16}, nothing_kernel), cudaErrorInvalidConfiguration);
  cudaFuncSetAttribute(nothing_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024);
  cudaFuncSetAttribute(nothing_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  EXPECT_EQ(launch({1, 32, 48 * 1024 + 1}, nothing_kernel), cudaSuccess);
  EXPECT_EQ(launch({16, 32, 0, 16}, nothing_kernel), cudaSuccess);
}

__global__ void half_comes_kernel() { threadIdx.x < 16 ? __syncthreads() : __syncwarp(); }
__global__ void ended_lane_kernel(int* out) {
  if (threadIdx.x == 31) return;
  *out = __shfl_sync(~0u, 1, 31);
}
__global__ void misaligned_kernel(char* out) { write_16_bytes<0>(out, {}); }
__global__ void beyond_kernel() {
  TWINOPS_DYNAMIC_SHARED(memory);
  memory[16] = 1;
}
__global__ void outside_kernel() {
  TWINOPS_DYNAMIC_SHARED(memory);
  in_block_of_cluster(memory + 16, 1);
}
TEST(EmulatorDeathTest, EndsWhatHasNoMeaning) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  int out = 0;
  alignas(16) char bytes[32];
  EXPECT_EQ(launch({1, 32, 17}, beyond_kernel), cudaSuccess);
  EXPECT_DEATH(launch({1, 32}, half_comes_kernel), "block \\(0, 0, 0\\).* that do not come");
  EXPECT_DEATH(launch({1, 32}, ended_lane_kernel, &out), "shuffles from a lane that has ended");
  EXPECT_DEATH(launch({1, 32}, misaligned_kernel, bytes + 8), "misaligned address");
  EXPECT_DEATH(launch({1, 32, 16}, beyond_kernel), "beyond its dynamic shared memory");
  EXPECT_DEATH(launch({2, 32, 16, 2}, outside_kernel), "not in the cluster's shared memory");
}

#if defined(__SANITIZE_ADDRESS__)
__global__ void next_kernel(int* out) { out[threadIdx.x + 1] = 1; }
TEST(EmulatorDeathTest, AddressSanitizerSeesWhatLiesBeyondAnAllocation) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 33 * sizeof(int)), cudaSuccess);
  EXPECT_EQ(launch({1, 32}, next_kernel, static_cast<int*>(memory)), cudaSuccess);
  EXPECT_DEATH(launch({1, 33}, next_kernel, static_cast<int*>(memory)), "heap-buffer-overflow");
  cudaFree(memory);
}
#endif

// Conversions in arithmetic of two kinds.
TEST(Emulator, ConvertsAsNumericsDoes) {
  for (unsigned i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    ASSERT_EQ(to_bits(__half2float({bits})), to_bits(portable::widen(float16{bits}))) << i;
  }
  for (std::uint64_t i = 0; i < 0x100000000u; i += 1021) {  // a prime: every exponent and low bit
    const auto x = bit_cast<float>(static_cast<std::uint32_t>(i));
    ASSERT_EQ(__float2half_rn(x).bits, portable::narrow_float16(x).bits) << i;
    ASSERT_EQ(__float2bfloat16_rn(x).bits, portable::narrow_bfloat16(x).bits) << i;
  }
  for (unsigned i = 0; i < 0x10000; ++i)  // and the middles between float16's values
    for (const unsigned low : {0xfffu, 0x1000u, 0x1001u}) {
      const auto x = bit_cast<float>(i << 16 | low), y = bit_cast<float>(i << 16 | 0x8000 | low);
      ASSERT_EQ(__float2half_rn(x).bits, portable::narrow_float16(x).bits) << i;
      ASSERT_EQ(__float2half_rn(y).bits, portable::narrow_float16(y).bits) << i;
      ASSERT_EQ(__float2bfloat16_rn(y).bits, portable::narrow_bfloat16(y).bits) << i;
    }
}

}  // namespace
}  // namespace twinops
