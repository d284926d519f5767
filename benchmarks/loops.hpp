// What a CPU can do at best with so many bytes, by OpenMP's threads.
#pragma once

#include <cstdint>

namespace bench {

// x[i] *= factor, in place.
void scale_loop(float* x, std::int64_t n, float factor, int threads);
void copy_loop(char* to, const char* from, std::int64_t bytes, int threads);
int most_threads();

}  // namespace bench
