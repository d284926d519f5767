// A C++ program that was built against the installed library: one step of loss scaling, and a call
// that is refused.
#include <iostream>
#include <twinops/twinops.hpp>

int main() {
  std::vector<float> gradient = {8, -16, 1024, 3e38f};
  float scale = 0.5f;
  bool found_inf = false;
  std::int32_t good = 0, bad = 1;
  const twinops::Tensor g(gradient.data(), {2, 2}), found(&found_inf, {});
  const twinops::LossScaleState state{{&scale, {}}, {&good, {}}, {&bad, {}}};

  const twinops::Report report = twinops::check_finite_and_unscale({g}, state.scale, {g}, found);
  twinops::update_loss_scaling({g}, found, state, {g}, state);
  std::cout << report.row << ": found_inf " << found_inf << ", gradient " << gradient[0]
            << ", scale " << scale << ", bad steps " << bad << "\n";
  if (!found_inf || gradient[0] != 0 || scale != 0.5f || bad != 0) return 1;

  try {
    twinops::check_finite_and_unscale({g, g}, state.scale, {g}, found);
  } catch (const twinops::Error& error) {
    std::cout << error.what() << "\n";
    return error.status != TWINOPS_INVALID_ARGUMENT;
  }
  return 1;  // it was not refused
}
