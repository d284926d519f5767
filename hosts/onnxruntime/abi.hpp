// The part of ONNX Runtime's C ABI that a library of custom operators needs. ONNX Runtime's
// packages for Python have no headers; its ABI is a table of functions that only grows, so that a
// place in it stands for a function for ever. What is here is of API version 18. Runtimes before
// 1.24 have it too, but refuse, or crash over, inputs and outputs whose types the node says.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twinops::ort {

inline constexpr uint32_t kApiVersion = 18, kOldestRuntime = 24;
// Runtimes before this one write past the end where an output is set that a node has not.
inline constexpr int kChecksOutputs = 28;

struct Status;  // nullptr: success
struct Value;   // a tensor
struct TypeAndShape;
struct MemoryInfo;
struct KernelInfo;
struct KernelContext;
struct SessionOptions;
struct CustomOpDomain;
struct ShapeInferContext;
struct Attribute;

enum ErrorCode : int { kFail = 1, kInvalidArgument = 2, kNotImplemented = 9 };
enum ElementType : int {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16
};
enum Characteristic : int { kRequired = 0, kOptional = 1, kVariadic = 2 };

// The functions, by their places in the table.
struct Api {
  const void* functions[278];

  template <class F>
  F* at(size_t place) const {
    return reinterpret_cast<F*>(const_cast<void*>(functions[place]));
  }

  Status* create_status(ErrorCode code, const char* message) const {
    return at<Status*(ErrorCode, const char*) noexcept>(0)(code, message);
  }
  void release(Status* status) const { at<void(Status*) noexcept>(93)(status); }

  Status* create_domain(const char* name, CustomOpDomain** domain) const {
    return at<Status*(const char*, CustomOpDomain**) noexcept>(26)(name, domain);
  }
  Status* add_op(CustomOpDomain* domain, const struct CustomOp* op) const {
    return at<Status*(CustomOpDomain*, const CustomOp*) noexcept>(27)(domain, op);
  }
  Status* add_domain(SessionOptions* options, CustomOpDomain* domain) const {
    return at<Status*(SessionOptions*, CustomOpDomain*) noexcept>(28)(options, domain);
  }

  Status* data(Value* value, void** data) const {
    return at<Status*(Value*, void**) noexcept>(51)(value, data);
  }
  Status* type_and_shape(const Value* value, TypeAndShape** info) const {
    return at<Status*(const Value*, TypeAndShape**) noexcept>(65)(value, info);
  }
  void release(TypeAndShape* info) const { at<void(TypeAndShape*) noexcept>(99)(info); }
  Status* element_type(const TypeAndShape* info, ElementType* type) const {
    return at<Status*(const TypeAndShape*, ElementType*) noexcept>(60)(info, type);
  }
  Status* rank(const TypeAndShape* info, size_t* rank) const {
    return at<Status*(const TypeAndShape*, size_t*) noexcept>(61)(info, rank);
  }
  Status* dimensions(const TypeAndShape* info, int64_t* sizes, size_t rank) const {
    return at<Status*(const TypeAndShape*, int64_t*, size_t) noexcept>(62)(info, sizes, rank);
  }
  Status* create(TypeAndShape** info) const {
    return at<Status*(TypeAndShape**) noexcept>(57)(info);
  }
  Status* set_type(TypeAndShape* info, ElementType type) const {
    return at<Status*(TypeAndShape*, ElementType) noexcept>(58)(info, type);
  }
  Status* set_dimensions(TypeAndShape* info, const int64_t* sizes, size_t rank) const {
    return at<Status*(TypeAndShape*, const int64_t*, size_t) noexcept>(59)(info, sizes, rank);
  }
  // Names of dimensions that are not known; "" of those that are.
  Status* symbols(const TypeAndShape* info, const char** names, size_t rank) const {
    return at<Status*(const TypeAndShape*, const char**, size_t) noexcept>(63)(info, names, rank);
  }
  Status* set_symbols(TypeAndShape* info, const char** names, size_t rank) const {
    return at<Status*(TypeAndShape*, const char**, size_t) noexcept>(271)(info, names, rank);
  }

  Status* memory_of(const Value* value, const MemoryInfo** memory) const {
    return at<Status*(const Value*, const MemoryInfo**) noexcept>(194)(value, memory);
  }
  Status* device_of(const MemoryInfo* memory, int* id) const {
    return at<Status*(const MemoryInfo*, int*) noexcept>(72)(memory, id);
  }

  Status* attribute(const KernelInfo* info, const char* name, float* value) const {
    return at<Status*(const KernelInfo*, const char*, float*) noexcept>(85)(info, name, value);
  }
  Status* attribute(const KernelInfo* info, const char* name, int64_t* value) const {
    return at<Status*(const KernelInfo*, const char*, int64_t*) noexcept>(86)(info, name, value);
  }
  Status* attribute(const KernelInfo* info, const char* name, char* text, size_t* size) const {
    return at<Status*(const KernelInfo*, const char*, char*, size_t*) noexcept>(87)(info, name,
                                                                                    text, size);
  }
  // `values` may be nullptr: then only their count is asked for.
  Status* attribute(const KernelInfo* info, const char* name, float* values, size_t* count) const {
    return at<Status*(const KernelInfo*, const char*, float*, size_t*) noexcept>(162)(
        info, name, values, count);
  }
  Status* attribute(const KernelInfo* info, const char* name, int64_t* values,
                    size_t* count) const {
    return at<Status*(const KernelInfo*, const char*, int64_t*, size_t*) noexcept>(163)(
        info, name, values, count);
  }

