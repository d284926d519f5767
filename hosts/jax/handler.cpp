// The handlers that XLA calls for every operator of twinops' table: one on CPUs, two on CUDA
// devices, with scratch memory and without. What is to be called travels in the call's attributes:
//   op           the operator
//   args, rets   which of its arguments the buffers are, in order, as "x,mask"; "x*3" is a list of
//   three and any attribute of the operator that has not its default, under its own name.
// A buffer of uint32 where 64-bit words are meant (seeds: JAX has none without jax_enable_x64) is
// read as half as many of them, the low half first.
#include <dlpack/dlpack.h>
#include <xla/ffi/api/ffi.h>

#include <charconv>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "hosts/jax/threads.hpp"
#include "twinops/twinops.h"

namespace twinops::jax_host {
namespace {

namespace ffi = ::xla::ffi;

DLDataType to_dlpack(ffi::DataType type) {
  switch (type) {
    case ffi::F16:
      return {kDLFloat, 16, 1};
    case ffi::BF16:
      return {kDLBfloat, 16, 1};
    case ffi::F32:
      return {kDLFloat, 32, 1};
    case ffi::F64:
      return {kDLFloat, 64, 1};
    case ffi::PRED:
      return {6, 8, 1};  // the type code of later DLPacks
    case ffi::U8:
      return {kDLUInt, 8, 1};
    case ffi::S32:
      return {kDLInt, 32, 1};
    case ffi::U32:
      return {kDLUInt, 32, 1};
    case ffi::S64:
      return {kDLInt, 64, 1};
    case ffi::U64:
      return {kDLUInt, 64, 1};
    default:
      return {kDLOpaqueHandle, 0, 1};  // refused by the operator
  }
}

bool takes(const twinops_argument_info& info, DLDataType type) {
  for (size_t i = 0; i < info.type_count; ++i)
    if (info.types[i].code == type.code && info.types[i].bits == type.bits) return true;
  return false;
}

struct Scratch {
  // XLA refuses to be asked for more than this alignment; the library needs 64.
  static constexpr size_t kAsked = 16, kNeeded = 64;
  ffi::ScratchAllocator* allocator;

  static void* allocate(void* self, size_t bytes, void*) {
    const auto memory = static_cast<Scratch*>(self)->allocator->Allocate(bytes + kNeeded, kAsked);
    if (!memory || *memory == nullptr) return nullptr;
    const auto at = reinterpret_cast<std::uintptr_t>(*memory);
    return static_cast<char*>(*memory) + (kNeeded - at % kNeeded) % kNeeded;
  }
};

// Everything that twinops_run takes, and what keeps it alive.
class Call {
 public:
  Call(DLDevice device, ffi::Dictionary attributes) : device_(device), attributes_(attributes) {}

  ffi::Error run(ffi::RemainingArgs args, ffi::RemainingRets rets, twinops_execution execution) {
    const auto op = attributes_.get<std::string_view>("op");
    info_ = op ? twinops_find_operator(std::string(*op).c_str()) : nullptr;
    if (info_ == nullptr) return error("a call that names no operator of this library");
    arguments_.reserve(info_->argument_count);
    const auto arg = [&](size_t i) { return args.get<ffi::AnyBuffer>(i); };
    const auto ret = [&](size_t i) { return rets.get<ffi::AnyBuffer>(i); };
    if (!add("args", arg, args.size()) || !add("rets", ret, rets.size()))
      return error("args and rets do not name the buffers of the call");
    for (auto it = attributes_.begin(); it != attributes_.end(); ++it)
      if (*it != "op" && *it != "args" && *it != "rets" && !add_attribute(it))
        return error("a call with an attribute that the operator has not: " + std::string(*it));
    execution.struct_size = sizeof(execution);
    const twinops_status status = twinops_run(info_->name, arguments_.data(), arguments_.size(),
                                              values_.data(), values_.size(), &execution);
    if (status == TWINOPS_OK) return ffi::Error::Success();
    return {status == TWINOPS_INVALID_ARGUMENT ? ffi::ErrorCode::kInvalidArgument
            : status == TWINOPS_UNSUPPORTED    ? ffi::ErrorCode::kUnimplemented
            : status == TWINOPS_OUT_OF_MEMORY  ? ffi::ErrorCode::kResourceExhausted
                                               : ffi::ErrorCode::kInternal,
            twinops_last_error()};
  }

 private:
  struct Tensors {
    std::deque<std::vector<int64_t>> shapes;  // of words that became fewer
    std::vector<DLTensor> views;
    std::vector<const DLTensor*> pointers;
  };

  static ffi::Error error(const std::string& what) {
    return ffi::Error::InvalidArgument("twinops: " + what);
  }

  const twinops_argument_info* find(std::string_view name) const {
    for (size_t i = 0; i < info_->argument_count; ++i)
      if (name == info_->arguments[i]->name) return info_->arguments[i];
    return nullptr;
  }

