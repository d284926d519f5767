// Calls through the C ABI as a careless host would make them: every field can be spoiled.
#pragma once

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "twinops/twinops.h"

namespace twinops::test {

// A DLTensor with the arrays that it points to.
struct View {
  DLTensor tensor{};
  std::vector<std::int64_t> shape, strides;

  View(void* data, DLDataType type, std::vector<std::int64_t> shape_,
       std::vector<std::int64_t> strides_ = {}, DLDevice device = {kDLCPU, 0})
      : shape(std::move(shape_)), strides(std::move(strides_)) {
    tensor.data = data;
    tensor.device = device;
    tensor.dtype = type;
    refresh();
  }
  View(const View& other) : tensor(other.tensor), shape(other.shape), strides(other.strides) {
    refresh();
  }
  View& operator=(const View&) = delete;
  void refresh() {
    tensor.ndim = static_cast<int>(shape.size());
    tensor.shape = shape.data();
    tensor.strides = strides.empty() ? nullptr : strides.data();
  }
  void reshape(std::vector<std::int64_t> shape_, std::vector<std::int64_t> strides_ = {}) {
    shape = std::move(shape_);
    strides = std::move(strides_);
    refresh();
  }
};

inline constexpr DLDataType kF16{kDLFloat, 16, 1}, kBf16{kDLBfloat, 16, 1}, kF32{kDLFloat, 32, 1},
    kF64{kDLFloat, 64, 1}, kBoolType{6, 8, 1}, kU8{kDLUInt, 8, 1}, kI32{kDLInt, 32, 1},
    kI64{kDLInt, 64, 1};

struct RawCall {
  const char* op = nullptr;
  std::deque<std::vector<const DLTensor*>> lists;  // a deque: arguments point into it
  std::vector<twinops_argument> arguments;
  std::vector<twinops_attribute> attributes;
  twinops_report report{};
  twinops_execution execution{};

  explicit RawCall(const char* op_) : op(op_) {
    report.struct_size = sizeof(report);
    execution.struct_size = sizeof(execution);
    execution.report = &report;
  }
  RawCall(const RawCall&) = delete;

  void add(const char* name, std::vector<const DLTensor*> tensors) {
    lists.push_back(std::move(tensors));
    arguments.push_back(TWINOPS_ARGUMENT(name, lists.back().data(), lists.back().size()));
  }
  void add(const char* name, const View& view) {
    add(name, std::vector<const DLTensor*>{&view.tensor});
  }
  void set(const char* name, bool value) {
    attributes.push_back(TWINOPS_BOOL_ATTRIBUTE(name, value));
  }
  void set(const char* name, std::int64_t value) {
    attributes.push_back(TWINOPS_INT_ATTRIBUTE(name, value));
  }
  void set(const char* name, int value) { set(name, std::int64_t{value}); }
  void set(const char* name, double value) {
    attributes.push_back(TWINOPS_FLOAT_ATTRIBUTE(name, value));
  }
  void set(const char* name, const char* value) {
    attributes.push_back(TWINOPS_STRING_ATTRIBUTE(name, value));
  }
  twinops_argument& argument(const char* name) {
    for (twinops_argument& a : arguments)
      if (a.name != nullptr && std::strcmp(a.name, name) == 0) return a;
    return arguments.front();
  }
  void replace(const char* name, std::vector<const DLTensor*> tensors) {
    lists.push_back(std::move(tensors));
    argument(name) = TWINOPS_ARGUMENT(name, lists.back().data(), lists.back().size());
  }
  void remove(const char* name) {
    std::erase_if(arguments,
                  [&](const twinops_argument& a) { return std::strcmp(a.name, name) == 0; });
  }

  twinops_status run() const {
    return twinops_run(op, arguments.data(), arguments.size(), attributes.data(), attributes.size(),
                       &execution);
  }
};

// The names of the library's rows and operators, as its messages list them.
inline std::string row_names() {
  std::string names;
  for (std::size_t i = 0; i < twinops_row_count(); ++i)
    names += (i == 0 ? "" : ", ") + std::string(twinops_row_at(i)->name);
  return names;
}

inline std::string operator_names() {
  std::string names;
  for (std::size_t i = 0; i < twinops_operator_count(); ++i)
    names += (i == 0 ? "" : ", ") + std::string(twinops_operator_at(i)->name);
  return names;
}

inline bool has_cuda_device() {
  for (std::size_t i = 0; i < twinops_device_count(); ++i)
    if (twinops_device_at(i)->usable) return true;
  return false;
}

}  // namespace twinops::test
