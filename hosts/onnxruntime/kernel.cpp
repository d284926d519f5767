#include "hosts/onnxruntime/kernel.hpp"

#include <cstring>
#include <type_traits>

namespace twinops::ort {

// What a run gives twinops_run, and what keeps it alive.
struct Kernel::Call {
  struct Tensor {
    std::vector<int64_t> shape;
    DLTensor view;
  };

  Call(const Api& functions, KernelContext* of) : api(functions), context(of) {}

  const Api& api;
  KernelContext* context;
  DLDevice device{kDLCPU, 0};
  const MemoryInfo* memory = nullptr;
  std::deque<Tensor> tensors;
  std::deque<std::vector<const DLTensor*>> lists;
  std::vector<std::vector<Tensor*>> inputs;  // of each input of the signature
  std::vector<twinops_argument> arguments;

  Tensor& add(std::vector<int64_t> shape, ElementType type) {
    Tensor& tensor = tensors.emplace_back();
    tensor.shape = std::move(shape);
    tensor.view = {nullptr,
                   device,
                   static_cast<int>(tensor.shape.size()),
                   to_dlpack(type),
                   tensor.shape.data(),
                   nullptr,
                   0};
    return tensor;
  }
  void bind(const twinops_argument_info& argument, const std::vector<Tensor*>& to) {
    auto& pointers = lists.emplace_back();
    for (const Tensor* tensor : to) pointers.push_back(&tensor->view);
    arguments.push_back(TWINOPS_ARGUMENT(argument.name, pointers.data(), pointers.size()));
  }

  static void* allocate(void* self, size_t bytes, void*) {
    const Call& call = *static_cast<Call*>(self);
    void* memory = nullptr;
    if (Status* failed = call.api.scratch(call.context, call.memory, bytes, &memory)) {
      call.api.release(failed);
      return nullptr;
    }
    return memory;
  }

