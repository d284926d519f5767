#include "registry/rows.hpp"

#include <array>

#include "operators/describe.hpp"
#include "operators/error.hpp"
#include "operators/names.hpp"
#include "registry/isa.hpp"
#include "registry/settings.hpp"

#if defined(TWINOPS_HAS_CUDA)
#include "kernels_cuda/runtime/device.hpp"
#endif

namespace twinops {
namespace {

#if defined(TWINOPS_HAS_CUDA)
bool cuda_usable() {
  for (std::size_t i = 0; i < cuda_probe().devices.size(); ++i)
    if (cuda_code(static_cast<int>(i)).usable()) return true;
  return false;
}
std::string why_not_cuda() {
  if (cuda_usable()) return {};
  const CudaProbe& probe = cuda_probe();
  std::string reasons = probe.reason;
  for (std::size_t i = 0; i < probe.devices.size(); ++i)
    reasons += (reasons.empty() ? "" : "; ") + cuda_code(static_cast<int>(i)).reason;
  return reasons;
}
const CudaDevice* cuda_device(int index) {
  const auto& devices = cuda_probe().devices;
  return index >= 0 && index < static_cast<int>(devices.size()) ? &devices[index] : nullptr;
}
const char* cuda_row_name(int index) {
  const CudaDevice* device = cuda_device(index);
  return device != nullptr ? device->row.c_str() : "cuda";
}
bool device_usable(int index) { return cuda_device(index) != nullptr && cuda_code(index).usable(); }
std::string why_not_device(int index) {
  if (cuda_device(index) != nullptr) return cuda_code(index).reason;
  const std::string& reason = cuda_probe().reason;
  return reason.empty() ? "there is no device cuda:" + std::to_string(index) : reason;
}
#else
bool cuda_usable() { return false; }
std::string why_not_cuda() { return "this build has no CUDA kernels"; }
const char* cuda_row_name(int) { return "cuda"; }
bool device_usable(int) { return false; }
std::string why_not_device(int) { return why_not_cuda(); }
#endif

template <class Isa>
std::string why_not_isa() {
  return IsaTraits<Isa>::available() ? "" : std::string("this CPU has no ") + IsaTraits<Isa>::name;
}

template <class... Isa>
constexpr auto make_rows(IsaList<Isa...>) {
  return std::array{
      Row{Backend::cuda, "cuda", cuda_usable, why_not_cuda},
      Row{Backend::cpu, IsaTraits<Isa>::name, IsaTraits<Isa>::available, why_not_isa<Isa>}...,
      Row{Backend::cpu, "scalar", [] { return true; }, [] { return std::string(); }},
  };
}
constexpr auto kRows = make_rows(CpuIsas{});

// "cpu/avx2", ...
struct CpuName {
  char text[16] = "cpu/";
};
constexpr auto kCpuNames = [] {
  std::array<CpuName, kRows.size()> names;
  for (std::size_t row = 0; row < kRows.size(); ++row)
    for (std::size_t i = 0; kRows[row].isa[i] != '\0'; ++i)
      names[row].text[4 + i] = kRows[row].isa[i];
  return names;
}();

// Whether a row can serve tensors on `device`. A call asks this alone: words are made where
// somebody reads them.
bool serves(const Row& row, Device device) {
  if (row.backend != device.backend) return false;
  return row.backend == Backend::cuda ? device_usable(device.index) : row.usable();
}
// Why it cannot; empty if it can.
std::string why_not_here(const Row& row, Device device) {
  if (serves(row, device)) return {};
  if (row.backend != device.backend) {
    const std::string why = row.why_not();
    return !why.empty() ? why : "the tensors are on " + describe(device);
  }
  return row.backend == Backend::cuda ? why_not_device(device.index) : row.why_not();
}

bool is_asked(std::size_t row, Device device, std::string_view asked) {
  return asked.empty() || asked == row_name(row, device.index) || asked == name(kRows[row].backend);
}

bool is_row_name(std::string_view asked, Device device) {
  for (std::size_t row = 0; row < kRows.size(); ++row)
    if (is_asked(row, device, asked)) return true;
  return asked.starts_with("cuda/sm_");
}

// The variable that rules a row out: CUDA, or those of the CPU's rows that are better than the one
// it names; nullptr if none does.
const char* ruled_out_by(std::size_t row, const Settings& wish) {
  if (kRows[row].backend == Backend::cuda)
    return wish.backend == "cpu" ? "TWINOPS_BACKEND" : nullptr;
  if (wish.isa.empty()) return nullptr;
  for (std::size_t later = row + 1; later < kRows.size(); ++later)
    if (wish.isa == kRows[later].isa) return "TWINOPS_ISA";
  return nullptr;
}

// What a call asks for goes before what the environment wishes.
bool can_be_taken(std::size_t row, Device device, std::string_view asked) {
  if (!serves(kRows[row], device)) return false;
  return asked.empty() ? ruled_out_by(row, settings()) == nullptr : is_asked(row, device, asked);
}
// Why a row is passed over; empty if it can be taken.
std::string why_passed_over(std::size_t row, Device device, std::string_view asked) {
  if (can_be_taken(row, device, asked)) return {};
  std::string here = why_not_here(kRows[row], device);
  if (!here.empty()) return here;
  if (!asked.empty()) return "the call asks for " + std::string(asked);
  const std::string variable = ruled_out_by(row, settings());
  return variable + "=" + (variable == "TWINOPS_ISA" ? settings().isa : settings().backend);
}

std::size_t first_possible(Device device, std::string_view asked) {
  std::size_t row = 0;
  while (row < kRows.size() && !can_be_taken(row, device, asked)) ++row;
  return row;
}

// Why the row taken is not the one that the environment names; empty if it is.
std::string unmet_wish(const Row& taken, Device device) {
  const Settings& wish = settings();
  if (taken.backend != Backend::cpu) return {};
  if (wish.backend == "cuda") return "TWINOPS_BACKEND=cuda: " + why_not_here(kRows[0], device);
  if (wish.isa.empty() || wish.isa == taken.isa) return {};
  for (const Row& row : kRows)
    if (wish.isa == row.isa) return "TWINOPS_ISA=" + wish.isa + ": " + row.why_not();
  return {};
}

[[noreturn, gnu::cold, gnu::noinline]] void refuse_name(std::string_view asked, Device device) {
  std::string names;
  for (std::size_t row = 0; row < kRows.size(); ++row) add_name(names, row_name(row, device.index));
  throw Error(Status::invalid_argument, "execution: no kernel row is named '" + std::string(asked) +
                                            "'; the rows are " + names);
}

}  // namespace

std::span<const Row> rows() { return kRows; }

const char* row_name(std::size_t row, int device_index) {
  return kRows[row].backend == Backend::cuda ? cuda_row_name(device_index) : kCpuNames[row].text;
}

Choice choose_row(Device device, const char* asked_or_null) {
  const std::string_view asked = asked_or_null == nullptr ? "" : asked_or_null;
  const std::size_t row = first_possible(device, asked);
  if (row == kRows.size() && !is_row_name(asked, device)) refuse_name(asked, device);
  if (row == kRows.size())
    throw Error(Status::unsupported, "no kernel can run on " + describe(device) + ":\n" +
                                         explain_rows(device, asked_or_null));
  return {row, row_name(row, device.index),
          asked.empty() ? unmet_wish(kRows[row], device) : std::string()};
}

std::string explain_rows(Device device, const char* asked_or_null) {
  const std::string_view asked = asked_or_null == nullptr ? "" : asked_or_null;
  const std::size_t chosen = first_possible(device, asked);
  std::string text;
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    const std::string why = why_passed_over(row, device, asked);
    text += std::string(row_name(row, device.index)) + ": " +
            (row == chosen ? "chosen"
             : why.empty() ? "not needed"
                           : "passed over: " + why) +
            "\n";
  }
  return text;
}

}  // namespace twinops
