// Two lists of tensors, member i written from member i: what check_finite_and_unscale and
// update_loss_scaling work on. Members that lie in one run of memory are `dense`, whatever their
// shape; dense members that lie one behind the other, as the gradients of a flat buffer do, are one
// run.
#pragma once

#include <algorithm>
#include <vector>

#include "operators/call.hpp"
#include "operators/layout.hpp"

namespace twinops {

class TensorList {
 public:
  struct Strided {
    const void* x;
    void* out;
    std::int64_t elements;  // > 0
    Type type;
    Layout<2> layout;  // operand 0 is out, operand 1 is x
  };

  // Reads arguments `x` and `out`, which the call keeps. Refuses lists of different length, members
  // of different shape or type.
  TensorList(const Call& call, const char* x, const char* out);
  TensorList(TensorList&&) = default;

  // The dense members, each of which has elements. Where all of the list are one run, it is one.
  std::size_t dense_count() const { return dense_count_; }
  std::int64_t dense_elements() const { return dense_elements_; }
  const void* x(std::size_t i) const {
    if (x_ == nullptr) return picked_[i].x;
    return address_of(*(in_place_ ? out_ : x_)[i]);
  }
  void* out(std::size_t i) const { return x_ == nullptr ? picked_[i].out : address_of(*out_[i]); }
  Type type(std::size_t i) const { return x_ == nullptr ? picked_[i].type : type_; }
  std::int64_t elements(std::size_t i) const {
    return dense_count_ == 1 ? dense_elements_ : before_[i + 1] - before_[i];
  }

  // Calls f(type, x, out, elements) for the elements [begin, end) of the dense members, counted
  // through: for those at once that lie one behind the other in x and in out, and are of one type.
  template <class F>
  void for_each_run(std::int64_t begin, std::int64_t end, F&& f) const;
  const std::vector<Strided>& strided() const { return strided_; }

  std::int64_t elements() const { return elements_; }  // of all members
  bool in_place() const { return in_place_; }          // every member is
  bool has(Type type) const { return types_.has(type); }

 private:
  struct Place {
    const void* x;
    void* out;
    Type type;
  };
  static constexpr std::size_t kAhead = 32;  // members that are on their way from memory
  bool take_as_they_came(const Call& call, const char* x, const char* out);
  void pick(const Call& call, const char* x, const char* out);
  std::size_t member_of(std::int64_t element) const;
  template <class PlaceOf, class F>
  void walk(std::int64_t begin, std::int64_t end, PlaceOf&& place_of, F&& f) const;

  // Where all are dense and of one type, as nearly always: the descriptions that came. They are
  // not copied: a copy would cost the thread that makes it, and another that has to fetch it. For
  // that other's sake all that it needs of the list lies together.
  const DLTensor *const *x_ = nullptr, *const *out_ = nullptr;
  const std::int64_t* before_ = nullptr;  // the call's, or picked_before_; not looked at for one
  std::size_t dense_count_ = 0;
  std::int64_t dense_elements_ = 0, elements_ = 0;
  Type type_{};
  bool in_place_ = true;
  TypeSet types_;
  // Else.
  std::vector<Place> picked_;
  std::vector<std::int64_t> picked_before_;
  std::vector<Strided> strided_;
};

template <class F>
void TensorList::for_each_run(std::int64_t begin, std::int64_t end, F&& f) const {
  // Copies, which nothing that f writes can change.
  const auto at = [count = dense_count_](const DLTensor* const* tensors, std::size_t i) {
    if (i + kAhead < count) __builtin_prefetch(tensors[i + kAhead]);
    return address_of(*tensors[i]);
  };
  const Type type = type_;
  const DLTensor *const *const x = x_, *const *const out = out_;
  if (x == nullptr) {
    walk(
        begin, end, [&](std::size_t i) { return picked_[i]; }, f);
  } else if (in_place_) {
    const auto place_of = [=](std::size_t i) {
      void* const both = at(out, i);
      return Place{both, both, type};
    };
    walk(begin, end, place_of, f);
  } else {
    walk(
        begin, end,
        [=](std::size_t i) {
          return Place{at(x, i), at(out, i), type};
        },
        f);
  }
}

template <class PlaceOf, class F>
void TensorList::walk(std::int64_t begin, std::int64_t end, PlaceOf&& place_of, F&& f) const {
  std::size_t i = member_of(begin);
  const std::size_t count = dense_count_;
  if (i == count || begin >= end) return;
  end = std::min(end, dense_elements_);
  const std::int64_t* const before = before_;
  const auto behind = [](const Place& place, std::int64_t elements) {
    const auto bytes = elements * static_cast<std::int64_t>(size_of(place.type));
    return Place{static_cast<const char*>(place.x) + bytes, static_cast<char*>(place.out) + bytes,
                 place.type};
  };
  Place run = behind(place_of(i), i == 0 ? begin : begin - before[i]);
  Place last = run;  // of the run so far the last member, which begins with element `at`
  std::int64_t at = begin;
  while (++i < count && before[i] < end) {
    const Place expected = behind(last, before[i] - at);
    last = place_of(i);
    at = before[i];
    if (last.x == expected.x && last.out == expected.out && last.type == run.type) continue;
    f(run.type, run.x, run.out, at - begin);
    begin = at;
    run = last;
  }
  f(run.type, run.x, run.out, end - begin);
}

// Reads a tensor that must have one element.
const Tensor& read_scalar(const Call& call, const char* argument);

}  // namespace twinops
