// twinops for C++20: the operators as functions, over the C ABI of twinops.h. Header only.
//
//   std::vector<float> gradient = ...;
//   float scale = 1024;
//   bool found_inf = false;
//   twinops::Tensor g(gradient.data(), {rows, columns});
//   twinops::check_finite_and_unscale({{g}}, {&scale, {}}, {{g}}, {&found_inf, {}});
//
// Every function throws twinops::Error where the C ABI returns a status; a call that is refused has
// written nothing. On CUDA a call returns when the work is queued on execution.stream.
#pragma once

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

class Error : public std::runtime_error {
 public:
  Error(twinops_status status_, const std::string& message)
      : std::runtime_error(message), status(status_) {}
  const twinops_status status;
};

inline void check(twinops_status status) {
  if (status != TWINOPS_OK) throw Error(status, twinops_last_error());
}

inline constexpr DLDevice kHost{kDLCPU, 0};

inline constexpr DLDataType kFloat16{kDLFloat, 16, 1};
inline constexpr DLDataType kBfloat16{kDLBfloat, 16, 1};
inline constexpr DLDataType kFloat32{kDLFloat, 32, 1};
inline constexpr DLDataType kFloat64{kDLFloat, 64, 1};
inline constexpr DLDataType kBool{6, 8, 1};
inline constexpr DLDataType kUint8{kDLUInt, 8, 1};
inline constexpr DLDataType kInt32{kDLInt, 32, 1};
inline constexpr DLDataType kUint32{kDLUInt, 32, 1};
inline constexpr DLDataType kInt64{kDLInt, 64, 1};
inline constexpr DLDataType kUint64{kDLUInt, 64, 1};

// The element type of a C++ type; 16-bit types have none of their own, so name those.
template <class T>
constexpr DLDataType type_of() {
  if constexpr (std::is_same_v<T, bool>) return kBool;
  if constexpr (std::is_same_v<T, float>) return kFloat32;
  if constexpr (std::is_same_v<T, double>) return kFloat64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return kUint8;
  if constexpr (std::is_same_v<T, std::int32_t>) return kInt32;
  if constexpr (std::is_same_v<T, std::uint32_t>) return kUint32;
  if constexpr (std::is_same_v<T, std::int64_t>) return kInt64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return kUint64;
}

// A view of memory that someone else owns. Shape {} is a scalar; no strides means row-major.
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
  template <class T, class = std::enable_if_t<!std::is_void_v<T>>>
  Tensor(T* data, std::vector<std::int64_t> shape, DLDevice device = kHost,
         std::vector<std::int64_t> strides = {})
      : Tensor(const_cast<std::remove_const_t<T>*>(data), type_of<std::remove_const_t<T>>(),
               std::move(shape), device, std::move(strides)) {}

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
  void* data_;
  DLDataType type_;
  DLDevice device_;
  std::vector<std::int64_t> shape_, strides_;
};

using Tensors = std::vector<Tensor>;

// What a call told of itself.
struct Report {
  std::string row;       // "cpu/avx2"
  std::string fallback;  // why what the environment asked for was not to be had; else empty
  std::int64_t launches = 0;
  std::uint64_t random_words = 0;
};

// How a call is carried out; see twinops_execution.
struct Execution {
  void* stream = nullptr;
  int threads = 0;
  std::string row = {};  // {}: so that other members can be named without a warning
  void (*parallel_for)(void*, std::int64_t, void (*)(void*, std::int64_t), void*) = nullptr;
  void* parallel_context = nullptr;
  void* (*allocate)(void*, std::size_t, void*) = nullptr;
  void (*release)(void*, void*, std::size_t, void*) = nullptr;
  void* workspace_context = nullptr;
};

