#include "operators/overlap.hpp"

#include <algorithm>
#include <array>

#include "operators/call.hpp"
#include "operators/layout.hpp"
#include "operators/names.hpp"

namespace twinops {
namespace {

struct Extent {
  std::uintptr_t begin, end;  // bytes
  const Tensor* tensor;
  std::uint32_t argument, index;
};

Extent extent_of(const Tensor& t, std::size_t argument, std::size_t index) {
  const auto data = reinterpret_cast<std::uintptr_t>(t.data);
  std::int64_t low = 0, high = t.elements - 1;
  if (!t.contiguous) {
    high = 0;
    for (int i = 0; i < t.rank; ++i)
      (t.strides[i] < 0 ? low : high) += t.strides[i] * (t.shape[i] - 1);
  }
  const auto size = static_cast<std::int64_t>(size_of(t.type));
  return {data + static_cast<std::uintptr_t>(low * size),
          data + static_cast<std::uintptr_t>((high + 1) * size), &t,
          static_cast<std::uint32_t>(argument), static_cast<std::uint32_t>(index)};
}

// The bytes that a tensor covers: its lowest address plus any sum of index * stride over its axes,
// outermost first, the bytes of an element innermost.
struct Places {
  struct Axis {
    std::int64_t stride, most;  // the highest index
  };
  int rank = 0;
  bool repeats = false;  // an axis stays where it is
  Axis axes[kMostAxes + 1];

  explicit Places(const Tensor& t) {
    Layout<1, kMostAxes> layout;
    const Strides strides = strides_of(t);
    collapse<1>(layout, t.rank, t.shape, {strides.data()});  // which has room for every tensor
    const auto size = static_cast<std::int64_t>(size_of(t.type));
    for (int i = 0; i < layout.rank; ++i) {
      repeats |= layout.stride[0][i] == 0;
      if (layout.stride[0][i] != 0)
        axes[rank++] = {std::abs(layout.stride[0][i]) * size, layout.size[i] - 1};
    }
    axes[rank++] = {1, size - 1};
  }
};

// Whether a place of `a` is a place of `b`, `distance` bytes further on: whether the distance is a
// sum of stride * steps over both tensors' axes, steps from -b's highest index to a's.
class Meeting {
 public:
  Meeting(const Places& a, const Places& b) {
    for (int i = 0, j = 0; i < a.rank || j < b.rank;) {
      const std::int64_t at_a = i < a.rank ? a.axes[i].stride : 0;
      const std::int64_t at_b = j < b.rank ? b.axes[j].stride : 0;
      Axis axis{std::max(at_a, at_b), 0, 0, 0, 0, true};
      if (axis.stride == at_a) axis.forward = a.axes[i++].most;
      if (axis.stride == at_b) axis.back = b.axes[j++].most;
      axes_[rank_++] = axis;
    }
    for (int i = rank_ - 2; i >= 0; --i) {
      const Axis& inner = axes_[i + 1];
      axes_[i].high = inner.high + inner.forward * inner.stride;
      axes_[i].low = inner.low - inner.back * inner.stride;
      axes_[i].dense = inner.dense && inner.stride <= inner.high - inner.low + 1;
    }
  }

  bool at(std::int64_t distance) { return at(distance, 0); }

  // Of a tensor and itself: whether two elements meet, which are apart along some axis, and along
  // none outside it. The innermost axis is the bytes of one element.
  bool at_two_elements() {
    for (int i = 0; i + 1 < rank_; ++i) {
      const std::int64_t last = std::min(axes_[i].forward, axes_[i].high / axes_[i].stride);
      for (std::int64_t steps = 1; steps <= last; ++steps)
        if (--patience_ < 0 || at(-steps * axes_[i].stride, i + 1)) return patience_ >= 0;
    }
    return false;
  }
  bool is_decided() const { return patience_ >= 0; }

 private:
  struct Axis {
    std::int64_t stride, forward, back;
    std::int64_t low, high;  // what the axes inside this one can add up to
    bool dense;              // they can add up to every number between
  };

  bool at(std::int64_t distance, int i) {
    if (i == rank_) return distance == 0;
    const Axis& axis = axes_[i];
    const std::int64_t first = std::max(-axis.back, -floor_of(axis.high - distance, axis.stride));
    const std::int64_t last = std::min(axis.forward, floor_of(distance - axis.low, axis.stride));
    if (axis.dense) return first <= last;
    for (std::int64_t steps = first; steps <= last; ++steps)
      if (--patience_ < 0 || at(distance - steps * axis.stride, i + 1)) return patience_ >= 0;
    return false;
  }
  static std::int64_t floor_of(std::int64_t a, std::int64_t b) {
    return a / b - (a % b < 0 ? 1 : 0);
  }