  struct Task {
    void (*task)(void*, int64_t);
    void* context;
    int64_t n;
  };
  static void each(void* self, int64_t n, void (*task)(void*, int64_t), void* context) {
    const Call& call = *static_cast<Call*>(self);
    Task work{task, context, n};
    const auto one = [](void* w, size_t i) {
      const Task& t = *static_cast<Task*>(w);
      t.task(t.context, static_cast<int64_t>(i));
    };
    if (Status* failed =
            call.api.parallel_for(call.context, one, static_cast<size_t>(n), 0, &work)) {
      call.api.release(failed);  // before it began
      for (int64_t i = 0; i < n; ++i) task(context, i);
    }
  }
};

template <class T>
bool Kernel::read(const KernelInfo& info, const char* name, T& value) const {
  if (Status* missing = api_.attribute(&info, name, &value)) {
    api_.release(missing);
    refuse_other_kinds(info, name, std::is_same_v<T, float> ? "a float" : "an int");
    return false;
  }
  return true;
}

// An int in a float's place would be taken for an attribute that is left out.
void Kernel::refuse_other_kinds(const KernelInfo& info, const char* name,
                                const char* expected) const {
  int64_t integer = 0;
  float real = 0;
  size_t size = 0, reals = 0, integers = 0;
  bool is_there = false;
  for (Status* missing : {api_.attribute(&info, name, &integer), api_.attribute(&info, name, &real),
                          api_.attribute(&info, name, static_cast<char*>(nullptr), &size),
                          api_.attribute(&info, name, static_cast<float*>(nullptr), &reals),
                          api_.attribute(&info, name, static_cast<int64_t*>(nullptr), &integers)}) {
    is_there = is_there || missing == nullptr;
    if (missing != nullptr) api_.release(missing);
  }
  if (is_there)
    throw std::invalid_argument(std::string(signature_.info.name) + ": the attribute " + name +
                                ": expected " + expected + "; the node has another kind of value");
}

Kernel::Kernel(const Api& api, const KernelInfo& info, const Signature& signature, bool on_cuda)
    : api_(api), signature_(signature), on_cuda_(on_cuda) {
  for (size_t i = 0; i < signature.info.attribute_count; ++i)
    read_attribute(info, *signature.info.attributes[i]);
  read_outputs(info);
  int64_t advance = 0;
  advances_ = read(info, "advance", advance) && advance != 0;
}

void Kernel::read_attribute(const KernelInfo& info, const twinops_attribute_info& attribute) {
  const char* name = attribute.default_value.name;
  int64_t integer = 0;
  float real = 0;
  switch (attribute.default_value.kind) {
    case TWINOPS_BOOL:
      if (read(info, name, integer))
        attributes_.push_back(TWINOPS_BOOL_ATTRIBUTE(name, integer != 0));
      return;
    case TWINOPS_INT:
      if (read(info, name, integer)) attributes_.push_back(TWINOPS_INT_ATTRIBUTE(name, integer));
      return;
    case TWINOPS_FLOAT:
      if (read(info, name, real)) attributes_.push_back(TWINOPS_FLOAT_ATTRIBUTE(name, real));
      return;
    default:
      break;
  }
  if (std::string text; read(info, name, text)) {
    texts_.push_back(std::move(text));
    attributes_.push_back(TWINOPS_STRING_ATTRIBUTE(name, texts_.back().c_str()));
  }
}

bool Kernel::read(const KernelInfo& info, const char* name, std::string& text) const {
  size_t size = 0;
  if (Status* missing = api_.attribute(&info, name, static_cast<char*>(nullptr), &size)) {
    api_.release(missing);
    refuse_other_kinds(info, name, "a string");
    return false;
  }
  text.resize(size);  // with the closing NUL
  check(api_.attribute(&info, name, text.data(), &size));
  text.resize(std::strlen(text.c_str()));
  return true;
}

void Kernel::read_outputs(const KernelInfo& info) {
  for (const Output& output : signature_.outputs) {
    int64_t& size = sizes_.emplace_back(0);
    if (output.size != nullptr && !read(info, output.size, size))
      throw std::invalid_argument(std::string(signature_.info.name) + ": the attribute " +
                                  output.size + " is missing: the last dimension of " +
                                  output.argument->name);
    // ONNX Runtime has inferred the type, and left it alone where the name was wrong.
    std::string type;
    if (!output.type_attribute.empty() && read(info, output.type_attribute.c_str(), type))
      output.type_of(type, kUndefined);
  }
}

void Kernel::add_inputs(KernelContext& context, Call& call) const {
  size_t count = 0;
  check(api_.input_count(&context, &count));
  call.inputs.resize(signature_.inputs.size());
  for (size_t i = 0; i < count; ++i) {
    const Value* value = nullptr;
    check(api_.input(&context, i, &value));
    if (value == nullptr) continue;  // left out
    TypeAndShape* info = nullptr;
    check(api_.type_and_shape(value, &info));
    size_t rank = 0;
    ElementType type = kUndefined;
    Status* failed = api_.rank(info, &rank);
    std::vector<int64_t> shape(failed == nullptr ? rank : 0);
    if (failed == nullptr) failed = api_.dimensions(info, shape.data(), rank);
    if (failed == nullptr) failed = api_.element_type(info, &type);
    api_.release(info);
    check(failed);
    check(api_.memory_of(value, &call.memory));
    if (on_cuda_) {
      call.device.device_type = kDLCUDA;
      check(api_.device_of(call.memory, &call.device.device_id));
    }
    Call::Tensor& tensor = call.add(std::move(shape), type);
    check(api_.data(const_cast<Value*>(value), &tensor.view.data));
    call.inputs[std::min(i, signature_.inputs.size() - 1)].push_back(&tensor);
  }
  for (size_t i = 0; i < signature_.inputs.size(); ++i)
    if (const auto* argument = signature_.inputs[i].argument) call.bind(*argument, call.inputs[i]);
}

std::vector<int64_t> Kernel::shape_of(const Output& output, const std::vector<int64_t>& like,
                                      size_t which) const {
  if (output.is_bits()) {
    int64_t elements = 1;
    for (const int64_t size : like) elements *= size;
    return {(elements + 31) / 32};
  }
  std::vector<int64_t> shape = like;
  if (output.shape == Output::Shape::last)
    shape.erase(shape.begin(), shape.end() - (like.empty() ? 0 : 1));
  if (output.shape == Output::Shape::resized && !shape.empty()) shape.back() = sizes_[which];
  return shape;
}

void Kernel::add_outputs(KernelContext& context, Call& call) const {
  size_t count = 0, at = 0;
  check(api_.output_count(&context, &count));
  for (size_t i = 0; i < signature_.outputs.size(); ++i) {
    const Output& output = signature_.outputs[i];
    const auto& likes = call.inputs[output.like];
    const size_t wanted = output.argument->is_list != 0 ? likes.size() : 1;
    std::vector<Call::Tensor*> tensors;
    for (size_t k = 0; k < wanted && at < count; ++k, ++at) {
      if (likes.size() <= k)
        throw std::invalid_argument(std::string(signature_.info.name) + ": an input is missing");
      const auto shape = shape_of(output, likes[k]->shape, i);
      Value* value = nullptr;
      check(api_.output(&context, at, shape.data(), shape.size(), &value));
      if (value == nullptr) continue;  // nobody uses it
      TypeAndShape* info = nullptr;
      ElementType type = kUndefined;
      check(api_.type_and_shape(value, &info));
      Status* failed = api_.element_type(info, &type);
      api_.release(info);
      check(failed);
      tensors.push_back(&call.add(shape, type));
      check(api_.data(value, &tensors.back()->view.data));
    }
    call.bind(*output.argument, tensors);
  }
}

void Kernel::run(KernelContext& context) {
  Call call(api_, &context);
  add_inputs(context, call);
  add_outputs(context, call);
  twinops_execution execution{};
  execution.struct_size = sizeof(execution);
  if (on_cuda_) {
    check(api_.stream(&context, &execution.stream));
    execution.allocate = &Call::allocate;
    execution.workspace_context = &call;
  } else {
    execution.parallel_for = &Call::each;
    execution.parallel_context = &call;
  }
  twinops_report report{};
  report.struct_size = sizeof(report);
  execution.report = &report;
  auto attributes = attributes_;
  // Runs of one session may come at once: each takes its own part of the sequence.
  std::unique_lock lock(mutex_, std::defer_lock);
  if (advances_) {
    lock.lock();
    int64_t offset = 0;
    for (const twinops_attribute& a : attributes)
      if (std::strcmp(a.name, "offset") == 0) offset = a.int_value;
    std::erase_if(attributes, [](const auto& a) { return std::strcmp(a.name, "offset") == 0; });
    attributes.push_back(TWINOPS_INT_ATTRIBUTE("offset", offset + static_cast<int64_t>(words_)));
  }
  if (signature_.info.attribute_count != 0 &&
      std::strcmp(signature_.info.name, "check_finite_and_unscale") == 0)
    attributes.push_back(TWINOPS_BOOL_ATTRIBUTE("reset", 1));  // found_inf is new
  const twinops_status status =
      twinops_run(signature_.info.name, call.arguments.data(), call.arguments.size(),
                  attributes.data(), attributes.size(), &execution);
  if (advances_) words_ += report.random_words;
  if (status == TWINOPS_OK) return;
  throw Failure{api_.create_status(status == TWINOPS_INVALID_ARGUMENT ? kInvalidArgument
                                   : status == TWINOPS_UNSUPPORTED    ? kNotImplemented
                                                                      : kFail,
                                   twinops_last_error())};
}

}  // namespace twinops::ort
