// Two lists of tensors, member i written from member i: what check_finite_and_unscale and
// update_loss_scaling work on. Members that lie in one run of memory are `dense`, whatever their
// shape; dense members that lie one behind the other, as the gradients of a flat buffer do, are one
// run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "numerics/qualifiers.hpp"
#include "operators/layout.hpp"
#include "operators/operator.hpp"
#include "operators/tensor.hpp"

namespace twinops {

class TensorList {
 public:
  struct Strided {
    const void* x;
    void* out;
    std::int64_t elements;  // > 0
    Type type;
    enum Operand { kOut, kX, kOperands };
    Layout<kOperands> layout;
  };

  // Reads arguments `x` and `out`, which the call keeps. Refuses lists of different length, members
  // of different shape or type.
  TensorList(const Call& call, const char* x, const char* out);
  TensorList(TensorList&&) = default;

  // The dense members, each of which has elements. Where all of the list are one run, it is one.
  std::size_t dense_count() const { return dense_count_; }
  std::int64_t dense_elements() const { return dense_elements_; }
  const void* x(std::size_t i) const { return x_[i].data; }
  void* out(std::size_t i) const { return out_[i].data; }
  Type type(std::size_t i) const { return picked_types_.empty() ? type_ : picked_types_[i]; }
  std::int64_t elements(std::size_t i) const {
    return dense_count_ == 1 ? dense_elements_ : out_[i + 1].before - out_[i].before;
  }

  // Dense members of one type, one after the other, with the Starts of each and of what is behind.
  struct Part {
    Type type;
    const Start *x, *out;  // one and the same where every member is in place
    std::size_t count;     // > 0
  };
  // Calls f(part) until the elements [begin, end) of the dense members, counted through, have come:
  // at once for as many as can be, apart for a member that is cut.
  template <class F>
  void for_each_part(std::int64_t begin, std::int64_t end, F&& f) const;
  // Calls f(type, x, out, elements) for the same, and at once for those that lie one behind the
  // other in x and in out.
  template <class F>
  void for_each_run(std::int64_t begin, std::int64_t end, F&& f) const;
  const std::vector<Strided>& strided() const { return strided_; }

  std::int64_t elements() const { return elements_; }  // of all members
  bool in_place() const { return in_place_; }          // every member is
  bool has(Type type) const { return types_.has(type); }

 private:
  bool take_as_they_came(const Call& call, const char* x, const char* out);
  void pick(const Call& call, const char* x, const char* out);
  std::size_t member_of(std::int64_t element) const;
  std::size_t end_of_part(std::size_t i, std::int64_t end) const;

  // The call's, where all are dense and of one type, as nearly always, or those that were picked.
  // For another thread's sake, which has to fetch them, all that it needs lies together.
  const Start *x_ = nullptr, *out_ = nullptr;  // one and the same where every member is in place
  std::size_t dense_count_ = 0;
  std::int64_t dense_elements_ = 0, elements_ = 0;
  Type type_{};  // of all, if none were picked
  bool in_place_ = true;
  TypeSet types_;
  std::vector<Start> picked_x_, picked_out_;
  std::vector<Type> picked_types_;
  std::vector<Strided> strided_;
};

// The runs of a part, one after the other: members that lie one behind the other in x and in out.
// kInPlace: part.x and part.out are one and the same.
template <bool kInPlace>
class Runs {
 public:
  struct Run {
    char *x, *out;
    std::int64_t elements;
  };
  TWINOPS_INLINE Runs(const TensorList::Part& part, std::int64_t size)
      : x_(part.x), out_(part.out), end_(part.out + part.count), size_(size) {}
  TWINOPS_INLINE bool done() const { return out_ == end_; }
  TWINOPS_INLINE Run take() {  // not done()
    char *const x = x_data(), *const out = out_data();
    const std::int64_t before = out_->before;
    std::int64_t n;
    do {
      if constexpr (!kInPlace) ++x_;
      ++out_;
      n = out_->before - before;
    } while (!done() && out_data() == out + n * size_ && (kInPlace || x_data() == x + n * size_));
    return {x, out, n};
  }

 private:
  TWINOPS_INLINE char* out_data() const { return static_cast<char*>(out_->data); }
  TWINOPS_INLINE char* x_data() const {
    return kInPlace ? out_data() : static_cast<char*>(x_->data);
  }
  const Start *x_, *out_;
  const Start* const end_;
  const std::int64_t size_;  // of an element, in bytes
};

template <class F>
void TensorList::for_each_part(std::int64_t begin, std::int64_t end, F&& f) const {
  end = std::min(end, dense_elements_);
  for (std::size_t i = member_of(begin); begin < end;) {
    const std::size_t whole = begin == out_[i].before ? end_of_part(i, end) : i;
    if (whole != i) {
      f(Part{type(i), x_ + i, out_ + i, whole - i});
      begin = out_[i = whole].before;
      continue;
    }
    const std::int64_t last = std::min(end, out_[i].before + elements(i)), n = last - begin;
    const std::int64_t offset =
        (begin - out_[i].before) * static_cast<std::int64_t>(size_of(type(i)));
    const auto cut = [=](const Start& of) { return static_cast<char*>(of.data) + offset; };
    const Start x[] = {{0, cut(x_[i])}, {n, nullptr}}, out[] = {{0, cut(out_[i])}, {n, nullptr}};
    f(Part{type(i), in_place_ ? out : x, out, 1});
    begin = last;
    ++i;
  }
}

template <class F>
void TensorList::for_each_run(std::int64_t begin, std::int64_t end, F&& f) const {
  for_each_part(begin, end, [&f](const Part& part) {
    for (Runs<false> runs(part, static_cast<std::int64_t>(size_of(part.type))); !runs.done();) {
      const auto run = runs.take();
      f(part.type, run.x, run.out, run.elements);
    }
  });
}

// Reads a tensor that must have one element.
const Tensor& read_scalar(const Call& call, const char* argument);

}  // namespace twinops
