"""ctest's way to pytest: run_pytest.py SITE [ARGUMENT...], with the Python that has PyTorch. SITE is
the folder of the installed package twinops. Exit status 77 with the reason if pytest is not there, or if
every test is skipped."""

import os
import sys


def main():
    try:
        import pytest
    except ImportError:
        print(f"skipped: {sys.executable} has no pytest: python -m pip install pytest expecttest")
        return 77
    site, arguments = os.path.abspath(sys.argv[1]), sys.argv[2:]
    sys.path.insert(0, site)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [site, os.environ.get("PYTHONPATH")]))
    # Threads that wait do not spin: a machine that is busy with other tests has fewer cores than threads.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    status = pytest.main(["-q", "-rs", "-p", "no:cacheprovider", "--durations=5", *arguments])
    return 77 if status == pytest.ExitCode.NO_TESTS_COLLECTED else status


if __name__ == "__main__":  # a process that a test spawns reads this file too
    sys.exit(main())
