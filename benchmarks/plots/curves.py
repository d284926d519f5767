"""Pictures of curves over the length of a row."""

import statistics

from plots.svg import Panel, Picture

TYPES = ["float32", "float16", "bfloat16"]
PEERS = [
    ("triton", "d", "Triton"),
    ("torch.compile", "c", "torch.compile"),
    ("torch", "b", "PyTorch"),
    ("twinops", "a w", "twinops"),
]
QUARTERS = [0, 0.25, 0.5, 0.75, 1]


def copy_rate(data, rows):
    """Of a copy, in TB/s: from the rows' own rates, or as the file's first lines say it."""
    rates = [float(r["gbps"]) / float(r["share"]) / 1e3 for r in rows if r.get("gbps")]
    if rates:
        return statistics.median(rates)
    said = dict(part.split() for part in data.about.get("copy TB/s", "").split(",") if part)
    return float(said.get(rows[0]["type"], 0)) if rows else 0


def share_panels(data, lines, title, subtitle):
    """A panel for each line and type: shares of the copy rate over columns. `lines`: an operator,
    which lengths, and what the panel is called."""
    types = [t for t in TYPES if data.where(type=t)]
    width, height, left, gap = 1000, 200, 62, 58
    panel = (width - left - 40 - gap * (len(types) - 1)) / len(types)
    picture = Picture(width, 112 + (height + 66) * len(lines), title, subtitle)
    operators = [operator for operator, _, _ in lines]
    drawn = {(r["peer"], r["what"]) for r in data.rows if r.get("share")}
    shown = [p for p in PEERS if any((p[0], o) in drawn for o in operators)]
    picture.legend(24, 78, [(kind[0], name) for _, kind, name in reversed(shown)])
    columns = [int(r["columns"]) for r in data.rows]
    for i, (operator, suits, name) in enumerate(lines):
        for k, type_name in enumerate(types):
            p = Panel(
                picture,
                left + k * (panel + gap),
                122 + i * (height + 66),
                panel,
                height,
                f"{type_name}, {name}",
                1.1,
                QUARTERS,
                columns,
                lambda tick: "copy" if tick == 1 else f"{tick:g}",
            )
            rows = [
                r
                for r in data.where(what=operator, type=type_name)
                if r.get("share") and suits(int(r["columns"]))
            ]
            copy = copy_rate(data, rows)
            if copy:
                p.rate_axis(copy)
            for peer, kind, _ in PEERS:
                points = [(int(r["columns"]), float(r["share"])) for r in rows if r["peer"] == peer]
                if points:
                    p.curve(points, kind)
            if not any(r["peer"] != "twinops" for r in rows):
                picture.text(p.x + panel / 2, p.y + height / 2, "peers not recorded", "s", "middle")
    picture.text(width / 2, picture.height - 14, "columns: the length of a row", "s", "middle")
    return picture


def softmax(data):
    lines = [("softmax", lambda columns: True, "all lengths")]
    if len({r["columns"] for r in data.rows}) > 12:
        lines = [
            ("softmax", lambda columns: columns % 8 == 0, "multiples of 8"),
            ("softmax", lambda columns: columns % 8 != 0, "other lengths"),
        ]
    return share_panels(
        data,
        lines,
        "softmax: share of the rate of a copy",
        f"{data.source()}. A row is read once and written once; 2²⁶ elements, cold L2.",
    )


def softmax_family(data):
    return share_panels(
        data,
        [(o, lambda columns: True, o) for o in ("log_softmax", "softmax_grad", "log_softmax_grad")],
        "log_softmax and the gradients: share of the rate of a copy",
        f"{data.source()}. Gradients read two tensors and write one; 2²⁶ elements, cold L2.",
    )


def cpu(zen, xeon, torch):
    """Ratios to the peers' rates over columns: above 1 twinops is faster."""
    width, height, left, gap = 1000, 190, 62, 70
    panel = (width - left - 30 - gap) / 2
    picture = Picture(
        width,
        66 + 2 * (height + 100),
        "The softmax family on a CPU: how many times as fast as the peer",
        f"1 is the peer's rate; medians of the runs of {zen.about['date']}. "
        "In the caches: 2¹⁶ elements; from memory: 2²³.",
    )
    threads = [
        ("a", "1 thread, in the caches", {"elements": 65536, "threads": 1}),
        ("b", "2 threads, in the caches", {"elements": 65536, "threads": 2}),
        ("d", "1 thread, from memory", {"elements": 8388608, "threads": 1}),
        ("c", "2 threads, from memory", {"elements": 8388608, "threads": 2}),
    ]
    operators = [
        (kind, name, {"what": name, "inner": 1, "elements": 8388608})
        for kind, name in zip(
            "adbc", ("softmax", "log_softmax", "softmax_grad", "log_softmax_grad")
        )
    ]
    panels = [
        ("float32 softmax beside oneDNN, Zen 5", zen, threads, {}),
        ("float32 softmax beside oneDNN, Xeon", xeon, threads, {}),
        (
            "float32 beside PyTorch, Xeon, 1 thread, from memory",
            torch,
            operators,
            {"type": "float32"},
        ),
        (
            "bfloat16 beside PyTorch, Xeon, 1 thread, from memory",
            torch,
            operators,
            {"type": "bfloat16"},
        ),
    ]
    for k, (title, data, curves, wanted) in enumerate(panels):
        x, y = left + k % 2 * (panel + gap), 116 + k // 2 * (height + 92)
        if k % 2 == 0:
            picture.legend(24, y - 36, [(kind, name) for kind, name, _ in curves])
        found = [data.where(**more, **wanted) for _, _, more in curves]
        p = Panel(
            picture,
            x,
            y + 8,
            panel,
            height,
            title,
            3.2,
            [0, 0.5, 1, 1.5, 2, 2.5, 3],
            [int(r["columns"]) for rows in found for r in rows],
            lambda tick: f"{tick:g}×",
        )
        for (kind, _, _), rows in zip(curves, found):
            p.curve([(int(r["columns"]), float(r["ratio"])) for r in rows], kind)
    picture.text(width / 2, picture.height - 14, "columns: the length of a row", "s", "middle")
    return picture
