// Chunks of rows as vectors: read into compute type from elements of any step, folded, and written.
// Included only by files that are compiled once for each instruction set.
#pragma once

#include "kernels_cpu/simd/partial_vector.hpp"
#include "numerics/fold.hpp"

// For a lambda that is the body of a loop. Compilers do not inline one that is used in many places,
// which doubles the time of softmax.
#if defined(TWINOPS_SANITIZED)
#define TWINOPS_INLINE_BODY
#else
#define TWINOPS_INLINE_BODY __attribute__((always_inline))
#endif

namespace twinops {

// A row of T's that lie `step` elements apart. streamed: what is written goes past the caches.
// cold: what is written is not in the caches yet.
template <class T, class Isa>
struct RowView {
  T* data;
  std::int64_t step;
  bool streamed = false, cold = false;
};

// Whether an output of `runs` runs of `run` elements is streamed, because no cache would hold it
// until it is read. Its lines are then not read before they are written. Short runs are not
// streamed, because two of them share the line at their ends. Thresholds:
// docs/lab/softmax-cpu.md#what-goes-past-the-caches.
inline constexpr std::int64_t kStreamedOutput = std::int64_t{1} << 25, kStreamedRun = 1024,
                              kStreamedRow = 8192;  // bytes; the last for rows of softmax
TWINOPS_INLINE bool is_streamed(int element, std::int64_t runs, std::int64_t run,
                                std::int64_t least = kStreamedRun) {
  const std::int64_t bytes = run * element;
  return bytes >= least && runs >= kStreamedOutput / bytes;
}
template <class T>
TWINOPS_INLINE bool is_streamed(std::int64_t runs, std::int64_t run,
                                std::int64_t least = kStreamedRun) {
  return is_streamed(static_cast<int>(sizeof(T)), runs, run, least);
}

// Whether such an output is too large to be in the second cache, so that prefetching a row of it
// while that row is computed saves a wait.
inline constexpr std::int64_t kColdOutput = std::int64_t{1} << 19;  // bytes
TWINOPS_INLINE bool is_cold(int element, std::int64_t runs, std::int64_t run) {
  const std::int64_t bytes = run * element;
  return bytes > 0 && runs > kColdOutput / bytes;
}
template <class T>
TWINOPS_INLINE bool is_cold(std::int64_t runs, std::int64_t run) {
  return is_cold(static_cast<int>(sizeof(T)), runs, run);
}
// Prefetches the lines of n elements that are written soon.
template <class T, class Isa>
TWINOPS_INLINE void fetch_to_write(RowView<T, Isa> out, int n) {
  for (int j = 0; j < n; j += 64 / static_cast<int>(sizeof(T))) __builtin_prefetch(out.data + j, 1);
}

// Prefetches n elements; kLocality: as __builtin_prefetch has it, the second cache or the first
// (3).
template <int kLocality = 2, class T>
TWINOPS_INLINE void fetch_to_read(const T* x, int n) {
  for (int j = 0; j < n; j += 64 / static_cast<int>(sizeof(T)))
    __builtin_prefetch(x + j, 0, kLocality);
}

// Reads n elements of x and of y into the first cache, by a loop that is not unrolled: processors
// do not foresee the loads of one that is
// (docs/lab/softmax-cpu.md#rows-that-are-read-before-they-are-added-up).
template <class T>
TWINOPS_INLINE void touch(const T* x, const T* y, int n) {
  const auto at = [](const T* p) {
    return static_cast<const volatile char*>(static_cast<const volatile void*>(p));
  };
#pragma GCC unroll 1
  for (int j = 0; j < n; j += 64 / static_cast<int>(sizeof(T))) {
    static_cast<void>(*at(x + j));
    static_cast<void>(*at(y + j));
  }
}

// A word of as many bytes as an element, and f<bytes>() for the size of an element that is computed
// in F: for what moves elements whatever their type.
template <int kBytes>
using WordOf = std::conditional_t<kBytes == 2, std::uint16_t,
                                  std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>;
template <class F, class Body>
TWINOPS_INLINE void for_width(int bytes, Body&& f) {
  if constexpr (sizeof(F) == 8)
    f.template operator()<8>();
  else if (bytes == 4)
    f.template operator()<4>();
  else
    f.template operator()<2>();
}

// Copies n elements: whole lines are streamed, the ends are not.
template <class Isa, class T>
TWINOPS_INLINE void stream_elements(T* to, const T* from, int n) {
  using Batch = typename Vec<float, Isa>::Batch;
  constexpr std::uintptr_t kLine = 64;
  const auto bytes = static_cast<std::uintptr_t>(n) * sizeof(T);
  const std::uintptr_t head = -reinterpret_cast<std::uintptr_t>(to) % kLine;
  auto* out = reinterpret_cast<char*>(to);
  const auto* in = reinterpret_cast<const char*>(from);
  if (bytes < head + kLine) {
    __builtin_memcpy(out, in, bytes);
    return;
  }
  if (head != 0) __builtin_memcpy(out, in, head);
  std::uintptr_t i = head;
  for (; i + kLine <= bytes; i += kLine) {
    for (std::uintptr_t k = i; k < i + kLine; k += sizeof(Batch)) {
      Batch v;
      __builtin_memcpy(&v, in + k, sizeof(v));
      isa::stream(reinterpret_cast<float*>(out + k), v);
    }
  }
  if (i != bytes) __builtin_memcpy(out + i, in + i, bytes - i);
}

// Copies n elements of `bytes` bytes to where they lie `step` elements apart.
template <class F>
TWINOPS_INLINE void scatter_elements(char* to, int n, int bytes, std::int64_t step,
                                     const void* from) {
  for_width<F>(bytes, [&]<int kBytes>() TWINOPS_INLINE_BODY {
    for (int i = 0; i < n; ++i)
      __builtin_memcpy(to + i * step * kBytes, static_cast<const char*>(from) + i * kBytes, kBytes);
  });
}
// The same to a row that begins at `row`, from element `first` on; where `step` is 1 they are
// streamed.
template <class Isa, class F>
TWINOPS_INLINE void put_elements(char* row, std::int64_t first, int n, int bytes, std::int64_t step,
                                 const void* from) {
  char* const to = row + first * step * bytes;
  if (step == 1) return stream_elements<Isa>(to, static_cast<const char*>(from), n * bytes);
  scatter_elements<F>(to, n, bytes, step, from);
}

// Stores a vector to a buffer of its own type; NaNs stay as they are.
template <class F, class Isa>
TWINOPS_INLINE void save(F* to, Vec<F, Isa> v) {
  v.v.store_unaligned(to);
}

// From how many values a chunk of n is folded: a power of two, and a vector at least. The rest of
// kFoldChunk would add +0.
template <class F, class Isa>
TWINOPS_INLINE int padded(int n) {
  int p = Vec<F, Isa>::kLanes;
  while (p < n) p *= 2;
  return p;
}

// The n elements of x from `first` on as a contiguous run: where they are, or copied to `buffer`.
template <class T, class Isa>
TWINOPS_INLINE const T* dense_run(RowView<const T, Isa> x, std::int64_t first, int n, T* buffer) {
  const T* const from = x.data + first * x.step;
  if (x.step == 1) return from;
  for (int j = 0; j < n; ++j) buffer[j] = from[j * x.step];
  return buffer;
}

// The same for elements of `bytes` bytes of a row that begins at `row`.
template <class F>
TWINOPS_INLINE const void* dense_elements(const char* row, std::int64_t first, int n, int bytes,
                                          std::int64_t step, void* buffer) {
  const char* const from = row + first * step * bytes;
  if (step == 1) return from;
  for_width<F>(bytes, [&]<int kBytes>() TWINOPS_INLINE_BODY {
    for (int i = 0; i < n; ++i)
      __builtin_memcpy(static_cast<char*>(buffer) + i * kBytes, from + i * step * kBytes, kBytes);
  });
  return buffer;
}

// Calls f(j, vector) for the n elements of x from `first` on, with `pad` in the places up to
// padded(n); second(j, vector) for every other one, where what f does waits for its last call.
template <class T, class Isa, class Step, class Second>
TWINOPS_INLINE void read_pairs(RowView<const T, Isa> x, std::int64_t first, int n, T pad, Step&& f,
                               Second&& second) {
  using F = compute_t<T>;
  constexpr int kLanes = Vec<F, Isa>::kLanes;
  alignas(64) T gathered[kFoldChunk];
  const T* const from = dense_run(x, first, n, gathered);
  int j = 0;
  if constexpr (!std::is_same_v<Step, Second>) {
    for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
      f(j, load<Isa>(from + j));
      second(j + kLanes, load<Isa>(from + j + kLanes));
    }
  }
  for (; j + kLanes <= n; j += kLanes) f(j, load<Isa>(from + j));
  const int end = padded<F, Isa>(n);
  if (j == end) return;
  if (j < n) {
    f(j, load_partial<Isa>(from + j, n - j, pad));
    j += kLanes;
  }
  for (; j < end; j += kLanes) f(j, Vec<F, Isa>(widen(pad)));
}
template <class T, class Isa, class Step>
TWINOPS_INLINE void read_chunk(RowView<const T, Isa> x, std::int64_t first, int n, T pad,
                               Step&& f) {
  read_pairs(x, first, n, pad, f, f);
}

