"""How the plugin stands in a process: instruction sets and threads from the environment, fork,
another copy of it, a Paddle of another version, the command of the package."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import paddle
import pytest

import twinops.paddle as tp
from twinops import _native
from twinops.paddle import _plugin

HERE = pathlib.Path(__file__).parent


def python(*arguments, check=True, **environment):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        check=check,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        cwd=HERE,
    )


DIGEST = """
import hashlib, sys
import numpy as np, paddle
sys.path[:0] = [".", "../hosts"]
import tensors
import twinops.paddle as tp
digest = hashlib.sha256()
for op in tensors.FORWARD:
    for dtype in tensors.TYPES:
        inputs, attributes = tensors.sample(op, np.random.default_rng(9), dtype)
        for tensor in tp.run(op, inputs, attributes):
            digest.update(tensor.numpy().tobytes())
x = paddle.to_tensor(np.random.default_rng(9).standard_normal([700, 1000]).astype("float32"))
paddle.seed(1)
digest.update(tp.functional.dropout(tp.functional.softmax(x), 0.1).numpy().tobytes())
print("digest", digest.hexdigest())
"""


def isas():
    """Instruction sets of this build that this machine has."""
    text = python("-m", "twinops", "info").stdout
    rows = [line.split() for line in text.splitlines()]
    return [r[0][4:] for r in rows if len(r) > 1 and r[0].startswith("cpu/") and r[1] == "available"]


def test_the_same_bits_for_every_instruction_set_and_number_of_threads():
    runs = {(isa, 1): None for isa in isas()}
    runs[isas()[0], 3] = None
    assert (("scalar", 1)) in runs and len(runs) >= 3
    for isa, threads in runs:
        out = python("-c", DIGEST, TWINOPS_ISA=isa, TWINOPS_THREADS=str(threads)).stdout
        runs[isa, threads] = out.split("digest ")[1].strip()
    assert len(set(runs.values())) == 1, runs


def test_an_unknown_instruction_set_is_an_error():
    run = python("-c", DIGEST, check=False, TWINOPS_ISA="mmx")
    assert run.returncode != 0 and "TWINOPS_ISA" in run.stderr and "mmx" in run.stderr


class Dropped(paddle.io.Dataset):
    """Its samples are computed by twinops in the worker processes of a DataLoader."""

    def __len__(self):
        return 6

    def __getitem__(self, i):
        x = paddle.full([300, 1000], float(i + 1))
        y = tp.functional.dropout(x, 0.5, generator=tp.Generator(i))
        return tp.functional.softmax(y).numpy()


def test_worker_processes_of_a_data_loader():
    tp.functional.softmax(paddle.ones([1000, 1000]))  # threads are there before the fork
    loader = paddle.io.DataLoader(Dropped(), batch_size=2, num_workers=2, use_shared_memory=False)
    batches = [batch[0] if isinstance(batch, (list, tuple)) else batch for batch in loader]
    assert len(batches) == 3
    for b, batch in enumerate(batches):
        for k in range(2):
            assert np.array_equal(batch.numpy()[k], Dropped()[2 * b + k])


def test_a_child_of_fork():
    x = paddle.to_tensor(np.random.default_rng(0).standard_normal([300, 1000]).astype("float32"))
    expected = tp.functional.softmax(x).numpy()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, hashlib.sha256(tp.functional.softmax(x).numpy().tobytes()).digest())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(reader, 32) == hashlib.sha256(expected.tobytes()).digest()


def test_loading_twice_is_loading_once():
    before = _plugin.registered()
    _plugin.load()
    assert _plugin.registered() == before


SECOND = """
import sys
import twinops.paddle
sys.path.insert(0, sys.argv[1])
for name in [m for m in sys.modules if m.startswith("twinops")]:
    del sys.modules[name]
try:
    import twinops.paddle
except ImportError as error:
    print(error)