// A call of any operator, by the names in its table.
class Call {
 public:
  explicit Call(std::string op) : op_(std::move(op)) {
    if (twinops_abi_version() != TWINOPS_ABI_VERSION)
      throw Error(TWINOPS_UNSUPPORTED, "libtwinops has ABI version " +
                                           std::to_string(twinops_abi_version()) +
                                           ", this program " + std::to_string(TWINOPS_ABI_VERSION));
  }
  Call& argument(std::string name, const Tensor& tensor) {
    return argument(std::move(name), std::span(&tensor, 1));
  }
  // The tensors' shapes are read in run(): keep them until then.
  Call& argument(std::string name, std::span<const Tensor> tensors) {
    arguments_.push_back({std::move(name), {}, {}});
    for (const Tensor& t : tensors) arguments_.back().tensors.push_back(t.dlpack());
    return *this;
  }
  Call& attribute(std::string name, bool value) {
    return attribute({std::move(name), TWINOPS_BOOL, value, 0, {}});
  }
  Call& attribute(std::string name, std::int64_t value) {
    return attribute({std::move(name), TWINOPS_INT, value, 0, {}});
  }
  Call& attribute(std::string name, int value) {
    return attribute(std::move(name), std::int64_t{value});
  }
  Call& attribute(std::string name, double value) {
    return attribute({std::move(name), TWINOPS_FLOAT, 0, value, {}});
  }
  Call& attribute(std::string name, const char* value) {
    return attribute({std::move(name), TWINOPS_STRING, 0, 0, value});
  }

  Report run(const Execution& execution = {}) {
    std::vector<twinops_argument> arguments;
    for (Argument& a : arguments_) {
      a.pointers.clear();
      for (const DLTensor& t : a.tensors) a.pointers.push_back(&t);
      arguments.push_back(
          {sizeof(twinops_argument), a.name.c_str(), a.pointers.data(), a.pointers.size()});
    }
    std::vector<twinops_attribute> attributes;
    for (const Attribute& a : attributes_)
      attributes.push_back(
          {sizeof(twinops_attribute), a.kind, a.name.c_str(), a.integer, a.real, a.text.c_str()});
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
    std::string text;
  };
  Call& attribute(Attribute a) {
    attributes_.push_back(std::move(a));
    return *this;
  }
  std::string op_;
  std::vector<Argument> arguments_;
  std::vector<Attribute> attributes_;
};

// out[i] = x[i] / scale; found_inf is set if a value is not finite.
// docs/operators/check_finite_and_unscale.md
struct CheckFiniteAndUnscaleOptions {
  const char* check = "output";  // or "input": which values must be finite
  bool reset = false;            // found_inf becomes 0 unless a value is not finite
};
inline Report check_finite_and_unscale(const Tensors& x, const Tensor& scale, const Tensors& out,
                                       const Tensor& found_inf,
                                       const CheckFiniteAndUnscaleOptions& options = {},
                                       const Execution& execution = {}) {
  return Call("check_finite_and_unscale")
      .argument("x", x)
      .argument("scale", scale)
      .argument("out", out)
      .argument("found_inf", found_inf)
      .attribute("check", options.check)
      .attribute("reset", options.reset)
      .run(execution);
}

// The state of dynamic loss scaling: one-element tensors.
struct LossScaleState {
  Tensor scale, good_steps, bad_steps;
};

// out[i] = x[i], or zeros if found_inf; next becomes what follows state, which it may be.
// docs/operators/update_loss_scaling.md
struct UpdateLossScalingOptions {
  int incr_every_n_steps = 1000;
  int decr_every_n_nan_or_inf = 2;
  double incr_ratio = 2.0;
  double decr_ratio = 0.5;
  bool stop_update = false;
};
inline Report update_loss_scaling(const Tensors& x, const Tensor& found_inf,
                                  const LossScaleState& state, const Tensors& out,
                                  const LossScaleState& next,
                                  const UpdateLossScalingOptions& options = {},
                                  const Execution& execution = {}) {
  return Call("update_loss_scaling")
      .argument("x", x)
      .argument("found_inf", found_inf)
      .argument("scale", state.scale)
      .argument("good_steps", state.good_steps)
      .argument("bad_steps", state.bad_steps)
      .argument("out", out)
      .argument("scale_out", next.scale)
      .argument("good_steps_out", next.good_steps)
      .argument("bad_steps_out", next.bad_steps)
      .attribute("incr_every_n_steps", options.incr_every_n_steps)
      .attribute("decr_every_n_nan_or_inf", options.decr_every_n_nan_or_inf)
      .attribute("incr_ratio", options.incr_ratio)
      .attribute("decr_ratio", options.decr_ratio)
      .attribute("stop_update", options.stop_update)
      .run(execution);
}

