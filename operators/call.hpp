// One call of an operator: the arguments and attributes that came, checked against what the
// operator says of itself. Each operator's parse() reads it and makes its kernel's arguments.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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
  std::span<const Tensor> list(const char* argument) const;
  const Tensor& tensor(const char* argument) const;           // a required one
  const Tensor* optional_tensor(const char* argument) const;  // nullptr where none was given
  bool flag(const char* attribute) const;
  std::int64_t integer(const char* attribute) const;
  double real(const char* attribute) const;
  std::string_view text(const char* attribute) const;

  // An argument and what came for it. A tensor by itself lies here: only lists take memory.
  struct Bound {
    const ArgumentInfo* info;
    const DLTensor* const* array;
    const Bound* same;  // a list that came before, with the same tensors; nothing below is set
    std::size_t count;
    bool given;
    const DLDataType* wrong_type;  // of a tensor that complete() refuses, else nullptr
    Survey survey;
    Tensor one;                  // where there is one
    Start* starts;               // one more than there are tensors
    Start starts_of_one[2];      // where they lie for one tensor
    mutable const Tensor* many;  // of a list, once they are asked for

    const Bound& original() const { return same != nullptr ? *same : *this; }
  };
  std::span<const Bound> arguments() const { return {arguments_.data(), info_.arguments.size()}; }
  std::span<const Tensor> tensors(const Bound& bound) const;
  const Bound& argument(const char* name) const { return arguments_[argument_index(name)]; }
  // Whether the same tensors came twice: then every member is in place, and nothing about it need
  // be asked again.
  static bool are_same(const Bound& a, const Bound& b) { return a.same == &b || b.same == &a; }

  // "check_finite_and_unscale: x[3]"; without an index where the argument is one tensor.
  std::string where(const char* argument, std::size_t index = 0) const;
  [[noreturn]] void refuse(const std::string& where, const std::string& what) const;
  // Of an argument whose types follow from another's, `beside`, which is there.
  [[noreturn]] void refuse_type(const char* argument, DLDataType got) const;

 private:
  std::size_t argument_index(const char* name) const;
  std::size_t attribute_index(const char* name) const;

  const AttributeValue& value(const char* attribute) const;
  bool is_given(std::size_t attribute) const { return attributes_given_ >> attribute & 1u; }

  const OperatorInfo& info_;
  std::array<Bound, kMostArguments> arguments_;  // of which the operator's are made
  std::vector<std::unique_ptr<Start[]>> starts_;
  mutable std::vector<std::unique_ptr<Tensor[]>> lists_;
  std::array<AttributeValue, kMostAttributes> attributes_;  // where one was given
  std::uint32_t attributes_given_ = 0;                      // a bit each
  static_assert(kMostAttributes <= 32);
  Device device_{};
};

}  // namespace twinops
