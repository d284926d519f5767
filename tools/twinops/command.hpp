// The subcommands of twinops. Each returns the exit status: 0, or 1 where something is not as it
// must be. Mistakes of the caller are UsageErrors: exit status 2.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace command {

class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Arguments = std::vector<std::string>;  // those after the subcommand

int info(const Arguments& arguments);
int explain(const Arguments& arguments);
int crosscheck(const Arguments& arguments);

inline constexpr const char* kCrosscheckUsage =
    R"(twinops crosscheck [options]: proves that this machine's kernels give the same bits

Runs every operator, element type and kernel row over all cases, compares each byte that comes
back with the scalar reference, and prints a table. Exit status: 0 all equal, 1 a difference,
2 wrong usage.

  --op NAME[,..]       these operators alone
  --dtype TYPE[,..]    these element types alone: float16, ...; "mixed": lists of several types
  --row ROW[,..]       these kernel rows alone: cpu/avx2, cuda, cpu, ... (twinops info lists them)
  --case TEXT          these cases alone: those whose names hold the text (--list shows names)
  --threads N[,N..]    numbers of CPU threads, 0 for OpenMP's own; default 1,3,0 (cases of more
                       than 4 million elements: the last number alone)
  --seed S             of the values; default 1
  --max-elements N     leave out cases of more elements
  --json FILE          the results for machines as well
  --record FILE        write the digests of the first row's outputs
  --golden FILE        compare with digests that another machine recorded
  --list               list the cases and stop
)";

}  // namespace command
