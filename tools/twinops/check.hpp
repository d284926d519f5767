// One case on every kernel row, against the scalar reference.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "tools/proof/trial.hpp"
#include "tools/twinops/golden.hpp"
#include "tools/twinops/options.hpp"
#include "tools/twinops/results.hpp"

namespace command {

class Checker {
 public:
  // `golden` and `record`: nullptr, or the file to compare with and the one to fill in.
  Checker(const Options& options, std::uint64_t seed, const Golden* golden, Golden* record)
      : options_(options), seed_(seed), golden_(golden), record_(record), fault_(options.fault) {
    if (golden != nullptr) recorded_ = recorded_types(*golden);
  }

  void check(const std::string& op, const proof::Case& c);
  // After the last case of all sizes: fails the operators and types whose outputs were next to
  // nothing but NaN and zeros, for they prove nothing.
  void finish();

  const std::deque<Result>& results() const { return results_; }
  std::int64_t golden_compared() const { return golden_compared_; }
  bool fault_pending() const { return !fault_.empty(); }

 private:
  using Failure = std::optional<std::string>;
  using Threads = std::vector<int>;

  Result& begin(const std::string& op, const proof::Case& c, const std::string& row);
  Failure reference_failure(const std::string& op, const proof::Case& c, const proof::Trial& trial,
                            const proof::Outcome& outcome);
  Failure row_failure(const std::string& op, const std::string& row, const proof::Case& c,
                      const proof::Trial& trial, const proof::Outcome& expected);
  Failure golden_failure(const std::string& op, const proof::Case& c, const proof::Trial& trial,
                         const proof::Outcome& outcome);
  void inject_fault(const proof::Trial& trial, const proof::Buffer& block);

  const Options& options_;
  const std::uint64_t seed_;
  const Golden* const golden_;
  std::set<std::pair<std::string, std::string>> recorded_;  // operators and types in golden_
  Golden* const record_;
  std::string fault_;  // the row whose output is to be spoilt once; empty when that is done
  std::deque<Result> results_;
  std::map<const Result*, proof::Share> shares_;
  std::int64_t golden_compared_ = 0;
};

}  // namespace command
