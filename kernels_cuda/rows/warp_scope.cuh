// How rows up to a chunk, several of which a warp takes, lie in lanes.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels_cuda/device.hpp"
#include "kernels_cuda/rows/fold.cuh"
#include "kernels_cuda/rows/plan.cuh"
#include "operators/types.hpp"

namespace twinops {

// Which numbers of vectors there are kernels for.
enum class Shapes {
  forward,   // as many as a lane has registers for
  backward,  // of two tensors
  masked,    // up to four, under scale and masks, which take registers
  coarse,    // powers of two of them, for fewer kernels
};

// A row has the fewest lanes that hold it in so many vectors each: what a row costs besides its
// elements is shared by what a lane holds, until registers run out. Unaligned rows have 2V edges,
// which few lanes bring slowly. Measured on an H200, share of the copy rate, float16: with 4
// vectors a lane, be they empty or not, and so, softmax of 32 columns 0.67 and 0.91, of 320 0.80
// and 1.01, of 768 0.94 and 1.01, of 257 0.57 and 0.87, of 600 0.78 and 1.00. Under scale and
// masks, with powers of two of vectors and with up to four, on an H100, bfloat16: 577 columns 0.76
// and 0.86, 640 0.92 and 0.98; float32: 257 0.93 and 0.98. Tried and left: 8 vectors of 16 bits
// (512 columns 0.97 to 0.96).
template <int V, bool kUnaligned, Shapes kShapes>
constexpr int max_vectors(int lanes) {
  const int head_tail_log = log2_of(2 * V > lanes ? 2 * V / lanes : 1);  // of a lane
  if (lanes == kWarp) return 32 / V;
  if (kShapes == Shapes::masked) return 4;
  if (kShapes == Shapes::coarse) return V == 2 ? 8 : 4;
  if (kShapes == Shapes::backward) return std::min(5, (kUnaligned ? 5 : 6) - head_tail_log);
  if (V == 4) return kUnaligned ? 5 : 4;
  if (lanes > 2) return 7;
  return kUnaligned ? 2 : 5;
}

// The vectors of a lane. Where they are a power of two, what is beyond the last slot comes round.
template <int V, bool kUnaligned, Shapes kShapes>
int vectors_of_lane(int length, int lanes) {
  const int of_vector = lanes * V, vectors = (length + of_vector - 1) / of_vector;
  const auto rounded_up = static_cast<int>(std::bit_ceil(static_cast<unsigned>(vectors)));
  if (vectors == rounded_up || kShapes == Shapes::coarse) return rounded_up;
  return length + (kUnaligned ? V - 1 : 0) <= vectors * of_vector ? vectors : vectors + 1;
}

// Calls launch(TypeTag<Share>) with a Share of `vectors` vectors a lane, at least kLeast.
template <int G, int V, bool kUnaligned, Shapes kShapes, int kLeast, class Launch>
void with_vectors(int vectors, Launch&& launch) {
  constexpr int kNext = kShapes == Shapes::coarse ? 2 * kLeast : kLeast + 1;
  if constexpr (kNext <= max_vectors<V, kUnaligned, kShapes>(G))
    if (vectors >= kNext) return with_vectors<G, V, kUnaligned, kShapes, kNext>(vectors, launch);
  launch(TypeTag<LaneFragment<G, kLeast, V, kUnaligned>>());
}
// With G lanes or more. kLeast: vectors of rows that have too many of them with half as many lanes.
template <int G, int V, bool kUnaligned, Shapes kShapes, int kLeast, class Launch>
void with_lanes(int length, Launch&& launch) {
  constexpr int kMost = max_vectors<V, kUnaligned, kShapes>(G);
  constexpr int kNextLeast = kShapes == Shapes::coarse ? kMost : kMost / 2 + 1;
  const int vectors = vectors_of_lane<V, kUnaligned, kShapes>(length, G);
  if constexpr (G < kWarp)
    if (vectors > kMost)
      return with_lanes<2 * G, V, kUnaligned, kShapes, kNextLeast>(length, launch);
  with_vectors<G, V, kUnaligned, kShapes, kLeast>(vectors, launch);
}

// Calls launch(TypeTag<Share>) with how a row of `length`, up to kFoldChunk, lies in lanes. Rows of
// float32 that fill their lanes to the last do better with two vectors (0.97 to 0.99 at 64, 128 and
// 256), others worse (1.00 to 0.92 at 100). An H100's memory leaves time for what more lanes cost:
// there one vector (0.99 to 1.00 at 64 and 128), and of 16 bits two (0.98 to 1.00 at 64, 128 and
// 256; at 512 no more than 0.005). On an H200 that loses: float16 with four, two and one at 64
// 0.99, 0.90 and 0.73, at 256 0.99, 0.90 and 0.78, at 512 with four and two 1.00 and 0.93, float32
// with two and one at 128 1.01 and 0.95.
template <int V, bool kUnaligned, Shapes kShapes, class Launch>
void with_short_fragment(std::int64_t length, int device, Launch&& launch) {
  const auto with = [&]<int G, int R>() { launch(TypeTag<LaneFragment<G, R, V, kUnaligned>>()); };
  if constexpr (V == 1) {  // slow anyway
    if (length <= 64) return with.template operator()<4, 16>();
    if (length <= 256) return with.template operator()<16, 16>();
    with.template operator()<32, 32>();
  } else {
    const bool is_filled = !kUnaligned && (length == 64 || length == 128 || length == 256);
    const bool has_time = is_filled && kShapes == Shapes::forward &&
                          cuda_probe().devices[static_cast<std::size_t>(device)].memory_rate < 30;
    if constexpr (V == 4 && !kUnaligned && kShapes < Shapes::masked) {
      if constexpr (kShapes == Shapes::forward) {
        if (has_time && length == 64) return with.template operator()<16, 1>();
        if (has_time && length == 128) return with.template operator()<32, 1>();
      }
      if (length == 64) return with.template operator()<8, 2>();
      if (length == 128) return with.template operator()<16, 2>();
      if (length == 256) return with.template operator()<32, 2>();
    }
    if constexpr (V == 8 && !kUnaligned && kShapes == Shapes::forward) {
      if (has_time && length == 64) return with.template operator()<4, 2>();
      if (has_time && length == 128) return with.template operator()<8, 2>();
      if (has_time && length == 256) return with.template operator()<16, 2>();
    }
    constexpr int kLanes = V == 8 ? 2 : 4;
    with_lanes<kLanes, V, kUnaligned, V == 2 ? Shapes::coarse : kShapes, 1>(
        static_cast<int>(length), launch);
  }
}

}  // namespace twinops
