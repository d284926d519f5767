// What every typed function of twinops is made of: errors, tensors, calls; and what the library
// says about this machine. twinops.hpp includes this file.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "twinops/twinops.h"

namespace twinops {

// What every function throws where the C ABI returns another status than TWINOPS_OK. what() is
// twinops_last_error(); status says whether anything may have been written (twinops_status).
class Error : public std::runtime_error {
 public:
  Error(twinops_status status_, const std::string& message)
      : std::runtime_error(message), status(status_) {}
  const twinops_status status;
};

// Throws Error for any status but TWINOPS_OK.
inline void check(twinops_status status) {
  if (status != TWINOPS_OK) throw Error(status, twinops_last_error());
}

// Where a Tensor is unless its constructor says otherwise. A GPU is DLDevice{kDLCUDA, index}.
inline constexpr DLDevice kHost{kDLCPU, 0};

// The element types.
inline constexpr DLDataType kFloat16{kDLFloat, 16, 1};
inline constexpr DLDataType kBfloat16{kDLBfloat, 16, 1};
inline constexpr DLDataType kFloat32{kDLFloat, 32, 1};
inline constexpr DLDataType kFloat64{kDLFloat, 64, 1};
inline constexpr DLDataType kBool{6, 8, 1};  // kDLBool, which DLPack 0.6 does not name yet
inline constexpr DLDataType kUint8{kDLUInt, 8, 1};
inline constexpr DLDataType kInt32{kDLInt, 32, 1};
inline constexpr DLDataType kUint32{kDLUInt, 32, 1};
inline constexpr DLDataType kInt64{kDLInt, 64, 1};
inline constexpr DLDataType kUint64{kDLUInt, 64, 1};

// The element type of a C++ type. C++20 has no 16-bit floating type: name kFloat16 or kBfloat16.
template <class T>
constexpr DLDataType type_of() {
  if constexpr (std::is_same_v<T, bool>)
    return kBool;
  else if constexpr (std::is_same_v<T, float>)
    return kFloat32;
  else if constexpr (std::is_same_v<T, double>)
    return kFloat64;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return kUint8;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return kInt32;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return kUint32;
  else if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, long long>)
    return kInt64;  // long and long long are two types of one size
  else if constexpr (std::is_same_v<T, std::uint64_t> || std::is_same_v<T, unsigned long long>)
    return kUint64;
  else
    static_assert(!sizeof(T),
                  "this C++ type is no element type; say which its bits are: "
                  "twinops::Tensor(data, twinops::kFloat16, shape)");
}

// A view of memory that someone else owns, for as long as the view is used.
//   data     the first element, aligned to the element's size; nullptr only without elements
//   type     one of the element types above
//   shape    a size for each dimension, 0 or more; {} is a scalar
//   device   where the memory is
//   strides  for each dimension, in elements, any sign, 0 for a broadcast input; {}: row-major
//            without gaps
// A constructor throws if the strides are not as many as the dimensions; what else is wrong shows
// in the call.
class Tensor {
 public:
  Tensor(void* data, DLDataType type, std::vector<std::int64_t> shape, DLDevice device = kHost,
         std::vector<std::int64_t> strides = {})
      : data_(data),
        type_(type),
        device_(device),
        shape_(std::move(shape)),
        strides_(std::move(strides)) {
    if (!strides_.empty() && strides_.size() != shape_.size())
      throw Error(TWINOPS_INVALID_ARGUMENT, "Tensor: expected a stride for each dimension");
  }
  // A view of constants: a call in which it is an output is refused.
  Tensor(const void* data, DLDataType type, std::vector<std::int64_t> shape,
         DLDevice device = kHost, std::vector<std::int64_t> strides = {})
      : Tensor(const_cast<void*>(data), type, std::move(shape), device, std::move(strides)) {
    constant_ = true;
  }
  // The element type is that of T: Tensor(floats, {rows, columns}).
  template <class T, class = std::enable_if_t<!std::is_void_v<T>>>
  Tensor(T* data, std::vector<std::int64_t> shape, DLDevice device = kHost,
         std::vector<std::int64_t> strides = {})
      : Tensor(static_cast<Memory<T>>(data), type_of<std::remove_const_t<T>>(), std::move(shape),
               device, std::move(strides)) {}

