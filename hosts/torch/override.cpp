// twinops' kernels under the names of ATen's: what python/twinops/torch/overriding.py puts into
// PyTorch and takes out again. Autograd stays PyTorch's own. Schemas, which say what is on the
// stack, are those of ATen's native_functions.yaml.
#include <torch/csrc/stable/library.h>

#include <bit>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "hosts/torch/draws.hpp"
#include "hosts/torch/execution.hpp"
#include "hosts/torch/tensors.hpp"

// PyTorch's own refusal of a dimension, an IndexError in Python; a plugin's exceptions are
// RuntimeErrors there. It is no part of the stable ABI: where it is missing, ours is thrown.
extern "C" __attribute__((weak)) int64_t twinops_torch_refuse_dimension(
    int64_t dim, int64_t rank,
    bool is_scalar_wrapped) __asm__("_ZN3c106detail19maybe_wrap_dim_slowIlEET_S2_S2_b");

namespace twinops::torch_host {
namespace {

AtenTensorHandle tensor(StableIValue value) { return reinterpret_cast<AtenTensorHandle>(value); }
StableIValue value(AtenTensorHandle tensor) { return reinterpret_cast<StableIValue>(tensor); }
StableIValue some(StableIValue value) {
  return reinterpret_cast<StableIValue>(new StableIValue{value});
}

// Another handle of the same tensor, for a callee that takes it.
StableIValue again(AtenTensorHandle tensor) {
  AtenTensorHandle copy = nullptr;
  check(aoti_torch_new_tensor_handle(tensor, &copy), "a tensor");
  return value(copy);
}

int64_t elements_of(const DLTensor& view) {
  int64_t n = 1;
  for (int i = 0; i < view.ndim; ++i) n *= view.shape[i];
  return n;
}

// A call of one of twinops' operators.
class Call {
 public:
  Call(const char* op, DLDevice device) : op_(op), device_(device) {}
  Call& with(const char* name, const DLTensor& view) {
    views_[tensors_] = view;
    pointers_[tensors_] = &views_[tensors_];
    arguments_[tensors_] = TWINOPS_ARGUMENT(name, &pointers_[tensors_], 1);
    ++tensors_;
    return *this;
  }
  Call& with(const char* name, int64_t number) {
    attributes_[numbers_++] = TWINOPS_INT_ATTRIBUTE(name, number);
    return *this;
  }
  Call& with(const char* name, double number) {
    attributes_[numbers_++] = TWINOPS_FLOAT_ATTRIBUTE(name, number);
    return *this;
  }
  void run() { execute(op_, arguments_, tensors_, attributes_, numbers_, device_); }