// Where random words come from: docs/same-mask-everywhere.md.
struct RandomOptions {
  std::uint64_t seed = 0, subsequence = 0, offset = 0;
  const char* layout = "contiguous";  // or "strided", "triton"
  std::int64_t period = 65536;        // of the strided layout
  std::int64_t element_offset = 0;
  std::vector<std::int64_t> global_shape = {},
                            start = {};  // of a tensor that is cut from a larger one
  std::vector<std::int64_t> shared_axes = {};
  std::optional<Tensor> seed_tensor = {},
                        offset_tensor = {};  // one element each, read by the kernel
  std::optional<Tensor> seeds = {};          // one a row

  Call& add_to(Call& call) const {
    if (seed_tensor) call.argument("seed_tensor", *seed_tensor);
    if (offset_tensor) call.argument("offset_tensor", *offset_tensor);
    if (seeds) call.argument("seeds", *seeds);
    return call.attribute("seed", static_cast<std::int64_t>(seed))
        .attribute("subsequence", static_cast<std::int64_t>(subsequence))
        .attribute("offset", static_cast<std::int64_t>(offset))
        .attribute("layout", layout)
        .attribute("period", period)
        .attribute("element_offset", element_offset)
        .attribute("global_shape", text(global_shape).c_str())
        .attribute("start", text(start).c_str())
        .attribute("shared_axes", text(shared_axes).c_str());
  }

 private:
  static std::string text(const std::vector<std::int64_t>& values) {
    std::string joined;
    for (const std::int64_t value : values)
      joined += (joined.empty() ? "" : ",") + std::to_string(value);
    return joined;
  }
};

struct DropoutOptions {
  double p = 0.5;
  const char* mode = "upscale_in_train";  // or "downgrade_in_infer"
  bool training = true;
  RandomOptions random = {};

  Call& add_to(Call& call) const {
    return random.add_to(
        call.attribute("p", p).attribute("mode", mode).attribute("training", training));
  }
};

// y = x with elements dropped at random, the others scaled; the mask is stored if there is one.
// docs/operators/dropout.md
inline Report dropout(const Tensor& x, const Tensor& y, const std::optional<Tensor>& mask = {},
                      const DropoutOptions& options = {}, const Execution& execution = {}) {
  Call call("dropout");
  call.argument("x", x).argument("y", y);
  if (mask) call.argument("mask", *mask);
  return options.add_to(call).run(execution);
}

// dx, from dropout's mask, or, without one, from the mask drawn again.
inline Report dropout_grad(const Tensor& dy, const Tensor& dx,
                           const std::optional<Tensor>& mask = {},
                           const DropoutOptions& options = {}, const Execution& execution = {}) {
  Call call("dropout_grad");
  call.argument("dy", dy).argument("dx", dx);
  if (mask) call.argument("mask", *mask);
  return options.add_to(call).run(execution);
}

// y = dropout(x + bias) + residual; bias and residual may be left out.
// docs/operators/bias_dropout_residual.md
struct BiasAndResidual {
  std::optional<Tensor> bias = {}, residual = {};
};
inline Report bias_dropout_residual(const Tensor& x, const BiasAndResidual& terms, const Tensor& y,
                                    const std::optional<Tensor>& mask = {},
                                    const DropoutOptions& options = {},
                                    const Execution& execution = {}) {
  Call call("bias_dropout_residual");
  call.argument("x", x).argument("y", y);
  if (terms.bias) call.argument("bias", *terms.bias);
  if (terms.residual) call.argument("residual", *terms.residual);
  if (mask) call.argument("mask", *mask);
  return options.add_to(call).run(execution);
}

// dx, and dbias, the sum of dx over all axes but the last, if it is given.
inline Report bias_dropout_residual_grad(const Tensor& dy, const Tensor& dx,
                                         const std::optional<Tensor>& dbias = {},
                                         const std::optional<Tensor>& mask = {},
                                         const DropoutOptions& options = {},
                                         const Execution& execution = {}) {
  Call call("bias_dropout_residual_grad");
  call.argument("dy", dy).argument("dx", dx);
  if (dbias) call.argument("dbias", *dbias);
  if (mask) call.argument("mask", *mask);
  return options.add_to(call).run(execution);
}

