#include "tools/proof/cases.hpp"
#include "tools/proof/list_cases.hpp"
#include "tools/proof/values.hpp"

namespace proof {
namespace {

struct State {
  double scale = 65536;
  std::int64_t good_steps = 0, bad_steps = 0;
};

struct Options {
  bool found = false;
  DLDataType found_type = twinops::kBool;
  DLDataType scale_type = twinops::kFloat32;
  State state = {};
  bool in_place = true;
  int incr_every = 1000, decr_every = 2;
  double incr_ratio = 2.0, decr_ratio = 0.5, min_scale = 1.0;
  bool stop_update = false;
};

Problem problem_of(const ListPair& list, const Options& o) {
  const TensorSpec scale{o.scale_type, {1}}, steps{twinops::kInt32, {1}};
  const auto next = [&](const TensorSpec& t, const char* name) {
    return std::vector{o.in_place ? in_place(t, name) : t};
  };
  return Problem("update_loss_scaling")
      .input("x", list.x, whole_range())  // copied or dropped, never computed with
      .input("found_inf", {{o.found_type, {}}}, constant(o.found))
      .input("scale", {scale}, constant(o.state.scale))
      .input("good_steps", {steps}, integers({o.state.good_steps}))
      .input("bad_steps", {steps}, integers({o.state.bad_steps}))
      .output("out", list.out)
      .output("scale_out", next(scale, "scale"))
      .output("good_steps_out", next(steps, "good_steps"))
      .output("bad_steps_out", next(steps, "bad_steps"))
      .attribute("incr_every_n_steps", o.incr_every)
      .attribute("decr_every_n_nan_or_inf", o.decr_every)
      .attribute("incr_ratio", o.incr_ratio)
      .attribute("decr_ratio", o.decr_ratio)
      .attribute("stop_update", o.stop_update)
      .attribute("min_scale", o.min_scale);
}

class Cases {
 public:
  void add(const ListPair& list, const std::string& name, const Options& o) {
    cases_.push_back(
        {list.name + name, list.type, list.elements, [list, o] { return problem_of(list, o); }});
  }
  std::vector<Case> take() && { return std::move(cases_); }

 private:
  std::vector<Case> cases_;
};

void add_both(Cases& cases, const ListPair& list) {
  cases.add(list, ", finite", {.found_type = twinops::kUint8, .in_place = false});
  cases.add(list, ", found", {.found = true, .found_type = twinops::kFloat32});
}

// Every step at which a count or the scale may turn, with a small list beside it.
void add_states(Cases& cases, DLDataType type) {
  const ListPair list{"a step", twinops_type_name(type), {{type, {77}}}, {{type, {77}}}, 77};
  const double nan = __builtin_nan(""), infinity = __builtin_inf();
  const double scales[] = {65536,     1,        0.5,   1.5, 3,  0x1p126,  0x1p127,
                           0x1.8p127, 0x1p-149, 1e300, 0.0, -4, infinity, nan};
  int number = 0;
  for (const DLDataType scale_type : {twinops::kFloat32, twinops::kFloat64}) {
    for (const double scale : scales) {
      for (const bool found : {false, true}) {
        for (const int turn : {0, 1, 2, 3}) {
          const std::int64_t good = turn == 0 ? 998 : turn == 1 ? 999 : turn == 2 ? 1000 : 0;
          const std::int64_t bad = turn == 0 ? 0 : turn == 1 ? 1 : turn == 2 ? 2 : 2147483647;
          const bool other = number % 5 == 4;  // ratios that round
          cases.add(list, " number " + std::to_string(number),
                    {.found = found,
                     .found_type = number % 3 == 0 ? twinops::kBool : twinops::kFloat32,
                     .scale_type = scale_type,
                     .state = {scale, good, bad},
                     .in_place = number % 2 == 0,
                     .incr_every = other ? 1 : 1000,
                     .decr_every = other ? 1 : 2,
                     .incr_ratio = other ? 1.1 : 2.0,
                     .decr_ratio = other ? 0.7 : 0.5,
                     .min_scale = number % 7 == 6 ? 0.3 : 1.0,
                     .stop_update = number % 11 == 10});
          ++number;
        }
      }
    }
  }
}

}  // namespace

std::vector<Case> update_loss_scaling_cases() {
  Cases cases;
  for (const DLDataType type : kFloatingTypes) {
    for (const ListPair& list : edge_lists(type)) add_both(cases, list);
    for (const ListPair& list : model_lists(type))
      cases.add(list, "", {.found = list.name != "resnet50"});
  }
  add_states(cases, twinops::kFloat32);
  for (const ListPair& list : mixed_lists()) add_both(cases, list);
  return std::move(cases).take();
}

}  // namespace proof
