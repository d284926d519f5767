// Plans and makes the launches for a list of tensors: one for each element type, as long as its
// tensors fit the kernel's parameters, and one for each strided tensor.
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

// The bytes that kernel parameters may take: 32764 from CUDA 12.1 on (compute capability 7.0 and
// up), 4096 before.
#if CUDART_VERSION >= 12010
inline constexpr int kMultiTensorBytes = 31488;
#else
inline constexpr int kMultiTensorBytes = 2816;
#endif
// Sizes of parameters: few tensors take few bytes.
inline constexpr int kSmallBytes = kSmallParameters, kMediumBytes = 2560,
                     kLargeBytes = std::min(5120, kMultiTensorBytes);
inline constexpr std::uint32_t kMostVectors = 1u << 31;  // of a launch

// A strided tensor, an element a thread, with 64-bit offsets.
template <class T, class Body>
__global__ void __launch_bounds__(kMultiTensorThreads)
    strided_kernel(const T* x, T* out, std::int64_t n, const __grid_constant__ Layout<2> layout,
                   const __grid_constant__ Body body) {
  auto state = body.begin();
  if (body.idle(state)) return;
  body.prepare(state);
  const std::int64_t step = std::int64_t{gridDim.x} * kMultiTensorThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kMultiTensorThreads + threadIdx.x; i < n;
       i += step) {
    std::int64_t rest = i, from = 0, to = 0;
    for (int axis = layout.rank - 1; axis >= 0; --axis) {
      const std::int64_t index = rest % layout.size[axis];
      rest /= layout.size[axis];
      to += index * layout.stride[TensorList::Strided::kOut][axis];
      from += index * layout.stride[TensorList::Strided::kX][axis];
    }
    out[to] = body.element(state, x[from]);
  }
  body.end(state);
}

// The launches themselves. They are functions of their own because nvcc writes a kernel's types
// into its host code as it finds them.
template <class T, class Body, class Args>
void launch_block_span_kernel(const Body& body, const Args& args, unsigned blocks, unsigned threads,
                              void* stream) {
  launch_grid("launch of a multi-tensor kernel", block_span_kernel<T, Body, Args>, blocks, threads,
              0, stream, body, args);
}
template <class T, int Unroll, class Body, class Args>
void launch_multi_tensor_kernel(const Body& body, const Args& args, unsigned blocks, void* stream) {
  launch_grid("launch of a multi-tensor kernel", multi_tensor_kernel<T, Unroll, Body, Args>, blocks,
              kMultiTensorThreads, 0, stream, body, args);
}
template <class T, class Body>
void launch_strided_kernel(const TensorList::Strided& m, const Body& body, void* stream) {
  const std::int64_t blocks = (m.elements + kMultiTensorThreads - 1) / kMultiTensorThreads;
  launch_grid("launch over a strided tensor", strided_kernel<T, Body>,
              static_cast<unsigned>(std::min<std::int64_t>(blocks, 1 << 20)), kMultiTensorThreads,
              0, stream, static_cast<const T*>(m.x), static_cast<T*>(m.out), m.elements, m.layout,
              body);
}

// Collects tensors of type T, and launches whenever the parameters are full. make_body(): the body
// of the next launch.
template <class T, class MakeBody>
class MultiTensorLaunch {
 public:
  MultiTensorLaunch(MakeBody& make_body, const TensorList& list, Execution& execution)
      : make_body_(make_body), in_place_(list.in_place()), execution_(execution) {
    const std::size_t most =
        std::min<std::size_t>(list.dense_count(), kMultiTensorBytes / sizeof(char*));
    x_.reserve(most);
    out_.reserve(most);
    starts_.reserve(most);
    tensor_ends_.reserve(most);
  }

