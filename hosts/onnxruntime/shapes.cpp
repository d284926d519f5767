#include <utility>

#include "hosts/onnxruntime/signature.hpp"

namespace twinops::ort {
namespace {

// A type and a shape, of which dimensions may be names.
struct Known {
  ElementType type = kUndefined;
  std::vector<int64_t> sizes;
  std::vector<const char*> names;
};

Known read(const Api& api, const ShapeInferContext& context, size_t input) {
  Known known;
  TypeAndShape* info = nullptr;
  size_t rank = 0;
  check(api.input(&context, input, &info));
  check(api.element_type(info, &known.type));
  check(api.rank(info, &rank));
  known.sizes.resize(rank);
  known.names.resize(rank, "");
  if (rank == 0) return known;
  check(api.dimensions(info, known.sizes.data(), rank));
  check(api.symbols(info, known.names.data(), rank));
  for (const char*& name : known.names)
    if (name == nullptr) name = "";
  return known;
}

void write(const Api& api, const ShapeInferContext& context, size_t output, Known& known) {
  TypeAndShape* info = nullptr;
  check(api.create(&info));
  const size_t rank = known.sizes.size();
  Status* failed = api.set_type(info, known.type);
  if (failed == nullptr) failed = api.set_dimensions(info, known.sizes.data(), rank);
  if (failed == nullptr) failed = api.set_symbols(info, known.names.data(), rank);
  if (failed == nullptr) failed = api.set_output(&context, output, info);
  api.release(info);
  check(failed);
}

int64_t words_of_bits(const std::vector<int64_t>& sizes) {
  int64_t elements = 1;
  for (const int64_t size : sizes) {
    if (size < 0) return -1;
    elements *= size;
  }
  return (elements + 31) / 32;
}

// The type that the node asks for by name, or what it would have without.
ElementType asked_type(const Api& api, const ShapeInferContext& context, const Output& output,
                       ElementType like) {
  const Attribute* attribute = nullptr;
  if (Status* missing = api.attribute(&context, output.type_attribute.c_str(), &attribute)) {
    api.release(missing);
    return like;
  }
  char name[16] = "";
  check(api.read(attribute, name, sizeof name));
  return output.type_of(name, like);
}

// What the input becomes in the output.
void change(const Api& api, const ShapeInferContext& context, const Output& output, Known& known) {
  if (output.type != kUndefined) known.type = output.type;
  if (!output.type_attribute.empty()) known.type = asked_type(api, context, output, known.type);
  if (output.is_bits()) {
    known.sizes = {words_of_bits(known.sizes)};
    known.names = {""};
  } else if (known.sizes.empty()) {
    return;
  } else if (output.shape == Output::Shape::last) {
    known.sizes = {known.sizes.back()};
    known.names = {known.names.back()};
  } else if (output.shape == Output::Shape::resized) {
    const Attribute* size = nullptr;
    check(api.attribute(&context, output.size, &size));
    check(api.read(size, &known.sizes.back()));
    known.names.back() = "";
  }
}

}  // namespace

void infer_shapes(const Api& api, const Signature& signature, const ShapeInferContext& context,
                  bool checks_outputs) {
  size_t count = 0, at = 0;
  check(api.input_count(&context, &count));
  for (const Output& output : signature.outputs) {
    // Of an output that is like an input which may be left out, ONNX Runtime learns when it runs.
    if (output.argument->is_required == 0 && !(checks_outputs && signature.is_there(output.like))) {
      ++at;
      continue;
    }
    const size_t end = output.argument->is_list != 0 ? count : output.like + 1;
    for (size_t input = output.like; input < end; ++input, ++at) {
      Known known = read(api, context, input);
      change(api, context, output, known);
      try {
        write(api, context, at, known);
      } catch (const Failure& failure) {  // of an output that the node has not
        if (output.argument->is_required != 0) throw;
        api.release(failure.status);
      }
    }
  }
}

}  // namespace twinops::ort
