// softmax of float32 rows on a GPU in five steps, from the obvious kernel to this library's. Each
// step is one idea; the table says what it is worth beside the roofline, which for softmax is
// memory: 8 bytes an element (read once, written once) against about 20 operations.
//
//   1 naive       a thread an output: every thread reads its whole row, twice
//   2 reduction   a block a row: threads share the sums through shared memory; each walks a
//                 stretch of its own, so that neighbours read far apart
//   3 coalesced   the same, neighbours read neighbours
//   4 one pass    maximum and sum in one go, rescaling as the maximum grows: two reads, not three
//   5 twinops     the row stays in registers: one read; and the sum has one order, docs/softmax.md
//
// usage: softmax_steps [columns...]
// README.md beside this file goes through the steps.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "twinops/twinops.h"

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kElements = std::int64_t{1} << 26;

void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "softmax_steps: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

__global__ void naive(const float* x, float* y, int columns, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float* const row = x + i / columns * columns;
  float max = -INFINITY, sum = 0;
  for (int j = 0; j < columns; ++j) max = fmaxf(max, row[j]);
  for (int j = 0; j < columns; ++j) sum += expf(row[j] - max);
  y[i] = expf(x[i] - max) / sum;
}

// The result of `join` over every thread's value.
template <class Join>
__device__ float reduce(float value, Join join) {
  __shared__ float values[kThreads];
  values[threadIdx.x] = value;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      values[threadIdx.x] = join(values[threadIdx.x], values[threadIdx.x + half]);
  }
  __syncthreads();
  const float result = values[0];
  __syncthreads();
  return result;
}

// kCoalesced: thread t takes elements t, t + 256, ...; else a stretch of neighbours.
template <bool kCoalesced>
__global__ void reduction(const float* x, float* y, int columns) {
  const float* const row = x + std::int64_t{blockIdx.x} * columns;
  float* const out = y + std::int64_t{blockIdx.x} * columns;
  const int each = (columns + kThreads - 1) / kThreads;
  const int begin = kCoalesced ? threadIdx.x : threadIdx.x * each;
  const int end = kCoalesced ? columns : min(columns, begin + each);
  const int step = kCoalesced ? kThreads : 1;
  float max = -INFINITY, sum = 0;
  for (int j = begin; j < end; j += step) max = fmaxf(max, row[j]);
  max = reduce(max, [](float a, float b) { return fmaxf(a, b); });
  for (int j = begin; j < end; j += step) sum += expf(row[j] - max);
  sum = reduce(sum, [](float a, float b) { return a + b; });
  for (int j = begin; j < end; j += step) out[j] = expf(row[j] - max) / sum;
}

__global__ void one_pass(const float* x, float* y, int columns) {
  const float* const row = x + std::int64_t{blockIdx.x} * columns;
  float* const out = y + std::int64_t{blockIdx.x} * columns;
  float max = -INFINITY, sum = 0;
  for (int j = threadIdx.x; j < columns; j += kThreads) {
    const float greater = fmaxf(max, row[j]);
    sum = sum * expf(max - greater) + expf(row[j] - greater);
    max = greater;
  }
  const float greatest = reduce(max, [](float a, float b) { return fmaxf(a, b); });
  sum = reduce(max == -INFINITY ? 0 : sum * expf(max - greatest),
               [](float a, float b) { return a + b; });
  for (int j = threadIdx.x; j < columns; j += kThreads) out[j] = expf(row[j] - greatest) / sum;
}

// The median time of a call in milliseconds; what lies in L2 is pushed out before each.
template <class Call>
double milliseconds(Call&& call, char* other, std::size_t other_bytes) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<float> times(15);
  for (float& time : times) {
    check(cudaMemsetAsync(other, 0, other_bytes));
    check(cudaEventRecord(begin));
    call();
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    check(cudaEventElapsedTime(&time, begin, end));
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  std::nth_element(times.begin(), times.begin() + 7, times.end());
  return times[7];
}

