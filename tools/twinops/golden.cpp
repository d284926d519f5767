#include "tools/twinops/golden.hpp"

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tools/twinops/command.hpp"

namespace command {
namespace {

// What follows a word and one blank, to the end of the line.
std::string rest_of(std::istringstream& words) {
  std::string text;
  words.get();
  std::getline(words, text);
  return text;
}

}  // namespace

std::set<std::pair<std::string, std::string>> recorded_types(const Golden& golden) {
  std::set<std::pair<std::string, std::string>> types;
  for (const auto& [key, digest] : golden.digests)
    types.insert({std::get<0>(key), std::get<1>(key)});
  return types;
}

Golden read_golden(const std::string& name) {
  std::ifstream file(name);
  if (!file) throw UsageError("cannot read " + name);
  Golden golden;
  int number = 0;
  for (std::string line, word; std::getline(file, line);) {
    ++number;
    std::istringstream words(line);
    if (!(words >> word) || word[0] == '#') continue;
    bool good = true;
    if (word == "twinops") {
      golden.version = rest_of(words);
    } else if (word == "row") {
      golden.row = rest_of(words);
    } else if (word == "device") {
      golden.device = rest_of(words);
    } else if (word == "seed") {
      good = static_cast<bool>(words >> golden.seed);
    } else if (word == "max_elements") {
      std::int64_t most = 0;
      good = static_cast<bool>(words >> most);
      golden.max_elements = most;
    } else if (word == "digest") {
      std::string op, type;
      std::uint64_t digest = 0;
      good = static_cast<bool>(words >> op >> type >> std::hex >> digest);
      good = good && golden.digests.emplace(Golden::Key{op, type, rest_of(words)}, digest).second;
    } else {
      good = false;
    }
    if (!good)
      throw UsageError(name + ", line " + std::to_string(number) + ": cannot read '" + line + "'");
  }
  if (golden.digests.empty()) throw UsageError(name + ": holds no digests");
  return golden;
}

void write_golden(const std::string& name, const Golden& golden) {
  std::FILE* file = std::fopen(name.c_str(), "w");
  if (file == nullptr) throw std::runtime_error("cannot write " + name);
  std::fprintf(file,
               "# Digests of outputs (tools/twinops/golden.hpp), made by twinops crosscheck "
               "--record.\ntwinops %s\nrow %s\ndevice %s\nseed %" PRIu64 "\n",
               golden.version.c_str(), golden.row.c_str(), golden.device.c_str(), golden.seed);
  if (golden.max_elements) std::fprintf(file, "max_elements %" PRId64 "\n", *golden.max_elements);
  for (const auto& [key, digest] : golden.digests)
    std::fprintf(file, "digest %s %s %016" PRIx64 " %s\n", std::get<0>(key).c_str(),
                 std::get<1>(key).c_str(), digest, std::get<2>(key).c_str());
  if (std::fclose(file) != 0) throw std::runtime_error("cannot write " + name);
}

}  // namespace command
