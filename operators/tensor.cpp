#include "operators/tensor.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>

#include "numerics/qualifiers.hpp"
#include "operators/describe.hpp"
#include "operators/device_type.hpp"
#include "operators/error.hpp"

namespace twinops {
namespace {

constexpr std::size_t kAhead = 32;  // descriptions of a list that are on their way from memory

// Messages are made out of line, so that a tensor that is right is read in few instructions: lists
// are long.
[[noreturn, gnu::cold, gnu::noinline]] void refuse(const char* what) {
  throw Error(Status::invalid_argument, what);
}
[[noreturn, gnu::cold, gnu::noinline]] void refuse_type(TypeSet expected, DLDataType got) {
  throw Error(Status::invalid_argument,
              "expected " + describe(expected) + "; got " + describe(got));
}
[[noreturn, gnu::cold, gnu::noinline]] void refuse_device(int type) {
  throw Error(Status::invalid_argument,
              "expected memory of the CPU or of a CUDA device; got DLPack device type " +
                  std::to_string(type));
}
[[noreturn, gnu::cold, gnu::noinline]] void refuse_dimension(int axis, std::int64_t size) {
  throw Error(Status::invalid_argument,
              "dimension " + std::to_string(axis) + " is negative: " + std::to_string(size));
}
[[noreturn, gnu::cold, gnu::noinline]] void refuse_alignment(std::size_t element) {
  throw Error(Status::invalid_argument,
              "its data is not aligned to its element, " + std::to_string(element) + " bytes");
}

// Of a list's descriptions, those some way behind number i, which was looked at. Inlined always: of
// a call that only fetches g++ 12 makes nothing at all.
TWINOPS_INLINE void fetch_ahead(const DLTensor* const* tensors, std::size_t count, std::size_t i) {
  if (i + 2 * kAhead >= count || tensors[i + kAhead] == nullptr) return;
  __builtin_prefetch(tensors[i + 2 * kAhead]);
  __builtin_prefetch(tensors[i + kAhead]->shape);
}

// Of a description, what is most often as in the one before: device, number of dimensions, type.
constexpr std::size_t kKind = offsetof(DLTensor, device);
struct Kind {
  std::uint64_t device, rank_and_type;
  bool operator==(const Kind&) const = default;
};
static_assert(sizeof(Kind) == sizeof(DLDevice) + sizeof(std::int32_t) + sizeof(DLDataType));
static_assert(kKind + sizeof(Kind) == offsetof(DLTensor, dtype) + sizeof(DLDataType));
inline Kind kind_of(const DLTensor& t) {
  Kind kind;
  std::memcpy(&kind, reinterpret_cast<const char*>(&t) + kKind, sizeof(kind));
  return kind;
}

// The product of the dimensions; refuses one that has no 64-bit byte offset.
std::int64_t count_elements(const DLTensor& t, std::size_t element) {
  std::int64_t n = 1, bytes = 0;
  bool overflows = false, empty = false;
  for (int i = 0; i < t.ndim; ++i) {
    if (t.shape[i] < 0) refuse_dimension(i, t.shape[i]);
    empty |= t.shape[i] == 0;
    overflows |= __builtin_mul_overflow(n, t.shape[i], &n);
  }
  if (empty) return 0;
  overflows |= __builtin_mul_overflow(n, static_cast<std::int64_t>(element), &bytes);
  if (overflows) refuse("its size in bytes does not fit 64 bits");
  return n;
}
// The same of at most kFew dimensions in few instructions; 0 where one of them is not small.
constexpr int kFew = 4;
inline std::int64_t count_small(const std::int64_t* shape, int rank) {
  constexpr std::uint64_t kSmall = 1 << 15;
  std::uint64_t n = 1, bits = 0;
  for (int i = 0; i < rank; ++i) {
    const auto size = static_cast<std::uint64_t>(shape[i]);
    bits |= size;
    n *= size;
  }
  return bits < kSmall ? static_cast<std::int64_t>(n) : 0;
}

[[gnu::noinline]] bool is_contiguous(const DLTensor& t, std::int64_t elements) {
  if (elements <= 1) return true;
  std::int64_t expected = 1;
  for (int i = t.ndim - 1; i >= 0; --i) {
    if (t.shape[i] != 1 && t.strides[i] != expected) return false;
    expected *= t.shape[i];
  }
  return true;
}

// How far strides lead below and above the first element, in elements. Refuses those that lead
// outside a 64-bit address space.
struct Reach {
  std::int64_t below = 0, above = 0;
};
Reach reach_of(const DLTensor& t) {
  Reach reach;
  std::int64_t extent = 0;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 16;
  for (int i = 0; i < t.ndim; ++i) {
    if (t.strides[i] == std::numeric_limits<std::int64_t>::min()) refuse("a stride does not fit");
    const std::int64_t stride = std::max(t.strides[i], -t.strides[i]);
    if (stride != 0 && t.shape[i] - 1 > (most - extent) / stride)
      refuse("its strides reach further than 64 bits of bytes");
    extent += stride * (t.shape[i] - 1);
    (t.strides[i] < 0 ? reach.below : reach.above) += stride * (t.shape[i] - 1);
  }
  return reach;
}

// Refuses a tensor with elements that leads around the end of the address space.
inline void check_address(const DLTensor& t, std::int64_t elements, std::size_t element,
                          bool contiguous) {
  Reach reach{0, elements - 1};
  if (!contiguous) reach = reach_of(t);
  std::uintptr_t address, end;
  if (__builtin_add_overflow(reinterpret_cast<std::uintptr_t>(t.data), t.byte_offset, &address))
    refuse("its byte_offset leads around the end of the address space");
  if (static_cast<std::uintptr_t>(reach.below) * element > address ||
      __builtin_add_overflow(address, (static_cast<std::uintptr_t>(reach.above) + 1) * element,
                             &end))
    refuse("it reaches around the end of the address space");
}

}  // namespace

const char* name(Backend backend) { return backend == Backend::cpu ? "cpu" : "cuda"; }

Device read_device(DLDevice device) {
  constexpr int kManaged = 13;  // kDLCUDAManaged, which DLPack 0.6 does not name yet
  switch (type_of(device)) {
    case kDLCPU:
    case kDLCUDAHost:
      return {Backend::cpu, 0};
    case kDLCUDA:
    case kManaged:
      return {Backend::cuda, device.device_id};
    default:
      refuse_device(type_of(device));
  }
}

std::int64_t Tensor::stride(int axis) const {
  if (elements == 0) return 0;
  if (strides != nullptr) return strides[axis];
  std::int64_t s = 1;
  for (int i = rank - 1; i > axis; --i) s *= shape[i];
  return s;
}

namespace {

// Of the tensors so far: their elements, where the last that has any ends, and whether each begins
// where or after the one before ends.
struct Sum {
  std::int64_t elements = 0;
  std::uintptr_t end = 0;
  bool ascending = true;
};

// Reads on from number i, behind `last`, for as long as descriptions are as they nearly always are:
// of the kind of the one before, of few and small dimensions, without gaps and with elements.
// Returns the number of the first that is not. What is not as it must be is not either.
[[gnu::noinline]] std::size_t read_plain(const DLTensor* const* tensors, std::size_t count,
                                         std::size_t i, const DLTensor& last, std::size_t element,
                                         Start* starts, Sum& sum) {
  const Kind kind = kind_of(last);
  const int rank = last.ndim;
  if (rank <= 0 || rank > kFew) return i;
  const std::uintptr_t within = element - 1;
  const int shift = std::countr_zero(element);
  std::int64_t elements = sum.elements, next;
  std::uintptr_t end = sum.end, descends = 0;
  for (; i < count; ++i) {
    const DLTensor* const tensor = tensors[i];
    if (tensor == nullptr) break;
    fetch_ahead(tensors, count, i);
    if (kind_of(*tensor) != kind || tensor->shape == nullptr || tensor->data == nullptr) break;
    const std::int64_t n = count_small(tensor->shape, rank);
    if (n == 0 || (tensor->strides != nullptr && !is_contiguous(*tensor, n))) break;
    std::uintptr_t address, beyond;
    if (__builtin_add_overflow(reinterpret_cast<std::uintptr_t>(tensor->data), tensor->byte_offset,
                               &address) ||
        __builtin_add_overflow(address, static_cast<std::uintptr_t>(n) << shift, &beyond) ||
        (address & within) != 0 || __builtin_add_overflow(elements, n, &next))
      break;
    starts[i] = {elements, reinterpret_cast<void*>(address)};
    elements = next;
    descends |= address < end;
    end = beyond;
  }
  sum = {elements, end, sum.ascending && descends == 0};
  return i;
}

// kKeep: readings.tensors is wanted; of a long list it is not.
template <bool kKeep>
Survey read(const DLTensor* const* tensors, std::size_t count, TypeSet types, Readings readings,
            std::size_t& done) {
  Survey survey{{}, {}, true, true, true, true, 0, 0, 0};
  const DLTensor* last = nullptr;
  Type type{};
  Device device{};
  std::size_t element = 0;
  Sum sum;
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (!kKeep) {
      if (sum.end != 0) i = read_plain(tensors, count, i, *last, element, readings.starts, sum);
      if (i == count) break;
    }
    done = i;
    const DLTensor* const tensor = tensors[i];
    if (tensor == nullptr) refuse("is NULL");
    fetch_ahead(tensors, count, i);
    if (last == nullptr || kind_of(*last) != kind_of(*tensor)) {
      if (tensor->ndim < 0) refuse("has a negative number of dimensions");
      const Type type_before = type;
      if (!from_dlpack(tensor->dtype, type) || !types.has(type)) refuse_type(types, tensor->dtype);
      element = size_of(type);
      device = read_device(tensor->device);
      if (i == 0) survey.device = device;
      survey.one_type &= i == 0 || type == type_before;
      survey.one_device &= device == survey.device;
    }
    last = tensor;
    if (tensor->ndim > 0 && tensor->shape == nullptr) refuse("its shape is NULL");
    const std::int64_t n = count_elements(*tensor, element);
    const std::int64_t before = sum.elements;
    if (__builtin_add_overflow(sum.elements, n, &sum.elements))
      refuse("with those before it, it has more elements than 64 bits count");
    void* data = nullptr;
    bool contiguous = true;
    if (n != 0) {
      if (tensor->strides != nullptr) {
        contiguous = is_contiguous(*tensor, n);
      }
      if (tensor->data == nullptr) refuse("its data is NULL, but it has elements");
      check_address(*tensor, n, element, contiguous);
      data = address_of(*tensor);
      const auto address = reinterpret_cast<std::uintptr_t>(data);
      if ((address & (element - 1)) != 0) refuse_alignment(element);
      sum.ascending &= contiguous && address >= sum.end;
      if (sum.end == 0) survey.begin = address;
      sum.end = address + static_cast<std::uintptr_t>(n) * element;
    }
    if (!contiguous || n == 0) survey.dense = false;
    if (!kKeep || readings.starts != nullptr) readings.starts[i] = {before, data};
    if constexpr (kKeep)
      readings.tensors[i] = {data,         tensor->shape, tensor->strides, n, device,
                             tensor->ndim, type,          contiguous};
  }
  if (readings.starts != nullptr) readings.starts[count] = {sum.elements, nullptr};
  done = count;
  survey.type = type;
  survey.apart = sum.ascending;
  survey.end = sum.end;
  survey.elements = sum.elements;
  return survey;
}

}  // namespace

