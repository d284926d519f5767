#include "hosts/paddle/run.hpp"

#include <paddle/phi/api/include/api.h>

#include <algorithm>
#include <string_view>

#include "hosts/paddle/errors.hpp"
#include "hosts/paddle/tensors.hpp"
#include "hosts/paddle/threads.hpp"

namespace twinops::paddle_host {
namespace {

using ::paddle::Tensor;

// Of an output that may be left out, the type that is asked for; of others "same".
std::string_view asked_type(const Output& output, const Values& values) {
  return output.type_attribute < 0 ? "same" : values[output.type_attribute].string_value;
}

Shape shape_of(const Output& output, Shape shape, const Values& values) {
  if (output.shape == Output::Shape::one_element) return {1};
  if (output.shape == Output::Shape::last_dimension && !shape.empty())
    shape.back() = values[output.size_attribute].int_value;
  const std::string_view type = asked_type(output, values);
  if (type.empty()) return {0};
  if (type != "uint32") return shape;
  int64_t elements = 1;
  for (const int64_t size : shape) elements = size < 0 || elements < 0 ? -1 : elements * size;
  return {elements < 0 ? -1 : (elements + 31) / 32};
}

phi::DataType type_of(const Output& output, phi::DataType like, const Values& values) {
  const std::string_view type = asked_type(output, values);
  if (type.empty() || (type == "same" && output.type.bits == 0)) return like;
  if (type == "same") return to_paddle(output.type);
  for (size_t i = 0; i < output.argument->type_count; ++i)
    if (type == twinops_type_name(output.argument->types[i]))
      return to_paddle(output.argument->types[i]);
  refuse(output.name, "_type: expected \"\" for none, \"same\" or a type of ", output.name,
         "; got \"", type, "\"");
}

// The arguments that twinops_run takes, and what keeps them alive.
class Arguments {
 public:
  Arguments(size_t most_arguments, size_t most_tensors) {
    list_.reserve(most_arguments);
    views_.reserve(most_tensors);  // what is pointed to stays where it is
    pointers_.reserve(most_tensors);
  }
  void begin(const twinops_argument_info& argument) {
    list_.push_back(TWINOPS_ARGUMENT(argument.name, pointers_.data() + pointers_.size(), 0));
  }
  void add(const twinops_argument_info& argument, const Tensor& tensor) {
    views_.push_back(view_of(tensor, argument));
    pointers_.push_back(&views_.back());
    ++list_.back().count;
  }
  const std::vector<twinops_argument>& list() const { return list_; }

 private:
  std::vector<DLTensor> views_;
  std::vector<const DLTensor*> pointers_;
  std::vector<twinops_argument> list_;
};

Tensor make_output(const Output& output, const Tensor& like, const Values& values) {
  if (output.argument == nullptr) return ::paddle::experimental::assign(like);
  return empty(shape_of(output, like.shape(), values), type_of(output, like.dtype(), values),
               like.place());
}

// Whether an output has no sums to take: its shape is that of the first one, which is made already.
bool is_copy(const Output& output, const Tensor& tensor, const std::vector<Tensor>& made) {
  return output.shape == Output::Shape::sums_or_copy && tensor.shape().size() > 1 &&
         tensor.shape() == made.front().shape();
}

std::vector<twinops_attribute> passed_on(const Signature& s, const Values& values) {
  std::vector<twinops_attribute> attributes;
  for (size_t i = 0; i < values.size(); ++i)
    if (s.attributes[i].info != nullptr) attributes.push_back(values[i]);
  return attributes;
}

void launch(const Signature& s, const Arguments& arguments, const Values& values,
            const Tensor& first) {
  const std::vector<twinops_attribute> attributes = passed_on(s, values);
  Scratch scratch(first.place());
  twinops_execution execution{};
  execution.struct_size = sizeof(execution);
  execution.stream = stream_of(first);
  execution.allocate = &Scratch::allocate;
  execution.workspace_context = &scratch;
  lend_threads(execution);
  check(twinops_run(s.info->name, arguments.list().data(), arguments.list().size(),
                    attributes.data(), attributes.size(), &execution));
}

}  // namespace

bool is_left_out(const Input& input, const Tensor& tensor) {
  return !tensor.defined() || (input.may_be_empty && tensor.numel() == 0);
}

Values default_values(const Signature& s) {
  Values values;
  for (const Attribute& a : s.attributes) {
    if (a.info != nullptr)
      values.push_back(a.info->default_value);
    else if (a.kind == TWINOPS_STRING)
      values.push_back(TWINOPS_STRING_ATTRIBUTE(a.name.c_str(), ""));
    else
      values.push_back(TWINOPS_INT_ATTRIBUTE(a.name.c_str(), 0));
  }
  return values;
}

std::vector<Tensor> run(const Signature& s, const Inputs& inputs, const Values& values) {
  if (inputs.tensors.empty()) refuse(s.info->name, ": expected a tensor; got none");
  const Tensor& first = *inputs.tensors.front();
  // An input may be written in place as well.
  Arguments arguments(s.inputs.size() + s.outputs.size(),
                      2 * inputs.tensors.size() + s.outputs.size());
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    if (s.inputs[i].argument == nullptr) continue;
    arguments.begin(*s.inputs[i].argument);
    for (size_t k = inputs.begin[i]; k < inputs.begin[i + 1]; ++k)
      arguments.add(*s.inputs[i].argument, *inputs.tensors[k]);
  }
  std::vector<Tensor> made;
  made.reserve(s.outputs.size());  // views point into them
  std::vector<size_t> copies;      // which of them
  for (const Output& output : s.outputs) {
    if (output.argument != nullptr) arguments.begin(*output.argument);
    if (const int source = output.in_place_of; source >= 0) {
      for (size_t k = inputs.begin[source]; k < inputs.begin[source + 1]; ++k)
        arguments.add(*output.argument, *inputs.tensors[k]);
      continue;
    }
    if (inputs.count(output.like) == 0)
      refuse(s.info->name, ": ", s.inputs[output.like].name, ": expected a tensor; got none");
    made.push_back(make_output(output, inputs.first(output.like), values));
    const bool copy = is_copy(output, made.back(), made);
    if (copy) copies.push_back(made.size() - 1);
    if (!copy && output.argument != nullptr && !asked_type(output, values).empty())
      arguments.add(*output.argument, made.back());
  }
  launch(s, arguments, values, first);
  for (const size_t i : copies) made[i] = ::paddle::experimental::assign(made.front());
  return made;
}

std::vector<Shape> infer_shapes(const Signature& s, const std::vector<Shape>& inputs,
                                const std::vector<std::vector<Shape>>& lists,
                                const Values& values) {
  std::vector<Shape> shapes;
  for (const Output& output : s.outputs) {
    if (output.in_place_of >= 0) continue;
    const size_t before = s.lists_before(output.like);
    const Shape& like =
        s.inputs[output.like].list ? lists.at(before).front() : inputs.at(output.like - before);
    shapes.push_back(shape_of(output, like, values));
  }
  return shapes;
}

Types infer_types(const Signature& s, const Types& inputs, const Values& values) {
  Types types;
  for (const Output& output : s.outputs)
    if (output.in_place_of < 0)
      types.push_back(
          type_of(output, inputs.at(output.like - s.lists_before(output.like)), values));
  return types;
}

}  // namespace twinops::paddle_host
