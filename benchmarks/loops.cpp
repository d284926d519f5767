// Compiled for the machine that it runs on (CMakeLists.txt): the loop that a compiler makes of it
// is what the kernels are measured against.
#include "benchmarks/loops.hpp"

#include <algorithm>
#include <cstring>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace bench {
namespace {

template <class F>
void by_threads(std::int64_t n, int threads, F&& f) {
  constexpr std::int64_t kAlign = 64;
  if (threads <= 1) return f(0, n);
#if defined(_OPENMP)
#pragma omp parallel for num_threads(threads) schedule(static, 1)
#endif
  for (int t = 0; t < threads; ++t) {
    const std::int64_t begin = n / kAlign * t / threads * kAlign;
    const std::int64_t end = t + 1 == threads ? n : n / kAlign * (t + 1) / threads * kAlign;
    f(begin, end);
  }
}

}  // namespace

void scale_loop(float* x, std::int64_t n, float factor, int threads) {
  by_threads(n, threads, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) x[i] *= factor;
  });
}

void scale_loops(const std::vector<Floats>& arrays, float factor, int threads) {
  std::int64_t all = 0;
  for (const Floats& a : arrays) all += a.n;
  by_threads(all, threads, [&, factor](std::int64_t begin, std::int64_t end) {
    for (const Floats& a : arrays) {
      const std::int64_t last = std::min(end, a.n);
      for (std::int64_t i = std::max<std::int64_t>(begin, 0); i < last; ++i) a.x[i] *= factor;
      begin -= a.n;
      end -= a.n;
    }
  });
}

void copy_loop(char* to, const char* from, std::int64_t bytes, int threads) {
  by_threads(bytes, threads, [=](std::int64_t begin, std::int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

int most_threads() {
#if defined(_OPENMP)
  return omp_get_max_threads();
#else
  return 1;
#endif
}

}  // namespace bench
