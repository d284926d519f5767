#include "operators/random.hpp"

#include <algorithm>
#include <bit>
#include <charconv>

#include "operators/call.hpp"
#include "operators/describe.hpp"

namespace twinops {
namespace {

constexpr std::uint64_t kTorchThreads = 256;  // of a block of PyTorch's dropout

std::string where(const Call& call, const char* attribute) {
  return std::string(call.info().name) + ": " + attribute;
}

// "2, 3": integers between commas.
Strides read_list(const Call& call, const char* attribute) {
  std::string_view text = call.text(attribute);
  Strides values;
  if (text.empty()) return values;
  while (true) {
    const auto comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    while (word.starts_with(' ')) word.remove_prefix(1);
    std::int64_t value = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (status != std::errc() || end != word.data() + word.size())
      call.refuse(where(call, attribute), "expected integers between commas; got '" +
                                              std::string(call.text(attribute)) + "'");
    values.push_back(value);
    if (comma == std::string_view::npos) return values;
    text.remove_prefix(comma + 1);
  }
}

// The whole tensor's shape and where `tensor` begins in it.
struct Shard {
  Strides shape, start;

  bool whole_is_empty() const { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }
};

Shard read_shard(const Call& call, const Tensor& tensor) {
  const auto rank = static_cast<std::size_t>(tensor.rank);
  Shard shard{read_list(call, "global_shape"), read_list(call, "start")};
  if (shard.shape.empty() && !shard.start.empty())
    call.refuse(where(call, "start"), "is given without global_shape");
  if (shard.shape.empty()) shard.shape.assign(tensor.shape, tensor.shape + rank);
  if (shard.start.empty()) shard.start.assign(rank, 0);
  for (const char* name : {"global_shape", "start"}) {
    const std::size_t given = (name[0] == 'g' ? shard.shape : shard.start).size();
    if (given != rank)
      call.refuse(where(call, name), "expected " + std::to_string(rank) +
                                         " numbers, one a dimension of the tensor; got " +
                                         std::to_string(given));
  }
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t size = shard.shape[i], start = shard.start[i];
    if (size < 0)
      call.refuse(where(call, "global_shape"),
                  "dimension " + std::to_string(i) + " is negative: " + std::to_string(size));
    if (start < 0 || start > size || tensor.shape[i] > size - start)
      call.refuse(where(call, "start"), "the tensor of shape " + describe_shape(tensor) +
                                            " does not lie inside global_shape along axis " +
                                            std::to_string(i));
  }
  return shard;
}

// Of each axis, whether the mask is shared along it.
using SharedAxes = SmallVector<bool>;
SharedAxes read_shared_axes(const Call& call, int rank) {
  SharedAxes shared(rank, false);
  for (const std::int64_t axis : read_list(call, "shared_axes")) {
    if (axis < -rank || axis >= rank)
      call.refuse(where(call, "shared_axes"), "axis " + std::to_string(axis) +
                                                  " is not one of a tensor of " +
                                                  std::to_string(rank) + " dimensions");
    shared[axis < 0 ? axis + rank : axis] = true;
  }
  return shared;
}

const std::uint64_t* read_seeds(const Call& call, const Tensor& tensor, DrawStrides& strides) {
  const Tensor* seeds = call.optional_tensor("seeds");
  if (seeds == nullptr) return nullptr;
  if (call.optional_tensor("seed_tensor") != nullptr || call.integer("seed") != 0)
    call.refuse(call.where("seeds"), "another seed is given too");
  if (tensor.rank == 0) call.refuse(call.where("seeds"), "a tensor of no dimensions has no rows");
  const std::int64_t* const outer_end = tensor.shape + tensor.rank - 1;
  std::int64_t rows = std::find(tensor.shape, outer_end, 0) == outer_end ? 1 : 0;
  for (int i = tensor.rank - 2; i >= 0; --i) {
    strides.row[i] = rows;
    if (__builtin_mul_overflow(rows, tensor.shape[i], &rows))
      call.refuse(call.where("seeds"), "a tensor of shape " + describe_shape(tensor) +
                                           " has more rows than 64 bits count");
  }
  if (seeds->elements != rows || !seeds->contiguous)
    call.refuse(call.where("seeds"), "expected " + std::to_string(rows) +
                                         " elements without gaps, one a row; got shape " +
                                         describe_shape(*seeds));
  return static_cast<const std::uint64_t*>(seeds->data);
}

const std::uint64_t* read_word(const Call& call, const char* argument) {
  const Tensor* t = call.optional_tensor(argument);
  if (t == nullptr) return nullptr;
  if (t->elements != 1)
    call.refuse(call.where(argument), "expected one element; got shape " + describe_shape(*t));
  return static_cast<const std::uint64_t*>(t->data);
}

// Fills strides.draw and returns how many draw indexes the whole tensor has.
std::uint64_t number_draws(const Call& call, const Shard& shard, const SharedAxes& shared,
                           bool rows, RandomArguments& r, DrawStrides& strides) {
  std::int64_t draws = shard.whole_is_empty() ? 0 : 1, last = r.first;
  bool fits = true;
  for (int i = static_cast<int>(shard.shape.size()) - 1; i >= 0; --i) {
    const bool counts = !shared[i] && (!rows || i + 1 == static_cast<int>(shard.shape.size()));
    strides.draw[i] = counts ? draws : 0;
    if (!counts) continue;
    std::int64_t along = 0;
    fits = fits && !__builtin_mul_overflow(shard.start[i], draws, &along);
    r.first += static_cast<std::uint64_t>(along);
    fits = fits && !__builtin_mul_overflow(draws, shard.shape[i], &draws);
  }
  if (!fits || __builtin_add_overflow(last, draws, &last) || last > INT64_MAX - 4)
    call.refuse(where(call, "element_offset"), "the whole tensor's indexes do not fit 63 bits");
  return static_cast<std::uint64_t>(last);
}

// What of layout torch depends on the whole tensor, as PyTorch's launch does: how many blocks of
// 256 threads there are, and the largest vector that divides the elements.
void fit_torch(RandomArguments& r, std::uint64_t draws) {
  if (r.layout != RandomLayout::torch) return;
  const std::uint64_t needed = (draws + kTorchThreads - 1) / kTorchThreads * kTorchThreads;
  r.period = std::min(r.period, std::max(needed, kTorchThreads));
  while (draws % r.vector != 0) r.vector /= 2;
}

std::uint64_t reserved_words(const RandomArguments& r, std::uint64_t draws) {
  if (r.layout == RandomLayout::torch) return draws == 0 ? 0 : ((draws - 1) / 4 / r.period + 1) * 4;
  const std::uint64_t blocks = (draws + 3) / 4;
  if (r.layout == RandomLayout::contiguous) return 4 * blocks;
  if (r.layout == RandomLayout::triton) return 0;  // the next call takes another seed
  return (blocks + r.period - 1) / r.period * 4;
}

// Where the sequence begins: what every call says of it.
void read_start(const Call& call, RandomArguments& r) {
  if (call.integer("element_offset") < 0)
    call.refuse(where(call, "element_offset"),
                "expected 0 or more; got " + std::to_string(call.integer("element_offset")));
  r.seed_tensor = read_word(call, "seed_tensor");
  r.offset_tensor = read_word(call, "offset_tensor");
  r.seed = static_cast<std::uint64_t>(call.integer("seed"));
  r.subsequence = static_cast<std::uint64_t>(call.integer("subsequence"));
  r.offset = static_cast<std::uint64_t>(call.integer("offset"));
  r.first = static_cast<std::uint64_t>(call.integer("element_offset"));
  if (r.offset % 4 != 0)
    call.refuse(where(call, "offset"),
                "expected a multiple of 4; got " + std::to_string(call.integer("offset")));
  if (r.seed_tensor != nullptr && r.seed != 0)
    call.refuse(call.where("seed_tensor"), "the attribute seed is given too");
}

// The vector of layout torch: PyTorch's are of 16 bytes unless the attribute says less.
std::uint8_t read_vector(const Call& call, const Tensor& tensor) {
  const std::int64_t vector = call.integer("vector");
  if (vector == 0) return static_cast<std::uint8_t>(16 / size_of(tensor.type));
  if (vector < 0 || vector > 8 || !std::has_single_bit(static_cast<std::uint64_t>(vector)))
    call.refuse(where(call, "vector"), "expected 0, 1, 2, 4 or 8; got " + std::to_string(vector));
  return static_cast<std::uint8_t>(vector);
}

void read_attributes(const Call& call, const Tensor& tensor, RandomArguments& r) {
  const std::string_view layout = call.text("layout");
  r.layout = layout == "strided"  ? RandomLayout::strided
             : layout == "triton" ? RandomLayout::triton
             : layout == "torch"  ? RandomLayout::torch
                                  : RandomLayout::contiguous;
  r.vector = read_vector(call, tensor);
  if (call.integer("period") < 1)
    call.refuse(where(call, "period"),
                "expected 1 or more; got " + std::to_string(call.integer("period")));
  r.period = static_cast<std::uint64_t>(call.integer("period"));
  if (r.layout == RandomLayout::torch && r.period % kTorchThreads != 0)
    call.refuse(where(call, "period"),
                "expected a multiple of 256, a block's threads, in layout torch; got " +
                    std::to_string(r.period));
  read_start(call, r);
  if (r.layout == RandomLayout::triton &&
      (r.offset != 0 || r.subsequence != 0 || r.offset_tensor != nullptr))
    call.refuse(where(call, "layout"),
                "triton's sequence has a seed only; got an offset or a subsequence");
}

}  // namespace

