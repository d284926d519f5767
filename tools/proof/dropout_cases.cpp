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
};

std::int64_t elements_of(const TensorSpec& t) {
  std::int64_t n = 1;
  for (const std::int64_t size : t.shape) n *= size;
  return n;
}

TensorSpec mask_of(const TensorSpec& x, Mask mask) {
  if (mask == Mask::bits) return {twinops::kUint32, {(elements_of(x) + 31) / 32}};
  return {mask == Mask::bools ? twinops::kBool : twinops::kUint8, x.shape};
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
             problem.output("mask", {mask_of(x, o.mask)});
           else if (o.mask != Mask::none)
             problem.input("mask", {mask_of(x, o.mask)}, random_bits());
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
  }
  add_models(cases);
  return std::move(cases).take();
}

std::vector<Case> dropout_cases() { return all_dropout_cases(true); }

}  // namespace proof
