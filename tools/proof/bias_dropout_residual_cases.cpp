#include "tools/proof/cases.hpp"
#include "tools/proof/random_cases.hpp"
#include "tools/proof/values.hpp"

namespace proof {
namespace {

using Shape = std::vector<std::int64_t>;

std::int64_t elements_of(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}

struct Options {
  std::optional<TensorSpec> bias = {}, residual = {};
  TensorSpec y = {};
  bool has_mask = true;
  double p = 0.3;
  bool training = true;
  RandomSpec random = {.name = ""};
};

void add(std::vector<Case>& cases, const std::string& name, const TensorSpec& x, const Options& o,
         const Fill& values = whole_range()) {
  cases.push_back(
      {name, twinops_type_name(x.type), elements_of(x.shape), [x, o, values] {
         Problem problem("bias_dropout_residual");
         problem.input("x", {x}, values);
         if (o.bias) problem.input("bias", {*o.bias}, values);
         if (o.residual) problem.input("residual", {*o.residual}, values);
         problem.output("y", {o.y});
         if (o.has_mask)
           problem.output("mask", {{twinops::kUint32, {(elements_of(x.shape) + 31) / 32}}});
         problem.attribute("p", o.p).attribute("training", o.training);
         return o.random.add_to(problem);
       }});
}

// Every mix of terms, in memory of every kind.
void add_terms(std::vector<Case>& cases, DLDataType type, const Shape& shape) {
  const TensorSpec x{type, shape}, row{type, {shape.back()}};
  const std::string name =
      std::to_string(elements_of(shape)) + " by " + std::to_string(shape.back());
  add(cases, name + ", no terms", x, {.y = x});
  add(cases, name + ", bias", x, {.bias = row, .y = x});
  add(cases, name + ", residual", x, {.residual = x, .y = x, .has_mask = false});
  add(cases, name + ", bias, residual", x, {.bias = row, .residual = x, .y = x});
  add(cases, name + ", full bias, residual in place", x,
      {.bias = x, .residual = x, .y = in_place(x, "residual")});
  add(cases, name + ", bias, residual, in place", x,
      {.bias = row, .residual = x, .y = in_place(x, "x"), .p = 0});
  add(cases, name + ", inference", x, {.bias = row, .residual = x, .y = x, .training = false});
  add(cases, name + ", all dropped", x, {.bias = row, .residual = x, .y = x, .p = 1});
  for (const LaidOut& memory : laid_out(type, shape)) {
    add(cases, name + ", residual " + memory.name, x,
        {.bias = row, .residual = memory.tensor, .y = x});
    add(cases, name + ", full bias " + memory.name, memory.tensor,
        {.bias = memory.tensor, .residual = x, .y = x});
  }
  add(cases, name + ", bias with gaps", x, {.bias = TensorSpec{type, {shape.back()}, {3}}, .y = x});
}

// Rows that CUDA's kernel takes one by one, every operand from another element of a word of 16
// bytes on.
void add_rows(std::vector<Case>& cases, DLDataType type) {
  const auto elements = 16 / static_cast<std::int64_t>(size_of(type));
  int turn = 0;
  for (const std::int64_t columns : {95, 96, 97, 127, 128, 523, 1023, 1024, 1025, 4099}) {
    const Shape shape{5, columns};
    const TensorSpec x{type, shape};
    const auto apart = [&](std::int64_t gap) {
      ++turn;
      return TensorSpec{type, shape, {columns + gap, 1}, turn * 3 % elements};
    };
    const std::string name = "rows of " + std::to_string(columns);
    RandomSpec seeds{.name = "", .seed = 0, .seeds = {5, -7, 123456789012, 0, 1}};
    add(cases, name + ", seeds", x,
        {.bias = TensorSpec{type, {columns}}, .residual = x, .y = x, .random = seeds});
    add(cases, name + ", all apart", apart(1),
        {.bias = TensorSpec{type, {columns}, {}, 1}, .residual = apart(2), .y = apart(3)});
    add(cases, name + ", full bias, shard", apart(4),
        {.bias = apart(5),
         .y = apart(7),
         .has_mask = false,
         .random = {.name = "",
                    .global_shape = "5," + std::to_string(columns + 9),
                    .start = "0," + std::to_string(turn % 8)}});
    add(cases, name + ", residual in place", apart(6),
        {.bias = TensorSpec{type, {columns}}, .residual = x, .y = in_place(x, "residual")});
    seeds.layout = "triton";
    add(cases, name + ", seeds, triton", apart(8), {.residual = x, .y = apart(9), .random = seeds});
    add(cases, name + ", inference", apart(1),
        {.bias = x, .residual = apart(3), .y = x, .training = false});
  }
}

}  // namespace

std::vector<Case> bias_dropout_residual_cases() {
  std::vector<Case> cases;
  for (const DLDataType type : kFloatingTypes) {
    for (const Shape& shape : {Shape{1, 1},
                               {3, 5},
                               {7, 8},
                               {5, 64},
                               {9, 100},
                               {31, 63},
                               {2, 3, 1024},
                               {0, 8},
                               {70, 4},
                               {41, 1003}})  // the last one for several threads
      add_terms(cases, type, shape);
    add_rows(cases, type);
    for (const RandomSpec& random : shaped_specs()) {
      const TensorSpec x{type, kShaped};
      add(cases, random.name, x,
          {.bias = TensorSpec{type, {35}}, .residual = x, .y = x, .random = random});
    }
  }
  for (const DLDataType type : kFloatingTypes)
    for (const Shape& bias :
         {Shape{}, {1}, {1, 64}, {16, 64}, {3, 1, 1}, {3, 1, 64}, {3, 16, 1}, {1, 16, 1}}) {
      const TensorSpec x{type, {3, 16, 64}};
      std::string name = "a bias of";
      for (const std::int64_t size : bias) name += " " + std::to_string(size);
      add(cases, name + " broadcast", x, {.bias = TensorSpec{type, bias}, .residual = x, .y = x});
    }
  for (const DLDataType type : {twinops::kFloat16, twinops::kBfloat16, twinops::kFloat32}) {
    const TensorSpec x{type, {32, 512, 1024}};
    add(cases, "BERT-large activations", x,
        {.bias = TensorSpec{type, {1024}}, .residual = x, .y = x, .p = 0.1}, all_finite());
  }
  return cases;
}

}  // namespace proof