void run_twinops(const float* x, float* y, int columns) {
  std::int64_t shape[] = {kElements / columns, columns};
  const auto view = [&](const float* data) {
    return DLTensor{
        const_cast<float*>(data), {kDLCUDA, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  };
  const DLTensor in = view(x), out = view(y);
  const DLTensor *const ins[] = {&in}, *const outs[] = {&out};
  const twinops_argument arguments[] = {{sizeof(twinops_argument), "x", ins, 1},
                                        {sizeof(twinops_argument), "out", outs, 1}};
  if (twinops_run("softmax", arguments, 2, nullptr, 0, nullptr) == TWINOPS_OK) return;
  std::fprintf(stderr, "softmax_steps: %s\n", twinops_last_error());
  std::exit(1);
}

struct Step {
  const char* name;
  void (*run)(const float* x, float* y, int columns);
};

const Step kSteps[] = {
    {"1 naive",
     [](const float* x, float* y, int columns) {
       const std::int64_t n = kElements / columns * columns;
       naive<<<static_cast<unsigned>((n + kThreads - 1) / kThreads), kThreads>>>(x, y, columns, n);
     }},
    {"2 reduction",
     [](const float* x, float* y, int columns) {
       reduction<false><<<static_cast<unsigned>(kElements / columns), kThreads>>>(x, y, columns);
     }},
    {"3 coalesced",
     [](const float* x, float* y, int columns) {
       reduction<true><<<static_cast<unsigned>(kElements / columns), kThreads>>>(x, y, columns);
     }},
    {"4 one pass",
     [](const float* x, float* y, int columns) {
       one_pass<<<static_cast<unsigned>(kElements / columns), kThreads>>>(x, y, columns);
     }},
    {"5 twinops", [](const float* x, float* y, int columns) { run_twinops(x, y, columns); }},
};

// The greatest difference of two results over some rows.
double difference(const float* a, const float* b, std::size_t n) {
  std::vector<float> of_a(n), of_b(n);
  check(cudaMemcpy(of_a.data(), a, n * sizeof(float), cudaMemcpyDeviceToHost));
  check(cudaMemcpy(of_b.data(), b, n * sizeof(float), cudaMemcpyDeviceToHost));
  double most = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::max(most, std::abs(double{of_a[i]} - of_b[i]));
  return most;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> columns;
  for (int i = 1; i < argc; ++i) columns.push_back(std::atoi(argv[i]));
  if (columns.empty()) columns = {128, 1024, 4096, 16384};
  constexpr std::size_t kBytes = kElements * sizeof(float), kOther = std::size_t{256} << 20;
  float *x, *y, *right;
  char* other;
  check(cudaMalloc(&x, kBytes));
  check(cudaMalloc(&y, kBytes));
  check(cudaMalloc(&right, kBytes));
  check(cudaMalloc(&other, kOther));
  std::vector<float> values(kElements);
  std::uint32_t state = 1;
  for (float& v : values)
    v = static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-21f - 4;
  check(cudaMemcpy(x, values.data(), kBytes, cudaMemcpyHostToDevice));

  const double copy = milliseconds(
      [&] { check(cudaMemcpyAsync(y, x, kBytes, cudaMemcpyDeviceToDevice)); }, other, kOther);
  std::printf("copy of %lld floats: %.0f GB/s read and written; softmax's roofline\n\n%-12s",
              static_cast<long long>(kElements), 2e-6 * kBytes / copy, "GB/s");
  for (const int c : columns) std::printf("%18d columns", c);
  std::printf("\n");
  for (const Step& step : kSteps) {
    std::printf("%-12s", step.name);
    for (const int c : columns) {
      const bool hopeless = step.name[0] == '1' && c > 1024;  // minutes
      if (hopeless) {
        std::printf("%26s", "-");
        continue;
      }
      kSteps[4].run(x, right, c);
      step.run(x, y, c);
      check(cudaGetLastError());
      const double off = difference(y, right, static_cast<std::size_t>(c) * 4);
      const double time = milliseconds([&] { step.run(x, y, c); }, other, kOther);
      std::printf("%12.0f (%4.2f)%s", 2e-6 * kBytes / time, copy / time,
                  off < 1e-6 ? "       " : " WRONG ");
      std::fflush(stdout);
    }
    std::printf("\n");
  }
  return 0;
}
