// Dropout forward and backward, with a bit mask, a byte mask, and without one: 2^28 elements on a
// GPU, 2^26 on a CPU, and BERT-large's activations on both.
#include "benchmarks/bench.hpp"
#include "tools/proof/values.hpp"

namespace bench {
namespace {

struct Size {
  const char* name;
  std::vector<std::int64_t> shape;
  Where where;
};
const Size kSizes[] = {{"2^28", {std::int64_t{1} << 28}, Where::cuda},
                       {"2^26", {std::int64_t{1} << 26}, Where::cpu},
                       {"32x512x1024", {32, 512, 1024}, Where::both}};

enum class Mask { none, bits, bytes };
constexpr const char* kMasks[] = {"no_mask", "bit_mask", "byte_mask"};

void add(std::vector<Timing>& timings, const std::string& op, DLDataType type, const Size& size,
         Mask mask) {
  std::int64_t n = 1;
  for (const std::int64_t d : size.shape) n *= d;
  const proof::TensorSpec x{type, size.shape};
  const proof::TensorSpec m = mask == Mask::bits
                                  ? proof::TensorSpec{twinops::kUint32, {(n + 31) / 32}}
                                  : proof::TensorSpec{twinops::kUint8, size.shape};
  const std::int64_t mask_bytes = mask == Mask::none ? 0 : mask == Mask::bits ? n / 8 : n;
  timings.push_back(
      {op + "/" + twinops_type_name(type) + "/" + size.name + "/" + kMasks[static_cast<int>(mask)],
       2 * n * static_cast<std::int64_t>(proof::size_of(type)) + mask_bytes, size.where, [=] {
         proof::Problem problem(op);
         const bool forward = op == "dropout";
         problem.input(forward ? "x" : "dy", {x}, proof::ordinary())
             .output(forward ? "y" : "dx", {x});
         if (mask != Mask::none && forward) problem.output("mask", {m});
         if (mask != Mask::none && !forward) problem.input("mask", {m}, proof::random_bits());
         return problem.attribute("p", 0.1).attribute("seed", 20261121);
       }});
}

std::vector<Timing> timings_of(const char* op) {
  std::vector<Timing> timings;
  for (const DLDataType type : {twinops::kFloat16, twinops::kBfloat16, twinops::kFloat32})
    for (const Size& size : kSizes)
      for (const Mask mask : {Mask::none, Mask::bits, Mask::bytes})
        add(timings, op, type, size, mask);
  return timings;
}

}  // namespace

std::vector<Timing> dropout_timings() { return timings_of("dropout"); }
std::vector<Timing> dropout_grad_timings() { return timings_of("dropout_grad"); }

}  // namespace bench
