// Golden files: the digests of one machine's outputs, so that another machine, which has not that
// GPU, proves itself against its bits. Text:
//
//   # comments
//   twinops 0.1.0
//   row cuda/sm_90
//   device NVIDIA H200
//   seed 1
//   digest <operator> <type> <16 hex digits> <case, to the end of the line>
//
// The digest is proof::digest of the case's problem with values from the seed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

namespace command {

struct Golden {
  std::string version, row, device;
  std::uint64_t seed = 1;
  using Key = std::tuple<std::string, std::string, std::string>;  // operator, type, case
  std::map<Key, std::uint64_t> digests;
};

// Both throw std::runtime_error, naming the file and the line.
Golden read_golden(const std::string& file);
void write_golden(const std::string& file, const Golden& golden);

}  // namespace command
