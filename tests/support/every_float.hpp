// Walks ranges of 2^32 with every processor, so that a test over every float takes seconds.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace twinops::test {

inline constexpr std::uint64_t kEveryFloat = std::uint64_t{1} << 32;
inline constexpr std::uint64_t kNothing = ~std::uint64_t{0};
#if defined(NDEBUG)
inline constexpr std::uint64_t kRangeStep = 1;
#else
inline constexpr std::uint64_t kRangeStep = 61;  // without optimization, one range of 61
#endif

// Calls first_bad(begin, end) -> the first bad value of a range, or kNothing, for ranges that make
// up [0, 2^32). Returns the least bad value, or kNothing.
template <class F>
std::uint64_t first_bad_of_all(F&& first_bad) {
  constexpr std::uint64_t kRange = 1 << 20;
  std::atomic<std::uint64_t> next{0}, found{kNothing};
  const auto work = [&] {
    for (;;) {
      const std::uint64_t begin = next.fetch_add(kRange * kRangeStep);
      if (begin >= kEveryFloat || begin > found.load()) return;
      const std::uint64_t bad = first_bad(begin, begin + kRange);
      std::uint64_t least = found.load();
      while (bad < least && !found.compare_exchange_weak(least, bad)) {
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  return found.load();
}

// The same for is_bad(bits) -> bool, which has no state: without an exit in the inner loop the
// compiler makes vectors of it.
template <class F>
std::uint64_t first_bad_float(F&& is_bad) {
  return first_bad_of_all([&](std::uint64_t begin, std::uint64_t end) {
    constexpr std::uint32_t kBlock = 4096;
    for (; begin < end; begin += kBlock) {
      const auto first = static_cast<std::uint32_t>(begin);
      unsigned bad = 0;
      for (std::uint32_t i = 0; i < kBlock; ++i) bad |= is_bad(first + i) ? 1u : 0u;
      for (std::uint32_t i = 0; bad != 0; ++i)
        if (is_bad(first + i)) return begin + i;
    }
    return kNothing;
  });
}

}  // namespace twinops::test
