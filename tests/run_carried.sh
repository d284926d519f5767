#!/usr/bin/env bash
# Runs the test programs on a machine that they were carried to, without CMake.
# usage: tests/run_carried.sh collect BUILD FOLDER   copies what is needed from a build
#        tests/run_carried.sh run FOLDER             runs every program; exit status 1 if one fails
#        tests/run_carried.sh run FOLDER TOOL...     the device's tests under a tool that is slow,
#                                                    such as: compute-sanitizer --tool memcheck
set -euo pipefail
sources=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

collect() {  # curand_test stays: it needs libcurand, and no device
  mkdir -p "$2"
  cp -L "$1"/libtwinops.so.* "$1"/tools/twinops/twinops "$1"/tests/*_test "$2"
  rm -f "$2"/curand_test
  strip "$2"/*
}

run() {
  local folder failed=0 program
  folder=$(cd "$1" && pwd)
  shift
  export LD_LIBRARY_PATH=$folder TWINOPS_COMMAND=$folder/twinops TWINOPS_SOURCE_DIR=$sources
  if [[ $# -eq 0 ]]; then
    for program in "$folder"/*_test; do
      echo "== ${program##*/}"
      "$program" --gtest_brief=1 || failed=1
    done
    return $failed
  fi
  export TWINOPS_TEST_ROWS=cuda  # and the reference
  "$@" "$folder/cuda_graph_test" --gtest_brief=1 --gtest_filter='-CudaCaller.*' || failed=1
  "$@" "$folder/dropout_cuda_test" --gtest_brief=1 || failed=1
  "$@" "$folder/device_test" --gtest_brief=1 --gtest_filter='*Widens*:*Philox*' || failed=1
  "$@" "$folder/twins_test" --gtest_brief=1 \
    --gtest_filter='*EveryCase/*unscale_float16:*EveryCase/*scaling_float32:*EveryCase/*mixed'\
':*EveryCase/dropout_float16:*EveryCase/softmax_bfloat16' ||
    failed=1
  return $failed
}

case ${1:-} in
  collect) collect "$2" "$3" ;;
  run) run "${@:2}" ;;
  *) sed -n '2,6s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
