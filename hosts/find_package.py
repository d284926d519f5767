"""find_package.py MODULE DISTRIBUTION: prints what building against an installed Python package needs,
a line each: its folder and its version. The package is not imported. A distribution that brings the module
under another name will do (onnxruntime-gpu for onnxruntime). Exit status 1, and the reason, if it is not
there.
"""

import importlib.metadata
import importlib.util
import pathlib
import sys


def main(module, distribution):
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        sys.exit(f"{sys.executable} has no {distribution}")
    print(pathlib.Path(spec.origin).parent)
    by_module = getattr(importlib.metadata, "packages_distributions", dict)()  # from Python 3.10 on
    names = by_module.get(module, [distribution])
    print(importlib.metadata.version(distribution if distribution in names else names[0]))


main(*sys.argv[1:])
