# CPU instruction sets: one row each, best first: name, xsimd architecture, flags.
# registry/isa.hpp says how each is detected; kernels_cpu/isa/<name>.hpp holds its few intrinsics.
set(TWINOPS_ISA_avx512_ARCH "xsimd::avx512bw")
set(TWINOPS_ISA_avx512_FLAGS -mavx512f -mavx512cd -mavx512dq -mavx512bw -mfma -mf16c)
set(TWINOPS_ISA_avx2_ARCH "xsimd::fma3<xsimd::avx2>")
set(TWINOPS_ISA_avx2_FLAGS -mavx2 -mfma -mf16c)
set(TWINOPS_ISA_sse2_ARCH "xsimd::sse2")
set(TWINOPS_ISA_sse2_FLAGS -msse2)
set(TWINOPS_ISA_neon64_ARCH "xsimd::neon64")
set(TWINOPS_ISA_neon64_FLAGS "")

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(isas avx512 avx2 sse2)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(isas neon64)
else()
  set(isas "")  # the scalar reference alone
endif()
set(TWINOPS_CPU_ISAS ${isas} CACHE STRING "CPU instruction sets to build, best first")

# twinops_isa_sources(<target> [ELEMENT type] src...): compiles each source once an instruction set.
# TWINOPS_ISA names the set, TWINOPS_ARCH its xsimd architecture, TWINOPS_ELEMENT the type of elements.
# The target's property TWINOPS_<set>_OBJECTS lists the objects. Always optimized: without inlining, a shared
# inline function compiled for one instruction set could replace the baseline copy at link time. (So
# it may under a sanitizer, where all optimization takes minutes a file: such a build is for the
# machine that made it.) Loops begin at a line: where the compiler happened to put them, a change
# elsewhere in a file moved softmax by a tenth, up to a quarter, either way (Zen 3).
function(twinops_isa_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 for "" ELEMENT "")
  foreach(isa IN LISTS TWINOPS_CPU_ISAS)
    if(NOT DEFINED TWINOPS_ISA_${isa}_ARCH)
      message(FATAL_ERROR "TWINOPS_CPU_ISAS: unknown instruction set '${isa}'")
    endif()
    set(objects ${target}_${isa})
    if(for_ELEMENT)
      string(APPEND objects _${for_ELEMENT})
    endif()
    add_library(${objects} OBJECT ${for_UNPARSED_ARGUMENTS})
    target_link_libraries(${objects} PRIVATE twinops_options)
    target_include_directories(${objects} SYSTEM PRIVATE ${TWINOPS_XSIMD_INCLUDE_DIR})
    target_compile_options(${objects} PRIVATE ${TWINOPS_ISA_${isa}_FLAGS})
    if(NOT TWINOPS_SANITIZE)
      target_compile_options(${objects} PRIVATE -O3 -falign-loops=64)
    endif()
    # Copies of functions for some values of their arguments are a twelfth of the code, and no faster
    # (docs/lab/softmax-kernel-budget.md#megabytes).
    target_compile_options(${objects} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-ipa-cp-clone>)
    # g++ 12 warns of its own AVX-512 headers.
    target_compile_options(${objects} PRIVATE
      $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized>)
    target_compile_definitions(${objects} PRIVATE
      TWINOPS_ISA=${isa} "TWINOPS_ARCH=${TWINOPS_ISA_${isa}_ARCH}"
      $<$<BOOL:${for_ELEMENT}>:TWINOPS_ELEMENT=${for_ELEMENT}>)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
    set_property(TARGET ${target} APPEND PROPERTY TWINOPS_${isa}_OBJECTS $<TARGET_OBJECTS:${objects}>)
  endforeach()
endfunction()

# isa_list.hpp: the instruction sets as types, for the kernel table to be folded over.
set(declarations "")
set(names "")
foreach(isa IN LISTS TWINOPS_CPU_ISAS)
  string(APPEND declarations "struct ${isa};\n")
  list(APPEND names "isa::${isa}")
endforeach()
list(JOIN names ", " names)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/kernels_cpu/isa_list.hpp @ONLY CONTENT
"// Made by cmake/TwinopsIsa.cmake: the CPU instruction sets of this build, best first.
#pragma once
namespace twinops {
namespace isa {
@declarations@}  // namespace isa
template <class... Isa>
struct IsaList {};
using CpuIsas = IsaList<@names@>;
}  // namespace twinops
")
