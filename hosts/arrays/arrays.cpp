// Any array: one function for apache-tvm-ffi, through which twinops.dropout(x) and the others call
// every operator on DLPack views. It takes, in this order,
//   the address of the operator's description (twinops_operator_info),
//   the stream, or None for the one that tvm-ffi knows of the tensors' framework,
//   a function that makes scratch memory of so many bytes, or None,
//   the operator's arguments in the table's order, each a tensor, an array of them, or None,
//   its attributes in the table's order, each None for its default.
// Only tvm-ffi's C ABI is used. A tensor of uint16 holds bfloat16, which NumPy cannot say.
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "twinops/twinops.h"

namespace {

[[noreturn]] void refuse(const twinops_operator_info& info, const char* what,
                         const std::string& why) {
  throw std::invalid_argument(std::string(info.name) + ": " + what + ": " + why);
}

// The tensors of one argument.
struct Tensors {
  std::vector<DLTensor> views;
  std::vector<const DLTensor*> pointers;
};

class Call {
 public:
  Call(const TVMFFIAny* given, int32_t count)
      : info_(*static_cast<const twinops_operator_info*>(given[0].v_ptr)),
        stream_(given[1]),
        allocate_(given[2]) {
    if (static_cast<size_t>(count) != 3 + info_.argument_count + info_.attribute_count)
      refuse(info_, "call", "another number of arguments than the table has");
    given += 3;
    tensors_.resize(info_.argument_count);
    for (size_t i = 0; i < info_.argument_count; ++i) add(*info_.arguments[i], given[i], i);
    given += info_.argument_count;
    texts_.reserve(info_.attribute_count);
    for (size_t i = 0; i < info_.attribute_count; ++i) add(*info_.attributes[i], given[i]);
  }
  Call(const Call&) = delete;
  ~Call() {
    for (void* made : scratch_) TVMFFIObjectDecRef(made);
  }

  twinops_status run() {
    twinops_execution execution{};
    execution.struct_size = sizeof(execution);
    if (stream_.type_index == kTVMFFIInt)
      execution.stream = stream_.v_ptr;
    else if (device_.device_type != kDLCPU)
      execution.stream = TVMFFIEnvGetStream(device_.device_type, device_.device_id);
    execution.workspace_context = this;
    if (allocate_.type_index == kTVMFFIFunction) execution.allocate = &Call::allocate;
    return twinops_run(info_.name, arguments_.data(), arguments_.size(), attributes_.data(),
                       attributes_.size(), &execution);
  }

 private:
  static const DLTensor* tensor_of(const TVMFFIAny& value) {
    if (value.type_index == kTVMFFITensor) return TVMFFITensorGetDLTensorPtr(value.v_obj);
    if (value.type_index == kTVMFFIDLTensorPtr) return static_cast<const DLTensor*>(value.v_ptr);
    return nullptr;
  }

  void add_tensor(const twinops_argument_info& info, const TVMFFIAny& value, Tensors& to) {
    const DLTensor* tensor = tensor_of(value);
    if (tensor == nullptr) refuse(info_, info.name, "expected an array that has __dlpack__");
    DLTensor view = *tensor;
    if (view.dtype.code == kDLUInt && view.dtype.bits == 16) view.dtype.code = kDLBfloat;
    if (view.device.device_type != kDLCPU) device_ = view.device;
    to.views.push_back(view);
  }

  void add(const twinops_argument_info& info, const TVMFFIAny& value, size_t place) {
    Tensors& to = tensors_[place];
    if (value.type_index == kTVMFFIArray) {
      // An object's own part lies behind its header.
      const auto* list = reinterpret_cast<const TVMFFISeqCell*>(value.v_obj + 1);
      to.views.reserve(list->size);
      for (int64_t i = 0; i < list->size; ++i)
        add_tensor(info, static_cast<const TVMFFIAny*>(list->data)[i], to);
    } else if (value.type_index != kTVMFFINone) {
      add_tensor(info, value, to);
    }
    to.pointers.reserve(to.views.size());
    for (const DLTensor& view : to.views) to.pointers.push_back(&view);
    arguments_.push_back(TWINOPS_ARGUMENT(info.name, to.pointers.data(), to.pointers.size()));
  }

