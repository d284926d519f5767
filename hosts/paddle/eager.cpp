// Eager calls from Python, past Paddle's custom operators: those copy the descriptions of every
// registered operator at each call, which takes several times as long as a small softmax.
// python/twinops/paddle/_eager.py asks for an operator's function through ctypes, once; autograd is
// added there. All of them are called with the interpreter's lock held.
#include <paddle/phi/api/profiler/event_tracing.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "hosts/paddle/errors.hpp"
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

// None comes as no object; a mask that the forward pass left out has no elements.
bool is_left_out(const Signature& s, const Input& input, PyObject* object) {
  if (object == nullptr || object == &_Py_NoneStruct) return true;
  const bool required = !input.optional && (!input.argument || input.argument->is_required != 0);
  if (required || !::paddle::pybind::PyCheckTensor(object)) return false;
  const Tensor& tensor = tensor_of(s, input, object);
  return !tensor.defined() || tensor.numel() == 0;
}

bool is_required(const Input& input) {
  return !input.optional && (!input.argument || input.argument->is_required != 0);
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
    if (!is_left_out(s, input, object)) {
      if (input.list) {
        take_list(s, input, object, request);
      } else {
        request.inputs.add(tensor_of(s, input, object));
        request.objects.push_back(object);
      }
    } else if (is_required(input)) {
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

PyObject* link_function(PyObject*, PyObject* const* arguments, ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 2) throw TypeError("expected a tensor, and a tensor or None");
    Tensor link;
    if (arguments[1] != &_Py_NoneStruct)
      link = one_element_like(::paddle::pybind::CastPyArg2Tensor(arguments[1], 0));
    const Tensor& tensor = ::paddle::pybind::CastPyArg2Tensor(arguments[0], 0);
    link.set_autograd_meta(const_cast<Tensor&>(tensor).mutable_autograd_meta());
    return ::paddle::pybind::ToPyObject(link, false);
  });
}

PyMethodDef call_method{"call", &call_function, METH_FASTCALL, nullptr};
PyMethodDef link_method{"link", &link_function, METH_FASTCALL, nullptr};

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

// A function link(tensor, like): a tensor that stands in autograd where `tensor` does, and holds no
// memory of it. If `like` is a tensor it has that one's shape and type, over a single element; if
// it is None it is only to be kept.
TWINOPS_PADDLE_API PyObject* twinops_paddle_link() {
  return PyCFunction_NewEx(&twinops::paddle_host::link_method, nullptr, nullptr);
}
