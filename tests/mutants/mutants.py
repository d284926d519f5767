"""Plants one bug after another and runs the test that must see it.

    python3 tests/mutants/mutants.py build/release              # all; some take minutes to compile
    python3 tests/mutants/mutants.py build/release --only operators --only settings
    python3 tests/mutants/mutants.py build/release --few        # those of CI
    python3 tests/mutants/mutants.py --check                    # the lists alone, without a build

The lists are the .toml files beside this one, one a room:

    [[mutant]]
    file = "operators/overlap.cpp"
    before = "x.end > y.begin"          # stands once in the file
    after = "x.end >= y.begin"
    test = "operators_test --gtest_filter=Overlap.*"
    few = true                          # optional: in CI, too
    needs = "vectors"                   # optional: "vectors" (a row of vectors) or "emulator"
    target = "numerics_test"            # optional: the program itself is made anew, not the library
    seconds = 60                        # optional: a test that has not ended by then sees the bug
    equivalent = "why no test can see it"   # in place of `test`

Nothing in the sources or in the build is changed: the file with the bug lies in a folder of its own
that is looked through first, what includes it is compiled anew, and the library is linked from these
objects and the build's others. What nvcc compiles is taken from the build: no test of a list needs a
GPU, and the bugs of kernels_cuda/ are planted in the emulator.

The status is 0 if every bug that was planted is seen. An entry that cannot be planted (it does not
compile, or its filter names no test) is a fault of the list: it is said, and the rest is run.
"""

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
TIMEOUT = 900


def read_lists():
    mutants = []
    for path in sorted(HERE.glob("*.toml")):
        with path.open("rb") as file:
            for mutant in tomllib.load(file)["mutant"]:
                mutants.append({"list": path.stem, **mutant})
    return mutants


def wrong_with(mutant):
    """What is wrong with an entry, or None."""
    path = SOURCE / mutant["file"]
    if not path.exists():
        return "there is no such file"
    count = path.read_text().count(mutant["before"])
    if count != 1:
        return f"'{mutant['before']}' stands {count} times in it"
    if ("test" in mutant) == ("equivalent" in mutant):
        return "expected either a test or why it is equivalent"
    return None


class Build:
    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.dependants = {}  # of each source: the objects made of it
        for line in self.ninja("-t", "deps").splitlines():
            if line and not line.startswith(" "):
                current = line.split(":")[0]
            elif line.strip():
                path = (self.folder / line.strip()).resolve()
                self.dependants.setdefault(path, []).append(current)

    def ninja(self, *arguments):
        return subprocess.run(["ninja", "-C", self.folder, *arguments], check=True, text=True,
                              capture_output=True).stdout

    def command(self, output, target):
        """The command that makes an output."""
        for line in reversed(self.ninja("-t", "commands", target).splitlines()):
            if re.search(rf"-o {re.escape(output)}(\s|$)", line):
                return line
        raise Fault(f"no command of {target} makes {output}")

    def library(self, emulated):
        folder = "tests/emulator/" if emulated else ""
        for line in reversed(self.ninja("-t", "commands", f"{folder}libtwinops.so").splitlines()):
            if found := re.search(rf"-o ({folder}libtwinops\.so[.\d]*)", line):
                return found.group(1)
        raise SystemExit("the build has no libtwinops.so")

    def has(self, what):
        if what == "emulator":
            return "tests/emulator/libtwinops.so" in self.ninja("-t", "targets", "all")
        return any("/twinops_" in o for objects in self.dependants.values() for o in objects)


def run(command, folder, environment=None, seconds=TIMEOUT):
    with subprocess.Popen(command, shell=True, cwd=folder, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True) as process:
        try:
            return subprocess.CompletedProcess(command, stdout=process.communicate(timeout=seconds)[0],
                                               returncode=process.returncode)
        except BaseException:  # the shell's children, too
            os.killpg(process.pid, signal.SIGKILL)
            raise


class SeenByTheCompiler(Exception):
    """A static_assert has seen the bug."""


class Fault(Exception):
    """The entry cannot be planted, or its test not be run."""


def make(build, mutant, folder):
    """Compiles and links the bug; returns the program or library."""
    overlay = folder / "overlay"
    copy = overlay / mutant["file"]
    copy.parent.mkdir(parents=True)
    copy.write_text((SOURCE / mutant["file"]).read_text().replace(mutant["before"], mutant["after"]))
    emulated = mutant.get("needs") == "emulator"
    if target := mutant.get("target"):
        output = target = f"tests/{target}"
    else:
        output = target = build.library(emulated)
    link = build.command(output, target)
    objects = [o for o in build.dependants.get((SOURCE / mutant["file"]).resolve(), [])
               if re.search(rf"\s{re.escape(o)}(\s|$)", link)]
    if not objects:
        raise Fault(f"nothing of {output} is made of it")
    new = []
    for number, name in enumerate(objects):
        made = folder / f"{number}.o"
        command = build.command(name, name)
        if "/nvcc " in command:
            continue
        command = re.sub(r" -Werror(=\S+)?(?=\s|$)", "", command.replace(f"-o {name}", f"-o {made}"))
        command = re.sub(r"-M[DTF] ?\S*( \S+\.o(\.d)?)?", "", command)
        command = command.replace(str(SOURCE / mutant["file"]), str(copy))
        command = re.sub(r"(\sc?\S*(?:c\+\+|g\+\+|clang\+\+|cc)\S*)", rf"\1 -I{overlay}", command, count=1) \
            if " -I" not in command else command.replace(" -I", f" -I{overlay} -I", 1)
        done = run(command, build.folder)
        if "static assertion failed" in done.stdout:
            raise SeenByTheCompiler
        if done.returncode != 0:
            raise Fault(f"it does not compile:\n{done.stdout}")
        link = re.sub(rf"\s{re.escape(name)}(?=\s|$)", "", link)
        new.append(str(made))
    if not new:
        raise Fault("nvcc alone compiles it")
    result = folder / Path(output).name
    # First, so that inline functions are theirs and not those of an object of the build's.
    link = link.replace(f"-o {output}", f"-o {result} {' '.join(new)}")
    done = run(link, build.folder)
    if done.returncode != 0:
        raise Fault(f"{output} does not link:\n{done.stdout}")
    if not target.startswith("tests/") or emulated:
        (folder / "libtwinops.so.1").symlink_to(result)
    return result


