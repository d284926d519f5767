// What a host can enumerate: operators, rows, devices, explanations; and what calls report.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "tests/support/raw_call.hpp"
#include "twinops/twinops.hpp"

namespace twinops::test {
namespace {

std::vector<const twinops_operator_info*> operators() {
  std::vector<const twinops_operator_info*> all;
  for (std::size_t i = 0; i < twinops_operator_count(); ++i) all.push_back(twinops_operator_at(i));
  return all;
}
bool is_text(const char* s) { return s != nullptr && *s != '\0'; }
bool is_identifier(const char* s) {
  return is_text(s) && std::string_view(s).find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

TEST(Operators, AreFoundByNameAndOnlyBySuch) {
  std::set<std::string> names;
  for (const auto* op : operators()) {
    ASSERT_NE(op, nullptr);
    EXPECT_TRUE(names.insert(op->name).second) << op->name << " is there twice";
    EXPECT_EQ(twinops_find_operator(op->name), op);
  }
  EXPECT_TRUE(names.count("check_finite_and_unscale"));
  EXPECT_TRUE(names.count("update_loss_scaling"));
  EXPECT_EQ(twinops_operator_at(twinops_operator_count()), nullptr);
  EXPECT_EQ(twinops_operator_at(~std::size_t{0}), nullptr);
  EXPECT_EQ(twinops_find_operator(nullptr), nullptr);
  EXPECT_EQ(twinops_find_operator(""), nullptr);
  EXPECT_EQ(twinops_find_operator("check_finite"), nullptr);
}

TEST(Operators, DescribeThemselvesInFull) {
  for (const auto* op : operators()) {
    SCOPED_TRACE(op->name);
    EXPECT_EQ(op->struct_size, sizeof(twinops_operator_info));
    EXPECT_TRUE(is_identifier(op->name));
    EXPECT_TRUE(is_text(op->doc));
    std::set<std::string> names;
    std::size_t outputs = 0;
    for (std::size_t i = 0; i < op->argument_count; ++i) {
      const twinops_argument_info& a = *op->arguments[i];
      EXPECT_EQ(a.struct_size, sizeof(a));
      EXPECT_TRUE(is_identifier(a.name));
      EXPECT_TRUE(names.insert(a.name).second) << a.name << " is there twice";
      EXPECT_TRUE(is_text(a.doc)) << a.name;
      EXPECT_GT(a.type_count, 0u) << a.name;
      std::set<std::string> types;
      for (std::size_t t = 0; t < a.type_count; ++t) {
        EXPECT_STRNE(twinops_type_name(a.types[t]), "unknown") << a.name;
        EXPECT_TRUE(types.insert(twinops_type_name(a.types[t])).second) << a.name;
      }
      outputs += a.is_output != 0;
    }
    EXPECT_GT(outputs, 0u);
    for (std::size_t i = 0; i < op->attribute_count; ++i) {
      const twinops_attribute_info& a = *op->attributes[i];
      EXPECT_EQ(a.struct_size, sizeof(a));
      EXPECT_EQ(a.default_value.struct_size, sizeof(twinops_attribute));
      EXPECT_TRUE(is_identifier(a.default_value.name));
      EXPECT_TRUE(names.insert(a.default_value.name).second) << a.default_value.name;
      EXPECT_TRUE(is_text(a.doc)) << a.default_value.name;
      EXPECT_GE(a.default_value.kind, TWINOPS_BOOL);
      EXPECT_LE(a.default_value.kind, TWINOPS_STRING);
      if (a.choices == nullptr) continue;
      ASSERT_EQ(a.default_value.kind, TWINOPS_STRING) << a.default_value.name;
      const std::string words = "|" + std::string(a.choices) + "|";
      EXPECT_NE(words.find("|" + std::string(a.default_value.string_value) + "|"),
                std::string::npos)
          << a.default_value.name << ": the default is no choice";
    }
  }
}

bool takes(const twinops_argument_info& a, DLDataType type) {
  for (std::size_t t = 0; t < a.type_count; ++t)
    if (std::memcmp(&a.types[t], &type, sizeof(type)) == 0) return true;
  return false;
}

// One element for every argument of an operator, or for every required one, in its first type.
struct Minimal {
  RawCall call;
  std::deque<std::array<double, 2>> memory;
  std::deque<View> views;

  explicit Minimal(const twinops_operator_info& op, bool only_required = false) : call(op.name) {
    for (std::size_t i = 0; i < op.argument_count; ++i)
      if (!only_required || op.arguments[i]->is_required)
        add(*op.arguments[i], op.arguments[i]->types[0], 1);
  }
  // The required arguments, of `rank` dimensions, and argument `tried` in `type`, which the others
  // have too where they may: out is of the type of x. A gradient comes with what it is the gradient
  // of: dmask with mask.
  Minimal(const twinops_operator_info& op, const twinops_argument_info& tried, DLDataType type,
          std::size_t rank)
      : call(op.name) {
    for (std::size_t i = 0; i < op.argument_count; ++i) {
      const twinops_argument_info& a = *op.arguments[i];
      if (&a == &tried)
        add(a, type, a.is_required ? rank : 1);
      else if (a.is_required)
        add(a, takes(a, type) ? type : a.types[0], rank);
      else if (tried.name == "d" + std::string(a.name))
        add(a, takes(a, type) ? type : a.types[0], 1);
    }
  }
  void add(const twinops_argument_info& a, DLDataType type, std::size_t rank) {
    memory.push_back({});
    views.emplace_back(memory.back().data(), type, std::vector<std::int64_t>(rank, 1));
    call.add(a.name, views.back());
  }
};

TEST(Operators, TakeTheirOwnDefaults) {
  for (const auto* op : operators()) {
    Minimal plain(*op, true), spelled(*op, true);
    for (std::size_t i = 0; i < op->attribute_count; ++i)
      spelled.call.attributes.push_back(op->attributes[i]->default_value);
    EXPECT_EQ(plain.call.run(), TWINOPS_OK) << op->name << ": " << twinops_last_error();
    EXPECT_EQ(spelled.call.run(), TWINOPS_OK) << op->name << ": " << twinops_last_error();
    EXPECT_EQ(plain.memory, spelled.memory) << op->name;
  }
}

// Every type that an argument's table names is taken, every other type that the library knows is
// refused as such. Of arguments whose types follow from another's the call says what it allows.
TEST(Operators, TakeTheTypesOfTheirTables) {
  constexpr DLDataType kTypes[] = {kFloat16, kBfloat16, kFloat32, kFloat64, kBool,
                                   kUint8,   kInt32,    kUint32,  kInt64,   kUint64};
  for (const auto* op : operators())
    for (std::size_t i = 0; i < op->argument_count; ++i) {
      const twinops_argument_info& a = *op->arguments[i];
      std::string types;
      for (std::size_t k = 0; k < a.type_count; ++k)
        types += (k == 0 ? "" : ", ") + std::string(twinops_type_name(a.types[k]));
      for (DLDataType type : kTypes) {
        const std::string name = twinops_type_name(type);
        const std::string where =
            std::string(op->name) + ": " + a.name + (a.is_list ? "[0]" : "") + ": expected ";
        const std::string message = where + types + "; got " + name;
        const auto run = [&](std::size_t rank) { return Minimal(*op, a, type, rank).call.run(); };
        if (!takes(a, type)) {
          EXPECT_EQ(run(1), TWINOPS_INVALID_ARGUMENT);
          const std::string error = twinops_last_error();
          const bool of_call = error.starts_with(where) && error.ends_with("; got " + name) &&
                               (error.find(", as ") != std::string::npos ||
                                error.find("the type of") == where.size());
          EXPECT_TRUE(error == message || of_call) << error;
        } else {  // some need an axis before the last, some are of all of x's shape
          EXPECT_TRUE(run(1) == TWINOPS_OK || run(2) == TWINOPS_OK)
              << op->name << ": " << a.name << " of " << name << ": " << twinops_last_error();
        }
      }
    }
}

TEST(Operators, RefuseWhatIsMissing) {
  for (const auto* op : operators())
    for (std::size_t i = 0; i < op->argument_count; ++i) {
      const twinops_argument_info& a = *op->arguments[i];
      Minimal minimal(*op);
      minimal.call.remove(a.name);
      const twinops_status status = minimal.call.run();
      if (!a.is_required) continue;
      EXPECT_EQ(status, TWINOPS_INVALID_ARGUMENT);
      EXPECT_EQ(twinops_last_error(),
                std::string(op->name) + ": " + a.name + ": is required, but was not given");
    }
}

TEST(Rows, BestFirstTheReferenceLast) {
  const std::size_t count = twinops_row_count();
  ASSERT_GE(count, 2u);
  EXPECT_TRUE(std::string_view(twinops_row_at(0)->name).starts_with("cuda"));
  const twinops_row& last = *twinops_row_at(count - 1);
  EXPECT_STREQ(last.name, "cpu/scalar");
  EXPECT_TRUE(last.available);
  std::set<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    const twinops_row& row = *twinops_row_at(i);
    EXPECT_EQ(row.struct_size, sizeof(row));
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(row.available != 0, *row.why_not == '\0') << row.name << ": " << row.why_not;
  }
  EXPECT_EQ(twinops_row_at(count), nullptr);
}

#if defined(__x86_64__)
TEST(Rows, OfThisProcessor) {
  const std::map<std::string, bool> expected{
      {"cpu/scalar", true},
      {"cpu/sse2", true},
      {"cpu/avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
      {"cpu/avx512", __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")}};
  for (std::size_t i = 0; i < twinops_row_count(); ++i) {  // those that this build has
    const twinops_row& row = *twinops_row_at(i);
    const auto at = expected.find(row.name);
    if (at != expected.end()) {
      EXPECT_EQ(row.available != 0, at->second) << row.name;
    }
  }
}
#endif

TEST(Rows, CudaSaysWhyItIsNotThere) {
  const twinops_row& cuda = *twinops_row_at(0);
  if (cuda.available) {
    EXPECT_TRUE(std::string_view(cuda.name).starts_with("cuda/sm_"));
    EXPECT_GT(twinops_device_count(), 0u);
    return;
  }
#if defined(TWINOPS_TEST_HAS_CUDA)
  EXPECT_TRUE(std::string_view(cuda.why_not).starts_with("no CUDA device")) << cuda.why_not;
#else
  EXPECT_STREQ(cuda.why_not, "this build has no CUDA kernels");
  EXPECT_EQ(twinops_device_count(), 0u);
#endif
}

TEST(Devices, DescribeThemselves) {
  for (std::size_t i = 0; i < twinops_device_count(); ++i) {
    const twinops_device& device = *twinops_device_at(i);
    EXPECT_EQ(device.struct_size, sizeof(device));
    EXPECT_TRUE(is_text(device.name));
    EXPECT_TRUE(std::string_view(device.row).starts_with("cuda/sm_"));
    EXPECT_EQ(device.usable != 0, *device.why_not == '\0');
  }
  EXPECT_EQ(twinops_device_at(twinops_device_count()), nullptr);
}

TEST(Explain, ALineARowAndOneIsChosen) {
  const std::string text = explain();
  std::size_t lines = 0, chosen = 0;
  std::string taken;
  for (std::size_t begin = 0; begin < text.size(); ++lines) {
    const std::size_t end = text.find('\n', begin);
    ASSERT_NE(end, std::string::npos);
    const std::string line = text.substr(begin, end - begin);
    const std::string name = twinops_row_at(lines)->name;
    EXPECT_TRUE(line.starts_with(name + ": ")) << line;
    if (line == name + ": chosen")
      ++chosen, taken = name;
    else if (chosen != 0)
      EXPECT_EQ(line, name + ": not needed");
    else
      EXPECT_TRUE(line.starts_with(name + ": passed over: ")) << line;
    begin = end + 1;
  }
  EXPECT_EQ(lines, twinops_row_count());
  EXPECT_EQ(chosen, 1u);
  Minimal minimal(*twinops_find_operator("check_finite_and_unscale"));
  ASSERT_EQ(minimal.call.run(), TWINOPS_OK);
  EXPECT_EQ(minimal.call.report.row, taken);
}

TEST(Explain, WritesAsMuchAsThereIsRoomFor) {
  const std::string text = explain();
  std::vector<char> buffer(text.size() + 8, '#');
  std::size_t length = 0;
  ASSERT_EQ(twinops_explain(kHost, buffer.data(), 5, &length), TWINOPS_OK);
  EXPECT_EQ(length, text.size());
  EXPECT_EQ(std::string(buffer.data()), text.substr(0, 4));
  EXPECT_EQ(buffer[5], '#');
  ASSERT_EQ(twinops_explain(kHost, buffer.data(), 1, nullptr), TWINOPS_OK);
  EXPECT_EQ(buffer[0], '\0');
  ASSERT_EQ(twinops_explain(kHost, buffer.data(), text.size(), nullptr), TWINOPS_OK);
  EXPECT_EQ(std::string(buffer.data()), text.substr(0, text.size() - 1));
  ASSERT_EQ(twinops_explain(kHost, nullptr, 0, nullptr), TWINOPS_OK);
}

TEST(Explain, RefusesADeviceOfAnotherKind) {
  EXPECT_EQ(twinops_explain({kDLVulkan, 0}, nullptr, 0, nullptr), TWINOPS_INVALID_ARGUMENT);
  EXPECT_STREQ(twinops_last_error(),
               "expected memory of the CPU or of a CUDA device; got DLPack device type 7");
}

TEST(Explain, OfACudaDeviceThatIsNotThere) {
  const std::string text = explain({kDLCUDA, 99});
  EXPECT_EQ(text.find(": chosen"), std::string::npos) << text;
  EXPECT_NE(text.find("cpu/scalar: passed over: the tensors are on cuda:99\n"), std::string::npos)
      << text;
}

TEST(Report, NamesTheRowThatWasAskedFor) {
  for (const std::string& row : available_rows()) {
    if (!row.starts_with("cpu/")) continue;
    Minimal minimal(*twinops_find_operator("check_finite_and_unscale"));
    minimal.call.execution.row = row.c_str();
    ASSERT_EQ(minimal.call.run(), TWINOPS_OK) << twinops_last_error();
    EXPECT_EQ(minimal.call.report.row, row);
    EXPECT_STREQ(minimal.call.report.fallback, "");
    EXPECT_EQ(minimal.call.report.launches, 0);
    EXPECT_EQ(minimal.call.report.random_words, 0u);
    EXPECT_EQ(minimal.call.report.struct_size, sizeof(twinops_report));
  }
}

TEST(Report, ABackendMeansItsBestRow) {
  Minimal minimal(*twinops_find_operator("check_finite_and_unscale"));
  minimal.call.execution.row = "cpu";
  ASSERT_EQ(minimal.call.run(), TWINOPS_OK) << twinops_last_error();
  for (const std::string& row : available_rows()) {
    if (!row.starts_with("cpu/")) continue;
    EXPECT_EQ(minimal.call.report.row, row);
    break;
  }
}

}  // namespace
}  // namespace twinops::test
