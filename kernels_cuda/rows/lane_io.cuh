// How a row's elements come to their lanes and go from them, wherever the row begins in memory: the
// ring of row_ring.cuh.
//
// Packs that lie within the chunk are read and written whole. Two may not: the ring's first, and
// the one that the row ends in. Elements of these edges go one by one, an element a lane, and come
// to their lane by shuffles, so that no byte outside of the row is touched.
//
// Tried and left: an element a lane throughout, which is what V = 1 still is (16 bits: half the
// rate of this at 257 or 513 columns); the edges of a row that is fetched ahead in a register,
// which the compiler stored at once and so waited for; a ring that begins at a line of 128 bytes or
// a sector of 32, which memory would like (11 840 columns in whole packs 0.94, 11 856 0.93, 11 848
// 0.89): of 2113 to 9256 columns of float16 0.03 to 0.05 were lost by what it takes to know which
// lanes come round; the ring's first pack stored by way of shared memory where a block has none
// yet (there 0.02 lost; softmax_pair_kernel.cuh gains).
#pragma once

#include "kernels_cuda/rows/lane_layout.cuh"

namespace twinops {

template <int G, int R, int V, bool kRagged_>
class Share : public RowRing<G, R, V, kRagged_> {
  using Ring = RowRing<G, R, V, kRagged_>;

 public:
  using Ring::count, Ring::full, Ring::place, Ring::round_count, Ring::whole;
  using Ring::kApart, Ring::kRagged, Ring::kSlots;
  using Ring::RowRing;

  // An element or more of edges for each lane.
  static constexpr int kEdges = V == 1 ? 1 : (2 * V + G - 1) / G;
  template <class T>
  struct Edges {
    T of[kEdges];
  };
  template <class T>
  __device__ __forceinline__ Edges<T> read_edges(const T* at, T pad) const {
    Edges<T> edges;
#pragma unroll
    for (int k = 0; k < kEdges; ++k) {
      edges.of[k] = pad;
      if (!kRagged) continue;
      const int i = edge_element(k);
      if (i >= 0) edges.of[k] = at[i];
    }
    return edges;
  }
  // All lanes of the warp: brings the edges to those whose packs they are.
  template <class T>
  __device__ __forceinline__ void bring(const Edges<T>& edges, Pack<T, V> (&packs)[R]) const {
    if constexpr (kRagged) {
      EdgeWords words;
      pack_edges(edges, words);
      const uint4 head = gather<T>(words, 0);
      if (lane_ == 0) packs[0].words = head;
      if (!any_tail()) return;
      const uint4 tail = gather<T>(words, V);
#pragma unroll
      for (int r = 0; r < R; ++r)
        if (slot(r) == tail_slot() && has_tail()) packs[r].words = tail;
    }
  }

  // The same for packs that hold what lies beyond their edges as well; `round`: what comes round.
  template <class T>
  __device__ __forceinline__ void trim(Pack<T, V> round, T pad, Pack<T, V> (&packs)[R]) const {
    const Pack<T, V> none = pack_of<T, V>(pad);
    if (lane_ == 0) {
      round = first_of(round, none, round_count());
      packs[0] = first_of(round, first_of(packs[0], none, left_ + shift_), shift_);
    }
    if (!any_tail()) return;
#pragma unroll
    for (int r = 0; r < R; ++r)
      if (slot(r) == tail_slot() && has_tail()) packs[r] = first_of(packs[r], none, count(r));
  }

