// Plans and makes the launches for a list of tensors: one for each element type, as long as its
// members fit the kernel's parameters, and one for each strided member.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels_cuda/common/launch.cuh"
#include "kernels_cuda/loss_scaling/multi_tensor_blocks.cuh"
#include "operators/execution.hpp"
#include "operators/tensor_list.hpp"

namespace twinops {

// Kernel parameters hold 32764 bytes from CUDA 12.1 on (compute capability 7.0), 4096 before.
#if CUDART_VERSION >= 12010
inline constexpr int kListBytes = 31488;
#else
inline constexpr int kListBytes = 2816;
#endif
// A short list has short parameters.
inline constexpr int kFewBytes = kSmallParameters, kSomeBytes = 2560,
                     kManyBytes = std::min(5120, kListBytes);
inline constexpr std::uint32_t kMostPacks = 1u << 31;  // of a launch

// A strided member: an element a thread, at 64-bit offsets.
template <class T, class Body>
__global__ void __launch_bounds__(kListThreads)
    strided_kernel(const T* x, T* out, std::int64_t n, const __grid_constant__ Layout<2> layout,
                   const __grid_constant__ Body body) {
  auto state = body.begin();
  if (body.idle(state)) return;
  body.prepare(state);
  const std::int64_t step = std::int64_t{gridDim.x} * kListThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kListThreads + threadIdx.x; i < n; i += step) {
    std::int64_t rest = i, from = 0, to = 0;
    for (int axis = layout.rank - 1; axis >= 0; --axis) {
      const std::int64_t index = rest % layout.size[axis];
      rest /= layout.size[axis];
      to += index * layout.stride[0][axis];
      from += index * layout.stride[1][axis];
    }
    out[to] = body.element(state, x[from]);
  }
  body.end(state);
}

// Launches over a list, and over a strided tensor. (Functions of their own, for in the code that it
// makes for the host nvcc spells a kernel's types as they were found.)
template <class T, class Body, class List>
void launch_stretch_kernel(const Body& body, const List& list, unsigned blocks, unsigned threads,
                           void* stream) {
  launch_grid("launch over a list of tensors", stretch_kernel<T, Body, List>, blocks, threads, 0,
              stream, body, list);
}
template <class T, int Unroll, class Body, class List>
void launch_list_kernel(const Body& body, const List& list, unsigned blocks, void* stream) {
  launch_grid("launch over a list of tensors", list_kernel<T, Unroll, Body, List>, blocks,
              kListThreads, 0, stream, body, list);
}
template <class T, class Body>
void launch_strided_kernel(const TensorList::Strided& m, const Body& body, void* stream) {
  const std::int64_t blocks = (m.elements + kListThreads - 1) / kListThreads;
  launch_grid("launch over a strided tensor", strided_kernel<T, Body>,
              static_cast<unsigned>(std::min<std::int64_t>(blocks, 1 << 20)), kListThreads, 0,
              stream, static_cast<const T*>(m.x), static_cast<T*>(m.out), m.elements, m.layout,
              body);
}

// Collects members of type T and launches whenever the parameters are full. make_body(): the body
// of the next launch.
template <class T, class MakeBody>
class ListLaunch {
 public:
  ListLaunch(MakeBody& make_body, const TensorList& list, Execution& execution)
      : make_body_(make_body), in_place_(list.in_place()), execution_(execution) {
    const std::size_t most = std::min<std::size_t>(list.dense_count(), kListBytes / sizeof(char*));
    x_.reserve(most);
    out_.reserve(most);
    starts_.reserve(most);
    edges_.reserve(most);
  }

  void add(const void* x, void* out, std::int64_t elements) {
    constexpr std::int64_t kElements = kPackElements<T>;
    const auto misalignment = [](const void* p) {
      return static_cast<int>(reinterpret_cast<std::uintptr_t>(p) % kPackBytes / sizeof(T));
    };
    const bool apart = misalignment(x) != misalignment(out);
    const int head = apart ? 0 : misalignment(x);
    const std::int64_t end = elements + head, packs = (end + kElements - 1) / kElements;
    const auto tail = static_cast<int>(end - (packs - 1) * kElements);
    auto from = static_cast<const char*>(x) - head * sizeof(T);
    auto to = static_cast<char*>(out) - head * sizeof(T);
    for (std::int64_t first = 0; first < packs; first += kMostPacks) {
      const auto n = static_cast<std::uint32_t>(std::min<std::int64_t>(packs - first, kMostPacks));
      if (full(n)) flush();
      starts_.push_back(packs_);
      x_.push_back(from + first * kPackBytes);
      out_.push_back(to + first * kPackBytes);
      edges_.push_back(
          Edge::of(first == 0 ? head : 0, first + n == packs ? tail : kElements, apart));
      packs_ += n;
    }
  }

