"""A CSV file under docs/lab/data/: its rows, and what its first lines say of them."""

import csv


class Data:
    """The rows of one file, and what its first lines say of them."""

    def __init__(self, path):
        lines = path.read_text(encoding="utf-8").splitlines()
        comments = [line[2:].split(": ", 1) for line in lines if line.startswith("#")]
        self.about = dict(comments)
        self.rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
        for name in ("machine", "date", "commit", "command"):
            if not self.about.get(name):
                raise SystemExit(f"{path}: the first lines do not say: {name}")

    def source(self):
        machine = self.about["machine"].split(";")[0]
        commit = self.about["commit"].split(",")[0].split(";")[0]
        return f"{machine}, {self.about['date']}, commit {commit}"

    def where(self, **wanted):
        return [r for r in self.rows if all(r.get(k) == str(v) for k, v in wanted.items())]
