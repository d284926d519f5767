#include "hosts/paddle/signature.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace twinops::paddle_host {
namespace {

constexpr DLDataType kBool{6, 8, 1};  // the type code of later DLPacks

// Outputs that are not like their operator's first input (of a gradient: like the output's
// gradient). A new operator whose outputs are needs no line here.
struct Rule {
  const char *op, *output;
  Output::Shape shape;
  const char* like;
  DLDataType type;
  const char* size;  // of last_dimension: the name of an attribute for it
};
constexpr Rule kRules[] = {
    {"check_finite_and_unscale", "found_inf", Output::Shape::one_element, "scale", kBool, nullptr},
    {"philox_words", "words", Output::Shape::like_input, "like", {kDLUInt, 32, 1}, nullptr},
    {"uniform", "out", Output::Shape::like_input, "like", {kDLFloat, 32, 1}, nullptr},
    {"bias_dropout_residual_grad", "dbias", Output::Shape::sums_or_copy, "bias", {}, nullptr},
    {"random_projection", "y", Output::Shape::last_dimension, "x", {}, "k"},
    {"random_projection_grad", "dx", Output::Shape::like_input, "x", {}, nullptr},
};

// Operators whose mask and bias may be there without a gradient: a mask of bytes has none. The
// gradient of probabilities then needs no masks: python/twinops/_outputs.py, needs_masks(), has the
// reason, and is the same rule for other hosts.
struct Masked {
  const char* op;
  bool gradient_needs_masks;
};
constexpr Masked kMasked[] = {
    {"softmax", false}, {"log_softmax", true}, {"softmax_dropout", false}};
constexpr const char* kMasks[] = {"mask", "lengths", "bias"};  // inputs
constexpr const char* kMaskAttributes[] = {"causal", "causal_offset"};

// Gradients that are the gradient of the output as it is.
struct PassedOn {
  const char *op, *input;
};
constexpr PassedOn kPassedOn[] = {{"bias_dropout_residual", "residual"}};

bool equal(const char* a, const char* b) { return std::strcmp(a, b) == 0; }

std::optional<Rule> find_rule(const Signature& s, const twinops_argument_info& output) {
  for (const Rule& rule : kRules)
    if (equal(rule.op, s.info->name) && equal(rule.output, output.name)) return rule;
  // The gradient of an input, "dbias" of "bias", is like that input.
  const char* const input = output.name + 1;
  for (size_t i = 0; output.name[0] == 'd' && i < s.info->argument_count; ++i)
    if (s.info->arguments[i]->is_output == 0 && equal(s.info->arguments[i]->name, input))
      return Rule{s.info->name, output.name, Output::Shape::like_input, input, {}, nullptr};
  return std::nullopt;
}

int add_attribute(Signature& s, const std::string& name, twinops_attribute_kind kind) {
  s.attributes.push_back({name, kind, nullptr});
  return static_cast<int>(s.attributes.size()) - 1;
}

void apply(const Rule& rule, Signature& s, Output& output) {
  output.shape = rule.shape;
  output.like = s.find_input(rule.like);
  output.type = rule.type;
  if (rule.size != nullptr) output.size_attribute = add_attribute(s, rule.size, TWINOPS_INT);
}

// The tensor that new outputs are like, where nothing else is said.
int first_tensor(const Signature& s) {
  const auto find = [&](auto&& good) {
    const auto found = std::find_if(s.inputs.begin(), s.inputs.end(), good);
    return found == s.inputs.end() ? -1 : static_cast<int>(found - s.inputs.begin());
  };
  const int gradient = find([](const Input& input) { return input.gradient; });
  if (gradient >= 0) return gradient;
  return find([](const Input& input) { return !input.list && !input.optional; });
}

// The input that an output is in place of: a list of its list, a state of what it was.
int in_place_of(const Signature& s, const twinops_argument_info& output) {
  constexpr std::string_view kOut = "_out";
  const std::string_view name = output.name;
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    const Input& input = s.inputs[i];
    if (output.is_list != 0
            ? input.list
            : name.ends_with(kOut) && input.name == name.substr(0, name.size() - kOut.size()))
      return static_cast<int>(i);
  }
  return -1;
}

