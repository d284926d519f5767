"""find_package.py MODULE DISTRIBUTION: prints what building against an installed Python package needs,
a line each: its folder and its version. The package is not imported. Exit status 1, and the reason,
if it is not there.
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
    print(importlib.metadata.version(distribution))


main(*sys.argv[1:])
