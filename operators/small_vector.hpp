// A vector whose first elements lie in it: while tensors have no more axes than nearly all have, a
// call takes no memory from the heap for what it knows of each axis.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace twinops {

template <class T, std::size_t kFew = 8>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallVector() = default;
  explicit SmallVector(std::size_t n, const T& value = T()) { assign(n, value); }
  SmallVector(const SmallVector& other) { *this = other; }
  SmallVector& operator=(const SmallVector& other) {
    if (this == &other) return *this;
    size_ = 0;
    make_room(other.size_);
    std::copy_n(other.data_, other.size_, data_);
    size_ = other.size_;
    return *this;
  }

  void assign(std::size_t n, const T& value) {
    const T copy = value;  // which may lie in here
    size_ = 0;
    make_room(n);
    std::fill_n(data_, n, copy);
    size_ = n;
  }
  void assign(const T* first, const T* last) {  // not in here
    size_ = 0;
    make_room(static_cast<std::size_t>(last - first));
    std::copy(first, last, data_);
    size_ = static_cast<std::size_t>(last - first);
  }
  void push_back(const T& value) { insert(size_, value); }
  void insert(std::size_t at, const T& value) {
    const T copy = value;
    if (size_ == room_) make_room(2 * room_);
    std::copy_backward(data_ + at, data_ + size_, data_ + size_ + 1);
    data_[at] = copy;
    ++size_;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  void make_room(std::size_t n) {
    if (n <= room_) return;
    auto more = std::make_unique_for_overwrite<T[]>(n);
    std::copy_n(data_, size_, more.get());
    many_ = std::move(more);
    data_ = many_.get();
    room_ = n;
  }

  T few_[kFew];
  std::unique_ptr<T[]> many_;
  T* data_ = few_;
  std::size_t size_ = 0, room_ = kFew;
};

}  // namespace twinops