Output forward_output(Signature& s, const twinops_argument_info& argument) {
  Output output{argument.name, &argument, argument.is_list != 0};
  output.in_place_of = in_place_of(s, argument);
  output.like = first_tensor(s);
  if (const auto rule = find_rule(s, argument)) {
    apply(*rule, s, output);
  } else if (argument.is_required == 0) {
    output.type_attribute = add_attribute(s, output.name + "_type", TWINOPS_STRING);
  }
  return output;
}

template <class Names>
bool is_one_of(const Names& names, const char* name) {
  return std::any_of(std::begin(names), std::end(names),
                     [&](const char* other) { return equal(name, other); });
}

void add_attributes(Signature& s, bool with_masks) {
  for (size_t i = 0; i < s.info->attribute_count; ++i) {
    const twinops_attribute_info* a = s.info->attributes[i];
    if (!with_masks && is_one_of(kMaskAttributes, a->default_value.name)) continue;
    s.attributes.push_back({a->default_value.name, a->default_value.kind, a});
  }
}

// What an input of a gradient is to the forward operator: false if it is nothing there.
bool find_source(const Signature& forward, const twinops_argument_info& argument, Input& input) {
  const std::string_view name = argument.name;
  if (const int i = forward.find_input(argument.name); i >= 0) {
    input = forward.inputs[i];
    input.argument = &argument;
    return true;
  }
  for (const Output& output : forward.outputs) {
    const bool first = &output == &forward.outputs.front();
    const bool is_gradient = name == "d" + output.name || (first && name == "dy");
    if (!is_gradient && name != output.name && !(first && name == "y")) continue;
    const bool may_be_empty = !is_gradient && argument.is_required == 0;
    input = {output.name, &argument, output.list, false, is_gradient, may_be_empty};
    return true;
  }
  return false;
}

// The gradient with respect to an input of the forward operator that has one: "dbias" for "bias".
void add_gradient(Signature& s, const Signature& forward, const twinops_argument_info& argument) {
  const int source = forward.find_input(argument.name + 1);
  if (source < 0 || forward.inputs[source].optional) return;
  const Input& input = forward.inputs[source];
  Output output{input.name, &argument, input.list, true};
  output.like = first_tensor(s);
  if (const auto rule = find_rule(s, argument)) {
    // What it is like must come along, if only for its shape.
    if (s.find_input(rule->like) < 0) {
      s.inputs.push_back(forward.inputs[forward.find_input(rule->like)]);
      s.inputs.back().argument = nullptr;
    }
    apply(*rule, s, output);
  }
  s.outputs.push_back(output);
}

// The gradient with respect to the input `name`, if it is there, is that of the first output.
void pass_on(Signature& s, const Signature& forward, const char* name) {
  const int source = forward.find_input(name);
  if (source < 0) return;
  Output output{name, nullptr, forward.inputs[source].list, true};
  output.like = first_tensor(s);
  s.outputs.push_back(output);
}

// True for an input that may be left out and has a gradient if it is not.
bool has_optional_gradient(const twinops_operator_info& info, const twinops_argument_info& input) {
  if (input.is_output != 0 || input.is_required != 0) return false;
  for (const PassedOn& p : kPassedOn)
    if (equal(p.op, info.name) && equal(p.input, input.name)) return true;
  const auto* gradient = twinops_find_operator((std::string(info.name) + "_grad").c_str());
  if (gradient == nullptr) return false;
  const auto* const* end = gradient->arguments + gradient->argument_count;
  return std::any_of(gradient->arguments, end, [&](const twinops_argument_info* a) {
    return a->is_output != 0 && std::string("d") + input.name == a->name;
  });
}

const Masked* find_masked(const twinops_operator_info& info) {
  const auto* const found = std::find_if(std::begin(kMasked), std::end(kMasked),
                                         [&](const Masked& m) { return equal(info.name, m.op); });
  return found == std::end(kMasked) ? nullptr : found;
}

