#!/usr/bin/env python3
"""Checks that a version is the same wherever it is written (docs/versions.md). Arguments: the
project's root."""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
wrong = []


def read(path, pattern):
    """The one group of the first match of `pattern` in a file."""
    found = re.search(pattern, (root / path).read_text(), re.M)
    if not found:
        wrong.append(f"{path}: nothing matches {pattern}")
        return None
    return found[1]


def expect_equal(what, places):
    """`places`: (path, pattern), the first of which is where the version is decided."""
    found = [(path, read(path, pattern)) for path, pattern in places]
    for path, version in found[1:]:
        if version != found[0][1]:
            wrong.append(f"{what}: {path} says {version}, {found[0][0]} says {found[0][1]}")
    print(f"{what}: {found[0][1]}")


expect_equal(
    "library",
    [
        ("CMakeLists.txt", r"^project\(twinops VERSION ([\d.]+)"),
        ("pyproject.toml", r'^version = "([\d.]+)"'),
        ("CHANGELOG.md", r"^## ([\d.]+)"),
        ("CITATION.cff", r"^version: ([\d.]+)"),
        ("docs/versions.md", r"^\| ([\d.]+)[^|]*\| \d+ \| \d+ \|$"),
    ],
)
expect_equal(
    "C ABI",
    [
        ("CMakeLists.txt", r"^set\(TWINOPS_ABI_VERSION (\d+)\)"),
        ("include/twinops/twinops.h", r"^#define TWINOPS_ABI_VERSION (\d+)"),
        ("python/twinops/_native.py", r"^ABI_VERSION = (\d+)"),
        ("docs/versions.md", r"^\| [\d.]+[^|]*\| (\d+) \| \d+ \|$"),
    ],
)
expect_equal(
    "numeric contract",
    [
        ("docs/numerics.md", r"^Contract version: \*\*(\d+)\*\*"),
        ("CHANGELOG.md", r"^- Numeric contract, version (\d+)"),
        ("docs/versions.md", r"^\| [\d.]+[^|]*\| \d+ \| (\d+) \|$"),
    ],
)
print("\n".join(wrong))
sys.exit(bool(wrong))
