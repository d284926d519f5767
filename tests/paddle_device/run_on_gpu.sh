#!/usr/bin/env bash
# run_on_gpu.sh [BUILD]: test_device.py over a GPU's memory. BUILD is a build of this project with CUDA
# and Paddle; or, where only what was carried is there (README.md), the variables SITE, DEVICE and
# PADDLE name its folders. PYTHON is the Python that is used.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${1:-}
python=${PYTHON:-python3}
if [[ -n $build ]]; then
  SITE=$build/tests/paddle_device/site
  DEVICE=$build/tests/paddle_device/twindev_cuda
  cmake --install "$build" --component python --prefix "$SITE" >/dev/null
  venv=$here/../../build/paddle-venv/bin/python
  [[ -n ${PYTHON:-} || ! -x $venv ]] || python=$venv
fi
if [[ -n ${PADDLE:-} ]]; then
  PADDLE=$(cd "$PADDLE" && pwd)
  export PYTHONPATH=$PADDLE${PYTHONPATH:+:$PYTHONPATH}
  export LD_LIBRARY_PATH=$PADDLE/paddle/base:$PADDLE/paddle/libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
CUSTOM_DEVICE_ROOT=$(cd "$DEVICE" && pwd) TWINDEV_MEMORY=cuda FLAGS_enable_api_kernel_fallback=True \
  "$python" "$here/../run_pytest.py" "$SITE" "$here/test_device.py" -v
