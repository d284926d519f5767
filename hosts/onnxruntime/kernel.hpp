// A node of a session's graph: its attributes, read once, and its runs.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "hosts/onnxruntime/signature.hpp"

namespace twinops::ort {

class Kernel {
 public:
  Kernel(const Api& api, const KernelInfo& info, const Signature& signature, bool on_cuda);
  void run(KernelContext& context);

 private:
  struct Call;

  template <class T>
  bool read(const KernelInfo& info, const char* name, T& value) const;
  bool read(const KernelInfo& info, const char* name, std::string& text) const;
  void refuse_other_kinds(const KernelInfo& info, const char* name, const char* expected) const;
  void read_attribute(const KernelInfo& info, const twinops_attribute_info& attribute);
  void read_outputs(const KernelInfo& info);
  void add_inputs(KernelContext& context, Call& call) const;
  void add_outputs(KernelContext& context, Call& call) const;
  std::vector<int64_t> shape_of(const Output& output, const std::vector<int64_t>& like,
                                size_t which) const;

  const Api& api_;
  const Signature& signature_;
  const bool on_cuda_;
  std::deque<std::string> texts_;
  std::vector<twinops_attribute> attributes_;
  std::vector<int64_t> sizes_;  // of resized outputs, one an output

  // Of a node with the attribute advance = 1: how far the offset has moved since the session began.
  bool advances_ = false;
  std::mutex mutex_;
  uint64_t words_ = 0;
};

}  // namespace twinops::ort