  bool is_constant() const { return constant_; }
  // The DLPack view; it points into this Tensor.
  DLTensor dlpack() const {
    return {data_,
            device_,
            static_cast<int>(shape_.size()),
            type_,
            const_cast<std::int64_t*>(shape_.data()),
            strides_.empty() ? nullptr : const_cast<std::int64_t*>(strides_.data()),
            0};
  }

 private:
  template <class T>
  using Memory = std::conditional_t<std::is_const_v<T>, const void*, void*>;

  void* data_;
  bool constant_ = false;
  DLDataType type_;
  DLDevice device_;
  std::vector<std::int64_t> shape_, strides_;
};

// What an argument that is a list takes: any number of tensors, also none.
using Tensors = std::vector<Tensor>;

// What a call says about itself; twinops_report in twinops.h.
struct Report {
  std::string row;                 // the kernel row taken, "cpu/avx2"
  std::string fallback;            // why it is not what the environment asked for; else ""
  std::int64_t launches = 0;       // kernels launched on the device; 0 on the CPU
  std::uint64_t random_words = 0;  // 32-bit words reserved: how far the next offset moves
};

// How a call is carried out; twinops_execution in twinops.h says all about each member. The
// defaults: CUDA's default stream, the library's threads, the best row, no allocator. No member
// changes a bit of the result.
struct Execution {
  void* stream = nullptr;  // a cudaStream_t of the tensors' device
  int threads = 0;         // at most so many on the CPU; 0: TWINOPS_THREADS, or OpenMP's number
  // The row or backend that must be taken, "cpu/avx2", "cuda"; "": the best. (= {}: so that other
  // members can be named without a warning.)
  std::string row = {};
  // The host's threads in place of the library's: (parallel_context, n, task, task_context).
  void (*parallel_for)(void*, std::int64_t, void (*)(void*, std::int64_t), void*) = nullptr;
  void* parallel_context = nullptr;
  // The host's scratch memory on the tensors' device: (workspace_context, bytes, stream), and
  // (workspace_context, memory, bytes, stream). On CUDA some calls are refused without it.
  void* (*allocate)(void*, std::size_t, void*) = nullptr;
  void (*release)(void*, void*, std::size_t, void*) = nullptr;
  void* workspace_context = nullptr;
};

// A call of any operator by name, with arguments and attributes by the names in its table
// (twinops_find_operator; docs/operators/). The typed functions are made of it:
//   Call("softmax").argument("x", x).argument("out", y).attribute("axis", 0).run();
class Call {
 public:
  // Throws Error(TWINOPS_UNSUPPORTED) if the library has another ABI version than this header.
  explicit Call(std::string op) : op_(std::move(op)) {
    arguments_.reserve(8);
    attributes_.reserve(16);
    if (twinops_abi_version() != TWINOPS_ABI_VERSION)
      throw Error(TWINOPS_UNSUPPORTED, "libtwinops has ABI version " +
                                           std::to_string(twinops_abi_version()) +
                                           ", this program " + std::to_string(TWINOPS_ABI_VERSION));
  }
  // Names are checked in run(). The shape and strides of a tensor are read there too: keep the
  // Tensor until then.
  Call& argument(std::string name, const Tensor& tensor) {
    return argument(std::move(name), std::span(&tensor, 1));
  }
  // A list. Throws Error(TWINOPS_INVALID_ARGUMENT) for a view of constants as an output.
  Call& argument(std::string name, std::span<const Tensor> tensors) {
    for (const Tensor& t : tensors)
      if (t.is_constant()) expect_input(name);
    Argument& added = arguments_.emplace_back(Argument{std::move(name), {}, {}});
    added.tensors.reserve(tensors.size());
    for (const Tensor& t : tensors) added.tensors.push_back(t.dlpack());
    return *this;
  }
  Call& attribute(std::string name, bool value) {
    return attribute({std::move(name), TWINOPS_BOOL, value, 0, {}});
  }
  // An unsigned 64-bit number, such as a seed, keeps its bits.
  template <std::integral T>
  Call& attribute(std::string name, T value) {
    return attribute({std::move(name), TWINOPS_INT, static_cast<std::int64_t>(value), 0, {}});
  }
  template <std::floating_point T>
  Call& attribute(std::string name, T value) {
    return attribute({std::move(name), TWINOPS_FLOAT, 0, static_cast<double>(value), {}});
  }
  Call& attribute(std::string name, const char* value) {
    Attribute a{std::move(name), TWINOPS_STRING, 0, 0, {}};
    if (value != nullptr) a.text = value;
    return attribute(std::move(a));
  }
  Call& attribute(std::string name, const std::string& value) {
    return attribute(std::move(name), value.c_str());
  }