Survey read_tensors(const DLTensor* const* tensors, std::size_t count, TypeSet types,
                    Readings readings, std::size_t& done) {
  return readings.tensors != nullptr ? read<true>(tensors, count, types, readings, done)
                                     : read<false>(tensors, count, types, readings, done);
}

namespace {

bool same_numbers(const std::int64_t* a, const std::int64_t* b, int count) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  for (int i = 0; i < count; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

}  // namespace

bool same_views(const DLTensor* const* a, const DLTensor* const* b, std::size_t count) {
  if (a == b) return true;
  for (std::size_t i = 0; i < count; ++i) {
    const DLTensor *x = a[i], *y = b[i];
    if (x == y) continue;
    fetch_ahead(b, count, i);
    if (y == nullptr || x->data != y->data || x->byte_offset != y->byte_offset ||
        x->ndim != y->ndim || std::memcmp(&x->dtype, &y->dtype, sizeof(x->dtype)) != 0 ||
        std::memcmp(&x->device, &y->device, sizeof(x->device)) != 0 ||
        !same_numbers(x->shape, y->shape, x->ndim) ||
        !same_numbers(x->strides, y->strides, x->ndim))
      return false;
  }
  return true;
}

Strides strides_of(const Tensor& tensor) {
  Strides strides(tensor.rank);
  for (int i = 0; i < tensor.rank; ++i) strides[i] = tensor.stride(i);
  return strides;
}

Strides row_major(const Tensor& tensor) {
  Strides strides(tensor.rank, 0);
  if (tensor.elements == 0) return strides;
  std::int64_t step = 1;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    strides[i] = step;
    step *= tensor.shape[i];
  }
  return strides;
}

}  // namespace twinops
