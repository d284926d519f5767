#!/usr/bin/env python3
"""Runs a benchmark and writes its figures to a CSV file that says where they come from.

  python3 benchmarks/record.py docs/lab/data/softmax-h200.csv \\
      python3 benchmarks/softmax_peers.py --quick

The benchmark prints a line of JSON for each figure (softmax_peers.py, softmax_mask_peers.py and
random_peers.py always do; dropout_peers.py, list_peers.py, softmax_cpu_peers.py and
softmax_peers_bench do under --json). Every line becomes a row. The file's first lines, which begin
with #, name the machine, the date, the commit and the command. benchmarks/plot.py draws such files.
"""

import csv
import datetime
import json
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def output_of(*command):
    """What a command prints, or nothing where it cannot run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def machine():
    """The GPUs, if there are some, and the processor."""
    gpus = output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
    cpus = [
        line.partition(":")[2].strip()
        for line in output_of("cat", "/proc/cpuinfo").splitlines()
        if line.startswith("model name")
    ]
    cpu = [f"{cpus[0]}, {len(cpus)} processors"] if cpus else []
    return "; ".join(sorted(set(gpus)) + cpu) or "unknown"


def commit():
    """The commit of this checkout, and whether it was changed since."""
    changed = output_of("git", "status", "--porcelain", "--untracked-files=no")
    return (output_of("git", "rev-parse", "--short", "HEAD").strip() or "unknown") + (
        " with changes" if changed else ""
    )


def write(path, provenance, rows):
    """A CSV file: `provenance` in comments, then `rows`, dictionaries whose keys are the columns."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with open(path, "w", encoding="utf-8", newline="") as file:
        for name, value in provenance.items():
            file.write(f"# {name}: {value}\n")
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    path, command = sys.argv[1], sys.argv[2:]
    provenance = {
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "command": shlex.join(command),
    }
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            print(line, end="", flush=True)
            if line.startswith("{"):
                rows.append(json.loads(line))
    if run.returncode != 0 or not rows:
        sys.exit(
            f"record: {shlex.join(command)} ended with {run.returncode} and {len(rows)} figures"
        )
    write(path, provenance, rows)


if __name__ == "__main__":
    main()
