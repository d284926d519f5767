// Random words, the numbers made of them, and where in a random sequence they lie. twinops.hpp
// includes this file.
//
// All randomness is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011) with cuRAND's use of key and counter: docs/numerics.md, "Random numbers". The word of an
// element is a function of seed, subsequence, offset and the element's index, and of nothing else:
// docs/same-mask-everywhere.md.
#pragma once

#include "twinops/call.hpp"

namespace twinops {

// Which words of which sequence the elements of a tensor take. The element with index e (its
// row-major index in the tensor, or in the whole tensor that it is cut from, plus element_offset)
// takes, by layout:
//   contiguous  word e mod 4 of block offset / 4 + e / 4 of `subsequence`: what one thread draws by
//               curand() again and again after curand_init(seed, subsequence, offset)
//   strided     with q = e / 4, word e mod 4 of block offset / 4 + q / period of subsequence
//               `subsequence` + q mod period: with period 65536, cuRAND's host API in its default
//               order
//   triton      word 0 of block e of subsequence 0: Triton's tl.randint(seed, e)
//   torch       what PyTorch's dropout draws on a GPU that holds `period` threads:
//               docs/operators/philox_words.md has the rule
// Report::random_words of a call says how far `offset` must move before the next call; the two then
// share no word.
struct RandomOptions {
  std::uint64_t seed = 0;             // Philox's key, all 64 bits
  std::uint64_t subsequence = 0;      // curand_init's second argument; 0 in layout triton
  std::uint64_t offset = 0;           // words to skip; a multiple of 4; 0 in layout triton
  const char* layout = "contiguous";  // or "strided", "triton", "torch"
  std::int64_t period = 65536;        // of layout strided: subsequences that take turns; 1 or more;
                                      // of torch: the GPU's threads, a multiple of 256
  std::int64_t vector = 0;            // of layout torch: the most elements of a thread at once, 1,
                                      // 2, 4, 8; 0: those of 16 bytes
  std::int64_t element_offset = 0;    // added to every element's index; 0 or more

  // Of a tensor that is cut from a larger one, as by a rank of many: the shape of the whole, and
  // the index of the tensor's first element in it; one number a dimension. Empty: the tensor is the
  // whole; an empty start with a global_shape is the origin. The tensor draws what the whole would
  // draw there, and random_words is that of the whole.
  std::vector<std::int64_t> global_shape = {}, start = {};

  // Axes along which all elements share one word; negative ones count from the last. {2, 3} of
  // [N, C, H, W] draws one word a channel, as torch.nn.Dropout2d.
  std::vector<std::int64_t> shared_axes = {};

  // Read by the kernel, for CUDA graphs: one int64 or uint64 element each. seed_tensor is taken in
  // place of `seed`, which must be 0; offset_tensor is added to `offset`, and its low two bits are
  // ignored. Not in layout triton: offset_tensor.
  std::optional<Tensor> seed_tensor = {}, offset_tensor = {};

  // A seed for each row (all axes but the last), in place of `seed`: int64 or uint64, as many
  // elements as the tensor has rows, without gaps. Each row draws as a call of its own would.
  std::optional<Tensor> seeds = {};

  Call& add_to(Call& call) const {
    if (seed_tensor) call.argument("seed_tensor", *seed_tensor);
    if (offset_tensor) call.argument("offset_tensor", *offset_tensor);
    if (seeds) call.argument("seeds", *seeds);
    if (vector != 0) call.attribute("vector", vector);
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

// words[e] = the random 32-bit word of element e, as an integer. `words`: uint32, any shape.
// Refuses: an offset that is not a multiple of 4, a period below 1, a negative element_offset, a
// period that is no multiple of 256 and a vector but 0, 1, 2, 4 and 8 in layout torch, a tensor
// that does not lie in global_shape, two seeds, an axis that the tensor does not have, indexes
// beyond 63 bits; every operator that takes RandomOptions refuses the same.
// docs/operators/philox_words.md
inline Report philox_words(const Tensor& words, const RandomOptions& options = {},
                           const Execution& execution = {}) {
  Call call("philox_words");
  return options.add_to(call.argument("words", words)).run(execution);
}

// out[e] = a uniform random number made of that word. `out`: float32, any shape. In layouts
// contiguous and strided it is in (0, 1], bit for bit curand_uniform's; in layout triton in [0, 1),
// bit for bit tl.rand's. docs/operators/uniform.md
inline Report uniform(const Tensor& out, const RandomOptions& options = {},
                      const Execution& execution = {}) {
  Call call("uniform");
  return options.add_to(call.argument("out", out)).run(execution);
}

// The matrix R of a random projection, [columns, k]: each entry is +1 or -1 with a probability of
// 1 / (2 s) each, else 0 (s = 1 and 3: Achlioptas 2003; larger: Li, Hastie and Church 2006). Entry
// (i, j) is decided by word i * k + j of layout contiguous. R is drawn as it is used and is never
// in memory: docs/numerics.md, "Random projection".
struct ProjectionOptions {
  double s = 3;                     // one entry in s is not 0; 1 to 2^31, rounded to float32
  std::uint64_t seed = 0;           // as in RandomOptions
  std::uint64_t subsequence = 0;    // as in RandomOptions
  std::uint64_t offset = 0;         // words to skip; a multiple of 4
  std::int64_t element_offset = 0;  // added to every entry's index; 0 or more. c * k skips the
                                    // first c rows of R, which another rank holds
  std::optional<Tensor> seed_tensor = {}, offset_tensor = {};  // as in RandomOptions

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

// y = sqrt(s / k) x R: the rows of x in k dimensions, distances kept in the mean (Johnson and
// Lindenstrauss). x: floating, [..., columns]; y: the type of x, [..., k]; it may not be x. Sums
// are taken in the order of docs/numerics.md, "Sums". Refuses an x without dimensions, an s out of
// range, a matrix whose indexes do not fit 63 bits; on CUDA without an allocator, sums of more than
// 2^22 terms. docs/operators/random_projection.md
inline Report random_projection(const Tensor& x, const Tensor& y,
                                const ProjectionOptions& options = {},
                                const Execution& execution = {}) {
  Call call("random_projection");
  return options.add_to(call.argument("x", x).argument("y", y)).run(execution);
}

// dx = sqrt(s / k) dy R^T, the gradient of x. dy: floating, [..., k]; dx: the type of dy,
// [..., columns]. Give the options of the forward call. docs/operators/random_projection.md
inline Report random_projection_grad(const Tensor& dy, const Tensor& dx,
                                     const ProjectionOptions& options = {},
                                     const Execution& execution = {}) {
  Call call("random_projection_grad");
  return options.add_to(call.argument("dy", dy).argument("dx", dx)).run(execution);
}

}  // namespace twinops
