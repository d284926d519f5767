// Eager calls from Python, past Paddle's custom operators: those copy the descriptions of every
// registered operator at each call, which takes several times as long as a small softmax.
// python/twinops/paddle/_eager.py asks for an operator's function through ctypes, once; autograd is
// added there. All of them are called with the interpreter's lock held.
#include <paddle/phi/api/profiler/event_tracing.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "hosts/paddle/autograd.hpp"
#include "hosts/paddle/paddles_errors.hpp"
#include "hosts/paddle/python.hpp"
#include "hosts/paddle/register.hpp"
#include "hosts/paddle/run.hpp"
#include "hosts/paddle/tensors.hpp"

namespace twinops::paddle_host {
namespace {

using ::paddle::Tensor;

struct PythonError {};  // an exception of Python's is set already

struct TypeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

PyObject* checked(PyObject* object) {
  if (object == nullptr) throw PythonError();
  return object;
}

// The exception that is set, which is taken away.
Refusal taken_exception() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const Owned types(type), values(value), traces(trace), text(PyObject_Str(value));
  const char* message = text.get() == nullptr ? nullptr : PyUnicode_AsUTF8(text.get());
  PyErr_Clear();
  twinops_status status = TWINOPS_INTERNAL;
  if (PyErr_GivenExceptionMatches(type, PyExc_ValueError) != 0) status = TWINOPS_INVALID_ARGUMENT;
  if (PyErr_GivenExceptionMatches(type, PyExc_NotImplementedError) != 0)
    status = TWINOPS_UNSUPPORTED;
  if (PyErr_GivenExceptionMatches(type, PyExc_MemoryError) != 0) status = TWINOPS_OUT_OF_MEMORY;
  return Refusal(status, message == nullptr ? "a gradient failed" : message);
}

std::string type_name(PyObject* object) {
  const Owned type(checked(PyObject_Type(object)));
  const Owned name(checked(PyObject_GetAttrString(type.get(), "__name__")));
  return PyUnicode_AsUTF8(name.get());
}

[[noreturn]] void wrong_type(const Signature& s, const std::string& name, const char* expected,
                             PyObject* got) {
  throw TypeError(std::string(s.info->name) + ": " + name + ": expected " + expected + "; got " +
                  (got == &_Py_NoneStruct ? "None" : type_name(got)));
}

const Tensor& tensor_of(const Signature& s, const Input& input, PyObject* object) {
  if (!::paddle::pybind::PyCheckTensor(object))
    wrong_type(s, input.name, input.list ? "a list of tensors" : "a tensor", object);
  return ::paddle::pybind::CastPyArg2Tensor(object, 0);
}

template <class List>
std::string names_of(const List& list) {
  std::string names;
  for (const auto& item : list) names += (names.empty() ? "" : ", ") + item.name;
  return names;
}

[[noreturn]] void unknown_name(const Signature& s, const char* name) {
  throw TypeError(s.name + " has no " + name + "; its inputs are " + names_of(s.inputs) +
                  ", its attributes " + names_of(s.attributes));
}

// None comes as no object.
bool is_left_out(const Input& input, PyObject* object) {
  if (object == nullptr || object == &_Py_NoneStruct) return true;
  return !input.is_required() && ::paddle::pybind::PyCheckTensor(object) &&
         is_left_out(input, ::paddle::pybind::CastPyArg2Tensor(object, 0));
}

struct Request {
  Inputs inputs;
  std::vector<PyObject*> objects;            // of inputs.tensors
  std::vector<std::unique_ptr<Owned>> kept;  // items of lists
};

void take_list(const Signature& s, const Input& input, PyObject* list, Request& request) {
  const ssize_t size = ::paddle::pybind::PyCheckTensor(list) ? -1 : PySequence_Size(list);
  if (size < 0) {
    PyErr_Clear();
    wrong_type(s, input.name, "a list of tensors", list);
  }
  for (ssize_t i = 0; i < size; ++i) {
    request.kept.push_back(std::make_unique<Owned>(checked(PySequence_GetItem(list, i))));
    PyObject* item = request.kept.back()->get();
    request.inputs.add(tensor_of(s, input, item));
    request.objects.push_back(item);
  }
}

// `given`: name -> tensor, list of tensors or None; a gradient's name ends with "@GRAD".
Request take_inputs(const Signature& s, PyObject* given) {
  std::vector<PyObject*> found(s.inputs.size(), nullptr);
  ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(given, &position, &key, &value) != 0) {
    const char* name = PyUnicode_AsUTF8(key);
    const auto input = std::find_if(s.inputs.begin(), s.inputs.end(),
                                    [&](const Input& i) { return i.python_name == name; });
    if (input != s.inputs.end())
      found[input - s.inputs.begin()] = value;
    else if (value != &_Py_NoneStruct)
      unknown_name(s, name);
  }
  Request request;
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    const Input& input = s.inputs[i];
    PyObject* object = found[i];
    if (!is_left_out(input, object)) {
      if (input.list) {
        take_list(s, input, object, request);
      } else {
        request.inputs.add(tensor_of(s, input, object));
        request.objects.push_back(object);
      }
    } else if (input.is_required()) {
      wrong_type(s, input.name, "a tensor", &_Py_NoneStruct);
    }
    request.inputs.end_of_input();
  }
  return request;
}

