// Who may include whom: the arrows of docs/architecture.md, held over every source file, so that
// nobody has to remember them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/sources.hpp"

namespace twinops::test {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

// What each room may include: folders, or single files. ("twinops" is include/twinops.)
const std::map<std::string, Names> kMayInclude = {
    {"include", {"twinops"}},
    {"numerics", {"numerics"}},
    {"operators", {"operators", "numerics"}},
    {"kernels_cpu", {"kernels_cpu", "operators", "numerics"}},
    {"kernels_cuda", {"kernels_cuda", "operators", "numerics"}},
    // Of the kernels the registry sees the signatures, and what the machine has.
    {"registry",
     {"registry", "operators", "numerics", "twinops", "kernels_cpu/kernel.hpp",
      "kernels_cpu/isa_list.hpp", "kernels_cuda/kernel.hpp", "kernels_cuda/runtime/device.hpp"}},
    {"hosts", {"hosts", "twinops"}},
    // Conversions and Philox make values, without a word of how an operator computes. `explain`
    // prints the tables by which kernels are launched.
    {"tools",
     {"tools", "twinops", "numerics/float16.hpp", "numerics/philox.hpp",
      "kernels_cuda/softmax/choice.hpp"}},
    {"tests", {"tests", "tools/proof", "twinops", "numerics", "kernels_cuda/softmax/choice.hpp"}},
    {"benchmarks", {"benchmarks", "tools/proof", "twinops"}},
    {"examples", {"twinops"}},
};

// Inside a kernel folder: what each of its folders may include beside itself and the door, which
// are the headers at its top ("rows" stands for kernels_cuda/rows or kernels_cpu/rows).
const std::map<std::string, Names> kMayIncludeInside = {
    {"kernels_cuda/common", {}},
    {"kernels_cuda/runtime", {"common"}},
    {"kernels_cuda/rows", {"common", "runtime"}},
    {"kernels_cuda/strided_rows", {"common", "rows"}},
    {"kernels_cuda/random", {"common"}},
    {"kernels_cuda/dropout", {"common", "runtime", "random"}},
    {"kernels_cuda/loss_scaling", {"common"}},
    {"kernels_cuda/softmax", {"common", "rows", "strided_rows", "random", "dropout"}},
    {"kernels_cpu/isa", {}},
    {"kernels_cpu/simd", {"isa"}},
    {"kernels_cpu/runtime", {}},
    {"kernels_cpu/rows", {"simd", "runtime"}},
    {"kernels_cpu/random", {"simd", "runtime", "rows"}},
    {"kernels_cpu/dropout", {"simd", "runtime", "random"}},
    {"kernels_cpu/loss_scaling", {"simd", "runtime"}},
    {"kernels_cpu/softmax", {"simd", "runtime", "rows", "dropout"}},
};

// Headers from outside that only these folders or files may include.
struct Outside {
  const char* what;
  Names beginnings, only_in;
};
const std::vector<Outside> kOutside = {
    {"a header of CUDA's",
     {"cuda", "curand", "cub/", "nv/", "cooperative_groups"},
     {"kernels_cuda", "numerics/float16.hpp", "tests", "benchmarks", "examples/softmax_steps"}},
    {"a host framework's header",
     {"torch/", "ATen/", "c10/", "paddle/", "xla/", "tvm/", "onnxruntime", "tensorflow/",
      "Python.h", "pybind11"},
     {"hosts", "tests/paddle_device"}},
    {"an intrinsics header",
     {"immintrin.h", "emmintrin.h", "xmmintrin.h", "arm_neon.h"},
     {"kernels_cpu/isa", "numerics/environment.cpp", "tests"}},
    {"xsimd's header", {"xsimd"}, {"kernels_cpu/simd/vec.hpp"}},
    {"OpenMP's header", {"omp.h"}, {"kernels_cpu/runtime", "tests", "benchmarks"}},
    {"libm's header",  // the arithmetic spells its own operations
     {"cmath", "math.h", "complex", "tgmath.h"},
     {"operators", "registry", "tools", "tests", "benchmarks", "hosts", "examples"}},
};

bool lies_in(const std::string& path, const Names& places) {
  return std::any_of(places.begin(), places.end(), [&](const std::string& place) {
    return path == place || path.starts_with(place + "/");
  });
}
bool begins_with_one(const std::string& text, const Names& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const std::string& b) { return text.starts_with(b); });
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// Why a file of a kernel folder may not include a header of the same; empty if it may.
std::string wrong_inside(const std::string& path, const std::string& header) {
  const std::string from = folder_of(path), to = folder_of(header);
  const std::string room = path.substr(0, path.find('/'));
  if (!room.starts_with("kernels_") || !header.starts_with(room + "/")) return "";
  if (to == from || to == room) return "";  // beside it, or the door
  if (from == room)                         // the door's own sources see what all share
    return to == room + "/common" ? "" : "the door may not know " + to;
  const auto may = kMayIncludeInside.find(from);
  if (may == kMayIncludeInside.end()) return from + " is not in the table of folders";
  for (const std::string& name : may->second)
    if (to == room + "/" + name) return "";
  return from + " may not know " + to;
}

