// random_projection and its gradient: kernels_cuda/random/random_projection.cuh.
#include "kernels_cuda/random/random_projection.cuh"

namespace twinops {

template <>
void run_cuda<RandomProjection>(const Projection& p, Execution& execution) {
  project_on_cuda(p, execution);
}
template <>
void run_cuda<RandomProjectionGrad>(const Projection& p, Execution& execution) {
  project_on_cuda(p, execution);
}

}  // namespace twinops