void take_value(const Signature& s, const Attribute& attribute, PyObject* object,
                twinops_attribute& value) {
  constexpr const char* kExpected[] = {"a bool", "an int", "a float", "a str"};
  switch (attribute.kind) {
    case TWINOPS_BOOL:
      value.int_value = PyObject_IsTrue(object);
      break;
    case TWINOPS_INT:
      value.int_value = PyLong_AsLongLong(object);
      break;
    case TWINOPS_FLOAT:
      value.float_value = PyFloat_AsDouble(object);
      break;
    default:
      value.string_value = PyUnicode_AsUTF8(object);
  }
  if (PyErr_Occurred() == nullptr) return;
  PyErr_Clear();
  wrong_type(s, attribute.name, kExpected[attribute.kind], object);
}

Values take_values(const Signature& s, PyObject* given) {
  Values values = default_values(s);
  ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(given, &position, &key, &value) != 0) {
    const char* name = PyUnicode_AsUTF8(key);
    const auto attribute = std::find_if(s.attributes.begin(), s.attributes.end(),
                                        [&](const Attribute& a) { return a.name == name; });
    if (attribute == s.attributes.end()) unknown_name(s, name);
    take_value(s, *attribute, value, values[attribute - s.attributes.begin()]);
  }
  return values;
}

// The list that Python gets: every output, of those in place the very tensors that were given.
PyObject* give_outputs(const Signature& s, const Request& request,
                       const std::vector<Tensor>& made) {
  std::vector<PyObject*> outputs;
  size_t next = 0;
  for (const Output& output : s.outputs) {
    if (output.in_place_of < 0) {
      outputs.push_back(::paddle::pybind::ToPyObject(made[next++], false));
      continue;
    }
    const auto& begin = request.inputs.begin;
    for (size_t k = begin[output.in_place_of]; k < begin[output.in_place_of + 1]; ++k) {
      const_cast<Tensor*>(request.inputs.tensors[k])->bump_inplace_version();
      Py_IncRef(request.objects[k]);
      outputs.push_back(request.objects[k]);
    }
  }
  PyObject* list = checked(PyList_New(static_cast<ssize_t>(outputs.size())));
  for (size_t i = 0; i < outputs.size(); ++i)
    PyList_SetItem(list, static_cast<ssize_t>(i), outputs[i]);
  return list;
}

PyObject* call(const Signature& s, PyObject* given, PyObject* attributes) {
  const phi::RecordEvent event(s.event.c_str(), phi::TracerEventType::Operator, 1);
  const Request request = take_inputs(s, given);
  const Values values = take_values(s, attributes);
  std::vector<Tensor> made;
  {
    const WithoutLock others_run;
    made = run(s, request.inputs, values);
  }
  return give_outputs(s, request, made);
}

PyObject* exception_of(twinops_status status) {
  switch (status) {
    case TWINOPS_INVALID_ARGUMENT:
      return PyExc_ValueError;
    case TWINOPS_UNSUPPORTED:
      return PyExc_NotImplementedError;
    case TWINOPS_OUT_OF_MEMORY:
      return PyExc_MemoryError;
    default:
      return PyExc_RuntimeError;
  }
}

