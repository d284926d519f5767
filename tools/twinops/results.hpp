// What the cross-check found, for people and for machines.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <string>

namespace command {

inline constexpr const char* kReferenceRow = "cpu/scalar";

// One line of the table: an operator, an element type, a kernel row.
struct Result {
  std::string op, type, row;
  std::int64_t cases = 0, elements = 0, failed = 0;
  std::string first_failure;  // which case, and what differs

  void fail(const std::string& what) {
    if (failed++ == 0) first_failure = what;
  }
};

struct Totals {
  std::int64_t passed = 0, failed = 0;
};
Totals totals(const std::deque<Result>& results);

// What stands before the results.
struct Summary {
  std::string version;
  std::uint64_t seed;
  Totals totals;               // `failed` counts stale digests too
  std::int64_t stale_digests;  // of a golden file: they belong to no case
};

void print_table(std::FILE* file, const std::deque<Result>& results);
// Throws std::runtime_error if the file cannot be written.
void write_json(const std::string& file, const Summary& summary, const std::deque<Result>& results);

}  // namespace command
