#include "tests/fuzz/check.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

namespace fuzz {
namespace {

std::vector<proof::Problem> make_problems() {
  std::vector<proof::Problem> all;
  for (const proof::OperatorCases& table : proof::operator_cases()) {
    std::vector<proof::Problem> of_operator;
    for (const proof::Case& c : table.make())
      if (c.elements <= 1 << 14) of_operator.push_back(c.problem());
    // As many of each operator, from all over its list.
    for (std::size_t i = 0; i < 256 && !of_operator.empty(); ++i)
      all.push_back(of_operator[i * of_operator.size() / 256]);
  }
  return all;
}

struct Row {
  std::string name;
  DLDevice device;
};
// The reference first. An emulated GPU's memory is the host's.
std::vector<Row> make_rows() {
  std::vector<Row> rows{{"cpu/scalar", {kDLCPU, 0}}};
  for (std::size_t i = 0; i < twinops_row_count(); ++i) {
    const twinops_row& row = *twinops_row_at(i);
    const bool is_cuda = std::strncmp(row.name, "cuda", 4) == 0;
    if (!row.available || rows.front().name == row.name) continue;
    if (is_cuda && std::strcmp(twinops_device_at(0)->name, "emulated GPU") != 0) continue;
    if (!std::string_view(row.name).starts_with(rows_begin_with)) continue;
    rows.push_back({row.name, {is_cuda ? kDLCUDA : kDLCPU, 0}});
  }
  if (rows.size() == 1 && *rows_begin_with != '\0') {
    std::fprintf(stderr, "fuzz_operators: no row begins with '%s'\n", rows_begin_with);
    std::exit(2);
  }
  return rows;
}

using Task = void (*)(void*, std::int64_t);
void in_order(void*, std::int64_t n, Task task, void* context) {
  for (std::int64_t i = 0; i < n; ++i) task(context, i);
}
void in_reverse(void*, std::int64_t n, Task task, void* context) {
  for (std::int64_t i = n; i-- > 0;) task(context, i);
}

// The host's allocator, whose every answer may be the one that is nothing.
struct Allocator {
  int until_failure;
  std::vector<std::pair<void*, std::size_t>> held;

