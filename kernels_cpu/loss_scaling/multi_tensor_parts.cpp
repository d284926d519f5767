#include "kernels_cpu/loss_scaling/multi_tensor_parts.hpp"

#include <algorithm>
#include <atomic>

#include "kernels_cpu/runtime/parallel.hpp"

namespace twinops {
namespace {

constexpr std::int64_t kGrain = 1 << 14;  // elements that are worth a thread
constexpr std::int64_t kBuffer = 2048;    // elements gathered at a time

using StridedTensor = TensorList::Strided;

template <class Pointer>
Pointer advance(Pointer data, std::int64_t elements, Type type) {
  using Byte =
      std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const char, char>;
  return static_cast<Byte*>(data) + elements * static_cast<std::int64_t>(size_of(type));
}

// Steps along the innermost axis of a strided tensor, from element `begin` on.
class Cursor {
 public:
  Cursor(const Layout<StridedTensor::kOperands>& layout, std::int64_t begin) : layout_(layout) {
    for (int axis = layout.rank - 1; axis >= 0; --axis) {
      index_[axis] = begin % layout.size[axis];
      begin /= layout.size[axis];
      for (int k = 0; k < StridedTensor::kOperands; ++k)
        offset_[k] += index_[axis] * layout.stride[k][axis];
    }
  }
  std::int64_t offset(int k) const { return offset_[k]; }
  std::int64_t row_left() const { return layout_.size[inner()] - index_[inner()]; }
  std::int64_t stride(int k) const { return layout_.stride[k][inner()]; }

  void step(std::int64_t n) {  // n <= row_left()
    move(inner(), n);
    for (int axis = inner(); axis > 0 && index_[axis] == layout_.size[axis]; --axis) {
      move(axis, -layout_.size[axis]);
      move(axis - 1, 1);
    }
  }

 private:
  int inner() const { return layout_.rank - 1; }
  void move(int axis, std::int64_t n) {
    index_[axis] += n;
    for (int k = 0; k < StridedTensor::kOperands; ++k) offset_[k] += n * layout_.stride[k][axis];
  }
  const Layout<StridedTensor::kOperands>& layout_;
  std::int64_t index_[kMaxAxes] = {};
  std::int64_t offset_[StridedTensor::kOperands] = {};
};

// Copies n elements between a buffer and the elements from the cursor on. k: the operand.
template <class Word>
void copy_strided(Word* buffer, Word* tensor, int k, Cursor cursor, std::int64_t n, bool gather) {
  while (n > 0) {
    const std::int64_t run = std::min(n, cursor.row_left()), stride = cursor.stride(k);
    Word* row = tensor + cursor.offset(k);
    for (std::int64_t i = 0; i < run; ++i)
      gather ? buffer[i] = row[i * stride] : row[i * stride] = buffer[i];
    buffer += run;
    n -= run;
    cursor.step(run);
  }
}

void copy_strided(void* buffer, void* tensor, Type type, int k, const Cursor& cursor,
                  std::int64_t n, bool gather) {
  const auto copy = [&]<class Word>(Word*) {
    copy_strided(static_cast<Word*>(buffer), static_cast<Word*>(tensor), k, cursor, n, gather);
  };
  switch (size_of(type)) {
    case 2:
      return copy(static_cast<std::uint16_t*>(nullptr));
    case 4:
      return copy(static_cast<std::uint32_t*>(nullptr));
    default:
      return copy(static_cast<std::uint64_t*>(nullptr));
  }
}

// Calls body for elements [begin, end) of a strided tensor.
bool strided_range(const StridedTensor& tensor, std::int64_t begin, std::int64_t end, PartBody body,
                   const void* context) {
  alignas(64) char buffer[kBuffer * 8];
  const auto call = [&](const void* x, void* out, std::int64_t n) {
    const Start from[] = {{0, const_cast<void*>(x)}, {n, nullptr}}, to[] = {{0, out}, {n, nullptr}};
    return body(context, {tensor.type, x == out ? to : from, to, 1});
  };
  bool found = false;
  Cursor cursor(tensor.layout, begin);
  while (begin < end) {
    const bool rows = cursor.stride(StridedTensor::kOut) == 1 &&
                      cursor.stride(StridedTensor::kX) == 1 && cursor.row_left() >= 64;
    std::int64_t n = std::min(end - begin, rows ? cursor.row_left() : kBuffer);
    if (rows) {
      found |= call(advance(tensor.x, cursor.offset(StridedTensor::kX), tensor.type),
                    advance(tensor.out, cursor.offset(StridedTensor::kOut), tensor.type), n);
      cursor.step(n);
    } else {
      copy_strided(buffer, const_cast<void*>(tensor.x), tensor.type, StridedTensor::kX, cursor, n,
                   true);
      found |= call(buffer, buffer, n);
      copy_strided(buffer, tensor.out, tensor.type, StridedTensor::kOut, cursor, n, false);
      for (std::int64_t left = n; left > 0;) {
        const std::int64_t run = std::min(left, cursor.row_left());
        cursor.step(run);
        left -= run;
      }
    }
    begin += n;
  }
  return found;
}

}  // namespace

bool for_each_part(const TensorList& list, const Execution& execution, PartBody body,
                   const void* context) {
  std::atomic<bool> found{false};
  auto work = [&list, &found, body, context](std::int64_t begin, std::int64_t end) {
    bool here = false;
    list.for_each_part(begin, end,
                       [&](const TensorList::Part& part) { here |= body(context, part); });
    std::int64_t before = list.dense_elements();
    for (const TensorList::Strided& s : list.strided()) {
      const std::int64_t first = std::max<std::int64_t>(begin - before, 0);
      const std::int64_t last = std::min(end - before, s.elements);
      if (first < last) here |= strided_range(s, first, last, body, context);
      before += s.elements;
    }
    if (here) found.store(true, std::memory_order_relaxed);
  };
  parallel_ranges(execution, list.elements(), kGrain, 64, work);
  return found.load();
}

}  // namespace twinops
