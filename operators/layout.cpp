#include "operators/layout.hpp"

#include "operators/small_vector.hpp"

namespace twinops {

template <int N, int kAxes>
bool collapse(Layout<N, kAxes>& layout, int rank, const std::int64_t* shape,
              const std::array<const std::int64_t*, N>& strides) {
  struct Axis {
    std::int64_t size;
    std::array<std::int64_t, N> stride;
  };
  const auto magnitude = [](std::int64_t s) { return s < 0 ? -s : s; };
  SmallVector<Axis> axes, merged;
  for (int i = 0; i < rank; ++i) {
    if (shape[i] == 1) continue;
    Axis axis{shape[i], {}};
    for (int k = 0; k < N; ++k) axis.stride[k] = strides[k][i];
    std::size_t at = axes.size();  // behind those of larger or equal strides
    while (at > 0 && magnitude(axes[at - 1].stride[0]) < magnitude(axis.stride[0])) --at;
    axes.insert(at, axis);
  }
  for (const Axis& axis : axes) {
    bool continues = !merged.empty();
    for (int k = 0; continues && k < N; ++k)
      continues = merged.back().stride[k] == axis.stride[k] * axis.size;
    if (continues)
      merged.back() = {merged.back().size * axis.size, axis.stride};
    else
      merged.push_back(axis);
  }
  if (merged.size() > kAxes) return false;
  layout.rank = static_cast<int>(merged.size());
  for (int i = 0; i < layout.rank; ++i) {
    layout.size[i] = merged[i].size;
    for (int k = 0; k < N; ++k) layout.stride[k][i] = merged[i].stride[k];
  }
  return true;
}

template bool collapse<1>(Layout<1, kMostAxes>&, int, const std::int64_t*,
                          const std::array<const std::int64_t*, 1>&);
template bool collapse<2>(Layout<2>&, int, const std::int64_t*,
                          const std::array<const std::int64_t*, 2>&);
template bool collapse<4>(Layout<4>&, int, const std::int64_t*,
                          const std::array<const std::int64_t*, 4>&);
template bool collapse<7>(Layout<7>&, int, const std::int64_t*,
                          const std::array<const std::int64_t*, 7>&);
template bool collapse<8>(Layout<8>&, int, const std::int64_t*,
                          const std::array<const std::int64_t*, 8>&);
template bool collapse<3>(Layout<3>&, int, const std::int64_t*,
                          const std::array<const std::int64_t*, 3>&);

}  // namespace twinops