  // The buffers that `which` ("args") names; false if it does not name just those that are there.
  template <class Get>
  bool add(std::string_view which, const Get& get, size_t count) {
    const auto text = attributes_.get<std::string_view>(which);
    if (!text) return false;
    std::string_view names = *text;
    size_t at = 0;
    while (!names.empty()) {
      std::string_view name = names.substr(0, names.find(','));
      names.remove_prefix(std::min(names.size(), name.size() + 1));
      size_t n = 1;
      if (const size_t star = name.find('*'); star != name.npos) {
        std::from_chars(name.data() + star + 1, name.data() + name.size(), n);
        name = name.substr(0, star);
      }
      const twinops_argument_info* argument = find(name);
      if (argument == nullptr || n > count - at) return false;
      Tensors& to = tensors_.emplace_back();
      to.views.reserve(n);
      to.pointers.reserve(n);
      for (size_t i = 0; i < n; ++i) {
        const auto buffer = get(at++);
        if (!buffer) return false;
        add_buffer(*argument, *buffer, to);
      }
      arguments_.push_back(TWINOPS_ARGUMENT(argument->name, to.pointers.data(), n));
    }
    return at == count;
  }

  void add_buffer(const twinops_argument_info& argument, ffi::Result<ffi::AnyBuffer> buffer,
                  Tensors& to) {
    add_buffer(argument, *buffer, to);
  }
  void add_buffer(const twinops_argument_info& argument, const ffi::AnyBuffer& buffer,
                  Tensors& to) {
    const auto shape = buffer.dimensions();
    DLTensor view{buffer.untyped_data(),
                  device_,
                  static_cast<int>(shape.size()),
                  to_dlpack(buffer.element_type()),
                  const_cast<int64_t*>(shape.begin()),
                  nullptr,
                  0};
    constexpr DLDataType kWord{kDLUInt, 64, 1};
    if (view.dtype.code == kDLUInt && view.dtype.bits == 32 && view.ndim > 0 &&
        shape.back() % 2 == 0 && !takes(argument, view.dtype) && takes(argument, kWord)) {
      auto& words = to.shapes.emplace_back(shape.begin(), shape.end());
      if ((words.back() /= 2) == 1) words.pop_back();
      view.dtype = kWord;
      view.ndim = static_cast<int>(words.size());
      view.shape = words.data();
    }
    to.views.push_back(view);
    to.pointers.push_back(&to.views.back());
  }

  // Values are asked for by name: in JAX 0.10's headers an iterator's go through an integer.
  bool add_attribute(const ffi::Dictionary::Iterator& it) {
    const twinops_attribute_info* info = nullptr;
    for (size_t i = 0; i < info_->attribute_count && info == nullptr; ++i)
      if (*it == info_->attributes[i]->default_value.name) info = info_->attributes[i];
    if (info == nullptr) return false;
    const char* name = info->default_value.name;
    if (attributes_.isa<bool>(it)) {
      values_.push_back(TWINOPS_BOOL_ATTRIBUTE(name, *attributes_.get<bool>(*it)));
    } else if (attributes_.isa<int64_t>(it)) {
      values_.push_back(TWINOPS_INT_ATTRIBUTE(name, *attributes_.get<int64_t>(*it)));
    } else if (attributes_.isa<double>(it)) {
      values_.push_back(TWINOPS_FLOAT_ATTRIBUTE(name, *attributes_.get<double>(*it)));
    } else if (attributes_.isa<std::string_view>(it)) {
      texts_.emplace_back(*attributes_.get<std::string_view>(*it));
      values_.push_back(TWINOPS_STRING_ATTRIBUTE(name, texts_.back().c_str()));
    } else {
      return false;
    }
    return true;
  }

  DLDevice device_;
  ffi::Dictionary attributes_;
  const twinops_operator_info* info_ = nullptr;
  std::deque<Tensors> tensors_;
  std::deque<std::string> texts_;
  std::vector<twinops_argument> arguments_;
  std::vector<twinops_attribute> values_;
};

ffi::Error run_on_cpu(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                      ffi::Dictionary attributes) {
  twinops_execution execution{};
  execution.parallel_for = &Threads::parallel_for;
  Threads threads(pool);
  execution.parallel_context = &threads;
  return Call({kDLCPU, 0}, attributes).run(args, rets, execution);
}

// May become part of a command buffer, which would write to scratch memory of its first run again
// when that has long been another's: so there is none.
ffi::Error run_on_cuda(void* stream, int32_t device, ffi::RemainingArgs args,
                       ffi::RemainingRets rets, ffi::Dictionary attributes) {
  twinops_execution execution{};
  execution.stream = stream;
  return Call({kDLCUDA, device}, attributes).run(args, rets, execution);
}

ffi::Error run_on_cuda_with_scratch(void* stream, int32_t device, ffi::ScratchAllocator allocator,
                                    ffi::RemainingArgs args, ffi::RemainingRets rets,
                                    ffi::Dictionary attributes) {
  twinops_execution execution{};
  execution.stream = stream;
  Scratch scratch{&allocator};
  execution.allocate = &Scratch::allocate;
  execution.workspace_context = &scratch;
  return Call({kDLCUDA, device}, attributes).run(args, rets, execution);
}

}  // namespace
}  // namespace twinops::jax_host

#pragma GCC visibility push(default)  // XLA's macro leaves the visibility to the compiler's flags
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    twinops_jax_cpu, twinops::jax_host::run_on_cpu,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(twinops_jax_cuda, twinops::jax_host::run_on_cuda,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<void*>>()
                                  .Ctx<xla::ffi::DeviceOrdinal>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs(),
                              {xla::ffi::Traits::kCmdBufferCompatible});
XLA_FFI_DEFINE_HANDLER_SYMBOL(twinops_jax_cuda_with_scratch,
                              twinops::jax_host::run_on_cuda_with_scratch,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<void*>>()
                                  .Ctx<xla::ffi::DeviceOrdinal>()
                                  .Ctx<xla::ffi::ScratchAllocator>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs());
#pragma GCC visibility pop
