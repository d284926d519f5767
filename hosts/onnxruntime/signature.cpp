#include "hosts/onnxruntime/signature.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace twinops::ort {
namespace {

struct TypePair {
  ElementType onnx;
  DLDataType dlpack;
};
constexpr TypePair kTypes[] = {
    {kFloat, {kDLFloat, 32, 1}},     {kDouble, {kDLFloat, 64, 1}}, {kFloat16, {kDLFloat, 16, 1}},
    {kBfloat16, {kDLBfloat, 16, 1}}, {kBool, {6, 8, 1}},  // the type code of later DLPacks
    {kUint8, {kDLUInt, 8, 1}},       {kInt32, {kDLInt, 32, 1}},    {kUint32, {kDLUInt, 32, 1}},
    {kInt64, {kDLInt, 64, 1}},       {kUint64, {kDLUInt, 64, 1}},
};

// Outputs that are not of the shape and type of the input that they are like. A new operator whose
// outputs are needs no line here.
struct Rule {
  const char *op, *output;
  const char* like;  // nullptr: what it would be without a rule
  Output::Shape shape;
  ElementType type;
  const char* size;
  bool typed = false;  // an attribute may ask for another type
};
constexpr Rule kRules[] = {
    {"softmax", "out", nullptr, Output::Shape::same, kUndefined, nullptr, true},
    {"log_softmax", "out", nullptr, Output::Shape::same, kUndefined, nullptr, true},
    {"softmax_dropout", "y", nullptr, Output::Shape::same, kUndefined, nullptr, true},
    {"softmax_dropout", "probabilities", nullptr, Output::Shape::same, kUndefined, nullptr, true},
    {"softmax_grad", "dx", nullptr, Output::Shape::same, kUndefined, nullptr, true},
    {"log_softmax_grad", "dx", nullptr, Output::Shape::same, kUndefined, nullptr, true},
    {"softmax_dropout_grad", "dx", nullptr, Output::Shape::same, kUndefined, nullptr, true},
    {"check_finite_and_unscale", "found_inf", "scale", Output::Shape::same, kBool, nullptr},
    {"philox_words", "words", nullptr, Output::Shape::same, kUint32, nullptr},
    {"uniform", "out", nullptr, Output::Shape::same, kFloat, nullptr},
    {"bias_dropout_residual_grad", "dbias", nullptr, Output::Shape::last, kUndefined, nullptr},
    {"random_projection", "y", nullptr, Output::Shape::resized, kUndefined, "k"},
    {"random_projection_grad", "dx", nullptr, Output::Shape::resized, kUndefined, "columns"},
};

bool equal(const char* a, const char* b) { return std::strcmp(a, b) == 0; }

bool takes(const twinops_argument_info& info, ElementType type) {
  return std::any_of(info.types, info.types + info.type_count,
                     [&](DLDataType t) { return to_onnx(t) == type; });
}

// The input that an output is like where no rule says: a list of its list, a state of what it was,
// the gradient of an input ("dbias") of that input, else the gradient dy, else the first.
size_t find_like(const Signature& s, const twinops_argument_info& output) {
  const std::string_view name = output.name;
  const auto last = s.inputs.size() - 1;
  if (output.is_list != 0) return last;
  if (name.ends_with("_out"))
    if (const size_t i = s.find_input(std::string(name.substr(0, name.size() - 4)).c_str());
        i <= last)
      return i;
  if (name.starts_with('d'))
    if (const size_t i = s.find_input(output.name + 1); i <= last) return i;
  const size_t dy = s.find_input("dy");
  return dy <= last ? dy : 0;
}

Output output_of(const Signature& s, const twinops_argument_info& argument) {
  Output output{&argument};
  output.like = find_like(s, argument);
  if (argument.is_required == 0 && takes(argument, kUint32)) output.type = kUint32;
  for (const Rule& rule : kRules) {
    if (!equal(rule.op, s.info.name) || !equal(rule.output, argument.name)) continue;
    if (rule.like != nullptr) output.like = s.find_input(rule.like);
    output.shape = rule.shape;
    output.type = rule.type;
    output.size = rule.size;
    if (rule.typed) output.type_attribute = std::string(argument.name) + "_type";
  }
  return output;
}

}  // namespace

ElementType to_onnx(DLDataType type) {
  for (const TypePair& pair : kTypes)
    if (pair.dlpack.code == type.code && pair.dlpack.bits == type.bits) return pair.onnx;
  return kUndefined;
}

DLDataType to_dlpack(ElementType type) {
  for (const TypePair& pair : kTypes)
    if (pair.onnx == type) return pair.dlpack;
  return {kDLOpaqueHandle, 0, 1};
}

ElementType Output::type_of(const std::string& name, ElementType like) const {
  if (name == "same") return like;
  for (size_t i = 0; i < argument->type_count; ++i)
    if (name == twinops_type_name(argument->types[i])) return to_onnx(argument->types[i]);
  throw std::invalid_argument(type_attribute + ": expected \"same\" or a type of " +
                              argument->name + "; got \"" + name + "\"");
}

Signature::Signature(const twinops_operator_info& op) : info(op) {
  const auto* const* end = op.arguments + op.argument_count;
  const bool from_nothing = std::none_of(op.arguments, end, [](const twinops_argument_info* a) {
    return a->is_output == 0 && a->is_required != 0;
  });
  if (from_nothing) inputs.push_back({nullptr});
  for (const bool lists : {false, true})
    for (const auto* const* a = op.arguments; a != end; ++a)
      if ((*a)->is_output == 0 && ((*a)->is_list != 0) == lists) inputs.push_back({*a});
  for (const bool lists : {false, true})
    for (const auto* const* a = op.arguments; a != end; ++a)
      if ((*a)->is_output != 0 && ((*a)->is_list != 0) == lists)
        outputs.push_back(output_of(*this, **a));
}

size_t Signature::find_input(const char* name) const {
  size_t i = 0;
  while (i < inputs.size() &&
         (inputs[i].argument == nullptr || !equal(inputs[i].argument->name, name)))
    ++i;
  return i;
}

}  // namespace twinops::ort
