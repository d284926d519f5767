// float32 softmax on the CPU beside oneDNN's, with the same threads in one process. The two take
// turns, so that what else the machine does hits both; the figure is the best of many turns. First
// along the last axis, then along axis 1 of images, which oneDNN 2.6 leaves to its reference.
// usage: softmax_peers_bench [threads] [--json]
// With --json a line of JSON a figure, for benchmarks/record.py.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <dnnl.hpp>
#include <random>
#include <string>
#include <vector>

#include "twinops/twinops.hpp"

namespace {

double seconds(auto&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

using Shape = std::vector<std::int64_t>;  // softmax is taken along axis 1

class OneDnn {
 public:
  OneDnn(const Shape& shape, float* x, float* y)
      : engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        layout_(shape, dnnl::memory::data_type::f32,
                shape.size() == 2 ? dnnl::memory::format_tag::ab : dnnl::memory::format_tag::abc),
        x_(layout_, engine_, x),
        y_(layout_, engine_, y),
        softmax_({{dnnl::prop_kind::forward_inference, layout_, 1}, engine_}) {}
  void operator()() {
    softmax_.execute(stream_, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_DST, y_}});
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::memory::desc layout_;
  dnnl::memory x_, y_;
  dnnl::softmax_forward softmax_;
};

// One line: both, by turns.
void compare(const Shape& shape, const twinops::Execution& execution, bool json) {
  std::int64_t elements = 1;
  std::string name;
  for (const std::int64_t size : shape) {
    elements *= size;
    name += (name.empty() ? "" : " x ") + std::to_string(size);
  }
  std::vector<float> x(static_cast<std::size_t>(elements)), ours(x.size()), theirs(x.size());
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0, 4);
  for (float& v : x) v = normal(generator);
  const twinops::Tensor from(x.data(), shape), to(ours.data(), shape);
  const auto run = [&] {
    twinops::Call("softmax").argument("x", from).argument("out", to).attribute("axis", 1).run(
        execution);
  };
  OneDnn peer(shape, x.data(), theirs.data());
  run();
  peer();
  float difference = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    difference = std::max(difference, std::abs(ours[i] - theirs[i]) / theirs[i]);
  double best = 1e9, best_peer = 1e9, spent = 0;
  for (int turn = 0; turn < 2000 && spent < 1.5; ++turn) {
    const double mine = seconds(run), other = seconds(peer);
    best = std::min(best, mine);
    best_peer = std::min(best_peer, other);
    spent += mine + other;
  }
  const double bytes = 8.0 * static_cast<double>(elements) * 1e-9;
  if (json) {
    std::printf(R"({"shape": "%s", "columns": %lld, "elements": %lld, "threads": %d, )"
                R"("gbps": %.2f, "peer_gbps": %.2f, "ratio": %.3f})"
                "\n",
                name.c_str(), static_cast<long long>(shape[1]), static_cast<long long>(elements),
                execution.threads, bytes / best, bytes / best_peer, best_peer / best);
    return;
  }
  std::printf("%-20s %12.2f %12.2f %8.2f %12.1e\n", name.c_str(), bytes / best, bytes / best_peer,
              best_peer / best, difference);
}

}  // namespace

int main(int argc, char** argv) {
  twinops::Execution execution;
  const bool json = std::string(argv[argc - 1]) == "--json";
  execution.threads = argc - json > 1 ? std::atoi(argv[1]) : 1;
  omp_set_num_threads(execution.threads);  // oneDNN's
  if (!json)
    std::printf("%-20s %12s %12s %8s %12s\n", "shape", "twinops GB/s", "oneDNN GB/s", "ratio",
                "difference");
  for (std::int64_t columns = 64; columns <= 1 << 20; columns *= 4)
    for (const std::int64_t elements : {std::int64_t{1} << 16, std::int64_t{1} << 23})
      if (columns <= elements) compare({elements / columns, columns}, execution, json);
  for (const Shape& shape : {Shape{2, 21, 512 * 512}, Shape{2, 1000, 64 * 64}, Shape{64, 64, 49}})
    compare(shape, execution, json);
}
