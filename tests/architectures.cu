// Every CUDA kernel, one or two of those that have many shapes: compiled for the oldest and the
// newest architectures to show that they take it. Nothing of it runs.
#include "kernels_cuda/dropout/bias_grad_kernel.cuh"
#include "kernels_cuda/loss_scaling/check_finite_and_unscale.cu"
#include "kernels_cuda/loss_scaling/update_loss_scaling.cu"
#include "kernels_cuda/random/random_fill.cuh"
#include "kernels_cuda/random/random_projection.cuh"
#include "kernels_cuda/softmax/dispatch.cuh"
#include "kernels_cuda/softmax/grad_dispatch.cuh"
#include "kernels_cuda/softmax/grad_planes_kernel.cuh"
#include "kernels_cuda/softmax/planes_kernel.cuh"

namespace twinops {

using HalfJob = SoftmaxJob<float16, float16>;
using SimpleHalfJob = SimpleSoftmaxJob<float16, float16>;
using Chunk = ChunkShare<8, true>;
using Elements = ChunkShare<1, false>;
template __global__ void softmax_short_kernel<true, HalfJob, Share<8, 4, 8, true>>(
    const __grid_constant__ HalfJob);
template __global__ void softmax_short_kernel<true, HalfJob, Share<8, 4, 8, false>>(
    const __grid_constant__ HalfJob);
template __global__ void softmax_short_kernel<true, SimpleHalfJob, Share<4, 7, 8, true>>(
    const __grid_constant__ SimpleHalfJob);
template __global__ void
softmax_staged_kernel<true, SimpleHalfJob, StagedShare<float16, 2, 17, 16>>(
    const __grid_constant__ SimpleHalfJob, const int);
template __global__ void softmax_staged_kernel<true, HalfJob, StagedShare<float16, 2, 20, 16>>(
    const __grid_constant__ HalfJob, const int);
template __global__ void softmax_two_chunk_kernel<true, SimpleHalfJob, Chunk, ElementShare<12>>(
    const __grid_constant__ SimpleHalfJob);
template __global__ void softmax_row_kernel<true, HalfJob, Elements>(
    const __grid_constant__ HalfJob);
template __global__ void softmax_row_kernel<true, SimpleHalfJob, Chunk, LastChunk::apart,
                                            ElementShare<8>>(const __grid_constant__ SimpleHalfJob);
template __global__ void softmax_row_kernel<true, SimpleHalfJob, Chunk, LastChunk::along,
                                            ElementShare<4>>(const __grid_constant__ SimpleHalfJob);
template __global__ void softmax_cluster_kernel<true, HalfJob, Chunk>(
    const __grid_constant__ HalfJob, const ChunkRows);
template __global__ void softmax_cluster_kernel<true, HalfJob, Elements>(
    const __grid_constant__ HalfJob, const ChunkRows);
template __global__ void softmax_pair_kernel<true, HalfJob, Chunk, BlockOfRow>(
    const __grid_constant__ HalfJob, const __grid_constant__ ChunkRows);
template __global__ void softmax_pair_kernel<true, HalfJob, Chunk, ClusterOfRow>(
    const __grid_constant__ HalfJob, const __grid_constant__ ChunkRows);
template __global__ void softmax_pair_kernel<true, HalfJob, Chunk, TeamOfRow>(
    const __grid_constant__ HalfJob, const __grid_constant__ ChunkRows);
template __global__ void softmax_dealt_kernel<true, HalfJob, Chunk>(
    const __grid_constant__ HalfJob, const __grid_constant__ DealtRows);
template __global__ void softmax_long_kernel<true, HalfJob, Chunk>(const __grid_constant__ HalfJob,
                                                                   const LongRows);
using HalfGradJob = GradJob<float16, float16>;
template __global__ void grad_short_kernel<true, float16, float16, Share<8, 4, 8, true>>(
    const __grid_constant__ HalfGradJob);
template __global__ void grad_staged_kernel<true, float16, StagedShare<float16, 2, 18, 14>>(
    const __grid_constant__ HalfGradJob, const int);
template __global__ void grad_row_kernel<true, float16, float16, Elements>(
    const __grid_constant__ HalfGradJob);
template __global__ void
grad_row_kernel<true, float16, float16, Chunk, LastChunk::apart, Share<32, 1, 8, true>>(
    const __grid_constant__ HalfGradJob);
template __global__ void grad_cluster_kernel<true, float16, float16, Chunk>(
    const __grid_constant__ HalfGradJob, const ChunkRows);
template __global__ void grad_pair_kernel<true, float16, float16, Chunk, RowParts>(
    const __grid_constant__ HalfGradJob, const __grid_constant__ ChunkRows);
template __global__ void grad_pair_kernel<true, float16, float16, Chunk, TeamParts>(
    const __grid_constant__ HalfGradJob, const __grid_constant__ ChunkRows);
template __global__ void grad_dealt_kernel<true, float16, float16, Chunk>(
    const __grid_constant__ HalfGradJob, const __grid_constant__ DealtRows);
template __global__ void grad_long_kernel<true, float16, float16, Chunk>(
    const __grid_constant__ HalfGradJob, const LongRows);
using HalfAcrossJob = SoftmaxAcrossJob<float16, float16>;
using HalfGradAcrossJob = GradAcrossJob<float16, float16>;
template __global__ void softmax_across_kernel<true, HalfAcrossJob, 2, 24, 4, true>(
    const __grid_constant__ HalfAcrossJob);
template __global__ void softmax_across_long_kernel<true, HalfAcrossJob, 1, 64, true>(
    const __grid_constant__ HalfAcrossJob);
template __global__ void softmax_planes_kernel<true, HalfAcrossJob, 24, 8>(
    const __grid_constant__ HalfAcrossJob, const int);
template __global__ void grad_planes_kernel<true, HalfGradAcrossJob, 24>(
    const __grid_constant__ HalfGradAcrossJob, const int);
template __global__ void grad_across_kernel<true, HalfGradAcrossJob, 4, 8>(
    const __grid_constant__ HalfGradAcrossJob);
template __global__ void grad_across_long_kernel<true, HalfGradAcrossJob, 1, 16>(
    const __grid_constant__ HalfGradAcrossJob);
template void launch_dropout<float16, true, true>(const DropoutWork&, cudaStream_t);
template void launch_dropout<float, false, false>(const DropoutWork&, cudaStream_t);
template void launch_grad_sums<float16, PackSource::contiguous>(const GradSumsLaunch&, void*, void*,
                                                                cudaStream_t);
template void fill_on_cuda<true>(const RandomFill&, Execution&);

}  // namespace twinops