"""


def test_another_copy_of_the_plugin_is_refused(tmp_path):
    shutil.copytree(_native.FOLDER.parent, tmp_path / "twinops")
    out = python("-c", SECOND, tmp_path).stdout
    assert "registered in this process already" in out


OTHER_PLUGIN = """
#include <paddle/phi/api/ext/op_meta_info.h>
#include <paddle/phi/api/include/api.h>
std::vector<paddle::Tensor> twice(const paddle::Tensor& x) { return {paddle::experimental::scale(x, 2.0, 0.0, true)}; }
PD_BUILD_OP(other_twice).Inputs({"X"}).Outputs({"Out"}).SetKernelFn(PD_KERNEL(twice));
"""


def test_a_plugin_of_somebody_elses_beside_ours(tmp_path):
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = pathlib.Path(paddle.__file__).parent
    source, library = tmp_path / "other.cpp", tmp_path / "other.so"
    source.write_text(OTHER_PLUGIN)
    subprocess.run(
        [compiler, "-std=c++17", "-w", "-fPIC", "-shared", source, "-o", library]
        + [f"-I{folder}/include", f"-I{folder}/include/third_party", "-DPADDLE_WITH_CUSTOM_KERNEL"]
        + [f"-L{folder}/base", "-Wl,--no-as-needed", "-l:libpaddle.so"]
        + ["-Wl,--allow-shlib-undefined"],
        check=True,
    )
    assert "other_twice" in paddle.framework.core.load_op_meta_info_and_register_op(str(library))
    x = paddle.ones([2, 2])
    assert paddle._C_ops._run_custom_op("other_twice", x)[0].tolist() == [[2, 2], [2, 2]]
    assert tp.functional.softmax(x).tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_a_plugin_for_another_paddle_is_refused(tmp_path):
    copy = shutil.copytree(_native.FOLDER.parent, tmp_path / "twinops")
    (copy / "native" / "paddle_version.txt").write_text("2.6.0\n")
    run = python("-c", "import twinops.paddle", check=False, PYTHONPATH=str(tmp_path))
    assert run.returncode != 0
    for word in ("built for PaddlePaddle 2.6.0", paddle.version.full_version, "twinops build-paddle"):
        assert word in run.stderr


@pytest.mark.parametrize(
    "missing, message",
    [
        ("libtwinops.so.1", "twinops' library is missing.*pip install"),
        ("libtwinops_paddle.so", "this twinops has no Paddle plugin.*twinops build-paddle"),
    ],
)
def test_what_is_missing_is_said(missing, message, tmp_path):
    copy = shutil.copytree(_native.FOLDER.parent, tmp_path / "twinops")
    (copy / "native" / missing).unlink()
    run = python("-c", "import twinops.paddle", check=False, PYTHONPATH=str(tmp_path))
    assert run.returncode != 0 and re.search(message, run.stderr, re.S), run.stderr


def test_without_paddle_it_says_so(tmp_path):
    (tmp_path / "paddle.py").write_text("raise ImportError('no paddle here')\n")
    path = os.pathsep.join([str(tmp_path), str(_native.FOLDER.parent.parent)])
    run = python("-c", "import twinops.paddle", check=False, PYTHONPATH=path)
    assert run.returncode != 0 and "needs PaddlePaddle" in run.stderr


def test_the_command():
    assert python("-m", "twinops", "info").stdout.startswith("twinops ")
    run = python("-m", "twinops", "crosscheck", "--op", "philox_words", "--max-elements", "1000")
    assert ", 0 failed" in run.stdout


def test_the_plugin_alone_is_built_for_this_paddle(tmp_path):
    """What an upgrade of Paddle asks for: no library is compiled, and progress is shown."""
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        pytest.skip("no C++ compiler")
    copy = shutil.copytree(_native.FOLDER.parent, tmp_path / "twinops")
    (copy / "native" / "libtwinops_paddle.so").unlink()
    (copy / "native" / "paddle_version.txt").write_text("2.6.0\n")
    path = {"PYTHONPATH": str(tmp_path)}
    steps = python("-m", "twinops", "build-paddle", "--jobs", "2", **path).stdout
    sources = list((copy / "native" / "paddle_source" / "hosts" / "paddle").glob("*.cpp"))
    assert len(sources) >= 6 and all(source.name in steps for source in sources)
    assert f"[{len(sources) + 1}/{len(sources) + 1}]" in steps
    assert python("-c", DIGEST, **path).stdout == python("-c", DIGEST).stdout


THREADS = """
import os, paddle, twinops.paddle as tp
count = lambda: len(os.listdir("/proc/self/task"))
a = paddle.ones([1024, 1024])
paddle.matmul(a, a)
before = count()
tp.functional.softmax(a)
print("threads", before, count())
"""


def test_a_call_computes_on_paddles_threads():
    """Threads of a second OpenMP runtime would want the cores of Paddle's while they wait."""
    out = python("-c", THREADS, OMP_NUM_THREADS="2").stdout
    before, after = out.split("threads ")[1].split()
    assert before == after and int(before) >= 2
