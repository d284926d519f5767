#include "tools/twinops/check.hpp"

#include "tools/proof/bits.hpp"

namespace command {
namespace {

constexpr std::int64_t kLargeCase = 1 << 22;  // elements beyond which one number of threads will do

bool is_cuda(const std::string& row) { return row.starts_with("cuda"); }

template <class F>
std::optional<std::string> failure_of(F&& f) {
  try {
    return f();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

Result& Checker::begin(const std::string& op, const proof::Case& c, const std::string& row) {
  Result* found = nullptr;
  for (Result& r : results_)
    if (r.op == op && r.type == c.type && r.row == row) found = &r;
  if (found == nullptr) found = &results_.emplace_back(Result{op, c.type, row, 0, 0, 0, {}});
  ++found->cases;
  found->elements += c.elements;
  return *found;
}

void Checker::check(const std::string& op, const proof::Case& c) {
  const auto note = [&](Result& r, const Failure& failure) {
    if (failure) r.fail("case '" + c.name + "': " + *failure);
  };
  std::optional<proof::Trial> trial;
  std::optional<proof::Outcome> expected;
  const Failure broken = failure_of([&] {
    trial.emplace(c.problem(), seed_);
    expected.emplace(proof::run(*trial, kReferenceRow));
    return Failure();
  });
  const auto run_row = [&](const std::string& row) {
    return broken ? Failure("the reference failed: " + *broken)
                  : failure_of([&] { return row_failure(op, row, c, *trial, *expected); });
  };
  bool again = false;  // the reference was asked for as a row: it must equal itself
  for (const std::string& row : options_.rows) {
    if (row == kReferenceRow)
      again = true;
    else
      note(begin(op, c, row), run_row(row));
  }
  Result& reference = begin(op, c, kReferenceRow);
  Failure failure = broken;
  if (!failure) {
    shares_[&reference] += proof::finite_share(*trial, expected->block);
    failure = failure_of([&] { return reference_failure(op, c, *trial, *expected); });
  }
  if (!failure && again) failure = run_row(kReferenceRow);
  note(reference, failure);
}

Checker::Failure Checker::row_failure(const std::string& op, const std::string& row,
                                      const proof::Case& c, const proof::Trial& trial,
                                      const proof::Outcome& expected) {
  Threads threads = options_.threads;
  if (is_cuda(row) || c.elements > kLargeCase) threads = {threads.back()};
  proof::Placed placed(trial, proof::device_of(row));
  twinops::Execution execution;
  execution.row = row;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    if (i != 0) placed.restore();
    execution.threads = threads[i];
    const twinops::Report report = placed.run(execution);
    const proof::Buffer& block = placed.fetch();
    if (row == fault_) inject_fault(trial, block);
    if (report.row != row) return "it ran on " + report.row;
    if (const auto difference = proof::first_difference(trial, expected, block, report))
      return (is_cuda(row) ? "" : "threads " + std::to_string(threads[i]) + ": ") +
             proof::describe(*difference);
    if (record_ != nullptr && i == 0 && row == options_.rows.front()) {
      const std::uint64_t digest = proof::digest(trial, block, report);
      const auto [place, fresh] = record_->digests.try_emplace({op, c.type, c.name}, digest);
      if (!fresh && place->second != digest) return "another case has its name";
    }
  }
  return {};
}

Checker::Failure Checker::reference_failure(const std::string& op, const proof::Case& c,
                                            const proof::Trial& trial,
                                            const proof::Outcome& outcome) {
  if (Failure stray = proof::stray_write(trial, outcome.block)) return stray;
  if (golden_ == nullptr) return {};
  return golden_failure(op, c, trial, outcome);
}

// A case that is not recorded fails where the file ought to have it: one that was given another
// name, or is new.
Checker::Failure Checker::golden_failure(const std::string& op, const proof::Case& c,
                                         const proof::Trial& trial, const proof::Outcome& outcome) {
  const auto found = golden_->digests.find({op, c.type, c.name});
  if (found == golden_->digests.end()) {
    const bool beyond = golden_->max_elements && c.elements > *golden_->max_elements;
    if (beyond || recorded_.count({op, c.type}) == 0) return {};
    return "no digest of it in " + options_.golden;
  }
  ++golden_compared_;
  const std::uint64_t digest = proof::digest(trial, outcome.block, outcome.report);
  if (digest == found->second) return {};
  return "digest " + proof::hex(digest, 8) + " here, " + proof::hex(found->second, 8) + " on " +
         golden_->device + " (" + golden_->row + ")";
}

// The lowest bit of the last element of the first output that has a few.
void Checker::inject_fault(const proof::Trial& trial, const proof::Buffer& block) {
  for (const proof::Trial::Place& p : trial.places()) {
    if (!p.argument->is_output || p.end - p.begin < 100) continue;
    block.data()[p.end - proof::size_of(p.tensor->type)] ^= std::byte{1};
    fault_.clear();
    return;
  }
}

void Checker::finish() {
  // Some cases alone may well be sparse.
  if (options_.max_elements || !options_.name.empty()) return;
  for (Result& r : results_) {
    const auto found = shares_.find(&r);
    if (found == shares_.end() || found->second.elements < 1000) continue;
    const proof::Share& s = found->second;
    if (s.finite >= s.elements / 4 && s.nonzero >= s.elements / 16) continue;
    r.fail("of " + std::to_string(s.elements) + " outputs only " + std::to_string(s.finite) +
           " are finite, " + std::to_string(s.nonzero) + " of them not zero");
  }
}

}  // namespace command