  void flush() {
    if (x_.empty()) return;
    if (launch_stretches()) return clear();
    const std::size_t bytes = bytes_for(x_.size());
    if (bytes <= kFewBytes)
      launch<kFewBytes>();
    else if (bytes <= kManyBytes)
      launch<kManyBytes>();
    else
      launch<kListBytes>();
    clear();
  }

 private:
  void clear() {
    x_.clear();
    out_.clear();
    starts_.clear();
    edges_.clear();
    packs_ = 0;
  }

  std::uint32_t packs_of(std::size_t member) const {
    return (member + 1 < x_.size() ? starts_[member + 1] : packs_) - starts_[member];
  }

  // Launches a block a stretch, if the parameters hold them all.
  bool launch_stretches() {
    std::size_t blocks = 0;
    std::uint32_t most = 1;  // packs of a stretch
    for (std::size_t i = 0; i < x_.size(); ++i) {
      if (!PackRun::can_tell(x_[i], edges_[i])) return false;
      blocks += MemberList<true>::blocks_for(packs_of(i));
      most = std::max(most, std::min<std::uint32_t>(packs_of(i), kListThreads));
    }
    const unsigned threads = (most + 31) / 32 * 32;
    return in_place_ ? launch_stretches<true>(blocks, threads)
                     : launch_stretches<false>(blocks, threads);
  }
  template <bool kInPlace>
  bool launch_stretches(std::size_t blocks, unsigned threads) {
    if (blocks == 0) return false;
    if (x_.size() <= MemberList<kInPlace>::kMost &&
        blocks <= StretchList<kListBytes, kInPlace>::kMost)
      launch_members<kInPlace>(threads);
    else if (blocks <= StretchList<kFewBytes, kInPlace>::kMost)
      launch_stretches(StretchList<kFewBytes, kInPlace>(), threads);
    else if (blocks <= StretchList<kSomeBytes, kInPlace>::kMost)
      launch_stretches(StretchList<kSomeBytes, kInPlace>(), threads);
    else if (blocks <= StretchList<kManyBytes, kInPlace>::kMost)
      launch_stretches(StretchList<kManyBytes, kInPlace>(), threads);
    else if (blocks <= StretchList<kListBytes, kInPlace>::kMost)
      launch_stretches(StretchList<kListBytes, kInPlace>(), threads);
    else
      return false;
    return true;
  }
  template <int Bytes, bool kInPlace>
  void launch_stretches(StretchList<Bytes, kInPlace>&& list, unsigned threads) {
    unsigned blocks = 0;
    for (std::size_t i = 0; i < x_.size(); ++i)
      for (std::uint32_t first = 0, packs = packs_of(i); first < packs; first += kListThreads) {
        const std::uint32_t n = std::min<std::uint32_t>(packs - first, kListThreads);
        const Edge edge = Edge::of(first == 0 ? edges_[i].head() : 0,
                                   first + n == packs ? edges_[i].tail() : kPackElements<T>, false);
        const std::size_t bytes = first * std::size_t{kPackBytes};
        Stretch<kInPlace>& s = list.blocks[blocks++];
        s.run = PackRun(const_cast<char*>(x_[i]) + bytes, n, edge);
        if constexpr (!kInPlace) s.out = out_[i] + bytes;
      }
    launch_stretch_kernel<T>(make_body_(), list, blocks, threads, execution_.stream);
    ++execution_.launches;
  }

  template <bool kInPlace>
  void launch_members(unsigned threads) {
    MemberList<kInPlace> list;
    for (std::size_t i = 0; i < x_.size(); ++i) list.add(x_[i], out_[i], packs_of(i), edges_[i]);
    launch_stretch_kernel<T>(make_body_(), list, list.blocks(), threads, execution_.stream);
    ++execution_.launches;
  }

