# What can be switched when building, and twinops_options: the flags that every object is compiled
# with. Contraction is off everywhere: a fused multiply-add is spelled, never left to the compiler.
# (C++20 is spelled for nvcc, because CMake 3.25.1 does not know that nvcc 12 and later have it.)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()
set(TWINOPS_CUDA AUTO CACHE STRING "CUDA kernels: AUTO (if nvcc is found), ON (or fail), OFF")
set_property(CACHE TWINOPS_CUDA PROPERTY STRINGS AUTO ON OFF)
option(TWINOPS_OPENMP "Ask OpenMP how many threads a call may have; without it, as many as there are processors" ON)
option(TWINOPS_TOOLS "Build the twinops command: info, explain, crosscheck" ${PROJECT_IS_TOP_LEVEL})
option(TWINOPS_TESTS "Build the tests (GoogleTest)" ${PROJECT_IS_TOP_LEVEL})
option(TWINOPS_EMULATOR "Build and test the CUDA kernels for an emulated GPU as well (tests/emulator)" ON)
option(TWINOPS_BENCHMARKS "Build the benchmarks (Google Benchmark)" OFF)
option(TWINOPS_WERROR "Warnings are errors" ${PROJECT_IS_TOP_LEVEL})
set(TWINOPS_SANITIZE "" CACHE STRING "Host sanitizers, such as address,undefined or thread")

# The types of elements, as C++ calls them. The largest kernels are compiled once for each, so that none
# takes minutes; TWINOPS_ELEMENT names the type.
set(TWINOPS_ELEMENTS float16 bfloat16 float double)

set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_package(Threads REQUIRED)
function(twinops_find_header variable header package)
  find_path(${variable} ${header})
  if(NOT ${variable})
    message(FATAL_ERROR "twinops: ${header} is missing: install Debian's or Ubuntu's package ${package}, "
      "or all that is needed by scripts/install-dependencies; or name the folder: -D${variable}=")
  endif()
endfunction()
twinops_find_header(TWINOPS_DLPACK_INCLUDE_DIR dlpack/dlpack.h libdlpack-dev)
twinops_find_header(TWINOPS_XSIMD_INCLUDE_DIR xsimd/xsimd.hpp libxsimd-dev)

add_library(twinops_options INTERFACE)
target_compile_features(twinops_options INTERFACE cxx_std_20)
target_include_directories(twinops_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
                                                     ${PROJECT_BINARY_DIR})
target_include_directories(twinops_options SYSTEM INTERFACE ${TWINOPS_DLPACK_INCLUDE_DIR})
target_compile_options(twinops_options INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off;-Wall;-Wextra>
  $<$<CXX_COMPILER_ID:GNU>:$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>>  # g++ 12 sees overlaps in std::string that are not there
  $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<BOOL:${TWINOPS_WERROR}>>:-Werror>
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-fmad=false;--expt-relaxed-constexpr;-Xcompiler=-ffp-contract=off,-Wall,-Wextra>
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TWINOPS_WERROR}>>:-Werror=all-warnings>)
if(TWINOPS_SANITIZE)
  set(sanitize $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${TWINOPS_SANITIZE};-fno-omit-frame-pointer>)
  target_compile_options(twinops_options INTERFACE ${sanitize}
    $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<BOOL:${TWINOPS_WERROR}>>:-fno-sanitize-recover=all>)
  target_link_options(twinops_options INTERFACE -fsanitize=${TWINOPS_SANITIZE})
  target_compile_definitions(twinops_options INTERFACE TWINOPS_SANITIZED)
endif()
