// How a row's elements lie in lanes, wherever the row begins in memory.
//
// A chunk of a row, or a whole short row, is a ring of G * R * V slots on G lanes: R packs of V a
// lane, those of one r side by side. A pack is 16 bytes of memory that begin at a multiple of 16;
// element i lies in slot i + shift, `shift` elements being what lies before the chunk in its first
// pack. The chunk's last elements come round into the slots before its first. A fold gives the same
// bits whatever the shift (row_fold.cuh), so lanes neither pass elements on nor see where they are.
// Where R is no power of two, the ring is that of the next one, without its last packs, which rows
// then do not reach.
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
// lanes come round; the ring's first pack stored by way of shared memory (there 0.02 lost).
#pragma once

#include "kernels_cuda/row_packs.cuh"

namespace twinops {

// This thread's warp, read anew.
__device__ __forceinline__ int warp_anew() { return static_cast<int>(thread_anew() / kWarp); }

// One of the lanes that share a row, and how many elements there are for them.
class RowLane {
 public:
  __device__ __forceinline__ int lane() const { return lane_; }
  __device__ __forceinline__ int left() const { return left_; }
  // From here on with fewer.
  __device__ __forceinline__ void cut_to(int left) { left_ = left; }

 protected:
  __device__ __forceinline__ RowLane(int lane, int left) : lane_(lane), left_(left) {}

  int lane_, left_;
};

// kRagged_: packs need not be whole. The two are types of their own because a kernel that holds the
// code of both is slower by what its instructions take of their cache (16 bits: a tenth at 50 257).
// V = 1: elements lie `step` apart, and nothing is shifted.
template <int G, int R, int V, bool kRagged_>
class Share : public RowLane {
 public:
  static constexpr int kElements = R * V, kLanes = G, kPack = V, kSlots = G * R * V;
  static constexpr int kApart = G * V;  // elements from one pack of a lane to its next
  static constexpr bool kRagged = kRagged_;
  static_assert(V > 1 || !kRagged);

  // Of the chunk at `at`, `left` elements of which and of what follows are the row's.
  template <class T>
  __device__ __forceinline__ Share(const T* at, int left, int lane)
      : RowLane(lane, max(0, min(left, kSlots))), shift_(0) {
    if constexpr (kRagged)
      shift_ = static_cast<int>(reinterpret_cast<std::uintptr_t>(at) / sizeof(T) % V);
  }

  // Whether all of pack r is the chunk's, and read and written at once.
  __device__ __forceinline__ bool whole(int r) const {
    return rest() >= V + r * kApart && !(kRagged && r == 0 && lane_ == 0);
  }
  // Where it lies, from the chunk's first element on. Pointers are made once, for pack 0.
  __device__ __forceinline__ int place(int r) const { return lane_ * V - shift_ + r * kApart; }
  // How many elements from there on are in the pack, if that is above 0.
  __device__ __forceinline__ int count(int r) const { return min(V, rest() - r * kApart); }
  // How many come round into lane 0's first pack, from there on.
  __device__ __forceinline__ int round_place() const { return kSlots - shift_; }
  __device__ __forceinline__ int round_count() const { return left_ - round_place(); }
  // By its bits: of left_ == kSlots and the min() that made left_, ptxas 13.0 makes one VIMNMX.RELU
  // for sm_90, whose predicate then says the opposite.
  __device__ __forceinline__ bool full() const { return (left_ & kSlots) == kSlots; }
  // Which element of the chunk is element e of pack r.
  __device__ __forceinline__ int element(int r, int e) const {
    const int i = place(r) + e;
    return V > 1 && r == 0 && i < 0 ? i + kSlots : i;
  }

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
        if (r == 0) write_first(at, words);
      });
    }
  }

 private:
  static constexpr int kEdgeWords = 8 / (V > 2 ? 8 : 4);  // of an element: V = 2 is of 8 bytes
  using EdgeWords = std::uint32_t[kEdges][kEdgeWords];

  __device__ __forceinline__ int slot(int r) const { return (r * G + lane_) * V; }
  // How many elements of the chunk are left from pack 0 on.
  __device__ __forceinline__ int rest() const { return left_ - place(0); }

  // The first slot of the pack that the row ends in, if that is another than the ring's first.
  __device__ __forceinline__ int tail_slot() const { return (left_ + shift_) & -V; }
  __device__ __forceinline__ bool has_tail() const {
    return tail_slot() >= V && tail_slot() < kSlots;
  }
  __device__ __forceinline__ bool any_tail() const { return G < kWarp || has_tail(); }  // of a warp

  // The element that a lane's k-th edge element is, or -1. V of the first pack, then V of the tail.
  __device__ __forceinline__ int edge_element(int k) const {
    const int q = lane_ + k * G;
    int i = q - shift_;
    if (q >= V)
      i = q < 2 * V && has_tail() ? i + tail_slot() - V : left_;
    else if (i < 0)
      i += kSlots;
    return i < left_ ? i : -1;
  }

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

  // Stores the ring's first pack, which lane 0 has, an element a lane.
  template <class T>
  __device__ __forceinline__ void write_first(T* at, Words<T, V> words) const {
#pragma unroll
    for (std::uint32_t& word : words.of) word = __shfl_sync(kAllLanes, word, 0, G);
#pragma unroll
    for (int k = 0; k * G < V; ++k) {
      const int q = lane_ + k * G, i = q < shift_ ? q - shift_ + kSlots : q - shift_;
      const T element = pick_element(words, q);
      if (q < V && i < left_) at[i] = element;
    }
  }

  int shift_;
};

// Stores one value, NaN or not, from lane `lane` of G. Not inlined: it is rare.
template <class T>
__device__ __noinline__ void fill_share(T* at, std::int64_t step, int left, int lane, int G,
                                        T value) {
#pragma unroll 1
  for (int j = lane; j < left; j += G) at[j * step] = value;
}

}  // namespace twinops
