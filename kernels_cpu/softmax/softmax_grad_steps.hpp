// The steps of softmax_grad and log_softmax_grad that depend on the types of elements, as pointers
// to functions of a chunk, a group of short rows or a chunk of a tile. What goes through rows
// (softmax_grad_op.hpp, softmax_grad_strided.hpp, softmax_grad_masked.hpp) calls them and is
// compiled once for all types: softmax_grad.cpp makes the functions, once for each type of y and
// dy. Included only by files that are compiled once for each instruction set.
#pragma once

#include "kernels_cpu/rows/chunks.hpp"
#include "numerics/softmax.hpp"
#include "operators/softmax_grad.hpp"

namespace twinops {

// Rows of n elements, which lie evenly apart. No row has gaps.
template <class Isa, class F>
struct GradGroup {
  char* dx;
  const char *y, *dy;
  std::int64_t dx_pitch, y_pitch, dy_pitch;  // bytes from a row to the next
  int rows, n;
  F scale;
  bool streamed;  // gradients go past the caches
  bool cold;      // y and dy are in none
  bool in_order;  // as in total
  int ahead;      // as in write
};

// Element j of `width` strided rows that are neighbours is run j: `step` elements behind run j - 1.
struct GradTile {
  char* dx;
  const char *y, *dy;
  std::int64_t dx_step, y_step, dy_step;
  int width;
};

template <class Isa, class F>
struct GradSteps {
  int in_bytes, out_bytes;  // of an element
  bool log;

  // The fold of the terms of n elements, up to a chunk. in_order: they are read in the order of
  // memory before any is added up.
  F (*total)(const void* y, const void* dy, int n, bool in_order);
  // Their gradients, rounded once, to dx, which may be y or dy. streamed: past the caches.
  // ahead: from y and dy to what is fetched meanwhile, in elements; 0: nothing is.
  void (*write)(const void* y, const void* dy, int n, F scale, F sum, void* dx, bool streamed,
                int ahead);
  void (*group)(const GradGroup<Isa, F>& rows);
  // Sums n runs of a tile into `sums`, as fold_runs does. zeros: a run of them. fetches: the next n
  // runs are fetched.
  void (*add_up)(const GradTile& tile, int n, const void* zeros, bool fetches, int pitch, F* sums);
  void (*write_tile)(const GradTile& tile, int n, F scale, const F* sums, bool streamed);
};

// Those of a call that reads elements of type In.
template <class Isa, class In>
const GradSteps<Isa, compute_t<In>>& grad_steps(TypePair types, bool log);

// Where dy comes from if not from where it lies.
struct GradSource {
  // Puts n elements of a row from element `first` on into `buffer`; dy: where the row begins.
  void (*read)(const GradSource& source, std::int64_t row, const void* dy, std::int64_t first,
               int n, void* buffer);
};

// Goes through all rows of a call. source: nullptr for none.
template <class Isa, class F>
void grad_rows(const SoftmaxGradArguments& a, const GradSteps<Isa, F>& steps,
               const GradSource* source, Execution& execution);

}  // namespace twinops
