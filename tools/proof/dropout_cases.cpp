#include "tools/proof/cases.hpp"
#include "tools/proof/random_cases.hpp"
#include "tools/proof/values.hpp"

namespace proof {
namespace {

enum class Mask { none, bits, bytes, bools };
constexpr Mask kMasks[] = {Mask::none, Mask::bits, Mask::bytes, Mask::bools};
constexpr const char* kMaskNames[] = {"no mask", "bit mask", "byte mask", "bool mask"};

struct Options {
  double p = 0.3;
  const char* mode = "upscale_in_train";
  bool training = true;
  Mask mask = Mask::bits;
  RandomSpec random = {.name = ""};
  std::int64_t mask_offset = 0;  // of a mask of bytes: they begin so many beyond 64
};

std::int64_t elements_of(const TensorSpec& t) {
  std::int64_t n = 1;
  for (const std::int64_t size : t.shape) n *= size;
  return n;
}

TensorSpec mask_of(const TensorSpec& x, const Options& o) {
  if (o.mask == Mask::bits) return {twinops::kUint32, {(elements_of(x) + 31) / 32}};
  return {o.mask == Mask::bools ? twinops::kBool : twinops::kUint8, x.shape, {}, o.mask_offset};
}

class Cases {
 public:
  explicit Cases(bool forward) : forward_(forward) {}

  void add(const std::string& name, const TensorSpec& x, const TensorSpec& y, const Options& o,
           const Fill& values = whole_range()) {
    const bool forward = forward_;
    const std::string mask_name = kMaskNames[static_cast<int>(o.mask)];
    cases_.push_back(
        {name + ", " + mask_name, twinops_type_name(x.type), elements_of(x),
         [x, y, o, forward, values] {
           Problem problem(forward ? "dropout" : "dropout_grad");
           problem.input(forward ? "x" : "dy", {x}, values).output(forward ? "y" : "dx", {y});
           if (o.mask != Mask::none && forward)
             problem.output("mask", {mask_of(x, o)});
           else if (o.mask != Mask::none)
             problem.input("mask", {mask_of(x, o)}, random_bits());
           problem.attribute("p", o.p).attribute("mode", o.mode).attribute("training", o.training);
           return o.random.add_to(problem);
         }});
  }
  const char* x_name() const { return forward_ ? "x" : "dy"; }
  std::vector<Case> take() && { return std::move(cases_); }

 private:
  bool forward_;
  std::vector<Case> cases_;
};

void add_sizes(Cases& cases, DLDataType type) {
  for (const std::int64_t n : edge_sizes()) {
    for (const Mask mask : kMasks) {
      const TensorSpec x{type, {n}};
      cases.add("one tensor of " + std::to_string(n), x, x, {.mask = mask});
      const TensorSpec apart{type, {n}, {}, 3};
      cases.add("unaligned tensor of " + std::to_string(n), apart, x, {.mask = mask});
    }
  }
}

// Every probability at which the threshold or the scale is special.
void add_probabilities(Cases& cases, DLDataType type) {
  constexpr double kProbabilities[] = {
      0,    1e-300, 0x1p-149, 0x1p-126, 0x1p-33,       0x1p-25,       0x1p-24,       0.1,
      0.25, 0.5,    0.9,      0.999,    1.0 - 0x1p-24, 1.0 - 0x1p-25, 1.0 - 0x1p-40, 1};
  for (std::size_t i = 0; i < std::size(kProbabilities); ++i)
    for (const char* mode : {"upscale_in_train", "downgrade_in_infer"})
      for (const bool training : {true, false})
        for (const char* layout : {"contiguous", "triton"})
          cases.add("probability " + std::to_string(i) + ", " + mode +
                        (training ? ", training, " : ", inference, ") + layout,
                    {type, {777}}, in_place({type, {777}}, cases.x_name()),
                    {.p = kProbabilities[i],
                     .mode = mode,
                     .training = training,
                     .mask = kMasks[i % 4],
                     .random = {.name = "", .layout = layout}});
}

void add_sequences(Cases& cases, DLDataType type) {
  const Mask no_mask_read = cases.x_name() == std::string("dy") ? Mask::none : Mask::bits;
  for (const RandomSpec& random : random_specs()) {
    const TensorSpec x{type, {1233}};
    cases.add(random.name, x, x, {.p = 0.5, .mask = no_mask_read, .random = random});
  }
  for (const RandomSpec& random : shaped_specs()) {
    const TensorSpec x{type, kShaped};
    cases.add(random.name, x, x, {.p = 0.4, .mask = no_mask_read, .random = random});
    for (const LaidOut& memory : laid_out(type, kShaped))
      cases.add(random.name + ", y " + memory.name, x, memory.tensor,
                {.p = 0.4, .mask = no_mask_read, .random = random});
  }
}

void add_strides(Cases& cases, DLDataType type) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{130, 67}, {3, 17, 40}, {2, 1, 3, 65, 2}}) {
    const std::string name = "rank " + std::to_string(shape.size()) + ", ";
    for (const Mask mask : kMasks)
      for (const LaidOut& x : laid_out(type, shape))
        for (const LaidOut& y : laid_out(type, shape))
          cases.add(name + "x " + x.name + ", y " + y.name, x.tensor, y.tensor, {.mask = mask});
  }
  const TensorSpec scalar{type, {}};
  cases.add("scalar", scalar, in_place(scalar, cases.x_name()), {.mask = Mask::bits});
  const TensorSpec row{type, {40, 64}, {0, 1}};  // one row, read again and again
  cases.add("broadcast", row, {type, {40, 64}}, {});
}

