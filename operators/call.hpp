// One call of an operator: the arguments and attributes that came, checked against what the
// operator says of itself. Each operator's parse() reads it and makes its kernel's arguments.
#pragma once

#include <string>
#include <vector>

#include "operators/operator.hpp"
#include "operators/tensor.hpp"

namespace twinops {

class Call {
 public:
  explicit Call(const OperatorInfo& info);
  Call(const Call&) = delete;

  // Filling in, in any order. All throw Error(invalid_argument) with a message that names the
  // operator, the argument, what was expected and what came.
  void bind(const char* argument, const DLTensor* const* tensors, std::size_t count);
  void set(const char* attribute, AttributeValue value);
  void complete();  // every required argument is there, and all tensors are on one device

  // Reading, by the names in info().
  const OperatorInfo& info() const { return info_; }
  Device device() const { return device_; }
  const std::vector<Tensor>& list(const char* argument) const;
  const Tensor& tensor(const char* argument) const;           // a required one
  const Tensor* optional_tensor(const char* argument) const;  // nullptr where none was given
  bool flag(const char* attribute) const;
  std::int64_t integer(const char* attribute) const;
  double real(const char* attribute) const;
  std::string_view text(const char* attribute) const;

  struct Bound {
    const ArgumentInfo* info = nullptr;
    bool given = false;
    std::vector<Tensor> read;
    Survey read_survey;
    const Bound* same = nullptr;  // an argument that came before, with the same tensors
    const DLTensor* const* array = nullptr;

    const Bound& original() const { return same != nullptr ? *same : *this; }
    const std::vector<Tensor>& tensors() const { return original().read; }
    const Survey& survey() const { return original().read_survey; }
  };
  const std::vector<Bound>& arguments() const { return arguments_; }
  const Bound& argument(const char* name) const { return arguments_[argument_index(name)]; }
  // Whether the same tensors came twice: then every member is in place, and nothing about it need
  // be asked again.
  static bool are_same(const Bound& a, const Bound& b) { return a.same == &b || b.same == &a; }

  // "check_finite_and_unscale: x[3]"; without an index where the argument is one tensor.
  std::string where(const char* argument, std::size_t index = 0) const;
  [[noreturn]] void refuse(const std::string& where, const std::string& what) const;

 private:
  std::size_t argument_index(const char* name) const;
  std::size_t attribute_index(const char* name) const;

  const OperatorInfo& info_;
  std::vector<Bound> arguments_;
  std::vector<AttributeValue> attributes_;
  std::vector<bool> attributes_given_;
  Device device_;
};

}  // namespace twinops
