// A step that overflowed, the one that touches the tensors: all are zeroed, and nothing is read.
#include "benchmarks/bench.hpp"
#include "tools/proof/values.hpp"

namespace bench {

std::vector<Timing> update_loss_scaling_timings() {
  const proof::TensorSpec scale{twinops::kFloat32, {}}, steps{twinops::kInt32, {}};
  std::vector<Timing> timings;
  for (const DLDataType type : {twinops::kFloat16, twinops::kFloat32}) {
    for (const TimedList& list : timed_lists(type)) {
      timings.push_back(
          {std::string("update_loss_scaling/") + twinops_type_name(type) + "/" + list.name,
           list.bytes, list.where, [=] {
             proof::Problem problem("update_loss_scaling");
             problem.one_array = true;
             return problem.input("x", list.tensors, proof::ordinary())
                 .input("found_inf", {scale}, proof::constant(1))
                 .input("scale", {scale}, proof::constant(65536))
                 .input("good_steps", {steps}, proof::constant(0))
                 .input("bad_steps", {steps}, proof::constant(0))
                 .output("out", proof::in_place(list.tensors, "x"))
                 .output("scale_out", {scale})
                 .output("good_steps_out", {steps})
                 .output("bad_steps_out", {steps});
           }});
    }
  }
  return timings;
}

}  // namespace bench
