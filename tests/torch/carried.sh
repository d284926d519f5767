#!/usr/bin/env bash
# Runs the tests of the PyTorch plugin on a machine that they were carried to: a GPU with a PyTorch of
# its own, without CMake, a compiler or a network.
# usage: tests/torch/carried.sh collect BUILD FOLDER      copies what is needed from a build
#        FOLDER/carried.sh run [ARGUMENT...]              runs the tests; arguments are pytest's
#        FOLDER/carried.sh python FILE [ARGUMENT...]      runs an example or a benchmark of the folder
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

collect() {
  local build=$1 folder=$2 python=${TWINOPS_TORCH_PYTHON:-$here/../../build/torch-venv/bin/python}
  local native=$folder/site/twinops/native
  rm -rf "$folder"
  mkdir -p "$native" "$folder/docs/hosts" "$folder/tests/torch" "$folder/benchmarks"
  cp -r "$here"/../../python/twinops "$folder/site"
  cp -L "$build"/libtwinops.so.1 "$build"/hosts/torch/libtwinops_torch.so "$native"
  cp -L "$build"/hosts/onnxruntime/libtwinops_onnxruntime.so "$native" 2>/dev/null || true
  [[ ! -f $build/tools/twinops/twinops ]] || cp "$build"/tools/twinops/twinops "$native"
  strip "$native"/*
  cp "$here"/*.py "$folder/tests/torch"
  cp -r "$here"/../hosts "$here"/../run_pytest.py "$folder/tests"
  cp "$here"/../../docs/hosts/torch.md "$folder/docs/hosts"
  cp "$here"/../../benchmarks/torch_*.py "$folder/benchmarks" 2>/dev/null || true
  cp -r "$here"/../../examples "$folder"
  cp "${BASH_SOURCE[0]}" "$folder/carried.sh"
  # What the tests import and that machine may not have: pure Python.
  "$python" -c '
import importlib, pathlib, shutil, sys
for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "expecttest"):
    path = pathlib.Path(importlib.import_module(name).__file__).parent
    shutil.copytree(path, pathlib.Path(sys.argv[1], name), ignore=shutil.ignore_patterns("__pycache__"))
' "$folder/packages"
  find "$folder" -name __pycache__ -prune -exec rm -rf {} +
  du -sh "$folder"
}

run() {
  export PYTHONPATH=$here/packages${PYTHONPATH:+:$PYTHONPATH}
  exec python3 "$here/tests/run_pytest.py" "$here/site" "$here/tests/torch" "$@"
}

case ${1:-} in
  collect) collect "$2" "$3" ;;
  run) run "${@:2}" ;;
  python) PYTHONPATH=$here/site${PYTHONPATH:+:$PYTHONPATH} exec python3 "$here/$2" "${@:3}" ;;
  *) sed -n '2,7s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
