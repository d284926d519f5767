#include "tools/proof/lists.hpp"

#include "benchmarks/bench.hpp"

namespace bench {
namespace {

std::vector<proof::TensorSpec> same(DLDataType type, std::size_t members, std::int64_t elements) {
  return std::vector<proof::TensorSpec>(members, proof::TensorSpec{type, {elements}});
}

// The same in one buffer.
std::vector<proof::TensorSpec> flat(std::vector<proof::TensorSpec> list) {
  for (std::size_t i = 1; i < list.size(); ++i) list[i].behind = true;
  return list;
}

}  // namespace

std::vector<TimedList> timed_lists(DLDataType type) {
  std::vector<TimedList> lists{
      {"resnet50", proof::tensors_of(proof::shape_list("resnet50"), type), 0, Where::both},
      {"bert_large", proof::tensors_of(proof::shape_list("bert_large"), type), 0, Where::both},
      {"300x1024", same(type, 300, 1024), 0, Where::both},
      {"300x1024_flat", flat(same(type, 300, 1024)), 0, Where::both},
      {"2000x256", same(type, 2000, 256), 0, Where::both},
      {"100000x16", same(type, 100000, 16), 0, Where::both},
      {"1x1", same(type, 1, 1), 0, Where::both},  // what a call costs
      {"1x2^24", same(type, 1, std::int64_t{1} << 24), 0, Where::cpu},
      {"1x2^28", same(type, 1, std::int64_t{1} << 28), 0, Where::cuda}};
  for (TimedList& list : lists) {
    for (const proof::TensorSpec& t : list.tensors) {
      auto bytes = static_cast<std::int64_t>(proof::size_of(type));
      for (const std::int64_t d : t.shape) bytes *= d;
      list.bytes += bytes;
    }
  }
  return lists;
}

}  // namespace bench
