// In place, as the frameworks call it; the scale is 1, so that a thousand runs change nothing.
#include "benchmarks/bench.hpp"
#include "tools/proof/values.hpp"

namespace bench {

std::vector<Timing> check_finite_and_unscale_timings() {
  std::vector<Timing> timings;
  for (const DLDataType type : proof::kFloatingTypes) {
    for (const TimedList& list : timed_lists(type)) {
      timings.push_back(
          {std::string("check_finite_and_unscale/") + twinops_type_name(type) + "/" + list.name,
           2 * list.bytes, list.where, [list] {
             proof::Problem problem("check_finite_and_unscale");
             problem.one_array = true;
             return problem.input("x", list.tensors, proof::ordinary())
                 .input("scale", {{twinops::kFloat32, {}}}, proof::constant(1))
                 .output("out", proof::in_place(list.tensors, "x"))
                 .output("found_inf", {{twinops::kFloat32, {}}}, proof::constant(0));
           }});
    }
  }
  return timings;
}

}  // namespace bench
