#include "tools/proof/random_cases.hpp"

#include <limits>

#include "tools/proof/values.hpp"

namespace proof {
namespace {

std::int64_t word(std::uint64_t bits) { return static_cast<std::int64_t>(bits); }

// Strides of `shape` with its axes in the given order of memory, outermost first.
std::vector<std::int64_t> strides_in_order(const std::vector<std::int64_t>& shape,
                                           const std::vector<std::size_t>& order) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= shape[order[i]];
  }
  return strides;
}

}  // namespace

Problem& RandomSpec::add_to(Problem& problem) const {
  if (!seed_tensor.empty())
    problem.input("seed_tensor", {{twinops::kInt64, {1}}}, integers(seed_tensor));
  if (!offset_tensor.empty())
    problem.input("offset_tensor", {{twinops::kUint64, {}}}, integers(offset_tensor));
  if (!seeds.empty())
    problem.input("seeds", {{twinops::kInt64, {static_cast<std::int64_t>(seeds.size())}}},
                  integers(seeds));
  if (vector != 0) problem.attribute("vector", vector);
  return problem.attribute("seed", seed)
      .attribute("subsequence", subsequence)
      .attribute("offset", offset)
      .attribute("layout", layout)
      .attribute("period", period)
      .attribute("element_offset", element_offset)
      .attribute("global_shape", global_shape.c_str())
      .attribute("start", start.c_str())
      .attribute("shared_axes", shared_axes.c_str());
}

std::vector<RandomSpec> random_specs() {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return {
      {.name = "seed 0", .seed = 0},
      {.name = "seed of ones", .seed = -1, .subsequence = -1},
      {.name = "64-bit seed", .seed = word(0xfedcba9876543210u), .subsequence = most, .offset = 12},
      {.name = "block carries", .offset = word((std::uint64_t{1} << 34) - 4 * 21)},
      {.name = "block wraps", .offset = -4 * 100},
      {.name = "seed tensor", .seed = 0, .seed_tensor = {word(0x8000000000000001u)}},
      {.name = "offset tensor", .offset = 8, .offset_tensor = {word(1u << 20)}},
      {.name = "seed and offset tensor, block carries",
       .seed = 0,
       .offset = 16,
       .seed_tensor = {77},
       .offset_tensor = {word((std::uint64_t{1} << 34) - 4 * 50)}},
      {.name = "offset tensor, low bits ignored", .offset_tensor = {7}},
      {.name = "element offset 1", .element_offset = 1},
      {.name = "element offset 2", .element_offset = 2},
      {.name = "element offset 3", .element_offset = 3},
      {.name = "element offset 4", .element_offset = 4},
      {.name = "element offset 2^34 - 30", .element_offset = (std::int64_t{1} << 34) - 30},
      {.name = "element offset 2^61 + 1", .element_offset = (std::int64_t{1} << 61) + 1},
      {.name = "strided(1)", .offset = 4, .layout = "strided", .period = 1},
      {.name = "strided(7)", .subsequence = 3, .offset = 4, .layout = "strided", .period = 7},
      {.name = "strided(65536)", .layout = "strided"},
      {.name = "strided(2^40), last subsequence",
       .subsequence = -5,
       .layout = "strided",
       .period = std::int64_t{1} << 40,
       .element_offset = 5},
      {.name = "triton", .seed = 123, .layout = "triton"},
      {.name = "triton, seed tensor", .seed = 0, .layout = "triton", .seed_tensor = {-512}},
      {.name = "triton, 64-bit elements",
       .layout = "triton",
       .element_offset = (std::int64_t{1} << 32) - 40},
      {.name = "torch(512)", .offset = 8, .layout = "torch", .period = 512},
      {.name = "torch(256), vectors of 8, element offset 7",
       .layout = "torch",
       .period = 256,
       .vector = 8,
       .element_offset = 7},
      {.name = "torch(256), vectors of 2, seed and offset tensor",
       .seed = 0,
       .offset = 4,
       .layout = "torch",
       .period = 256,
       .vector = 2,
       .element_offset = (std::int64_t{1} << 40) + 1,
       .seed_tensor = {-512},
       .offset_tensor = {12}},
  };
}

std::vector<RandomSpec> shaped_specs() {
  std::vector<std::int64_t> seeds;
  for (std::int64_t row = 0; row < 30; ++row) seeds.push_back(row * row * 1234567890123 - 5);
  return {
      {.name = "shard along axis 0", .global_shape = "24,5,35", .start = "12,0,0"},
      {.name = "shard along axis 1", .global_shape = "6,20,35", .start = "0,15,0"},
      {.name = "shard along axis 2", .global_shape = "6,5,140", .start = "0,0,35"},
      {.name = "shard along all axes, offset",
       .offset = 400,
       .element_offset = 3,
       .global_shape = "13,11,72",
       .start = "7,6,37"},
      {.name = "shard, strided(7)",
       .layout = "strided",
       .period = 7,
       .global_shape = "6,5,70",
       .start = "0,0,35"},
      {.name = "shard, torch(256)",
       .layout = "torch",
       .period = 256,
       .global_shape = "12,10,70",
       .start = "6,5,35"},
      {.name = "shard, triton", .layout = "triton", .global_shape = "12,10,70", .start = "6,5,35"},
      {.name = "seeds", .seed = 0, .seeds = seeds},
      {.name = "seeds, offset, element offset",
       .seed = 0,
       .offset = 40,
       .element_offset = 5,
       .seeds = seeds},
      {.name = "seeds, triton", .seed = 0, .layout = "triton", .seeds = seeds},
      {.name = "seeds, shard along axis 2",
       .seed = 0,
       .global_shape = "6,5,100",
       .start = "0,0,65",
       .seeds = seeds},
      {.name = "axis 2 shared", .shared_axes = "2"},
      {.name = "axes 0 and 1 shared", .shared_axes = "0, 1"},
      {.name = "all axes shared", .shared_axes = "0,1,2"},
      {.name = "axis 1 shared, shard",
       .global_shape = "12,10,70",
       .start = "6,5,0",
       .shared_axes = "-2"},
  };
}

std::vector<std::int64_t> edge_sizes() {
  return {0,  1,  2,  3,  4,   5,   7,   8,   9,    15,   16,   17,   31,    32,   33,
          63, 64, 65, 95, 127, 128, 129, 257, 1000, 1023, 1025, 4095, 16385, 33333};
}

std::vector<LaidOut> laid_out(DLDataType type, const std::vector<std::int64_t>& shape) {
  std::vector<std::size_t> reversed;
  for (std::size_t i = shape.size(); i-- > 0;) reversed.push_back(i);
  std::vector<std::int64_t> gaps(shape.size()), back(shape.size());
  std::int64_t step = 2;
  for (std::size_t i = shape.size(); i-- > 0;) {
    gaps[i] = step;
    back[i] = -(step / 2);
    step *= shape[i] + (i == shape.size() - 1 ? 0 : 1);
  }
  std::int64_t dense = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    back[i] = -dense;
    dense *= shape[i];
  }
  return {{"unaligned", {type, shape, {}, 1}},
          {"axes reversed", {type, shape, strides_in_order(shape, reversed)}},
          {"gaps", {type, shape, gaps}},
          {"backwards", {type, shape, back}}};
}

}  // namespace proof
