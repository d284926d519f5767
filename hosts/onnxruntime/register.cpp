// RegisterCustomOps, which ONNX Runtime looks up in a library of custom operators: every operator
// of twinops' table in the domain "twinops", for the providers of CPUs and of CUDA.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>

#include "hosts/onnxruntime/kernel.hpp"

namespace twinops::ort {
namespace {

const Api* the_api = nullptr;
bool checks_outputs = false;

struct Op : CustomOp {
  Signature signature;
  bool on_cuda;

  Op(const twinops_operator_info& info, bool cuda) : CustomOp{}, signature(info), on_cuda(cuda) {
    version = kApiVersion;
    CustomOp::name = [](const CustomOp* op) { return self(op).signature.info.name; };
    execution_provider = [](const CustomOp* op) {
      return self(op).on_cuda ? "CUDAExecutionProvider" : "CPUExecutionProvider";
    };
    input_type_count = [](const CustomOp* op) { return self(op).signature.inputs.size(); };
    input_type = [](const CustomOp* op, size_t i) {
      const auto* argument = self(op).signature.inputs[i].argument;
      return argument != nullptr && argument->type_count == 1 ? to_onnx(argument->types[0])
                                                              : kUndefined;
    };
    input_characteristic = [](const CustomOp* op, size_t i) {
      const auto* argument = self(op).signature.inputs[i].argument;
      return argument == nullptr ? kRequired : characteristic(*argument);
    };
    input_memory_type = [](const CustomOp*, size_t) { return 0; };  // the provider's own
    output_type_count = [](const CustomOp* op) { return self(op).signature.outputs.size(); };
    output_type = [](const CustomOp* op, size_t i) { return self(op).signature.outputs[i].type; };
    output_characteristic = [](const CustomOp* op, size_t i) {
      return characteristic(*self(op).signature.outputs[i].argument);
    };
    variadic_input_minimum = variadic_output_minimum = [](const CustomOp*) { return 1; };
    variadic_inputs_are_alike = variadic_outputs_are_alike = [](const CustomOp*) { return 0; };
    CustomOp::infer_shapes = [](const CustomOp* op, ShapeInferContext* context) {
      return guarded(*the_api, [&] {
        ort::infer_shapes(*the_api, self(op).signature, *context, checks_outputs);
      });
    };
    first_version = [](const CustomOp*) { return 1; };
    last_version = [](const CustomOp*) { return 0x7fffffff; };
    create_kernel_with_status = [](const CustomOp* op, const Api* api, const KernelInfo* info,
                                   void** kernel) {
      return guarded(
          *api, [&] { *kernel = new Kernel(*api, *info, self(op).signature, self(op).on_cuda); });
    };
    compute_with_status = [](void* kernel, KernelContext* context) {
      return guarded(*the_api, [&] { static_cast<Kernel*>(kernel)->run(*context); });
    };
    destroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
  }

  static const Op& self(const CustomOp* op) { return *static_cast<const Op*>(op); }

  static Characteristic characteristic(const twinops_argument_info& argument) {
    if (argument.is_list != 0) return kVariadic;
    return argument.is_required != 0 ? kRequired : kOptional;
  }

  template <class Work>
  static Status* guarded(const Api& api, Work&& work) {
    try {
      work();
      return nullptr;
    } catch (const Failure& failure) {
      return failure.status;
    } catch (const std::invalid_argument& error) {
      return api.create_status(kInvalidArgument, error.what());
    } catch (const std::exception& error) {
      return api.create_status(kFail, error.what());
    }
  }
};

// They are used by sessions, which may live to the end of the process.
std::deque<Op>& all_ops() {
  static auto& ops = *[] {
    auto* made = new std::deque<Op>;
    for (size_t i = 0; i < twinops_operator_count(); ++i)
      for (const bool cuda : {false, true}) made->emplace_back(*twinops_operator_at(i), cuda);
    return made;
  }();
  return ops;
}

Status* add_to(SessionOptions* options) {
  // A domain may be added to many options; it stays for the process.
  static CustomOpDomain* domain = nullptr;
  if (domain == nullptr) {
    CustomOpDomain* made = nullptr;
    if (Status* failed = the_api->create_domain("twinops", &made)) return failed;
    for (const Op& op : all_ops())
      if (Status* failed = the_api->add_op(made, &op)) return failed;
    domain = made;
  }
  return the_api->add_domain(options, domain);
}

}  // namespace
}  // namespace twinops::ort

extern "C" __attribute__((visibility("default"))) twinops::ort::Status* RegisterCustomOps(
    twinops::ort::SessionOptions* options, const twinops::ort::ApiBase* base) {
  using namespace twinops::ort;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const Api* api = base->get_api(kOldestRuntime);
  if (api == nullptr) {
    // A runtime that is older has version 1 of the table, which can say so.
    const Api* oldest = base->get_api(1);
    return oldest == nullptr
               ? nullptr
               : oldest->create_status(kNotImplemented, "twinops needs ONNX Runtime 1.24 or later");
  }
  the_api = api;
  const char* minor = std::strchr(base->version(), '.');  // of "1.32.0"
  checks_outputs = minor != nullptr && std::atoi(minor + 1) >= kChecksOutputs;
  return add_to(options);
}