// Writes n elements of out from `first` on. f(j): the vector of element first + j. kCanonical: it
// holds no NaN but the canonical one. kAnywhere: f may be called for any j, not only for multiples
// of a vector.
template <bool kCanonical = false, bool kAnywhere = false, class T, class Isa, class Step>
TWINOPS_INLINE void write_chunk(RowView<T, Isa> out, std::int64_t first, int n, Step&& f) {
  const auto put = [](T* at, compute_vec<T, Isa> y) {
    if constexpr (kCanonical)
      store_canonical<Isa>(at, y);
    else
      store<Isa>(at, y);
  };
  constexpr int kLanes = compute_vec<T, Isa>::kLanes;
  T* to = out.data + first * out.step;
  alignas(64) T buffer[kFoldChunk];
  T* const target = out.step == 1 && !out.streamed ? to : buffer;
  int j = 0;
  for (; j + kLanes <= n; j += kLanes) put(target + j, f(j));
  if (kAnywhere && j < n && n >= kLanes) {
    put(target + n - kLanes, f(n - kLanes));
  } else if (j < n) {
    T tail[kLanes];
    put(tail, f(j));
    copy_partial<kLanes>(target + j, tail, n - j);
  }
  if (out.streamed) return stream_elements<Isa>(to, buffer, n);
  if (out.step != 1)
    for (int i = 0; i < n; ++i) to[i * out.step] = buffer[i];
}