struct Include {
  std::string header;
  bool quoted;
};
std::vector<Include> includes_of(const std::string& text) {
  std::vector<Include> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#') continue;
    const std::size_t word = line.find_first_not_of(" \t", hash + 1);
    if (word == std::string::npos || line.compare(word, 7, "include") != 0) continue;
    const std::size_t open = line.find_first_of("\"<", word);
    if (open == std::string::npos) continue;
    const std::size_t close = line.find_first_of("\">", open + 1);
    found.push_back({line.substr(open + 1, close - open - 1), line[open] == '"'});
  }
  return found;
}

// What is wrong with the includes of one file.
Names violations(const std::string& path, const std::string& text) {
  Names found;
  const std::string room = path.substr(0, path.find('/'));
  for (const auto& [header, quoted] : includes_of(text)) {
    const auto bad = [&, &name = header](const std::string& why) {
      found.push_back(path + " includes " + name + ": " + why);
    };
    const std::string first = header.substr(0, header.find('/'));
    if (header.find("..") != std::string::npos) bad("includes begin at the root");
    if (kMayInclude.count(first) != 0 || first == "twinops") {
      const auto may = kMayInclude.find(room);
      if (may == kMayInclude.end())
        bad("this room is not in the table");
      else if (!lies_in(header, may->second))
        bad(room + " may not know it");
      if (const std::string why = wrong_inside(path, header); !why.empty()) bad(why);
    } else if (quoted && first != "dlpack" && room != "tests") {
      bad("a quoted header lies in a room of ours");
    }
    for (const Outside& o : kOutside)
      if (begins_with_one(header, o.beginnings) && !lies_in(path, o.only_in))
        bad(std::string("this file may not see ") + o.what);
  }
  return found;
}

TEST(Rooms, KnowOnlyWhomTheyMay) {
  NEEDS_SOURCES;
  int files = 0;
  for (const auto& [room, may] : kMayInclude) {
    if (!fs::exists(source_folder() / room)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(source_folder() / room)) {
      const std::string path = fs::relative(entry.path(), source_folder()).generic_string();
      // Programs that users would write: they include the installed headers. And the list of
      // kernels that are compiled for every architecture.
      if (!is_source(entry.path()) || path.starts_with("tests/consumers/") ||
          path == "tests/architectures.cu")
        continue;
      ++files;
      for (const std::string& v : violations(path, read(entry.path()))) ADD_FAILURE() << v;
    }
  }
  EXPECT_GT(files, 60) << "few files were looked at";
}

TEST(Rooms, EverySourceLiesInOne) {
  NEEDS_SOURCES;
  for (const auto& entry : fs::directory_iterator(source_folder())) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || name.starts_with(".") || name.starts_with("build")) continue;
    for (const auto& file : fs::recursive_directory_iterator(entry.path()))
      if (is_source(file.path())) {
        EXPECT_TRUE(kMayInclude.count(name)) << file.path() << " lies in no room of the table";
        break;
      }
  }
}

