#!/usr/bin/env bash
# Runs the tests of the functions of arrays, of JAX and of ONNX Runtime on a machine that they were carried
# to: a GPU with a Python, NumPy and those of JAX, CuPy, PyTorch, onnx and onnxruntime that are to be
# tested, without CMake, a compiler or a network. What is missing there is skipped.
# usage: tests/hosts/carried.sh collect BUILD FOLDER [PYTHON]   copies what is needed from a build;
#                                           PYTHON is the other machine's version, "3.12"
#        FOLDER/tests/hosts/carried.sh run [ARGUMENT...]        runs the tests; arguments are pytest's
#        FOLDER/tests/hosts/carried.sh calls                    times small calls
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

collect() {
  local build=$1 folder=$2 version=${3:-3.12} host
  local native=$folder/site/twinops/native
  rm -rf "$folder"
  mkdir -p "$native" "$folder"/{docs/hosts,tests,benchmarks,packages}
  cp -r "$root/python/twinops" "$folder/site"
  cp -L "$build"/libtwinops.so.1 "$native"
  for host in arrays jax onnxruntime; do
    cp "$build/hosts/$host/libtwinops_$host.so" "$native"
    cp -r "$root/tests/$host" "$folder/tests"
    cp "$root/docs/hosts/$host.md" "$folder/docs/hosts"
  done
  [[ ! -f $build/tools/twinops/twinops ]] || cp "$build/tools/twinops/twinops" "$native"
  strip "$native"/*
  cp -r "$here" "$root/tests/run_pytest.py" "$folder/tests"
  cp -r "$root"/examples "$root/README.md" "$folder"
  cp "$root"/benchmarks/{arrays,jax}_calls.py "$folder/benchmarks"
  # What the tests import and that machine may not have, after its own packages.
  python3 -m pip download -q --no-deps --only-binary=:all: --python-version "$version" \
    --dest "$folder/wheels" pytest==9.2.0 pluggy iniconfig packaging pygments \
    "$(grep '^apache-tvm-ffi' "$root/hosts/arrays/requirements.txt")"
  for wheel in "$folder"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$folder/packages"; done
  rm -rf "$folder/wheels" "$folder"/packages/tvm_ffi/{include,src,3rdparty}
  find "$folder" -name __pycache__ -prune -exec rm -rf {} +
  du -sh "$folder"
}

paths() {
  export LD_LIBRARY_PATH=$root/site/twinops/native${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  # Behind the machine's own: only what is missing is taken from here.
  export PYTHONPATH=$root/tests/hosts/behind TWINOPS_PACKAGES=$root/packages
  mkdir -p "$PYTHONPATH"
  echo 'import os, sys; sys.path.append(os.environ["TWINOPS_PACKAGES"])' >"$PYTHONPATH/sitecustomize.py"
}

run() {
  local failed=0 host
  paths
  for host in arrays jax onnxruntime; do
    echo "== $host"
    python3 "$root/tests/run_pytest.py" "$root/site" "$root/tests/$host" "$@" || failed=1
  done
  return $failed
}

calls() {
  local program
  paths
  export PYTHONPATH=$PYTHONPATH:$root/site
  for program in arrays jax; do python3 "$root/benchmarks/${program}_calls.py" || true; done
}

case ${1:-} in
  collect) collect "${@:2}" ;;
  run) run "${@:2}" ;;
  calls) calls ;;
  *) sed -n '2,9s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
