#include "operators/call.hpp"

#include <cmath>

#include "operators/describe.hpp"
#include "operators/error.hpp"
#include "operators/names.hpp"

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
  for (const auto& info : infos) add_name(text, info.name);
  return text.empty() ? "none" : text;
}

}  // namespace

Call::Call(const OperatorInfo& info) : info_(info) {
  if (info.arguments.size() > kMostArguments || info.attributes.size() > kMostAttributes)
    throw Error(Status::internal, std::string(info.name) + ": has more than a call holds");
  for (std::size_t i = 0; i < info.arguments.size(); ++i) {
    Bound& bound = arguments_[i];
    bound.info = &info.arguments[i];
    bound.array = nullptr;
    bound.same = nullptr;
    bound.count = 0;
    bound.given = false;
    bound.wrong_type = nullptr;
    bound.survey = {};
    bound.starts = bound.starts_of_one;
    bound.many = nullptr;
  }
}

std::string Call::where(const char* argument, std::size_t index) const {
  std::string text = std::string(info_.name) + ": " + argument;
  if (info_.arguments[argument_index(argument)].form == ArgumentInfo::Form::list)
    text += "[" + std::to_string(index) + "]";
  return text;
}

void Call::refuse(const std::string& where, const std::string& what) const {
  throw Error(Status::invalid_argument, where + ": " + what);
}

void Call::refuse_type(const char* argument, DLDataType got) const {
  const ArgumentInfo& info = *this->argument(argument).info;
  const Type other = tensor(info.beside).type;
  const TypeSet allowed = info.types_beside(other);
  const std::string expected =
      allowed == same_type(other)
          ? std::string("expected the type of ") + info.beside + ", " + name(other)
          : "expected " + describe(allowed) + ", as " + info.beside + " is " + name(other);
  refuse(where(argument), expected + "; got " + describe(got));
}

std::size_t Call::argument_index(const char* name) const {
  for (std::size_t i = 0; i < info_.arguments.size(); ++i)
    if (same_name(info_.arguments[i].name, name)) return i;
  refuse(info_.name, "no argument is named '" + std::string(name) + "'; its arguments are " +
                         names_of(info_.arguments));
}

std::size_t Call::attribute_index(const char* name) const {
  for (std::size_t i = 0; i < info_.attributes.size(); ++i)
    if (same_name(info_.attributes[i].name, name)) return i;
  refuse(info_.name, "no attribute is named '" + std::string(name) + "'; its attributes are " +
                         names_of(info_.attributes));
}

void Call::bind(const char* argument, const DLTensor* const* tensors, std::size_t count) {
  if (argument == nullptr) refuse(info_.name, "an argument's name is NULL");
  Bound& bound = arguments_[argument_index(argument)];
  const auto refuse_it = [&](const std::string& what) {
    refuse(std::string(info_.name) + ": " + argument, what);
  };
  const bool is_list = bound.info->form == ArgumentInfo::Form::list;
  if (bound.given) refuse_it("is given twice");
  if (count != 0 && tensors == nullptr) refuse_it("its array of tensors is NULL");
  if (!is_list && count > 1) refuse_it("expected one tensor; got " + std::to_string(count));
  bound.given = is_list || count == 1;
  bound.array = tensors;
  if (count == 0) return;
  for (const Bound& other : arguments()) {
    if (!is_list || other.count != count || other.info->form != ArgumentInfo::Form::list ||
        !(other.info->types == bound.info->types) || !same_views(other.array, tensors, count))
      continue;
    bound.same = &other;
    return;
  }
  if (bound.info->beside != nullptr && tensors[0] != nullptr) {
    Type type;  // what would be right is known once the other argument is
    if (!from_dlpack(tensors[0]->dtype, type) || !bound.info->types.has(type)) {
      bound.wrong_type = &tensors[0]->dtype;
      return;
    }
  }
  if (count > 1)
    bound.starts = starts_.emplace_back(std::make_unique_for_overwrite<Start[]>(count + 1)).get();
  try {
    bound.survey = read_tensors(tensors, count, bound.info->types,
                                {count == 1 ? &bound.one : nullptr, bound.starts}, bound.count);
  } catch (const Error& error) {  // the place is put in words only when it is needed
    throw Error(error.status, where(argument, bound.count) + ": " + error.what());
  }
}

