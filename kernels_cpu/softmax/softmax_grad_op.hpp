// Rows of the backward passes by vectors: the class that reduce_rows.hpp asks for, for elements of
// all types that are computed in F. Included only by files that are compiled once for each
// instruction set.
//
// Memory: y and dy are read twice, the second time from a cache if the row fits one; dx is written
// once. Elements that are not contiguous are gathered into contiguous runs first. Rows of a chunk
// go as many at once as stay in the first cache. Order: docs/softmax.md. What was tried:
// docs/lab/softmax-cpu.md#gradients-at-the-rate-of-memory.
#pragma once

#include "kernels_cpu/rows/fold_transposed.hpp"
#include "kernels_cpu/rows/offsets.hpp"
#include "kernels_cpu/rows/reduce_rows.hpp"
#include "kernels_cpu/runtime/processor.hpp"
#include "kernels_cpu/softmax/softmax_grad_steps.hpp"

namespace twinops {

template <class Isa, class F>
class GradRows {
 public:
  using Arguments = SoftmaxGradArguments;
  using Steps = GradSteps<Isa, F>;
  using Compute = F;
  using Part = F;
  struct Kept {};

  // source: where dy comes from if not from where it lies; nullptr for none.
  GradRows(const SoftmaxGradArguments& a, const Steps& steps, const GradSource* source)
      : a_(a), steps_(steps), source_(source), scale_(static_cast<F>(a.scale)) {
    const std::int64_t rows = a.rows.rows, length = a.rows.length;
    const std::int64_t bytes = length * steps.out_bytes;
    dense_ = step(Arguments::kDx) == 1;
    in_place_ = step(Arguments::kY) == 1 && step(Arguments::kDy) == 1 && source == nullptr;
    cold_ = is_cold(steps.in_bytes, rows, length);
    // Outputs of 16 bits, which have more to compute for each byte, lose by being streamed or
    // prefetched, and long rows of log_softmax_grad on AMD by being streamed.
    const bool wide = dense_ && steps.out_bytes > 2, amd = is_amd();
    streamed_ = wide && !(steps.log && amd && bytes > kMostStreamedLog) && a.dx != a.y &&
                a.dx != a.dy && is_streamed(steps.out_bytes, rows, length, kLeastStreamed);
    if (steps.log && wide && steps.in_bytes > 2 && amd && in_place_ && cold_ &&
        length * steps.in_bytes >= kLeastAhead && length * steps.in_bytes <= kMostAhead)
      ahead_ = static_cast<int>(length) * (!has_groups() ? 1 : bytes > 1024 ? 4 : 8);
    in_order_ = !steps.log && amd && in_place_ && rows * length >= kLeastInOrder / steps.in_bytes &&
                (steps.in_bytes > 2 || length % kFoldChunk != 0);
  }

  // Takes rows of one chunk. A group's elements that are not taken where they are have the buffer.
  std::int64_t short_buffer() const {
    return has_groups() && !has_long_groups() ? 3 * kRows * kGroupColumns<F> : 0;
  }
  void short_rows(std::int64_t begin, std::int64_t end, F* buffer) const {
    const std::int64_t even = evenly_apart();
    Kept kept;
    while (begin < end) {
      if (!has_groups()) {
        whole_row(*this, begin++, 1, kept);
        continue;
      }
      const std::int64_t left = std::min(end - begin, even - begin % even);
      const std::int64_t most = has_long_groups() ? kMostRows : kRows;
      const int rows = static_cast<int>(left < most ? left : most);
      group(begin, rows, buffer);
      begin += rows;
    }
  }

  Kept kept(F*, std::int64_t) const { return {}; }
  Kept cut_kept(F*, F*) const { return {}; }
  std::int64_t kept_size(std::int64_t) const { return 0; }
  Part reduce(std::int64_t row, std::int64_t begin, std::int64_t end, F, Kept&) const {
    const Row at = row_at(row);
    Buffers buffers;
    ChunkTree<Part> tree;
    for (std::int64_t c = begin; c < end; ++c) {
      const Run r = run(at, c, buffers.y, buffers.dy);
      tree.add(steps_.total(r.y, r.dy, r.n, in_order_));
    }
    return tree.total();
  }
  void end() const { isa::end_of_streams(); }
  bool is_out_of_range(const Part&) const { return false; }
  F shift_of(const Part&) const { return F(0); }

