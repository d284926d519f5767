// The operator table under random calls. Built with libFuzzer (clang, TWINOPS_FUZZER) this is its
// target; without it, a program of its own that makes its inputs from a seed:
//
//   fuzz_operators --calls 1000000 --seed 1 [--first 0] [--seconds 60] [--row cuda]
//                  [file or folder]...
//
// Files are inputs: a corpus, or one that failed before. --row: rows that begin so, beside the
// reference; the emulated GPU's where its library is loaded. It fails where there are none.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "numerics/philox.hpp"
#include "tests/fuzz/check.hpp"

namespace {

fuzz::Counts counts;

void expect_nothing_wrong(const std::vector<std::uint8_t>& input) {
  const std::string wrong = fuzz::check(input, counts);
  if (wrong.empty()) return;
  std::fprintf(stderr, "fuzz_operators: %s\n", wrong.c_str());
  std::abort();
}

}  // namespace

#if defined(TWINOPS_FUZZER)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  expect_nothing_wrong({data, data + size});
  return 0;
}

#else

namespace {

namespace fs = std::filesystem;

std::vector<std::uint8_t> input_of(std::uint64_t seed, std::uint64_t number) {
  std::vector<std::uint8_t> input;
  const std::size_t length = 4 + twinops::philox_block(seed, 1, number).w[0] % 60;
  for (std::uint64_t block = 0; input.size() < length; ++block) {
    const auto words = twinops::philox_block(seed, 2 + number, block);
    const auto* const begin = reinterpret_cast<const std::uint8_t*>(words.w);
    input.insert(input.end(), begin, begin + 16);
  }
  input.resize(length);
  return input;
}

// How to run what ended the program once more.
char again[160] = "";
void tell(int signal) {
  if (write(2, again, std::strlen(again)) < 0) std::_Exit(2);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run_file(const fs::path& path) {
  std::snprintf(again, sizeof(again), "fuzz_operators %.140s\n", path.c_str());
  std::ifstream file(path, std::ios::binary);
  expect_nothing_wrong({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
}

}  // namespace

int main(int argc, char** argv) {
  long calls = 100000, seconds = 0;
  std::uint64_t seed = 1, number = 0;
  std::vector<fs::path> paths;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--calls") == 0 && has_value)
      calls = std::atol(argv[++i]);
    else if (std::strcmp(argv[i], "--seconds") == 0 && has_value)
      seconds = std::atol(argv[++i]);
    else if (std::strcmp(argv[i], "--seed") == 0 && has_value)
      seed = std::strtoull(argv[++i], nullptr, 0);
    else if (std::strcmp(argv[i], "--first") == 0 && has_value)
      number = std::strtoull(argv[++i], nullptr, 0);
    else if (std::strcmp(argv[i], "--row") == 0 && has_value)
      fuzz::rows_begin_with = argv[++i];
    else
      paths.emplace_back(argv[i]);
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) std::signal(signal, tell);
  for (const fs::path& path : paths) {
    if (!fs::is_directory(path)) run_file(path);
    if (fs::is_directory(path))
      for (const auto& entry : fs::directory_iterator(path)) run_file(entry.path());
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t first = number;
  for (; counts.calls < calls; ++number) {
    if (seconds > 0 && std::chrono::steady_clock::now() - begin > std::chrono::seconds(seconds))
      break;
    const std::vector<std::uint8_t> input = input_of(seed, number);
    std::snprintf(again, sizeof(again), "fuzz_operators --seed %llu --first %llu --calls 1\n",
                  static_cast<unsigned long long>(seed), static_cast<unsigned long long>(number));
    expect_nothing_wrong(input);
  }
  std::printf(
      "seed %llu: %llu inputs, %ld calls: %ld accepted, %ld refused, %ld failed otherwise; "
      "%ld inputs too large\n",
      static_cast<unsigned long long>(seed), static_cast<unsigned long long>(number - first),
      counts.calls, counts.accepted, counts.refused, counts.failed, counts.too_large);
}

#endif
