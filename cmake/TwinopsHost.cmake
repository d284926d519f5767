# Adapters to host frameworks that are Python packages. twinops_find_host(HOST OPTION MODULE
# DISTRIBUTION) looks for one, for hosts/<HOST>/CMakeLists.txt to build against:
#   TWINOPS_<OPTION>                  AUTO (if it is found), ON (or fail), OFF: an option of the user's
#   TWINOPS_HOST_PYTHON               the Python that has it: the user's, or that of build/host-venv
#                                     (scripts/host-environment), or python3
#   TWINOPS_<OPTION>_FOLDER, _VERSION where the package lies
#   TWINOPS_NO_<OPTION>               why there is no adapter; empty if there is one
set(TWINOPS_HOST_PYTHON "$ENV{TWINOPS_HOST_PYTHON}" CACHE FILEPATH
  "The Python whose JAX, ONNX Runtime and apache-tvm-ffi adapters are for; else that of build/host-venv, else python3")

function(twinops_host_interpreter result)
  set(python ${TWINOPS_HOST_PYTHON})
  set(environment ${PROJECT_SOURCE_DIR}/build/host-venv)
  if(NOT python AND NOT SKBUILD AND EXISTS ${environment}/bin/python)
    set(python ${environment}/bin/python)
  elseif(NOT python)
    find_package(Python3 COMPONENTS Interpreter QUIET)
    set(python ${Python3_EXECUTABLE})  # of a wheel: the Python that it is made for
  endif()
  set(${result} ${python} PARENT_SCOPE)
endfunction()

function(twinops_find_host host option module distribution)
  set(TWINOPS_${option} AUTO CACHE STRING
    "The adapter for ${distribution}: AUTO (if it is found), ON (or fail), OFF")
  set_property(CACHE TWINOPS_${option} PROPERTY STRINGS AUTO ON OFF)
  set(why_not "")
  if(NOT TWINOPS_${option})
    set(why_not "TWINOPS_${option} is OFF")
  elseif(TWINOPS_SANITIZE)
    set(why_not "Python is not built with the sanitizer")
  elseif(CMAKE_CROSSCOMPILING)
    set(why_not "the adapter is built on the machine that has ${distribution}")
  else()
    twinops_host_interpreter(python)
    # Isolated (-I): a Python that builds a wheel hides what is installed behind PYTHONPATH.
    execute_process(COMMAND ${python} -I ${PROJECT_SOURCE_DIR}/hosts/find_package.py
      ${module} ${distribution}
      OUTPUT_VARIABLE found ERROR_VARIABLE why_not RESULT_VARIABLE result
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
    if(result EQUAL 0)
      set(why_not "")
      string(REPLACE "\n" ";" found "${found}")
      list(GET found 0 folder)
      list(GET found 1 version)
      message(STATUS "twinops: adapter for ${distribution} ${version}, ${folder}")
      set(TWINOPS_${option}_FOLDER ${folder} PARENT_SCOPE)
      set(TWINOPS_${option}_VERSION ${version} PARENT_SCOPE)
    elseif(EXISTS ${PROJECT_SOURCE_DIR}/build/no-${host}.txt)
      file(STRINGS ${PROJECT_SOURCE_DIR}/build/no-${host}.txt why_not LIMIT_COUNT 1)
    endif()
  endif()
  if(why_not AND TWINOPS_${option} STREQUAL ON)
    message(FATAL_ERROR "TWINOPS_${option}=ON: ${why_not}. Install it (python -m pip install -r "
      "hosts/${host}/requirements.txt) or name the Python that has it: -DTWINOPS_HOST_PYTHON=")
  elseif(why_not)
    message(STATUS "twinops: no adapter for ${distribution}: ${why_not}")
  endif()
  set(TWINOPS_NO_${option} "${why_not}" PARENT_SCOPE)
endfunction()

# A module of the Python package, beside libtwinops.so in its folder native/.
function(twinops_host_module target)
  add_library(${target} MODULE ${ARGN})
  target_link_libraries(${target} PRIVATE twinops_options twinops)
  set_target_properties(${target} PROPERTIES BUILD_RPATH_USE_ORIGIN ON SKIP_BUILD_RPATH OFF
    INSTALL_RPATH $ORIGIN)
  install(TARGETS ${target} LIBRARY DESTINATION ${TWINOPS_PYTHON_NATIVE}
    COMPONENT python EXCLUDE_FROM_ALL)
endfunction()
