# Adapters to host frameworks that are Python packages. twinops_find_host(HOST OPTION MODULE
# DISTRIBUTION [OLDEST]) looks for one, of the version OLDEST or later, for hosts/<HOST>/CMakeLists.txt
# to build against:
#   TWINOPS_<OPTION>                  AUTO (if it is found), ON (or fail), OFF: an option of the user's
#   TWINOPS_<OPTION>_FOLDER, _VERSION where the package lies
#   TWINOPS_<OPTION>_FOUND            these two and whatever else hosts/<HOST>/find_<HOST>.py prints
#   TWINOPS_NO_<OPTION>               why there is no adapter; empty if there is one

# The environment that has the host: PyTorch and Paddle, which pin much, have their own; others share one.
function(twinops_host_environment result host)
  set(${result} host PARENT_SCOPE)
  if(host MATCHES "^(paddle|torch)$")
    set(${result} ${host} PARENT_SCOPE)
  endif()
endfunction()

# The Python that has the host: the user's, or that of build/<environment>-venv
# (scripts/<environment>-environment), or python3.
function(twinops_host_interpreter result host)
  twinops_host_environment(name ${host})
  string(TOUPPER TWINOPS_${name}_PYTHON option)
  set(environment ${PROJECT_SOURCE_DIR}/build/${name}-venv)
  set(${option} "$ENV{${option}}" CACHE FILEPATH
    "The Python whose packages the adapters are for; else that of build/${name}-venv, else python3")
  set(python ${${option}})
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
    twinops_host_interpreter(python ${host})
    set(finder ${PROJECT_SOURCE_DIR}/hosts/${host}/find_${host}.py)
    if(NOT EXISTS ${finder})
      set(finder ${PROJECT_SOURCE_DIR}/hosts/find_package.py ${module} ${distribution})
    endif()
    # Isolated (-I): a Python that builds a wheel hides what is installed behind PYTHONPATH.
    execute_process(COMMAND ${python} -I ${finder}
      OUTPUT_VARIABLE found ERROR_VARIABLE why_not RESULT_VARIABLE result
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
    if(result EQUAL 0)
      string(REPLACE "\n" ";" found "${found}")
      list(GET found 0 folder)
      list(GET found 1 version)
    endif()
    if(result EQUAL 0 AND version VERSION_LESS "${ARGV4}")
      set(why_not "${distribution} ${version}, ${folder}, is older than ${ARGV4}")
    elseif(result EQUAL 0)
      set(why_not "")
      message(STATUS "twinops: adapter for ${distribution} ${version}, ${folder}")
      set(TWINOPS_${option}_FOUND "${found}" PARENT_SCOPE)
      set(TWINOPS_${option}_FOLDER ${folder} PARENT_SCOPE)
      set(TWINOPS_${option}_VERSION ${version} PARENT_SCOPE)
    elseif(EXISTS ${PROJECT_SOURCE_DIR}/build/no-${host}.txt)
      file(STRINGS ${PROJECT_SOURCE_DIR}/build/no-${host}.txt why_not LIMIT_COUNT 1)
    endif()
  endif()
  if(why_not AND TWINOPS_${option} STREQUAL ON)
    twinops_host_environment(name ${host})
    string(TOUPPER TWINOPS_${name}_PYTHON python)
    message(FATAL_ERROR "TWINOPS_${option}=ON: ${why_not}. Install it (python -m pip install -r "
      "hosts/${host}/requirements.txt) or name the Python that has it: -D${python}=")
  elseif(why_not)
    message(STATUS "twinops: no adapter for ${distribution}: ${why_not}")
  endif()
  set(TWINOPS_NO_${option} "${why_not}" CACHE INTERNAL "Why there is no adapter for ${distribution}")
endfunction()

# A module of the Python package, beside libtwinops.so in its folder native/.
function(twinops_host_module target)
  add_library(${target} MODULE ${ARGN})
  target_link_libraries(${target} PRIVATE twinops_options twinops)
  # A framework's errors name source files: by their place in the project, not on this machine.
  target_compile_options(${target} PRIVATE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
  set_target_properties(${target} PROPERTIES BUILD_RPATH_USE_ORIGIN ON SKIP_BUILD_RPATH OFF
    INSTALL_RPATH $ORIGIN)
  install(TARGETS ${target} LIBRARY DESTINATION ${TWINOPS_PYTHON_NATIVE}
    COMPONENT python EXCLUDE_FROM_ALL)
endfunction()