 private:
  const char* op_;
  DLDevice device_;
  DLTensor views_[4];
  const DLTensor* pointers_[4];
  twinops_argument arguments_[4];
  twinops_attribute attributes_[2];
  size_t tensors_ = 0, numbers_ = 0;
};

// ---- softmax and log_softmax -------------------------------------------------------------------

// A scalar counts as a row of one element.
DLTensor as_row(DLTensor view) {
  static int64_t one = 1;
  if (view.ndim == 0) view = {view.data, view.device, 1, view.dtype, &one, &one, view.byte_offset};
  return view;
}

int64_t axis_of(int64_t dim, int64_t rank) {
  const int64_t most = rank == 0 ? 1 : rank;
  if (dim < -most || dim >= most) {
    if (&twinops_torch_refuse_dimension != nullptr)
      return twinops_torch_refuse_dimension(dim, rank, true);
    throw std::out_of_range("Dimension out of range (expected to be in range of [" +
                            std::to_string(-most) + ", " + std::to_string(most - 1) +
                            "], but got " + std::to_string(dim) + ")");
  }
  return dim;
}

// _softmax(Tensor self, int dim, bool half_to_float) -> Tensor, without gaps
template <const char* op>
void forward(StableIValue* stack, uint64_t, uint64_t) {
  Handles handles;
  const DLTensor x = view_of(handles.keep(tensor(stack[0])), nullptr);
  const int64_t axis = axis_of(static_cast<int64_t>(stack[1]), x.ndim);
  const bool to_float = (stack[2] & 0xff) != 0;
  const DLDataType type = to_float ? DLDataType{kDLFloat, 32, 1} : x.dtype;
  const AtenTensorHandle y = handles.keep(empty_dense(x, type));
  Call(op, x.device)
      .with("x", as_row(x))
      .with("out", as_row(view_of(y, nullptr)))
      .with("axis", axis)
      .run();
  stack[0] = value(handles.give(y));
}

// _softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) ->
// Tensor, without gaps
template <const char* op>
void backward(StableIValue* stack, uint64_t, uint64_t) {
  Handles handles;
  const DLTensor dy = view_of(handles.keep(tensor(stack[0])), nullptr);
  const DLTensor y = view_of(handles.keep(tensor(stack[1])), nullptr);
  const int64_t axis = axis_of(static_cast<int64_t>(stack[2]), y.ndim);
  const DLDataType type = type_of(static_cast<int32_t>(stack[3]));
  const AtenTensorHandle dx = handles.keep(empty_dense(y, type));
  Call(op, y.device)
      .with("y", as_row(y))
      .with("dy", as_row(dy))
      .with("dx", as_row(view_of(dx, nullptr)))
      .with("axis", axis)
      .run();
  stack[0] = value(handles.give(dx));
}

// ---- dropout -----------------------------------------------------------------------------------

// What native_dropout gives where nothing is dropped, of any type: a copy, and a mask of ones.
void keep_all(AtenTensorHandle x, StableIValue* stack) {
  StableIValue ones[] = {
      again(x), some(static_cast<StableIValue>(aoti_torch_dtype_bool())), 0, 0, 0, 0};
  call_aten("aten::ones_like", ones, "a mask");
  StableIValue copy[] = {again(x), 0};
  call_aten("aten::clone", copy, "a copy");
  stack[0] = copy[0];
  stack[1] = ones[0];
}

// native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)
void native_dropout(StableIValue* stack, uint64_t, uint64_t) {
  Handles handles;
  const AtenTensorHandle x = handles.keep(tensor(stack[0]));
  const double p = std::bit_cast<double>(stack[1]);
  const std::unique_ptr<StableIValue> train(reinterpret_cast<StableIValue*>(stack[2]));
  if (p == 0 || (train != nullptr && (*train & 0xff) == 0)) return keep_all(x, stack);
  const DLTensor view = view_of(x, nullptr);
  const AtenTensorHandle y = handles.keep(empty_like(x, view, view.dtype));
  const AtenTensorHandle mask = handles.keep(empty_dense(view, kBool));
  Call call("dropout", view.device);
  call.with("x", view).with("y", view_of(y, nullptr)).with("mask", view_of(mask, nullptr));
  call.with("p", p);
  if (p != 1 && elements_of(view) != 0) {
    const DLDevice device = drawing_device(view.device);
    DLTensor seed = view_of(handles.keep(draw(device)), nullptr);
    seed.dtype.code = kDLUInt;
    if (device.device_type == kDLCPU)
      call.with("seed", *static_cast<const int64_t*>(seed.data));
    else
      call.with("seed_tensor", seed);
  }
  call.run();
  stack[0] = value(handles.give(y));
  stack[1] = value(handles.give(mask));
}

// The p of a scale of PyTorch's, 1 / (1 - p), or 0 at p = 1: one that has the same scale.
double probability_of(double scale) {
  if (scale == 0) return 1.0;
  const double kept = 1.0 / scale;  // 1 - p but for the last bit
  for (const double near : {kept, std::nextafter(kept, 0.0), std::nextafter(kept, 2.0)})
    if (const double p = 1.0 - near; 1.0 / (1.0 - p) == scale) return p;
  return 1.0 - kept;
}

// native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor
void native_dropout_backward(StableIValue* stack, uint64_t, uint64_t) {
  Handles handles;
  const AtenTensorHandle grad = handles.keep(tensor(stack[0]));
  const AtenTensorHandle mask = handles.keep(tensor(stack[1]));
  const double scale = std::bit_cast<double>(stack[2]);
  const DLTensor dy = view_of(grad, nullptr);
  const AtenTensorHandle dx = handles.keep(empty_like(grad, dy, dy.dtype));
  DLTensor kept = view_of(mask, nullptr);
  if (!has_no_gaps(kept) && elements_of(kept) != 0) {
    const AtenTensorHandle dense = handles.keep(empty_dense(kept, kept.dtype));
    check(aoti_torch_copy_(dense, mask, 1), "a mask without gaps");
    kept = view_of(dense, nullptr);
  }
  Call("dropout_grad", dy.device)
      .with("dy", dy)
      .with("dx", view_of(dx, nullptr))
      .with("mask", kept)
      .with("p", probability_of(scale))
      .run();
  stack[0] = value(handles.give(dx));
}

// ---- Putting them in ---------------------------------------------------------------------------

constexpr char kSoftmax[] = "softmax", kLogSoftmax[] = "log_softmax";
constexpr char kSoftmaxGrad[] = "softmax_grad", kLogSoftmaxGrad[] = "log_softmax_grad";

using Library = torch::stable::detail::StableLibrary;

// _override(bool on) -> ()
void override_aten(StableIValue* stack, uint64_t, uint64_t) {
  static std::vector<std::unique_ptr<Library>> in_force;  // taken out when they go
  in_force.clear();
  if ((stack[0] & 0xff) == 0) return;
  for (const char* const key : {"CPU", "CUDA"})
    in_force
        .emplace_back(
            std::make_unique<Library>(Library::Kind::IMPL, "aten", key, __FILE__, __LINE__))
        ->impl("_softmax", &forward<kSoftmax>)
        .impl("_log_softmax", &forward<kLogSoftmax>)
        .impl("_softmax_backward_data", &backward<kSoftmaxGrad>)
        .impl("_log_softmax_backward_data", &backward<kLogSoftmaxGrad>)
        .impl("native_dropout", &native_dropout)
        .impl("native_dropout_backward", &native_dropout_backward);
}

}  // namespace
}  // namespace twinops::torch_host

STABLE_TORCH_LIBRARY_FRAGMENT(twinops, library) { library.def("_override(bool on) -> ()"); }
STABLE_TORCH_LIBRARY_IMPL(twinops, CompositeExplicitAutograd, library) {
  library.impl("_override", &twinops::torch_host::override_aten);
}
