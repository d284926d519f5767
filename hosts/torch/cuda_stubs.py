"""Lets a PyTorch wheel that was built for CUDA, but installed without CUDA's libraries (pip --no-deps),
be imported as a PyTorch for the CPU: beside its own libraries go empty ones, under the names of those
that it wants, whose functions all say "no device" (100, as cudaErrorNoDevice). PyTorch then finds no
GPU and never calls another of them.

usage, by the Python that has such a PyTorch: python hosts/torch/cuda_stubs.py
"""

import collections
import importlib.util
import pathlib
import re
import subprocess
import tempfile

# What is not CUDA's gets no empty library. A symbol that comes without a version does not say whose it
# is; every process has the first ones of these.
SYSTEM = re.compile(
    r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libquadmath|libz|ld-linux.*)\.so\.\d+$"
)


def _read(path, *options):
    return subprocess.run(
        ["readelf", "-W", *options, str(path)], check=True, capture_output=True, text=True
    ).stdout


def _needed(path):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", _read(path, "-d"))


def _versions(path):
    """The version names that a library asks of others: version -> the other's name."""
    asked, other = {}, None
    for line in _read(path, "-V").splitlines():
        if found := re.search(r"File: (\S+)", line):
            other = found[1]
        elif (found := re.search(r"Name: (\S+)", line)) and other:
            asked[found[1]] = other
    return asked


def _symbols(path):
    """(defined, undefined) dynamic symbols, those that may be missing left out."""
    defined, undefined = set(), set()
    for line in _read(path, "--dyn-syms").splitlines():
        words = line.split()
        if len(words) < 8 or words[4] not in ("GLOBAL", "WEAK", "UNIQUE"):
            continue
        if words[6] != "UND":
            defined.add(words[7].split("@")[0])
        elif words[4] == "GLOBAL":
            undefined.add(words[7])
    return defined, undefined


def _compile(folder, soname, symbols):
    """`symbols`: version -> names; "" for those without a version."""
    source = folder / "stub.c"
    names = sorted(set().union(*symbols.values()))
    source.write_text("".join(f"int {name}(void) {{ return 100; }}\n" for name in names))
    versions = folder / "stub.map"
    versions.write_text("".join(
        f"{version} {{ {''.join(name + '; ' for name in sorted(of))}}};\n"
        for version, of in symbols.items() if version))
    options = [f"-Wl,--version-script={versions}"] if versions.read_text() else []
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{soname}", *options, str(source), "-o",
         str(folder / "stub.so")],
        check=True,
    )
    return (folder / "stub.so").read_bytes()


def main():
    lib = pathlib.Path(importlib.util.find_spec("torch").origin).parent / "lib"
    libraries = sorted(p for p in lib.iterdir() if ".so" in p.name and not p.is_symlink())
    missing = set().union(*(_needed(p) for p in libraries)) - {p.name for p in libraries}
    missing = sorted(name for name in missing if not SYSTEM.match(name))
    if not missing:
        return
    defined, wanted = set(), collections.defaultdict(lambda: collections.defaultdict(set))
    unversioned = set()
    for path in libraries:
        asked, (own, undefined) = _versions(path), _symbols(path)
        defined |= own
        for name, _, version in (symbol.replace("@@", "@").partition("@") for symbol in undefined):
            if not version:
                unversioned.add(name)
            elif asked.get(version) in missing:
                wanted[asked[version]][version].add(name)
    # Whose the others are does not matter: the loader looks for them everywhere.
    rest = {name for name in unversioned - defined if not re.match(r"_?Py|_?_?gmon|_ITM", name)}
    wanted[missing[0]][""] |= rest
    with tempfile.TemporaryDirectory() as folder:
        for soname in missing:
            (lib / soname).write_bytes(_compile(pathlib.Path(folder), soname, wanted[soname]))
    print(f"{lib}: empty libraries in place of {', '.join(missing)}")


if __name__ == "__main__":
    main()
