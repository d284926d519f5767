#!/usr/bin/env python3
"""Draws the pictures of docs/performance.md from the CSV files under docs/lab/data/.

  python3 benchmarks/plot.py            # writes docs/plots/*.svg
  python3 benchmarks/plot.py --check    # exit status 1 where a picture is not what its data give

benchmarks/record.py writes the files. Python's standard library is all this needs. A picture has its
own background and follows the reader's choice of light or dark.
"""

import pathlib
import sys

from plots import bars, curves
from plots.data import Data

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA, PLOTS = ROOT / "docs/lab/data", ROOT / "docs/plots"


def pictures():
    """Each picture's name and text."""
    for path in sorted(DATA.glob("softmax-h?00.csv")):
        data = Data(path)
        yield path.stem, curves.softmax(data)
        if data.where(what="softmax_grad"):
            yield path.stem.replace("softmax", "softmax-family"), curves.softmax_family(data)
    for path in sorted(DATA.glob("dropout-*.csv")):
        yield path.stem, bars.dropout(Data(path))
    for path in sorted(DATA.glob("lists-h?00.csv")):
        yield path.stem, bars.lists(Data(path))
    yield "headline", bars.headline(
        *(Data(DATA / f"{name}-h200.csv") for name in ("softmax", "dropout", "lists"))
    )
    yield "softmax-cpu", curves.cpu(
        *(Data(DATA / f"{name}.csv") for name in ("onednn-zen5", "onednn-xeon", "pytorch-xeon"))
    )


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    drawn = {f"{name}.svg": picture.svg() for name, picture in pictures()}
    if check:
        stale = [
            name
            for name, text in drawn.items()
            if not (PLOTS / name).exists() or (PLOTS / name).read_text(encoding="utf-8") != text
        ]
        stale += [path.name for path in PLOTS.glob("*.svg") if path.name not in drawn]
        print(f"{len(drawn)} pictures, {len(stale)} not what their data give", *stale)
        sys.exit(bool(stale) or not drawn)
    PLOTS.mkdir(exist_ok=True)
    for name, text in drawn.items():
        (PLOTS / name).write_text(text, encoding="utf-8")
        print(f"{name}: {len(text) // 1024} KB")


if __name__ == "__main__":
    main()
