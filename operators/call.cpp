#include "operators/call.hpp"

#include <cmath>
#include <cstring>

#include "operators/error.hpp"

namespace twinops {
namespace {

constexpr const char* kKindNames[] = {"a bool", "an int", "a float", "a string"};

// Whether `word` is one of "a|b|c".
bool is_choice(std::string_view choices, std::string_view word) {
  while (true) {
    const auto bar = choices.find('|');
    if (choices.substr(0, bar) == word) return true;
    if (bar == std::string_view::npos) return false;
    choices.remove_prefix(bar + 1);
  }
}

template <class Infos>
std::string names_of(const Infos& infos) {
  std::string text;
  for (const auto& info : infos) text += (text.empty() ? "" : ", ") + std::string(info.name);
  return text.empty() ? "none" : text;
}

}  // namespace

Call::Call(const OperatorInfo& info) : info_(info) {
  arguments_.reserve(info.arguments.size());
  for (const auto& argument : info.arguments) arguments_.emplace_back().info = &argument;
  attributes_.reserve(info.attributes.size());
  for (const auto& attribute : info.attributes) attributes_.push_back(attribute.default_value);
  attributes_given_.resize(attributes_.size());
}

std::string Call::where(const char* argument, std::size_t index) const {
  std::string text = std::string(info_.name) + ": " + argument;
  const auto& bound = arguments_[argument_index(argument)];
  if (bound.info->form == ArgumentInfo::Form::list) text += "[" + std::to_string(index) + "]";
  return text;
}

void Call::refuse(const std::string& where, const std::string& what) const {
  throw Error(Status::invalid_argument, where + ": " + what);
}

std::size_t Call::argument_index(const char* name) const {
  for (std::size_t i = 0; i < arguments_.size(); ++i)
    if (std::strcmp(arguments_[i].info->name, name) == 0) return i;
  refuse(info_.name, "no argument is named '" + std::string(name) + "'; its arguments are " +
                         names_of(info_.arguments));
}

std::size_t Call::attribute_index(const char* name) const {
  for (std::size_t i = 0; i < attributes_.size(); ++i)
    if (std::strcmp(info_.attributes[i].name, name) == 0) return i;
  refuse(info_.name, "no attribute is named '" + std::string(name) + "'; its attributes are " +
                         names_of(info_.attributes));
}

void Call::bind(const char* argument, const DLTensor* const* tensors, std::size_t count) {
  if (argument == nullptr) refuse(info_.name, "an argument's name is NULL");
  Bound& bound = arguments_[argument_index(argument)];
  const std::string name = std::string(info_.name) + ": " + argument;
  const bool is_list = bound.info->form == ArgumentInfo::Form::list;
  if (bound.given) refuse(name, "is given twice");
  if (count != 0 && tensors == nullptr) refuse(name, "its array of tensors is NULL");
  if (!is_list && count > 1) refuse(name, "expected one tensor; got " + std::to_string(count));
  bound.given = is_list || count == 1;
  bound.array = tensors;
  for (const Bound& other : arguments_) {
    if (&other == &bound || !(other.info->types == bound.info->types)) continue;
    if (count == 0 || other.read.size() != count) continue;
    if (!same_views(other.array, tensors, count)) continue;
    bound.same = &other;
    return;
  }
  try {
    bound.read_survey = read_tensors(tensors, count, bound.info->types, bound.read);
  } catch (const Error& error) {  // the place is put in words only when it is needed
    throw Error(error.status, where(argument, bound.read.size()) + ": " + error.what());
  }
}

void Call::set(const char* attribute, AttributeValue value) {
  using Kind = AttributeValue::Kind;
  if (attribute == nullptr) refuse(info_.name, "an attribute's name is NULL");
  const std::size_t i = attribute_index(attribute);
  const AttributeInfo& info = info_.attributes[i];
  const std::string name = std::string(info_.name) + ": " + attribute;
  if (attributes_given_[i]) refuse(name, "is given twice");
  if (value.kind == Kind::integer && info.default_value.kind == Kind::real)
    value = AttributeValue::of(static_cast<double>(value.integer));
  if (value.kind != info.default_value.kind)
    refuse(name, std::string("expected ") + kKindNames[static_cast<int>(info.default_value.kind)] +
                     "; got " + kKindNames[static_cast<int>(value.kind)]);
  if (value.kind == Kind::text) {
    if (value.text == nullptr) refuse(name, "is NULL");
    if (info.choices != nullptr && !is_choice(info.choices, value.text))
      refuse(name, std::string("expected one of ") + info.choices + "; got '" + value.text + "'");
  }
  attributes_[i] = value;
  attributes_given_[i] = true;
}

void Call::complete() {
  const Tensor* first = nullptr;
  const Bound* first_bound = nullptr;
  for (const Bound& bound : arguments_) {
    if (bound.info->required && !bound.given)
      refuse(std::string(info_.name) + ": " + bound.info->name, "is required, but was not given");
    if (bound.read.empty()) continue;
    if (first == nullptr) {
      first = &bound.read.front();
      first_bound = &bound;
    }
    if (bound.read_survey.one_device && bound.read.front().device == first->device) continue;
    for (std::size_t i = 0; i < bound.read.size(); ++i) {
      const Tensor& t = bound.read[i];
      if (!(t.device == first->device))
        refuse(where(bound.info->name, i), "is on " + describe(t.device) + ", but " +
                                               where(first_bound->info->name) + " is on " +
                                               describe(first->device));
    }
  }
  if (first != nullptr) device_ = first->device;
}

const std::vector<Tensor>& Call::list(const char* argument) const {
  return arguments_[argument_index(argument)].tensors();
}
const Tensor& Call::tensor(const char* argument) const { return list(argument).front(); }
const Tensor* Call::optional_tensor(const char* argument) const {
  const auto& tensors = list(argument);
  return tensors.empty() ? nullptr : &tensors.front();
}
bool Call::flag(const char* attribute) const {
  return attributes_[attribute_index(attribute)].integer != 0;
}
std::int64_t Call::integer(const char* attribute) const {
  return attributes_[attribute_index(attribute)].integer;
}
double Call::real(const char* attribute) const {
  return attributes_[attribute_index(attribute)].real;
}
std::string_view Call::text(const char* attribute) const {
  return attributes_[attribute_index(attribute)].text;
}

}  // namespace twinops
