// random_projection and its gradient: lengths around a chunk, tiles, the block that an entry's word
// lies in, and rows in every kind of memory.
#include "tools/proof/cases.hpp"
#include "tools/proof/random_cases.hpp"
#include "tools/proof/values.hpp"

namespace proof {
namespace {

struct Sequence {
  std::int64_t seed = 20261121, subsequence = 0, offset = 0, element_offset = 0;
  std::vector<std::int64_t> seed_tensor = {}, offset_tensor = {};
};

class Cases {
 public:
  explicit Cases(bool forward) : forward_(forward) {}

  // x: [..., columns] and y: [..., k]; backward the gradient goes from y's tensor to x's.
  void add(const std::string& name, const TensorSpec& x, const TensorSpec& y, double s,
           const Sequence& q = {}, const Fill& values = whole_range()) {
    std::int64_t n = x.shape.back() * y.shape.back();
    for (std::size_t i = 0; i + 1 < x.shape.size(); ++i) n *= x.shape[i];
    cases_.push_back(
        {name, twinops_type_name(x.type), n, [=, forward = forward_] {
           Problem problem(forward ? "random_projection" : "random_projection_grad");
           if (forward)
             problem.input("x", {x}, values).output("y", {y});
           else
             problem.input("dy", {y}, values).output("dx", {x});
           if (!q.seed_tensor.empty())
             problem.input("seed_tensor", {{twinops::kInt64, {1}}}, integers(q.seed_tensor));
           if (!q.offset_tensor.empty())
             problem.input("offset_tensor", {{twinops::kUint64, {1}}}, integers(q.offset_tensor));
           return problem.attribute("s", s)
               .attribute("seed", q.seed)
               .attribute("subsequence", q.subsequence)
               .attribute("offset", q.offset)
               .attribute("element_offset", q.element_offset);
         }});
  }
  std::vector<Case> take() && { return std::move(cases_); }

 private:
  bool forward_;
  std::vector<Case> cases_;
};

void add_sizes(Cases& cases, DLDataType type) {
  constexpr std::int64_t kColumns[] = {0,  1,    2,    15,   16,   17,   63,  64,
                                       65, 1000, 1023, 1024, 1025, 2048, 3100};
  constexpr std::int64_t kOutputs[] = {0, 1, 3, 4, 31, 33, 64, 65, 130};
  for (const std::int64_t columns : kColumns)
    for (const std::int64_t k : kOutputs) {
      const std::int64_t rows = 1 + (columns + k) % 3;
      cases.add(
          std::to_string(rows) + " rows of " + std::to_string(columns) + " to " + std::to_string(k),
          {type, {rows, columns}}, {type, {rows, k}}, columns % 2 == 0 ? 3.0 : 1.0, {},
          columns % 5 == 0 ? all_finite() : whole_range());
    }
  for (const std::int64_t rows : {0, 7, 8, 9, 16, 17, 33, 70})
    cases.add(std::to_string(rows) + " rows of 300 to 70", {type, {rows, 300}}, {type, {rows, 70}},
              5.5, {}, ordinary());
  // Edges of what a block of the CUDA kernel has: rows (16 or 32, four blocks a cluster), outputs
  // (64 to 256), terms of a body (16), of a slab (32 to 128), of a chunk (1024).
  for (const std::int64_t rows : {15, 31, 32, 34, 65, 97, 129})
    for (const std::int64_t k : {63, 128, 129, 256, 257})
      cases.add(std::to_string(rows) + " rows of 70 to " + std::to_string(k), {type, {rows, 70}},
                {type, {rows, k}}, 2.0, {}, ordinary());
  for (const std::int64_t columns :
       {31, 32, 33, 127, 128, 129, 255, 256, 257, 511, 513, 2049, 4097})
    for (const std::int64_t k : {64, 68, 130})
      cases.add("40 rows of " + std::to_string(columns) + " to " + std::to_string(k),
                {type, {40, columns}}, {type, {40, k}}, 3.0, {},
                columns % 2 == 0 ? ordinary() : whole_range());
  cases.add("300 rows of 1500 to 300", {type, {300, 1500}}, {type, {300, 300}}, 1.5, {},
            ordinary());
  cases.add("a row without axes", {type, {1500}}, {type, {40}}, 2.0, {}, ordinary());
  cases.add("long rows", {type, {2, 20000}}, {type, {2, 24}}, 141.4, {}, ordinary());
  cases.add("many outputs", {type, {2, 24}}, {type, {2, 20000}}, 4.9, {}, ordinary());
}

void add_sequences(Cases& cases, DLDataType type) {
  const std::vector<std::pair<std::string, Sequence>> sequences = {
      {"seed of ones", {.seed = -1, .subsequence = -1}},
      {"offset", {.offset = 8}},
      {"element offset 1", {.element_offset = 1}},
      {"element offset 3", {.element_offset = 3}},
      {"block carries", {.offset = (std::int64_t{1} << 34) - 4 * 900}},
      {"block wraps", {.offset = -4 * 333, .element_offset = 2}},
      {"seed tensor", {.seed = 0, .seed_tensor = {-5}}},
      {"offset tensor", {.offset = 4, .offset_tensor = {44}}},
  };
  for (const auto& [name, sequence] : sequences)
    for (const std::int64_t k : {32, 37})
      cases.add(name + ", to " + std::to_string(k), {type, {3, 130}}, {type, {3, k}}, 1.7,
                sequence);
  const std::pair<const char*, double> spreads[] = {
      {"1", 1.0},       {"1 + 2^-23", 1.0 + 0x1p-23},
      {"2", 2.0},       {"3", 3.0},
      {"1000", 1000.0}, {"2^30", 0x1p30},
      {"2^31", 0x1p31},
  };
  for (const auto& [name, s] : spreads)
    cases.add(std::string("s ") + name, {type, {4, 600}}, {type, {4, 48}}, s, {}, ordinary());
}

void add_strides(Cases& cases, DLDataType type) {
  const std::vector<std::int64_t> x_shape{3, 5, 70}, y_shape{3, 5, 22};
  for (const LaidOut& x : laid_out(type, x_shape))
    for (const LaidOut& y : laid_out(type, y_shape))
      cases.add("x " + x.name + ", y " + y.name, x.tensor, y.tensor, 2.5);
}

}  // namespace

std::vector<Case> projection_cases(bool forward) {
  Cases cases(forward);
  for (const DLDataType type : kFloatingTypes) {
    add_sizes(cases, type);
    add_sequences(cases, type);
    add_strides(cases, type);
  }
  // Rows enough that a block of the CUDA kernel has all the chunks, one of them without a
  // neighbour.
  cases.add("8200 rows of 3100 to 1", {twinops::kFloat32, {8200, 3100}},
            {twinops::kFloat32, {8200, 1}}, 3, {}, ordinary());
  cases.add("8200 rows of 1 to 3100", {twinops::kFloat32, {8200, 1}},
            {twinops::kFloat32, {8200, 3100}}, 3, {}, ordinary());
  cases.add("512 rows of 4096 to 64", {twinops::kFloat32, {512, 4096}},
            {twinops::kFloat32, {512, 64}}, 64, {}, ordinary());
  return std::move(cases).take();
}

std::vector<Case> random_projection_cases() { return projection_cases(true); }
std::vector<Case> random_projection_grad_cases() { return projection_cases(false); }

}  // namespace proof
