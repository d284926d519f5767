#include <stdexcept>
#include <string>

#include "benchmarks/cuda.hpp"

namespace bench {
namespace {

constexpr std::size_t kFlushBytes = std::size_t{256} << 20;  // more than any L2 cache

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

__global__ void empty_kernel() {}

}  // namespace

struct CudaTimer::State {
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  void* flush = nullptr;
  void *from = nullptr, *to = nullptr;
  std::int64_t bytes = 0;  // of from and of to
};

CudaTimer::CudaTimer(int device) : state_(new State) {
  check(cudaSetDevice(device));
  check(cudaStreamCreateWithFlags(&state_->stream, cudaStreamNonBlocking));
  check(cudaEventCreate(&state_->begin));
  check(cudaEventCreate(&state_->end));
  check(cudaMalloc(&state_->flush, kFlushBytes));
}

CudaTimer::~CudaTimer() {
  cudaFree(state_->from);
  cudaFree(state_->to);
  cudaFree(state_->flush);
  cudaEventDestroy(state_->begin);
  cudaEventDestroy(state_->end);
  cudaStreamDestroy(state_->stream);
  delete state_;
}

double CudaTimer::seconds(const std::function<void(void* stream)>& queue) {
  check(cudaMemsetAsync(state_->flush, 0, kFlushBytes, state_->stream));
  check(cudaEventRecord(state_->begin, state_->stream));
  queue(state_->stream);
  check(cudaEventRecord(state_->end, state_->stream));
  check(cudaEventSynchronize(state_->end));
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, state_->begin, state_->end));
  return milliseconds * 1e-3;
}

double CudaTimer::copy_seconds(std::int64_t bytes) {
  if (bytes > state_->bytes) {
    check(cudaFree(state_->from));
    check(cudaFree(state_->to));
    state_->from = state_->to = nullptr;
    check(cudaMalloc(&state_->from, static_cast<std::size_t>(bytes)));
    check(cudaMalloc(&state_->to, static_cast<std::size_t>(bytes)));
    state_->bytes = bytes;
  }
  return seconds([&](void* stream) {
    check(cudaMemcpyAsync(state_->to, state_->from, static_cast<std::size_t>(bytes),
                          cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)));
  });
}

double CudaTimer::empty_seconds() {
  return seconds([](void* stream) {
    empty_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>();
    check(cudaGetLastError());
  });
}

void CudaTimer::synchronize() { check(cudaStreamSynchronize(state_->stream)); }
void* CudaTimer::stream() const { return state_->stream; }

}  // namespace bench
