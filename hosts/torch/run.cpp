#include "hosts/torch/run.hpp"

#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

#include "hosts/torch/attribute_text.hpp"
#include "hosts/torch/execution.hpp"
#include "hosts/torch/tensors.hpp"

namespace twinops::torch_host {
namespace {

// What an operator has at most (operators/operator.hpp), and a tensor for its shape.
constexpr size_t kMostOperands = 13, kMostArguments = 13, kMostAttributes = 32, kMostResults = 4;

// The tensors of an operand: none of one that is None. One tensor needs no memory of this call's
// own.
struct Tensors {
  AtenTensorHandle handle = nullptr;  // of one tensor, or the first of a list
  DLTensor view;
  const DLTensor* pointer = nullptr;
  size_t count = 0;
  std::vector<AtenTensorHandle> list;
  std::vector<DLTensor> views;
  std::vector<const DLTensor*> pointers;

  void set(AtenTensorHandle tensor) {
    handle = tensor;
    count = 1;
  }
  void look(const twinops_argument_info* argument) {
    if (count == 0) return;
    if (list.empty()) {
      view = view_of(handle, argument);
      pointer = &view;
      return;
    }
    views.reserve(count);
    pointers.reserve(count);
    for (const AtenTensorHandle tensor : list) {
      views.push_back(view_of(tensor, argument));
      pointers.push_back(&views.back());
    }
    view = views.front();
  }
  const DLTensor* const* data() const { return list.empty() ? &pointer : pointers.data(); }
};

bool is_same(const twinops_attribute& a, const twinops_attribute& b) {
  if (a.kind == TWINOPS_STRING) return std::strcmp(a.string_value, b.string_value) == 0;
  return a.int_value == b.int_value &&
         std::bit_cast<uint64_t>(a.float_value) == std::bit_cast<uint64_t>(b.float_value);
}

template <class T>
T* pointer(StableIValue value) {
  return reinterpret_cast<T*>(value);
}

// A call as it is read from the stack. What the stack held is this one's to give back.
class Call {
 public:
  Call(const Signature& s, StableIValue* stack) : s_(s) {
    take_operands(stack, s.operands, inputs_);
    stack = take_attributes(stack + s.operands.size());
    take_operands(stack, s.outputs, outputs_);
  }

  void run(StableIValue* stack) {
    for (size_t i = 0; i < s_.operands.size(); ++i) look(inputs_[i], s_.operands[i].argument);
    for (size_t i = 0; i < s_.outputs.size(); ++i) look(outputs_[i], s_.outputs[i].argument);
    find_device();
    for (size_t i = 0; i < s_.operands.size(); ++i) add_operand(s_.operands[i], inputs_[i]);
    for (size_t i = 0; i < s_.outputs.size(); ++i)
      add_argument(s_.outputs[i].argument, outputs_[i]);
    add_attributes();
    for (size_t i = 0; i < s_.results.size(); ++i) made_[i].set(make(s_.results[i], made_[i]));
    execute(s_.info->name, arguments_, argument_count_, attributes_, attribute_count_, device_);
    for (size_t i = 0; i < s_.results.size(); ++i)
      stack[i] = reinterpret_cast<StableIValue>(handles_.give(made_[i].handle));
  }

 private:
  // A refusal names the operator and the argument.
  void look(Tensors& tensors, const twinops_argument_info* argument) const {
    try {
      tensors.look(argument);
    } catch (const std::runtime_error& error) {
      const std::string name = argument == nullptr ? "" : std::string(argument->name) + ": ";
      throw std::runtime_error(std::string(s_.info->name) + ": " + name + error.what());
    }
  }

