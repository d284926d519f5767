// What the kernels of softmax_grad and log_softmax_grad do with a lane's fragment of a chunk of y
// and of dy: read it, add up its terms, and store the gradients.
#pragma once

#include "kernels_cuda/rows/fold.cuh"
#include "kernels_cuda/rows/lane_io.cuh"
#include "kernels_cuda/rows/offsets.cuh"
#include "kernels_cuda/softmax/grad_mask.cuh"
#include "kernels_cuda/softmax/split_axes.cuh"
#include "numerics/softmax.hpp"
#include "operators/softmax_grad.hpp"

namespace twinops {

// The operands of rows.
inline constexpr int kDx = SoftmaxGradArguments::kDx, kY = SoftmaxGradArguments::kY,
                     kDy = SoftmaxGradArguments::kDy;

template <class In, class Out, int kAxes = kKernelAxes>
struct GradParams {
  const In* y;
  const In* dy;
  const In* y_end;
  const In* dy_end;
  Out* dx;
  Rows<3, kAxes> rows;
  compute_t<In> scale;

  // The same for rows that lie along one axis at most.
  GradParams<In, Out, 1> in_one_axis() const {
    return {y, dy, y_end, dy_end, dx, in_axes<1>(rows), scale};
  }
};

template <class In, class Out>
GradParams<In, Out> grad_params(const SoftmaxGradArguments& a) {
  return {static_cast<const In*>(a.y),
          static_cast<const In*>(a.dy),
          end_of_rows<In>(a.rows, kY, a.y),
          end_of_rows<In>(a.rows, kDy, a.dy),
          static_cast<Out*>(a.dx),
          in_axes<kKernelAxes>(a.rows),
          static_cast<compute_t<In>>(a.scale)};
}

// What split_axes() gives a launch.
inline SoftmaxGradArguments part_of(SoftmaxGradArguments a, int axis, std::int64_t begin,
                                    std::int64_t size) {
  move_along(a.dx, a.rows.outer, SoftmaxGradArguments::kDx, size_of(a.types.out), axis, begin);
  move_along(a.y, a.rows.outer, SoftmaxGradArguments::kY, size_of(a.types.in), axis, begin);
  move_along(a.dy, a.rows.outer, SoftmaxGradArguments::kDy, size_of(a.types.in), axis, begin);
  move_mask(a.mask, a.mask_outer, axis, begin);
  take_part(a.rows, axis, size);
  take_part(a.mask_outer, axis, size);
  return a;
}

// What the kernels of any rows, under any mask, take.
template <class In, class Out>
struct MaskedGradParams {
  const In* y;
  const In* dy;
  Out* dx;
  struct {
    std::int64_t rows, length, step[3];
    Layout<3 + RowMask::kOperands, kKernelAxes> outer;  // from kGradMask on the mask's
  } rows;
  RowMask mask;
  compute_t<In> scale;
  bool in_vectors;  // rows move in vectors, but not their mask; else element by element
};
inline constexpr int kGradMask = 3;

// Where the rows of dx, y and dy can move in vectors of 16 bytes of y.
inline Alignment grad_alignment(const SoftmaxGradArguments& a) {
  const std::size_t in = size_of(a.types.in);
  return alignment_of(a.rows, {{a.dx, size_of(a.types.out)}, {a.y, in}, {a.dy, in}}, kY);
}

template <class In, class Out>
MaskedGradParams<In, Out> masked_grad_params(const SoftmaxGradArguments& a) {
  MaskedGradParams<In, Out> params{static_cast<const In*>(a.y),
                                   static_cast<const In*>(a.dy),
                                   static_cast<Out*>(a.dx),
                                   {a.rows.rows, a.rows.length, {}, {}},
                                   a.mask,
                                   static_cast<compute_t<In>>(a.scale),
                                   grad_alignment(a) != Alignment::none};
  std::copy_n(a.rows.step, 3, params.rows.step);
  auto& outer = params.rows.outer;
  outer.rank = a.rows.outer.rank;
  std::copy_n(a.rows.outer.size, outer.rank, outer.size);
  for (int k = 0; k < 3 + RowMask::kOperands; ++k)
    std::copy_n(k < 3 ? a.rows.outer.stride[k] : a.mask_outer.stride[k - 3], outer.rank,
                outer.stride[k]);
  return params;
}

// The parameters of kernels of fragments S; those of elements one by one take any rows.
template <class In, class Out, class S>
using GradParamsOf =
    std::conditional_t<S::kVector == 1, MaskedGradParams<In, Out>, GradParams<In, Out>>;
template <class Params>
inline constexpr bool kTakesAnyRows = false;
template <class In, class Out>
inline constexpr bool kTakesAnyRows<MaskedGradParams<In, Out>> = true;
// Parameters whose drop_out() makes softmax's dy of the one that was loaded.
template <class Params>
inline constexpr bool kDropsOut = false;

// Not inlined: it is rare, and would be most of a kernel's code.
template <class In, class F>
__device__ __noinline__ F any_log_softmax_grad(F y, F dy, F sum, F scale) {
  return softmax_grad<true, In>(y, dy, sum, scale);
}

// The greatest |y| of words, NaN if one is: of words of two 16-bit elements, or of one float32.
template <class In>
class GreatestSize {
 public:
  __device__ __forceinline__ void take(std::uint32_t word) {
    if constexpr (sizeof(In) == 4)
      most_ = max(most_, word & 0x7fffffffu);
    else
      most_ = greater_two<In>(most_, word & 0x7fff7fffu);
  }
  __device__ __forceinline__ float value() const {
    if constexpr (sizeof(In) == 4) {
      return __uint_as_float(most_);
    } else {
      const float2 of = widen_two(most_, In{});
      return greatest_or_nan(of.x, of.y);
    }
  }

