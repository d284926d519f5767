"""Prints what building against an installed Paddle needs, a line each: its folder, its version, and
whether it computes on CUDA. Paddle is not imported. Exit status 1, and the reason, if there is none.
"""

import importlib.util
import pathlib
import re
import sys


def main():
    spec = importlib.util.find_spec("paddle")
    if spec is None or spec.origin is None:
        sys.exit(f"{sys.executable} has no PaddlePaddle")
    folder = pathlib.Path(spec.origin).parent
    version = (folder / "version" / "__init__.py").read_text()

    def value(name):
        return re.search(rf"^{name}\s*=\s*['\"]?([^'\"\n]*)", version, re.M)[1]

    print(folder)
    print(value("full_version"))
    print("OFF" if value("cuda_version") == "False" else "ON")


main()