  void take_operands(const StableIValue* stack, const std::vector<Operand>& operands,
                     Tensors* taken) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].is_list()) {
        take_list(pointer<StableListOpaque>(stack[i]), taken[i]);
      } else if (!operands[i].is_optional()) {
        taken[i].set(handles_.keep(pointer<AtenTensorOpaque>(stack[i])));
      } else if (auto* inner = pointer<StableIValue>(stack[i]); inner != nullptr) {
        taken[i].set(handles_.keep(pointer<AtenTensorOpaque>(*inner)));
        delete inner;
      }
    }
  }

  void take_list(StableListHandle list, Tensors& taken) {
    check(torch_list_size(list, &taken.count), "a list");
    taken.list.reserve(taken.count);
    handles_.reserve(taken.count);
    for (size_t k = 0; k < taken.count; ++k) {
      StableIValue item = 0;
      check(torch_list_get_item(list, k, &item), "a tensor of a list");
      taken.list.push_back(handles_.keep(pointer<AtenTensorOpaque>(item)));
    }
    if (taken.count != 0) taken.handle = taken.list.front();
    check(torch_delete_list(list), "a list");
  }

  void take_attribute(size_t i, StableIValue given) {
    switch (values_[i].kind) {
      case TWINOPS_BOOL:
        values_[i].int_value = (given & 0xff) != 0;
        break;
      case TWINOPS_INT:
        values_[i].int_value = static_cast<int64_t>(given);
        break;
      case TWINOPS_FLOAT:
        values_[i].float_value = std::bit_cast<double>(given);
        break;
      default:
        values_[i].string_value = take_string(given);
    }
  }

  // Gives what is behind them on the stack.
  StableIValue* take_attributes(StableIValue* stack) {
    for (size_t i = 0; i < s_.attributes.size(); ++i) {
      values_[i] = s_.attributes[i].preset;
      if (!s_.takes_text || s_.attributes[i].is_apart()) take_attribute(i, *stack++);
    }
    if (s_.takes_text) {
      text_ = take_string(*stack++);
      read_text(text_.data(), s_, values_);
    }
    return stack;
  }

  const char* take_string(StableIValue value) {
    const char* text = nullptr;
    check(torch_string_c_str(handles_.keep(pointer<StringOpaque>(value)), &text), "a string");
    return text;
  }

  void see_device(const Tensors& t) {
    const auto see = [&](const DLTensor& view) {
      if (found_ && (device_.device_type != kDLCPU || view.device.device_type == kDLCPU)) return;
      device_ = view.device;
      found_ = true;
    };
    if (t.count == 0) return;
    see(t.view);
    for (const DLTensor& view : t.views) see(view);
  }

  // The device of the call: a GPU if any tensor is on one, lest a stray one on the CPU hide it.
  void find_device() {
    for (size_t i = 0; i < s_.operands.size(); ++i) see_device(inputs_[i]);
    for (size_t i = 0; i < s_.outputs.size(); ++i) see_device(outputs_[i]);
    if (!found_)
      throw std::runtime_error(std::string(s_.info->name) + ": expected a tensor; got none");
  }

  void add_argument(const twinops_argument_info* argument, const Tensors& t) {
    if (argument == nullptr) return;
    arguments_[argument_count_++] = TWINOPS_ARGUMENT(argument->name, t.data(), t.count);
  }

  void add_operand(const Operand& operand, const Tensors& tensors) {
    if (tensors.count == 0 && operand.is_optional()) return;
    if (tensors.count == 1 && becomes_attribute(operand, tensors.view)) return;
    add_argument(operand.argument, tensors);
    if (operand.also != nullptr) add_argument(operand.also, tensors);
  }

  // A number of the host's beside tensors on a GPU, as PyTorch lets it be: "seed_tensor" on the CPU
  // is added to the attribute "seed".
  bool becomes_attribute(const Operand& operand, const DLTensor& view) {
    constexpr std::string_view kTensor = "_tensor";
    if (view.device.device_type != kDLCPU || device_.device_type == kDLCPU ||
        !operand.name.ends_with(kTensor) || view.dtype.bits != 64)
      return false;
    const std::string_view name(operand.name.data(), operand.name.size() - kTensor.size());
    for (int i = 0; i < view.ndim; ++i)
      if (view.shape[i] != 1) return false;
    for (size_t i = 0; i < s_.attributes.size(); ++i) {
      if (s_.attributes[i].name != name || values_[i].kind != TWINOPS_INT) continue;
      uint64_t word = 0;
      std::memcpy(&word, view.data, sizeof word);
      values_[i].int_value =
          static_cast<int64_t>(static_cast<uint64_t>(values_[i].int_value) + word);
      return true;
    }
    return false;
  }

  // What is as the table has it need not be said.
  void add_attributes() {
    for (size_t i = 0; i < s_.attributes.size(); ++i) {
      if (s_.attributes[i].info == nullptr) continue;
      if (!is_same(values_[i], s_.attributes[i].preset))
        attributes_[attribute_count_++] = values_[i];
    }
  }

  // The type that is asked for; bits 0: the result is left out.
  DLDataType type_of(const Result& r, const DLTensor& like) const {
    const DLDataType same = r.type.bits == 0 ? like.dtype : r.type;
    if (r.type_attribute < 0) return same;
    const std::string_view asked = values_[r.type_attribute].string_value;
    if (asked == "same") return same;
    if (asked.empty() && r.is_optional()) return {};
    for (size_t i = 0; i < r.argument->type_count; ++i)
      if (asked == twinops_type_name(r.argument->types[i])) return r.argument->types[i];
    throw std::runtime_error(std::string(s_.info->name) + ": " +
                             s_.attributes[r.type_attribute].name + ": expected \"same\"" +
                             (r.is_optional() ? ", \"\" for none" : "") + " or a type of " +
                             r.argument->name + "; got \"" + std::string(asked) + "\"");
  }

  AtenTensorHandle make_like(const Result& r, DLDataType type) const {
    const Tensors& like = inputs_[r.like];
    const DLTensor& view = like.view;
    if (r.is_optional() && type.code == kDLUInt && type.bits == 32) {
      int64_t elements = 1;
      for (int i = 0; i < view.ndim; ++i) elements *= view.shape[i];
      return empty(view, {(elements + 31) / 32}, type);
    }
    // A mask of bytes lies in the order of the elements, whatever the order of `like` in memory.
    if (r.shape == Result::Shape::dense || (r.is_optional() && type.bits == 8))
      return empty_dense(view, type);
    if (r.shape == Result::Shape::like) return empty_like(like.handle, view, type);
    if (view.ndim == 0)
      throw std::runtime_error(std::string(s_.info->name) + ": " + s_.operands[r.like].name +
                               ": expected a dimension or more; got a scalar");
    std::vector<int64_t> shape(view.shape, view.shape + view.ndim);
    if (r.shape == Result::Shape::row) return empty(view, {shape.back()}, type);
    shape.back() = values_[r.size_attribute].int_value;
    if (shape.back() < 0)
      throw std::runtime_error(std::string(s_.info->name) + ": " +
                               s_.attributes[r.size_attribute].name + ": expected 0 or more; got " +
                               std::to_string(shape.back()));
    return empty(view, shape, type);
  }

  AtenTensorHandle make(const Result& r, Tensors& made) {
    const Tensors& like = inputs_[r.like];
    if (like.count == 0 && !std::string_view(values_[r.type_attribute].string_value).empty())
      throw std::runtime_error(std::string(s_.info->name) + ": " + r.argument->name +
                               ": is asked for, but no " + s_.operands[r.like].name + " is given");
    const DLDataType type = like.count == 0 ? DLDataType{} : type_of(r, like.view);
    if (type.bits == 0) return handles_.keep(empty(inputs_[0].view, {0}, {kDLUInt, 8, 1}));
    made.set(handles_.keep(make_like(r, type)));
    look(made, r.argument);
    add_argument(r.argument, made);
    return made.handle;
  }

  const Signature& s_;
  Handles handles_;
  Tensors inputs_[kMostOperands], outputs_[kMostResults], made_[kMostResults];
  twinops_attribute values_[kMostAttributes];
  std::string text_;  // what values are of strings of it
  twinops_argument arguments_[kMostArguments];
  twinops_attribute attributes_[kMostAttributes];
  size_t argument_count_ = 0, attribute_count_ = 0;
  DLDevice device_{};
  bool found_ = false;
};

}  // namespace

void run(const Signature& signature, StableIValue* stack) {
  Call call(signature, stack);
  call.run(stack);
}

}  // namespace twinops::torch_host
