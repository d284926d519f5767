// Every CUDA kernel, the larger ones for few types: no part of the library, but of the tests, which
// compile it for other architectures than the build's own.
#include "kernels_cuda/check_finite_and_unscale.cu"
#include "kernels_cuda/dropout_grad_sums.cuh"
#include "kernels_cuda/random_fill.cuh"
#include "kernels_cuda/random_projection.cuh"
#include "kernels_cuda/softmax_across_kernel.cuh"
#include "kernels_cuda/softmax_grad_across_kernel.cuh"
#include "kernels_cuda/softmax_grad_launch.cuh"
#include "kernels_cuda/softmax_launch.cuh"
#include "kernels_cuda/update_loss_scaling.cu"

namespace twinops {

using HalfJob = SoftmaxJob<float16, float16>;
using HalfGradJob = GradJob<float16, float16>;
template void launch_softmax<true, 8, true, HalfJob>(const HalfJob&, Execution&);
template void launch_softmax<true, 1, false, HalfJob>(const HalfJob&, Execution&);
template void launch_grad<true, 8, true, float16, float16>(const HalfGradJob&, Execution&);
template void launch_grad<true, 1, false, float16, float16>(const HalfGradJob&, Execution&);
using HalfAcrossJob = SoftmaxAcrossJob<float16, float16>;
using HalfGradAcrossJob = GradAcrossJob<float16, float16>;
template __global__ void softmax_across_kernel<true, HalfAcrossJob, 4, 6, 2>(
    const __grid_constant__ HalfAcrossJob);
template __global__ void softmax_across_long_kernel<true, HalfAcrossJob, 1, 32>(
    const __grid_constant__ HalfAcrossJob);
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
