/* Unscales two tensors of gradients through the C ABI, and prints whether the step is good.
   cc check_finite_and_unscale.c $(pkg-config --cflags --libs twinops) */
#include <stdio.h>
#include <twinops/twinops.h>

static DLTensor view(void* data, DLDataType type, int64_t* shape, int rank) {
  DLTensor t = {data, {kDLCPU, 0}, rank, type, shape, NULL, 0};
  return t;
}

int main(void) {
  const DLDataType float32 = {kDLFloat, 32, 1}, byte = {kDLUInt, 8, 1};
  float weight[2][3] = {{1024, -512, 256}, {3072, 0, 128}}, bias[2] = {2048, 1e38f * 10};
  float scale = 1024;
  uint8_t found_inf = 0;
  int64_t weight_shape[] = {2, 3}, bias_shape[] = {2};
  DLTensor w = view(weight, float32, weight_shape, 2), b = view(bias, float32, bias_shape, 1);
  DLTensor s = view(&scale, float32, NULL, 0), f = view(&found_inf, byte, NULL, 0);
  const DLTensor *gradients[] = {&w, &b}, *scales[] = {&s}, *flags[] = {&f};
  const twinops_argument arguments[] = {
      TWINOPS_ARGUMENT("x", gradients, 2), TWINOPS_ARGUMENT("out", gradients, 2), /* in place */
      TWINOPS_ARGUMENT("scale", scales, 1), TWINOPS_ARGUMENT("found_inf", flags, 1)};
  if (twinops_run("check_finite_and_unscale", arguments, 4, NULL, 0, NULL) != TWINOPS_OK) {
    fprintf(stderr, "%s\n", twinops_last_error());
    return 1;
  }
  for (int i = 0; i < 2; ++i) printf("weight %g %g %g\n", weight[i][0], weight[i][1], weight[i][2]);
  printf("bias %g %g\n", bias[0], bias[1]);
  printf(found_inf ? "a gradient is not finite: skip this step\n" : "good\n");
  return 0;
}
