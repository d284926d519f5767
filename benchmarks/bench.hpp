// What the benchmarks share. An operator names problems and how many bytes each must move; every
// problem is timed on every kernel row of this machine, and beside it, in the same run, what a copy
// of as many bytes takes. Bits are compared with the scalar reference before anything is timed.
//
// Counters of each line (medians, with a cold L2 cache: gradients come from memory):
//   us                what a call takes, in microseconds; on CUDA by events
//   bytes_per_second  bytes that must be read and written, over that time
//   of_copy           that rate / the rate of a copy: memcpy by as many threads, or
//                     cudaMemcpyAsync from device to device
//   of_scale          CPU: that rate / the rate of a plain loop that scales as many bytes of floats
//                     in place, by as many threads; for a list in the list's own memory
//   of_members        CPU, of a list: that rate / the rate of plain loops that scale its tensors
//                     where they lie, one after the other; neighbours without a gap are one
//   of_scale_warm     CPU: of_scale where both ran just before, and small lists are still in L2
//   least_us          CPU: the least of all runs, cold or warm
//   of_scale_least    CPU: the scale loop's least / that: for a machine that others use too
//   empty_us          CUDA: what an empty kernel takes, timed in the same way
//   host_us           CUDA: how long the call keeps its caller
#pragma once

#include "tools/proof/trial.hpp"

namespace bench {

// Which machines a problem is meant for: large ones take long on a CPU.
enum class Where { cpu, cuda, both };

struct Timing {
  std::string name;    // "check_finite_and_unscale/float32/300x1024"
  std::int64_t bytes;  // read and written, at least
  Where where;
  std::function<proof::Problem()> problem;
};

// One line an operator in bench.cpp.
std::vector<Timing> bias_dropout_residual_timings();
std::vector<Timing> check_finite_and_unscale_timings();
std::vector<Timing> dropout_timings();
std::vector<Timing> dropout_grad_timings();
std::vector<Timing> softmax_timings();
std::vector<Timing> bias_dropout_residual_grad_timings();
std::vector<Timing> philox_words_timings();
std::vector<Timing> random_projection_timings();
std::vector<Timing> uniform_timings();
std::vector<Timing> update_loss_scaling_timings();

// The lists of tensors that the loss-scaling operators are timed on.
struct TimedList {
  std::string name;
  std::vector<proof::TensorSpec> tensors;
  std::int64_t bytes;  // of all tensors
  Where where;
};
std::vector<TimedList> timed_lists(DLDataType type);

}  // namespace bench
