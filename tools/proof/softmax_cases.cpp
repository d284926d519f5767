// Cases of softmax, log_softmax and their backward passes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/proof/bits.hpp"
#include "tools/proof/cases.hpp"
#include "tools/proof/values.hpp"

namespace proof {
namespace {

std::uint64_t mix(std::uint64_t seed, std::int64_t index) {
  std::uint64_t z = seed + 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(index + 1);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
double unit(std::uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

// The elements by a function of (random word, index).
template <class F>
Fill each(F value) {
  return [value](const Memory& m) {
    const std::size_t size = size_of(m.type);
    auto* to = static_cast<std::byte*>(m.data);
    for (std::int64_t i = 0; i < m.elements; ++i)
      store_bits(to + static_cast<std::size_t>(i) * size, size,
                 bits_from(m.type, value(mix(m.seed, i), i)));
  };
}

// What the last layer of a network gives: between -12 and 12, most of them small.
Fill logits() {
  return each([](std::uint64_t word, std::int64_t) {
    const double u = 2 * unit(word) - 1;
    return 12 * u * u * u;
  });
}
// Where the weights leave the range of the type, chunks join at far powers of two, and elements are
// masked away.
Fill steep() {
  const auto fall = [](double height, double step) {
    return each([=](std::uint64_t word, std::int64_t i) {
      if (word % 7 == 0) return -std::numeric_limits<double>::infinity();
      return height * (unit(word) - 0.5) - static_cast<double>(i / 1024 % 5) * step;
    });
  };
  return [half = fall(16, 2), single = fall(200, 40), wide = fall(1600, 300)](const Memory& m) {
    (m.type.bits == 16 ? half : m.type.bits == 32 ? single : wide)(m);
  };
}
// So large that a row must first be moved by its maximum: the steps between numbers are of the size
// of the interesting differences.
Fill far() {
  return each([](std::uint64_t word, std::int64_t) {
    return 4194304.0 + std::floor(64 * unit(word)) - (word % 5 == 0 ? 5e6 : 0);
  });
}
Fill masked() { return constant(-std::numeric_limits<double>::infinity()); }
// Probabilities, and their logarithms.
Fill probabilities() {
  return each([](std::uint64_t word, std::int64_t) { return unit(word) * unit(word); });
}
Fill log_probabilities() {
  return each([](std::uint64_t word, std::int64_t) { return -30 * unit(word); });
}

struct Shape {
  std::vector<std::int64_t> shape;
  int axis = -1;
  std::vector<std::int64_t> strides = {};
  std::int64_t offset = 0;
};
std::int64_t elements(const Shape& s) {
  std::int64_t n = 1;
  for (std::int64_t d : s.shape) n *= d;
  return n;
}
std::string name_of(const Shape& s) {
  std::string text;
  for (std::int64_t d : s.shape) text += (text.empty() ? "" : " x ") + std::to_string(d);
  if (s.axis != -1) text += ", axis " + std::to_string(s.axis);
  if (!s.strides.empty()) text += ", strided";
  if (s.offset != 0) text += ", offset " + std::to_string(s.offset);
  return text;
}

struct Values {
  const char* name;
  Fill fill;
};

class Cases {
 public:
  Cases(const char* op, bool backward) : op_(op), backward_(backward) {}

  void add(const Shape& s, const Values& values, DLDataType in, DLDataType out, bool over = false,
           bool zeros = false) {
    std::string name = name_of(s) + ", " + values.name;
    if (over) name += ", in place";
    if (zeros) name += ", zeros";
    std::string type = twinops_type_name(in);
    if (std::string(twinops_type_name(out)) != type) {
      name += ", " + type + " to " + twinops_type_name(out);
      type = "mixed";
    }
    cases_.push_back({name, type, elements(s), [=, op = op_, backward = backward_] {
                        const TensorSpec from{in, s.shape, s.strides, s.offset};
                        TensorSpec to{out, s.shape, s.strides, s.offset};
                        Problem problem(op);
                        if (over) to = in_place(to, backward ? "dy" : "x");
                        if (backward)
                          problem.input("y", {from}, values.fill)
                              .input("dy", {from}, ordinary())
                              .output("dx", {to});
                        else
                          problem.input("x", {from}, values.fill)
                              .output("out", {to})
                              .attribute("masked_rows", zeros ? "zeros" : "nan");
                        return problem.attribute("axis", s.axis);
                      }});
  }
  std::vector<Case> take() && { return std::move(cases_); }
  bool backward() const { return backward_; }

 private:
  const char* op_;
  bool backward_;
  std::vector<Case> cases_;
};

// Every length where a lane, a vector, a warp, a chunk, a block or a cluster begins or ends.
constexpr std::int64_t kLengths[] = {
    1,    2,    3,    4,     5,     7,     8,     9,     15,    16,    17,    31,    32,    33,
    63,   64,   65,   100,   127,   128,   129,   255,   256,   257,   500,   511,   512,   513,
    1000, 1022, 1023, 1024,  1025,  1026,  2047,  2048,  2049,  3000,  4096,  4097,  5000,  8191,
    8192, 8193, 9216, 16383, 16384, 16385, 20000, 32767, 32768, 32769, 50257, 65535, 65536, 65537};

void add_shapes(Cases& cases, DLDataType type, const Values& values) {
  for (std::int64_t n : kLengths)
    cases.add({{n > 2000 ? 3 : 7, n}}, values, type, type, n % 3 == 0);
  for (std::int64_t n : {64, 1000, 1024, 4096, 8192, 40000})
    cases.add({{5, n}, -1, {}, 1}, values, type, type);  // not aligned
  for (std::int64_t n : {8, 64, 1024, 4096, 32768})
    cases.add({{5, n}, -1, {n + 3, 1}}, values, type, type);  // rows apart
  cases.add({{64, 1000}}, values, type, type);
  cases.add({{3, 70, 11}, 1}, values, type, type);
  cases.add({{3, 70, 11}, 1}, values, type, type, true);
  cases.add({{2, 3000, 5}, 1}, values, type, type);
  cases.add({{1200, 7}, 0}, values, type, type, true);
  cases.add({{6, 5, 40}, -1, {200, 1, 5}}, values, type, type);  // transposed
  cases.add({{4, 33}, -1, {-33, 1}}, values, type, type);        // rows backwards
  cases.add({{5, 1030}, -1, {2060, 2}}, values, type, type);
  cases.add({{0, 12}}, values, type, type);
  cases.add({{12, 0}}, values, type, type);
  cases.add({{7}}, values, type, type);
}

void add_real(Cases& cases, DLDataType type, const Values& values) {
  cases.add({{16, 512, 512}}, values, type, type);  // a sequence of BERT-large
  cases.add({{4, 2048, 2048}}, values, type, type, true);
  cases.add({{16, 30522}}, values, type, type);  // vocabularies
  cases.add({{16, 50257}}, values, type, type);
  cases.add({{8, 128256}}, values, type, type);
  cases.add({{256, 1000}}, values, type, type);  // image classes
  cases.add({{2, (1 << 20) + 3}}, values, type, type);
  cases.add({{3, 1 << 20}}, values, type, type, true);
}

std::vector<Case> forward_cases(const char* op) {
  Cases cases(op, false);
  const Values kLogits{"logits", logits()}, kSteep{"steep", steep()}, kFar{"far", far()};
  const Values kWhole{"whole range", whole_range()}, kFinite{"any finite", all_finite()};
  const Values kMasked{"masked", masked()}, kEqual{"equal", constant(-3.25)};
  for (DLDataType type : kFloatingTypes) {
    add_shapes(cases, type, kLogits);
    add_shapes(cases, type, kSteep);
    add_real(cases, type, kLogits);
    for (std::int64_t n : {1, 31, 100, 1024, 1500, 8192, 40000}) {
      for (const Values& values : {kFar, kWhole, kFinite, kEqual})
        cases.add({{9, n}}, values, type, type);
      cases.add({{9, n}}, kFar, type, type, true);
      cases.add({{3, n}}, kMasked, type, type);
      cases.add({{3, n}}, kMasked, type, type, false, true);
      cases.add({{3, n}}, {"one NaN", with(logits(), 0, n / 2, Special::minus_nan)}, type, type);
      cases.add({{3, n}}, {"one infinity", with(logits(), 0, -1, Special::infinity)}, type, type);
      cases.add({{3, n}}, {"one large", with(logits(), 0, n, Special::largest)}, type, type);
    }
  }
  for (DLDataType half : {twinops::kFloat16, twinops::kBfloat16})
    for (std::int64_t n : {33, 64, 1000, 1024, 4096, 9000, 32768, 50000})
      for (bool widen : {false, true})
        cases.add({{4, n}}, widen ? kSteep : kLogits, widen ? half : twinops::kFloat32,
                  widen ? twinops::kFloat32 : half);
  return std::move(cases).take();
}

std::vector<Case> backward_cases(const char* op, const Values& values) {
  Cases cases(op, true);
  for (DLDataType type : kFloatingTypes) {
    add_shapes(cases, type, values);
    add_real(cases, type, values);
    for (std::int64_t n : {31, 1024, 1500, 8192, 40000}) {
      cases.add({{9, n}}, {"whole range", whole_range()}, type, type);
      cases.add({{9, n}}, {"any finite", all_finite()}, type, type);
    }
  }
  for (DLDataType half : {twinops::kFloat16, twinops::kBfloat16})
    for (std::int64_t n : {33, 64, 1000, 1024, 4096, 9000, 32768, 50000})
      for (bool widen : {false, true})
        cases.add({{4, n}}, values, widen ? half : twinops::kFloat32,
                  widen ? twinops::kFloat32 : half);
  return std::move(cases).take();
}

}  // namespace

std::vector<Case> softmax_cases() { return forward_cases("softmax"); }
std::vector<Case> log_softmax_cases() { return forward_cases("log_softmax"); }
std::vector<Case> softmax_grad_cases() {
  return backward_cases("softmax_grad", {"probabilities", probabilities()});
}
std::vector<Case> log_softmax_grad_cases() {
  return backward_cases("log_softmax_grad", {"log probabilities", log_probabilities()});
}

}  // namespace proof
