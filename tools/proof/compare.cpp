// What is asked of a trial's outcomes: are they the same, did anything else change, what do they
// hash to.
#include <algorithm>
#include <cstring>

#include "tools/proof/bits.hpp"
#include "tools/proof/trial.hpp"

namespace proof {
namespace {

constexpr std::size_t kShareElements = 1 << 16;  // of a tensor, that finite_share() looks at

// The first byte that differs, or `bytes`.
std::size_t first_byte(const std::byte* a, const std::byte* b, std::size_t bytes) {
  constexpr std::size_t kChunk = 1 << 16;
  std::size_t at = 0;
  while (at < bytes && std::memcmp(a + at, b + at, std::min(kChunk, bytes - at)) == 0) at += kChunk;
  if (at >= bytes) return bytes;
  return static_cast<std::size_t>(std::mismatch(a + at, a + bytes, b + at).first - a);
}

std::string name_of(const Trial::Place& p) {
  if (p.argument->tensors.size() == 1) return p.argument->name;
  return p.argument->name + "[" + std::to_string(p.member) + "]";
}

// The tensor that a byte of the block belongs to, an output rather than an input; nullptr if none.
const Trial::Place* place_of(const Trial& trial, std::size_t byte) {
  const Trial::Place* found = nullptr;
  for (const Trial::Place& p : trial.places())
    if (p.begin <= byte && byte < p.end && (found == nullptr || p.argument->is_output)) found = &p;
  return found;
}

std::vector<const Trial::Place*> outputs_by_address(const Trial& trial) {
  std::vector<const Trial::Place*> outputs;
  for (const Trial::Place& p : trial.places())
    if (p.argument->is_output) outputs.push_back(&p);
  std::sort(outputs.begin(), outputs.end(),
            [](const auto* a, const auto* b) { return a->begin < b->begin; });
  return outputs;
}

// Which elements between its lowest and its highest a strided tensor has.
std::vector<bool> own_elements(const Trial::Place& p) {
  const TensorSpec& t = *p.tensor;
  const std::size_t size = size_of(t.type);
  std::vector<bool> own((p.end - p.begin) / size, false);
  std::vector<std::int64_t> index(t.shape.size(), 0);
  auto at = static_cast<std::int64_t>((p.origin - p.begin) / size);
  while (true) {
    own[static_cast<std::size_t>(at)] = true;
    std::size_t axis = t.shape.size();
    while (axis > 0) {
      --axis;
      at += t.strides[axis];
      if (++index[axis] < t.shape[axis]) break;
      at -= t.strides[axis] * t.shape[axis];
      index[axis] = 0;
      if (axis == 0) return own;
    }
    if (t.shape.empty()) return own;
  }
}

std::string changed(const Trial& trial, const Buffer& after, std::size_t byte) {
  const Trial::Place* p = place_of(trial, byte);
  const auto offset = static_cast<std::ptrdiff_t>(byte - (p == nullptr ? 0 : p->begin));
  return "byte " + std::to_string(offset) + " of " +
         (p == nullptr ? "the guard bytes" : name_of(*p) + "'s memory") + " changed from " +
         hex(load_bits(trial.before().data() + byte, 1), 1) + " to " +
         hex(load_bits(after.data() + byte, 1), 1);
}

template <class F>
void for_each_output(const Trial& trial, F&& f) {
  for (const Trial::Place& p : trial.places())
    if (p.argument->is_output && p.begin != p.end) f(p);
}

}  // namespace

std::optional<Difference> first_difference(const Trial& trial, const Outcome& expected,
                                           const Buffer& block, const twinops::Report& report) {
  const std::byte *a = expected.block.data(), *b = block.data();
  const std::size_t bytes = trial.before().size(), at = first_byte(a, b, bytes);
  if (at == bytes) {
    const std::uint64_t x = expected.report.random_words, y = report.random_words;
    if (x == y) return {};
    return Difference{"random_words", 0, hex(x, 8), hex(y, 8), {}};
  }
  const Trial::Place* p = place_of(trial, at);
  if (p == nullptr)
    return Difference{"guard bytes",
                      static_cast<std::int64_t>(at),
                      hex(load_bits(a + at, 1), 1),
                      hex(load_bits(b + at, 1), 1),
                      {}};
  const DLDataType type = p->tensor->type;
  const std::size_t size = size_of(type), index = (at - p->begin) / size;
  const std::uint64_t x = load_bits(a + p->begin + index * size, size);
  const std::uint64_t y = load_bits(b + p->begin + index * size, size);
  return Difference{name_of(*p), static_cast<std::int64_t>(index), hex(x, size), hex(y, size),
                    ulps_between(type, x, y)};
}

std::string describe(const Difference& d) {
  return d.argument + " at " + std::to_string(d.index) + ": " + d.expected + " expected, " +
         d.actual + " came" + (d.ulps.empty() ? "" : ", " + d.ulps + " ulps apart");
}

std::optional<std::string> stray_write(const Trial& trial, const Buffer& after) {
  const std::byte *a = trial.before().data(), *b = after.data();
  std::size_t at = 0;  // all before it is seen to
  const auto unchanged = [&](std::size_t begin, std::size_t end) {
    at = begin + first_byte(a + begin, b + begin, end - begin);
    return at == end;
  };
  for (const Trial::Place* p : outputs_by_address(trial)) {
    if (p->begin > at && !unchanged(at, p->begin)) return changed(trial, after, at);
    if (!p->tensor->strides.empty() && p->begin != p->end) {
      const std::size_t size = size_of(p->tensor->type);
      const std::vector<bool> own = own_elements(*p);
      for (std::size_t i = 0; i < own.size(); ++i)
        if (!own[i] && !unchanged(p->begin + i * size, p->begin + (i + 1) * size))
          return changed(trial, after, at);
    }
    at = std::max(at, p->end);
  }
  if (!unchanged(at, trial.before().size())) return changed(trial, after, at);
  return {};
}

std::uint64_t digest(const Trial& trial, const Buffer& block, const twinops::Report& report) {
  Fnv1a hash;
  for_each_output(
      trial, [&](const Trial::Place& p) { hash.add(block.data() + p.begin, p.end - p.begin); });
  const std::uint64_t words = report.random_words;
  if (words != 0) hash.add(&words, sizeof(words));
  return hash.value();
}

Share& Share::operator+=(const Share& other) {
  elements += other.elements;
  finite += other.finite;
  nonzero += other.nonzero;
  return *this;
}

Share finite_share(const Trial& trial, const Buffer& block) {
  Share share;
  for_each_output(trial, [&](const Trial::Place& p) {
    const DLDataType type = p.tensor->type;
    if (!is_floating(type)) return;
    const std::size_t size = size_of(type);
    const std::size_t end = std::min(p.end, p.begin + kShareElements * size);
    for (std::size_t at = p.begin; at < end; at += size) {
      const std::uint64_t bits = load_bits(block.data() + at, size);
      ++share.elements;
      if (!is_finite(type, bits)) continue;
      ++share.finite;
      share.nonzero += !is_zero(type, bits);
    }
  });
  return share;
}

}  // namespace proof
