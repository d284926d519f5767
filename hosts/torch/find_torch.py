"""Prints what building against an installed PyTorch needs, a line each: its folder and its version.
PyTorch is not imported. Exit status 1, and the reason, if there is none."""

import importlib.util
import pathlib
import re
import sys


def main():
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit(f"{sys.executable} has no PyTorch")
    folder = pathlib.Path(spec.origin).parent
    print(folder)
    print(re.search(r"__version__ = ['\"]([^'\"]+)", (folder / "version.py").read_text())[1])


main()
