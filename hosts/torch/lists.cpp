// A list of gradients from Python, past PyTorch's dispatcher: that makes objects of each tensor
// three times over and takes Python's lock to give each back, which for 300 tensors costs more than
// the launch. PyTorch's table of DLPack's functions (__dlpack_c_exchange_api__) gives a view of a
// tensor without any of it. python/twinops/torch/_lists.py calls this through ctypes, with Python's
// lock.
#include <string>
#include <vector>

#include "hosts/torch/execution.hpp"

// Of Python's stable ABI, and weak: PyTorch's C++ programs load this library without a Python.
// NOLINTBEGIN: the names are Python's
extern "C" {
struct _object;
[[gnu::weak]] ssize_t PyList_Size(_object*);
[[gnu::weak]] _object* PyList_GetItem(_object*, ssize_t);  // borrowed
[[gnu::weak]] _object* PyObject_Type(_object*);
[[gnu::weak]] void Py_DecRef(_object*);
[[gnu::weak]] void PyErr_Clear(void);
[[gnu::weak]] void* PyEval_SaveThread(void);
[[gnu::weak]] void PyEval_RestoreThread(void*);
}
// NOLINTEND

namespace twinops::torch_host {
namespace {

using PyObject = _object;

// The table of DLPack 1.3, to the function that is used. Its first member says its version.
struct DlpackTable {
  uint32_t major, minor;
  void* older;
  void *allocate, *export_owned, *import_owned;
  int (*view)(void* object, DLTensor* view);  // 0, or -1 with an exception of Python's
};

// Whether the object is a tensor of exactly one of these types: others may mean something else.
bool is_of(PyObject* object, PyObject* tensor_type, PyObject* parameter_type) {
  PyObject* const type = PyObject_Type(object);
  Py_DecRef(type);  // the object keeps it
  return type == tensor_type || type == parameter_type;
}

class Views {
 public:
  Views(const DlpackTable& table, PyObject* tensor_type, PyObject* parameter_type)
      : table_(table), tensor_type_(tensor_type), parameter_type_(parameter_type) {}

  // False for what is not for this way.
  bool look(PyObject* object, DLTensor& view) const {
    if (!is_of(object, tensor_type_, parameter_type_)) return false;
    if (table_.view(object, &view) != 0) {
      PyErr_Clear();
      return false;
    }
    return view.device.device_type == kDLCPU || view.device.device_type == kDLCUDA;
  }

 private:
  const DlpackTable& table_;
  PyObject *tensor_type_, *parameter_type_;
};

// Other threads of Python run meanwhile.
struct WithoutLock {
  void* state = PyEval_SaveThread();
  WithoutLock() = default;
  WithoutLock(const WithoutLock&) = delete;
  ~WithoutLock() { PyEval_RestoreThread(state); }
};

// The memory of a call for the next one: of vectors that are made and gone with each call malloc
// tidies up each time.
struct Room {
  std::vector<DLTensor> views;
  std::vector<const DLTensor*> pointers;
};

}  // namespace
}  // namespace twinops::torch_host

// check_finite_and_unscale of a list of tensors, in place. nullptr if it is done; "" if it is not
// for this way, and nothing is done; else why it is refused.
extern "C" __attribute__((visibility("default"))) const char* twinops_torch_unscale(
    const void* table, _object* tensor_type, _object* parameter_type, _object* tensors,
    _object* scale, _object* found_inf, int allow_float16) {
  using namespace twinops::torch_host;
  const auto& functions = *static_cast<const DlpackTable*>(table);
  thread_local std::string refusal;
  thread_local Room room;
  if (functions.major != 1) return "";
  const Views look(functions, tensor_type, parameter_type);
  const auto count = static_cast<size_t>(PyList_Size(tensors));
  DLTensor scale_view, found_view;
  if (count == 0 || !look.look(scale, scale_view) || !look.look(found_inf, found_view)) return "";
  room.views.resize(count);
  room.pointers.resize(count);
  for (size_t i = 0; i < count; ++i) {
    DLTensor& view = room.views[i];
    if (!look.look(PyList_GetItem(tensors, static_cast<ssize_t>(i)), view)) return "";
    if (view.device.device_type != scale_view.device.device_type ||
        view.device.device_id != scale_view.device.device_id)
      return "";
    if (allow_float16 == 0 && view.dtype.code == kDLFloat && view.dtype.bits == 16) return "";
    room.pointers[i] = &view;
  }
  const DLTensor* const scales[] = {&scale_view};
  const DLTensor* const founds[] = {&found_view};
  const twinops_argument arguments[] = {
      TWINOPS_ARGUMENT("x", room.pointers.data(), count),
      TWINOPS_ARGUMENT("scale", scales, 1),
      TWINOPS_ARGUMENT("out", room.pointers.data(), count),
      TWINOPS_ARGUMENT("found_inf", founds, 1),
  };
  try {
    const WithoutLock unlocked;
    execute("check_finite_and_unscale", arguments, 4, nullptr, 0, scale_view.device);
    return nullptr;
  } catch (const std::exception& error) {
    refusal = error.what();
    return refusal.c_str();
  }
}
