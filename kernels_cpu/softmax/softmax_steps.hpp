// The steps of softmax and log_softmax that depend on the types of elements, as pointers to
// functions of a chunk, a short row or a chunk of a tile. What goes through rows
// (softmax_op.hpp, softmax_strided.hpp) calls them and is compiled once for all types: softmax.cpp
// makes the functions, once for each type of x. Included only by files that are compiled once for
// each instruction set.
#pragma once

#include "kernels_cpu/softmax/masked_row.hpp"
#include "numerics/softmax_lanes.hpp"

namespace twinops {

// Both types of 16 bits have the same weights: what makes them exists once.
template <class In>
using WeighedAs = std::conditional_t<kNear<In>, float16, In>;

template <class Isa, class F>
struct SoftmaxTile;

template <class Isa, class F>
struct SoftmaxSteps {
  using Part = SoftmaxPart<F>;
  // Where the values of a chunk are, and their maximum.
  struct Values {
    const F* at;
    F max;
  };

  int in_bytes, out_bytes;  // of an element
  bool log;
  bool weights_fit;  // results have the type of weights, F

  // The n values of chunk c that count, less `shift`: in x itself or read into `buffer`.
  Values (*values)(const InputRow& x, std::int64_t c, int n, F shift, F* buffer);
  // Their part. Their weights go to `buffer`, +0 up to padded(n).
  Part (*part)(Values v, int n, F* buffer);
  // What a row keeps of its sum for its results.
  F (*last)(const Part& row);
  // Results of a chunk, rounded once, to n elements at `to`: of weights under the chunk's maximum,
  // or (log) of values.
  void (*results)(const F* from, int n, F chunk_max, const Part& row, F last, void* to);
  // The same of values, not for log.
  void (*again)(Values v, int n, const Part& row, F last, void* to);
  void (*fill)(F value, int n, void* to);

  // Takes a row of up to a chunk without scale and mask that lies without gaps. cold: nor is the
  // output in the caches. False, and nothing is written, if the row is not ordinary.
  bool (*plain_short_row)(const void* x, int n, void* to, bool cold);
  // Takes as many rows as a vector has lanes, row `begin` and those behind it, of up to
  // kGroupColumns elements without gaps. Returns a bit for each row that is not ordinary and was
  // not written. Sets `columns`, the number of elements that are written.
  using Group = std::uint32_t (*)(const SoftmaxArguments& a, std::int64_t begin, bool cold,
                                  int& columns);
  Group plain_group, masked_group;

  // Of a tile (softmax_tile.hpp).
  using Tile = SoftmaxTile<Isa, F>;
  void (*read_tile)(Tile& t, std::int64_t first, int n);
  // Sums the weights of the n elements that were read. The second also puts weights in the values'
  // places.
  void (*add_up)(Tile& t, int n);
  void (*add_up_and_save)(Tile& t, int n);
  // Of rows of one chunk: what their results need of their sums, and which rows are not ordinary.
  void (*close_tile)(Tile& t);
  // Results of ordinary rows: of rows of one chunk, and of longer ones.
  void (*write_tile)(Tile& t, std::int64_t first, int n);
  void (*write_tile_again)(Tile& t, std::int64_t first, int n);
};

// Those of a call that reads elements of type In.
template <class Isa, class In>
const SoftmaxSteps<Isa, compute_t<In>>& softmax_steps(TypePair types, bool log);

// Where results go if not into the output as they are.
struct SoftmaxSink {
  // Takes n results of a row from element `first` on; `out`: where the row begins in the output.
  void (*write)(const SoftmaxSink& sink, std::int64_t row, void* out, std::int64_t first, int n,
                const void* results);
};

// Goes through all rows. sink: nullptr for none.
template <class Isa, class F>
void softmax_rows(const SoftmaxArguments& a, const SoftmaxSteps<Isa, F>& steps,
                  const SoftmaxSink* sink, Execution& execution);

}  // namespace twinops
