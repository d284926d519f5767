// The end of a transformer's block on BERT-large's activations, with a bit mask.
#include "benchmarks/bench.hpp"
#include "tools/proof/values.hpp"

namespace bench {

std::vector<Timing> bias_dropout_residual_timings() {
  constexpr std::int64_t kN = std::int64_t{32} * 512 * 1024;
  std::vector<Timing> timings;
  for (const DLDataType type : {twinops::kFloat16, twinops::kBfloat16, twinops::kFloat32}) {
    const proof::TensorSpec x{type, {32, 512, 1024}};
    const auto size = static_cast<std::int64_t>(proof::size_of(type));
    timings.push_back(
        {std::string("bias_dropout_residual/") + twinops_type_name(type) + "/32x512x1024",
         3 * kN * size + kN / 8, Where::both, [=] {
           return proof::Problem("bias_dropout_residual")
               .input("x", {x}, proof::ordinary())
               .input("bias", {{type, {1024}}}, proof::ordinary())
               .input("residual", {x}, proof::ordinary())
               .output("y", {x})
               .output("mask", {{twinops::kUint32, {kN / 32}}})
               .attribute("p", 0.1)
               .attribute("seed", 20261121);
         }});
  }
  return timings;
}

std::vector<Timing> bias_dropout_residual_grad_timings() {
  constexpr std::int64_t kN = std::int64_t{32} * 512 * 1024;
  std::vector<Timing> timings;
  for (const DLDataType type : {twinops::kFloat16, twinops::kBfloat16, twinops::kFloat32}) {
    const proof::TensorSpec x{type, {32, 512, 1024}};
    const auto size = static_cast<std::int64_t>(proof::size_of(type));
    timings.push_back(
        {std::string("bias_dropout_residual_grad/") + twinops_type_name(type) + "/32x512x1024",
         2 * kN * size + kN / 8, Where::both, [=] {  // what the job needs; a CPU reads dx again
           return proof::Problem("bias_dropout_residual_grad")
               .input("dy", {x}, proof::ordinary())
               .input("mask", {{twinops::kUint32, {kN / 32}}}, proof::random_bits())
               .output("dx", {x})
               .output("dbias", {{type, {1024}}})
               .attribute("p", 0.1)
               .attribute("seed", 20261121);
         }});
  }
  return timings;
}

}  // namespace bench
