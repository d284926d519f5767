# Fails if clang-format would change a source file.
# cmake -D CLANG_FORMAT=clang-format-14 -D SOURCE_DIR=... -P ...
cmake_minimum_required(VERSION 3.25)
foreach(room include numerics operators registry kernels_cpu kernels_cuda hosts tools tests
        benchmarks examples)
  foreach(ending h hpp c cpp cu cuh)
    file(GLOB_RECURSE files ${SOURCE_DIR}/${room}/*.${ending})
    list(APPEND sources ${files})
  endforeach()
endforeach()
execute_process(COMMAND ${CLANG_FORMAT} --dry-run --Werror ${sources} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "clang-format -i would change the files above")
endif()
