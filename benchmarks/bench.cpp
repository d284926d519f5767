#include "benchmarks/bench.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <random>

#include "benchmarks/loops.hpp"
#if defined(TWINOPS_HAS_CUDA)
#include "benchmarks/cuda.hpp"
#endif

namespace bench {
namespace {

constexpr std::vector<Timing> (*kOperators[])() = {
    check_finite_and_unscale_timings,
    update_loss_scaling_timings,
    dropout_timings,
    dropout_grad_timings,
    bias_dropout_residual_timings,
    softmax_timings,
    bias_dropout_residual_grad_timings,
    philox_words_timings,
    uniform_timings,
    random_projection_timings,
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of both series: what is left when nothing else ran on the machine.
double least(const std::vector<double>& a, const std::vector<double>& b) {
  return std::min(*std::min_element(a.begin(), a.end()), *std::min_element(b.begin(), b.end()));
}

// A problem with its memory and the right answer: made once for all rows that are timed on it.
struct Prepared {
  explicit Prepared(const Timing& timing)
      : name(timing.name), trial(timing.problem(), 1), expected(proof::run(trial, "cpu/scalar")) {}
  std::string name;
  proof::Trial trial;
  proof::Outcome expected;
};
const Prepared& prepared(const Timing& timing) {
  static std::unique_ptr<Prepared> last;
  if (last == nullptr || last->name != timing.name) {
    last.reset();
    last = std::make_unique<Prepared>(timing);
  }
  return *last;
}

// Runs once and compares; returns whether the bits are right.
bool is_right(benchmark::State& state, const Prepared& p, proof::Placed& placed,
              const twinops::Execution& execution) {
  const twinops::Report report = placed.run(execution);
  const auto difference = proof::first_difference(p.trial, p.expected, placed.fetch(), report);
  if (difference) state.SkipWithError(proof::describe(*difference).c_str());
  return !difference;
}

void count(benchmark::State& state, std::int64_t bytes, double seconds) {
  state.counters["us"] = seconds * 1e6;
  state.counters["bytes_per_second"] =
      benchmark::Counter(static_cast<double>(bytes) / seconds, benchmark::Counter::kDefaults,
                         benchmark::Counter::OneK::kIs1000);
}

// Fills the L2 caches of `threads` threads with other things.
class Flush {
 public:
  explicit Flush(int threads) : threads_(threads), bytes_(threads * kBytes) {
    std::fill_n(from_.data(), bytes_, std::byte{1});  // memory of its own, not the page of zeros
  }
  void operator()() const {
    copy_loop(reinterpret_cast<char*>(to_.data()), reinterpret_cast<char*>(from_.data()), bytes_,
              threads_);
  }

 private:
  static constexpr std::int64_t kBytes = 8 << 20;  // of each thread, and as many to copy to
  const int threads_;
  const std::int64_t bytes_;
  const proof::Buffer from_{twinops::kHost, static_cast<std::size_t>(bytes_)};
  const proof::Buffer to_{twinops::kHost, static_cast<std::size_t>(bytes_)};
};

template <class F>
double seconds_of(F&& f) {
  const double begin = now();
  f();
  return now() - begin;
}

// One of several that are timed in turns.
struct Timed {
  std::function<void()> run;
  // Says anew where its tensors lie, as a host does just before a call.
  std::function<void()> describe = [] {};
  std::vector<double> cold = {}, warm = {};

  // What it takes after a flush, before which it ran as well, so that memory and code are as far
  // away whatever it is; and what it takes again at once.
  void take_turn(const Flush& flush) {
    run();
    flush();
    describe();
    cold.push_back(seconds_of(run));
    warm.push_back(seconds_of(run));
  }
};

// The tensors of a list, in a trial's block, as so many floats, each of which becomes 1.5.
std::vector<Floats> members(const proof::Trial& trial, const proof::Buffer& block) {
  std::vector<Floats> floats;
  const std::byte* end = nullptr;
  for (const proof::Trial::Place& p : trial.places()) {
    if (p.argument != &trial.problem().arguments.front() || p.begin == p.end) continue;
    const auto n = static_cast<std::int64_t>((p.end - p.begin) / sizeof(float));
    if (block.data() + p.begin == end)
      floats.back().n += n;
    else
      floats.push_back({reinterpret_cast<float*>(block.data() + p.begin), n});
    end = block.data() + p.end;
  }
  for (const Floats& f : floats) std::fill_n(f.x, f.n, 1.5f);
  return floats;
}

void time_on_cpu(benchmark::State& state, const Timing& timing, const std::string& row,
                 int threads) {
  const Prepared& p = prepared(timing);
  proof::Placed placed(p.trial, twinops::kHost);
  twinops::Execution execution;
  execution.row = row;
  execution.threads = threads;
  if (!is_right(state, p, placed, execution)) return;

  const std::int64_t bytes = timing.bytes / 2;  // read once and written once
  const proof::Buffer from(twinops::kHost, static_cast<std::size_t>(bytes));
  const proof::Buffer to(twinops::kHost, static_cast<std::size_t>(bytes));
  std::fill_n(reinterpret_cast<float*>(from.data()), bytes / 4, 1.5f);
  const volatile float one = 1;  // which the loop must not know
  const float factor = one;
  // The loops work on a list's own memory: where pages lie is up to a fifth of a time. (Of what
  // begins with a list's first tensor as many bytes are the block's, gaps and all.)
  const bool list = p.trial.problem().arguments.front().tensors.size() > 1;
  std::vector<Floats> tensors, described;
  std::optional<proof::Buffer> apart;
  if (list) {
    described = tensors = members(p.trial, placed.fetch());
  } else {
    apart.emplace(twinops::kHost, static_cast<std::size_t>(bytes));
    std::fill_n(reinterpret_cast<float*>(apart->data()), bytes / 4, 1.5f);
  }
  float* const scaled = list ? tensors.front().x : reinterpret_cast<float*>(apart->data());

  const Flush flush(threads);
  Timed ours{[&] { placed.run(execution); }, [&] { placed.describe(); }};
  Timed scale{[&] { scale_loop(scaled, bytes / 4, factor, threads); }};
  Timed loops{[&] { scale_loops(described, factor, threads); }, [&] { described = tensors; }};
  Timed copy{[&] {
    copy_loop(reinterpret_cast<char*>(to.data()), reinterpret_cast<char*>(from.data()), bytes,
              threads);
  }};
  std::vector<Timed*> turns{&ours, &scale, &copy};
  if (list) turns.push_back(&loops);
  std::mt19937 order(1);
  for (auto _ : state) {
    // In turns, so that a disturbance of the machine meets all of them, and in any order: who comes
    // after the copy finds less in the last cache (5 us of 20 where that decided).
    std::shuffle(turns.begin(), turns.end(), order);
    for (Timed* const timed : turns) timed->take_turn(flush);
    state.SetIterationTime(ours.cold.back());
  }
  count(state, timing.bytes, median(ours.cold));
  state.counters["of_scale"] = median(scale.cold) / median(ours.cold);
  if (list) state.counters["of_members"] = median(loops.cold) / median(ours.cold);
  state.counters["of_scale_warm"] = median(scale.warm) / median(ours.warm);
  state.counters["of_scale_least"] = least(scale.cold, scale.warm) / least(ours.cold, ours.warm);
  state.counters["least_us"] = least(ours.cold, ours.warm) * 1e6;
  state.counters["of_copy"] = median(copy.cold) / median(ours.cold);
}

#if defined(TWINOPS_HAS_CUDA)
void time_on_cuda(benchmark::State& state, const Timing& timing, const std::string& row) {
  const Prepared& p = prepared(timing);
  const DLDevice device = proof::device_of(row);
  proof::Placed placed(p.trial, device);
  twinops::Execution execution;
  execution.row = row;
  if (!is_right(state, p, placed, execution)) return;

  CudaTimer timer(device.device_id);
  std::vector<double> ours, copy, empty, host;
  for (auto _ : state) {
    ours.push_back(timer.seconds([&](void* stream) {
      execution.stream = stream;
      const double begin = now();
      placed.run(execution);
      host.push_back(now() - begin);
    }));
    copy.push_back(timer.copy_seconds(timing.bytes / 2));
    empty.push_back(timer.empty_seconds());
    state.SetIterationTime(ours.back());
  }
  count(state, timing.bytes, median(ours));
  state.counters["of_copy"] = median(copy) / median(ours);
  state.counters["empty_us"] = median(empty) * 1e6;
  state.counters["host_us"] = median(host) * 1e6;
}
#endif

// Of a CPU benchmark: many of what is over at once, a few of what takes long.
benchmark::IterationCount iterations(std::int64_t bytes) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 31;
  return std::clamp<std::int64_t>(kBytes / bytes, 7, 101);
}

void add_cpu(const Timing& timing, const std::string& row) {
  std::vector<int> threads{1};
  if (most_threads() > 1) threads.push_back(most_threads());
  for (const int n : threads)
    benchmark::RegisterBenchmark(
        (timing.name + "/" + row + "/threads:" + std::to_string(n)).c_str(),
        [timing, row, n](benchmark::State& state) { time_on_cpu(state, timing, row, n); })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->Iterations(iterations(timing.bytes));
}

void add(const Timing& timing) {
  for (const std::string& row : twinops::available_rows()) {
    if (row == "cpu/scalar") continue;  // written to be read, not to be fast
    const bool cuda = row.starts_with("cuda");
    if (timing.where == (cuda ? Where::cpu : Where::cuda)) continue;
    if (!cuda) add_cpu(timing, row);
#if defined(TWINOPS_HAS_CUDA)
    if (cuda)
      benchmark::RegisterBenchmark(
          (timing.name + "/" + row).c_str(),
          [timing, row](benchmark::State& state) { time_on_cuda(state, timing, row); })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond)
          ->Iterations(50);
#endif
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const auto& timings : bench::kOperators)
    for (const bench::Timing& timing : timings()) bench::add(timing);
  if (benchmark::RunSpecifiedBenchmarks() == 0) {
    std::fprintf(stderr, "no benchmark of that name\n");
    return 1;
  }
  return 0;
}
