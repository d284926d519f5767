#include "tools/proof/cases.hpp"
#include "tools/proof/list_cases.hpp"
#include "tools/proof/values.hpp"

namespace proof {
namespace {

struct Options {
  double scale = 1024;
  DLDataType scale_type = twinops::kFloat32;
  DLDataType found_type = twinops::kBool;
  bool found_before = false;
  const char* check = "output";
  bool reset = false;
  bool one_array = false;
};

Problem problem_of(const ListPair& list, Fill values, const Options& o) {
  Problem problem("check_finite_and_unscale");
  problem.one_array = o.one_array;
  return problem.input("x", list.x, std::move(values))
      .input("scale", {{o.scale_type, {}}}, constant(o.scale))
      .output("out", list.out)
      .output("found_inf", {{o.found_type, {1}}}, constant(o.found_before))
      .attribute("check", o.check)
      .attribute("reset", o.reset);
}

class Cases {
 public:
  void add(const ListPair& list, const std::string& name, const Fill& values, Options o) {
    cases_.push_back({list.name + name, list.type, list.elements,
                      [list, values, o] { return problem_of(list, values, o); }});
  }
  std::vector<Case> take() && { return std::move(cases_); }

 private:
  std::vector<Case> cases_;
};

// Once with everything that a tensor can hold, once where nothing but an overflow can be found.
void add_both(Cases& cases, const ListPair& list) {
  cases.add(list, ", whole range", whole_range(), {.reset = true});
  cases.add(list, ", finite, check input", all_finite(),
            {.scale = 65536, .found_type = twinops::kFloat32, .check = "input", .one_array = true});
}

ListPair one_tensor(DLDataType type, std::int64_t n, bool over = false) {
  const TensorSpec x{type, {n}};
  return {"one tensor of " + std::to_string(n),
          twinops_type_name(type),
          {x},
          {over ? in_place(x, "x") : x},
          n};
}

// One special value among ordinary ones, wherever a lane, a vector, a chunk or a thread's part
// begins or ends: found_inf alone tells of it.
void add_places(Cases& cases, DLDataType type) {
  constexpr std::int64_t kPlaces[] = {0,  1,  3,   4,   7,   8,    15,   16,    31,    32,
                                      63, 64, 255, 256, 511, 1023, 1024, 16383, 16384, -1};
  int turn = 0;
  for (const std::int64_t n : {1, 17, 1025, 33333}) {
    for (const std::int64_t place : kPlaces) {
      if (place >= n) continue;
      const auto special = static_cast<Special>(turn % kSpecials);
      const Options o{.scale = turn % 4 == 3 ? 0.25 : 1024,  // 0.25: the largest overflow
                      .found_type = turn % 3 == 0   ? twinops::kUint8
                                    : turn % 3 == 1 ? twinops::kFloat32
                                                    : twinops::kBool,
                      .check = turn % 2 == 0 ? "output" : "input"};
      cases.add(
          one_tensor(type, n),
          ", special value " + std::to_string(turn % kSpecials) + " at " + std::to_string(place),
          with(ordinary(), 0, place, special), o);
      ++turn;
    }
  }
  for (int special = 0; special < kSpecials; ++special)
    for (const char* check : {"output", "input"})
      cases.add(one_tensor(type, 999),
                ", special value " + std::to_string(special) + ", check " + check,
                with(ordinary(), 0, 500, static_cast<Special>(special)),
                {.scale = 0.125, .check = check});
}

void add_scales(Cases& cases, DLDataType type) {
  const double infinity = __builtin_inf(), nan = __builtin_nan("");
  const double scales[] = {1,        3,        0.1,      65536,    -8,        0x1p127,
                           0x1p-126, 0x1p-149, 0x1p-140, 1e-300,   1e300,     0x1p128,
                           7e-46,    0.0,      -0.0,     infinity, -infinity, nan};
  for (std::size_t i = 0; i < std::size(scales); ++i) {
    for (const DLDataType scale_type : {twinops::kFloat32, twinops::kFloat64}) {
      const std::string name =
          ", scale number " + std::to_string(i) + " in " + twinops_type_name(scale_type);
      cases.add(
          one_tensor(type, 3000, i % 2 == 0), name, all_finite(),
          {.scale = scales[i], .scale_type = scale_type, .check = i % 3 == 0 ? "input" : "output"});
    }
  }
}

// found_inf is set, never cleared, unless the call starts fresh.
void add_flags(Cases& cases, DLDataType type) {
  for (const DLDataType found : {twinops::kBool, twinops::kUint8, twinops::kFloat32})
    for (const bool before : {false, true})
      for (const bool reset : {false, true})
        for (const bool bad : {false, true})
          cases.add(one_tensor(type, 100),
                    std::string(", found_inf in ") + twinops_type_name(found) +
                        (before ? ", set before" : "") + (reset ? ", reset" : "") +
                        (bad ? ", an infinity" : ""),
                    bad ? with(ordinary(), 0, 50, Special::infinity) : ordinary(),
                    {.found_type = found, .found_before = before, .reset = reset});
}

}  // namespace

std::vector<Case> check_finite_and_unscale_cases() {
  Cases cases;
  for (const DLDataType type : kFloatingTypes) {
    for (const ListPair& list : edge_lists(type)) add_both(cases, list);
    add_places(cases, type);
    add_scales(cases, type);
    add_flags(cases, type);
    for (const ListPair& list : model_lists(type)) {
      const std::size_t last = list.x.size() - 1;
      cases.add(list, "", with(all_finite(), last, -1, Special::infinity), {});
    }
  }
  for (const ListPair& list : mixed_lists()) add_both(cases, list);
  return std::move(cases).take();
}

}  // namespace proof