  // Runs the operator (twinops_run); throws Error.
  Report run(const Execution& execution = {}) {
    std::vector<twinops_argument> arguments;
    arguments.reserve(arguments_.size());
    for (Argument& a : arguments_) {
      a.pointers.clear();
      a.pointers.reserve(a.tensors.size());
      for (const DLTensor& t : a.tensors) a.pointers.push_back(&t);
      arguments.push_back(
          {sizeof(twinops_argument), a.name.c_str(), a.pointers.data(), a.pointers.size()});
    }
    std::vector<twinops_attribute> attributes;
    attributes.reserve(attributes_.size());
    for (const Attribute& a : attributes_)
      attributes.push_back({sizeof(twinops_attribute), a.kind, a.name.c_str(), a.integer, a.real,
                            a.text ? a.text->c_str() : nullptr});
    twinops_report report{};
    report.struct_size = sizeof(report);
    const twinops_execution how{sizeof(twinops_execution),
                                execution.threads,
                                execution.stream,
                                execution.row.empty() ? nullptr : execution.row.c_str(),
                                execution.parallel_for,
                                execution.parallel_context,
                                execution.allocate,
                                execution.release,
                                execution.workspace_context,
                                &report};
    check(twinops_run(op_.c_str(), arguments.data(), arguments.size(), attributes.data(),
                      attributes.size(), &how));
    return {report.row, report.fallback, report.launches, report.random_words};
  }

 private:
  struct Argument {
    std::string name;
    std::vector<DLTensor> tensors;
    std::vector<const DLTensor*> pointers;
  };
  struct Attribute {
    std::string name;
    std::int32_t kind;
    std::int64_t integer;
    double real;
    std::optional<std::string> text;
  };
  void expect_input(const std::string& name) const {
    const twinops_operator_info* info = twinops_find_operator(op_.c_str());
    for (std::size_t i = 0; info != nullptr && i < info->argument_count; ++i)
      if (info->arguments[i]->is_output != 0 && name == info->arguments[i]->name)
        throw Error(TWINOPS_INVALID_ARGUMENT, op_ + ": " + name + ": is an output, and constant");
  }
  Call& attribute(Attribute a) {
    attributes_.push_back(std::move(a));
    return *this;
  }
  std::string op_;
  std::vector<Argument> arguments_;
  std::vector<Attribute> attributes_;
};

// The names of the kernel rows that this machine can use, best first, "cpu/scalar" last.
inline std::vector<std::string> available_rows() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < twinops_row_count(); ++i)
    if (twinops_row_at(i)->available) names.emplace_back(twinops_row_at(i)->name);
  return names;
}

// Which row a call on tensors of `device` takes, and why each better one is passed over: one line a
// row. Throws Error for a device that is neither the CPU nor CUDA.
inline std::string explain(DLDevice device = kHost) {
  std::size_t length = 0;
  check(twinops_explain(device, nullptr, 0, &length));
  std::string text(length + 1, '\0');
  check(twinops_explain(device, text.data(), text.size(), nullptr));
  text.resize(length);
  return text;
}

}  // namespace twinops
