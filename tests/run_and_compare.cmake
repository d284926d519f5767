# Runs a program and compares what it prints with what it must.
# cmake -D PROGRAM=path -D EXPECTED=file -P ...
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed RESULT_VARIABLE result)
file(READ ${EXPECTED} expected)
if(NOT result EQUAL 0 OR NOT printed STREQUAL expected)
  message(FATAL_ERROR "exit status ${result}, printed:\n${printed}\nexpected:\n${expected}")
endif()
