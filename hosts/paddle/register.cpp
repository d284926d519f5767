// Registers every operator of twinops' table with Paddle, when the plugin is loaded. Nothing is
// listed here: a new operator is registered by being in the table. Paddle wants a function of its
// own for each operator, without a context, so there is a row of kPlaces of them; an operator that
// found no place would be missed by the Python module, which counts.
#include "hosts/paddle/register.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "hosts/paddle/paddles_errors.hpp"
#include "hosts/paddle/run.hpp"

namespace twinops::paddle_host {
namespace {

constexpr size_t kPlaces = 64;
enum Pass { forward, gradient };  // Paddle's index of a grad op is 1
using Attributes = std::vector<::paddle::any>;

std::array<std::array<Signature, 2>, kPlaces> signatures;

// `complete`: all are there, as for a kernel. Where Paddle asks for the shapes of gradients it
// gives what it has; no gradient's shape depends on an attribute.
Values values_of(const Signature& s, const Attributes& attributes, bool complete) {
  Values values = default_values(s);
  for (size_t i = 0; i < values.size(); ++i) {
    twinops_attribute& value = values[i];
    const ::paddle::any* given = i < attributes.size() ? &attributes[i] : nullptr;
    const auto* flag = ::paddle::any_cast<bool>(given);
    const auto* number = ::paddle::any_cast<int64_t>(given);
    const auto* text = ::paddle::any_cast<std::string>(given);
    if (value.kind == TWINOPS_BOOL && flag != nullptr)
      value.int_value = *flag;
    else if (value.kind == TWINOPS_INT && number != nullptr)
      value.int_value = *number;
    else if (value.kind == TWINOPS_FLOAT && number != nullptr)
      value.float_value = std::bit_cast<double>(*number);
    else if (value.kind == TWINOPS_STRING && text != nullptr)
      value.string_value = text->c_str();
    else if (complete)
      refuse(s.info->name, ": ", s.attributes[i].name, ": is not of its registered type");
  }
  return values;
}

Inputs inputs_of(const Signature& s, const ::paddle::CustomOpKernelContext& context) {
  Inputs inputs;
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    const Input& input = s.inputs[i];
    const auto& [begin, end] = context.InputRangeAt(i);
    for (size_t k = begin; k < end; ++k) {
      const ::paddle::Tensor& tensor = context.InputAt(k);
      if (input.is_required() && !tensor.defined())
        refuse(s.info->name, ": ", input.name, ": expected a tensor; got None");
      if (!is_left_out(input, tensor)) inputs.add(tensor);
    }
    inputs.end_of_input();
  }
  return inputs;
}

template <size_t place, Pass pass>
struct Functions {
  static void kernel(::paddle::CustomOpKernelContext* context) {
    const Signature& s = signatures[place][pass];
    with_paddles_errors([&] {
      const Inputs inputs = inputs_of(s, *context);
      context->ValidateAndAssignOutputs(run(s, inputs, values_of(s, context->Attrs(), true)));
    });
  }
  static std::vector<Shape> shapes(const std::vector<Shape>& inputs,
                                   const std::vector<std::vector<Shape>>& lists,
                                   const Attributes& attributes) {
    const Signature& s = signatures[place][pass];
    return with_paddles_errors(
        [&] { return infer_shapes(s, inputs, lists, values_of(s, attributes, false)); });
  }
  static Types types(const Types& inputs, const std::vector<Types>&, const Attributes& attributes) {
    const Signature& s = signatures[place][pass];
    return with_paddles_errors(
        [&] { return infer_types(s, inputs, values_of(s, attributes, false)); });
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

// What only eager calls ask for.
void describe(Signature& s, const std::string& event) {
  s.event = event;
  const auto add = [&](const std::string& name) { s.names += name + ","; };
  for (Input& input : s.inputs) {
    input.python_name = input.name + (input.gradient ? "@GRAD" : "");
    add(input.python_name);
  }
  s.names += ";";
  for (const Output& output : s.outputs) add(output.name);
  s.names += ";";
  for (const Attribute& attribute : s.attributes) add(attribute.name);
}

template <size_t place>
void register_at(std::vector<Signature>& all) {
  if (place >= all.size()) return;
  auto& [forward_of, gradient_of] = signatures[place];
  forward_of = std::move(all[place]);
  gradient_of = gradient_signature(forward_of);
  describe(forward_of, forward_of.name);
  describe(gradient_of, forward_of.name + "_grad");
  build<place, forward>(forward_of);
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

const Signature* find_signature(std::string_view name, bool gradient) {
  for (const auto& both : signatures)
    if (both[gradient].info != nullptr && both[gradient].name == name) return &both[gradient];
  return nullptr;
}

}  // namespace twinops::paddle_host
