#include "tools/proof/cases.hpp"
#include "tools/proof/random_cases.hpp"

namespace proof {
namespace {

struct Output {
  const char* op;
  const char* argument;
  DLDataType type;
};

void add(std::vector<Case>& cases, const Output& output, const std::string& name,
         const TensorSpec& out, const RandomSpec& random) {
  std::int64_t n = 1;
  for (const std::int64_t size : out.shape) n *= size;
  cases.push_back({name, twinops_type_name(output.type), n, [output, out, random] {
                     Problem problem(output.op);
                     return random.add_to(problem.output(output.argument, {out}));
                   }});
}

}  // namespace

std::vector<Case> random_fill_cases(const char* op, const char* argument, DLDataType type) {
  const Output output{op, argument, type};
  std::vector<Case> cases;
  for (const std::int64_t n : edge_sizes()) {
    const RandomSpec random{.name = ""};
    add(cases, output, "one tensor of " + std::to_string(n), {output.type, {n}}, random);
    add(cases, output, "unaligned tensor of " + std::to_string(n), {output.type, {n}, {}, 1},
        random);
  }
  for (const RandomSpec& random : random_specs())
    add(cases, output, random.name, {output.type, {1233}}, random);
  for (const RandomSpec& random : shaped_specs()) {
    add(cases, output, random.name, {output.type, kShaped}, random);
    for (const LaidOut& memory : laid_out(output.type, kShaped))
      add(cases, output, random.name + ", " + memory.name, memory.tensor, random);
  }
  // What a thread, a warp and a block of the CUDA kernels draw: 4, 512 and 4096 elements; words
  // that are shifted between lanes, for every alignment of memory and of the draw index.
  for (const char* layout : {"contiguous", "strided", "triton"})
    for (const std::int64_t n : {1, 3, 6, 130, 511, 512, 516, 4095, 4096, 4101, 9001})
      for (std::int64_t beyond = 0; beyond < 4; ++beyond)
        for (std::int64_t first = 0; first < 4; ++first)
          add(cases, output,
              std::to_string(n) + " from " + std::to_string(first) + ", " + std::to_string(beyond) +
                  " beyond, " + layout,
              {output.type, {n}, {}, beyond},
              {.name = "", .layout = layout, .period = 100, .element_offset = first});
  // Rows in runs of eight and what is left of them.
  for (const char* layout : {"contiguous", "strided", "triton"})
    for (const std::int64_t columns : {7, 8, 9, 15, 16, 64, 69})
      for (const std::int64_t beyond : {0, 1})
        add(cases, output,
            "rows of " + std::to_string(columns) + ", " + std::to_string(beyond) + " beyond, " +
                layout,
            {output.type, {37, columns}, {}, beyond},
            {.name = "", .layout = layout, .global_shape = "40,75", .start = "2,5"});
  for (const char* layout : {"contiguous", "strided", "triton"})
    add(cases, output, std::string("one tensor of 2^24 + 5, ") + layout,
        {output.type, {(1 << 24) + 5}}, {.name = "", .layout = layout});
  return cases;
}

std::vector<Case> uniform_cases() { return random_fill_cases("uniform", "out", twinops::kFloat32); }

}  // namespace proof
