// random_projection and its gradient, one sum after the other.
#include <vector>

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/rows/offsets.hpp"
#include "numerics/fold.hpp"
#include "operators/random_projection.hpp"

namespace twinops {
namespace {

// Draws the words of all entries that output o uses.
void draw_words(const Projection& p, const Sequence& sequence, std::int64_t o,
                std::vector<std::uint32_t>& words) {
  for (std::int64_t t = 0; t < p.terms; ++t)
    words[static_cast<std::size_t>(t)] =
        word_of({RandomLayout::contiguous, 1, 1}, sequence, p.draw(t, o));
}

template <class T>
void project_one_by_one(const Projection& p) {
  using F = compute_t<T>;
  const Sequence sequence = p.random.sequence();
  std::vector<F> terms(static_cast<std::size_t>(p.terms));
  std::vector<std::uint32_t> words(terms.size());
  for (std::int64_t o = 0; o < p.outputs; ++o) {
    draw_words(p, sequence, o, words);
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const auto row = row_offsets(p.outer, r);
      const T* x = static_cast<const T*>(p.x) + row.of[Projection::kX];
      for (std::int64_t t = 0; t < p.terms; ++t) {
        const std::uint32_t word = words[static_cast<std::size_t>(t)];
        terms[static_cast<std::size_t>(t)] = projection_term<F>(
            is_plus_one(word, p.words), is_minus_one(word, p.words), widen(x[t * p.x_step]));
      }
      static_cast<T*>(p.y)[row.of[Projection::kY] + o * p.y_step] =
          narrow<T>(projected(folded_sum(terms.data(), p.terms), static_cast<F>(p.scale)));
    }
  }
}

void reference_projection(const Projection& p, Execution& execution) {
  execution.random_words = p.random.words;
  if (p.rows == 0) return;  // no row takes the entries
  with_floating_type(p.type, [&]<class T>(TypeTag<T>) { project_one_by_one<T>(p); });
}

}  // namespace

template <>
void run_reference<RandomProjection>(const Projection& p, Execution& execution) {
  reference_projection(p, execution);
}
template <>
void run_reference<RandomProjectionGrad>(const Projection& p, Execution& execution) {
  reference_projection(p, execution);
}

}  // namespace twinops
