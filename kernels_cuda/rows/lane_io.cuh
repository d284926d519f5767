// Loads a row's elements to the lanes of rows/lane_layout.cuh and stores them from there, wherever
// the row begins in memory.
//
// Vectors that lie within the chunk are read and written whole. Two may not lie within it: the
// head, which is the layout's first vector, and the tail, in which the row ends. Their elements go
// one by one, an element a lane, and are distributed by shuffles, so that no byte outside of the
// row is touched. Other ways that were tried:
// docs/lab/softmax-block-kernel.md#vectors-wherever-a-row-begins.
#pragma once

#include "kernels_cuda/rows/lane_layout.cuh"
#include "kernels_cuda/rows/lane_shapes.hpp"
#include "operators/types.hpp"

namespace twinops {

template <int G, int R, int V, bool kUnaligned_>
class LaneFragment : public RotatedLayout<G, R, V, kUnaligned_> {
  using Base = RotatedLayout<G, R, V, kUnaligned_>;

 public:
  using Base::count, Base::full, Base::place, Base::wrapped_count, Base::whole;
  using Base::kStride, Base::kUnaligned, Base::kSlots;
  using Base::RotatedLayout;

  // Elements of head and tail, one or more a lane.
  static constexpr int kHeadTail = V == 1 ? 1 : (2 * V + G - 1) / G;
  template <class T>
  struct HeadTail {
    T of[kHeadTail];
  };
  template <class T>
  __device__ __forceinline__ HeadTail<T> read_head_tail(const T* at, T pad) const {
    HeadTail<T> head_tail;
#pragma unroll
    for (int k = 0; k < kHeadTail; ++k) {
      head_tail.of[k] = pad;
      if (!kUnaligned) continue;
      const int i = head_tail_element(k);
      if (i >= 0) head_tail.of[k] = at[i];
    }
    return head_tail;
  }
  // All lanes of the warp: moves head and tail to the lanes whose vectors they belong to.
  template <class T>
  __device__ __forceinline__ void distribute(const HeadTail<T>& head_tail,
                                             Vector<T, V> (&vectors)[R]) const {
    if constexpr (kUnaligned) {
      HeadTailWords words;
      pack_head_tail(head_tail, words);
      const uint4 head = gather<T>(words, 0);
      if (lane_ == 0) vectors[0].words = head;
      if (!any_tail()) return;
      const uint4 tail = gather<T>(words, V);
#pragma unroll
      for (int r = 0; r < R; ++r)
        if (slot(r) == tail_slot() && has_tail()) vectors[r].words = tail;
    }
  }

  // The same for vectors that were read whole, with what lies beyond the row. `wrapped`: the
  // elements that wrap round.
  template <class T>
  __device__ __forceinline__ void trim(Vector<T, V> wrapped, T pad,
                                       Vector<T, V> (&vectors)[R]) const {
    const Vector<T, V> none = broadcast_vector<T, V>(pad);
    if (lane_ == 0) {
      wrapped = splice(wrapped, none, wrapped_count());
      vectors[0] = splice(wrapped, splice(vectors[0], none, left_ + shift_), shift_);
    }
    if (!any_tail()) return;
#pragma unroll
    for (int r = 0; r < R; ++r)
      if (slot(r) == tail_slot() && has_tail()) vectors[r] = splice(vectors[r], none, count(r));
  }

