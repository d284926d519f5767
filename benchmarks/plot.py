#!/usr/bin/env python3
"""Makes the pictures and the tables of docs/performance.md from the CSV files under docs/lab/data/.

  python3 benchmarks/plot.py            # writes docs/plots/*.svg and the tables
  python3 benchmarks/plot.py --check    # exit status 1 where one of them is not what the data give

benchmarks/record.py writes the files. Python's standard library is all this needs. A picture has its
own background and follows the reader's choice of light or dark.
"""

import pathlib
import sys

from plots import bars, curves, summary
from plots.data import Data

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA, PLOTS, PAGE = ROOT / "docs/lab/data", ROOT / "docs/plots", ROOT / "docs/performance.md"


def files(*names):
    return [Data(DATA / f"{name}.csv") for name in names]


def of_gpus():
    """The files of the softmax family, by the name of the machine's."""
    return {path.stem: Data(path) for path in sorted(DATA.glob("softmax-h?00.csv"))}


def pictures():
    """Each picture's name and text."""
    for name, data in of_gpus().items():
        yield name, curves.softmax(data)
        if data.where(what="softmax_grad"):
            yield name.replace("softmax", "softmax-family"), curves.softmax_family(data)
    for path in sorted(DATA.glob("dropout-*.csv")):
        yield path.stem, bars.dropout(Data(path))
    for path in sorted(DATA.glob("lists-h?00.csv")):
        yield path.stem, bars.lists(Data(path))
    yield "headline", bars.headline(*files("softmax-h200", "dropout-h200", "lists-h200"))
    yield "softmax-steps", bars.steps(*files("softmax-steps-h200"))
    yield "softmax-cpu", curves.cpu(*files("onednn-zen5", "onednn-xeon", "pytorch-xeon"))


def tables():
    """Each table of the page by its name."""
    return {
        "softmax": summary.softmax(of_gpus().values()),
        "others": summary.others(*files("dropout-h200", "lists-h200", "softmax-masks-h200")),
        "cpu": summary.cpu(*files("onednn-zen5", "onednn-xeon", "pytorch-xeon")),
    }


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    made = {PLOTS / f"{name}.svg": picture.svg() for name, picture in pictures()}
    made[PAGE] = summary.fill(PAGE.read_text(encoding="utf-8"), tables())
    if check:
        stale = [p.name for p in PLOTS.glob("*.svg") if p not in made]
        for path, text in made.items():
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(path.name)
        print(f"{len(made)} files, {len(stale)} not what the data give", *stale)
        sys.exit(bool(stale) or len(made) < 2)
    PLOTS.mkdir(exist_ok=True)
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {len(text) // 1024} KB")


if __name__ == "__main__":
    main()