  void write(std::int64_t row, std::int64_t begin, std::int64_t end, const Part& sum, F,
             Kept&) const {
    const Row at = row_at(row);
    Buffers buffers;
    for (std::int64_t c = begin; c < end; ++c) {
      const Run r = run(at, c, buffers.y, buffers.dy);
      const std::int64_t first = c * kFoldChunk;
      if (dense_) {
        steps_.write(r.y, r.dy, r.n, scale_, sum, at.dx + first * steps_.out_bytes, streamed_,
                     ahead_);
      } else {
        steps_.write(r.y, r.dy, r.n, scale_, sum, buffers.dx, false, 0);
        scatter_elements<F>(at.dx + first * step(Arguments::kDx) * steps_.out_bytes, r.n,
                            steps_.out_bytes, step(Arguments::kDx), buffers.dx);
      }
    }
  }

 private:
  // Rows of a group that has a buffer, and of one that needs none.
  static constexpr int kRows = Vec<F, Isa>::kLanes, kMostRows = 1 << 16;
  // Bytes of a row of y that is fetched ahead: at least, and at most, which the second cache holds.
  static constexpr std::int64_t kLeastAhead = 256, kMostAhead = 1 << 18;
  // Bytes of y from which on it is read in order: with vectors of 64 bytes where hardly a cache
  // holds all three, with shorter ones where the second does not.
  static constexpr std::int64_t kLeastInOrder = sizeof(Vec<F, Isa>) == 64 ? 1 << 23 : 1 << 19;
  // Rows of so many bytes are streamed; of log_softmax_grad on AMD up to so many.
  static constexpr std::int64_t kLeastStreamed = 256,
                                kMostStreamedLog = sizeof(Vec<F, Isa>) == 64 ? 2048 : 0;
  TWINOPS_INLINE std::int64_t step(int k) const { return a_.rows.step[k]; }
  TWINOPS_INLINE bool has_groups() const {
    return a_.rows.length <= (has_long_groups() ? kFoldChunk : kGroupColumns<F>);
  }
  // Groups that need no buffer.
  TWINOPS_INLINE bool has_long_groups() const { return in_place_ && dense_; }

  struct Row {
    char* dx;
    const char *y, *dy;
    std::int64_t index;
  };
  TWINOPS_INLINE Row row_at(std::int64_t row) const {
    const auto offsets = row_offsets(a_.rows.outer, row);
    const auto at = [&](const void* data, int k, int bytes) TWINOPS_INLINE_BODY {
      return static_cast<const char*>(data) + offsets.of[k] * bytes;
    };
    return {const_cast<char*>(at(a_.dx, Arguments::kDx, steps_.out_bytes)),
            at(a_.y, Arguments::kY, steps_.in_bytes), at(a_.dy, Arguments::kDy, steps_.in_bytes),
            row};
  }

  // A chunk of y and dy without gaps, and buffers for elements that have some.
  struct Run {
    const void *y, *dy;
    int n;
  };
  struct Buffers {
    alignas(64) char y[kFoldChunk * sizeof(F)], dy[kFoldChunk * sizeof(F)],
        dx[kFoldChunk * sizeof(F)];
  };
  TWINOPS_INLINE Run run(const Row& at, std::int64_t c, void* y_buffer, void* dy_buffer) const {
    const std::int64_t first = c * kFoldChunk, left = a_.rows.length - first;
    const int n = static_cast<int>(left < kFoldChunk ? left : kFoldChunk);
    if (in_place_) return {at.y + first * steps_.in_bytes, at.dy + first * steps_.in_bytes, n};
    return gathered(at, first, n, y_buffer, dy_buffer);
  }
  [[gnu::noinline]] Run gathered(const Row& at, std::int64_t first, int n, void* y_buffer,
                                 void* dy_buffer) const {
    const int bytes = steps_.in_bytes;
    Run run{y_buffer, dy_buffer, n};
    run.y = dense_elements<F>(at.y, first, n, bytes, step(Arguments::kY), y_buffer);
    if (source_ != nullptr)
      source_->read(*source_, at.index, at.dy, first, n, dy_buffer);
    else
      run.dy = dense_elements<F>(at.dy, first, n, bytes, step(Arguments::kDy), dy_buffer);
    return run;
  }

