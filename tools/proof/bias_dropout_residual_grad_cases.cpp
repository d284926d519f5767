#include <optional>

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

// What else a call may have.
struct Extra {
  double p = 0.2;
  bool mask_is_bytes = false, over_dy = false;
  std::int64_t unaligned = 0;      // elements that dx begins beyond 64 bytes
  std::optional<Shape> bias = {};  // where it is not of the last dimension's
};

void add_gradient(std::vector<Case>& cases, const std::string& name, DLDataType type,
                  const Shape& shape, bool has_mask, bool has_dbias, const RandomSpec& random,
                  const Fill& values, const Extra& extra = {}) {
  cases.push_back(
      {name, twinops_type_name(type), elements_of(shape), [=] {
         const TensorSpec dy{type, shape};
         const TensorSpec dx{type, shape, {}, extra.unaligned};
         Problem problem("bias_dropout_residual_grad");
         problem.input("dy", {dy}, values).output("dx", {extra.over_dy ? in_place(dy, "dy") : dx});
         if (has_dbias)
           problem.output("dbias", {{type, extra.bias ? *extra.bias : Shape{shape.back()}}});
         if (has_mask && extra.mask_is_bytes)
           problem.input("mask", {{twinops::kUint8, shape}}, random_bits());
         else if (has_mask)
           problem.input("mask", {{twinops::kUint32, {(elements_of(shape) + 31) / 32}}},
                         random_bits());
         problem.attribute("p", extra.p);
         return random.add_to(problem);
       }});
}

// Where one pass makes dx and dbias on CUDA: columns in whole vectors, at the edges of its tiles
// (16 vectors: 64 or 128 columns), chunks (1024 rows), a thread's rows (every 32nd) and its vectors
// in flight (8).
void add_one_pass(std::vector<Case>& cases, DLDataType type) {
  const RandomSpec plain{.name = ""};
  constexpr std::int64_t kRows[] = {1,   2,   31,  32,  33,   63,   64,   65,   255,  256,
                                    257, 511, 512, 513, 1023, 1024, 1025, 2047, 2049, 4100};
  for (const std::int64_t rows : kRows) {
    const std::string name = "one pass, rows " + std::to_string(rows);
    add_gradient(cases, name + ", mask", type, {rows, 8}, true, true, plain, ordinary());
    add_gradient(cases, name + ", drawn", type, {rows, 24}, false, true, plain, whole_range());
  }
  for (const std::int64_t columns :
       {4, 16, 28, 32, 36, 56, 60, 64, 68, 72, 124, 128, 132, 136, 260}) {
    const std::string name = "one pass, columns " + std::to_string(columns);
    add_gradient(cases, name + ", mask", type, {1030, columns}, true, true, plain, ordinary());
    add_gradient(cases, name + ", drawn", type, {70, columns}, false, true, plain, ordinary());
  }
  const Shape shape{1100, 72};
  const auto add = [&](const char* name, bool has_mask, const RandomSpec& random,
                       const Extra& extra) {
    add_gradient(cases, std::string("one pass, ") + name, type, shape, has_mask, true, random,
                 ordinary(), extra);
  };
  add("p 0", false, plain, {.p = 0});
  add("p 1", false, plain, {.p = 1});
  add("byte mask", true, plain, {.mask_is_bytes = true});
  add("over dy, mask", true, plain, {.over_dy = true});
  add("over dy, drawn", false, plain, {.over_dy = true});
  add("dx unaligned", true, plain, {.unaligned = 1});
  for (const RandomSpec& random : random_specs()) add(random.name.c_str(), false, random, {});
}

}  // namespace

std::vector<Case> bias_dropout_residual_grad_cases() {
  std::vector<Case> cases;
  const RandomSpec plain{.name = ""};
  for (const DLDataType type : kFloatingTypes) {
    for (const Shape& shape : {Shape{1, 1},
                               {0, 5},
                               {5, 0},
                               {3, 5},
                               {33, 8},
                               {1023, 7},
                               {1024, 33},
                               {1025, 65},
                               {5000, 3},
                               {2, 1030, 40}}) {
      const std::string name =
          std::to_string(elements_of(shape)) + " by " + std::to_string(shape.back());
      add_gradient(cases, name + ", mask, whole range", type, shape, true, true, plain,
                   whole_range());
      add_gradient(cases, name + ", drawn", type, shape, false, true, plain, ordinary());
      add_gradient(cases, name + ", no dbias", type, shape, false, false, plain, all_finite());
    }
    add_one_pass(cases, type);
    for (const RandomSpec& random : shaped_specs())
      add_gradient(cases, random.name, type, kShaped, false, true, random, ordinary());
  }
  for (const DLDataType type : kFloatingTypes)
    for (const Shape& bias :
         {Shape{}, {1, 1, 64}, {1, 40, 64}, {3, 1, 64}, {3, 40, 1}, {1, 40, 1}, {3, 1, 1}}) {
      std::string name = "a bias of";
      for (const std::int64_t size : bias) name += " " + std::to_string(size);
      add_gradient(cases, name + " broadcast", type, {3, 40, 64}, false, true, plain, ordinary(),
                   {.bias = bias});
      if (bias.size() == 3)
        add_gradient(cases, name + " broadcast, long", type, {3, 40, 1500}, true, true, plain,
                     ordinary(), {.bias = Shape{bias[0], bias[1], bias[2] == 1 ? 1 : 1500}});
    }
  add_gradient(cases, "BERT-large activations", twinops::kFloat16, {32, 512, 1024}, true, true,
               plain, ordinary());
  add_gradient(cases, "BERT-large activations", twinops::kFloat32, {32, 512, 1024}, false, true,
               plain, ordinary());
  return cases;
}

}  // namespace proof
