#include "hosts/paddle/run.hpp"

#include <paddle/phi/api/include/api.h>

#include <algorithm>
#include <bit>
#include <deque>

#include "hosts/paddle/tensors.hpp"

namespace twinops::paddle_host {
namespace {

using ::paddle::Tensor;
using Shape = std::vector<int64_t>;
using Attributes = std::vector<::paddle::any>;

template <class T>
const T& attribute(const Attributes& attributes, size_t i) {
  const T* value = ::paddle::any_cast<T>(&attributes.at(i));
  PD_CHECK(value != nullptr, "twinops: attribute ", i, " is not of its registered type");
  return *value;
}

// Of an output that may be left out, the type that is asked for; of others "same".
const std::string& asked_type(const Output& output, const Attributes& attributes) {
  static const std::string same = "same";
  if (output.type_attribute < 0) return same;
  return attribute<std::string>(attributes, output.type_attribute);
}

Shape shape_of(const Output& output, Shape shape, const Attributes& attributes) {
  if (output.shape == Output::Shape::one_element) return {1};
  if (output.shape == Output::Shape::last_dimension && !shape.empty())
    shape.back() = attribute<int64_t>(attributes, output.size_attribute);
  const std::string& type = asked_type(output, attributes);
  if (type.empty()) return {0};
  if (type != "uint32") return shape;
  int64_t elements = 1;
  for (const int64_t size : shape) elements = size < 0 || elements < 0 ? -1 : elements * size;
  return {elements < 0 ? -1 : (elements + 31) / 32};
}

phi::DataType type_of(const Output& output, phi::DataType like, const Attributes& attributes) {
  const std::string& type = asked_type(output, attributes);
  if (type.empty() || (type == "same" && output.type.bits == 0)) return like;
  if (type == "same") return to_paddle(output.type);
  for (size_t i = 0; i < output.argument->type_count; ++i)
    if (type == twinops_type_name(output.argument->types[i]))
      return to_paddle(output.argument->types[i]);
  PD_THROW("twinops: ", output.name, "_type: expected \"\" for none, \"same\" or a type of ",
           output.name, "; got \"", type, "\"");
}

// The tensors of a call, one entry an input of the signature: empty if it was left out.
using Inputs = std::vector<std::vector<Tensor>>;

// None comes as a tensor of nothing; a mask that the forward pass left out has no elements.
bool is_left_out(const Tensor& tensor) {
  return !tensor.defined() || !tensor.has_allocation() || tensor.numel() == 0;
}

Inputs take_inputs(const Signature& s, const ::paddle::CustomOpKernelContext& context) {
  Inputs inputs(s.inputs.size());
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    const Input& input = s.inputs[i];
    const bool required = !input.optional && (!input.argument || input.argument->is_required != 0);
    const auto& [begin, end] = context.InputRangeAt(i);
    for (size_t k = begin; k < end; ++k) {
      const Tensor& tensor = context.InputAt(k);
      PD_CHECK(!required || tensor.defined(), "twinops: ", s.info->name, ": ", input.name,
               ": expected a tensor; got None");
      if (required || !is_left_out(tensor)) inputs[i].push_back(tensor);
    }
  }
  return inputs;
}

const Tensor* any_tensor(const Inputs& inputs) {
  for (const auto& list : inputs)
    if (!list.empty()) return &list.front();
  return nullptr;
}

twinops_attribute attribute_of(const Attribute& a, const Attributes& attributes, size_t i) {
  const char* name = a.info->default_value.name;
  switch (a.kind) {
    case TWINOPS_BOOL:
      return TWINOPS_BOOL_ATTRIBUTE(name, attribute<bool>(attributes, i));
    case TWINOPS_INT:
      return TWINOPS_INT_ATTRIBUTE(name, attribute<int64_t>(attributes, i));
    case TWINOPS_FLOAT:
      return TWINOPS_FLOAT_ATTRIBUTE(name,
                                     std::bit_cast<double>(attribute<int64_t>(attributes, i)));
    default:
      return TWINOPS_STRING_ATTRIBUTE(name, attribute<std::string>(attributes, i).c_str());
  }
}

// The tensors that an output is: those that it is in place of, or a new one.
std::vector<Tensor> make_output(const Signature& s, const Output& output, const Inputs& inputs,
                                const Attributes& attributes, const phi::Place& place) {
  if (output.in_place_of >= 0) return inputs[output.in_place_of];
  const std::vector<Tensor>& like = inputs.at(output.like);
  PD_CHECK(!like.empty(), s.info->name, ": ", s.inputs[output.like].name, ": expected a tensor");
  if (output.argument == nullptr) return {::paddle::experimental::assign(like.front())};
  return {::paddle::experimental::empty(shape_of(output, like.front().shape(), attributes),
                                        type_of(output, like.front().dtype(), attributes), place)};
}

// Whether an output has no sums to take: its shape is that of the first one, which is made already.
bool is_copy(const Output& output, const Tensor& tensor, const std::vector<Tensor>& made) {
  return output.shape == Output::Shape::sums_or_copy && tensor.shape().size() > 1 &&
         tensor.shape() == made.front().shape();
}

// Everything that twinops_run takes, and what keeps it alive.
struct Call {
  std::deque<Views> views;
  std::vector<twinops_argument> arguments;
  std::vector<twinops_attribute> attributes;

