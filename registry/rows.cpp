#include "registry/rows.hpp"

#include <array>

#include "operators/error.hpp"
#include "registry/isa.hpp"
#include "registry/settings.hpp"

#if defined(TWINOPS_HAS_CUDA)
#include "kernels_cuda/device.hpp"
#endif

namespace twinops {
namespace {

#if defined(TWINOPS_HAS_CUDA)
std::string why_not_cuda() {
  const CudaProbe& probe = cuda_probe();
  std::string reasons = probe.reason;
  for (const CudaDevice& device : probe.devices) {
    if (device.usable) return {};
    reasons += (reasons.empty() ? "" : "; ") + device.reason;
  }
  return reasons;
}
std::string cuda_row_name(int index) {
  const auto& devices = cuda_probe().devices;
  return index >= 0 && index < static_cast<int>(devices.size()) ? devices[index].row : "cuda";
}
std::string why_not_device(int index) {
  const CudaProbe& probe = cuda_probe();
  if (index < 0 || index >= static_cast<int>(probe.devices.size()))
    return probe.reason.empty() ? "there is no device cuda:" + std::to_string(index) : probe.reason;
  return probe.devices[index].reason;
}
#else
std::string why_not_cuda() { return "this build has no CUDA kernels"; }
std::string cuda_row_name(int) { return "cuda"; }
std::string why_not_device(int) { return why_not_cuda(); }
#endif

template <class Isa>
std::string why_not_isa() {
  return IsaTraits<Isa>::available() ? "" : std::string("this CPU has no ") + IsaTraits<Isa>::name;
}

template <class... Isa>
constexpr auto make_rows(IsaList<Isa...>) {
  return std::array{
      Row{Backend::cuda, "cuda", why_not_cuda},
      Row{Backend::cpu, IsaTraits<Isa>::name, why_not_isa<Isa>}...,
      Row{Backend::cpu, "scalar", [] { return std::string(); }},
  };
}
constexpr auto kRows = make_rows(CpuIsas{});

// Why a row cannot serve tensors on `device`; empty if it can.
std::string why_not_here(const Row& row, Device device) {
  if (row.backend != device.backend) {
    const std::string why = row.why_not();
    return !why.empty() ? why : "the tensors are on " + describe(device);
  }
  return row.backend == Backend::cuda ? why_not_device(device.index) : row.why_not();
}

bool is_asked(const Row& row, Device device, std::string_view asked) {
  return asked.empty() || asked == row_name(row, device.index) || asked == name(row.backend);
}

bool is_row_name(std::string_view asked, Device device) {
  for (const Row& row : kRows)
    if (is_asked(row, device, asked)) return true;
  return asked.starts_with("cuda/sm_");
}

// What the environment rules out: CUDA, or those of the CPU's rows that are better than the one it
// names.
std::string why_not_wished(std::size_t row, const Settings& wish) {
  if (kRows[row].backend == Backend::cuda)
    return wish.backend == "cpu" ? "TWINOPS_BACKEND=cpu" : "";
  for (std::size_t later = row + 1; later < kRows.size(); ++later)
    if (wish.isa == kRows[later].isa) return "TWINOPS_ISA=" + wish.isa;
  return {};
}

// Why row number `row` is passed over; empty if it can be taken. What a call asks for goes before
// what the environment wishes.
std::string why_passed_over(std::size_t row, Device device, std::string_view asked) {
  std::string here = why_not_here(kRows[row], device);
  if (!here.empty()) return here;
  if (!asked.empty())
    return is_asked(kRows[row], device, asked) ? "" : "the call asks for " + std::string(asked);
  return why_not_wished(row, settings());
}

std::size_t first_possible(Device device, std::string_view asked) {
  std::size_t row = 0;
  while (row < kRows.size() && !why_passed_over(row, device, asked).empty()) ++row;
  return row;
}

// Why the row taken is not the one that the environment names; empty if it is.
std::string unmet_wish(const Row& taken, Device device) {
  const Settings& wish = settings();
  if (wish.backend == "cuda" && taken.backend == Backend::cpu)
    return "TWINOPS_BACKEND=cuda: " + why_not_here(kRows[0], device);
  for (const Row& row : kRows)
    if (taken.backend == Backend::cpu && wish.isa == row.isa && wish.isa != taken.isa)
      return "TWINOPS_ISA=" + wish.isa + ": " + row.why_not();
  return {};
}

}  // namespace

std::span<const Row> rows() { return kRows; }

std::string row_name(const Row& row, int device_index) {
  return row.backend == Backend::cuda ? cuda_row_name(device_index) : "cpu/" + std::string(row.isa);
}

Choice choose_row(Device device, const char* asked_or_null) {
  const std::string_view asked = asked_or_null == nullptr ? "" : asked_or_null;
  if (!is_row_name(asked, device)) {
    std::string names;
    for (const Row& row : kRows) names += (names.empty() ? "" : ", ") + row_name(row, device.index);
    throw Error(Status::invalid_argument, "execution: no kernel row is named '" +
                                              std::string(asked) + "'; the rows are " + names);
  }
  const std::size_t row = first_possible(device, asked);
  if (row == kRows.size())
    throw Error(Status::unsupported, "no kernel can run on " + describe(device) + ":\n" +
                                         explain_rows(device, asked_or_null));
  return {row, row_name(kRows[row], device.index),
          asked.empty() ? unmet_wish(kRows[row], device) : std::string()};
}

std::string explain_rows(Device device, const char* asked_or_null) {
  const std::string_view asked = asked_or_null == nullptr ? "" : asked_or_null;
  const std::size_t chosen = first_possible(device, asked);
  std::string text;
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    const std::string why = why_passed_over(row, device, asked);
    text += row_name(kRows[row], device.index) + ": " +
            (row == chosen ? "chosen"
             : why.empty() ? "not needed"
                           : "passed over: " + why) +
            "\n";
  }
  return text;
}

}  // namespace twinops
