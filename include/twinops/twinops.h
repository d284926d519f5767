/* twinops: operators whose CUDA kernel and CPU kernel are twins, equal to the last bit.
 *
 * This is the C ABI, the only promise of stability that the library makes (docs/versions.md). C++20
 * programs include twinops.hpp, which gives each operator a typed function.
 *
 * Errors    A function that can fail returns a twinops_status, and twinops_last_error() holds the
 *           message of this thread's last failure. The library never prints, aborts, exits or
 *           throws through this interface.
 * Threads   Every function may be called from many threads at once.
 * Memory    Tensors, names, strings and structs stay the caller's, who may free them when the
 *           function returns; the memory of CUDA tensors must live until the work that was queued
 *           on the stream is done. What the library returns as a pointer to a table or a name is
 *           the library's and lives as long as the library is loaded.
 * Structs   Each begins with struct_size, so that it can grow: set it to sizeof the struct, or use
 *           the initializers at the end. A library that is newer than the program takes members
 *           that the program's struct lacks as 0.
 * Results   What each operator computes, to the last bit: docs/numerics.md.
 *
 * The environment variables TWINOPS_BACKEND, TWINOPS_ISA and TWINOPS_THREADS are read at the first
 * call (docs/architecture.md, "Choice"); a value that is not allowed makes every later call of
 * twinops_run and twinops_explain fail with TWINOPS_INVALID_ARGUMENT.
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

/* The version of this interface, also the number in the library's soname. It changes when a program
 * that was compiled against the header before it would no longer work: docs/versions.md. */
#define TWINOPS_ABI_VERSION 1

typedef enum twinops_status {
  TWINOPS_OK = 0,
  /* After one of these two, nothing was written. */
  TWINOPS_INVALID_ARGUMENT = 1, /* the caller's mistake; the message says which */
  TWINOPS_UNSUPPORTED = 2,      /* no kernel of this build or machine can do it */
  /* After one of these three, outputs may be written in part, and an input that was to be written
   * over may be lost. */
  TWINOPS_DEVICE_ERROR = 3,  /* CUDA refused or failed; the message has CUDA's name for the error */
  TWINOPS_OUT_OF_MEMORY = 4, /* of the host or of the device */
  TWINOPS_INTERNAL = 5       /* a bug of the library; please report it */
} twinops_status;

/* The message of this thread's last call that failed: one or more lines of UTF-8, "" if none has
 * failed, never NULL. It names the operator, the argument or attribute, what was expected and what
 * came. Valid until this thread calls the library again. */
TWINOPS_API const char* twinops_last_error(void) TWINOPS_NOEXCEPT;

/* The TWINOPS_ABI_VERSION that the loaded library was built with. A program that loads the library
 * by name compares it with its own before it calls anything else. */
TWINOPS_API int32_t twinops_abi_version(void) TWINOPS_NOEXCEPT;
/* The version of the library, "0.1.0". */
TWINOPS_API const char* twinops_version(void) TWINOPS_NOEXCEPT;

/* ---- The operator table ------------------------------------------------------------------------
 *
 * Every operator, with its arguments, attributes, types, defaults and documentation, so that a host
 * can offer all of them without a list of its own. The order is that of the library and may change
 * between versions: use names.
 */

typedef enum twinops_attribute_kind {
  TWINOPS_BOOL = 0,
  TWINOPS_INT = 1,
  TWINOPS_FLOAT = 2,
  TWINOPS_STRING = 3
} twinops_attribute_kind;

/* The value of one attribute. Any other kind than the attribute's own is refused, except that an
 * int is taken where a float is expected. */
typedef struct twinops_attribute {
  uint32_t struct_size;
  int32_t kind; /* a twinops_attribute_kind: which of the three values below is meant */
  const char* name;
  int64_t int_value;        /* TWINOPS_INT; TWINOPS_BOOL: 0 is false, anything else true */
  double float_value;       /* TWINOPS_FLOAT */
  const char* string_value; /* TWINOPS_STRING; not NULL */
} twinops_attribute;

/* One argument of an operator: a tensor, or a list of tensors. */
typedef struct twinops_argument_info {
  uint32_t struct_size;
  int32_t is_output;       /* 1: the call writes it; 0: the call reads it */
  int32_t is_list;         /* 1: any number of tensors, also none; 0: one tensor */
  int32_t is_required;     /* 0: it may be left out */
  const char* name;        /* "x" */
  const char* doc;         /* shape, meaning, and which input it may share memory with */
  const DLDataType* types; /* the element types that it may have */
  size_t type_count;
} twinops_argument_info;

/* One attribute of an operator. */
typedef struct twinops_attribute_info {
  uint32_t struct_size;
  const char* doc;                 /* meaning, range and unit */
  const char* choices;             /* of a string with a fixed set of words: "a|b"; else NULL */
  twinops_attribute default_value; /* with the attribute's name and kind */
} twinops_attribute_info;

