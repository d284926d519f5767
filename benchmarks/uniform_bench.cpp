// uniform and philox_words, which only write, in every layout.
#include "benchmarks/bench.hpp"

namespace bench {
namespace {

struct Size {
  const char* name;
  std::int64_t elements;
  Where where;
};
constexpr Size kSizes[] = {{"2^28", std::int64_t{1} << 28, Where::cuda},
                           {"2^26", std::int64_t{1} << 26, Where::cpu},
                           {"2^14", 1 << 14, Where::cpu}};  // what drawing takes without memory

std::vector<Timing> fill_timings(const char* op, const char* argument, DLDataType type) {
  std::vector<Timing> timings;
  for (const char* layout : {"contiguous", "strided", "triton"})
    for (const Size& size : kSizes)
      timings.push_back(
          {std::string(op) + "/" + layout + "/" + size.name, 4 * size.elements, size.where, [=] {
             return proof::Problem(op)
                 .output(argument, {{type, {size.elements}}})
                 .attribute("layout", layout)
                 .attribute("seed", 20261121);
           }});
  return timings;
}

}  // namespace

std::vector<Timing> philox_words_timings() {
  return fill_timings("philox_words", "words", twinops::kUint32);
}
std::vector<Timing> uniform_timings() { return fill_timings("uniform", "out", twinops::kFloat32); }

}  // namespace bench
