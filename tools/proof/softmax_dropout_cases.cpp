// Cases of softmax_dropout and its backward pass.
#include "tools/proof/cases.hpp"
#include "tools/proof/random_cases.hpp"
#include "tools/proof/softmax_cases.hpp"
#include "tools/proof/softmax_values.hpp"
#include "tools/proof/values.hpp"

namespace proof {
namespace {

using Shape = std::vector<std::int64_t>;

enum class Mask { none, bits, bytes, bools };
constexpr const char* kMaskNames[] = {"no mask", "bit mask", "byte mask", "bool mask"};

struct Options {
  double p = 0.3;
  const char* mode = "upscale_in_train";
  bool training = true;
  Mask mask = Mask::bits;
  bool keeps = true;  // probabilities
  bool over = false;  // y over x, dx over dy
  int axis = -1;
  Shape strides = {};
  std::optional<DLDataType> out = {};  // of y; of dx
  MaskSpec softmax = {.name = ""};
  RandomSpec random = {.name = ""};
};

std::int64_t elements_of(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}

TensorSpec mask_of(const Shape& shape, Mask mask) {
  if (mask == Mask::bits) return {twinops::kUint32, {(elements_of(shape) + 31) / 32}};
  return {mask == Mask::bools ? twinops::kBool : twinops::kUint8, shape};
}

Problem forward_problem(DLDataType type, const Shape& shape, const Options& o) {
  const TensorSpec x{type, shape, o.strides}, y{o.out.value_or(type), shape, o.strides};
  Problem problem("softmax_dropout");
  problem.input("x", {x}, o.softmax.x ? o.softmax.x : logits())
      .output("y", {o.over ? in_place(y, "x") : y});
  if (o.keeps) problem.output("probabilities", {{y.type, shape}});
  if (o.mask != Mask::none) problem.output("dropout_mask", {mask_of(shape, o.mask)});
  return o.softmax.add_to(problem);
}

Problem backward_problem(DLDataType type, const Shape& shape, const Options& o) {
  const TensorSpec dy{type, shape, o.strides}, dx{o.out.value_or(type), shape, o.strides};
  Problem problem("softmax_dropout_grad");
  problem.input("probabilities", {{type, shape}}, probabilities())
      .input("dy", {dy}, o.softmax.x ? o.softmax.x : ordinary())
      .output("dx", {o.over ? in_place(dx, "dy") : dx});
  if (o.mask != Mask::none) problem.input("dropout_mask", {mask_of(shape, o.mask)}, random_bits());
  o.softmax.add_gradient_to(problem);
  return o.softmax.add_to(problem);
}

class Cases {
 public:
  explicit Cases(bool forward) : forward_(forward) {}

  void add(const std::string& name, DLDataType type, const Shape& shape, const Options& o) {
    std::string text;
    for (const std::int64_t size : shape)
      text += (text.empty() ? "" : " x ") + std::to_string(size);
    text += ", " + name + ", " + kMaskNames[static_cast<int>(o.mask)];
    std::string reported = twinops_type_name(type);
    if (o.out) {
      text += ", " + reported + " to " + twinops_type_name(*o.out);
      reported = "mixed";
    }
    cases_.push_back({text, reported, elements_of(shape), [=, forward = forward_] {
                        Problem problem = forward ? forward_problem(type, shape, o)
                                                  : backward_problem(type, shape, o);
                        problem.attribute("axis", o.axis)
                            .attribute("p", o.p)
                            .attribute("mode", o.mode)
                            .attribute("training", o.training);
                        return o.random.add_to(problem);
                      }});
  }
  bool forward() const { return forward_; }
  std::vector<Case> take() && { return std::move(cases_); }