template <class F>
PyObject* guarded(F&& f) {
  try {
    return f();
  } catch (const PythonError&) {
  } catch (const TypeError& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  } catch (const Refusal& refusal) {
    PyErr_SetString(exception_of(refusal.status), refusal.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

// The function of Python that is an operator; `self` holds its signature.
PyObject* call_function(PyObject* self, PyObject* const* arguments, ssize_t count) {
  return guarded([&] {
    if (count != 2) throw TypeError("expected a dict of inputs and a dict of attributes");
    return call(*static_cast<const Signature*>(PyLong_AsVoidPtr(self)), arguments[0], arguments[1]);
  });
}

// A function of Python that a backward pass calls. Such a pass runs without the interpreter's lock,
// and a graph may outlive the interpreter.
class Callback {
 public:
  explicit Callback(PyObject* function) : function_(function) { Py_IncRef(function_); }
  Callback(const Callback&) = delete;
  ~Callback() {
    if (Py_IsInitialized() == 0) return;
    const WithLock lock;
    Py_DecRef(function_);
  }

  Tensor operator()(const Tensor& argument) const {
    return with_paddles_errors([&] {
      const WithLock lock;
      const Owned given(::paddle::pybind::ToPyObject(argument, false));
      const Owned result(PyObject_CallFunctionObjArgs(function_, given.get(), nullptr));
      if (result.get() == nullptr) throw taken_exception();
      return Tensor(::paddle::pybind::CastPyArg2Tensor(result.get(), 0));
    });
  }

 private:
  PyObject* function_;
};

Hook hook_of(PyObject* function) {
  return [callback = std::make_shared<Callback>(function)](const Tensor& dy) {
    return (*callback)(dy);
  };
}

const Tensor& tensor_at(PyObject* const* arguments, ssize_t i) {
  return ::paddle::pybind::CastPyArg2Tensor(arguments[i], i);
}

// What _eager.py and its neighbours call of hosts/paddle/autograd.hpp.
template <ssize_t expected, class F>
PyObject* tensor_from(ssize_t count, F&& f) {
  return guarded([&] {
    if (count != expected) throw TypeError("expected another number of arguments");
    return ::paddle::pybind::ToPyObject(f(), false);
  });
}

PyObject* node_function(PyObject*, PyObject* const* arguments, ssize_t count) {
  return tensor_from<2>(count,
                        [&] { return node(tensor_at(arguments, 0), hook_of(arguments[1])); });
}

PyObject* behind_function(PyObject*, PyObject* const* arguments, ssize_t count) {
  return tensor_from<3>(count, [&] {
    return behind(tensor_at(arguments, 0), tensor_at(arguments, 1), hook_of(arguments[2]));
  });
}

PyObject* stack_function(PyObject*, PyObject* const* arguments, ssize_t count) {
  return guarded([&] {
    std::vector<Tensor> tensors;
    for (ssize_t i = 0; i < count; ++i) tensors.push_back(tensor_at(arguments, i));
    return ::paddle::pybind::ToPyObject(stack(tensors), false);
  });
}

PyObject* link_function(PyObject*, PyObject* const* arguments, ssize_t count) {
  return tensor_from<2>(count,
                        [&] { return link(tensor_at(arguments, 0), tensor_at(arguments, 1)); });
}

PyObject* place_function(PyObject*, PyObject* const* arguments, ssize_t count) {
  return tensor_from<1>(count, [&] { return place_of(tensor_at(arguments, 0)); });
}

PyMethodDef call_method{"call", &call_function, METH_FASTCALL, nullptr};
PyMethodDef autograd_methods[] = {
    {"node", &node_function, METH_FASTCALL, nullptr},
    {"behind", &behind_function, METH_FASTCALL, nullptr},
    {"stack", &stack_function, METH_FASTCALL, nullptr},
    {"link", &link_function, METH_FASTCALL, nullptr},
    {"place_of", &place_function, METH_FASTCALL, nullptr},
};

}  // namespace
}  // namespace twinops::paddle_host

using twinops::paddle_host::PyObject;

#define TWINOPS_PADDLE_API extern "C" __attribute__((visibility("default")))

// See serve_device(); `memory` is DLPack's number of a device's kind.
TWINOPS_PADDLE_API void twinops_paddle_serve(const char* device_type, int memory) {
  twinops::paddle_host::serve_device(device_type, static_cast<DLDeviceType>(memory));
}

// The operator that Paddle knows by this name, or its gradient; NULL if there is none.
TWINOPS_PADDLE_API const void* twinops_paddle_find(const char* name, int gradient) {
  return twinops::paddle_host::find_signature(name, gradient != 0);
}

// Its inputs, outputs and attributes: names in the operator's order, "x,mask;out;axis,scale".
TWINOPS_PADDLE_API const char* twinops_paddle_names(const void* signature) {
  return static_cast<const twinops::paddle_host::Signature*>(signature)->names.c_str();
}

// The operator as a function of two dicts: name -> tensor, list of tensors or None, and name ->
// value. It returns a list of the outputs.
TWINOPS_PADDLE_API PyObject* twinops_paddle_function(void* signature) {
  using namespace twinops::paddle_host;
  return guarded([&] {
    const Owned self(checked(PyLong_FromVoidPtr(signature)));
    return PyCFunction_NewEx(&call_method, self.get(), nullptr);
  });
}

// The functions of hosts/paddle/autograd.hpp, by name: of tensors, and of functions in the place of
// hooks. Those of stack() come one by one. NULL if there is none.
TWINOPS_PADDLE_API PyObject* twinops_paddle_autograd(const char* name) {
  for (auto& method : twinops::paddle_host::autograd_methods)
    if (std::strcmp(method.ml_name, name) == 0) return PyCFunction_NewEx(&method, nullptr, nullptr);
  return nullptr;
}
