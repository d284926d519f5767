// Two lists of tensors, member i written from member i: what check_finite_and_unscale and
// update_loss_scaling work on. Members that lie in one run of memory are `dense`, whatever their
// shape; dense members that lie one behind the other, as the gradients of a flat buffer do, are one
// Run.
#pragma once

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

  // The dense members, each of which has elements. before(i): elements of those before it; i may be
  // their number.
  std::size_t dense_count() const { return dense_count_; }
  const void* x(std::size_t i) const {
    if (x_ == nullptr) return picked_[i].x;
    return address_of(*(in_place_ ? out_ : x_)[i]);
  }
  void* out(std::size_t i) const { return x_ == nullptr ? picked_[i].out : address_of(*out_[i]); }
  Type type(std::size_t i) const { return x_ == nullptr ? picked_[i].type : type_; }
  std::int64_t before(std::size_t i) const { return before_[i]; }
  std::int64_t elements(std::size_t i) const { return before_[i + 1] - before_[i]; }

  // Dense members of one type, each of which begins where the one before ends, in x and in out.
  struct Run {
    const void* x;
    void* out;
    std::int64_t elements;
    Type type;
    std::size_t next;  // the first member behind
  };
  // The run that begins with dense member `first`, as far as members begin before element `end`.
  Run run(std::size_t first, std::int64_t end) const;
  const std::vector<Strided>& strided() const { return strided_; }

  std::int64_t elements() const { return elements_; }  // of all members
  bool in_place() const { return in_place_; }          // every member is
  bool has(Type type) const { return types_.has(type); }

 private:
  struct Picked {
    const void* x;
    void* out;
    Type type;
  };
  static constexpr std::size_t kAhead = 8;  // members that are on their way from memory
  bool take_as_they_came(const Call& call, const char* x, const char* out);
  void pick(const Call& call, const char* x, const char* out);

  // Where all are dense and of one type, as nearly always: the descriptions that came. They are
  // not copied: a copy would cost the thread that makes it, and another that has to fetch it.
  const DLTensor *const *x_ = nullptr, *const *out_ = nullptr;
  Type type_{};
  // Else.
  std::vector<Picked> picked_;
  std::vector<std::int64_t> picked_before_;
  std::vector<Strided> strided_;

  std::size_t dense_count_ = 0;
  const std::int64_t* before_ = nullptr;  // the call's, or picked_before_
  std::int64_t elements_ = 0;
  bool in_place_ = true;
  TypeSet types_;
};

inline TensorList::Run TensorList::run(std::size_t first, std::int64_t end) const {
  const void* const from = x(first);
  void* const to = out(first);
  const Type of = type(first);
  const std::int64_t before = before_[first];
  // As far as continues(i, bytes) says that member i begins so many bytes behind the first.
  const auto run = [&](auto&& continues) -> Run {
    std::size_t next = first + 1;
    for (; next < dense_count_ && before_[next] < end; ++next)
      if (!continues(next, (before_[next] - before) * static_cast<std::int64_t>(size_of(of))))
        break;
    return {from, to, before_[next] - before, of, next};
  };
  const auto begins = [](const void* there, const void* start, std::int64_t bytes) {
    return there == static_cast<const char*>(start) + bytes;
  };
  if (x_ == nullptr)
    return run([&](std::size_t i, std::int64_t bytes) {
      const Picked& p = picked_[i];
      return p.type == of && begins(p.x, from, bytes) && begins(p.out, to, bytes);
    });
  if (in_place_)
    return run([&](std::size_t i, std::int64_t bytes) {
      if (i + kAhead < dense_count_) __builtin_prefetch(out_[i + kAhead]);
      return begins(address_of(*out_[i]), to, bytes);
    });
  return run([&](std::size_t i, std::int64_t bytes) {
    if (i + kAhead < dense_count_) {
      __builtin_prefetch(out_[i + kAhead]);
      __builtin_prefetch(x_[i + kAhead]);
    }
    return begins(address_of(*x_[i]), from, bytes) && begins(address_of(*out_[i]), to, bytes);
  });
}

// Reads a tensor that must have one element.
const Tensor& read_scalar(const Call& call, const char* argument);

}  // namespace twinops
