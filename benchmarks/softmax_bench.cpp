// softmax and log_softmax and their backward passes: rows of every kind of kernel, real ones among
// them, 2^26 elements on a GPU and 2^22 on a CPU.
#include "benchmarks/bench.hpp"
#include "tools/proof/values.hpp"

namespace bench {
namespace {

constexpr std::int64_t kColumns[] = {64, 512, 1024, 4096, 16384, 50257, 65536, 1 << 20};

void add(std::vector<Timing>& timings, const std::string& op, DLDataType type,
         std::int64_t elements, std::int64_t columns, Where where) {
  const std::int64_t rows = std::max<std::int64_t>(1, elements / columns);
  const proof::TensorSpec x{type, {rows, columns}};
  const auto bytes = rows * columns * static_cast<std::int64_t>(proof::size_of(type));
  const bool forward = op == "softmax" || op == "log_softmax";
  timings.push_back({op + "/" + twinops_type_name(type) + "/" + std::to_string(rows) + "x" +
                         std::to_string(columns),
                     (forward ? 2 : 3) * bytes, where, [=] {
                       proof::Problem problem(op);
                       if (forward)
                         return problem.input("x", {x}, proof::ordinary()).output("out", {x});
                       return problem.input("y", {x}, proof::ordinary())
                           .input("dy", {x}, proof::ordinary())
                           .output("dx", {x});
                     }});
}

}  // namespace

std::vector<Timing> softmax_timings() {
  std::vector<Timing> timings;
  for (const char* op : {"softmax", "log_softmax", "softmax_grad", "log_softmax_grad"})
    for (const DLDataType type : {twinops::kFloat16, twinops::kBfloat16, twinops::kFloat32})
      for (const std::int64_t columns : kColumns) {
        add(timings, op, type, std::int64_t{1} << 26, columns, Where::cuda);
        add(timings, op, type, std::int64_t{1} << 22, columns, Where::cpu);
      }
  return timings;
}

}  // namespace bench