def find_program(build, name, made=Path("none")):
    """A test's program: `made` if it is that, else the build's; None if it has none."""
    if made.name == name:
        return made
    for room in "tests", "tools":
        for path in sorted((build.folder / room).rglob(name)):
            if os.access(path, os.X_OK) and path.is_file():
                return path
    return None


def failures(command, folder, environment, seconds=TIMEOUT):
    """Which tests fail; a program that ends otherwise, or not at all, counts as one."""
    try:
        done = run(command, folder, environment, seconds)
    except subprocess.TimeoutExpired:
        return {"it never ends"}
    if "Running 0 tests" in done.stdout:
        raise Fault("the filter names no test")
    failed = set(re.findall(r"^\[  FAILED  \] (?!\d+ test)(\S+?),? ", done.stdout, re.MULTILINE))
    return failed or ({f"exit status {done.returncode}"} if done.returncode != 0 else set())


def is_seen(build, mutant, before={}):
    """Whether the test fails with the bug, and what says so. `before`: what fails without it."""
    with tempfile.TemporaryDirectory(prefix="mutant") as folder:
        words = shlex.split(mutant["test"])
        try:
            made = make(build, mutant, Path(folder))
        except SeenByTheCompiler:
            return True, "a static_assert"
        program = find_program(build, words[0], made)
        command = shlex.join([str(program), *words[1:]])
        emulated = mutant.get("needs") == "emulator"
        own = {"LD_LIBRARY_PATH": str(build.folder / "tests/emulator")} if emulated else {}
        if made.name == words[0]:  # a program of its own: it passes in the build
            own_program = find_program(build, words[0])
            without = shlex.join([str(own_program), *words[1:]])
        else:
            without = command
        if without not in before:
            before[without] = failures(without, folder, {**os.environ, **own})
        new = failures(command, folder, {**os.environ, "LD_LIBRARY_PATH": folder,
                                         "TWINOPS_TEST_LIBRARY": f"{folder}/libtwinops.so.1"},
                       mutant.get("seconds", TIMEOUT))
        new -= before[without]
        if new:
            return True, sorted(new)[0]
        return False, "it fails without the bug as well" if before[without] else "the test passes"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", help="a build folder of CMake's, made by Ninja")
    parser.add_argument("--only", action="append", default=[], help="files that hold this word")
    parser.add_argument("--few", action="store_true", help="those of CI")
    parser.add_argument("--check", action="store_true", help="look at the lists alone")
    asked = parser.parse_args()
    mutants = read_lists()
    bad = [f"{m['file']}: {why}" for m in mutants if (why := wrong_with(m))]
    print(f"{len(mutants)} mutants, {len(bad)} of them wrong")
    if bad or asked.check:
        sys.exit("\n".join(bad) or 0)
    if asked.build is None:
        parser.error("expected a build folder")
    build = Build(asked.build)
    seen = unseen = left = faults = 0
    for mutant in mutants:
        if asked.only and not any(word in mutant["file"] for word in asked.only):
            continue
        if "equivalent" in mutant or (asked.few and not mutant.get("few")):
            continue
        what = f"{mutant['file']}: {mutant['before'].strip()!r} -> {mutant['after'].strip()!r}"
        lacks = mutant.get("needs") if "needs" in mutant and not build.has(mutant["needs"]) else None
        if find_program(build, mutant["test"].split()[0]) is None:
            lacks = mutant["test"].split()[0]
        if lacks is not None:
            left += 1
            print(f"not here  {what}: the build has no {lacks}", flush=True)
            continue
        begin = time.monotonic()
        try:
            good, by = is_seen(build, mutant)
        except Fault as why:
            faults += 1
            print(f"FAULT     {what}: {why}", flush=True)
            continue
        seen, unseen = seen + good, unseen + (not good)
        print(f"{'seen' if good else 'NOT SEEN':8}  {what}: {by} "
              f"({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{seen} seen, {unseen} not seen, {faults} faults of the lists, {left} not here, "
          f"{sum('equivalent' in m for m in mutants)} equivalent")
    sys.exit(1 if unseen or faults else 0)


if __name__ == "__main__":
    main()
