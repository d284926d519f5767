#include "kernels_cpu/dropout/dropout_reference.hpp"

#include "kernels_cpu/kernel.hpp"
#include "operators/dropout.hpp"

namespace twinops {
namespace {

bool is_kept(const DropoutWork& work, const Sequence& sequence, std::int64_t i,
             const std::int64_t* offset) {
  const RandomArguments& random = work.random;
  Sequence s = sequence;
  switch (work.source) {
    case DropoutWork::Source::all:
      return true;
    case DropoutWork::Source::none:
      return false;
    case DropoutWork::Source::bits:
      return static_cast<const std::uint32_t*>(work.mask_in)[i / 32] >> (i % 32) & 1;
    case DropoutWork::Source::bytes:
      return static_cast<const std::uint8_t*>(work.mask_in)[i] != 0;
    default:
      if (random.seeds != nullptr) s.seed = random.seeds[offset[DropoutWork::kRow]];
      return work.keep.has(
          word_of(random.order(), s,
                  random.first + static_cast<std::uint64_t>(offset[DropoutWork::kDraw])));
  }
}

void put_mask(const DropoutWork& work, std::int64_t i, bool kept) {
  if (work.sink == DropoutWork::Sink::bytes) static_cast<std::uint8_t*>(work.mask_out)[i] = kept;
  if (work.sink != DropoutWork::Sink::bits) return;
  std::uint32_t& word = static_cast<std::uint32_t*>(work.mask_out)[i / 32];
  if (i % 32 == 0) word = 0;
  word |= std::uint32_t{kept} << (i % 32);
}

template <class T>
void put_element(const DropoutWork& work, const std::int64_t* offset, bool kept) {
  using F = compute_t<T>;
  const auto read = [&](const void* from, int operand) {
    return from != nullptr ? widen(static_cast<const T*>(from)[offset[operand]]) : F(0);
  };
  const F x = read(work.x, DropoutWork::kX), bias = read(work.bias, DropoutWork::kBias),
          residual = read(work.residual, DropoutWork::kResidual);
  static_cast<T*>(work.y)[offset[DropoutWork::kY]] =
      narrow<T>(dropped_out<F>(kept, x, static_cast<F>(work.scale),
                               {work.bias != nullptr, work.residual != nullptr, bias, residual}));
}

// Where element i lies.
struct Offsets {
  std::int64_t of[DropoutWork::kOperands] = {};
  Offsets(const DropoutWork& work, std::int64_t i) {
    for (int axis = work.layout.rank - 1; axis >= 0; --axis) {
      const std::int64_t index = i % work.layout.size[axis];
      i /= work.layout.size[axis];
      for (int k = 0; k < DropoutWork::kOperands; ++k) of[k] += index * work.layout.stride[k][axis];
    }
  }
};

}  // namespace

bool reference_is_kept(const DropoutWork& work, const Sequence& sequence, std::int64_t i) {
  return is_kept(work, sequence, i, Offsets(work, i).of);
}

void reference_mask(const DropoutWork& work, const Sequence& sequence) {
  if (work.sink == DropoutWork::Sink::nothing) return;
  for (std::int64_t i = 0; i < work.elements; ++i)
    put_mask(work, i, reference_is_kept(work, sequence, i));
}

void reference_dropout(const DropoutWork& work, Execution& execution) {
  execution.random_words = work.random_words;
  const Sequence sequence = work.random.sequence();
  for (std::int64_t i = 0; i < work.elements; ++i) {
    const Offsets offsets(work, i);
    const std::int64_t* offset = offsets.of;
    const bool kept = is_kept(work, sequence, i, offset);
    put_mask(work, i, kept);
    with_floating_type(work.type, [&]<class T>(TypeTag<T>) { put_element<T>(work, offset, kept); });
  }
}

template <>
void run_reference<Dropout>(const DropoutWork& work, Execution& execution) {
  reference_dropout(work, execution);
}

}  // namespace twinops
