// What every operator that draws random words takes: seed, offset, layout, and where its tensor
// lies in a larger one. docs/same-mask-everywhere.md.
#pragma once

#include <array>
#include <cstdint>

#include "numerics/random.hpp"
#include "operators/operator.hpp"
#include "operators/tensor.hpp"

namespace twinops {

struct RandomArguments {
  RandomLayout layout;
  std::uint8_t vector;   // of the torch layout
  std::uint64_t period;  // of the strided and the torch layout: subsequences that take turns
  std::uint64_t seed, subsequence, offset;
  const std::uint64_t* seed_tensor;    // one, on the device, instead of `seed`; or nullptr
  const std::uint64_t* offset_tensor;  // one, on the device, added to `offset`; or nullptr
  const std::uint64_t* seeds;          // one a row, on the device, instead of `seed`; or nullptr
  std::uint64_t first;                 // the draw index of the tensor's first element
  bool consecutive;                    // element i has draw index first + i, of one sequence
  std::uint64_t words;                 // that the call reserves: how far the next offset moves

  TWINOPS_INLINE WordOrder order() const { return {layout, vector, period}; }

  // What is drawn from; reads the device's memory. An offset there that is no multiple of 4 cannot
  // be refused: it is rounded down.
  TWINOPS_INLINE Sequence sequence() const {
    return {seed_tensor != nullptr ? *seed_tensor : seed, subsequence,
            (offset_tensor != nullptr ? offset + *offset_tensor : offset) / 4};
  }
};

// How far the draw index, and the row that `seeds` is indexed with, move along each axis.
struct DrawStrides {
  Strides draw, row;
};

// Reads the arguments and attributes below, for the elements of `tensor`.
RandomArguments read_random(const Call& call, const Tensor& tensor, DrawStrides& strides);

// Reads what concerns the sequence alone: seed, subsequence, offset, element_offset and their
// tensors, for `draws` elements of layout contiguous that follow one another.
RandomArguments read_sequence(const Call& call, std::int64_t draws);

inline constexpr std::array<ArgumentInfo, 3> kRandomArguments{{
    {"seed_tensor",
     ArgumentInfo::Direction::input,
     ArgumentInfo::Form::tensor,
     false,
     {Type::int64, Type::uint64},
     "One element, read by the kernel: the seed, instead of the attribute."},
    {"offset_tensor",
     ArgumentInfo::Direction::input,
     ArgumentInfo::Form::tensor,
     false,
     {Type::int64, Type::uint64},
     "One element, read by the kernel: added to the attribute offset. Its low two bits are "
     "ignored."},
    {"seeds",
     ArgumentInfo::Direction::input,
     ArgumentInfo::Form::tensor,
     false,
     {Type::int64, Type::uint64},
     "A seed for each row (all axes but the last), in row order, without gaps: each row draws from "
     "its own sequence."},
}};

inline constexpr std::array<AttributeInfo, 10> kRandomAttributes{{
    {"seed", AttributeValue::of(std::int64_t{0}), nullptr, "The bits of the 64-bit seed."},
    {"subsequence", AttributeValue::of(std::int64_t{0}), nullptr,
     "The bits of the 64-bit subsequence."},
    {"offset", AttributeValue::of(std::int64_t{0}), nullptr,
     "Words of the sequence to skip, as in curand_init; a multiple of 4."},
    {"layout", AttributeValue::of("contiguous"), "contiguous|strided|triton|torch",
     "How elements take words of the sequence."},
    {"period", AttributeValue::of(std::int64_t{65536}), nullptr,
     "Of the strided layout: the subsequences that take turns; 1 or more. Of the torch layout: "
     "the threads that the GPU holds, multiprocessors times threads each; a multiple of 256."},
    {"element_offset", AttributeValue::of(std::int64_t{0}), nullptr,
     "Added to every element's index in the sequence; 0 or more."},
    {"global_shape", AttributeValue::of(""), nullptr,
     "The shape of the whole tensor that this one is cut from, as \"32,512,1024\"."},
    {"start", AttributeValue::of(""), nullptr,
     "Where this tensor begins in global_shape, as \"0,128,0\"."},
    {"shared_axes", AttributeValue::of(""), nullptr,
     "Axes along which all elements share one word, as \"2,3\"."},
    {"vector", AttributeValue::of(std::int64_t{0}), nullptr,
     "Of the torch layout: the most elements that a thread takes at once, 1, 2, 4 or 8; 0: those "
     "of 16 bytes."},
}};

inline constexpr std::array<AttributeInfo, 4> kSequenceAttributes{
    kRandomAttributes[0], kRandomAttributes[1], kRandomAttributes[2], kRandomAttributes[5]};

}  // namespace twinops