  int rank_ = 0;
  Axis axes_[2 * (kMostAxes + 1)];
  int patience_ = 1 << 16;
};

// Whether two tensors, whose extents meet, share memory: decided exactly, but for layouts so
// entangled that patience ends.
enum class Sharing { no, yes, not_decided };
Sharing share_memory(const Extent& a, const Extent& b) {
  if (a.tensor->contiguous && b.tensor->contiguous) return Sharing::yes;
  Meeting meeting(Places(*a.tensor), Places(*b.tensor));
  if (meeting.at(static_cast<std::int64_t>(b.begin - a.begin))) return Sharing::yes;
  return meeting.is_decided() ? Sharing::no : Sharing::not_decided;
}

void refuse_self_overlap(const Call& call, const char* argument, std::size_t index,
                         const Tensor& t) {
  if (t.contiguous) return;
  const Places places(t);
  Meeting meeting(places, places);
  if (places.repeats || meeting.at_two_elements())
    call.refuse(call.where(argument, index), "its strides let two elements share memory");
  if (!meeting.is_decided())
    call.refuse(call.where(argument, index),
                "its strides may let two elements share memory: they are too entangled to tell");
}

bool same_memory(const Tensor& a, const Tensor& b) {
  if (a.data != b.data || a.type != b.type || !same_shape(a, b)) return false;
  if (a.contiguous && b.contiguous) return true;
  for (int i = 0; i < a.rank; ++i)
    if (a.shape[i] != 1 && a.stride(i) != b.stride(i)) return false;
  return true;
}

// The list that may be written over `input`, member over member; nullptr if there is none, and for
// an output.
const Call::Bound* overwriting_list(const Call& call, std::span<const InPlace> in_place,
                                    const Call::Bound& input) {
  for (const InPlace& pair : in_place)
    if (same_name(pair.in, input.info->name)) return &call.argument(pair.out);
  return nullptr;
}

// Whether every member is written over.
bool in_place_throughout(const Call& call, const Call::Bound& inputs, const Call::Bound& outs) {
  const Survey &read = inputs.original().survey, &written = outs.original().survey;
  if (read.begin != written.begin || read.end != written.end) return false;
  const auto in = call.tensors(inputs), out = call.tensors(outs);
  if (in.size() != out.size()) return false;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in[i].elements != 0 && !same_memory(out[i], in[i])) return false;
  return true;
}

// What nearly always comes: tensors without gaps, each list in ascending order of address or in
// place, and the arguments in memory of their own. Says no where it would take a second look.
bool clearly_apart(const Call& call, std::span<const InPlace> in_place) {
  std::array<const Survey*, kMostArguments> apart;
  std::size_t count = 0;
  for (const Call::Bound& bound : call.arguments()) {
    const Call::Bound* over = overwriting_list(call, in_place, bound);
    if (over != nullptr &&
        (Call::are_same(*over, bound) || in_place_throughout(call, bound, *over)))
      continue;
    const Survey& survey = bound.original().survey;
    if (survey.end == 0) continue;
    if (!survey.apart) return false;
    for (std::size_t i = 0; i < count; ++i)
      if (survey.begin < apart[i]->end && apart[i]->begin < survey.end) return false;
    apart[count++] = &survey;
  }
  return true;
}

}  // namespace

void refuse_overlaps(const Call& call, std::span<const InPlace> in_place) {
  if (clearly_apart(call, in_place)) return;
  const auto is_output = [&](const Extent& e) {
    return call.arguments()[e.argument].info->direction == ArgumentInfo::Direction::output;
  };
  const auto where = [&](const Extent& e) {
    return call.where(call.arguments()[e.argument].info->name, e.index);
  };
  std::vector<Extent> extents;
  std::size_t tensors = 0;
  for (const Call::Bound& bound : call.arguments()) tensors += bound.original().count;
  extents.reserve(tensors);
  const auto by_begin = [](const Extent& x, const Extent& y) { return x.begin < y.begin; };
  for (std::size_t a = 0; a < call.arguments().size(); ++a) {
    const auto run = static_cast<std::ptrdiff_t>(extents.size());
    const Call::Bound& bound = call.arguments()[a];
    const bool output = bound.info->direction == ArgumentInfo::Direction::output;
    const Call::Bound* over = output ? nullptr : overwriting_list(call, in_place, bound);
    if (over != nullptr && Call::are_same(*over, bound)) continue;
    const std::span<const Tensor> tensors = call.tensors(bound);
    const std::span<const Tensor> outs = over == nullptr ? tensors.first(0) : call.tensors(*over);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& t = tensors[i];
      if (t.elements == 0) continue;
      if (output) refuse_self_overlap(call, bound.info->name, i, t);
      if (i < outs.size() && same_memory(outs[i], t)) continue;
      extents.push_back(extent_of(t, a, i));
    }
    // A list often comes in ascending order: then this is a look and a merge.
    const auto middle = extents.begin() + run;
    if (!std::is_sorted(middle, extents.end(), by_begin))
      std::sort(middle, extents.end(), by_begin);
    std::inplace_merge(extents.begin(), middle, extents.end(), by_begin);
  }
  const auto meets_next = [](const Extent& x, const Extent& y) { return x.end > y.begin; };
  if (std::adjacent_find(extents.begin(), extents.end(), meets_next) == extents.end()) return;

  // Extents that may still reach into the next one: rarely more than one.
  std::vector<Extent> open;
  std::uintptr_t reach = 0;
  for (const Extent& e : extents) {
    if (reach <= e.begin) open.clear();
    for (const Extent& o : open) {
      if (o.end <= e.begin || (!is_output(o) && !is_output(e))) continue;
      const Sharing sharing = share_memory(o, e);
      if (sharing == Sharing::no) continue;
      const Extent &out = is_output(e) ? e : o, &other = is_output(e) ? o : e;
      if (sharing == Sharing::not_decided)
        call.refuse(where(out), "may share memory with " + where(other) +
                                    ": their strides are too entangled to tell");
      call.refuse(where(out),
                  "shares memory with " + where(other) +
                      (is_output(other) ? "" : ", but is not the same tensor in place"));
    }
    open.push_back(e);
    reach = std::max(reach, e.end);
  }
}

}  // namespace twinops
