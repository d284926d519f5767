// What a CPU can do at best with so many bytes, by OpenMP's threads.
#pragma once

#include <cstdint>
#include <vector>

namespace bench {

// x[i] *= factor, in place.
void scale_loop(float* x, std::int64_t n, float factor, int threads);
// The same of several arrays, one after the other, cut over the threads by elements.
struct Floats {
  float* x;
  std::int64_t n;
};
void scale_loops(const std::vector<Floats>& arrays, float factor, int threads);
void copy_loop(char* to, const char* from, std::int64_t bytes, int threads);
int most_threads();

}  // namespace bench