std::vector<std::int64_t> row_seeds(std::int64_t rows) {
  std::vector<std::int64_t> seeds;
  for (std::uint64_t row = 0; row < static_cast<std::uint64_t>(rows); ++row)
    seeds.push_back(static_cast<std::int64_t>(row * row * 987654321987 - 3));  // which wraps
  return seeds;
}

// A shard of `columns` columns that begins at column `start` of a wider matrix.
RandomSpec columns_from(std::int64_t rows, std::int64_t columns, std::int64_t start) {
  return {.name = "",
          .global_shape = std::to_string(rows) + "," + std::to_string(columns + start + 2),
          .start = "0," + std::to_string(start)};
}

// Rows that CUDA's kernels take row by row, of lengths at which an octet, a vector, a warp's
// vectors or its tile ends: with seeds, as shards of wider rows, with gaps between them.
void add_rows(Cases& cases, DLDataType type) {
  int turn = 0;
  for (const std::int64_t columns :
       {1, 7, 8, 9, 95, 96, 97, 127, 128, 256, 517, 1023, 1024, 1025, 4099}) {
    const std::int64_t rows = 5;
    const TensorSpec x{type, {rows, columns}}, wide{type, {rows, columns}, {columns + 24, 1}, 8},
        odd{type, {rows, columns}, {columns + 5, 1}, 3};
    const std::string name = "rows of " + std::to_string(columns) + ", ";
    for (const Mask mask : kMasks) {
      if (cases.x_name() == std::string("x") || mask == Mask::none) {
        cases.add(name + "seeds", x, x,
                  {.mask = mask, .random = {.name = "", .seed = 0, .seeds = row_seeds(rows)}});
        cases.add(name + "shard", x, x,
                  {.mask = mask, .random = columns_from(rows, columns, 4 + turn++ % 4)});
        cases.add(name + "seeds, strided(3)", x, odd,
                  {.mask = mask,
                   .random = {.name = "",
                              .seed = 0,
                              .layout = "strided",
                              .period = 3,
                              .element_offset = 1,
                              .seeds = row_seeds(rows)}});
        cases.add(
            name + "seeds, triton", odd, x,
            {.mask = mask,
             .random = {.name = "", .seed = 0, .layout = "triton", .seeds = row_seeds(rows)}});
      }
      cases.add(name + "views", wide, wide, {.mask = mask});
      cases.add(name + "odd view to view", odd, wide, {.mask = mask});
      cases.add(name + "view to odd view", wide, odd, {.mask = mask});
      cases.add(name + "odd views in place", odd, in_place(odd, cases.x_name()), {.mask = mask});
      cases.add(name + "masks unaligned", odd, odd, {.mask = mask, .mask_offset = 1 + turn++ % 7});
      cases.add(name + "inference", odd, wide, {.training = false, .mask = mask});
    }
  }
}

// Two tensors, each from every element of a word of 16 bytes on.
void add_alignments(Cases& cases, DLDataType type) {
  const std::int64_t elements = 16 / static_cast<std::int64_t>(proof::size_of(type));
  for (std::int64_t x = 0; x < elements; ++x) {
    for (std::int64_t y = 0; y < elements; ++y) {
      const std::string name =
          "x from element " + std::to_string(x) + ", y from " + std::to_string(y);
      const Options o{.mask = kMasks[(x + y) % 4], .random = {.name = "", .element_offset = x % 5}};
      cases.add(name, {type, {1234}, {}, x}, {type, {1234}, {}, y}, o);
      cases.add(name + ", rows", {type, {3, 331}, {}, x}, {type, {3, 331}, {345, 1}, y}, o);
    }
  }
}