  // While a graph is loaded: what is known of a node's inputs, and what follows for its outputs.
  Status* input_count(const ShapeInferContext* context, size_t* count) const {
    return at<Status*(const ShapeInferContext*, size_t*) noexcept>(267)(context, count);
  }
  // Stays the context's.
  Status* input(const ShapeInferContext* context, size_t i, TypeAndShape** info) const {
    return at<Status*(const ShapeInferContext*, size_t, TypeAndShape**) noexcept>(268)(context, i,
                                                                                       info);
  }
  Status* attribute(const ShapeInferContext* context, const char* name,
                    const Attribute** value) const {
    return at<Status*(const ShapeInferContext*, const char*, const Attribute**) noexcept>(269)(
        context, name, value);
  }
  Status* read(const Attribute* attribute, int64_t* value) const {
    size_t size = 0;
    constexpr int kInt = 1;
    return at<Status*(const Attribute*, int, void*, size_t, size_t*) noexcept>(272)(
        attribute, kInt, value, sizeof(*value), &size);
  }
  // With the closing NUL.
  Status* read(const Attribute* attribute, char* text, size_t room) const {
    size_t size = 0;
    constexpr int kString = 5;
    return at<Status*(const Attribute*, int, void*, size_t, size_t*) noexcept>(272)(
        attribute, kString, text, room, &size);
  }
  Status* set_output(const ShapeInferContext* context, size_t i, const TypeAndShape* info) const {
    return at<Status*(const ShapeInferContext*, size_t, const TypeAndShape*) noexcept>(270)(
        context, i, info);
  }

  Status* input_count(const KernelContext* context, size_t* count) const {
    return at<Status*(const KernelContext*, size_t*) noexcept>(88)(context, count);
  }
  Status* output_count(const KernelContext* context, size_t* count) const {
    return at<Status*(const KernelContext*, size_t*) noexcept>(89)(context, count);
  }
  Status* input(const KernelContext* context, size_t i, const Value** value) const {
    return at<Status*(const KernelContext*, size_t, const Value**) noexcept>(90)(context, i, value);
  }
  // *value is nullptr where nobody uses the output.
  Status* output(KernelContext* context, size_t i, const int64_t* sizes, size_t rank,
                 Value** value) const {
    return at<Status*(KernelContext*, size_t, const int64_t*, size_t, Value**) noexcept>(91)(
        context, i, sizes, rank, value);
  }
  Status* stream(const KernelContext* context, void** stream) const {
    return at<Status*(const KernelContext*, void**) noexcept>(193)(context, stream);
  }
  Status* parallel_for(const KernelContext* context, void (*task)(void*, size_t), size_t n,
                       size_t batches, void* data) const {
    return at<Status*(const KernelContext*, void (*)(void*, size_t), size_t, size_t,
                      void*) noexcept>(274)(context, task, n, batches, data);
  }
  // Lives until the kernel's work on the stream is done.
  Status* scratch(const KernelContext* context, const MemoryInfo* memory, size_t bytes,
                  void** data) const {
    return at<Status*(const KernelContext*, const MemoryInfo*, size_t, void**) noexcept>(277)(
        context, memory, bytes, data);
  }
};

// What a function of ONNX Runtime's did not do: its status goes back to ONNX Runtime.
struct Failure {
  Status* status;
};

inline void check(Status* status) {
  if (status != nullptr) throw Failure{status};
}

struct ApiBase {
  const Api* (*get_api)(uint32_t version) noexcept;  // nullptr if the runtime is older
  const char* (*version)() noexcept;
};

// What a library gives ONNX Runtime of an operator.
struct CustomOp {
  uint32_t version;
  void* (*create_kernel)(const CustomOp*, const Api*, const KernelInfo*);
  const char* (*name)(const CustomOp*);
  const char* (*execution_provider)(const CustomOp*);
  ElementType (*input_type)(const CustomOp*, size_t);
  size_t (*input_type_count)(const CustomOp*);
  ElementType (*output_type)(const CustomOp*, size_t);
  size_t (*output_type_count)(const CustomOp*);
  void (*compute)(void* kernel, KernelContext*);
  void (*destroy)(void* kernel);
  Characteristic (*input_characteristic)(const CustomOp*, size_t);
  Characteristic (*output_characteristic)(const CustomOp*, size_t);
  int (*input_memory_type)(const CustomOp*, size_t);
  int (*variadic_input_minimum)(const CustomOp*);
  int (*variadic_inputs_are_alike)(const CustomOp*);
  int (*variadic_output_minimum)(const CustomOp*);
  int (*variadic_outputs_are_alike)(const CustomOp*);
  Status* (*create_kernel_with_status)(const CustomOp*, const Api*, const KernelInfo*, void**);
  Status* (*compute_with_status)(void* kernel, KernelContext*);
  Status* (*infer_shapes)(const CustomOp*, ShapeInferContext*);
  int (*first_version)(const CustomOp*);
  int (*last_version)(const CustomOp*);
  size_t (*may_be_in_place)(int** input_index, int** output_index);  // nullptr: none, as the rest
  void (*release_may_be_in_place)(int* input_index, int* output_index);
  size_t (*aliases)(int** input_index, int** output_index);
  void (*release_aliases)(int* input_index, int* output_index);
};

}  // namespace twinops::ort
