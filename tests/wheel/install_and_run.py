#!/usr/bin/env python3
"""install_and_run.py BUILD WORK: makes the packages of a build folder, installs the wheel into an empty
environment where no compiler, toolkit or source of this project is found, and uses it as its user does.
Exit status 77 with the reason where the tools are missing."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD, WORK = (pathlib.Path(folder).resolve() for folder in sys.argv[1:])
TOOLS = ROOT / "build/wheel-venv/bin/python"
VENV = WORK / "venv"
EMPTY = {"PATH": str(VENV / "bin"), "HOME": str(WORK), "OMP_WAIT_POLICY": "passive"}


def run(*command, env=None, cwd=WORK):
    """What a command prints to standard output; it must succeed."""
    done = subprocess.run(
        [str(word) for word in command],
        env=env,
        cwd=cwd,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def make_packages():
    """(wheel, source package)"""
    run("cmake", "--install", BUILD, "--component", "python", "--strip", "--prefix", WORK / "site")
    print(run(TOOLS, ROOT / "python/make_packages.py", WORK / "site", WORK / "out"))
    return next((WORK / "out").glob("*.whl")), next((WORK / "out").glob("*.tar.gz"))


def check_contents(wheel, source):
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("LICENSE", "THIRD_PARTY_LICENSES", "GPL-3.0.txt"):
        assert any(name.endswith(f"licenses/{wanted}") for name in names), f"no {wanted} in {names}"
    assert "-py3-none-manylinux" in wheel.name, wheel.name
    sources = {name.partition("/")[2] for name in tarfile.open(source).getnames()}
    for wanted in ("CMakeLists.txt", "pyproject.toml", "kernels_cuda/kernel.hpp", "THIRD_PARTY_LICENSES"):
        assert wanted in sources, f"no {wanted} in {source.name}"
    assert not any(name.startswith("build/") for name in sources), "what was built is in the sources"


def install(wheel):
    run(sys.executable, "-m", "venv", "--without-pip", VENV)
    run(TOOLS, "-m", "pip", "--python", VENV / "bin/python", "install", "-q", "--no-index", wheel)
    found = [c for c in ("c++", "g++", "cc", "nvcc", "cmake") if shutil.which(c, path=EMPTY["PATH"])]
    assert not found, f"{found} are on PATH"


def use():
    info = run("python", "-m", "twinops", "info", env=EMPTY)
    assert "cpu/scalar" in info and "softmax_dropout" in info, info
    assert run(VENV / "bin/twinops", "info", env=EMPTY) == info
    proof = run(VENV / "bin/twinops", "crosscheck", "--op", "dropout,softmax", "--dtype", "float16",
                "--max-elements", "2000", env=EMPTY)
    assert re.search(r"^[1-9]\d* passed, 0 failed$", proof, re.M), proof
    # Nothing but the C and C++ libraries comes from outside of the environment.
    code = "import twinops; twinops.operators(); print(open('/proc/self/maps').read())"
    maps = run(VENV / "bin/python", "-c", code, env=EMPTY)
    loaded = set(re.findall(r"\S*/(?:libtwinops|libgomp|libomp|libcudart)\S*", maps))
    assert any("libtwinops" in path for path in loaded), maps
    assert all(path.startswith(str(VENV)) for path in loaded), loaded


def environment_of(host):
    """The site-packages with a host framework in it, made for this Python by scripts/*-environment;
    None if there is none."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for name, finished in ((f"{host}-venv", "requirements.txt"), ("host-venv", f"{host}.txt")):
        site = ROOT / "build" / name / "lib" / version / "site-packages"
        if (ROOT / "build" / name / finished).exists() and site.exists():
            return site
    return None


def run_snippets():
    """The first snippet of each host's page, where its adapter is in the wheel."""
    for page in sorted((ROOT / "docs/hosts").glob("*.md")):
        host = page.stem
        if host == "README":  # the index of the pages
            continue
        adapter = next(VENV.glob(f"lib/python*/site-packages/twinops/native/libtwinops_{host}.so"), None)
        site = environment_of(host)
        if adapter is None or site is None:
            print(f"{host}: {'not installed here' if adapter else 'no adapter in this build'}")
            continue
        code, printed = re.search(r"^```python\n(.*?)^```\n\s*(?:^```text\n(.*?)^```)?",
                                  page.read_text(), re.M | re.S).groups()
        env = {**EMPTY, "PYTHONPATH": str(site), "GLOG_minloglevel": "2"}
        got = run(VENV / "bin/python", "-W", "ignore", "-c", code, env=env)
        assert printed is None or got == printed, f"{page}: printed\n{got}\nnot\n{printed}"
        print(f"{host}: the first snippet of {page.name} runs")


if not TOOLS.exists():
    why = ROOT / "build/no-wheel.txt"
    reason = why.read_text().strip() if why.exists() else "scripts/wheel-environment was not run"
    print(f"skipped: {reason}")
    sys.exit(77)
shutil.rmtree(WORK, ignore_errors=True)
WORK.mkdir(parents=True)
wheel, source = make_packages()
check_contents(wheel, source)
install(wheel)
use()
run_snippets()
