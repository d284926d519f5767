// Memory for a call's tensors, each between pages that nobody may touch: it ends, or begins, where
// such a page does, so that a byte read or written beyond it ends the program, in every build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fuzz {

class GuardedMemory {
 public:
  static constexpr std::size_t kSmall = 16 << 10, kLarge = 1 << 20;

  GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;

  void clear();
  // nullptr where there is no more. at_end: where it ends is where the forbidden page begins, but
  // for less than `alignment` bytes; else it begins there.
  std::byte* take(std::size_t bytes, std::size_t alignment, bool at_end);

 private:
  struct Room {
    std::byte* begin;
    std::size_t bytes;
  };
  std::vector<Room> small_, large_;
  std::size_t small_taken_ = 0, large_taken_ = 0;
};

}  // namespace fuzz
