"""The tables of docs/performance.md, each between <!-- table: NAME --> and <!-- end of table -->."""

import re
import statistics

SHORT = 32768  # columns
OPERATORS = ("softmax", "log_softmax", "softmax_grad", "log_softmax_grad")


def spread(values):
    """The median, and the least and the greatest of several."""
    values = [float(v) for v in values if v]
    if not values:
        return "–"
    median = f"{statistics.median(values):.2f}"
    if len(values) == 1:
        return median
    return f"{median} ({min(values):.2f} to {max(values):.2f})"


def markdown(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def softmax(files):
    """Shares of the copy rate, medians over the lengths: an operator and a kind of type a line."""
    rows = []
    for data in files:
        machine = data.about["machine"].replace("NVIDIA ", "").split(";")[0].split()[0]
        for operator in OPERATORS:
            for types, name in ((["float32"], "float32"), (["float16", "bfloat16"], "16 bits")):

                def share(peer, long):
                    return spread(
                        r["share"]
                        for r in data.rows
                        if r["what"] == operator
                        and r["type"] in types
                        and r["peer"] == peer
                        and 33 <= int(r["columns"])
                        and (int(r["columns"]) > SHORT) == long
                    )

                cells = [
                    share(*which)
                    for which in (
                        ("twinops", False),
                        ("torch", False),
                        ("torch.compile", False),
                        ("triton", False),
                        ("twinops", True),
                        ("torch", True),
                    )
                ]
                if any(cell != "–" for cell in cells):
                    peers = [cell.split(" ")[0] for cell in cells]
                    rows.append(
                        [
                            f"{machine}: {operator}, {name}",
                            cells[0],
                            *peers[1:4],
                            cells[4],
                            peers[5],
                        ]
                    )
    head = [
        "",
        "twinops, to 32 768 columns",
        "PyTorch",
        "torch.compile",
        "Triton",
        "twinops, longer rows",
        "PyTorch",
    ]
    return markdown(head, rows)


def others(dropout, lists, masks):
    """Shares of the copy rate of dropout, lists and masked softmax."""

    def drop(what, peer):
        return " / ".join(
            (
                data_rows[0]["share"]
                if (data_rows := dropout.where(type=t, what=what, peer=peer))
                else "–"
            )
            for t in ("float16", "float32")
        )

    def of_list(name, column):
        return " / ".join(
            f"{float(lists.where(list=name, type=t)[0][column]):.2f}"
            for t in ("float16", "float32")
        )

    def masked(type_name, column, scale):
        return spread(
            r.get(column) for r in masks.where(type=type_name) if (r["mask"] == "scale") == scale
        )

    rows = [
        [
            "dropout, forward: a bit mask; the peers a byte mask, none, none",
            drop("forward, bit mask", "twinops"),
            drop("forward, byte mask", "PyTorch"),
            drop("forward, no mask", "torch.compile"),
            drop("forward, no mask", "Triton"),
        ],
        [
            "dropout, backward: a byte mask",
            drop("backward, byte mask", "twinops"),
            drop("backward, byte mask", "PyTorch"),
            "–",
            "–",
        ],
        *(
            [
                f"check_finite_and_unscale, {label}",
                of_list(name, "share"),
                of_list(name, "peer_share"),
                "–",
                "–",
            ]
            for name, label in (
                ("resnet50", "ResNet-50's 161 tensors"),
                ("bert_large", "BERT-large's 391"),
                ("300x1024", "300 of 1024"),
                ("2000x256", "2000 of 256"),
            )
        ),
        *(
            [
                f"softmax under {what}, {t}",
                masked(t, "share", scale),
                masked(t, "torch_share", scale),
                masked(t, "compile_share", scale),
                "–",
            ]
            for scale, what in ((True, "a scale alone"), (False, "a scale and masks"))
            for t in ("bfloat16", "float32")
        ),
    ]
    return markdown(
        [
            "float16 / float32, where a cell has two",
            "twinops",
            "PyTorch",
            "torch.compile",
            "Triton",
        ],
        rows,
    )


def cpu(zen, xeon, torch):
    """How many times as fast as the peer, medians over lengths and runs."""

    def beside(data, elements, threads):
        return spread(r["ratio"] for r in data.where(elements=elements, threads=threads))

    def beside_torch(type_name, elements, operators):
        return spread(
            r["ratio"]
            for r in torch.where(type=type_name, elements=elements, inner=1)
            if r["what"] in operators
        )

    rows = [
        [
            f"softmax, float32, beside oneDNN: {name}, {threads} thread{'s' * (threads > 1)}",
            beside(data, 1 << 16, threads),
            beside(data, 1 << 23, threads),
        ]
        for name, data in (("Zen 5", zen), ("Xeon", xeon))
        for threads in (1, 2)
    ]
    rows += [
        [
            f"{what}, {t}, beside PyTorch: Xeon, 1 thread",
            beside_torch(t, 1 << 16, operators),
            beside_torch(t, 1 << 23, operators),
        ]
        for t in ("float32", "bfloat16")
        for what, operators in (
            ("softmax and log_softmax", OPERATORS[:2]),
            ("the gradients", OPERATORS[2:]),
        )
    ]
    return markdown(["times as fast: median (least to most)", "in the caches", "from memory"], rows)


def fill(text, tables):
    """`text` with each named table between its marks."""
    for name, table in tables.items():
        marks = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end of table -->)", re.S)
        text, found = marks.subn(lambda m: m[1] + "\n" + table + "\n\n" + m[2], text)
        if found != 1:
            raise SystemExit(f"docs/performance.md has {found} places for the table {name}")
    return text
