// The few functions of Python's stable ABI that eager calls need, and Paddle's for its tensors in
// Python (paddle/utils/pybind.h). They are declared here because building the plugin then needs no
// headers of Python's, and one plugin serves every version of Python.
#pragma once

#include <paddle/phi/api/include/tensor.h>
#include <sys/types.h>

// NOLINTBEGIN: the names are Python's
extern "C" {
struct _object;
extern _object _Py_NoneStruct;
extern _object *PyExc_TypeError, *PyExc_ValueError, *PyExc_NotImplementedError;
extern _object *PyExc_MemoryError, *PyExc_RuntimeError;
// What a function written in C is to Python: METH_FASTCALL takes its arguments as an array.
struct PyMethodDef {
  const char* ml_name;
  _object* (*ml_meth)(_object* self, _object* const* arguments, ssize_t count);
  int ml_flags;
  const char* ml_doc;
};
constexpr int METH_FASTCALL = 0x0080;
_object* PyCFunction_NewEx(PyMethodDef*, _object* self, _object* module);
_object* PyLong_FromVoidPtr(void*);
void* PyLong_AsVoidPtr(_object*);
void Py_IncRef(_object*);
void Py_DecRef(_object*);
_object* PyObject_Type(_object*);
_object* PyObject_GetAttrString(_object*, const char*);
int PyObject_IsTrue(_object*);
long long PyLong_AsLongLong(_object*);
double PyFloat_AsDouble(_object*);
const char* PyUnicode_AsUTF8(_object*);
int PyDict_Next(_object*, ssize_t* position, _object** key, _object** value);
ssize_t PySequence_Size(_object*);
_object* PySequence_GetItem(_object*, ssize_t);
_object* PyList_New(ssize_t);
int PyList_SetItem(_object*, ssize_t, _object*);
_object* PyErr_Occurred(void);
void PyErr_Clear(void);
void PyErr_SetString(_object* type, const char* message);
void PyErr_Fetch(_object** type, _object** value, _object** trace);
void PyErr_NormalizeException(_object** type, _object** value, _object** trace);
int PyErr_GivenExceptionMatches(_object* given, _object* expected);
_object* PyObject_Str(_object*);
_object* PyObject_CallFunctionObjArgs(_object* function, ...);  // nullptr ends the arguments
int Py_IsInitialized(void);
int PyGILState_Ensure(void);
void PyGILState_Release(int);
void* PyEval_SaveThread(void);
void PyEval_RestoreThread(void*);
}
namespace paddle::pybind {
bool PyCheckTensor(_object*);
Tensor& CastPyArg2Tensor(_object*, ssize_t argument);
_object* ToPyObject(const Tensor&, bool none_if_not_initialized);
}  // namespace paddle::pybind
// NOLINTEND

namespace twinops::paddle_host {

using PyObject = _object;

// A reference that is given back.
class Owned {
 public:
  explicit Owned(PyObject* object) : object_(object) {}
  Owned(const Owned&) = delete;
  ~Owned() {
    if (object_ != nullptr) Py_DecRef(object_);
  }
  PyObject* get() const { return object_; }
  PyObject* release() {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }

 private:
  PyObject* object_;
};

// Calls `begin`, and in the end `end` with what that returned.
template <auto begin, auto end>
class During {
 public:
  During() : state_(begin()) {}
  During(const During&) = delete;
  ~During() { end(state_); }

 private:
  decltype(begin()) state_;
};

// The interpreter's lock, in a thread that may have it or not.
using WithLock = During<&PyGILState_Ensure, &PyGILState_Release>;
// Other threads of Python run meanwhile.
using WithoutLock = During<&PyEval_SaveThread, &PyEval_RestoreThread>;

}  // namespace twinops::paddle_host
