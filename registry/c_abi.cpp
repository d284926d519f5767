// The C ABI: structs in, status out. The one place where exceptions end.
#include <algorithm>
#include <cstring>
#include <new>

#include "numerics/environment.hpp"
#include "operators/error.hpp"
#include "operators/names.hpp"
#include "registry/info.hpp"
#include "registry/memory.hpp"
#include "registry/operators.hpp"
#include "registry/rows.hpp"
#include "registry/settings.hpp"
#include "twinops/twinops.h"

namespace twinops {
namespace {

template <Status status, twinops_status abi>
constexpr bool same = static_cast<int>(status) == static_cast<int>(abi);
static_assert(same<Status::ok, TWINOPS_OK> &&
              same<Status::invalid_argument, TWINOPS_INVALID_ARGUMENT> &&
              same<Status::unsupported, TWINOPS_UNSUPPORTED> &&
              same<Status::device_error, TWINOPS_DEVICE_ERROR> &&
              same<Status::out_of_memory, TWINOPS_OUT_OF_MEMORY> &&
              same<Status::internal, TWINOPS_INTERNAL>);

constexpr auto kNoIndex = static_cast<std::size_t>(-1);

struct ThreadState {
  std::string error;
  std::string fallback;
};
ThreadState& thread_state() {
  static thread_local ThreadState state;
  return state;
}

twinops_status failed(Status status, const char* message) noexcept {
  try {
    thread_state().error = message;
  } catch (...) {
    thread_state().error.clear();
  }
  return static_cast<twinops_status>(status);
}

// Runs f; whatever it throws becomes a status and a message.
template <class F>
twinops_status guarded(F&& f) noexcept {
  try {
    f();
    return TWINOPS_OK;
  } catch (const Error& error) {
    return failed(error.status, error.what());
  } catch (const std::bad_alloc&) {
    return failed(Status::out_of_memory, "no host memory");
  } catch (const std::exception& error) {
    return failed(Status::internal, error.what());
  } catch (...) {
    return failed(Status::internal, "unknown exception");
  }
}

[[noreturn, gnu::cold, gnu::noinline]] void refuse_struct(const char* op, const char* what,
                                                          std::size_t index) {
  throw Error(Status::invalid_argument, std::string(op) + ": " + what +
                                            (index == kNoIndex ? "" : " " + std::to_string(index)) +
                                            ": struct_size is not set");
}

// The caller's struct as this library knows it: what a shorter, older one lacks is zero. `index`:
// which of several it is.
template <class S>
S read_struct(const S* from, const char* op, const char* what, std::size_t index = kNoIndex) {
  if (from->struct_size < sizeof(std::uint32_t)) refuse_struct(op, what, index);
  if (from->struct_size >= sizeof(S)) return *from;
  S to{};
  std::memcpy(&to, from, from->struct_size);
  return to;
}

template <class S>
const S* next_struct(const S* s) {
  return reinterpret_cast<const S*>(reinterpret_cast<const char*>(s) + s->struct_size);
}

AttributeValue read_attribute(const char* op, const twinops_attribute& a, std::size_t index) {
  switch (a.kind) {
    case TWINOPS_BOOL:
      return AttributeValue::of(a.int_value != 0);
    case TWINOPS_INT:
      return AttributeValue::of(a.int_value);
    case TWINOPS_FLOAT:
      return AttributeValue::of(a.float_value);
    case TWINOPS_STRING:
      return AttributeValue::of(a.string_value);
    default:
      throw Error(Status::invalid_argument, std::string(op) + ": attribute " +
                                                std::to_string(index) + ": unknown kind " +
                                                std::to_string(a.kind));
  }
}

// Memory of a kind that twinops_allocate gives.
Device device_of_memory(DLDevice device) {
  if (device.device_type != kDLCPU && device.device_type != kDLCUDA)
    throw Error(Status::invalid_argument, "device: expected kDLCPU or kDLCUDA; got " +
                                              std::to_string(static_cast<int>(device.device_type)));
  return read_device(device);
}

std::string names_of_operators() {
  std::string names;
  for (const Operator& op : operators()) add_name(names, op.info->name);
  return names;
}

void write_report(const twinops_execution& execution, const Choice& choice, const Execution& done) {
  if (execution.report == nullptr) return;
  const char* fallback = "";
  if (!choice.fallback.empty()) fallback = (thread_state().fallback = choice.fallback).c_str();
  const twinops_report report{execution.report->struct_size,
                              static_cast<std::int32_t>(done.launches), choice.name, fallback,
                              done.random_words};
  if (report.struct_size >= sizeof(report))
    *execution.report = report;
  else
    std::memcpy(execution.report, &report, report.struct_size);
}

void run(const char* op, const twinops_argument* arguments, std::size_t argument_count,
         const twinops_attribute* attributes, std::size_t attribute_count,
         const twinops_execution* execution_or_null) {
  const Settings& wish = settings();  // what is wrong in them is wrong at every call
  const Operator* found = op == nullptr ? nullptr : find_operator(op);
  if (found == nullptr)
    throw Error(Status::invalid_argument, "no operator is named '" +
                                              std::string(op == nullptr ? "NULL" : op) +
                                              "'; the operators are " + names_of_operators());
  twinops_execution how{};
  if (execution_or_null != nullptr) how = read_struct(execution_or_null, op, "execution");
  if (how.report != nullptr) read_struct(how.report, op, "execution: report");
  if (how.threads < 0)
    throw Error(Status::invalid_argument, std::string(op) + ": execution: threads is negative");

  const FloatEnvironment environment;
  Call call(*found->info);
  if (argument_count != 0 && arguments == nullptr)
    call.refuse(op, "its array of arguments is NULL");
  if (attribute_count != 0 && attributes == nullptr)
    call.refuse(op, "its array of attributes is NULL");
  for (std::size_t i = 0; i < argument_count; ++i, arguments = next_struct(arguments)) {
    const twinops_argument a = read_struct(arguments, op, "argument", i);
    call.bind(a.name, a.tensors, a.count);
  }
  for (std::size_t i = 0; i < attribute_count; ++i, attributes = next_struct(attributes)) {
    const twinops_attribute a = read_struct(attributes, op, "attribute", i);
    call.set(a.name, read_attribute(op, a, i));
  }
  call.complete();

  const Choice choice = choose_row(call.device(), how.row);
  Execution execution;
  execution.device = call.device();
  execution.stream = how.stream;
  execution.threads = how.threads != 0 ? how.threads : wish.threads;
  execution.parallel_for = how.parallel_for;
  execution.parallel_context = how.parallel_context;
  execution.allocate = how.allocate;
  execution.release = how.release;
  execution.workspace_context = how.workspace_context;
  found->run(call, choice.row, execution);
  write_report(how, choice, execution);
}

}  // namespace
}  // namespace twinops

