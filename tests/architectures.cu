// Every CUDA kernel, one or two of those that have many shapes: compiled for the oldest and the
// newest architectures to show that they take it. Nothing of it runs.
#include "kernels_cuda/dropout/bias_grad_kernel.cuh"
#include "kernels_cuda/loss_scaling/check_finite_and_unscale.cu"
#include "kernels_cuda/loss_scaling/update_loss_scaling.cu"
#include "kernels_cuda/random/random_fill.cuh"
#include "kernels_cuda/random/random_projection.cuh"
#include "kernels_cuda/softmax/broadcast_sums.cu"
#include "kernels_cuda/softmax/combined_mask.cu"
#include "kernels_cuda/softmax/dispatch.cuh"
#include "kernels_cuda/softmax/grad_dispatch.cuh"
#include "kernels_cuda/softmax/grad_planes_kernel.cuh"
#include "kernels_cuda/softmax/planes_kernel.cuh"

namespace twinops {

using HalfParams = SoftmaxParams<float16, float16>;
using SimpleHalfParams = SimpleSoftmaxParams<float16, float16>;
using Chunk = ChunkFragment<8, true>;
using Elements = ChunkFragment<1, false>;
template __global__ void softmax_warp_kernel<true, HalfParams, LaneFragment<8, 4, 8, true>>(
    const __grid_constant__ HalfParams);
template __global__ void softmax_warp_kernel<true, HalfParams, LaneFragment<8, 4, 8, false>>(
    const __grid_constant__ HalfParams);
template __global__ void softmax_warp_kernel<true, SimpleHalfParams, LaneFragment<4, 7, 8, true>>(
    const __grid_constant__ SimpleHalfParams);
template __global__ void
softmax_staged_kernel<true, SimpleHalfParams, StagedFragment<float16, 2, 17, 16>>(
    const __grid_constant__ SimpleHalfParams, const int);
template __global__ void
softmax_staged_kernel<true, HalfParams, StagedFragment<float16, 2, 20, 16>>(
    const __grid_constant__ HalfParams, const int);
template __global__ void softmax_two_chunk_kernel<
    true, SimpleHalfParams, Chunk, ElementFragment<12>>(const __grid_constant__ SimpleHalfParams);
template __global__ void softmax_block_kernel<true, SimpleHalfParams, ChunkFragment<8, false>,
                                              LaneFragment<32, 2, 8, false>>(
    const __grid_constant__ SimpleHalfParams);
template __global__ void softmax_cluster_kernel<true, HalfParams, Chunk>(
    const __grid_constant__ HalfParams, const ChunkPlan);
template __global__ void softmax_pair_kernel<true, HalfParams, Chunk, BlockOfRow>(
    const __grid_constant__ HalfParams, const __grid_constant__ ChunkPlan);
template __global__ void softmax_pair_kernel<true, HalfParams, Chunk, ClusterOfRow>(
    const __grid_constant__ HalfParams, const __grid_constant__ ChunkPlan);
template __global__ void softmax_grid_kernel<true, HalfParams, Chunk>(
    const __grid_constant__ HalfParams, const __grid_constant__ RoundRobinTiles);
template __global__ void softmax_two_pass_kernel<true, HalfParams, Elements>(
    const __grid_constant__ HalfParams, const TwoPassPlan);
using HalfGradParams = GradParams<float16, float16>;
template __global__ void grad_warp_kernel<true, float16, float16, LaneFragment<8, 4, 8, true>>(
    const __grid_constant__ HalfGradParams);
template __global__ void grad_staged_kernel<true, float16, StagedFragment<float16, 2, 20, 15>>(
    const __grid_constant__ HalfGradParams, const int);
template __global__ void grad_block_kernel<true, float16, float16, Chunk>(
    const __grid_constant__ HalfGradParams);
template __global__ void grad_cluster_kernel<true, float16, float16, Chunk>(
    const __grid_constant__ HalfGradParams, const ChunkPlan);
template __global__ void grad_pair_kernel<true, float16, float16, Chunk>(
    const __grid_constant__ HalfGradParams, const __grid_constant__ ChunkPlan);
template __global__ void grad_grid_kernel<true, float16, float16, Chunk>(
    const __grid_constant__ HalfGradParams, const __grid_constant__ RoundRobinTiles);
template __global__ void grad_two_pass_kernel<true, float16, float16, Elements>(
    const __grid_constant__ MaskedGradParams<float16, float16>, const TwoPassPlan);
using HalfStridedParams = StridedSoftmaxParams<float16, float16>;
using HalfStridedGradParams = StridedGradParams<float16, float16>;
template __global__ void softmax_strided_kernel<true, HalfStridedParams, 2, 24, 4, true>(
    const __grid_constant__ HalfStridedParams);
template __global__ void softmax_strided_chunks_kernel<true, HalfStridedParams, 1, 64, true>(
    const __grid_constant__ HalfStridedParams);
template __global__ void softmax_planes_kernel<true, HalfStridedParams, 24, 8>(
    const __grid_constant__ HalfStridedParams, const int);
template __global__ void grad_planes_kernel<true, HalfStridedGradParams, 24>(
    const __grid_constant__ HalfStridedGradParams, const int);
template __global__ void grad_strided_kernel<true, HalfStridedGradParams, 4, 8>(
    const __grid_constant__ HalfStridedGradParams);
template __global__ void grad_strided_chunks_kernel<true, HalfStridedGradParams, 1, 16>(
    const __grid_constant__ HalfStridedGradParams);
template void launch_dropout<float16, true, true>(const DropoutWork&, cudaStream_t);
template void launch_dropout<float, false, false>(const DropoutWork&, cudaStream_t);
template void launch_bias_grad<float16, MaskSource::contiguous>(const BiasGradParams&, void*, void*,
                                                                cudaStream_t);
template void fill_on_cuda<true>(const RandomFill&, Execution&);

}  // namespace twinops
