// The C ABI: structs in, status out. The one place where exceptions end.
#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "numerics/environment.hpp"
#include "operators/device_type.hpp"
#include "operators/error.hpp"
#include "operators/names.hpp"
#include "registry/info.hpp"
#include "registry/memory.hpp"
#include "registry/operators.hpp"
#include "registry/rows.hpp"
#include "registry/settings.hpp"
#include "registry/thread_state.hpp"
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

constexpr const char* kNoMessage = "no host memory for the message";

twinops_status failed(Status status, const char* message) noexcept {
  ThreadState* const state = thread_state();
  if (state != nullptr) try {
      state->error = message;
      state->error_is_lost = false;
    } catch (...) {
      state->error_is_lost = true;
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
                                                          std::size_t index, const char* why) {
  throw Error(Status::invalid_argument, std::string(op) + ": " + what +
                                            (index == kNoIndex ? "" : " " + std::to_string(index)) +
                                            ": struct_size is not " + why);
}

// The caller's struct as this library knows it: what a shorter, older one lacks is zero. `index`:
// which of several it is.
template <class S>
S read_struct(const S* from, const char* op, const char* what, std::size_t index = kNoIndex) {
  static_assert(alignof(S) == 8);
  if (from->struct_size < sizeof(std::uint32_t)) refuse_struct(op, what, index, "set");
  if (from->struct_size % alignof(S) != 0)  // it ends inside a member, and the next is not aligned
    refuse_struct(op, what, index, "a multiple of 8");
  if (from->struct_size >= sizeof(S)) return *from;
  S to{};
  std::memcpy(&to, from, from->struct_size);
  return to;
}

// Reads `count` structs that lie one behind the other, each as long as it says.
template <class S, class Take>
void read_structs(const S* from, std::size_t count, const char* op, const char* what, Take&& take) {
  for (std::size_t i = 0; i < count; ++i) {
    take(read_struct(from, op, what, i), i);
    from = reinterpret_cast<const S*>(reinterpret_cast<const char*>(from) + from->struct_size);
  }
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
  const int type = type_of(device);
  if (type != kDLCPU && type != kDLCUDA)
    throw Error(Status::invalid_argument,
                "device: expected kDLCPU or kDLCUDA; got " + std::to_string(type));
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
  if (ThreadState* const state = choice.fallback.empty() ? nullptr : thread_state())
    fallback = (state->fallback = choice.fallback).c_str();
  const twinops_report report{execution.report->struct_size,
                              static_cast<std::int32_t>(done.launches), choice.name, fallback,
                              done.random_words};
  if (report.struct_size >= sizeof(report))
    *execution.report = report;
  else
    std::memcpy(execution.report, &report, report.struct_size);
}

// The host's allocator for one call. Its release is called where nothing can be thrown: what it
// throws waits for the end of the call.
struct LentMemory {
  const twinops_execution& host;
  std::exception_ptr error{};

  static void* allocate(void* self, std::size_t bytes, void* stream) {
    const twinops_execution& host = static_cast<LentMemory*>(self)->host;
    return host.allocate(host.workspace_context, bytes, stream);
  }
  static void release(void* self, void* memory, std::size_t bytes, void* stream) noexcept {
    auto& [host, error] = *static_cast<LentMemory*>(self);
    try {
      host.release(host.workspace_context, memory, bytes, stream);
    } catch (...) {
      error = std::current_exception();
    }
  }
};

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
  read_structs(
      arguments, argument_count, op, "argument",
      [&](const twinops_argument& a, std::size_t) { call.bind(a.name, a.tensors, a.count); });
  read_structs(attributes, attribute_count, op, "attribute",
               [&](const twinops_attribute& a, std::size_t i) {
                 call.set(a.name, read_attribute(op, a, i));
               });
  call.complete();

  const Choice choice = choose_row(call.device(), how.row);
  Execution execution;
  execution.device = call.device();
  execution.stream = how.stream;
  execution.threads = how.threads != 0 ? how.threads : wish.threads;
  execution.parallel_for = how.parallel_for;
  execution.parallel_context = how.parallel_context;
  LentMemory lent{how};
  if (how.allocate != nullptr) execution.allocate = &LentMemory::allocate;
  if (how.release != nullptr) execution.release = &LentMemory::release;
  execution.workspace_context = &lent;
  found->run(call, choice.row, execution);
  if (lent.error != nullptr) std::rethrow_exception(lent.error);
  write_report(how, choice, execution);
}

}  // namespace
}  // namespace twinops

using namespace twinops;

extern "C" {

const char* twinops_last_error(void) noexcept {
  const ThreadState* const state = thread_state();
  return state == nullptr || state->error_is_lost ? kNoMessage : state->error.c_str();
}
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
