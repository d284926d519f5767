// Registers every operator of twinops' table with Paddle, when the plugin is loaded. Nothing is
// listed here: a new operator is registered by being in the table. Paddle wants a function of its
// own for each operator, without a context, so there is a row of kPlaces of them; an operator that
// found no place would be missed by the Python module, which counts.
#include <array>
#include <utility>

#include "hosts/paddle/run.hpp"

namespace twinops::paddle_host {
namespace {

constexpr size_t kPlaces = 64;
enum Pass { forward, gradient };  // Paddle's index of a grad op is 1

std::array<std::array<Signature, 2>, kPlaces> signatures;

template <size_t place, Pass pass>
struct Functions {
  static void kernel(::paddle::CustomOpKernelContext* context) {
    run(signatures[place][pass], *context);
  }
  static std::vector<std::vector<int64_t>> shapes(
      const std::vector<std::vector<int64_t>>& inputs,
      const std::vector<std::vector<std::vector<int64_t>>>& lists,
      const std::vector<::paddle::any>& attributes) {
    return infer_shapes(signatures[place][pass], inputs, lists, attributes);
  }
  static std::vector<phi::DataType> types(const std::vector<phi::DataType>& inputs,
                                          const std::vector<std::vector<phi::DataType>>& lists,
                                          const std::vector<::paddle::any>& attributes) {
    return infer_types(signatures[place][pass], inputs, lists, attributes);
  }
};

std::string input_name(const Input& input) {
  std::string name = input.list ? ::paddle::Vec(input.name) : input.name;
  if (input.optional) name = ::paddle::Optional(name);
  return input.gradient ? ::paddle::Grad(name) : name;
}

std::string output_name(const Output& output) {
  const std::string name = output.list ? ::paddle::Vec(output.name) : output.name;
  return output.gradient ? ::paddle::Grad(name) : name;
}

std::string attribute_name(const Attribute& attribute) {
  // Paddle's programs have no double: a float comes as the 64 bits of one.
  constexpr const char* kKinds[] = {"bool", "int64_t", "int64_t", "std::string"};
  return attribute.name + ": " + kKinds[attribute.kind];
}

template <size_t place, Pass pass>
void build(const Signature& s) {
  std::vector<std::string> inputs, outputs, attributes;
  std::unordered_map<std::string, std::string> in_place;
  for (const Input& input : s.inputs) inputs.push_back(input_name(input));
  for (const Output& output : s.outputs) {
    outputs.push_back(output_name(output));
    if (output.in_place_of >= 0) in_place[inputs[output.in_place_of]] = outputs.back();
  }
  for (const Attribute& attribute : s.attributes) attributes.push_back(attribute_name(attribute));
  const bool all_in_place = in_place.size() == outputs.size();
  ::paddle::OpMetaInfoBuilder builder{std::string(s.name), pass};
  builder.Inputs(std::move(inputs)).Outputs(std::move(outputs)).Attrs(std::move(attributes));
  builder.SetKernelFn(&Functions<place, pass>::kernel);
  if (!in_place.empty()) builder.SetInplaceMap(std::move(in_place));
  if (all_in_place) return;  // nothing to be inferred
  builder.SetInferShapeFn(&Functions<place, pass>::shapes);
  if (pass == forward) builder.SetInferDtypeFn(&Functions<place, pass>::types);
}

template <size_t place>
void register_at(std::vector<Signature>& all) {
  if (place >= all.size()) return;
  auto& [forward_of, gradient_of] = signatures[place];
  forward_of = std::move(all[place]);
  build<place, forward>(forward_of);
  gradient_of = gradient_signature(forward_of);
  if (gradient_of.info != nullptr) build<place, gradient>(gradient_of);
}

template <size_t... place>
bool register_all(std::index_sequence<place...>) {
  std::vector<Signature> all;
  for (size_t i = 0; i < twinops_operator_count(); ++i)
    if (!is_gradient(*twinops_operator_at(i)))
      for (Signature& s : forward_signatures(*twinops_operator_at(i))) all.push_back(std::move(s));
  (register_at<place>(all), ...);
  return true;
}

const bool registered = register_all(std::make_index_sequence<kPlaces>());

}  // namespace
}  // namespace twinops::paddle_host
