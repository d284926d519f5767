#include "tests/fuzz/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace fuzz {

GuardedMemory::GuardedMemory() {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto make = [page](std::vector<Room>& rooms, int count, std::size_t bytes) {
    const std::size_t step = bytes + page, all = page + static_cast<std::size_t>(count) * step;
    void* const memory = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      std::perror("mmap");
      std::exit(2);
    }
    for (int i = 0; i < count; ++i) {
      auto* const begin =
          static_cast<std::byte*>(memory) + page + static_cast<std::size_t>(i) * step;
      if (mprotect(begin, bytes, PROT_READ | PROT_WRITE) != 0) std::exit(2);
      rooms.push_back({begin, bytes});
    }
  };
  make(small_, 400, kSmall);
  make(large_, 24, kLarge);
}

void GuardedMemory::clear() { small_taken_ = large_taken_ = 0; }

std::byte* GuardedMemory::take(std::size_t bytes, std::size_t alignment, bool at_end) {
  const bool is_small = bytes <= kSmall;
  std::vector<Room>& rooms = is_small ? small_ : large_;
  std::size_t& taken = is_small ? small_taken_ : large_taken_;
  if (bytes > kLarge || taken == rooms.size()) return nullptr;
  const Room& room = rooms[taken++];
  return at_end ? room.begin + (room.bytes - bytes) / alignment * alignment : room.begin;
}

}  // namespace fuzz
