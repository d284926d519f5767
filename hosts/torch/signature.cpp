#include "hosts/torch/signature.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

namespace twinops::torch_host {
namespace {

// Results that are not like their operator's first operand, or whose type may be chosen. A new
// operator whose results are of its first operand's shape and type needs no line here.
struct Rule {
  const char *op, *output, *like;
  Result::Shape shape;
  DLDataType type;
  const char* size;  // of last_dimension: the attribute that is its size
  bool typed;        // an attribute chooses the type
};
constexpr DLDataType kSame{};
constexpr auto kLike = Result::Shape::like, kDense = Result::Shape::dense,
               kRow = Result::Shape::row, kLast = Result::Shape::last_dimension;
constexpr Rule kRules[] = {
    {"softmax", "out", "x", kLike, kSame, nullptr, true},
    {"log_softmax", "out", "x", kLike, kSame, nullptr, true},
    {"softmax_dropout", "y", "x", kLike, kSame, nullptr, true},
    {"softmax_dropout", "probabilities", "x", kLike, kSame, nullptr, true},
    {"softmax_grad", "dx", "dy", kLike, kSame, nullptr, true},
    {"log_softmax_grad", "dx", "dy", kLike, kSame, nullptr, true},
    {"softmax_dropout_grad", "dx", "dy", kLike, kSame, nullptr, true},
    {"bias_dropout_residual_grad", "dbias", "dy", kRow, kSame, nullptr, true},
    {"philox_words", "words", "like", kLike, {kDLUInt, 32, 1}, nullptr, false},
    {"uniform", "out", "like", kLike, {kDLFloat, 32, 1}, nullptr, false},
    {"random_projection", "y", "x", kLast, kSame, "k", false},
    {"random_projection_grad", "dx", "dy", kLast, kSame, "columns", false},
};

bool equal(const char* a, const char* b) { return std::strcmp(a, b) == 0; }

bool is_in_place(const twinops_operator_info& info) {
  return std::any_of(info.arguments, info.arguments + info.argument_count,
                     [](const auto* a) { return a->is_output != 0 && a->is_list != 0; });
}

// The operand that an output is written over: the list of a list, "scale" of "scale_out".
Operand* find_written(std::vector<Operand>& operands, const twinops_argument_info& output) {
  constexpr std::string_view kOut = "_out";
  std::string_view name = output.name;
  if (name.ends_with(kOut)) name.remove_suffix(kOut.size());
  for (Operand& operand : operands)
    if (output.is_list != 0 ? operand.is_list() : operand.name == name) return &operand;
  return nullptr;
}

std::vector<Operand> operands_of(const twinops_operator_info& info) {
  std::vector<Operand> operands;
  for (const bool optional : {false, true})
    for (size_t i = 0; i < info.argument_count; ++i) {
      const twinops_argument_info* a = info.arguments[i];
      if (a->is_output == 0 && (a->is_required == 0) == optional)
        operands.push_back({a, a->name, false, nullptr});
    }
  return operands;
}

std::vector<Attribute> attributes_of(const twinops_operator_info& info) {
  std::vector<Attribute> attributes;
  for (size_t i = 0; i < info.attribute_count; ++i) {
    twinops_attribute value = info.attributes[i]->default_value;
    value.struct_size = sizeof value;
    // PyTorch's functionalization passes a "mode" of its own beside an operator's arguments.
    const char* name = equal(value.name, "mode") ? "dropout_mode" : value.name;
    attributes.push_back({name, value, info.attributes[i]});
  }
  return attributes;
}

int add_attribute(Signature& s, const std::string& name, const twinops_attribute& preset) {
  s.attributes.push_back({name, preset});
  return static_cast<int>(s.attributes.size()) - 1;
}

int find_operand(const Signature& s, std::string_view name, int otherwise = 0) {
  for (size_t i = 0; i < s.operands.size(); ++i)
    if (s.operands[i].name == name) return static_cast<int>(i);
  return otherwise;
}

Result result_of(Signature& s, const twinops_argument_info& output) {
  Result result{&output};
  const Rule* rule = std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& r) {
    return equal(r.op, s.info->name) && equal(r.output, output.name);
  });
  if (rule != std::end(kRules)) {
    result.like = find_operand(s, rule->like);
    result.shape = rule->shape;
    result.type = rule->type;
    if (rule->size != nullptr)
      result.size_attribute = add_attribute(s, rule->size, TWINOPS_INT_ATTRIBUTE(rule->size, 0));
  } else if (const int input = find_operand(s, output.name + 1, -1);
             output.name[0] == 'd' && input >= 0) {  // the gradient of an input: "dbias" of "bias"
    result.like = input;
    result.shape = kDense;
  }
  if (result.is_optional() || (rule != std::end(kRules) && rule->typed))
    result.type_attribute =
        add_attribute(s, std::string(output.name) + "_type",
                      TWINOPS_STRING_ATTRIBUTE(nullptr, result.is_optional() ? "" : "same"));
  return result;
}

// ---- The schema, in PyTorch's words.