  // Loads from `at` on, elements `step` apart; `pad` stands for elements beyond the row.
  template <class T>
  __device__ __forceinline__ void load(const T* at, std::int64_t step, T pad,
                                       Vector<T, V> (&vectors)[R]) const {
    all_whole() ? load_whole(at, vectors) : load_checked(at, step, pad, vectors);
  }
  // The two halves of load(), for callers that load from several places under one condition: else
  // the compiler, where the ways meet, waits for one load before the next is sent.
  __device__ __forceinline__ bool all_whole() const { return V > 1 && !kUnaligned && full(); }
  template <class T>
  __device__ __forceinline__ void load_whole(const T* at, Vector<T, V> (&vectors)[R]) const {
    const T* const mine = at + lane_ * V;
#pragma unroll
    for (int r = 0; r < R; ++r) vectors[r] = read_vector<T, V>(mine + r * kStride);
  }
  template <class T>
  __device__ __forceinline__ void load_checked(const T* at, std::int64_t step, T pad,
                                               Vector<T, V> (&vectors)[R]) const {
    load_whole_vectors(at, step, pad, vectors);
    distribute(read_head_tail(at, pad), vectors);
  }
  // Loads all but head and tail.
  template <class T>
  __device__ __forceinline__ void load_whole_vectors(const T* at, std::int64_t step, T pad,
                                                     Vector<T, V> (&vectors)[R]) const {
    const T* from = V == 1 ? at + lane_ * step : at + place(0);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      vectors[r] = broadcast_vector<T, V>(pad);
      if (whole(r)) vectors[r] = read_vector<T, V>(V == 1 ? from : from + r * kStride);
      if constexpr (V == 1) from += G * step;
    }
  }
  // Stores vector r as f(r, y) gives it; kNumbers: no y is NaN. All lanes of the warp. kInOrder: f
  // is long, and a vector is to be on its way before the next one is computed; else the compiler
  // stores all of them together. kRecompute: each vector's address is computed again
  // (docs/lab/softmax-grad-kernels.md#two-chunks-a-warp).
  template <bool kNumbers = false, bool kInOrder = false, bool kRecompute = false, class T, class F>
  __device__ __forceinline__ void store(T* at, std::int64_t step, F&& f) const {
    if constexpr (V == 1) {
      at += lane_ * step;
#pragma unroll
      for (int r = 0; r < R; ++r) {
        compute_t<T> y[1];
        f(r, y);
        if (whole(r)) *at = narrow<T>(y[0]);
        at += G * step;
      }
    } else if constexpr (!kUnaligned) {
      T* const mine = at + place(0);
      unrolled<R>([&](auto r) {
        const bool inside = rest() > r * kStride;
        if (kInOrder && !inside) return;  // no instruction moves across a branch
        compute_t<T> y[V];
        f(r, y);
        const Words<T, V> words = narrow_words<T, V, kNumbers>(y);
        if constexpr (kRecompute) {
          if (slot(r) < left_) write_words(at + slot(r), words);
        } else {
          if (inside) write_words<r * kStride>(mine, words);
        }
      });
    } else {
      T* const mine = at + place(0);
      unrolled<R>([&](auto r) {
        compute_t<T> y[V];
        f(r, y);
        const Words<T, V> words = narrow_words<T, V, kNumbers>(y);
        if (whole(r)) {
          write_words<r * kStride>(mine, words);
        } else if (slot(r) > 0 && rest() > r * kStride) {  // the tail
#pragma unroll
          for (int e = 0; e < V - 1; ++e)
            if (rest() > r * kStride + e) mine[r * kStride + e] = pick_element(words, e);
        }
        if (r == 0) write_head(mine, head_by_shuffles<T>(words));
      });
    }
  }
  // The same for 16-bit chunks most of which are full. The tail comes after the vectors, and the
  // head goes by way of shared memory: a warp has one vector there, `lane` vectors before
  // `scratch`.
  template <bool kNumbers, class T, class F>
  __device__ __forceinline__ void store_mostly_full(T* at, F&& f, uint4* scratch) const {
    static_assert(kUnaligned && G == kWarp && sizeof(T) == 2);
    T* const mine = at + place(0);
    const auto words_of = [&](auto r) {
      compute_t<T> y[V];
      f(r, y);
      return narrow_words<T, V, kNumbers>(y);
    };
    unrolled<R>([&](auto r) {
      const Words<T, V> words = words_of(r);
      if (whole(r)) write_words<r * kStride>(mine, words);
      if (r == 0) write_head(mine, head_by_smem<T>(words, scratch));
    });
    if (full()) return;
    unrolled<R>([&](auto r) {
      if (slot(r) != tail_slot() || slot(r) == 0) return;
      const Words<T, V> words = words_of(r);
#pragma unroll
      for (int e = 0; e < V - 1; ++e)
        if (rest() > r * kStride + e) mine[r * kStride + e] = pick_element(words, e);
    });
  }

 private:
  using Base::head_tail_element, Base::any_tail, Base::has_tail, Base::tail_slot;
  using Base::lane_, Base::left_, Base::shift_, Base::rest, Base::slot;