  void add(const void* x, void* out, std::int64_t elements) {
    constexpr std::int64_t kElements = kVectorElements<T>;
    const auto misalignment = [](const void* p) {
      return static_cast<int>(reinterpret_cast<std::uintptr_t>(p) % kVectorBytes / sizeof(T));
    };
    const bool misaligned = misalignment(x) != misalignment(out);
    const int head = misaligned ? 0 : misalignment(x);
    const std::int64_t end = elements + head, vectors = (end + kElements - 1) / kElements;
    const auto tail = static_cast<int>(end - (vectors - 1) * kElements);
    auto from = static_cast<const char*>(x) - head * sizeof(T);
    auto to = static_cast<char*>(out) - head * sizeof(T);
    for (std::int64_t first = 0; first < vectors; first += kMostVectors) {
      const auto n =
          static_cast<std::uint32_t>(std::min<std::int64_t>(vectors - first, kMostVectors));
      if (full(n)) flush();
      starts_.push_back(vectors_);
      x_.push_back(from + first * kVectorBytes);
      out_.push_back(to + first * kVectorBytes);
      tensor_ends_.push_back(TensorEnds::of(first == 0 ? head : 0,
                                            first + n == vectors ? tail : kElements, misaligned));
      vectors_ += n;
    }
  }

  void flush() {
    if (x_.empty()) return;
    if (launch_block_spans()) return clear();
    const std::size_t bytes = bytes_for(x_.size());
    if (bytes <= kSmallBytes)
      launch<kSmallBytes>();
    else if (bytes <= kLargeBytes)
      launch<kLargeBytes>();
    else
      launch<kMultiTensorBytes>();
    clear();
  }

 private:
  void clear() {
    x_.clear();
    out_.clear();
    starts_.clear();
    tensor_ends_.clear();
    vectors_ = 0;
  }

  std::uint32_t vectors_of(std::size_t tensor) const {
    return (tensor + 1 < x_.size() ? starts_[tensor + 1] : vectors_) - starts_[tensor];
  }

  // Launches a block for each span, if the parameters hold all spans.
  bool launch_block_spans() {
    std::size_t blocks = 0;
    std::uint32_t most = 1;  // vectors of a span
    for (std::size_t i = 0; i < x_.size(); ++i) {
      if (!VectorRun::can_tell(x_[i], tensor_ends_[i])) return false;
      blocks += TensorTable<true>::blocks_for(vectors_of(i));
      most = std::max(most, std::min<std::uint32_t>(vectors_of(i), kMultiTensorThreads));
    }
    const unsigned threads = (most + 31) / 32 * 32;
    return in_place_ ? launch_block_spans<true>(blocks, threads)
                     : launch_block_spans<false>(blocks, threads);
  }
  template <bool kInPlace>
  bool launch_block_spans(std::size_t blocks, unsigned threads) {
    if (blocks == 0) return false;
    if (x_.size() <= TensorTable<kInPlace>::kMost &&
        blocks <= BlockSpans<kMultiTensorBytes, kInPlace>::kMost)
      launch_tensor_table<kInPlace>(threads);
    else if (blocks <= BlockSpans<kSmallBytes, kInPlace>::kMost)
      launch_block_spans(BlockSpans<kSmallBytes, kInPlace>(), threads);
    else if (blocks <= BlockSpans<kMediumBytes, kInPlace>::kMost)
      launch_block_spans(BlockSpans<kMediumBytes, kInPlace>(), threads);
    else if (blocks <= BlockSpans<kLargeBytes, kInPlace>::kMost)
      launch_block_spans(BlockSpans<kLargeBytes, kInPlace>(), threads);
    else if (blocks <= BlockSpans<kMultiTensorBytes, kInPlace>::kMost)
      launch_block_spans(BlockSpans<kMultiTensorBytes, kInPlace>(), threads);
    else
      return false;
    return true;
  }
  template <int Bytes, bool kInPlace>
  void launch_block_spans(BlockSpans<Bytes, kInPlace>&& args, unsigned threads) {
    unsigned blocks = 0;
    for (std::size_t i = 0; i < x_.size(); ++i)
      for (std::uint32_t first = 0, vectors = vectors_of(i); first < vectors;
           first += kMultiTensorThreads) {
        const std::uint32_t n = std::min<std::uint32_t>(vectors - first, kMultiTensorThreads);
        const TensorEnds ends = TensorEnds::of(
            first == 0 ? tensor_ends_[i].head() : 0,
            first + n == vectors ? tensor_ends_[i].tail() : kVectorElements<T>, false);
        const std::size_t bytes = first * std::size_t{kVectorBytes};
        BlockSpan<kInPlace>& s = args.blocks[blocks++];
        s.run = VectorRun(const_cast<char*>(x_[i]) + bytes, n, ends);
        if constexpr (!kInPlace) s.out = out_[i] + bytes;
      }
    launch_block_span_kernel<T>(make_body_(), args, blocks, threads, execution_.stream);
    ++execution_.launches;
  }

