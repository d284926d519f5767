/* The C ABI from C: compiled as C11, pedantic, warnings as errors; every function is called. */
#include <stdio.h>
#include <string.h>

#include "twinops/twinops.h"

static int failures = 0;
#define EXPECT(condition)                                              \
  do {                                                                 \
    if (!(condition)) {                                                \
      printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                      \
    }                                                                  \
  } while (0)

static const DLDevice host = {kDLCPU, 0};

static DLTensor tensor(void* data, uint8_t code, uint8_t bits, int64_t* shape, int rank) {
  DLTensor t;
  memset(&t, 0, sizeof(t));
  t.data = data;
  t.device = host;
  t.ndim = rank;
  t.dtype.code = code;
  t.dtype.bits = bits;
  t.dtype.lanes = 1;
  t.shape = shape;
  return t;
}

/* Threads lent by a host: the tasks in order. */
static int64_t lent = 0;
static void parallel_for(void* context, int64_t n, void (*task)(void*, int64_t), void* argument) {
  int64_t i;
  *(int64_t*)context += n;
  for (i = 0; i < n; ++i) task(argument, i);
}

static void test_run(void) {
  enum { N = 1 << 17 };
  static float x[N];
  float scale = 8;
  uint8_t found = 0;
  int64_t shape[1] = {N};
  const DLTensor xt = tensor(x, kDLFloat, 32, shape, 1);
  const DLTensor scale_tensor = tensor(&scale, kDLFloat, 32, NULL, 0);
  const DLTensor found_tensor = tensor(&found, kDLUInt, 8, NULL, 0);
  const DLTensor *xs[] = {&xt}, *scales[] = {&scale_tensor}, *founds[] = {&found_tensor};
  const twinops_argument arguments[] = {
      TWINOPS_ARGUMENT("x", xs, 1), TWINOPS_ARGUMENT("out", xs, 1),
      TWINOPS_ARGUMENT("scale", scales, 1), TWINOPS_ARGUMENT("found_inf", founds, 1)};
  const twinops_attribute attributes[] = {TWINOPS_STRING_ATTRIBUTE("check", "input"),
                                          TWINOPS_BOOL_ATTRIBUTE("reset", 1)};
  const twinops_attribute wrong[] = {TWINOPS_INT_ATTRIBUTE("check", 1),
                                     TWINOPS_FLOAT_ATTRIBUTE("reset", 1.0)};
  twinops_report report = {sizeof(report), 0, NULL, NULL, 0};
  twinops_execution execution;
  memset(&execution, 0, sizeof(execution));
  execution.struct_size = sizeof(execution);
  execution.threads = 4;
  execution.row = "cpu";
  execution.parallel_for = parallel_for;
  execution.parallel_context = &lent;
  execution.report = &report;

  x[0] = 16;
  x[N - 1] = -4;
  EXPECT(twinops_run("check_finite_and_unscale", arguments, 4, attributes, 2, &execution) ==
         TWINOPS_OK);
  EXPECT(x[0] == 2 && x[1] == 0 && x[N - 1] == -0.5f && found == 0);
  EXPECT(lent == 4);
  EXPECT(strncmp(report.row, "cpu/", 4) == 0);

  EXPECT(twinops_run("check_finite_and_unscale", arguments, 4, wrong, 1, NULL) ==
         TWINOPS_INVALID_ARGUMENT);
  EXPECT(strcmp(twinops_last_error(),
                "check_finite_and_unscale: check: expected a string; got an int") == 0);
  EXPECT(x[0] == 2);
}

static void test_tables(void) {
  size_t i, length = 0;
  char text[64];
  const DLDataType half = {kDLFloat, 16, 1};
  EXPECT(twinops_abi_version() == TWINOPS_ABI_VERSION);
  EXPECT(strlen(twinops_version()) >= 5);
  EXPECT(twinops_operator_count() >= 2);
  for (i = 0; i < twinops_operator_count(); ++i) {
    const twinops_operator_info* op = twinops_operator_at(i);
    EXPECT(op == twinops_find_operator(op->name));
    EXPECT(op->argument_count > 0 && op->arguments[0]->type_count > 0);
  }
  EXPECT(strcmp(twinops_type_name(half), "float16") == 0);
  EXPECT(strcmp(twinops_row_at(twinops_row_count() - 1)->name, "cpu/scalar") == 0);
  for (i = 0; i < twinops_device_count(); ++i) EXPECT(twinops_device_at(i) != NULL);
  EXPECT(twinops_device_at(i) == NULL);
  EXPECT(twinops_explain(host, text, sizeof(text), &length) == TWINOPS_OK);
  EXPECT(strlen(text) == sizeof(text) - 1 && length > sizeof(text));
}

static void test_memory(void) {
  void* memory = NULL;
  int value = 7;
  EXPECT(twinops_allocate(host, sizeof(value), &memory) == TWINOPS_OK);
  EXPECT(twinops_copy(host, memory, host, &value, sizeof(value)) == TWINOPS_OK);
  EXPECT(twinops_synchronize(host) == TWINOPS_OK);
  EXPECT(*(int*)memory == 7);
  EXPECT(twinops_release(host, memory) == TWINOPS_OK);
}

int main(void) {
  test_run();
  test_tables();
  test_memory();
  printf(failures == 0 ? "passed\n" : "FAILED\n");
  return failures == 0 ? 0 : 1;
}