  static constexpr int kHeadTailWords = 8 / (V > 2 ? 8 : 4);  // of an element; V = 2 means 8 bytes
  using HeadTailWords = std::uint32_t[kHeadTail][kHeadTailWords];

  // The elements of head and tail as words: 16-bit ones join their neighbour's.
  template <class T>
  __device__ __forceinline__ static void pack_head_tail(const HeadTail<T>& head_tail,
                                                        HeadTailWords& words) {
#pragma unroll
    for (int k = 0; k < kHeadTail; ++k) {
      if constexpr (sizeof(T) == 2) {
        const std::uint32_t mine = head_tail.of[k].bits;
        words[k][0] = mine | __shfl_down_sync(kAllLanes, mine, 1, G) << 16;
      } else if constexpr (sizeof(T) == 4) {
        words[k][0] = __float_as_uint(head_tail.of[k]);
      } else {
        words[k][0] = __double2loint(head_tail.of[k]);
        words[k][1] = __double2hiint(head_tail.of[k]);
      }
    }
  }
  // The vector of head and tail elements `first` to first + V; every lane has it.
  template <class T>
  __device__ __forceinline__ static uint4 gather(const HeadTailWords& words, int first) {
    std::uint32_t of[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const int q = first + w * 4 / static_cast<int>(sizeof(T));
      of[w] = __shfl_sync(kAllLanes, words[q / G][w % kHeadTailWords], q % G, G);
    }
    return make_uint4(of[0], of[1], of[2], of[3]);
  }

  // The head, which lane 0 has, distributed over the lanes.
  static constexpr int kOfHead = (V + G - 1) / G;
  template <class T>
  struct Head {
    T of[kOfHead];
  };
  template <class T>
  __device__ __forceinline__ Head<T> head_by_shuffles(Words<T, V> words) const {
#pragma unroll
    for (std::uint32_t& word : words.of) word = __shfl_sync(kAllLanes, word, 0, G);
    Head<T> first;
#pragma unroll
    for (int k = 0; k < kOfHead; ++k)
      first.of[k] = pick_element(words, static_cast<unsigned>(lane_ + k * G));
    return first;
  }
  template <class T>
  __device__ __forceinline__ Head<T> head_by_smem(const Words<T, V>& words, uint4* scratch) const {
    Head<T> first{};
    __syncwarp();
    if (lane_ == 0) *scratch = make_uint4(words.of[0], words.of[1], words.of[2], words.of[3]);
    __syncwarp();
    if (lane_ < V) first.of[0] = reinterpret_cast<const T*>(scratch)[-(V - 1) * lane_];
    return first;
  }
  // mine: where a lane's vector 0 lies.
  template <class T>
  __device__ __forceinline__ void write_head(T* mine, const Head<T>& first) const {
#pragma unroll
    for (int k = 0; k < kOfHead; ++k) {
      const int q = lane_ + k * G, wrapped = q < shift_ ? kSlots : 0;
      if (q < V && q - shift_ + wrapped < left_)
        mine[wrapped + k * G - (V - 1) * lane_] = first.of[k];
    }
  }
};

// Stores the same value, NaN or not, in all elements of lane `lane` of G. Not inlined, because it
// is rare.
template <class T>
__device__ __noinline__ void fill_fragment(T* at, std::int64_t step, int left, int lane, int G,
                                           T value) {
#pragma unroll 1
  for (int j = lane; j < left; j += G) at[j * step] = value;
}

// Calls launch(TypeTag<LaneFragment>) with how a row of `length`, up to kFoldChunk, lies in lanes.
template <Shapes kShapes, int V, bool kUnaligned, std::size_t kLine = 0, class Launch>
void with_lane_shape(std::int64_t length, Launch&& launch) {
  constexpr LaneShapes kTable = lane_shapes(kShapes, V, kUnaligned);
  static_assert(holds_all(kTable, V, kUnaligned, kFoldChunk));
  constexpr LaneShape kShape = kTable[kLine];
  if constexpr (kLine + 1 < kTable.size())
    if (length > most_elements(kShape, V, kUnaligned))
      return with_lane_shape<kShapes, V, kUnaligned, kLine + 1>(length, launch);
  launch(TypeTag<LaneFragment<kShape.lanes, kShape.count, V, kUnaligned>>());
}

}  // namespace twinops
