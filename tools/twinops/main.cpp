// twinops: what this machine can run, and the proof that its twins agree.
#include <cstdio>
#include <stdexcept>

#include "tools/twinops/command.hpp"
#include "twinops/twinops.hpp"

namespace {

constexpr const char* kUsage = R"(usage: twinops COMMAND [options]

  info         devices, kernel rows, and operators with their arguments and attributes
  explain      which kernel row a call takes on each device, and why each better one is passed over;
               explain --op softmax --shape 64x50257 --dtype bfloat16 [--out-dtype float32] [--masked]:
               which CUDA kernel takes rows of this shape, and the limits of all of them
  crosscheck   prove that all kernel rows of this machine give the same bits (--help: its options)
  --version    print the version
)";

int run(const command::Arguments& arguments) {
  if (arguments.empty()) throw command::UsageError("a command is missing");
  const std::string& name = arguments.front();
  const command::Arguments rest(arguments.begin() + 1, arguments.end());
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (name == "--version") {
    std::printf("twinops %s\n", twinops_version());
    return 0;
  }
  if (name == "info") return command::info(rest);
  if (name == "explain") return command::explain(rest);
  if (name == "crosscheck") return command::crosscheck(rest);
  throw command::UsageError("no command is named '" + name + "'");
}

}  // namespace

int main(int count, char** values) {
  try {
    const int status = run({values + 1, values + count});
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    throw std::runtime_error("cannot write to the standard output");
  } catch (const command::UsageError& error) {
    const bool crosscheck = count > 1 && std::string(values[1]) == "crosscheck";
    std::fprintf(stderr, "twinops: %s (twinops %s--help tells more)\n", error.what(),
                 crosscheck ? "crosscheck " : "");
  } catch (const twinops::Error& error) {
    std::fprintf(stderr, "twinops: %s\n", error.what());
    return error.status == TWINOPS_INVALID_ARGUMENT ? 2 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "twinops: %s\n", error.what());
    return 1;
  }
  return 2;
}