// Two vectors of bfloat16 as load_two leaves them: even and odd elements fold apart, until there is
// one of each.
template <class F, class Isa>
struct EvenAndOdd {
  static constexpr int kLanes = 2 * Vec<F, Isa>::kLanes;
  Vec<F, Isa> even, odd;
  TWINOPS_INLINE friend EvenAndOdd operator+(EvenAndOdd a, EvenAndOdd b) {
    return {a.even + b.even, a.odd + b.odd};
  }
};
template <class F, class Isa>
TWINOPS_INLINE void save(F* to, EvenAndOdd<F, Isa> v) {
  save(to, v.even);
  save(to + Vec<F, Isa>::kLanes, v.odd);
}
template <class F, class Isa>
TWINOPS_INLINE void load_saved(const F* from, Vec<F, Isa>& v) {
  v = load<Isa>(from);
}
template <class F, class Isa>
TWINOPS_INLINE void load_saved(const F* from, EvenAndOdd<F, Isa>& v) {
  v = {load<Isa>(from), load<Isa>(from + Vec<F, Isa>::kLanes)};
}

// The fold of f(j), j = 0, kLanes, ... below n, until one vector (or EvenAndOdd) is left. n: a
// power of two, at least eight of what f gives. Eight values are added before any is stored.
template <class F, class Isa, class Term>
TWINOPS_INLINE auto fold_eighths(int n, Term&& f) {
  using V = decltype(f(0));
  alignas(64) F s[kFoldChunk / 8];
  const int step = n / 8;
  for (int j = 0; j < step; j += V::kLanes) {
    const V a = f(j) + f(j + 4 * step), b = f(j + step) + f(j + 5 * step);
    const V c = f(j + 2 * step) + f(j + 6 * step), d = f(j + 3 * step) + f(j + 7 * step);
    save(s + j, (a + c) + (b + d));
  }
  V low, high;
  for (int half = step / 2; half >= V::kLanes; half /= 2) {
    for (int j = 0; j < half; j += V::kLanes) {
      load_saved(s + j, low);
      load_saved(s + j + half, high);
      save(s + j, low + high);
    }
  }
  load_saved(s, low);
  return low;
}

