// softmax, log_softmax and their backward passes under a scale and masks: every kind of mask over
// small attention scores of every interesting length, and real ones.
#include <cmath>
#include <limits>

#include "tools/proof/softmax_cases.hpp"
#include "tools/proof/softmax_values.hpp"
#include "tools/proof/values.hpp"

namespace proof {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::int64_t elements_of(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}
std::string name_of(const Shape& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

struct Placement {
  Shape strides = {};
  int axis = -1;
  bool over = false;                   // out over x, dx over dy
  std::optional<DLDataType> out = {};  // of softmax's result; else x's
  Shape to = {};                       // the strides of out, of dx, where they are others
};

// y and dy hold numbers where elements are masked out, too, or what the specification has for x.
Problem backward_problem(const std::string& op, const TensorSpec& y, const TensorSpec& dx,
                         const MaskSpec& spec) {
  const Fill ys = op == "softmax_grad" ? probabilities() : log_probabilities();
  return Problem(op)
      .input("y", {y}, spec.x ? spec.x : ys)
      .input("dy", {y}, spec.x ? spec.x : ordinary())
      .output("dx", {dx});
}

void add(std::vector<Case>& cases, const std::string& op, DLDataType type, const Shape& shape,
         const MaskSpec& spec, const Placement& placement = {}) {
  std::string name = name_of(shape) + ", " + spec.name;
  if (placement.axis != -1) name += ", axis " + std::to_string(placement.axis);
  if (!placement.strides.empty())
    name += placement.strides.back() == 1 ? ", rows apart" : ", strided";
  if (placement.over) name += ", in place";
  if (!placement.to.empty()) name += placement.to.back() < 0 ? ", to backwards" : ", to transposed";
  std::string reported = twinops_type_name(type);
  if (placement.out) {
    name += ", " + reported + " to " + twinops_type_name(*placement.out);
    reported = "mixed";
  }
  cases.push_back(
      {name, reported, elements_of(shape), [=] {
         const TensorSpec x{type, shape, placement.strides};
         const TensorSpec out{placement.out.value_or(type), shape, placement.strides};
         const Shape& strides = placement.to.empty() ? placement.strides : placement.to;
         const bool over = placement.over;
         Problem problem(op);
         if (op.ends_with("_grad"))
           problem = backward_problem(
               op, out, over ? in_place(x, "dy") : TensorSpec{type, shape, strides}, spec);
         else
           problem.input("x", {x}, spec.x ? spec.x : logits())
               .output("out", {over ? in_place(out, "x") : TensorSpec{out.type, shape, strides}});
         problem.attribute("axis", placement.axis);
         if (op.ends_with("_grad")) spec.add_gradient_to(problem);
         return spec.add_to(problem);
       }});
}

void add_bytes(std::vector<MaskSpec>& specs, const Shape& shape) {
  const std::int64_t b = shape[0], h = shape[1], q = shape[2], k = shape[3];
  const DLDataType kBool = twinops::kBool, kUint8 = twinops::kUint8;
  specs.push_back({.name = "bool over heads and rows",
                   .mask = TensorSpec{kBool, {b, 1, 1, k}},
                   .mask_fill = some_bytes(3)});
  specs.push_back({.name = "bytes over the batch",
                   .scale = 0.125,
                   .mask = TensorSpec{kUint8, {q, k}},
                   .mask_fill = some_bytes(2)});
  specs.push_back({.name = "bytes for every element",
                   .mask = TensorSpec{kUint8, shape},
                   .mask_fill = some_bytes(4)});
  specs.push_back({.name = "bool for whole rows, zeros",
                   .mask = TensorSpec{kBool, {b, h, q, 1}},
                   .mask_fill = some_bytes(3),
                   .zeros = true});
  specs.push_back({.name = "bytes of stride 0",
                   .mask = TensorSpec{kUint8, shape, {k, 0, 0, 1}},
                   .mask_fill = some_bytes(5)});
  specs.push_back({.name = "bool turned",
                   .mask = TensorSpec{kBool, {q, k}, {1, q}},
                   .mask_fill = some_bytes(3)});
  specs.push_back({.name = "NaN under bytes",
                   .mask = TensorSpec{kUint8, shape},
                   .mask_fill = every_nth(3, 1, 0),
                   .x = every_nth(3, kNan, kNan)});
}

void add_numbers(std::vector<MaskSpec>& specs, DLDataType type, const Shape& shape) {
  const std::int64_t b = shape[0], h = shape[1], q = shape[2], k = shape[3];
  specs.push_back({.name = "numbers over heads and rows",
                   .mask = TensorSpec{type, {b, 1, 1, k}},
                   .mask_fill = biases(6)});
  specs.push_back({.name = "numbers over the batch",
                   .scale = 0.3,
                   .mask = TensorSpec{type, {h, q, k}},
                   .mask_fill = biases(4)});
  specs.push_back({.name = "numbers for whole rows, zeros",
                   .mask = TensorSpec{type, {b, 1, q, 1}},
                   .mask_fill = biases(3),
                   .zeros = true});
  specs.push_back({.name = "numbers, turned",
                   .mask = TensorSpec{type, shape, {h * q * k, q * k, 1, q}},
                   .mask_fill = biases(9)});
  specs.push_back({.name = "NaN and infinities under -infinity",
                   .scale = -2,
                   .mask = TensorSpec{type, shape},
                   .mask_fill = every_nth(4, -kInfinity, 0.5),
                   .x = every_nth(4, kNan, kNan)});
  specs.push_back({.name = "NaN in the mask",
                   .mask = TensorSpec{type, {q, k}},
                   .mask_fill = every_nth(2 * k + 1, kNan, 1)});
  specs.push_back({.name = "far from 0",  // once it is scaled
                   .scale = 1e6,
                   .mask = TensorSpec{type, {k}},
                   .mask_fill = biases(5)});
  if (type.bits == 16)
    specs.push_back({.name = "float32 numbers",
                     .scale = 0.125,
                     .mask = TensorSpec{twinops::kFloat32, {b, 1, q, k}},
                     .mask_fill = biases(5)});
}

void add_lengths(std::vector<MaskSpec>& specs, const Shape& shape) {
  const std::int64_t b = shape[0], h = shape[1], q = shape[2], k = shape[3];
  const DLDataType kInt32 = twinops::kInt32, kInt64 = twinops::kInt64;
  specs.push_back({.name = "causal", .causal = true});
  specs.push_back({.name = "causal from the last row, scaled",
                   .scale = 0.125,
                   .causal = true,
                   .causal_offset = k - q});
  specs.push_back({.name = "causal, two rows of nothing", .causal = true, .causal_offset = -2});
  specs.push_back(
      {.name = "causal, two rows of zeros", .causal = true, .causal_offset = -2, .zeros = true});
  specs.push_back({.name = "causal, far away", .causal = true, .causal_offset = INT64_MAX});
  specs.push_back({.name = "lengths of the batch",
                   .lengths = TensorSpec{kInt32, {b}},
                   .length_values = {(k + 1) / 2, k + 5}});
  specs.push_back({.name = "lengths of heads, zeros",
                   .lengths = TensorSpec{kInt64, {b, h}},
                   .length_values = {k, k - 1, 0, 1, -7, INT64_MAX},
                   .zeros = true});
  specs.push_back({.name = "lengths of rows",
                   .lengths = TensorSpec{kInt32, {1, h, q}, {1, 2 * q, 2}},
                   .length_values = {1, 2, k, k / 2 + 1, k / 3 + 1, k}});
  specs.push_back({.name = "NaN beyond the length",
                   .lengths = TensorSpec{kInt64, {b, 1}},
                   .length_values = {k - 1, k - 1},
                   .x = every_nth(k, kNan, kNan, k - 1)});
}

// Gradients of masks that are sums of few and many values: over axes before, between and behind
// those that the mask has, of values that lie side by side and apart, in one chunk and in more.
void add_sums(std::vector<Case>& cases, const std::string& op, DLDataType type) {
  const auto add_mask = [&](const Shape& shape, const Shape& mask, const Placement& placement) {
    for (const double scale : {1.0, 0.3})
      add(cases, op, type, shape,
          {.name = "the gradient of a mask of " + (mask.empty() ? "one number" : name_of(mask)) +
                   (scale == 1 ? "" : ", scaled"),
           .scale = scale,
           .mask = TensorSpec{type, mask},
           .mask_fill = biases(9)},
          placement);
  };
  for (const Shape& mask : {Shape{33}, Shape{70, 1}, Shape{40, 1, 1}, Shape{40, 1, 33}, Shape{},
                            Shape{1}, Shape{40, 70, 33}})
    add_mask({40, 70, 33}, mask, {});
  add_mask({40, 70, 33}, {70, 1}, {.axis = 1});
  add_mask({40, 70, 33}, {33}, {.strides = {33 * 70, 1, 70}});
  add_mask({40, 70, 33}, {40, 1, 33}, {.over = true});
  add_mask({3, 2, 700, 40}, {2, 1, 40}, {});
  add_mask({2, 16, 1, 2100}, {16, 1, 1}, {});
  add_mask({33, 17, 5}, {17, 1}, {});
  add_mask({0, 12}, {12}, {});
  add_mask({12, 0}, {12, 1}, {});
}

// A bias by itself, and beside lengths, the triangle, bytes and numbers.
void add_biases(std::vector<MaskSpec>& specs, DLDataType type, const Shape& shape) {
  const std::int64_t b = shape[0], h = shape[1], q = shape[2], k = shape[3];
  const DLDataType wide = type.bits == 16 ? twinops::kFloat32 : type;
  specs.push_back({.name = "a bias of heads and lengths",
                   .scale = 0.125,
                   .lengths = TensorSpec{twinops::kInt32, {b}},
                   .length_values = {(k + 1) / 2, k},
                   .bias = TensorSpec{type, {h, q, k}},
                   .bias_fill = biases(9)});
  specs.push_back({.name = "a bias of heads beside bytes of the batch",
                   .mask = TensorSpec{twinops::kBool, {b, 1, 1, k}},
                   .mask_fill = some_bytes(3),
                   .zeros = true,
                   .bias = TensorSpec{wide, {h, 1, k}},
                   .bias_fill = biases(9)});
  specs.push_back({.name = "a bias beside numbers, causal",
                   .scale = -0.3,
                   .mask = TensorSpec{type, {b, 1, q, 1}},
                   .mask_fill = biases(5),
                   .causal = true,
                   .causal_offset = k - q,
                   .bias = TensorSpec{type, {1, h, 1, k}},
                   .bias_fill = biases(7)});
  specs.push_back({.name = "NaN in x and in a bias under bytes",
                   .mask = TensorSpec{twinops::kUint8, shape},
                   .mask_fill = every_nth(3, 1, 0),
                   .x = every_nth(3, kNan, kNan),
                   .bias = TensorSpec{type, shape},
                   .bias_fill = every_nth(3, kNan, 0.5)});
}

}  // namespace

Problem& MaskSpec::add_to(Problem& problem) const {
  if (mask) problem.input("mask", {*mask}, mask_fill);
  if (lengths) problem.input("lengths", {*lengths}, integers(length_values));
  if (bias) problem.input("bias", {*bias}, bias_fill);
  if (causal) problem.attribute("causal", true).attribute("causal_offset", causal_offset);
  return problem.attribute("scale", scale).attribute("masked_rows", zeros ? "zeros" : "nan");
}

Problem& MaskSpec::add_gradient_to(Problem& problem) const {
  if (mask && mask->type.bits != 8) problem.output("dmask", {{mask->type, mask->shape}});
  if (bias) problem.output("dbias", {{bias->type, bias->shape}});
  return problem;
}

std::vector<MaskSpec> mask_specs(DLDataType type, const Shape& shape) {
  const std::int64_t b = shape[0], q = shape[2], k = shape[3];
  std::vector<MaskSpec> specs;
  specs.push_back({.name = "scale", .scale = 0.125});
  specs.push_back({.name = "scale of 1/3", .scale = 1.0 / 3});
  specs.push_back({.name = "a scale below 0", .scale = -2.5, .x = steep()});
  specs.push_back({.name = "a scale of 0", .scale = 0});
  add_bytes(specs, shape);
  add_numbers(specs, type, shape);
  add_lengths(specs, shape);
  add_biases(specs, type, shape);
  specs.push_back({.name = "everything",
                   .scale = 0.25,
                   .mask = TensorSpec{type, {b, 1, q, k}},
                   .mask_fill = biases(7),
                   .lengths = TensorSpec{twinops::kInt32, {b}},
                   .length_values = {k, k - k / 4},
                   .causal = true,
                   .causal_offset = k - q,
                   .zeros = true});
  return specs;
}

std::vector<Case> masked_softmax_cases(const std::string& op) {
  std::vector<Case> cases;
  for (const DLDataType type : kFloatingTypes) {
    for (const std::int64_t k : {1, 9, 64, 100, 513, 1024, 1500, 4100}) {
      const Shape shape{2, 3, 5, k};
      for (const MaskSpec& spec : mask_specs(type, shape)) add(cases, op, type, shape, spec);
    }
    const Shape shape{2, 3, 5, 200}, rows{2, 1, 3, 70000};
    for (const MaskSpec& spec : mask_specs(type, shape)) {
      add(cases, op, type, shape, spec, {.over = true});
      add(cases, op, type, shape, spec, {.strides = {3300, 1100, 207, 1}});
      add(cases, op, type, shape, spec, {.strides = {3000, 1, 3, 15}});
    }
    for (const MaskSpec& spec : mask_specs(type, rows)) add(cases, op, type, rows, spec);
    // Results that lie otherwise than what they are made of.
    for (const MaskSpec& spec : mask_specs(type, {2, 3, 4, 4}))
      add(cases, op, type, {2, 3, 4, 4}, spec, {.to = {48, 16, 1, 4}});
    for (const MaskSpec& spec : mask_specs(type, {2, 3, 4, 32})) {
      add(cases, op, type, {2, 3, 4, 32}, spec, {.to = {384, 128, 1, 4}});
      add(cases, op, type, {2, 3, 4, 32}, spec, {.to = {384, 128, 32, -1}});
    }
    // Rows along another axis.
    const Shape turned{3, 1100, 7};
    add(cases, op, type, turned,
        {.name = "bytes",
         .mask = TensorSpec{twinops::kBool, {1100, 1}},
         .mask_fill = some_bytes(3)},
        {.axis = 1});
    add(cases, op, type, turned,
        {.name = "numbers",
         .scale = 2,
         .mask = TensorSpec{type, {3, 1, 7}},
         .mask_fill = biases(5)},
        {.axis = 1, .over = true});
    add(cases, op, type, turned,
        {.name = "lengths",
         .lengths = TensorSpec{twinops::kInt32, {3}},
         .length_values = {1100, 400, 1025}},
        {.axis = 1});
    add(cases, op, type, {4, 2, 0},
        {.name = "nothing", .mask = TensorSpec{type, {1}}, .mask_fill = biases(5)});
    // Attention scores of real models.
    const DLDataType added = type.bits == 16 ? twinops::kFloat32 : type;
    add(cases, op, type, {1, 16, 512, 512},
        {.name = "BERT-large, a mask over heads and rows",
         .scale = 0.125,
         .mask = TensorSpec{added, {1, 1, 1, 512}},
         .mask_fill = biases(5)});
    add(cases, op, type, {2, 16, 512, 512},
        {.name = "BERT-large, lengths",
         .scale = 0.125,
         .lengths = TensorSpec{twinops::kInt64, {2}},
         .length_values = {512, 337}});
    add(cases, op, type, {1, 2, 2048, 2048},
        {.name = "two heads, causal", .scale = 0.08838834764831845, .causal = true});
  }
  if (!op.ends_with("_grad"))
    add(cases, op, twinops::kBfloat16, {1, 32, 2048, 2048},
        {.name = "32 heads, causal", .scale = 0.08838834764831845, .causal = true});
  if (op.ends_with("_grad"))
    for (const DLDataType type : kFloatingTypes) add_sums(cases, op, type);
  for (const DLDataType half : {twinops::kFloat16, twinops::kBfloat16})
    for (const std::int64_t k : {70, 1024, 5000})
      for (const MaskSpec& spec : mask_specs(half, {2, 2, 3, k})) {
        add(cases, op, half, {2, 2, 3, k}, spec, {.out = twinops::kFloat32});
        if ((!spec.mask || spec.mask->type.bits == 8) && !spec.bias)
          add(cases, op, twinops::kFloat32, {2, 2, 3, k}, spec, {.out = half});
      }
  return cases;
}

}  // namespace proof