// The random 32-bit words that the elements of a tensor draw, and the floats made of them.
// docs/operators/uniform.md
inline Report philox_words(const Tensor& words, const RandomOptions& options = {},
                           const Execution& execution = {}) {
  Call call("philox_words");
  return options.add_to(call.argument("words", words)).run(execution);
}
inline Report uniform(const Tensor& out, const RandomOptions& options = {},
                      const Execution& execution = {}) {
  Call call("uniform");
  return options.add_to(call.argument("out", out)).run(execution);
}

// y = sqrt(s / k) x R for x of [..., columns] and y of [..., k], R of +1, 0 and -1 drawn from the
// seed, one entry in s not 0; and dx = sqrt(s / k) dy R^T. docs/operators/random_projection.md
struct ProjectionOptions {
  double s = 3;
  std::uint64_t seed = 0, subsequence = 0, offset = 0;
  std::int64_t element_offset = 0;
  std::optional<Tensor> seed_tensor = {}, offset_tensor = {};  // one element each

  Call& add_to(Call& call) const {
    if (seed_tensor) call.argument("seed_tensor", *seed_tensor);
    if (offset_tensor) call.argument("offset_tensor", *offset_tensor);
    return call.attribute("s", s)
        .attribute("seed", static_cast<std::int64_t>(seed))
        .attribute("subsequence", static_cast<std::int64_t>(subsequence))
        .attribute("offset", static_cast<std::int64_t>(offset))
        .attribute("element_offset", element_offset);
  }
};
inline Report random_projection(const Tensor& x, const Tensor& y,
                                const ProjectionOptions& options = {},
                                const Execution& execution = {}) {
  Call call("random_projection");
  return options.add_to(call.argument("x", x).argument("y", y)).run(execution);
}
inline Report random_projection_grad(const Tensor& dy, const Tensor& dx,
                                     const ProjectionOptions& options = {},
                                     const Execution& execution = {}) {
  Call call("random_projection_grad");
  return options.add_to(call.argument("dy", dy).argument("dx", dx)).run(execution);
}

// out = exp(x) / sum(exp(x)) along an axis, and the logarithm of that. docs/operators/softmax.md,
// docs/operators/log_softmax.md
struct SoftmaxOptions {
  int axis = -1;
  const char* masked_rows = "nan";  // or "zeros": what a row of nothing but -infinity gives
};
inline Report softmax(const Tensor& x, const Tensor& out, const SoftmaxOptions& options = {},
                      const Execution& execution = {}) {
  return Call("softmax")
      .argument("x", x)
      .argument("out", out)
      .attribute("axis", options.axis)
      .attribute("masked_rows", options.masked_rows)
      .run(execution);
}
inline Report log_softmax(const Tensor& x, const Tensor& out, const SoftmaxOptions& options = {},
                          const Execution& execution = {}) {
  return Call("log_softmax")
      .argument("x", x)
      .argument("out", out)
      .attribute("axis", options.axis)
      .attribute("masked_rows", options.masked_rows)
      .run(execution);
}

// dx from the y that the forward pass gave and the gradient dy. docs/operators/softmax_grad.md,
// docs/operators/log_softmax_grad.md
inline Report softmax_grad(const Tensor& y, const Tensor& dy, const Tensor& dx, int axis = -1,
                           const Execution& execution = {}) {
  return Call("softmax_grad")
      .argument("y", y)
      .argument("dy", dy)
      .argument("dx", dx)
      .attribute("axis", axis)
      .run(execution);
}
inline Report log_softmax_grad(const Tensor& y, const Tensor& dy, const Tensor& dx, int axis = -1,
                               const Execution& execution = {}) {
  return Call("log_softmax_grad")
      .argument("y", y)
      .argument("dy", dy)
      .argument("dx", dx)
      .attribute("axis", axis)
      .run(execution);
}

// The rows of kernels that this machine can use, best first.
inline std::vector<std::string> available_rows() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < twinops_row_count(); ++i)
    if (twinops_row_at(i)->available) names.emplace_back(twinops_row_at(i)->name);
  return names;
}

// Which row tensors on `device` take, and why each better one is passed over.
inline std::string explain(DLDevice device = kHost) {
  std::size_t length = 0;
  check(twinops_explain(device, nullptr, 0, &length));
  std::string text(length + 1, '\0');
  check(twinops_explain(device, text.data(), text.size(), nullptr));
  text.resize(length);
  return text;
}

}  // namespace twinops
