// Which kernel takes a call of dropout, bias_dropout_residual or their backward passes.
//
// - contiguous_kernel.cuh: tensors that are contiguous and aligned.
// - rows_kernel.cuh: an innermost axis of long contiguous runs, as with a seed a row, shards along
// an inner axis, views and unaligned memory.
// - The kernel below: the rest, an octet of elements a thread, at once where the octet is
// contiguous (contiguous_octet.cuh), else one by one (strided_octet.cuh).
#pragma once

#include <algorithm>

#include "kernels_cuda/dropout/contiguous_kernel.cuh"
#include "kernels_cuda/dropout/contiguous_octet.cuh"
#include "kernels_cuda/dropout/rows_kernel.cuh"
#include "kernels_cuda/kernel.hpp"
#include "operators/dropout_work.hpp"

namespace twinops {

template <class T>
__global__ void __launch_bounds__(kDropoutThreads)
    dropout_strided_kernel(const __grid_constant__ DropoutWork work, std::int64_t octets,
                           bool contiguous_runs) {
  const Sequence sequence = work.random.sequence();
  const std::int64_t step = std::int64_t{gridDim.x} * kDropoutThreads;
  for (std::int64_t octet = std::int64_t{blockIdx.x} * kDropoutThreads + threadIdx.x;
       octet < octets; octet += step)
    if (!contiguous_runs || !dropout_contiguous_octet<T>(work, sequence, octet))
      dropout_strided_octet<T>(work, sequence, octet);
}

// Launches for elements of type T. kForward: the mask may be stored and is not read; otherwise it
// may be read and is not stored. kSums: there may be a bias and a residual.
template <class T, bool kForward, bool kSums>
void launch_dropout(const DropoutWork& work, cudaStream_t stream) {
  using Source = DropoutWork::Source;
  using Sink = DropoutWork::Sink;
  const std::int64_t octets = dropout_octets(work.elements, work.sink);
  if (!fits_contiguous_kernel<T>(work)) {
    if (launch_dropout_rows<T, kSums>(work, octets, stream)) return;
    const std::int64_t blocks = (octets + kDropoutThreads - 1) / kDropoutThreads;
    launch_grid("launch of dropout", dropout_strided_kernel<T>,
                static_cast<unsigned>(std::min<std::int64_t>(blocks, 1 << 20)), kDropoutThreads, 0,
                stream, work, octets, has_contiguous_runs(work));
    return;
  }
  const auto by_source = [&]<MaskSource kSource>() {
    if constexpr (kForward) {
      if (work.sink == Sink::bits)
        return launch_contiguous<T, kSource, Sink::bits, kSums>(work, octets, stream);
      if (work.sink == Sink::bytes)
        return launch_contiguous<T, kSource, Sink::bytes, kSums>(work, octets, stream);
    }
    launch_contiguous<T, kSource, Sink::nothing, kSums>(work, octets, stream);
  };
  if (work.source == Source::draw) {
    if (work.random.layout == RandomLayout::triton)
      return by_source.template operator()<MaskSource::triton>();
    if (work.random.layout == RandomLayout::strided)
      return by_source.template operator()<MaskSource::strided>();
    return by_source.template operator()<MaskSource::contiguous>();
  }
  if constexpr (!kForward) {
    if (work.source == Source::bits || work.source == Source::bytes)
      return by_source.template operator()<MaskSource::mask>();
  }
  by_source.template operator()<MaskSource::same>();
}

template <bool kForward, bool kSums>
void dropout_on_cuda(const DropoutWork& work, Execution& execution) {
  execution.random_words = work.random_words;
  if (work.elements == 0) return;
  const CurrentDevice current(execution.device.index);
  with_floating_type(work.type, [&]<class T>(TypeTag<T>) {
    launch_dropout<T, kForward, kSums>(work, static_cast<cudaStream_t>(execution.stream));
  });
  ++execution.launches;
}

}  // namespace twinops
