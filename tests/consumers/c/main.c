/* A C program that was built against the installed library: unscales four gradients. */
#include <stdio.h>
#include <twinops/twinops.h>

#define COUNT(array) (sizeof(array) / sizeof(array[0]))

static DLTensor view(void* data, DLDataType type, int rank, int64_t* shape) {
  DLTensor t = {0};
  t.data = data;
  t.device.device_type = kDLCPU;
  t.ndim = rank;
  t.dtype = type;
  t.shape = shape;
  return t;
}

int main(void) {
  float gradient[4] = {8, -16, 1024, 3e38f}, scale = 0.5f;
  uint8_t found_inf = 0;
  int64_t shape[1] = {4};
  const DLDataType float32 = {kDLFloat, 32, 1}, uint8 = {kDLUInt, 8, 1};
  DLTensor x = view(gradient, float32, 1, shape);
  DLTensor scale_view = view(&scale, float32, 0, NULL);
  DLTensor found_view = view(&found_inf, uint8, 0, NULL);
  const DLTensor *list[] = {&x}, *scales[] = {&scale_view}, *flags[] = {&found_view};
  const twinops_argument arguments[] = {
      TWINOPS_ARGUMENT("x", list, 1), TWINOPS_ARGUMENT("scale", scales, 1),
      TWINOPS_ARGUMENT("out", list, 1), TWINOPS_ARGUMENT("found_inf", flags, 1)};

  if (twinops_abi_version() != TWINOPS_ABI_VERSION) return 1;
  if (twinops_run("check_finite_and_unscale", arguments, COUNT(arguments), NULL, 0, NULL) !=
      TWINOPS_OK) {
    fprintf(stderr, "%s\n", twinops_last_error());
    return 1;
  }
  printf("twinops %s: %g %g %g %g, found_inf %d\n", twinops_version(), gradient[0], gradient[1],
         gradient[2], gradient[3], found_inf);
  return !(gradient[0] == 16 && gradient[1] == -32 && gradient[2] == 2048 && found_inf == 1);
}