/* One operator. */
typedef struct twinops_operator_info {
  uint32_t struct_size;
  const char* name; /* "softmax"; its page is docs/operators/<name>.md */
  const char* doc;  /* one sentence */
  const twinops_argument_info* const* arguments;
  size_t argument_count;
  const twinops_attribute_info* const* attributes;
  size_t attribute_count;
} twinops_operator_info;

/* How many operators the library has. */
TWINOPS_API size_t twinops_operator_count(void) TWINOPS_NOEXCEPT;
/* Operator number `index`, from 0; NULL beyond the last. */
TWINOPS_API const twinops_operator_info* twinops_operator_at(size_t index) TWINOPS_NOEXCEPT;
/* The operator of this name; NULL if there is none, or if `name` is NULL. */
TWINOPS_API const twinops_operator_info* twinops_find_operator(const char* name) TWINOPS_NOEXCEPT;
/* The name of an element type: "float16", "bool", ...; "unknown" for a type that the library does
 * not have. */
TWINOPS_API const char* twinops_type_name(DLDataType type) TWINOPS_NOEXCEPT;

/* ---- Kernel rows and devices -------------------------------------------------------------------
 *
 * A row is one way of computing, such as "cpu/avx2": every operator has a kernel in every row, and
 * all rows give the same bits. Rows are ordered, best first, the scalar reference last. The device
 * of the tensors decides between CUDA and CPU rows; of those, the first that is available is taken
 * (docs/architecture.md, "Choice").
 */

typedef struct twinops_row {
  uint32_t struct_size;
  int32_t available;   /* 1: this machine can run it */
  const char* name;    /* "cpu/avx2", "cuda/sm_90"; "cuda" where there is no device */
  const char* why_not; /* why it is not available; "" if it is */
} twinops_row;

/* How many rows this build has. */
TWINOPS_API size_t twinops_row_count(void) TWINOPS_NOEXCEPT;
/* Row number `index`, from 0, the best; NULL beyond the last. */
TWINOPS_API const twinops_row* twinops_row_at(size_t index) TWINOPS_NOEXCEPT;

/* Says which row a call on tensors of `device` takes, and why each better row is passed over: one
 * line a row, each with a newline. Writes at most `capacity` bytes of it to `text`, the closing NUL
 * included; `text` may be NULL. *length, if `length` is not NULL, becomes the length of the whole
 * text without the NUL: call once to learn it, and once more with length + 1 bytes. Fails with
 * TWINOPS_INVALID_ARGUMENT for a device that is neither the CPU nor CUDA. */
TWINOPS_API twinops_status twinops_explain(DLDevice device, char* text, size_t capacity,
                                           size_t* length) TWINOPS_NOEXCEPT;

/* A CUDA device. */
typedef struct twinops_device {
  uint32_t struct_size;
  int32_t usable;      /* 1: this build has code for it */
  const char* name;    /* "NVIDIA H200" */
  const char* row;     /* "cuda/sm_90" */
  const char* why_not; /* why it is not usable; "" if it is */
} twinops_device;

/* How many CUDA devices there are; 0 in a build without CUDA or on a machine without a driver.
 * Looked up once, at the first question about them. */
TWINOPS_API size_t twinops_device_count(void) TWINOPS_NOEXCEPT;
/* Device number `index`, CUDA's own, from 0; NULL beyond the last. */
TWINOPS_API const twinops_device* twinops_device_at(size_t index) TWINOPS_NOEXCEPT;

/* The next four are for programs that bring no CUDA of their own; no operator calls them. `device`
 * is kDLCPU or kDLCUDA with CUDA's index. A build without CUDA refuses a CUDA device with
 * TWINOPS_UNSUPPORTED. */

/* *memory becomes `bytes` bytes, aligned to 64 on the CPU and to CUDA's own 256 on a device. */
TWINOPS_API twinops_status twinops_allocate(DLDevice device, size_t bytes,
                                            void** memory) TWINOPS_NOEXCEPT;
/* Frees what twinops_allocate gave for the same device. NULL is allowed. */
TWINOPS_API twinops_status twinops_release(DLDevice device, void* memory) TWINOPS_NOEXCEPT;
/* Copies `bytes` bytes, which must not overlap, between any two devices. The copy is done when the
 * function returns. */
TWINOPS_API twinops_status twinops_copy(DLDevice to_device, void* to, DLDevice from_device,
                                        const void* from, size_t bytes) TWINOPS_NOEXCEPT;
/* Waits until all work queued on the device, on every stream, is done. Nothing to do on the CPU. */
TWINOPS_API twinops_status twinops_synchronize(DLDevice device) TWINOPS_NOEXCEPT;

/* ---- Calls -------------------------------------------------------------------------------------
 */

