// A vector whose first elements lie in it: while tensors have no more axes than nearly all have, a
// call takes no memory from the heap for what it knows of each axis.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

namespace twinops {

template <class T, std::size_t kFew = 8>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallVector() = default;
  explicit SmallVector(std::size_t n, const T& value = T()) { assign(n, value); }
  SmallVector(const SmallVector& other) { assign(other.begin(), other.end()); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  ~SmallVector() { delete[] many_; }

  void assign(std::size_t n, const T& value) {
    const T copy = value;  // which may lie in here
    size_ = 0;
    make_room(n);
    for (std::size_t i = 0; i < n; ++i) data_[i] = copy;
    size_ = n;
  }
  void assign(const T* first, const T* last) {  // not in here
    size_ = 0;
    make_room(static_cast<std::size_t>(last - first));
    move(data_, first, last);
    size_ = static_cast<std::size_t>(last - first);
  }
  void push_back(const T& value) { insert(size_, value); }
  void insert(std::size_t at, const T& value) {
    const T copy = value;
    if (size_ == room_) make_room(2 * room_);
    move(data_ + at + 1, data_ + at, data_ + size_);
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
  // To memory that may overlap. There may be nothing at all, at nullptr.
  static void move(T* to, const T* first, const T* last) {
    if (first != last) std::memmove(to, first, static_cast<std::size_t>(last - first) * sizeof(T));
  }
  void make_room(std::size_t n) {
    if (n <= room_) return;
    T* const more = new T[n];
    move(more, begin(), end());
    delete[] many_;
    many_ = data_ = more;
    room_ = n;
  }

  T few_[kFew];
  T* many_ = nullptr;  // its own, once they are more than a few
  T* data_ = few_;
  std::size_t size_ = 0, room_ = kFew;
};

}  // namespace twinops