  static std::string text_of(const TVMFFIAny& value) {
    if (value.type_index == kTVMFFIRawStr) return value.v_c_str;
    const TVMFFIByteArray bytes = value.type_index == kTVMFFISmallStr
                                      ? TVMFFIByteArray{value.v_bytes, value.small_str_len}
                                      : *TVMFFIBytesGetByteArrayPtr(value.v_obj);
    return {bytes.data, bytes.size};
  }

  void add(const twinops_attribute_info& info, const TVMFFIAny& value) {
    const char* name = info.default_value.name;
    switch (value.type_index) {
      case kTVMFFINone:
        return;
      case kTVMFFIBool:
        attributes_.push_back(TWINOPS_BOOL_ATTRIBUTE(name, value.v_int64));
        return;
      case kTVMFFIInt:
        attributes_.push_back(TWINOPS_INT_ATTRIBUTE(name, value.v_int64));
        return;
      case kTVMFFIFloat:
        attributes_.push_back(TWINOPS_FLOAT_ATTRIBUTE(name, value.v_float64));
        return;
      case kTVMFFIRawStr:
      case kTVMFFISmallStr:
      case kTVMFFIStr:
        texts_.push_back(text_of(value));
        attributes_.push_back(TWINOPS_STRING_ATTRIBUTE(name, texts_.back().c_str()));
        return;
      default:
        refuse(info_, name, "expected a bool, an int, a float or a str");
    }
  }

  static void* allocate(void* self, size_t bytes, void*) {
    Call& call = *static_cast<Call*>(self);
    TVMFFIAny size{}, made{};
    size.type_index = kTVMFFIInt;
    size.v_int64 = static_cast<int64_t>(bytes);
    if (TVMFFIFunctionCall(call.allocate_.v_obj, &size, 1, &made) != 0) {
      TVMFFIObjectHandle error = nullptr;  // twinops says that there was no memory
      TVMFFIErrorMoveFromRaised(&error);
      if (error != nullptr) TVMFFIObjectDecRef(error);
      return nullptr;
    }
    if (made.type_index >= kTVMFFIStaticObjectBegin) call.scratch_.push_back(made.v_obj);
    const DLTensor* tensor = tensor_of(made);
    return tensor == nullptr ? nullptr : static_cast<char*>(tensor->data) + tensor->byte_offset;
  }

  const twinops_operator_info& info_;
  TVMFFIAny stream_, allocate_;
  DLDevice device_{kDLCPU, 0};
  std::vector<Tensors> tensors_;
  std::vector<std::string> texts_;
  std::vector<twinops_argument> arguments_;
  std::vector<twinops_attribute> attributes_;
  std::vector<void*> scratch_;
};

const char* kind_of(twinops_status status) {
  switch (status) {
    case TWINOPS_INVALID_ARGUMENT:
      return "ValueError";
    case TWINOPS_OUT_OF_MEMORY:
      return "MemoryError";
    case TWINOPS_UNSUPPORTED:
      return "NotImplementedError";
    default:
      return "RuntimeError";
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int __tvm_ffi_run(void*, const TVMFFIAny* given,
                                                                    int32_t count,
                                                                    TVMFFIAny* result) {
  result->type_index = kTVMFFINone;
  try {
    if (count < 3 || given[0].type_index != kTVMFFIInt)
      throw std::invalid_argument("twinops: expected an operator, a stream and an allocator first");
    const twinops_status status = Call(given, count).run();
    if (status == TWINOPS_OK) return 0;
    TVMFFIErrorSetRaisedFromCStr(kind_of(status), twinops_last_error());
  } catch (const std::invalid_argument& error) {
    TVMFFIErrorSetRaisedFromCStr("TypeError", error.what());
  } catch (const std::exception& error) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", error.what());
  }
  return -1;
}