using namespace twinops;

extern "C" {

const char* twinops_last_error(void) noexcept { return thread_state().error.c_str(); }
int32_t twinops_abi_version(void) noexcept { return TWINOPS_ABI_VERSION; }
const char* twinops_version(void) noexcept { return TWINOPS_VERSION; }

size_t twinops_operator_count(void) noexcept { return operators().size(); }
const twinops_operator_info* twinops_operator_at(size_t index) noexcept {
  const twinops_operator_info* info = nullptr;
  guarded([&] { info = operator_info(index); });
  return info;
}
const twinops_operator_info* twinops_find_operator(const char* name) noexcept {
  for (std::size_t i = 0; name != nullptr && i < operators().size(); ++i)
    if (same_name(operators()[i].info->name, name)) return twinops_operator_at(i);
  return nullptr;
}
const char* twinops_type_name(DLDataType type) noexcept {
  Type known;
  return from_dlpack(type, known) ? name(known) : "unknown";
}

size_t twinops_row_count(void) noexcept { return rows().size(); }
const twinops_row* twinops_row_at(size_t index) noexcept {
  const twinops_row* row = nullptr;
  guarded([&] { row = row_info(index); });
  return row;
}
size_t twinops_device_count(void) noexcept {
  std::size_t count = 0;
  guarded([&] { count = device_count(); });
  return count;
}
const twinops_device* twinops_device_at(size_t index) noexcept {
  const twinops_device* device = nullptr;
  guarded([&] { device = device_info(index); });
  return device;
}

twinops_status twinops_explain(DLDevice device, char* text, size_t capacity,
                               size_t* length) noexcept {
  return guarded([&] {
    settings();  // refused here too, whatever the device
    const std::string lines = explain_rows(read_device(device), nullptr);
    if (length != nullptr) *length = lines.size();
    if (text == nullptr || capacity == 0) return;
    const std::size_t n = std::min(lines.size(), capacity - 1);
    std::memcpy(text, lines.data(), n);
    text[n] = '\0';
  });
}

twinops_status twinops_allocate(DLDevice device, size_t bytes, void** memory) noexcept {
  return guarded([&] {
    if (memory == nullptr)
      throw Error(Status::invalid_argument, "twinops_allocate: the place for the memory is NULL");
    *memory = allocate(device_of_memory(device), bytes);
  });
}
twinops_status twinops_release(DLDevice device, void* memory) noexcept {
  return guarded([&] { release(device_of_memory(device), memory); });
}
twinops_status twinops_copy(DLDevice to_device, void* to, DLDevice from_device, const void* from,
                            size_t bytes) noexcept {
  return guarded([&] { copy(read_device(to_device), to, read_device(from_device), from, bytes); });
}
twinops_status twinops_synchronize(DLDevice device) noexcept {
  return guarded([&] { synchronize(read_device(device)); });
}

twinops_status twinops_run(const char* op, const twinops_argument* arguments, size_t argument_count,
                           const twinops_attribute* attributes, size_t attribute_count,
                           const twinops_execution* execution) noexcept {
  return guarded(
      [&] { run(op, arguments, argument_count, attributes, attribute_count, execution); });
}

}  // extern "C"