  void add(const twinops_argument_info& argument, const std::vector<Tensor>& tensors) {
    views.emplace_back(argument);
    for (const Tensor& tensor : tensors) views.back().add(tensor);
    arguments.push_back(TWINOPS_ARGUMENT(argument.name, views.back().data(), tensors.size()));
  }
};

}  // namespace

void run(const Signature& s, ::paddle::CustomOpKernelContext& context) {
  const Inputs inputs = take_inputs(s, context);
  const Tensor* first = any_tensor(inputs);
  PD_CHECK(first != nullptr, s.info->name, ": expected a tensor; got none");
  Call call;
  for (size_t i = 0; i < s.inputs.size(); ++i)
    if (s.inputs[i].argument != nullptr) call.add(*s.inputs[i].argument, inputs[i]);
  const Attributes& attributes = context.Attrs();
  for (size_t i = 0; i < s.attributes.size(); ++i)
    if (s.attributes[i].info != nullptr)
      call.attributes.push_back(attribute_of(s.attributes[i], attributes, i));
  std::vector<Tensor> made;
  std::vector<size_t> copies;  // which of them
  for (const Output& output : s.outputs) {
    const auto tensors = make_output(s, output, inputs, attributes, first->place());
    const bool copy = is_copy(output, tensors.front(), made);
    if (copy) copies.push_back(made.size());
    const bool left_out = copy || asked_type(output, attributes).empty();
    if (output.argument != nullptr)
      call.add(*output.argument, left_out ? std::vector<Tensor>() : tensors);
    if (output.in_place_of < 0) made.push_back(tensors.front());
  }
  Scratch scratch(first->place());
  twinops_execution execution{};
  execution.struct_size = sizeof(execution);
  execution.stream = stream_of(*first);
  execution.allocate = &Scratch::allocate;
  execution.workspace_context = &scratch;
  const twinops_status status =
      twinops_run(s.info->name, call.arguments.data(), call.arguments.size(),
                  call.attributes.data(), call.attributes.size(), &execution);
  PD_CHECK(status == TWINOPS_OK, "twinops: ", twinops_last_error());
  for (const size_t i : copies) made[i] = ::paddle::experimental::assign(made.front());
  context.ValidateAndAssignOutputs(made);
}

std::vector<Shape> infer_shapes(const Signature& s, const std::vector<Shape>& inputs,
                                const std::vector<std::vector<Shape>>& lists,
                                const Attributes& attributes) {
  std::vector<Shape> shapes;
  for (const Output& output : s.outputs) {
    if (output.in_place_of >= 0) continue;
    const auto lists_before = std::count_if(s.inputs.begin(), s.inputs.begin() + output.like,
                                            [](const Input& input) { return input.list; });
    const Shape& like = s.inputs[output.like].list ? lists.at(lists_before).front()
                                                   : inputs.at(output.like - lists_before);
    shapes.push_back(shape_of(output, like, attributes));
  }
  return shapes;
}

std::vector<phi::DataType> infer_types(const Signature& s, const std::vector<phi::DataType>& inputs,
                                       const std::vector<std::vector<phi::DataType>>&,
                                       const Attributes& attributes) {
  std::vector<phi::DataType> types;
  for (const Output& output : s.outputs) {
    if (output.in_place_of >= 0) continue;
    const auto lists_before = std::count_if(s.inputs.begin(), s.inputs.begin() + output.like,
                                            [](const Input& input) { return input.list; });
    types.push_back(type_of(output, inputs.at(output.like - lists_before), attributes));
  }
  return types;
}

}  // namespace twinops::paddle_host