 private:
  bool forward_;
  std::vector<Case> cases_;
};

// Rows that begin anywhere in a word of mask and in a block of random words.
void add_shapes(Cases& cases, DLDataType type) {
  for (const std::int64_t k : {1, 3, 31, 32, 33, 64, 100, 127, 1000, 1024, 1025, 3000, 40000})
    for (const Mask mask : {Mask::none, Mask::bits, Mask::bytes, Mask::bools})
      cases.add("rows", type, {k > 2000 ? 3 : 7, k},
                {.mask = mask, .keeps = k % 2 == 0, .over = k % 3 == 0});
  // Whole bytes of mask: lengths up to and beyond a chunk and a block, with padding and without.
  for (const std::int64_t k :
       {8, 24, 64, 136, 264, 520, 1000, 1024, 1032, 2048, 8200, 16384, 16392})
    for (const Mask mask : {Mask::none, Mask::bits, Mask::bytes, Mask::bools})
      for (const bool keeps : {true, false})
        cases.add(keeps ? "whole bytes, kept" : "whole bytes", type, {k > 2000 ? 3 : 9, k},
                  {.mask = mask, .keeps = keeps, .over = k % 3 == 0});
  for (const Mask mask : {Mask::none, Mask::bits, Mask::bytes}) {
    cases.add("axis 1", type, {3, 70, 11}, {.mask = mask, .axis = 1});
    cases.add("axis 0, in place", type, {1030, 5}, {.mask = mask, .over = true, .axis = 0});
    cases.add("turned", type, {6, 5, 40}, {.mask = mask, .strides = {200, 1, 5}});
    cases.add("apart", type, {5, 40}, {.mask = mask, .keeps = false, .strides = {43, 1}});
    cases.add("apart, aligned", type, {5, 136},
              {.mask = mask, .keeps = false, .strides = {144, 1}});
    cases.add("steps of 2", type, {5, 1030}, {.mask = mask, .strides = {2060, 2}});
    cases.add("nothing", type, {4, 0}, {.mask = mask});
    cases.add("no rows", type, {0, 4}, {.mask = mask});
  }
}

void add_rules(Cases& cases, DLDataType type) {
  for (const double p : {0.0, 0x1p-149, 0.1, 0.999, 1.0})
    for (const char* mode : {"upscale_in_train", "downgrade_in_infer"})
      for (const bool training : {true, false})
        cases.add(std::string("p ") + (p == 0x1p-149 ? "2^-149" : std::to_string(p)) + ", " + mode +
                      (training ? ", training" : ", inference"),
                  type, {5, 300}, {.p = p, .mode = mode, .training = training});
  for (const double p : {0.0, 0.3, 1.0})
    for (const bool training : {true, false})
      cases.add("whole bytes, p " + std::to_string(p) + (training ? ", training" : ", inference"),
                type, {5, 1304}, {.p = p, .training = training});
  for (const std::int64_t k : {136, 137})
    for (const RandomSpec& random : random_specs())
      cases.add(random.name, type, {9, k}, {.p = 0.5, .mask = Mask::none, .random = random});
  for (const std::int64_t k : {136, 137})
    cases.add("one row, seeds", type, {1, k},
              {.mask = Mask::none, .random = {.name = "", .seed = 0, .seeds = {-3}}});
  for (const RandomSpec& random : shaped_specs()) {
    cases.add(random.name, type, kShaped, {.mask = Mask::none, .random = random});
    cases.add(random.name + ", axis 1", type, kShaped,
              {.mask = Mask::bits, .axis = 1, .random = random});
  }
}

void add_masks(Cases& cases, DLDataType type) {
  if (!cases.forward())
    for (const std::int64_t k : {9, 64, 1500})
      cases.add("scaled", type, {4, k}, {.softmax = {.name = "", .scale = 1.0 / 3}});
  for (const std::int64_t k : {64, 100, 1500}) {
    const Shape shape{2, 3, 5, k};
    for (const MaskSpec& spec : mask_specs(type, shape))
      cases.add(spec.name, type, shape,
                {.mask = k == 64 ? Mask::none : Mask::bits, .softmax = spec});
  }
}

std::vector<Case> all_cases(bool forward) {
  Cases cases(forward);
  for (const DLDataType type : kFloatingTypes) {
    add_shapes(cases, type);
    add_rules(cases, type);
    add_masks(cases, type);
    const MaskSpec padding{.name = "",
                           .scale = 0.125,
                           .lengths = TensorSpec{twinops::kInt32, {1}},
                           .length_values = {400}};
    cases.add("BERT-large attention", type, {1, 16, 512, 512}, {.p = 0.1, .softmax = padding});
    cases.add("one head, causal", type, {1, 1, 2048, 2048},
              {.p = 0.1,
               .mask = Mask::none,
               .softmax = {.name = "", .scale = 0.08838834764831845, .causal = true}});
  }
  for (const DLDataType half : {twinops::kFloat16, twinops::kBfloat16})
    for (const std::int64_t k : {33, 1024, 5000})
      for (const Mask mask : {Mask::none, Mask::bits}) {
        cases.add("widened", half, {4, k}, {.mask = mask, .out = twinops::kFloat32});
        cases.add("narrowed", twinops::kFloat32, {4, k}, {.mask = mask, .out = half});
      }
  return std::move(cases).take();
}

}  // namespace

std::vector<Case> softmax_dropout_cases() { return all_cases(true); }
std::vector<Case> softmax_dropout_grad_cases() { return all_cases(false); }

}  // namespace proof
