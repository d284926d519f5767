/* twinops: operators whose CUDA kernel and CPU kernel are twins, equal to the last bit.
 *
 * The C ABI, the only promise of stability. What may be refused returns a status; the message of
 * the last one that was not TWINOPS_OK waits in the thread: twinops_last_error(). Nothing prints,
 * aborts, exits or throws. A call that is refused has written nothing; one that fails otherwise may
 * have written a part. All functions may be called from many threads at once. Structs begin with
 * their size, so that they can grow: fill it with sizeof, or use the initializers below.
 */
#ifndef TWINOPS_TWINOPS_H_
#define TWINOPS_TWINOPS_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#if defined(TWINOPS_BUILD)
#define TWINOPS_API __attribute__((visibility("default")))
#else
#define TWINOPS_API
#endif

#ifdef __cplusplus
#define TWINOPS_NOEXCEPT noexcept
extern "C" {
#else
#define TWINOPS_NOEXCEPT
#endif

#define TWINOPS_ABI_VERSION 1

typedef enum twinops_status {
  TWINOPS_OK = 0,
  TWINOPS_INVALID_ARGUMENT = 1, /* the caller's mistake; nothing was written */
  TWINOPS_UNSUPPORTED = 2, /* no kernel of this build or machine can do it; nothing was written */
  /* After the next three, outputs may be written in part, and an input that was to be written over
   * may be lost. */
  TWINOPS_DEVICE_ERROR = 3, /* CUDA refused or failed; the message carries its words */
  TWINOPS_OUT_OF_MEMORY = 4,
  TWINOPS_INTERNAL = 5
} twinops_status;

/* The message of this thread's last call that failed; valid until its next call. Never NULL. */
TWINOPS_API const char* twinops_last_error(void) TWINOPS_NOEXCEPT;

/* TWINOPS_ABI_VERSION of the library that was loaded, and its version, "0.1.0". */
TWINOPS_API int32_t twinops_abi_version(void) TWINOPS_NOEXCEPT;
TWINOPS_API const char* twinops_version(void) TWINOPS_NOEXCEPT;

/* ---- The operator table ------------------------------------------------------------------------
 */

typedef enum twinops_attribute_kind {
  TWINOPS_BOOL = 0,
  TWINOPS_INT = 1,
  TWINOPS_FLOAT = 2,
  TWINOPS_STRING = 3
} twinops_attribute_kind;

/* An attribute's value, by name. An int is taken where a float is meant. */
typedef struct twinops_attribute {
  uint32_t struct_size;
  int32_t kind; /* twinops_attribute_kind: which of the next three counts */
  const char* name;
  int64_t int_value; /* also the bool */
  double float_value;
  const char* string_value;
} twinops_attribute;

typedef struct twinops_argument_info {
  uint32_t struct_size;
  int32_t is_output;
  int32_t is_list; /* any number of tensors, also none; else one */
  int32_t is_required;
  const char* name;
  const char* doc; /* shape, meaning, and what it may share memory with */
  const DLDataType* types;
  size_t type_count;
} twinops_argument_info;

typedef struct twinops_attribute_info {
  uint32_t struct_size;
  const char* doc;
  const char* choices;             /* of a string: the words allowed, "a|b"; else NULL */
  twinops_attribute default_value; /* with the attribute's name and kind */
} twinops_attribute_info;

typedef struct twinops_operator_info {
  uint32_t struct_size;
  const char* name;
  const char* doc;
  const twinops_argument_info* const* arguments;
  size_t argument_count;
  const twinops_attribute_info* const* attributes;
  size_t attribute_count;
} twinops_operator_info;

TWINOPS_API size_t twinops_operator_count(void) TWINOPS_NOEXCEPT;
/* NULL beyond the last. */
TWINOPS_API const twinops_operator_info* twinops_operator_at(size_t index) TWINOPS_NOEXCEPT;
/* NULL if there is none of this name. */
TWINOPS_API const twinops_operator_info* twinops_find_operator(const char* name) TWINOPS_NOEXCEPT;
/* "float16", "bool", ...; "unknown" for a type that the library has not. */
TWINOPS_API const char* twinops_type_name(DLDataType type) TWINOPS_NOEXCEPT;

/* ---- Kernel rows and devices -------------------------------------------------------------------
 */

/* One way of computing: every operator has a kernel in every row. Best first, the scalar reference
 * last. */
typedef struct twinops_row {
  uint32_t struct_size;
  int32_t available;   /* on this machine */
  const char* name;    /* "cpu/avx2", "cuda/sm_90"; "cuda" where there is no device */
  const char* why_not; /* of a row that is not available; else "" */
} twinops_row;

TWINOPS_API size_t twinops_row_count(void) TWINOPS_NOEXCEPT;
/* NULL beyond the last. */
TWINOPS_API const twinops_row* twinops_row_at(size_t index) TWINOPS_NOEXCEPT;

/* Which row a call on tensors of `device` takes, and why each better one is passed over: a line a
 * row. Writes at most `capacity` bytes with the closing NUL; *length is the length of the whole
 * text. */
TWINOPS_API twinops_status twinops_explain(DLDevice device, char* text, size_t capacity,
                                           size_t* length) TWINOPS_NOEXCEPT;

typedef struct twinops_device {
  uint32_t struct_size;
  int32_t usable;
  const char* name;    /* "NVIDIA H200" */
  const char* row;     /* "cuda/sm_90" */
  const char* why_not; /* of one that is not usable; else "" */
} twinops_device;

/* CUDA devices; probed at the first call. */
TWINOPS_API size_t twinops_device_count(void) TWINOPS_NOEXCEPT;
TWINOPS_API const twinops_device* twinops_device_at(size_t index) TWINOPS_NOEXCEPT;

/* Memory of kDLCPU or kDLCUDA, for programs that bring no CUDA of their own. A copy is done when it
 * returns. */
TWINOPS_API twinops_status twinops_allocate(DLDevice device, size_t bytes,
                                            void** memory) TWINOPS_NOEXCEPT;
TWINOPS_API twinops_status twinops_release(DLDevice device, void* memory) TWINOPS_NOEXCEPT;
TWINOPS_API twinops_status twinops_copy(DLDevice to_device, void* to, DLDevice from_device,
                                        const void* from, size_t bytes) TWINOPS_NOEXCEPT;
TWINOPS_API twinops_status twinops_synchronize(DLDevice device) TWINOPS_NOEXCEPT;

/* ---- Calls -------------------------------------------------------------------------------------
 */

/* One named argument: a tensor (count 1), a list of them, or, if it is not required, nothing (count
 * 0). Tensors are DLPack views: any strides, byte_offset honoured, bool as 8 bits. */
typedef struct twinops_argument {
  uint32_t struct_size;
  const char* name;
  const DLTensor* const* tensors;
  size_t count;
} twinops_argument;

/* What a call tells of itself. */
typedef struct twinops_report {
  uint32_t struct_size;
  int32_t launches;      /* kernels launched on the device */
  const char* row;       /* the row taken; lives as long as the library */
  const char* fallback;  /* why what TWINOPS_BACKEND or TWINOPS_ISA asked for was not to be had, or
                            ""; valid until this thread's next call */
  uint64_t random_words; /* 32-bit words of the random sequence that the call reserved */
} twinops_report;

/* How a call is carried out. NULL or zeros mean: the best row, CUDA's default stream, OpenMP's
 * threads. */
typedef struct twinops_execution {
  uint32_t struct_size;
  /* At most; 0: TWINOPS_THREADS, or OpenMP's own number. Of OpenMP's threads a call takes no more
   * than 64, or four a processor where that is more. */
  int32_t threads;
  void* stream;    /* cudaStream_t of the tensors' device */
  const char* row; /* NULL, or the row that must be taken: "cpu/avx2", "cuda" */
  /* The host's threads instead of OpenMP's: calls task(task_context, i) for every i in [0, n), in
   * any order, and returns when all are done. Their threads need 512 KiB of stack. */
  void (*parallel_for)(void* context, int64_t n, void (*task)(void* task_context, int64_t i),
                       void* task_context);
  void* parallel_context;
  /* The host's allocator for scratch memory on the tensors' device, aligned to 64 bytes, NULL if
   * there is none to be had; release may be NULL. Without one the CPU uses its heap, and a CUDA
   * call that needs scratch memory is refused. */
  void* (*allocate)(void* context, size_t bytes, void* stream);
  void (*release)(void* context, void* memory, size_t bytes, void* stream);
  void* workspace_context;
  twinops_report*
      report; /* NULL, or filled in when the call succeeds; its struct_size must be set */
} twinops_execution;

/* Runs an operator. On CUDA it returns when the work is queued: no synchronization, no copy, no
 * allocation; it may be captured in a graph. `execution` may be NULL. */
TWINOPS_API twinops_status twinops_run(const char* op, const twinops_argument* arguments,
                                       size_t argument_count, const twinops_attribute* attributes,
                                       size_t attribute_count,
                                       const twinops_execution* execution) TWINOPS_NOEXCEPT;

/* Initializers. */
#define TWINOPS_ARGUMENT(name, tensors, count) \
  { sizeof(twinops_argument), name, tensors, count }
#define TWINOPS_BOOL_ATTRIBUTE(name, value) \
  { sizeof(twinops_attribute), TWINOPS_BOOL, name, value, 0.0, NULL }
#define TWINOPS_INT_ATTRIBUTE(name, value) \
  { sizeof(twinops_attribute), TWINOPS_INT, name, value, 0.0, NULL }
#define TWINOPS_FLOAT_ATTRIBUTE(name, value) \
  { sizeof(twinops_attribute), TWINOPS_FLOAT, name, 0, value, NULL }
#define TWINOPS_STRING_ATTRIBUTE(name, value) \
  { sizeof(twinops_attribute), TWINOPS_STRING, name, 0, 0.0, value }

#ifdef __cplusplus
}
#endif

#endif /* TWINOPS_TWINOPS_H_ */