RandomArguments read_random(const Call& call, const Tensor& tensor, DrawStrides& strides) {
  strides.draw.assign(tensor.rank, 0);
  strides.row.assign(tensor.rank, 0);
  RandomArguments r{};
  read_attributes(call, tensor, r);
  r.seeds = read_seeds(call, tensor, strides);
  const Shard shard = read_shard(call, tensor);
  const SharedAxes shared = read_shared_axes(call, tensor.rank);
  const std::uint64_t draws = number_draws(call, shard, shared, r.seeds != nullptr, r, strides);
  fit_torch(r, draws);
  // Of the whole: who holds nothing of it moves on with the others.
  r.words = shard.whole_is_empty() ? 0 : reserved_words(r, draws);
  r.consecutive = r.seeds == nullptr;
  if (tensor.elements == 0) return r;
  std::int64_t expected = 1;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1) r.consecutive &= strides.draw[i] == expected;
    expected *= tensor.shape[i];
  }
  return r;
}

RandomArguments read_sequence(const Call& call, std::int64_t draws) {
  RandomArguments r{};
  r.layout = RandomLayout::contiguous;
  r.vector = 1;
  r.period = 1;
  r.consecutive = true;
  read_start(call, r);
  std::int64_t last = static_cast<std::int64_t>(r.first);
  if (__builtin_add_overflow(last, draws, &last) || last > INT64_MAX - 4)
    call.refuse(where(call, "element_offset"), "the whole matrix's indexes do not fit 63 bits");
  r.words = draws == 0 ? 0 : reserved_words(r, static_cast<std::uint64_t>(last));
  return r;
}

}  // namespace twinops