// The same, from the first f(j) to the last. What f reads may be in no cache yet, and processors
// foresee one place to read from, not eight in a page:
// docs/lab/softmax-cpu.md#gradients-read-in-the-order-of-memory.
template <int kCount, class F, class Isa, class Term>
TWINOPS_INLINE auto fold_in_order(Term&& f) {
  using V = decltype(f(0));
  constexpr int kQuarter = kCount / 4;
  static_assert(kQuarter >= 8 * V::kLanes);
  alignas(64) F s[2 * kQuarter];
  V first, second;
#pragma GCC unroll 4
  for (int j = 0; j < 2 * kQuarter; j += V::kLanes) save(s + j, f(j));
#pragma GCC unroll 4
  for (int j = 0; j < kQuarter; j += V::kLanes) {
    load_saved(s + j, first);
    save(s + j, first + f(j + 2 * kQuarter));
  }
#pragma GCC unroll 4
  for (int j = 0; j < kQuarter; j += V::kLanes) {
    load_saved(s + j, first);
    load_saved(s + j + kQuarter, second);
    save(s + j, first + (second + f(j + 3 * kQuarter)));
  }
  return fold_eighths<F, Isa>(kQuarter, [&](int j) TWINOPS_INLINE_BODY {
    load_saved(s + j, first);
    return first;
  });
}

// The same for up to four vectors.
template <class F, class Isa, class Term>
TWINOPS_INLINE Vec<F, Isa> fold_up_to_four(int n, Term&& f) {
  using V = Vec<F, Isa>;
  if (n == V::kLanes) return f(0);
  if (n == 2 * V::kLanes) return f(0) + f(V::kLanes);
  const V a = f(0) + f(2 * V::kLanes), b = f(V::kLanes) + f(3 * V::kLanes);
  return a + b;
}

// The same for any number of vectors.
template <class F, class Isa, class Term>
TWINOPS_INLINE Vec<F, Isa> fold_to_vector(int n, Term&& f) {
  if (n <= 4 * Vec<F, Isa>::kLanes) return fold_up_to_four<F, Isa>(n, f);
  return fold_eighths<F, Isa>(n, f);
}

// The same for n terms, which stay in s; s has room for `end` = padded(n). f(j): j = 0, kLanes, ...
// below n. One loop computes the terms and one adds them, because both together need more than
// sixteen registers.
template <class F, class Isa, class Term>
TWINOPS_INLINE Vec<F, Isa> fold_saved(F* s, int n, int end, Term&& f) {
  using V = Vec<F, Isa>;
  if (end <= 4 * V::kLanes) {
    return fold_up_to_four<F, Isa>(end, [&](int j) TWINOPS_INLINE_BODY {
      if (j >= n) return V(F(0));
      const V term = f(j);
      save(s + j, term);
      return term;
    });
  }
  int j = 0;
  for (; j < n; j += V::kLanes) save(s + j, f(j));
  for (; j < end; j += V::kLanes) save(s + j, V(F(0)));
  return fold_eighths<F, Isa>(end, [&](int i) TWINOPS_INLINE_BODY { return load<Isa>(s + i); });
}

}  // namespace twinops