 private:
  std::uint32_t most_ = 0;  // as bits: a NaN's are the greatest
};

// The sum of `count` neighbouring sums, up to kOfLane * kWarp; every lane has it.
template <int kOfLane, class F>
__device__ __forceinline__ F join_sums(const F* sums, int count) {
  F mine[kOfLane];
#pragma unroll
  for (int k = 0; k < kOfLane; ++k) {
    const int i = kOfLane * (threadIdx.x % kWarp) + k;
    mine[k] = i < count ? sums[i] : F(0);
  }
#pragma unroll
  for (int left = kOfLane / 2; left > 0; left /= 2)
#pragma unroll
    for (int k = 0; k < left; ++k) mine[k] = mine[2 * k] + mine[2 * k + 1];
  return fold_neighbours(mine[0]) + F(0);
}

// A lane's fragment of a chunk of y and dy, as they are stored in memory; 0 beyond the row, and
// where an element is masked out.
template <class In, class S, bool kMasked = false>
struct GradFragment {
  using F = compute_t<In>;
  static constexpr int V = S::kVector, R = S::kElements / V;
  Vector<In, V> y[R], dy[R];
  std::uint32_t counts = ~std::uint32_t{0};  // a bit for each element that is not masked out

  __device__ __forceinline__ void load(const S& fragment, const In* y_at, std::int64_t y_step,
                                       const In* dy_at, std::int64_t dy_step) {
    if (fragment.all_whole()) {
      fragment.load_whole(y_at, y);
      fragment.load_whole(dy_at, dy);
    } else {
      fragment.load_checked(y_at, y_step, In{}, y);
      fragment.load_checked(dy_at, dy_step, In{}, dy);
    }
  }
  // Finds out which elements of the chunk that begins with element `begin` count. starts: the
  // row's.
  template <class Params, int N>
  __device__ __forceinline__ void read_mask(const Params& params, const S& fragment,
                                            const RowStarts<N>& starts, std::int64_t begin) {
    static_assert(S::kLanes == kWarp);  // no lane is beyond the last row
    const RowMask& mask = params.mask;
    if (mask.is_plain()) return;
    const std::int64_t columns = mask.columns(starts.of + kGradMask, params.rows.length) - begin;
    const int left = fragment.left();
    const int used = columns < left ? static_cast<int>(max(columns, std::int64_t{0})) : left;
    counts = counting_elements(fragment, mask,
                               starts.of[kGradMask + RowMask::kMask] + begin * mask.step, used);
  }
  // Loads a chunk of a row, under its mask.
  template <class Params, int N>
  __device__ __forceinline__ void load_chunk(const Params& params, const S& fragment,
                                             const RowStarts<N>& starts, std::int64_t begin) {
    const std::int64_t* const step = params.rows.step;
    const In* const y_at = params.y + (starts.of[kY] + begin * step[kY]);
    const In* const dy_at = params.dy + (starts.of[kDy] + begin * step[kDy]);
    if constexpr (V > 1) {
      load(fragment, y_at, step[kY], dy_at, step[kDy]);
      if constexpr (kMasked) {
        read_mask(params, fragment, starts, begin);
#pragma unroll
        for (int r = 0; r < R; ++r) {
          keep_elements(counts >> r * V, y[r]);
          keep_elements(counts >> r * V, dy[r]);
        }
      }
    } else {
      read_mask(params, fragment, starts, begin);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const std::int64_t j = fragment.element(r, 0);
        const bool read = fragment.whole(r) && (counts >> r & 1) != 0;
        y[r] = read ? read_vector<In, V>(y_at + j * step[kY]) : broadcast_vector<In, V>(In{});
        dy[r] = read ? read_vector<In, V>(dy_at + j * step[kDy]) : broadcast_vector<In, V>(In{});
      }
    }
  }
  // Calls of(e, y, dy) for the V elements of vector r.
  template <class Of>
  __device__ __forceinline__ void each(int r, Of&& of) const {
    F ys[V], dys[V];
    widen_vector(y[r], ys);
    widen_vector(dy[r], dys);
#pragma unroll
    for (int e = 0; e < V; ++e) of(e, ys[e], dys[e]);
  }
  template <bool kLog>
  __device__ __forceinline__ F sum() const {
    F terms[R * V];
#pragma unroll
    for (int r = 0; r < R; ++r)
      each(r, [&](int e, F y, F dy) { terms[r * V + e] = grad_term<kLog, F>(y, dy); });
    return fold_lanes<S::kLanes, R, V>(terms);
  }
  // Makes y and dy opaque between the sum and the store: else what was widened for the sum stays in
  // registers, and that takes two times as many.
  template <bool kLog>
  __device__ __forceinline__ void forget() {
    if constexpr (V > 1 && sizeof(In) == 2) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        if constexpr (!kLog) make_vector_opaque(y[r]);
        make_vector_opaque(dy[r]);
      }
    }
  }
  template <bool kLog, bool kInOrder = false, bool kRecompute = false, class Out>
  __device__ __forceinline__ void store(const S& fragment, Out* at, std::int64_t step, F sum,
                                        F scale) const {
    const auto store_by = [&](auto&& grad_of) {
      fragment.template store<false, kInOrder, kRecompute>(at, step, [&](int r, F(&dx)[V]) {
        each(r, [&](int e, F y, F dy) { dx[e] = grad_of(y, dy); });
        if constexpr (kMasked)
#pragma unroll
          for (int e = 0; e < V; ++e)
            if ((counts >> (r * V + e) & 1) == 0) dx[e] = F(0);
      });
    };
    const auto whole = [&](F y, F dy) { return softmax_grad<kLog, In, F>(y, dy, sum, scale); };
    // With the whole exp() throughout, half of a row's instructions would go into it
    // (docs/lab/softmax-grad-kernels.md#the-shorter-exponential).
    if constexpr (!kLog || sizeof(In) * V < 4 || sizeof(In) == 8)
      store_by(whole);
    else if (__all_sync(kAllLanes, y_magnitude() <= ExpTable<F>::kNormal))
      store_by([&](F y, F dy) { return normal_log_softmax_grad<In>(y, dy, sum, scale); });
    else if constexpr (sizeof(In) == 4)
      store_by(whole);
    else
      store_by([&](F y, F dy) { return any_log_softmax_grad<In>(y, dy, sum, scale); });
  }

 private:
  __device__ __forceinline__ F y_magnitude() const {
    GreatestSize<In> most;
#pragma unroll
    for (int r = 0; r < R; ++r)
      if constexpr (sizeof(y[r]) == 4)
        most.take(bit_cast<std::uint32_t>(y[r]));
      else
        for (const std::uint32_t word : {y[r].words.x, y[r].words.y, y[r].words.z, y[r].words.w})
          most.take(word);
    return most.value();
  }
};

}  // namespace twinops