  std::size_t bytes_for(std::size_t m) const {
    return m * ((in_place_ ? 1 : 2) * sizeof(char*) + sizeof(Edge)) +
           (m + 1) * sizeof(std::uint32_t);
  }
  bool full(std::uint32_t packs) const {
    return bytes_for(x_.size() + 1) > kListBytes || packs_ > kMostPacks - packs;
  }

  template <int Bytes>
  void launch() {
    if (packs_ <= kFewPacks)  // more blocks beat more loads a thread
      launch<Bytes, 1>();
    else
      launch<Bytes, 4>();
  }

  template <int Bytes, int Unroll>
  void launch() {
    constexpr std::uint32_t kPacks = Window<Unroll>::kPacks;
    const std::uint32_t blocks = std::max(1u, (packs_ + kPacks - 1) / kPacks);
    PackedList<Bytes> list;
    fill(list);
    fill_buckets(list, kPacks, blocks);
    launch_list_kernel<T, Unroll>(make_body_(), list, blocks, execution_.stream);
    ++execution_.launches;
  }

  template <int Bytes>
  void fill(PackedList<Bytes>& list) const {
    const std::size_t m = x_.size();
    list.members = static_cast<std::uint32_t>(m);
    list.packs = packs_;
    list.out_at = static_cast<std::uint16_t>(in_place_ ? 0 : m * sizeof(char*));
    list.starts_at = static_cast<std::uint16_t>(list.out_at + m * sizeof(char*));
    list.edges_at = static_cast<std::uint16_t>(list.starts_at + (m + 1) * sizeof(std::uint32_t));
    const auto put = [&](std::size_t at, const auto& values) {
      std::memcpy(list.bytes + at, values.data(), values.size() * sizeof(values[0]));
    };
    put(0, x_);
    put(list.out_at, out_);
    put(list.starts_at, starts_);
    std::memcpy(list.bytes + list.starts_at + m * sizeof(packs_), &packs_, sizeof(packs_));
    put(list.edges_at, edges_);
  }

  template <int Bytes>
  void fill_buckets(PackedList<Bytes>& list, std::uint32_t kPacks, std::uint32_t blocks) const {
    list.bucket_shift = 0;
    while ((blocks - 1) >> list.bucket_shift >= kListBuckets) ++list.bucket_shift;
    const std::uint64_t step = std::uint64_t{kPacks} << list.bucket_shift;
    std::uint16_t member = 0;
    for (int b = 0; b <= kListBuckets; ++b) {
      while (member + 1u < starts_.size() && starts_[member + 1] <= b * step) ++member;
      list.first_member[b] = member;
      if (b * step >= packs_) {
        std::fill(list.first_member + b, std::end(list.first_member), member);
        break;
      }
    }
  }

  MakeBody& make_body_;
  const bool in_place_;
  Execution& execution_;
  std::vector<const char*> x_;
  std::vector<char*> out_;
  std::vector<std::uint32_t> starts_;
  std::vector<Edge> edges_;
  std::uint32_t packs_ = 0;
};

// Every launch for the members of type T.
template <class T, class MakeBody>
void launch_type(const TensorList& list, Type type, Execution& execution, MakeBody&& make_body) {
  ListLaunch<T, std::remove_reference_t<MakeBody>> launch(make_body, list, execution);
  list.for_each_run(0, list.elements(),
                    [&](Type of_run, const void* x, void* out, std::int64_t elements) {
                      if (of_run == type) launch.add(x, out, elements);
                    });
  launch.flush();
  for (const TensorList::Strided& m : list.strided()) {
    if (m.type != type) continue;
    launch_strided_kernel<T>(m, make_body(), execution.stream);
    ++execution.launches;
  }
}

// Every launch for a list. make_body(tag of T): the body of the next launch, for elements of type
// T.
template <class MakeBody>
void launch_list(const TensorList& list, Execution& execution, MakeBody&& make_body) {
  for (Type type : {Type::float16, Type::bfloat16, Type::float32, Type::float64}) {
    if (!list.has(type)) continue;
    with_floating_type(type, [&]<class T>(TypeTag<T> tag) {
      launch_type<T>(list, type, execution, [&] { return make_body(tag); });
    });
  }
}

}  // namespace twinops
