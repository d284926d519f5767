// Cases of softmax, log_softmax and their backward passes.
#include "tools/proof/softmax_cases.hpp"

#include "tools/proof/cases.hpp"
#include "tools/proof/softmax_values.hpp"
#include "tools/proof/values.hpp"

namespace proof {
namespace {

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
           bool zeros = false, double scale = 1) {
    std::string name = name_of(s) + ", " + values.name;
    if (over) name += ", in place";
    if (zeros) name += ", zeros";
    if (scale != 1) name += ", scaled";
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
                              .output("dx", {to})
                              .attribute("scale", scale);
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

// Every length where a lane, a vector, a warp, a chunk, a block or a cluster begins or ends, and
// some more and less beyond whole chunks.
constexpr std::int64_t kLengths[] = {
    1,     2,     3,     4,     5,     7,     8,     9,     15,    16,    17,    31,    32,
    33,    48,    63,    64,    65,    80,    100,   127,   128,   129,   160,   185,   217,
    255,   256,   257,   313,   320,   384,   448,   500,   511,   512,   513,   633,   640,
    761,   768,   889,   896,   1000,  1022,  1023,  1024,  1025,  1026,  1100,  1280,  1529,
    1536,  1785,  1792,  1793,  2047,  2048,  2049,  2088,  2148,  2448,  2749,  3000,  3112,
    3331,  4096,  4097,  5000,  7169,  8191,  8192,  8193,  9216,  9516,  11256, 12281, 12592,
    13289, 13312, 16383, 16384, 16385, 16696, 17001, 18432, 19456, 19557, 20000, 21481, 21504,
    32767, 32768, 32769, 34816, 42000, 50257, 65535, 65536, 65537};

void add_shapes(Cases& cases, DLDataType type, const Values& values) {
  for (std::int64_t n : kLengths)
    cases.add({{n > 2000 ? 3 : 7, n}}, values, type, type, n % 3 == 0);
  for (std::int64_t n : {64, 320, 1000, 1024, 1280, 4096, 8192, 40000})
    cases.add({{5, n}, -1, {}, 1}, values, type, type);  // not aligned
  for (std::int64_t n : {19, 37, 101, 203, 411, 1001, 1021, 2043, 2149, 5003, 6845, 16387, 33337})
    cases.add({{9, n}}, values, type, type, n % 5 == 1);  // rows that begin at every element of 16
  for (std::int64_t n : {1023, 3001, 40001})
    cases.add({{9, n}, -1, {n + 2, 1}, 3}, values, type, type);  // bytes, and apart
  for (std::int64_t n : {8, 64, 1024, 4096, 32768})
    cases.add({{5, n}, -1, {n + 3, 1}}, values, type, type);  // rows apart
  for (std::int64_t n : {64, 1000, 1024, 4096, 12288, 20480, 32768})
    cases.add({{2, 3, n}, -1, {3 * n + 16, n, 1}}, values, type, type);  // planes apart
  for (std::int64_t n : {99, 1021, 5003, 33337, 132001})
    cases.add({{2, 3, n}, -1, {3 * n + 5, n, 1}}, values, type, type);
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

// Strided rows: `inner` of them side by side, which move in vectors or not, in lanes, in warps and
// in tiles that they do not fill.
void add_strided(Cases& cases, DLDataType type, const Values& values) {
  for (std::int64_t n : {1,   2,    8,    9,    21,   31,   32,   33,   64,   100, 257,
                         512, 1000, 1023, 1024, 1025, 2049, 3000, 4097, 5000, 9000}) {
    cases.add({{n < 500 ? 3 : 1, n, 33}, 1}, values, type, type, n % 3 == 0);
    cases.add({{n < 500 ? 2 : 1, n, 64}, 1}, values, type, type, n % 5 == 0);
  }
  for (std::int64_t inner : {1, 2, 4, 12, 31, 32, 49, 196})
    for (std::int64_t n : {7, 21, 130, 1000, 1030})
      cases.add({{3, n, inner}, 1}, values, type, type);
  // What a thread, a warp and a block hold at most of two rows side by side, and of one.
  for (std::int64_t n :
       {13, 17, 24, 25, 29, 40, 48, 49, 57, 65, 96, 97, 128, 129, 200, 256, 513, 700})
    for (std::int64_t inner : {35, 50}) cases.add({{2, n, inner}, 1}, values, type, type);
  // More planes than a block has, from every place of 16 bytes on, and fewer in the last: of a GPU
  // with few multiprocessors, and with many.
  cases.add({{43, 21, 49}, 1}, values, type, type);
  cases.add({{531, 21, 49}, 1}, values, type, type);
  cases.add({{90, 11, 15}, 1, {}, 1}, values, type, type, true);
  cases.add({{1501, 11, 15}, 1, {}, 1}, values, type, type, true);
  cases.add({{7, 63, 51}, 1}, values, type, type);
  cases.add({{2, 21, 56, 56}, 1}, values, type, type);
  cases.add({{3, 40, 6, 8}, 1}, values, type, type, true);
  cases.add({{3, 40, 6, 8}, 2}, values, type, type);
  cases.add({{300, 3, 4}, 0}, values, type, type);
  for (std::int64_t n : {40, 600, 1100, 6000}) {
    cases.add({{2, n, 64}, 1, {}, 1}, values, type, type);                // not aligned
    cases.add({{2, n, 16}, 1, {20 * n, 20, 1}}, values, type, type);      // gaps between places
    cases.add({{2, n, 20}, 1, {20 * n + 1, 20, 1}}, values, type, type);  // between planes
    cases.add({{2, n, 24}, 1, {48 * n, 48, 2}}, values, type, type);      // between rows
    cases.add({{2, n, 28}, 1, {28 * n, -28, 1}}, values, type, type);     // backwards
    cases.add({{2, n, 32}, 1, {32 * n, 32, -1}}, values, type, type);
  }
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

// Rows of so many chunks that a GPU's blocks exchange parts through global memory, or read a row
// twice: just longer than a cluster holds, and up to the longest that blocks hold and beyond.
void add_long(Cases& cases, DLDataType type, const Values& values) {
  cases.add({{2, (1 << 18) + 8}}, values, type, type);
  cases.add({{2, (1 << 19) + 1}}, values, type, type);
  cases.add({{17, 1 << 20}}, values, type, type, true);
  cases.add({{29, 600001}, -1, {}, 3}, values, type, type);
  cases.add({{2, 1 << 21}}, values, type, type);
  cases.add({{1, (1 << 21) + 1}}, values, type, type);
  cases.add({{112, 38001}}, values, type, type);  // more chunks than a GPU has at once
}

// Short rows that a vector's lanes share, and rows along a middle axis that do; widths that leave
// lanes over.
void add_neighbours(Cases& cases, DLDataType type, const Values& values) {
  for (std::int64_t n : {2, 15, 16, 33, 64, 100, 255, 256, 257}) {
    cases.add({{37, n}}, values, type, type, n % 3 == 0);
    cases.add({{2, n, 37}, 1}, values, type, type, n % 3 == 1);
  }
  cases.add({{1500, 37}, 0}, values, type, type, true);
  cases.add({{2, 21, 700}, 1}, values, type, type);
  cases.add({{3, 2500, 36}, 1}, values, type, type);
}

// Outputs that a CPU writes past its caches, rows that begin anywhere.
void add_large(Cases& cases, DLDataType type, const Values& values) {
  const std::int64_t bytes = type.bits / 8, elements = (std::int64_t{1} << 25) / bytes;
  cases.add({{elements / 1021 + 1, 1021}, -1, {}, 1}, values, type, type);
  cases.add({{elements / 100 + 1, 100}, -1, {}, 1}, values, type, type);
  cases.add({{elements / (33 * 1003) + 1, 33, 1003}, 1, {}, 1}, values, type, type);
}

std::vector<Case> with_masked(std::vector<Case> all, const char* op) {
  std::vector<Case> masked = masked_softmax_cases(op);
  all.insert(all.end(), std::make_move_iterator(masked.begin()),
             std::make_move_iterator(masked.end()));
  return all;
}

std::vector<Case> forward_cases(const char* op) {
  Cases cases(op, false);
  const Values kLogits{"logits", logits()}, kSteep{"steep", steep()}, kFar{"far", far()};
  const Values kWhole{"whole range", whole_range()}, kFinite{"any finite", all_finite()};
  const Values kMasked{"masked", all_masked()}, kEqual{"equal", constant(-3.25)};
  for (DLDataType type : kFloatingTypes) {
    add_shapes(cases, type, kLogits);
    add_shapes(cases, type, kSteep);
    add_strided(cases, type, kLogits);
    add_strided(cases, type, kSteep);
    add_real(cases, type, kLogits);
    for (std::int64_t n : {5, 31, 100, 1024, 1500, 7000})
      for (std::int64_t inner : {12, 35}) {
        const Shape strided{{2, n, inner}, 1};
        const Values kNan{"one NaN", with(logits(), 0, n / 2 * inner, Special::minus_nan)};
        const Values kInfinity{"one infinity", with(logits(), 0, -1, Special::infinity)};
        const Values kLarge{"one large", with(logits(), 0, n, Special::largest)};
        const Values kLow{"the last low",
                          with(logits(), 0, (n - 1) * inner, Special::minus_largest)};
        for (const Values& values : {kFar, kWhole, kFinite, kEqual, kNan, kInfinity, kLarge, kLow})
          cases.add(strided, values, type, type);
        cases.add(strided, kFar, type, type, true);
        cases.add(strided, kMasked, type, type);
        cases.add(strided, kMasked, type, type, false, true);
      }
    for (const Values& v : {kLogits, kSteep, kFar, kWhole, kMasked}) add_neighbours(cases, type, v);
    add_large(cases, type, kSteep);
    const Values kCliffs{"cliffs", cliffs()};
    for (std::int64_t n : {1500, 2049, 4096, 7200, 8192, 12345, 40000, 70001})
      cases.add({{5, n}}, kCliffs, type, type);
    for (std::int64_t inner : {12, 35, 36})
      cases.add({{2, 7300, inner}, 1}, {"cliffs", cliffs(inner)}, type, type);
    // A row of normal weights but for one, the last.
    for (std::int64_t n : {31, 100, 513, 1024, 1025, 1060, 1500, 2049, 4130, 8192, 40000})
      cases.add({{9, n}}, {"the last low", with(logits(), 0, n - 1, Special::minus_largest)}, type,
                type);
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
  for (DLDataType type : {twinops::kFloat16, twinops::kBfloat16, twinops::kFloat32}) {
    add_long(cases, type, kSteep);
    for (const Shape& shape :
         {Shape{{67, 131080}}, Shape{{2, (1 << 18) + 8}}, Shape{{22, 1 << 16}}})
      cases.add(shape, {"cliffs", cliffs()}, type, type);
    cases.add({{70, 131088}}, kSteep, type, type, true);
    cases.add({{95, 66000}, -1, {}, 1}, kLogits, type, type);
    cases.add({{40, 50257}}, kSteep, type, type);
    for (const Values& v : {kFar, kFinite}) {
      cases.add({{3, 600001}}, v, type, type);
      cases.add({{22, 1 << 16}}, v, type, type);
      cases.add({{67, 131080}}, v, type, type, true);
    }
    cases.add({{2, 1 << 20}}, {"one NaN", with(logits(), 0, 700000, Special::minus_nan)}, type,
              type);
    cases.add({{2, 1 << 20}}, {"one infinity", with(logits(), 0, -1, Special::infinity)}, type,
              type);
  }
  for (DLDataType half : {twinops::kFloat16, twinops::kBfloat16})
    for (std::int64_t n : {33, 64, 1000, 1024, 4096, 9000, 32768, 50000})
      for (bool widen : {false, true})
        for (const Values& values : {widen ? kSteep : kLogits, Values{"cliffs", cliffs()}})
          cases.add({{4, n}}, values, widen ? half : twinops::kFloat32,
                    widen ? twinops::kFloat32 : half);
  return with_masked(std::move(cases).take(), op);
}

std::vector<Case> backward_cases(const char* op, const Values& values,
                                 const std::vector<Values>& more) {
  Cases cases(op, true);
  for (DLDataType type : kFloatingTypes) {
    add_shapes(cases, type, values);
    add_strided(cases, type, values);
    add_real(cases, type, values);
    for (std::int64_t n : {31, 1024, 1500, 7000}) {
      cases.add({{2, n, 12}, 1}, {"whole range", whole_range()}, type, type);
      cases.add({{2, n, 12}, 1}, {"any finite", all_finite()}, type, type);
      cases.add({{2, n, 35}, 1}, values, type, type, n == 1500, false, 1.0 / 3);
    }
    for (const Values& v : {values, {"whole range", whole_range()}}) add_neighbours(cases, type, v);
    add_large(cases, type, values);
    for (std::int64_t n : {31, 1024, 1500, 8192, 40000}) {
      cases.add({{9, n}}, {"whole range", whole_range()}, type, type);
      cases.add({{9, n}}, {"any finite", all_finite()}, type, type);
      for (const Values& others : more) cases.add({{9, n}}, others, type, type);
      cases.add({{9, n}}, values, type, type, n == 1500, false, 1.0 / 3);
    }
  }
  for (DLDataType type : {twinops::kFloat16, twinops::kBfloat16, twinops::kFloat32})
    add_long(cases, type, values);
  for (DLDataType half : {twinops::kFloat16, twinops::kBfloat16})
    for (std::int64_t n : {33, 64, 1000, 1024, 4096, 9000, 32768, 50000})
      for (bool widen : {false, true})
        cases.add({{4, n}}, values, widen ? half : twinops::kFloat32,
                  widen ? twinops::kFloat32 : half);
  return with_masked(std::move(cases).take(), op);
}

}  // namespace

std::vector<Case> softmax_cases() { return forward_cases("softmax"); }
std::vector<Case> log_softmax_cases() { return forward_cases("log_softmax"); }
std::vector<Case> softmax_grad_cases() {
  return backward_cases("softmax_grad", {"probabilities", probabilities()}, {});
}
std::vector<Case> log_softmax_grad_cases() {
  return backward_cases("log_softmax_grad", {"log probabilities", log_probabilities()},
                        {{"low log probabilities", low_log_probabilities()}});
}

}  // namespace proof
