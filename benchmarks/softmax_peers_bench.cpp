// float32 softmax on the CPU beside oneDNN's, with the same threads in one process. The two take
// turns, so that what else the machine does hits both; the figure is the best of many turns.
// usage: softmax_peers_bench [threads]
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <dnnl.hpp>
#include <random>
#include <vector>

#include "twinops/twinops.hpp"

namespace {

double seconds(auto&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class OneDnn {
 public:
  OneDnn(std::int64_t rows, std::int64_t columns, float* x, float* y)
      : engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        layout_({rows, columns}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab),
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

}  // namespace

int main(int argc, char** argv) {
  twinops::Execution execution;
  execution.threads = argc > 1 ? std::atoi(argv[1]) : 1;
  omp_set_num_threads(execution.threads);  // oneDNN's
  std::printf("%10s %10s %12s %12s %8s %12s\n", "rows", "columns", "twinops GB/s", "oneDNN GB/s",
              "ratio", "difference");
  for (std::int64_t columns = 64; columns <= 1 << 20; columns *= 4) {
    for (const std::int64_t elements : {std::int64_t{1} << 16, std::int64_t{1} << 23}) {
      if (columns > elements) continue;
      const std::int64_t rows = elements / columns;
      std::vector<float> x(static_cast<std::size_t>(elements)), ours(x.size()), theirs(x.size());
      std::mt19937 generator(1);
      std::normal_distribution<float> normal(0, 4);
      for (float& v : x) v = normal(generator);
      const twinops::Tensor from(x.data(), {rows, columns}), to(ours.data(), {rows, columns});
      const auto run = [&] {
        twinops::Call("softmax").argument("x", from).argument("out", to).run(execution);
      };
      OneDnn peer(rows, columns, x.data(), theirs.data());
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
      std::printf("%10lld %10lld %12.2f %12.2f %8.2f %12.1e\n", static_cast<long long>(rows),
                  static_cast<long long>(columns), bytes / best, bytes / best_peer,
                  best_peer / best, difference);
    }
  }
}
