"""ctest's way to pytest: run_pytest.py SITE [ARGUMENT...], by the Python that has the host framework. SITE is
the folder of the installed package twinops. tests/hosts/ has what several hosts' tests share, and its
seeded.py is loaded. Exit status 77 with the reason if pytest is not there, or if every test is skipped."""

import os
import sys


def main(site, *arguments):
    try:
        import pytest
    except ImportError:
        print(f"skipped: {sys.executable} has no pytest, which scripts/*-environment install")
        return 77
    options = ["-q", "-rs", "-p", "no:cacheprovider", "-p", "seeded", "--durations=5"]
    here = os.path.dirname(os.path.abspath(__file__))
    paths = [os.path.abspath(site), os.path.join(here, "hosts")]
    sys.path[:1] = paths  # in place of this folder, whose torch/ is not PyTorch
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*paths, os.environ.get("PYTHONPATH")]))
    # Threads that wait do not spin: a machine that is busy with other tests has fewer cores than threads.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GLOG_minloglevel", "2")  # Paddle's log
    status = pytest.main([*options, *arguments])
    return 77 if status == pytest.ExitCode.NO_TESTS_COLLECTED else status


if __name__ == "__main__":  # a process that a test spawns reads this file too
    sys.exit(main(*sys.argv[1:]))