void Call::set(const char* attribute, AttributeValue value) {
  using Kind = AttributeValue::Kind;
  if (attribute == nullptr) refuse(info_.name, "an attribute's name is NULL");
  const std::size_t i = attribute_index(attribute);
  const AttributeInfo& info = info_.attributes[i];
  const auto refuse_it = [&](const std::string& what) {
    refuse(std::string(info_.name) + ": " + attribute, what);
  };
  if (is_given(i)) refuse_it("is given twice");
  if (value.kind == Kind::integer && info.default_value.kind == Kind::real)
    value = AttributeValue::of(static_cast<double>(value.integer));
  if (value.kind != info.default_value.kind)
    refuse_it(std::string("expected ") + kKindNames[static_cast<int>(info.default_value.kind)] +
              "; got " + kKindNames[static_cast<int>(value.kind)]);
  if (value.kind == Kind::text) {
    if (value.text == nullptr) refuse_it("is NULL");
    if (info.choices != nullptr && !is_choice(info.choices, value.text))
      refuse_it(std::string("expected one of ") + info.choices + "; got '" + value.text + "'");
  }
  attributes_[i] = value;
  attributes_given_ |= 1u << i;
}

void Call::complete() {
  const Bound* first = nullptr;
  for (const Bound& bound : arguments()) {
    if (bound.info->required && !bound.given)
      refuse(std::string(info_.name) + ": " + bound.info->name, "is required, but was not given");
    if (bound.wrong_type != nullptr) refuse_type(bound.info->name, *bound.wrong_type);
    if (bound.count == 0) continue;  // nothing, or what another argument has read
    if (first == nullptr) {
      first = &bound;
      device_ = bound.survey.device;
    }
    if (bound.survey.one_device && bound.survey.device == device_) continue;
    for (std::size_t i = 0; i < bound.count; ++i) {
      const Device other = tensors(bound)[i].device;
      if (!(other == device_))
        refuse(where(bound.info->name, i), "is on " + describe(other) + ", but " +
                                               where(first->info->name) + " is on " +
                                               describe(device_));
    }
  }
}

std::span<const Tensor> Call::tensors(const Bound& bound) const {
  const Bound& b = bound.original();
  if (b.count <= 1) return {&b.one, b.count};
  if (b.many == nullptr) {
    auto& list = lists_.emplace_back(std::make_unique_for_overwrite<Tensor[]>(b.count));
    std::size_t done;
    read_tensors(b.array, b.count, b.info->types, {list.get(), nullptr}, done);
    b.many = list.get();
  }
  return {b.many, b.count};
}

std::span<const Tensor> Call::list(const char* argument) const {
  return tensors(arguments_[argument_index(argument)]);
}
const Tensor& Call::tensor(const char* argument) const { return list(argument).front(); }
const Tensor* Call::optional_tensor(const char* argument) const {
  const auto tensors = list(argument);
  return tensors.empty() ? nullptr : &tensors.front();
}
const AttributeValue& Call::value(const char* attribute) const {
  const std::size_t i = attribute_index(attribute);
  return is_given(i) ? attributes_[i] : info_.attributes[i].default_value;
}
bool Call::flag(const char* attribute) const { return value(attribute).integer != 0; }
std::int64_t Call::integer(const char* attribute) const { return value(attribute).integer; }
double Call::real(const char* attribute) const { return value(attribute).real; }
std::string_view Call::text(const char* attribute) const { return value(attribute).text; }

}  // namespace twinops