// Whether the gradient of an operator is to be told of the masks that it has.
bool gradient_needs_masks(const Signature& forward) {
  const Masked* masked = find_masked(*forward.info);
  return masked == nullptr || masked->gradient_needs_masks ||
         std::any_of(forward.inputs.begin(), forward.inputs.end(), [](const Input& input) {
           return !input.optional && is_one_of(kMasks, input.name.c_str());
         });
}

// `chosen`: those of the inputs with an optional gradient that are there, a bit each.
Signature forward_signature(const twinops_operator_info& info, unsigned chosen) {
  Signature s;
  s.name = std::string("twinops_") + info.name;
  s.info = &info;
  const char* joint = "_with_";
  for (size_t i = 0; i < info.argument_count; ++i) {
    const twinops_argument_info& a = *info.arguments[i];
    if (a.is_output != 0) continue;
    Input input{a.name, &a, a.is_list != 0, a.is_required == 0, false};
    if (has_optional_gradient(info, a)) {
      const bool there = (chosen & 1) != 0;
      chosen >>= 1;
      if (!there && find_masked(info) == nullptr) continue;
      input.optional = !there;
      if (there) s.name += joint + input.name;
      if (there) joint = "_and_";
    }
    s.inputs.push_back(input);
  }
  // An operator that makes tensors of nothing: one is given for its shape and place.
  const bool needs_shape = std::all_of(s.inputs.begin(), s.inputs.end(),
                                       [](const Input& input) { return input.optional; });
  if (needs_shape) s.inputs.insert(s.inputs.begin(), {"like", nullptr, false, false, false});
  add_attributes(s, true);
  for (size_t i = 0; i < info.argument_count; ++i)
    if (info.arguments[i]->is_output != 0)
      s.outputs.push_back(forward_output(s, *info.arguments[i]));
  return s;
}

}  // namespace

int Signature::find_input(const std::string& wanted) const {
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const Input& input) {
    return input.name == wanted && !input.gradient;
  });
  return found == inputs.end() ? -1 : static_cast<int>(found - inputs.begin());
}

size_t Signature::lists_before(int input) const {
  return std::count_if(inputs.begin(), inputs.begin() + input,
                       [](const Input& i) { return i.list; });
}

bool is_gradient(const twinops_operator_info& info) {
  constexpr std::string_view kGrad = "_grad";
  const std::string name = info.name;
  return name.ends_with(kGrad) &&
         twinops_find_operator(name.substr(0, name.size() - kGrad.size()).c_str()) != nullptr;
}

std::vector<Signature> forward_signatures(const twinops_operator_info& info) {
  const auto optional = std::count_if(
      info.arguments, info.arguments + info.argument_count,
      [&](const twinops_argument_info* a) { return has_optional_gradient(info, *a); });
  std::vector<Signature> signatures;
  for (unsigned chosen = 0; chosen < 1u << optional; ++chosen)
    signatures.push_back(forward_signature(info, chosen));
  return signatures;
}

Signature gradient_signature(const Signature& forward) {
  Signature s;
  s.name = forward.name;
  s.info = twinops_find_operator((std::string(forward.info->name) + "_grad").c_str());
  if (s.info == nullptr) return s;
  const bool with_masks = gradient_needs_masks(forward);
  for (size_t i = 0; i < s.info->argument_count; ++i) {
    const twinops_argument_info& a = *s.info->arguments[i];
    Input input;
    if (a.is_output != 0 || (!with_masks && is_one_of(kMasks, a.name))) continue;
    if (find_source(forward, a, input))
      s.inputs.push_back(input);
    else if (a.is_required != 0)
      return {forward.name, nullptr, {}, {}, {}};
  }
  for (size_t i = 0; i < s.info->argument_count; ++i)
    if (s.info->arguments[i]->is_output != 0) add_gradient(s, forward, *s.info->arguments[i]);
  for (const PassedOn& p : kPassedOn)
    if (equal(p.op, forward.info->name)) pass_on(s, forward, p.input);
  add_attributes(s, with_masks);
  return s;
}

}  // namespace twinops::paddle_host
