// Registers every operator of twinops' table with PyTorch, when the plugin is loaded: its schema,
// and one kernel for the CPU and for CUDA. Nothing is listed here: a new operator is registered by
// being in the table. PyTorch wants a function of its own for each operator, without a context, so
// there is a row of kPlaces of them; an operator that found no place would be missed by the Python
// module, which counts. Shapes without computing (Meta) and gradients are the Python module's.
#include <torch/csrc/stable/library.h>

#include <array>
#include <utility>

#include "hosts/torch/run.hpp"

namespace twinops::torch_host {
namespace {

constexpr size_t kPlaces = 160;

const std::vector<Signature>& all_signatures() {
  static const std::vector<Signature> all = [] {
    std::vector<Signature> made;
    for (size_t i = 0; i < twinops_operator_count(); ++i)
      for (Signature& s : signatures(*twinops_operator_at(i)))
        if (made.size() < kPlaces) made.push_back(std::move(s));
    return made;
  }();
  return all;
}

using Kernel = void (*)(StableIValue*, uint64_t, uint64_t);

template <size_t place>
void kernel(StableIValue* stack, uint64_t, uint64_t) {
  static const Signature& signature = all_signatures()[place];
  run(signature, stack);
}

template <size_t... place>
constexpr std::array<Kernel, sizeof...(place)> row_of_kernels(std::index_sequence<place...>) {
  return {&kernel<place>...};
}
constexpr auto kKernels = row_of_kernels(std::make_index_sequence<kPlaces>());

void implement(torch::stable::detail::StableLibrary& library) {
  for (size_t i = 0; i < all_signatures().size(); ++i)
    library.impl(all_signatures()[i].name.c_str(), kKernels[i]);
}

}  // namespace
}  // namespace twinops::torch_host

// The results of an operator of PyTorch's ("softmax"), a line each (describe_results); nullptr if
// there is none of this name. The text lives as long as the process.
extern "C" __attribute__((visibility("default"))) const char* twinops_torch_results(
    const char* name) {
  using namespace twinops::torch_host;
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> made;
    for (const Signature& s : all_signatures()) made.push_back(describe_results(s));
    return made;
  }();
  for (size_t i = 0; i < texts.size(); ++i)
    if (all_signatures()[i].name == name) return texts[i].c_str();
  return nullptr;
}

STABLE_TORCH_LIBRARY(twinops, library) {
  for (const auto& s : twinops::torch_host::all_signatures()) library.def(s.schema.c_str());
}
STABLE_TORCH_LIBRARY_IMPL(twinops, CPU, library) { twinops::torch_host::implement(library); }
STABLE_TORCH_LIBRARY_IMPL(twinops, CUDA, library) { twinops::torch_host::implement(library); }