// The check itself must see what is wrong.
TEST(Rooms, TheCheckFindsWrongArrows) {
  const auto count = [](const char* path, const char* text) {
    return violations(path, text).size();
  };
  EXPECT_EQ(count("numerics/a.hpp", "#include \"operators/call.hpp\"\n"), 1u);
  EXPECT_EQ(count("operators/a.cpp", "#include \"registry/rows.hpp\"\n"), 1u);
  EXPECT_EQ(count("operators/a.cpp", "  #  include \"kernels_cpu/simd/vec.hpp\" // why\n"), 1u);
  EXPECT_EQ(count("kernels_cpu/a.cpp", "#include \"kernels_cuda/kernel.hpp\"\n"), 1u);
  EXPECT_EQ(count("kernels_cpu/a.cpp", "#include \"registry/isa.hpp\"\n"), 1u);
  EXPECT_EQ(count("kernels_cpu/a.cpp", "#include \"twinops/twinops.h\"\n"), 1u);
  EXPECT_EQ(count("registry/a.cpp", "#include \"kernels_cpu/simd/vec.hpp\"\n"), 1u);
  EXPECT_EQ(count("registry/a.cpp", "#include <cuda_runtime.h>\n"), 1u);
  EXPECT_EQ(count("hosts/torch/a.cpp", "#include \"operators/call.hpp\"\n"), 1u);
  EXPECT_EQ(count("tools/a.cpp", "#include \"numerics/unscale.hpp\"\n"), 1u);
  EXPECT_EQ(count("tests/a.cpp", "#include \"registry/rows.hpp\"\n"), 1u);
  EXPECT_EQ(count("include/twinops/a.h", "#include \"numerics/philox.hpp\"\n"), 1u);
  EXPECT_EQ(count("operators/a.cpp", "#include <torch/extension.h>\n"), 1u);
  EXPECT_EQ(count("kernels_cpu/a.cpp", "#include <immintrin.h>\n"), 1u);
  EXPECT_EQ(count("kernels_cpu/a.cpp", "#include <cmath>\n"), 1u);
  EXPECT_EQ(count("kernels_cpu/a.cpp", "#include <xsimd/xsimd.hpp>\n"), 1u);
  EXPECT_EQ(count("numerics/a.hpp", "#include \"scalar.hpp\"\n"), 1u);
  EXPECT_EQ(count("numerics/a.hpp", "#include \"../operators/call.hpp\"\n"), 2u);
  EXPECT_EQ(count("kernels_cuda/rows/a.cuh", "#include \"kernels_cuda/softmax/mask.cuh\"\n"), 1u);
  EXPECT_EQ(count("kernels_cuda/random/a.cuh",
                  "#include \"kernels_cuda/dropout/contiguous_octet.cuh\"\n"),
            1u);
  EXPECT_EQ(count("kernels_cuda/surprise/a.cuh", "#include \"kernels_cuda/rows/fold.cuh\"\n"), 1u);
  EXPECT_EQ(count("kernels_cuda/runtime/device.cu", "#include \"kernels_cuda/rows/fold.cuh\"\n"),
            1u);
  EXPECT_EQ(count("kernels_cpu/isa/a.hpp", "#include \"kernels_cpu/simd/vec.hpp\"\n"), 1u);
  EXPECT_EQ(count("surprise/a.cpp", "#include \"numerics/philox.hpp\"\n"), 1u);
}
TEST(Rooms, TheCheckLeavesRightArrowsAlone) {
  EXPECT_EQ(violations("registry/a.cpp",
                       "#include \"kernels_cpu/kernel.hpp\"\n#include <vector>\n"
                       "#include \"twinops/twinops.h\"\n// #include \"hosts/a.hpp\"\n"),
            Names{});
  EXPECT_EQ(violations("kernels_cuda/a.cu",
                       "#include <cuda_runtime.h>\n#include \"numerics/philox.hpp\"\n"),
            Names{});
  EXPECT_EQ(violations("kernels_cuda/softmax/a.cu",
                       "#include \"kernels_cuda/kernel.hpp\"\n"
                       "#include \"kernels_cuda/rows/fold.cuh\"\n"
                       "#include \"kernels_cuda/softmax/mask.cuh\"\n"),
            Names{});
  EXPECT_EQ(violations("hosts/torch/a.cpp",
                       "#include <torch/extension.h>\n#include \"twinops/twinops.hpp\"\n"),
            Names{});
}

// Kernels' files are many, and compilers take as long for one of these headers as for a small
// kernel. What makes words for messages has files of its own (operators/describe.hpp).
TEST(Rooms, KernelsReadNoHeavyHeader) {
  NEEDS_SOURCES;
  const std::set<std::string> heavy = {"exception", "functional", "iostream", "memory",
                                       "sstream",   "stdexcept",  "string",   "string_view"};
  int files = 0;
  for (const char* room : {"kernels_cpu", "kernels_cuda"})
    for (const auto& entry : fs::recursive_directory_iterator(source_folder() / room)) {
      const std::string path = fs::relative(entry.path(), source_folder()).generic_string();
      if (!path.ends_with(".cpp") && !path.ends_with(".cu")) continue;
      if (lies_in(path,
                  {"kernels_cpu/runtime", "kernels_cuda/runtime", "kernels_cuda/common/launch.cu"}))
        continue;
      ++files;
      Names read_files = {path};
      for (std::size_t i = 0; i < read_files.size(); ++i)
        for (const auto& [header, quoted] : includes_of(read(source_folder() / read_files[i]))) {
          EXPECT_EQ(heavy.count(header), 0u)
              << path << " reads <" << header << "> in " << read_files[i];
          if (quoted && !lies_in(header, read_files)) read_files.push_back(header);
        }
    }
  EXPECT_GT(files, 40) << "few files were looked at";
}

// What the emulator has a part of its own for (tests/emulator), the kernels say in one place each.
TEST(Rooms, KernelsSayInOnePlaceWhatTheEmulatorReplaces) {
  NEEDS_SOURCES;
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(source_folder() / "kernels_cuda")) {
    const std::string name = entry.path().filename().string();
    if (!is_source(entry.path()) || name == "ptx.cuh") continue;
    const std::string text = read(entry.path());
    ++files;
    for (const char* word : {"asm(", "asm volatile(", "extern __shared__", "<<<"})
      EXPECT_EQ(text.find(word), std::string::npos) << name << ": " << word;
  }
  EXPECT_GT(files, 60) << "few files were looked at";
  const std::string ptx = read(source_folder() / "kernels_cuda/common/ptx.cuh");
  EXPECT_NE(ptx.find("asm volatile("), std::string::npos);
}

}  // namespace
}  // namespace twinops::test