/* One named argument of a call: one tensor (count 1), a list of tensors (any count), or nothing
 * (count 0, for an argument that is not required).
 *
 * A tensor is a DLPack view of memory that the caller owns:
 *   device       kDLCPU or kDLCUDA; pinned host memory counts as the CPU's, managed memory as its
 *                GPU's. All tensors of a call lie on one device.
 *   dtype        one of the argument's types, lanes 1; bool is DLPack's code 6 of 8 bits.
 *   shape        any number of dimensions; a dimension of 0 is allowed; ndim 0 is a scalar.
 *   strides      in elements, any sign, 0 for a broadcast input; NULL: row-major without gaps.
 *   data         with byte_offset added, aligned to the element's size; NULL only if the tensor has
 *                no elements.
 * No output may share memory with another output, with itself or with an input, except where the
 * argument's doc allows the very same view ("may be x itself"). */
typedef struct twinops_argument {
  uint32_t struct_size;
  const char* name;
  const DLTensor* const* tensors;
  size_t count;
} twinops_argument;

/* What a call says about itself. */
typedef struct twinops_report {
  uint32_t struct_size;
  int32_t launches;      /* kernels launched on the device; 0 on the CPU */
  const char* row;       /* the row taken, "cpu/avx2"; lives as long as the library */
  const char* fallback;  /* why the row that TWINOPS_BACKEND or TWINOPS_ISA asked for was not taken,
                            or ""; valid until this thread calls the library again */
  uint64_t random_words; /* 32-bit words of the random sequence that the call reserved: add it to
                            the attribute offset of the next call (docs/same-mask-everywhere.md) */
} twinops_report;

/* How a call is carried out. A member that is NULL or 0 has its default: the best row, CUDA's
 * default stream, the library's threads, its own scratch memory on the CPU. No member changes
 * a bit of the result. */
typedef struct twinops_execution {
  uint32_t struct_size;
  /* The most threads that the CPU kernel may use; 0: TWINOPS_THREADS or, without it, as many as
   * OpenMP would take (OMP_NUM_THREADS, omp_set_num_threads). Never more of the library's threads
   * than 64 or four a processor, whichever is more, nor more than the system gives. A negative
   * number is refused. */
  int32_t threads;
  /* A cudaStream_t of the tensors' device; NULL: the default stream. The CPU ignores it. */
  void* stream;
  /* The row that must be taken, "cpu/avx2", or its backend, "cuda" or "cpu"; NULL: the best. Where
   * it cannot be taken the call is refused: TWINOPS_INVALID_ARGUMENT if no row has that name,
   * TWINOPS_UNSUPPORTED if this machine cannot run it. */
  const char* row;
  /* The host's threads in place of the library's: calls task(task_context, i) once for every i in
   * [0, n), in any order and on any threads, and returns, or throws, when none of them runs. Those
   * threads, and the one that calls twinops_run, need 64 KiB of stack for it. NULL: the library's
   * own threads. */
  void (*parallel_for)(void* context, int64_t n, void (*task)(void* task_context, int64_t i),
                       void* task_context);
  void* parallel_context; /* handed to parallel_for */
  /* The host's allocator for scratch memory on the tensors' device: returns `bytes` bytes aligned
   * to 64, ordered on `stream`, or NULL if there are none. `release` gets the same memory back when
   * the work that uses it is queued; it may be NULL. Without `allocate` the CPU takes its heap, and
   * a CUDA call whose operator needs scratch memory is refused or, where there is a slower way to
   * the same bits without it, takes that (docs/operators/ says which). */
  void* (*allocate)(void* context, size_t bytes, void* stream);
  void (*release)(void* context, void* memory, size_t bytes, void* stream);
  void* workspace_context; /* handed to allocate and release */
  /* NULL, or filled in if the call succeeds. Its struct_size must be set. */
  twinops_report* report;
} twinops_execution;

/* Runs the operator named `op`. Arguments and attributes are given by name, in any order; an
 * attribute that is left out has its default. `execution` may be NULL.
 *
 * On the CPU the work is done when the function returns. On CUDA the work is queued on the stream
 * then: the call does not synchronize, does not copy, allocates nothing but by `allocate`, leaves
 * the current device as it was, and may be captured in a graph.
 *
 * Returns TWINOPS_INVALID_ARGUMENT or TWINOPS_UNSUPPORTED before anything is written. An empty
 * tensor or list is no error. */
TWINOPS_API twinops_status twinops_run(const char* op, const twinops_argument* arguments,
                                       size_t argument_count, const twinops_attribute* attributes,
                                       size_t attribute_count,
                                       const twinops_execution* execution) TWINOPS_NOEXCEPT;

/* Initializers: twinops_argument x = TWINOPS_ARGUMENT("x", tensors, 1); */
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
