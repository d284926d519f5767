"""ctest's way to pytest: run_pytest.py SITE [ARGUMENT...], with the Python that has the host framework.
SITE is the folder of the installed package twinops. Exit status 77 with the reason if pytest is not
there, or if every test is skipped."""

import os
import pathlib
import sys

try:
    import pytest
except ImportError:
    print(f"skipped: {sys.executable} has no pytest: python -m pip install pytest")
    sys.exit(77)

HERE = pathlib.Path(__file__).parent
site, arguments = os.path.abspath(sys.argv[1]), sys.argv[2:]
paths = [site, str(HERE)]
sys.path[:0] = paths
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*paths, os.environ.get("PYTHONPATH")]))
# Threads that wait do not spin: a machine that is busy with other tests has fewer cores than threads.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
status = pytest.main(["-q", "-rs", "-p", "no:cacheprovider", "-p", "seeded", *arguments])
sys.exit(77 if status == pytest.ExitCode.NO_TESTS_COLLECTED else status)
