// No element is written twice in a call, and none is read after another of its arguments wrote it.
#pragma once

#include "operators/call.hpp"

namespace twinops {

// Refuses an output that shares memory with itself, with another output, or with an input, except
// where argument `out` may be written over argument `in` (list: member over member of the same
// index): then the two must be the same memory in the same layout, or apart. nullptr, nullptr:
// nowhere. Strided tensors whose elements interleave without touching are let through, but for
// those of which that takes too long to tell.
struct InPlace {
  const char* out;
  const char* in;
};
void refuse_overlaps(const Call& call, std::span<const InPlace> in_place);

}  // namespace twinops
