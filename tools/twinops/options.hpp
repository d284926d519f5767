// What twinops crosscheck was asked to do, checked against what there is.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/proof/problem.hpp"
#include "tools/twinops/command.hpp"
#include "tools/twinops/results.hpp"

namespace command {

struct Options {
  struct Selected {
    std::string op;
    std::vector<proof::Case> cases;  // those asked for, types in the order of the table
  };
  std::vector<Selected> operators;
  std::vector<std::string> rows;  // that are compared with the reference, best first
  std::vector<int> threads{1, 3, 0};
  std::optional<std::uint64_t> seed;
  std::optional<std::int64_t> max_elements;
  std::string name;                  // what a case's name must hold; empty: anything
  std::string json, record, golden;  // file names; empty: none
  std::string fault;                 // the row that TWINOPS_CROSSCHECK_FAULT names; for tests
  bool list = false, help = false;
};

// Throws UsageError on a name that does not exist, a value that cannot be read, and a choice that
// leaves nothing to check.
Options read_options(const Arguments& arguments);

}  // namespace command