  ~Allocator() {
    for (const auto& [memory, bytes] : held) ::operator delete (memory, std::align_val_t{64});
  }
  static void* allocate(void* self, std::size_t bytes, void*) {
    auto& a = *static_cast<Allocator*>(self);
    if (a.until_failure-- == 0 || bytes > std::size_t{1} << 28) return nullptr;
    a.held.emplace_back(::operator new (bytes, std::align_val_t{64}), bytes);
    std::memset(a.held.back().first, 0xca, bytes);
    return a.held.back().first;
  }
  static void release(void* self, void* memory, std::size_t bytes, void*) {
    auto& a = *static_cast<Allocator*>(self);
    const auto at = std::find(a.held.begin(), a.held.end(), std::pair{memory, bytes});
    if (at == a.held.end()) std::abort();  // it was never given, or not as long
    ::operator delete (memory, std::align_val_t{64});
    a.held.erase(at);
  }
};

struct Result {
  twinops_status status;
  std::string message;
  std::uint64_t random_words;
  std::vector<std::vector<std::byte>> memory;  // of each view
};

std::vector<std::vector<std::byte>> snapshot(const Call& call) {
  std::vector<std::vector<std::byte>> all;
  for (const View& v : call.views) all.emplace_back(v.lowest, v.lowest + v.bytes);
  return all;
}
void restore(const Call& call, const std::vector<std::vector<std::byte>>& memory) {
  for (std::size_t i = 0; i < memory.size(); ++i)
    if (!memory[i].empty()) std::memcpy(call.views[i].lowest, memory[i].data(), memory[i].size());
}

Result run(Call& call, const Row& row) {
  for (View& v : call.views) {
    std::int32_t type;  // it may be none that there is
    std::memcpy(&type, &v.tensor.device.device_type, sizeof(type));
    if (type == kDLCPU || type == kDLCUDA) v.tensor.device = row.device;
  }
  Allocator allocator{call.failing_allocation, {}};
  twinops_report report{sizeof(report), 0, nullptr, nullptr, 0};
  twinops_execution how{};
  how.struct_size = sizeof(how);
  how.threads = call.threads;
  how.row = row.name.c_str();
  how.parallel_for = call.runner == 1 ? in_order : call.runner == 2 ? in_reverse : nullptr;
  if (call.own_allocator || row.device.device_type == kDLCUDA) {
    how.allocate = Allocator::allocate;
    how.release = Allocator::release;
    how.workspace_context = &allocator;
  }
  how.report = &report;
  Result result{};
  result.status = twinops_run(call.problem.op.c_str(), call.arguments.data(), call.arguments.size(),
                              call.attributes.data(), call.attributes.size(), &how);
  if (result.status != TWINOPS_OK) result.message = twinops_last_error();
  result.random_words = report.random_words;
  result.memory = snapshot(call);
  return result;
}

// Bytes that the call may write: elements of its outputs, through whichever view they are seen.
std::vector<std::vector<bool>> writable(const Call& call) {
  std::vector<std::vector<bool>> all;
  for (const View& v : call.views) all.emplace_back(v.bytes, false);
  for (const View& out : call.views) {
    if (!out.is_output) continue;
    for_each_element(out, [&](std::int64_t offset) {
      for (std::size_t i = 0; i < call.views.size(); ++i) {
        const std::ptrdiff_t at = out.origin + offset - call.views[i].lowest;
        for (std::size_t b = 0; b < out.element; ++b)
          if (at + static_cast<std::ptrdiff_t>(b) >= 0 &&
              at + static_cast<std::ptrdiff_t>(b) <
                  static_cast<std::ptrdiff_t>(call.views[i].bytes))
            all[i][static_cast<std::size_t>(at) + b] = true;
      }
    });
  }
  return all;
}

std::string differs(const Call& call, const Result& expected, const Result& actual) {
  if (expected.status != actual.status)
    return "status " + std::to_string(expected.status) + " (" + expected.message + ") and " +
           std::to_string(actual.status) + " (" + actual.message + ")";
  if (expected.status == TWINOPS_INVALID_ARGUMENT && expected.message != actual.message)
    return "messages '" + expected.message + "' and '" + actual.message + "'";
  if (expected.status != TWINOPS_OK) return "";
  if (expected.random_words != actual.random_words) return "other numbers of random words";
  for (std::size_t i = 0; i < call.views.size(); ++i)
    if (expected.memory[i] != actual.memory[i]) return "other bits of " + call.views[i].argument;
  return "";
}

// may: what writable() gives, for the first of a call's rows that asks.
std::string wrote_too_much(const Call& call, const std::vector<std::vector<std::byte>>& before,
                           const Result& result, std::vector<std::vector<bool>>& may) {
  const bool nothing =
      result.status == TWINOPS_INVALID_ARGUMENT || result.status == TWINOPS_UNSUPPORTED;
  if (!nothing && may.empty()) may = writable(call);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == result.memory[i]) continue;
    if (nothing) return "a refused call wrote to " + call.views[i].argument;
    for (std::size_t b = 0; b < before[i].size(); ++b)
      if (before[i][b] != result.memory[i][b] && !may[i][b])
        return "byte " + std::to_string(b) + " of " + call.views[i].argument + " was written";
  }
  return "";
}

}  // namespace

std::string check(const std::vector<std::uint8_t>& input, Counts& counts) {
  static const std::vector<proof::Problem> problems = make_problems();
  static const std::vector<Row> rows = make_rows();
  static GuardedMemory memory;
  Bytes bytes(input);
  Call call(problems[bytes.word() % problems.size()]);
  change(call.problem, bytes);
  if (!make(call, bytes, memory, {kDLCPU, 0})) {
    ++counts.too_large;
    return "";
  }
  const std::vector<std::vector<std::byte>> before = snapshot(call);
  std::unique_ptr<Result> expected;
  std::vector<std::vector<bool>> may;
  for (const Row& row : rows) {
    restore(call, before);
    Result result = run(call, row);
    ++counts.calls;
    ++(result.status == TWINOPS_OK                 ? counts.accepted
       : result.status == TWINOPS_INVALID_ARGUMENT ? counts.refused
                                                   : counts.failed);
    std::string wrong = wrote_too_much(call, before, result, may);
    const bool same_need =
        call.failing_allocation < 0;  // rows need scratch memory unlike each other
    if (wrong.empty() && expected != nullptr && same_need) wrong = differs(call, *expected, result);
    if (!wrong.empty()) return call.problem.op + " on " + row.name + ": " + wrong;
    if (expected == nullptr) expected = std::make_unique<Result>(std::move(result));
  }
  return "";
}

}  // namespace fuzz
