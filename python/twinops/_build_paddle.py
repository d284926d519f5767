"""python -m twinops build-paddle: builds the Paddle plugin alone, for the PaddlePaddle of this Python,
against the library that is installed. What a new version of Paddle asks for; it takes about a minute.

The sources, and the headers of twinops that they need, are in native/paddle_source/.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from twinops._native import ABI_VERSION, FOLDER, find

_SOURCE = FOLDER / "paddle_source"
_PLUGIN = "libtwinops_paddle.so"


def _paddle():
    """(folder, version, whether it computes on CUDA) of this Python's Paddle, which is not imported."""
    command = [sys.executable, str(_SOURCE / "hosts" / "paddle" / "find_paddle.py")]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode != 0:
        sys.exit(f"{found.stderr.strip()}: python -m pip install paddlepaddle")
    folder, version, cuda = found.stdout.splitlines()
    return pathlib.Path(folder), version, cuda == "ON"


def _compiler():
    compiler = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")
    if compiler is None:
        sys.exit("no C++ compiler is found: install the package g++, or name one by the variable CXX")
    return compiler


def _cuda_folder():
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    folder = pathlib.Path(nvcc).resolve().parent.parent
    if not (folder / "include" / "cuda_runtime.h").exists():
        sys.exit("this Paddle computes on CUDA: the headers of the CUDA toolkit are needed, nvcc in PATH")
    return folder


def _flags(paddle, cuda):
    flags = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-w", "-ffp-contract=off"]
    flags += ["-DPADDLE_WITH_CUSTOM_KERNEL", "-D_GLIBCXX_USE_CXX11_ABI=1"]
    flags += [f"-ffile-prefix-map={_SOURCE}/=", f"-I{_SOURCE}", f"-I{_SOURCE / 'include'}"]
    flags += [f"-I{paddle / 'include'}", f"-I{paddle / 'include' / 'third_party'}"]
    if not cuda:
        return [*flags, "-DPADDLE_WITH_CUSTOM_DEVICE"]
    include = _cuda_folder() / "include"
    return [*flags, "-DPADDLE_WITH_CUDA", f"-I{include}", f"-I{include / 'cccl'}"]


def _run(command):
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if result.returncode == 0:
        return
    header = re.search(r"fatal error: (\S+): No such file", result.stderr)
    hint = f"\nThe header {header[1]} is missing." if header else ""
    sys.exit(f"{result.stderr}{hint}\nThis command failed:\n{' '.join(map(str, command))}")


def _check(folder):
    """The plugin is loaded, in a process of its own, before it is put in place of another."""
    code = "import paddle, sys; paddle.framework.core.load_op_meta_info_and_register_op(sys.argv[1])"
    run = subprocess.run([sys.executable, "-c", code, folder / _PLUGIN], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{run.stderr}\nPaddle cannot load what was built")


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m twinops build-paddle", description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at once")
    jobs = parser.parse_args(arguments).jobs
    library = find(f"libtwinops.so.{ABI_VERSION}", "twinops' library")
    paddle, version, cuda = _paddle()
    compiler, flags = _compiler(), _flags(paddle, cuda)
    sources = sorted((find("paddle_source", "the plugin's source") / "hosts" / "paddle").glob("*.cpp"))
    print(f"twinops' plugin for PaddlePaddle {version}, {paddle}", flush=True)
    # On the same file system, so that what is built comes in place of the other in one step.
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        folder = pathlib.Path(folder)
        objects = [folder / (source.stem + ".o") for source in sources]
        with concurrent.futures.ThreadPoolExecutor(max(jobs, 1)) as pool:
            compiled = {
                pool.submit(_run, [compiler, *flags, "-c", source, "-o", output]): source.name
                for source, output in zip(sources, objects)
            }
            for i, job in enumerate(concurrent.futures.as_completed(compiled), 1):
                job.result()
                print(f"[{i}/{len(sources) + 1}] {compiled[job]}", flush=True)
        link = ["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", "-l:libpaddle.so"]
        link += [f"-L{paddle / 'base'}", f"-L{paddle / 'libs'}", "-Wl,-rpath,$ORIGIN"]
        _run([compiler, "-shared", "-o", folder / _PLUGIN, *objects, library, *link])
        (folder / library.name).symlink_to(library)
        _check(folder)
        os.replace(folder / _PLUGIN, FOLDER / _PLUGIN)
    (FOLDER / "paddle_version.txt").write_text(version + "\n")
    print(f"[{len(sources) + 1}/{len(sources) + 1}] {FOLDER / _PLUGIN}")
