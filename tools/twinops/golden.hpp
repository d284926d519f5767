// Golden files: the digests of one machine's outputs, so that another machine, which has not that
// GPU, proves itself against its bits. Text:
//
//   # comments
//   twinops 0.1.0
//   row cuda/sm_90
//   device NVIDIA H200
//   seed 1
//   max_elements 20000             where larger cases were left out
//   digest <operator> <type> <16 hex digits> <case, to the end of the line>
//
// The digest is proof::digest of the case's problem with values from the seed. Of an operator and
// type a file holds all cases, up to max_elements, or none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

namespace command {

struct Golden {
  std::string version, row, device;
  std::uint64_t seed = 1;
  using Key = std::tuple<std::string, std::string, std::string>;  // operator, type, case
  std::map<Key, std::uint64_t> digests;
  std::optional<std::int64_t> max_elements = {};
};

// The operators and types that a file holds cases of.
std::set<std::pair<std::string, std::string>> recorded_types(const Golden& golden);

// Throws UsageError, naming the file and the line: what cannot be read says nothing about bits.
Golden read_golden(const std::string& file);
// Throws std::runtime_error, naming the file.
void write_golden(const std::string& file, const Golden& golden);

}  // namespace command