  // From `at` on, elements `step` apart; `pad` beyond the row.
  template <class T>
  __device__ __forceinline__ void load(const T* at, std::int64_t step, T pad,
                                       Pack<T, V> (&packs)[R]) const {
    all_whole() ? load_whole(at, packs) : load_checked(at, step, pad, packs);
  }
  // The two halves of it, for those who load from several places under one condition: else the
  // compiler, where the ways meet, waits for one load before the next is sent.
  __device__ __forceinline__ bool all_whole() const { return V > 1 && !kRagged && full(); }
  template <class T>
  __device__ __forceinline__ void load_whole(const T* at, Pack<T, V> (&packs)[R]) const {
    const T* const mine = at + lane_ * V;
#pragma unroll
    for (int r = 0; r < R; ++r) packs[r] = read_pack<T, V>(mine + r * kApart);
  }
  template <class T>
  __device__ __forceinline__ void load_checked(const T* at, std::int64_t step, T pad,
                                               Pack<T, V> (&packs)[R]) const {
    load_whole_ones(at, step, pad, packs);
    bring(read_edges(at, pad), packs);
  }
  // All but the edges.
  template <class T>
  __device__ __forceinline__ void load_whole_ones(const T* at, std::int64_t step, T pad,
                                                  Pack<T, V> (&packs)[R]) const {
    const T* from = V == 1 ? at + lane_ * step : at + place(0);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      packs[r] = pack_of<T, V>(pad);
      if (whole(r)) packs[r] = read_pack<T, V>(V == 1 ? from : from + r * kApart);
      if constexpr (V == 1) from += G * step;
    }
  }
  // Stores pack r as f(r, y) gives it, which is no NaN or, where kNumbers is false, may be. All
  // lanes of the warp. kInTurn: f is long, and a pack is to be on its way before the next one is
  // computed; else the compiler brings them all together. kAnew: where a pack lies is computed for
  // each one anew; slower but in grad_pair_kernel (float16 at 2^19: 0.80 in place of 0.72).
  template <bool kNumbers = false, bool kInTurn = false, bool kAnew = false, class T, class F>
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
    } else if constexpr (!kRagged) {
      T* const mine = at + place(0);
      unrolled<R>([&](auto r) {
        const bool inside = rest() > r * kApart;
        if (kInTurn && !inside) return;  // a branch, which nothing moves across
        compute_t<T> y[V];
        f(r, y);
        const Words<T, V> words = narrow_words<T, V, kNumbers>(y);
        if constexpr (kAnew) {
          if (slot(r) < left_) write_words(at + slot(r), words);
        } else {
          if (inside) write_words<r * kApart>(mine, words);
        }
      });
    } else {
      T* const mine = at + place(0);
      unrolled<R>([&](auto r) {
        compute_t<T> y[V];
        f(r, y);
        const Words<T, V> words = narrow_words<T, V, kNumbers>(y);
        if (whole(r)) {
          write_words<r * kApart>(mine, words);
        } else if (slot(r) > 0 && rest() > r * kApart) {  // the tail
#pragma unroll
          for (int e = 0; e < V - 1; ++e)
            if (rest() > r * kApart + e) mine[r * kApart + e] = pick_element(words, e);
        }
        if (r == 0) write_first(mine, first_by_shuffles<T>(words));
      });
    }
  }
  // The same of 16-bit chunks most of which are full: what a tail takes comes after the packs, and
  // the ring's first pack goes by way of shared memory, a pack of which is a warp's, `lane` packs
  // before `room`.
  template <bool kNumbers, class T, class F>
  __device__ __forceinline__ void store_mostly_full(T* at, F&& f, uint4* room) const {
    static_assert(kRagged && G == kWarp && sizeof(T) == 2);
    T* const mine = at + place(0);
    const auto words_of = [&](auto r) {
      compute_t<T> y[V];
      f(r, y);
      return narrow_words<T, V, kNumbers>(y);
    };
    unrolled<R>([&](auto r) {
      const Words<T, V> words = words_of(r);
      if (whole(r)) write_words<r * kApart>(mine, words);
      if (r == 0) write_first(mine, first_by_memory<T>(words, room));
    });
    if (full()) return;
    unrolled<R>([&](auto r) {
      if (slot(r) != tail_slot() || slot(r) == 0) return;
      const Words<T, V> words = words_of(r);
#pragma unroll
      for (int e = 0; e < V - 1; ++e)
        if (rest() > r * kApart + e) mine[r * kApart + e] = pick_element(words, e);
    });
  }

 private:
  using Ring::edge_element, Ring::any_tail, Ring::has_tail, Ring::tail_slot;
  using Ring::lane_, Ring::left_, Ring::shift_, Ring::rest, Ring::slot;

  static constexpr int kEdgeWords = 8 / (V > 2 ? 8 : 4);  // of an element: V = 2 is of 8 bytes
  using EdgeWords = std::uint32_t[kEdges][kEdgeWords];

  // Edge elements as words: 16-bit ones join their neighbour's.
  template <class T>
  __device__ __forceinline__ static void pack_edges(const Edges<T>& edges, EdgeWords& words) {
#pragma unroll
    for (int k = 0; k < kEdges; ++k) {
      if constexpr (sizeof(T) == 2) {
        const std::uint32_t mine = edges.of[k].bits;
        words[k][0] = mine | __shfl_down_sync(kAllLanes, mine, 1, G) << 16;
      } else if constexpr (sizeof(T) == 4) {
        words[k][0] = __float_as_uint(edges.of[k]);
      } else {
        words[k][0] = __double2loint(edges.of[k]);
        words[k][1] = __double2hiint(edges.of[k]);
      }
    }
  }
  // The pack of edge elements `first` to first + V; every lane has it.
  template <class T>
  __device__ __forceinline__ static uint4 gather(const EdgeWords& words, int first) {
    std::uint32_t of[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const int q = first + w * 4 / static_cast<int>(sizeof(T));
      of[w] = __shfl_sync(kAllLanes, words[q / G][w % kEdgeWords], q % G, G);
    }
    return make_uint4(of[0], of[1], of[2], of[3]);
  }

  // The ring's first pack, which lane 0 has, an element a lane, or a few.
  static constexpr int kOfFirst = (V + G - 1) / G;
  template <class T>
  struct First {
    T of[kOfFirst];
  };
  template <class T>
  __device__ __forceinline__ First<T> first_by_shuffles(Words<T, V> words) const {
#pragma unroll
    for (std::uint32_t& word : words.of) word = __shfl_sync(kAllLanes, word, 0, G);
    First<T> first;
#pragma unroll
    for (int k = 0; k < kOfFirst; ++k)
      first.of[k] = pick_element(words, static_cast<unsigned>(lane_ + k * G));
    return first;
  }
  template <class T>
  __device__ __forceinline__ First<T> first_by_memory(const Words<T, V>& words, uint4* room) const {
    First<T> first{};
    __syncwarp();
    if (lane_ == 0) *room = make_uint4(words.of[0], words.of[1], words.of[2], words.of[3]);
    __syncwarp();
    if (lane_ < V) first.of[0] = reinterpret_cast<const T*>(room)[-(V - 1) * lane_];
    return first;
  }
  // mine: where a lane's pack 0 lies.
  template <class T>
  __device__ __forceinline__ void write_first(T* mine, const First<T>& first) const {
#pragma unroll
    for (int k = 0; k < kOfFirst; ++k) {
      const int q = lane_ + k * G, round = q < shift_ ? kSlots : 0;
      if (q < V && q - shift_ + round < left_) mine[round + k * G - (V - 1) * lane_] = first.of[k];
    }
  }
};

// Stores one value, NaN or not, from lane `lane` of G. Not inlined: it is rare.
template <class T>
__device__ __noinline__ void fill_share(T* at, std::int64_t step, int left, int lane, int G,
                                        T value) {
#pragma unroll 1
  for (int j = lane; j < left; j += G) at[j * step] = value;
}

}  // namespace twinops