  template <bool kInPlace>
  void launch_tensor_table(unsigned threads) {
    TensorTable<kInPlace> args;
    for (std::size_t i = 0; i < x_.size(); ++i)
      args.add(x_[i], out_[i], vectors_of(i), tensor_ends_[i]);
    launch_block_span_kernel<T>(make_body_(), args, args.blocks(), threads, execution_.stream);
    ++execution_.launches;
  }

  std::size_t bytes_for(std::size_t m) const {
    return m * ((in_place_ ? 1 : 2) * sizeof(char*) + sizeof(TensorEnds)) +
           (m + 1) * sizeof(std::uint32_t);
  }
  bool full(std::uint32_t vectors) const {
    return bytes_for(x_.size() + 1) > kMultiTensorBytes || vectors_ > kMostVectors - vectors;
  }

  template <int Bytes>
  void launch() {
    if (vectors_ <= kSingleVectorMost)  // more blocks are faster than more loads a thread
      launch<Bytes, 1>();
    else
      launch<Bytes, 4>();
  }

  template <int Bytes, int Unroll>
  void launch() {
    constexpr std::uint32_t kVectors = Window<Unroll>::kVectors;
    const std::uint32_t blocks = std::max(1u, (vectors_ + kVectors - 1) / kVectors);
    MultiTensorArgs<Bytes> args;
    fill(args);
    fill_buckets(args, kVectors, blocks);
    launch_multi_tensor_kernel<T, Unroll>(make_body_(), args, blocks, execution_.stream);
    ++execution_.launches;
  }

  template <int Bytes>
  void fill(MultiTensorArgs<Bytes>& args) const {
    const std::size_t m = x_.size();
    args.tensors = static_cast<std::uint32_t>(m);
    args.vectors = vectors_;
    args.out_at = static_cast<std::uint16_t>(in_place_ ? 0 : m * sizeof(char*));
    args.starts_at = static_cast<std::uint16_t>(args.out_at + m * sizeof(char*));
    args.ends_at = static_cast<std::uint16_t>(args.starts_at + (m + 1) * sizeof(std::uint32_t));
    const auto put = [&](std::size_t at, const auto& values) {
      std::memcpy(args.bytes + at, values.data(), values.size() * sizeof(values[0]));
    };
    put(0, x_);
    put(args.out_at, out_);
    put(args.starts_at, starts_);
    std::memcpy(args.bytes + args.starts_at + m * sizeof(vectors_), &vectors_, sizeof(vectors_));
    put(args.ends_at, tensor_ends_);
  }

  template <int Bytes>
  void fill_buckets(MultiTensorArgs<Bytes>& args, std::uint32_t kVectors,
                    std::uint32_t blocks) const {
    args.bucket_shift = 0;
    while ((blocks - 1) >> args.bucket_shift >= kMultiTensorBuckets) ++args.bucket_shift;
    const std::uint64_t step = std::uint64_t{kVectors} << args.bucket_shift;
    std::uint16_t tensor = 0;
    for (int b = 0; b <= kMultiTensorBuckets; ++b) {
      while (tensor + 1u < starts_.size() && starts_[tensor + 1] <= b * step) ++tensor;
      args.first_tensor[b] = tensor;
      if (b * step >= vectors_) {
        std::fill(args.first_tensor + b, std::end(args.first_tensor), tensor);
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
  std::vector<TensorEnds> tensor_ends_;
  std::uint32_t vectors_ = 0;
};

// Makes every launch for the tensors of type T.
template <class T, class MakeBody>
void launch_type(const TensorList& list, Type type, Execution& execution, MakeBody&& make_body) {
  MultiTensorLaunch<T, std::remove_reference_t<MakeBody>> launch(make_body, list, execution);
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

// Makes every launch for a list of tensors. make_body(tag of T): the body of the next launch, for
// elements of type T.
template <class MakeBody>
void launch_multi_tensor(const TensorList& list, Execution& execution, MakeBody&& make_body) {
  for (Type type : {Type::float16, Type::bfloat16, Type::float32, Type::float64}) {
    if (!list.has(type)) continue;
    with_floating_type(type, [&]<class T>(TypeTag<T> tag) {
      launch_type<T>(list, type, execution, [&] { return make_body(tag); });
    });
  }
}

}  // namespace twinops
