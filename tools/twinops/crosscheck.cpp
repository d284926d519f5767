// twinops crosscheck: the cases that were asked for, one after the other, and what came of them.
#include <unistd.h>

#include <set>

#include "tools/twinops/check.hpp"

namespace command {
namespace {

// Says on standard error how far the work is.
class Progress {
 public:
  explicit Progress(const Options& options) : terminal_(isatty(STDERR_FILENO) != 0) {
    for (const Options::Selected& selected : options.operators)
      for (const proof::Case& c : selected.cases) total_ += work(c);
  }
  ~Progress() {
    if (terminal_) std::fputs("\r\033[K", stderr);
  }
  void step(const std::string& op, const proof::Case& c) {
    const std::string here = op + " " + c.type;
    const auto percent = static_cast<long long>(done_ * 100 / total_);
    if (here != last_ || (terminal_ && percent != percent_))
      std::fprintf(stderr, terminal_ ? "\r\033[K%3lld %%  %s" : "%3lld %%  %s\n", percent,
                   here.c_str());
    last_ = here;
    percent_ = percent;
    done_ += work(c);
  }

 private:
  static std::int64_t work(const proof::Case& c) { return c.elements + 10000; }

  const bool terminal_;
  std::int64_t total_ = 0, done_ = 0;
  long long percent_ = -1;
  std::string last_;
};

int list_cases(const Options& options) {
  for (const Options::Selected& selected : options.operators)
    for (const proof::Case& c : selected.cases)
      std::printf("%s  %s  %s  (%lld elements)\n", selected.op.c_str(), c.type.c_str(),
                  c.name.c_str(), static_cast<long long>(c.elements));
  return 0;
}

// Better now than after the work. Leaves no file that was not there.
void expect_writable(const std::string& name) {
  if (name.empty()) return;
  const bool is_new = access(name.c_str(), F_OK) != 0;
  std::FILE* file = std::fopen(name.c_str(), "a");
  if (file == nullptr) throw UsageError("cannot write " + name);
  std::fclose(file);
  if (is_new) std::remove(name.c_str());
}

Golden new_golden(const Options& options, std::uint64_t seed) {
  const std::string& row = options.rows.front();
  const DLDevice device = proof::device_of(row);
  const bool cuda = device.device_type == kDLCUDA;
  return {twinops_version(),
          row,
          cuda ? twinops_device_at(static_cast<std::size_t>(device.device_id))->name : "CPU",
          seed,
          {},
          options.max_elements};
}

// Recorded digests that belong to no case, chosen or not: the file is out of date.
std::int64_t without_case(const Golden& golden) {
  std::set<Golden::Key> keys;
  for (const proof::OperatorCases& op : proof::operator_cases())
    for (const proof::Case& c : op.make()) keys.insert({op.op, c.type, c.name});
  std::int64_t count = 0;
  for (const auto& [key, digest] : golden.digests) count += keys.count(key) == 0;
  return count;
}

void report_golden(const Options& options, const Golden& golden, std::int64_t compared,
                   std::int64_t cases, std::int64_t stale) {
  std::printf("\n%s, recorded by %s on %s: %lld digests compared, %lld cases not recorded",
              options.golden.c_str(), golden.row.c_str(), golden.device.c_str(),
              static_cast<long long>(compared), static_cast<long long>(cases - compared));
  if (stale != 0)
    std::printf(", %lld recorded digests belong to no case", static_cast<long long>(stale));
  std::printf("\n");
}

}  // namespace

int crosscheck(const Arguments& arguments) {
  const Options options = read_options(arguments);
  if (options.help) {
    std::fputs(kCrosscheckUsage, stdout);
    return 0;
  }
  if (options.list) return list_cases(options);

  std::uint64_t seed = options.seed.value_or(1);
  std::optional<Golden> golden, record;
  if (!options.golden.empty()) {
    golden = read_golden(options.golden);
    if (options.seed && seed != golden->seed)
      throw UsageError("--seed: " + options.golden + " was recorded with seed " +
                       std::to_string(golden->seed));
    seed = golden->seed;
  }
  if (!options.record.empty()) record = new_golden(options, seed);
  expect_writable(options.json);
  expect_writable(options.record);

  Checker checker(options, seed, golden ? &*golden : nullptr, record ? &*record : nullptr);
  std::int64_t cases = 0;
  {
    Progress progress(options);
    for (const Options::Selected& selected : options.operators) {
      for (const proof::Case& c : selected.cases) {
        progress.step(selected.op, c);
        checker.check(selected.op, c);
        ++cases;
      }
    }
  }
  checker.finish();
  if (checker.fault_pending())
    throw UsageError("TWINOPS_CROSSCHECK_FAULT: no case ran on " + options.fault);

  std::printf("seed %llu; every row is compared with %s\n\n", static_cast<unsigned long long>(seed),
              kReferenceRow);
  print_table(stdout, checker.results());
  Summary summary{twinops_version(), seed, totals(checker.results()), 0};
  if (golden) {
    summary.stale_digests = without_case(*golden);
    report_golden(options, *golden, checker.golden_compared(), cases, summary.stale_digests);
  }
  const Totals& t = summary.totals;
  summary.totals.failed += summary.stale_digests;
  if (!options.json.empty()) write_json(options.json, summary, checker.results());
  if (record && t.failed == 0) write_golden(options.record, *record);
  if (record && t.failed != 0) std::printf("\n%s was not written\n", options.record.c_str());
  std::printf("\n%lld passed, %lld failed\n", static_cast<long long>(t.passed),
              static_cast<long long>(t.failed));
  const bool compared = !golden || checker.golden_compared() != 0;
  return t.failed == 0 && t.passed != 0 && compared ? 0 : 1;
}

}  // namespace command