std::string shortest(double value) {
  char text[32];
  const auto [end, status] = std::to_chars(text, text + sizeof text, value);
  return status == std::errc() ? std::string(text, end) : "0";
}

std::string write(const Operand& operand, char& alias) {
  std::string type = "Tensor";
  if (operand.is_written) type += std::string("(") + alias++ + "!)";
  if (operand.is_list()) type += "[]";
  if (operand.is_optional()) type += "?";
  return type + " " + operand.name;
}

std::string write(const Attribute& a) {
  const twinops_attribute& value = a.preset;
  if (a.is_size()) return "SymInt " + a.name;
  switch (value.kind) {
    case TWINOPS_BOOL:
      return "bool " + a.name + (value.int_value != 0 ? "=True" : "=False");
    case TWINOPS_INT:
      return "int " + a.name + "=" + std::to_string(value.int_value);
    case TWINOPS_FLOAT:
      return "float " + a.name + "=" + shortest(value.float_value);
    default:
      return "str " + a.name + "=\"" + value.string_value + "\"";
  }
}

std::string write_schema(const Signature& s) {
  std::string text = s.name + "(";
  char alias = 'a';
  const char* comma = "";
  const auto add = [&](const std::string& parameter, const char* default_value) {
    text += comma + parameter + default_value;
    comma = ", ";
  };
  // Tensors by position too: PyTorch differentiates with respect to those alone.
  for (const Operand& operand : s.operands)
    add(write(operand, alias), operand.is_optional() ? "=None" : "");
  if (!s.attributes.empty() || !s.outputs.empty()) add("*", "");
  for (const Attribute& a : s.attributes)
    if (!s.takes_text || a.is_apart()) add(write(a), "");
  if (s.takes_text) add("str attributes", "=\"\"");
  for (const Operand& output : s.outputs)
    add(write(output, alias), output.is_optional() ? "=None" : "");
  text += ") -> ";
  if (s.results.size() == 1) return text + "Tensor";
  text += "(";
  for (size_t i = 0; i < s.results.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::string("Tensor ") + s.results[i].argument->name;
  }
  return text + ")";
}

Signature functional(const twinops_operator_info& info) {
  Signature s{&info, info.name, "", operands_of(info), attributes_of(info), {}, {}};
  // An operator that makes tensors of nothing: one is given for its shape and device.
  if (std::all_of(s.operands.begin(), s.operands.end(),
                  [](const Operand& o) { return o.is_optional(); }))
    s.operands.insert(s.operands.begin(), {nullptr, "like", false, nullptr});
  for (const bool optional : {false, true})
    for (size_t i = 0; i < info.argument_count; ++i) {
      const twinops_argument_info& a = *info.arguments[i];
      if (a.is_output != 0 && (a.is_required == 0) == optional)
        s.results.push_back(result_of(s, a));
    }
  return s;
}

Signature with_outputs(const twinops_operator_info& info) {
  Signature s{
      &info, std::string(info.name) + ".out", "", operands_of(info), attributes_of(info), {}, {}};
  for (const bool optional : {false, true})
    for (size_t i = 0; i < info.argument_count; ++i) {
      const twinops_argument_info* a = info.arguments[i];
      if (a->is_output != 0 && (a->is_required == 0) == optional)
        s.outputs.push_back({a, a->name, true, nullptr});
    }
  return s;
}

Signature in_place(const twinops_operator_info& info) {
  Signature s{&info, std::string(info.name) + "_", "", operands_of(info), attributes_of(info), {},
              {}};
  for (size_t i = 0; i < info.argument_count; ++i) {
    const twinops_argument_info* a = info.arguments[i];
    if (a->is_output == 0) continue;
    if (Operand* written = find_written(s.operands, *a); written != nullptr) {
      written->is_written = true;
      written->also = a;
    } else {
      s.operands.push_back({a, a->name, true, nullptr});
    }
  }
  return s;
}

}  // namespace

std::vector<Signature> signatures(const twinops_operator_info& info) {
  std::vector<Signature> all;
  if (is_in_place(info)) {
    all.push_back(in_place(info));
  } else {
    all.push_back(functional(info));
    all.push_back(all.back());
    all.back().name.insert(0, "_");
    all.back().takes_text = true;
    all.push_back(with_outputs(info));
  }
  for (Signature& s : all) s.schema = write_schema(s);
  return all;
}

std::string describe_results(const Signature& s) {
  std::string text;
  for (const Result& r : s.results) {
    text += std::string(r.argument->name) + " " + s.operands[r.like].name + " ";
    text += r.shape == Result::Shape::like    ? "like"
            : r.shape == Result::Shape::dense ? "dense"
            : r.shape == Result::Shape::row   ? "row"
                                              : "last:" + s.attributes[r.size_attribute].name;
    text += std::string(" ") + (r.type.bits == 0 ? "same" : twinops_type_name(r.type)) + " ";
    text += r.type_attribute < 0
                ? "-"
                : s.attributes[r.type_attribute].name + (r.is_optional() ? "?" : "");
    text += "\n";
  }
  return text;
}

}  // namespace twinops::torch_host