// More axes than two, blocks that carry within a row, and tiles that a warp takes in several steps.
void add_long_rows(Cases& cases, DLDataType type) {
  const bool draws_with_mask = cases.x_name() == std::string("x");
  const Mask mask = draws_with_mask ? Mask::bits : Mask::none;
  const std::vector<std::int64_t> shape{2, 3, 5, 130};  // [b, h, s, d] of memory [b, s, h, d]
  const TensorSpec heads{type, shape, {5 * 3 * 130, 130, 3 * 130, 1}}, dense{type, shape};
  for (const Mask m : kMasks) {
    cases.add("heads apart", heads, dense, {.mask = m});
    cases.add("heads back", dense, heads, {.mask = m});
  }
  cases.add("heads, seeds", heads, dense,
            {.mask = mask, .random = {.name = "", .seed = 0, .seeds = row_seeds(30)}});
  cases.add(
      "heads, shard", dense, heads,
      {.mask = mask, .random = {.name = "", .global_shape = "2,9,7,133", .start = "0,4,1,2"}});
  for (const std::int64_t columns : {8, 97, 1025})
    for (const char* layout : {"contiguous", "triton"}) {
      const TensorSpec row{type, {1, columns}};
      cases.add("one row of " + std::to_string(columns) + ", seeds, " + layout, row, row,
                {.mask = mask,
                 .random = {.name = "", .seed = 0, .layout = layout, .seeds = row_seeds(1)}});
    }
  const std::int64_t carry = (std::int64_t{1} << 34) - 5000;
  for (const char* layout : {"contiguous", "strided", "triton"}) {
    RandomSpec random{.name = "", .layout = layout, .period = 5, .element_offset = carry};
    if (layout == std::string("triton")) random.element_offset = (std::int64_t{1} << 32) - 5000;
    const TensorSpec odd{type, {9001}, {}, 1};
    cases.add(std::string("block carries in a run, ") + layout, odd, odd,
              {.mask = mask, .random = random});
    cases.add(std::string("block carries in a run, in place, ") + layout, odd,
              in_place(odd, cases.x_name()), {.mask = mask, .random = random});
  }
  if (type.bits == 64) return;
  const std::int64_t rows = 8200, columns = type.bits == 16 ? 523 : 267;
  const TensorSpec odd{type, {rows, columns}, {columns + 2, 1}, 1}, x{type, {rows, columns}};
  cases.add("many rows, seeds", x, x,
            {.mask = mask, .random = {.name = "", .seed = 0, .seeds = row_seeds(rows)}},
            all_finite());
  cases.add("many rows, odd view", odd, x, {.mask = Mask::bits}, all_finite());
  cases.add("many rows, shard, to odd view", x, odd,
            {.mask = mask, .random = columns_from(rows, columns, 3)}, all_finite());
}

void add_models(Cases& cases) {
  struct Model {
    const char* name;
    DLDataType type;
    std::vector<std::int64_t> shape;
    double p;
    Mask mask;
  };
  const Model models[] = {
      {"BERT-large activations", twinops::kFloat16, {32, 512, 1024}, 0.1, Mask::bits},
      {"BERT-large activations", twinops::kBfloat16, {32, 512, 1024}, 0.1, Mask::none},
      {"BERT-large activations", twinops::kFloat32, {32, 512, 1024}, 0.1, Mask::bools},
      {"BERT-large attention probabilities",
       twinops::kFloat16,
       {32, 16, 512, 512},
       0.1,
       Mask::bits},
      {"ResNet-50 classifier input", twinops::kFloat32, {256, 2048}, 0.5, Mask::bits},
      {"ResNet-50 classifier input", twinops::kFloat64, {256, 2048}, 0.5, Mask::bytes},
      {"one tensor of 2^28", twinops::kFloat16, {std::int64_t{1} << 28}, 0.1, Mask::bits},
  };
  for (const Model& m : models)
    cases.add(m.name, {m.type, m.shape}, {m.type, m.shape}, {.p = m.p, .mask = m.mask},
              all_finite());
}

}  // namespace

std::vector<Case> all_dropout_cases(bool forward) {
  Cases cases(forward);
  for (const DLDataType type : kFloatingTypes) {
    add_sizes(cases, type);
    add_probabilities(cases, type);
    add_sequences(cases, type);
    add_strides(cases, type);
    add_rows(cases, type);
    add_alignments(cases, type);
    add_long_rows(cases, type);
  }
  add_models(cases);
  return std::move(cases).take();
}

std::vector<Case> dropout_cases() { return all_dropout_cases(true); }

}  // namespace proof
