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

void add_gradient(std::vector<Case>& cases, const std::string& name, DLDataType type,
                  const Shape& shape, bool has_mask, bool has_dbias, const RandomSpec& random,
                  const Fill& values) {
  cases.push_back({name, twinops_type_name(type), elements_of(shape), [=] {
                     const TensorSpec dy{type, shape};
                     Problem problem("bias_dropout_residual_grad");
                     problem.input("dy", {dy}, values).output("dx", {dy});
                     if (has_dbias) problem.output("dbias", {{type, {shape.back()}}});
                     if (has_mask)
                       problem.input("mask", {{twinops::kUint32, {(elements_of(shape) + 31) / 32}}},
                                     random_bits());
                     problem.attribute("p", 0.2);
                     return random.add_to(problem);
                   }});
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
    for (const RandomSpec& random : shaped_specs())
      add_gradient(cases, random.name, type, kShaped, false, true, random, ordinary());
  }
  add_gradient(cases, "BERT-large activations", twinops::kFloat16, {32, 512, 1024}, true, true,
               plain, ordinary());
  add_gradient(cases, "BERT-large activations", twinops::kFloat32, {32, 512, 1024}, false, true,
               plain, ordinary());
  return cases;
}

}  // namespace proof
