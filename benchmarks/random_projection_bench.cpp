// The random projection and its gradient. Bytes are those of x and y; what takes time is the sums.
#include "benchmarks/bench.hpp"
#include "tools/proof/values.hpp"

namespace bench {
namespace {

struct Shape {
  const char* name;
  std::int64_t rows, columns, k;
};
constexpr Shape kShapes[] = {{"1024x4096to256", 1024, 4096, 256}, {"64x65536to64", 64, 65536, 64}};

}  // namespace

std::vector<Timing> random_projection_timings() {
  std::vector<Timing> timings;
  for (const char* op : {"random_projection", "random_projection_grad"})
    for (const DLDataType type : {twinops::kFloat16, twinops::kFloat32})
      for (const Shape& shape : kShapes) {
        const bool forward = std::string(op) == "random_projection";
        const proof::TensorSpec x{type, {shape.rows, shape.columns}},
            y{type, {shape.rows, shape.k}};
        const auto bytes = shape.rows * (shape.columns + shape.k) *
                           static_cast<std::int64_t>(proof::size_of(type));
        timings.push_back({std::string(op) + "/" + twinops_type_name(type) + "/" + shape.name,
                           bytes, Where::both, [=] {
                             proof::Problem problem(op);
                             problem
                                 .input(forward ? "x" : "dy", {forward ? x : y}, proof::ordinary())
                                 .output(forward ? "y" : "dx", {forward ? y : x});
                             return problem.attribute("s", 3).attribute("seed", 20261121);
                           }});
      }
  return timings;
}

}  // namespace bench
