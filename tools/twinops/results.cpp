#include "tools/twinops/results.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace command {
namespace {

// 1 234 567
std::string grouped(std::int64_t n) {
  std::string text = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), " ");
  return text;
}

// The inside of a JSON string.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

std::string outcome(const Result& r) {
  if (r.failed != 0) return grouped(r.failed) + " failed; first: " + r.first_failure;
  return r.row == kReferenceRow ? "reference" : "equal";
}

}  // namespace

Totals totals(const std::deque<Result>& results) {
  Totals t;
  for (const Result& r : results) {
    t.passed += r.cases - r.failed;
    t.failed += r.failed;
  }
  return t;
}

void print_table(std::FILE* file, const std::deque<Result>& results) {
  std::vector<std::vector<std::string>> lines{
      {"operator", "type", "kernel row", "cases", "elements", "result"}};
  for (const Result& r : results)
    lines.push_back({r.op, r.type, r.row, grouped(r.cases), grouped(r.elements), outcome(r)});
  constexpr std::size_t kColumns = 6;
  std::size_t width[kColumns] = {};
  for (const auto& line : lines)
    for (std::size_t c = 0; c < kColumns; ++c) width[c] = std::max(width[c], line[c].size());
  for (const auto& line : lines) {
    for (std::size_t c = 0; c + 1 < kColumns; ++c) {
      const bool number = c == 3 || c == 4;
      std::fprintf(file, number ? "%*s  " : "%-*s  ", static_cast<int>(width[c]), line[c].c_str());
    }
    std::fprintf(file, "%s\n", line.back().c_str());
  }
}

void write_json(const std::string& name, const Summary& summary,
                const std::deque<Result>& results) {
  std::FILE* file = std::fopen(name.c_str(), "w");
  if (file == nullptr) throw std::runtime_error("cannot write " + name);
  std::fprintf(file,
               "{\"version\": \"%s\", \"seed\": %llu, \"passed\": %lld, \"failed\": %lld, "
               "\"stale_digests\": %lld, \"results\": [",
               escaped(summary.version).c_str(), static_cast<unsigned long long>(summary.seed),
               static_cast<long long>(summary.totals.passed),
               static_cast<long long>(summary.totals.failed),
               static_cast<long long>(summary.stale_digests));
  const char* separator = "\n";
  for (const Result& r : results) {
    std::fprintf(file,
                 "%s  {\"operator\": \"%s\", \"type\": \"%s\", \"row\": \"%s\", \"cases\": %lld, "
                 "\"elements\": %lld, \"failed\": %lld",
                 separator, r.op.c_str(), r.type.c_str(), r.row.c_str(),
                 static_cast<long long>(r.cases), static_cast<long long>(r.elements),
                 static_cast<long long>(r.failed));
    if (r.failed != 0)
      std::fprintf(file, ", \"first_failure\": \"%s\"", escaped(r.first_failure).c_str());
    std::fputs("}", file);
    separator = ",\n";
  }
  std::fputs("\n]}\n", file);
  if (std::fclose(file) != 0) throw std::runtime_error("cannot write " + name);
}

}  // namespace command
