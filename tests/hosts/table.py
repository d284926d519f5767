"""table.py RAN...: writes the table of docs/hosts/README.md anew from what tests ran, which they say in
files: TWINOPS_RAN=FILE ctest ..., on a CPU and on a GPU."""

import pathlib
import sys

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "hosts" / "README.md"
BEGIN, END = "<!-- made by tests/hosts/table.py -->\n", "<!-- end -->\n"
COLUMNS = ("CPU", "CUDA", "gradient", "compiled", "sharded")
HOSTS = {"arrays": "any array", "jax": "JAX", "onnxruntime": "ONNX Runtime"}


def read(paths):
    """{(host, operator, what)}"""
    lines = (line.split() for path in paths for line in open(path))
    return {tuple(line) for line in lines}


def table(ran):
    hosts = [h for h in HOSTS if any(r[0] == h for r in ran)]
    lines = ["| operator | " + " | ".join(HOSTS[h] for h in hosts) + " |", "|---" * (len(hosts) + 1) + "|"]
    for operator in sorted({r[1] for r in ran}):
        cells = [
            ", ".join(c for c in COLUMNS if (host, operator, c) in ran) or "–" for host in hosts
        ]
        lines.append(f"| `{operator}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(paths):
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + table(read(paths)) + END + rest.split(END)[1])


main(sys.argv[1:])
