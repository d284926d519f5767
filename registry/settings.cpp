#include "registry/settings.hpp"

#include <charconv>
#include <cstdlib>

#include "operators/error.hpp"
#include "operators/made_once.hpp"
#include "operators/names.hpp"
#include "registry/rows.hpp"

namespace twinops {
namespace {

struct Reading {
  Settings settings;
  std::string error;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Reading read() {
  Reading r;
  const auto refuse = [&](const char* name, const std::string& expected, const std::string& got) {
    if (r.error.empty())
      r.error = std::string(name) + ": expected " + expected + "; got '" + got + "'";
  };
  r.settings.backend = variable("TWINOPS_BACKEND");
  if (!r.settings.backend.empty() && r.settings.backend != "cpu" && r.settings.backend != "cuda")
    refuse("TWINOPS_BACKEND", "cpu or cuda", r.settings.backend);

  r.settings.isa = variable("TWINOPS_ISA");
  bool known = r.settings.isa.empty();
  std::string names;
  for (const Row& row : rows()) {
    if (row.backend != Backend::cpu) continue;
    known |= r.settings.isa == row.isa;
    add_name(names, row.isa);
  }
  if (!known) refuse("TWINOPS_ISA", "one of " + names, r.settings.isa);

  const std::string threads = variable("TWINOPS_THREADS");
  if (!threads.empty()) {
    const char *begin = threads.data(), *end = begin + threads.size();
    const auto [rest, status] = std::from_chars(begin, end, r.settings.threads);
    if (status != std::errc() || rest != end || r.settings.threads < 1)
      refuse("TWINOPS_THREADS", "a number of threads, 1 or more", threads);
  }
  return r;
}

}  // namespace

const Settings& settings() {
  static constinit MadeOnce<Reading> kept;
  const Reading& reading = kept.get(read);
  if (!reading.error.empty()) throw Error(Status::invalid_argument, reading.error);
  return reading.settings;
}

}  // namespace twinops
