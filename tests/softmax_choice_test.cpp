// kernels_cuda/softmax/choice.hpp: every row finds a kernel that holds it, whatever its length.
#include <gtest/gtest.h>

#include "kernels_cuda/softmax/choice.hpp"

namespace twinops::test {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 21;

struct Table {
  std::string name;
  PathTable paths;
  RowTypes types;
  int warps;
  bool grad;
};

std::vector<Table> all_tables() {
  constexpr Type f16 = Type::float16, bf16 = Type::bfloat16, f32 = Type::float32,
                 f64 = Type::float64;
  constexpr std::pair<Type, Type> kPairs[] = {{f16, f16}, {bf16, bf16}, {f32, f32}, {f64, f64},
                                              {f16, f32}, {bf16, f32},  {f32, f16}, {f32, bf16}};
  std::vector<Table> tables;
  for (const auto& [in, out] : kPairs)
    for (const Alignment alignment : {Alignment::none, Alignment::unaligned, Alignment::aligned}) {
      const RowTypes types{in, out, alignment};
      const std::string name = std::string(twinops::name(in)) + " to " + twinops::name(out) +
                               ", alignment " + std::to_string(static_cast<int>(alignment));
      const int bytes = types.bytes();
      if (kernels_alignment(in, out, alignment) == alignment)
        tables.push_back(
            {"softmax, " + name, softmax_paths(types), types, row_warps(bytes), false});
      if (kernels_alignment(out, in, alignment) != alignment) continue;
      for (const bool log : {false, true})
        tables.push_back({(log ? "log_softmax_grad, " : "softmax_grad, ") + name,
                          softmax_grad_paths(log, types), types, grad_warps(bytes), true});
    }
  return tables;
}

// Whether the kernel of a line has room for a row, by what the kernel is and not by the table.
bool holds(const Table& table, const PathLine& line, std::int64_t length) {
  const int V = table.types.vector();
  const std::int64_t chunks = (length + 1023) / 1024;
  const bool unaligned = table.types.unaligned() || (line.shapes == Shapes::coarse && V > 1);
  switch (line.path) {
    case Path::staged:
      return V >= 4 && most_staged(staged_shapes(line.shapes, table.types.bytes()).back(),
                                   4 / table.types.bytes()) >= length;
    case Path::warp:
      return most_elements(lane_shapes(line.shapes, V, unaligned).back(), V, unaligned) >= length;
    case Path::two_chunks:
    case Path::remainder:
      return line.rows == kSimpleRows && V >= 4 && chunks >= 2 &&
             chunks <= (line.path == Path::two_chunks ? 2 : table.warps);
    case Path::block:
      return chunks <= table.warps;
    case Path::block_pairs:
      return chunks <= 2 * table.warps && chunks <= 32;  // the parts that a warp joins
    case Path::cluster:
      return chunks <= 16 * table.warps;
    case Path::cluster_pairs:
      return chunks <= 2 * 16 * table.warps;
    case Path::grid:
      return chunks > 8 && chunks <= 128 * 8;
    case Path::two_pass:
      return true;
  }
  return false;
}

// Every length has a kernel that holds it, and the limits of the kernels that are taken rise from
// line to line.
void check(const Table& table, unsigned row, bool staged, const PathDevice& device,
           std::int64_t step) {
  SCOPED_TRACE(table.name + ", rows " + std::to_string(row) + (staged ? ", staged" : ""));
  std::vector<bool> taken(static_cast<std::size_t>(table.paths.size()));
  for (std::int64_t length = 1; length <= kLongest; length += length < 4096 ? 1 : step) {
    const int line = choose(table.paths, length, row, staged, table.warps, device);
    ASSERT_LT(line, table.paths.size()) << length;
    ASSERT_TRUE(holds(table, table.paths[line], length))
        << length << ": " << kPaths[static_cast<int>(table.paths[line].path)].name;
    taken[static_cast<std::size_t>(line)] = true;
  }
  std::int64_t most = 0;
  for (int line = 0; line < table.paths.size(); ++line) {
    if (!taken[static_cast<std::size_t>(line)]) continue;
    EXPECT_GE(table.paths[line].most, most) << "line " << line;
    most = table.paths[line].most;
  }
}

void check_all(const PathDevice& device, std::int64_t step) {
  for (const Table& table : all_tables())
    for (const unsigned row : {kSimpleRows, kAxesRows, kMaskedRows}) {
      if (table.grad && row != kSimpleRows) continue;  // gradients do not ask
      for (const bool staged : {false, true})
        if (!staged || table.types.unaligned()) check(table, row, staged, device, step);
    }
}

TEST(SoftmaxChoice, EveryLength) { check_all({}, 1); }
// Other devices, every length up to 4096 and a few of all others.
constexpr PathDevice kSmallClusters{true, 8, true, true}, kNoClusters{false, 1, true, true},
    kLittleMemory{true, 16, false, true}, kNoScratch{true, 16, true, false};
TEST(SoftmaxChoice, SmallClusters) { check_all(kSmallClusters, 509); }
TEST(SoftmaxChoice, NoClusters) { check_all(kNoClusters, 509); }
TEST(SoftmaxChoice, LittleSharedMemory) { check_all(kLittleMemory, 509); }
TEST(SoftmaxChoice, NoScratchMemory) { check_all(kNoScratch, 509); }

// What `twinops explain` prints: no limit is beyond what its kernel holds. (Where one were,
// choose() and the kernel's own plan would pass to the next line, and no row would show it.)
TEST(SoftmaxChoice, LimitsAreWhatKernelsHold) {
  for (const Table& table : all_tables())
    for (int line = 0; line < table.paths.size(); ++line)
      EXPECT_TRUE(holds(table, table.paths[line], table.paths[line].most))
          << table.name << ", line " << line;
}

// Every line is of use to some row on some device.
TEST(SoftmaxChoice, EveryLineIsTaken) {
  for (const Table& table : all_tables()) {
    std::vector<bool> taken(static_cast<std::size_t>(table.paths.size()));
    for (std::int64_t length = 1; length <= kLongest; length += length < 16384 ? 1 : 509)
      for (const unsigned row : {kSimpleRows, kAxesRows, kMaskedRows})
        for (const PathDevice& device :
             {PathDevice{}, kSmallClusters, kNoClusters, kLittleMemory, kNoScratch})
          taken[static_cast<std::size_t>(
              choose(table.paths, length, row, true, table.warps, device))] = true;
    for (int line = 0; line < table.paths.size(); ++line)
      EXPECT_TRUE(taken[static_cast<std::size_t>(line)]) << table.name << ", line " << line;
  }
}

// Places that were measured (docs/lab): a change of the table shows here.
TEST(SoftmaxChoice, KnownRows) {
  const auto path = [](Type type, std::int64_t length, unsigned row = kSimpleRows) {
    const bool aligned = length % (16 / static_cast<int>(size_of(type))) == 0;
    const RowTypes types{type, type, aligned ? Alignment::aligned : Alignment::unaligned};
    const PathTable table = softmax_paths(types);
    return table[choose(table, length, row, !aligned, row_warps(types.bytes()))].path;
  };
  EXPECT_EQ(path(Type::float16, 577), Path::staged);
  EXPECT_EQ(path(Type::float16, 1024), Path::warp);
  EXPECT_EQ(path(Type::float16, 1025), Path::two_chunks);
  EXPECT_EQ(path(Type::bfloat16, 2304), Path::remainder);
  EXPECT_EQ(path(Type::bfloat16, 4096), Path::block);
  EXPECT_EQ(path(Type::bfloat16, 4096, kMaskedRows), Path::block);
  EXPECT_EQ(path(Type::float16, 9216), Path::remainder);
  EXPECT_EQ(path(Type::float16, 16384), Path::block_pairs);
  EXPECT_EQ(path(Type::bfloat16, 50257), Path::cluster_pairs);
  EXPECT_EQ(path(Type::bfloat16, 50257, kMaskedRows), Path::cluster);
  EXPECT_EQ(path(Type::bfloat16, 151936), Path::grid);
  EXPECT_EQ(path(Type::float32, 151936), Path::cluster_pairs);
  EXPECT_EQ(path(Type::float32, std::int64_t{1} << 21), Path::two_pass);
}

// Aligned rows, too: their kernels are worth their megabytes for these types of x and y, and not
// for others (docs/lab/softmax-kernel-budget.md).
TEST(SoftmaxChoice, KnownTypes) {
  EXPECT_TRUE(has_aligned_kernels(Type::float32, Type::float32));
  EXPECT_TRUE(has_aligned_kernels(Type::bfloat16, Type::bfloat16));
  EXPECT_TRUE(has_aligned_kernels(Type::float16, Type::float32));
  EXPECT_FALSE(has_aligned_kernels(Type::float32, Type::float16));
  EXPECT_FALSE(has_aligned_kernels(Type::float64, Type::float64));
}

}  // namespace
}  // namespace twinops::test