  // Rows that lie evenly apart: those along the innermost of the other axes.
  TWINOPS_INLINE std::int64_t evenly_apart() const {
    const auto& outer = a_.rows.outer;
    return outer.rank == 0 ? 1 : outer.size[outer.rank - 1];
  }
  TWINOPS_INLINE std::int64_t pitch(int k) const {
    const auto& outer = a_.rows.outer;
    return outer.rank == 0 ? 0 : outer.stride[k][outer.rank - 1];
  }

  // Takes rows [row, row + rows), which lie evenly apart.
  TWINOPS_INLINE void group(std::int64_t row, int rows, F* buffer) const {
    const Row first = row_at(row);
    GradGroup<Isa, F> group;
    group.dx = first.dx;
    group.y = first.y;
    group.dy = first.dy;
    group.dx_pitch = pitch(Arguments::kDx) * steps_.out_bytes;
    group.y_pitch = pitch(Arguments::kY) * steps_.in_bytes;
    group.dy_pitch = pitch(Arguments::kDy) * steps_.in_bytes;
    group.rows = rows;
    group.n = static_cast<int>(a_.rows.length);
    group.scale = scale_;
    group.streamed = streamed_;
    group.cold = cold_;
    group.in_order = in_order_;
    group.ahead = ahead_;
    if (!in_place_) gather(first, buffer, group);
    if (!dense_) return scatter(first, buffer + 2 * kRows * kGroupColumns<F>, group);
    steps_.group(group);
  }
  // Gradients of a group that go to the buffer first.
  [[gnu::noinline]] void scatter(const Row& at, F* buffer, GradGroup<Isa, F> group) const {
    const std::int64_t pitch = group.dx_pitch;
    group.dx = reinterpret_cast<char*>(buffer);
    group.dx_pitch = kGroupColumns<F> * sizeof(F);
    steps_.group(group);
    for (int r = 0; r < group.rows; ++r)
      scatter_elements<F>(at.dx + r * pitch, group.n, steps_.out_bytes, step(Arguments::kDx),
                          group.dx + r * group.dx_pitch);
  }
  // Puts what is not taken where it lies into the buffer.
  [[gnu::noinline]] void gather(Row at, F* buffer, GradGroup<Isa, F>& group) const {
    constexpr std::int64_t kPitch = kGroupColumns<F> * sizeof(F);
    const auto place = reinterpret_cast<char*>(buffer);
    const std::int64_t y_pitch = group.y_pitch, dy_pitch = group.dy_pitch;
    for (int r = 0; r < group.rows; ++r) {
      gathered(at, 0, group.n, place + r * kPitch, place + (kRows + r) * kPitch);
      at.y += y_pitch;
      at.dy += dy_pitch;
      ++at.index;
    }
    if (step(Arguments::kY) != 1) {
      group.y = place;
      group.y_pitch = kPitch;
    }
    if (source_ != nullptr || step(Arguments::kDy) != 1) {
      group.dy = place + kRows * kPitch;
      group.dy_pitch = kPitch;
    }
  }

  const SoftmaxGradArguments& a_;
  const Steps& steps_;
  const GradSource* const source_;
  const F scale_;
  bool streamed_;  // gradients go past the caches
  bool dense_;     // gradients go where they are to be at once
  bool cold_;      // y and dy are in no cache
  bool in_place_;  // y and dy are read where they are
  bool in_order_;  // by GradSteps::total
  int ahead_ = 0;  // as in GradSteps::write
};

}  // namespace twinops
