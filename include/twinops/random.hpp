// Random words and where they come from. twinops.hpp includes it.
#pragma once

#include "twinops/call.hpp"

namespace twinops {

// Where random words come from: docs/same-mask-everywhere.md.
struct RandomOptions {
  std::uint64_t seed = 0, subsequence = 0, offset = 0;
  const char* layout = "contiguous";  // or "strided", "triton"
  std::int64_t period = 65536;        // of the strided layout
  std::int64_t element_offset = 0;
  std::vector<std::int64_t> global_shape = {},
                            start = {};  // of a tensor that is cut from a larger one
  std::vector<std::int64_t> shared_axes = {};
  std::optional<Tensor> seed_tensor = {},
                        offset_tensor = {};  // one element each, read by the kernel
  std::optional<Tensor> seeds = {};          // one a row

  Call& add_to(Call& call) const {
    if (seed_tensor) call.argument("seed_tensor", *seed_tensor);
    if (offset_tensor) call.argument("offset_tensor", *offset_tensor);
    if (seeds) call.argument("seeds", *seeds);
    return call.attribute("seed", static_cast<std::int64_t>(seed))
        .attribute("subsequence", static_cast<std::int64_t>(subsequence))
        .attribute("offset", static_cast<std::int64_t>(offset))
        .attribute("layout", layout)
        .attribute("period", period)
        .attribute("element_offset", element_offset)
        .attribute("global_shape", text(global_shape).c_str())
        .attribute("start", text(start).c_str())
        .attribute("shared_axes", text(shared_axes).c_str());
  }

 private:
  static std::string text(const std::vector<std::int64_t>& values) {
    std::string joined;
    for (const std::int64_t value : values)
      joined += (joined.empty() ? "" : ",") + std::to_string(value);
    return joined;
  }
};

// The random 32-bit words that the elements of a tensor draw, and the floats made of them.
// docs/operators/uniform.md
inline Report philox_words(const Tensor& words, const RandomOptions& options = {},
                           const Execution& execution = {}) {
  Call call("philox_words");
  return options.add_to(call.argument("words", words)).run(execution);
}
inline Report uniform(const Tensor& out, const RandomOptions& options = {},
                      const Execution& execution = {}) {
  Call call("uniform");
  return options.add_to(call.argument("out", out)).run(execution);
}

// y = sqrt(s / k) x R for x of [..., columns] and y of [..., k], R of +1, 0 and -1 drawn from the
// seed, one entry in s not 0; and dx = sqrt(s / k) dy R^T. docs/operators/random_projection.md
struct ProjectionOptions {
  double s = 3;
  std::uint64_t seed = 0, subsequence = 0, offset = 0;
  std::int64_t element_offset = 0;
  std::optional<Tensor> seed_tensor = {}, offset_tensor = {};  // one element each

  Call& add_to(Call& call) const {
    if (seed_tensor) call.argument("seed_tensor", *seed_tensor);
    if (offset_tensor) call.argument("offset_tensor", *offset_tensor);
    return call.attribute("s", s)
        .attribute("seed", static_cast<std::int64_t>(seed))
        .attribute("subsequence", static_cast<std::int64_t>(subsequence))
        .attribute("offset", static_cast<std::int64_t>(offset))
        .attribute("element_offset", element_offset);
  }
};
inline Report random_projection(const Tensor& x, const Tensor& y,
                                const ProjectionOptions& options = {},
                                const Execution& execution = {}) {
  Call call("random_projection");
  return options.add_to(call.argument("x", x).argument("y", y)).run(execution);
}
inline Report random_projection_grad(const Tensor& dy, const Tensor& dx,
                                     const ProjectionOptions& options = {},
                                     const Execution& execution = {}) {
  Call call("random_projection_grad");
  return options.add_to(call.argument("dy", dy).argument("dx", dx)).run(execution);
}

}  // namespace twinops
