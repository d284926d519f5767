"""Pictures of bars, one for each job and library."""

from plots.svg import Picture


def headline(softmax, dropout, lists):
    """Four jobs that people know: a bar for each library."""
    kinds = {
        "twinops": "a",
        "torch": "b",
        "PyTorch": "b",
        "torch.compile": "c",
        "triton": "d",
        "Triton": "d",
    }
    names = {"torch": "PyTorch", "triton": "Triton"}

    def shares(rows):
        return {names.get(r["peer"], r["peer"]): float(r["share"]) for r in rows if r["share"]}

    bert = lists.where(list="bert_large", type="float16")[0]
    masks = {
        "twinops": "bit mask",
        "PyTorch": "byte mask",
        "torch.compile": "no mask",
        "Triton": "no mask",
    }
    drawn = [
        r
        for r in dropout.where(type="float16")
        if r["what"] == "forward, " + masks.get(r["peer"], "")
    ]
    jobs = [
        (
            "softmax over 50 257 words, float32",
            shares(softmax.where(what="softmax", type="float32", columns=50257)),
        ),
        (
            "softmax over 1000 classes, float16",
            shares(softmax.where(what="softmax", type="float16", columns=1000)),
        ),
        ("dropout of 2²⁸ elements, float16", shares(drawn)),
        (
            "unscale BERT-large's gradients, float16",
            {"twinops": float(bert["share"]), "PyTorch": float(bert["peer_share"])},
        ),
    ]
    width, step = 1000, 22
    picture = Picture(
        width,
        320,
        "Share of the rate of a copy of the same bytes",
        f"{softmax.about['machine'].split(';')[0]}, {softmax.about['date'][:7]}. "
        "1.00 is as fast as memory. Only twinops gives the same bits on a CPU.",
    )
    for i, (title, values) in enumerate(jobs):
        x, y = 130 + i % 2 * 490, 92 + i // 2 * 118
        scale = 260
        picture.text(x, y, title, "p")
        picture.line(x + scale, y + 6, x + scale, y + 12 + step * len(values), "one")
        for k, name in enumerate(
            n for n in ("twinops", "PyTorch", "torch.compile", "Triton") if n in values
        ):
            at = y + 12 + step * k
            picture.text(x - 10, at + 12, name, "", "end")
            picture.bar(x, at, values[name] * scale, 15, kinds[name])
            picture.text(
                x + max(values[name], 1 if values[name] > 0.7 else 0) * scale + 8,
                at + 12,
                f"{values[name]:.2f}" + (f", {masks[name]}" if "dropout" in title else ""),
                "s",
            )
    return picture


def dropout(data):
    """Bars: microseconds, and a mark where a copy of the same bytes ends."""
    kinds = {"twinops": "a", "PyTorch": "b", "torch.compile": "c", "Triton": "d"}
    lines = [
        (way, mask, peer)
        for way in ("forward", "backward")
        for mask in ("no mask", "bit mask", "byte mask")
        for peer in kinds
        if data.where(what=f"{way}, {mask}", peer=peer)
    ]
    types = [t for t in ("float16", "float32") if data.where(type=t)]
    width, step, left = 1000, 24, 250
    picture = Picture(
        width,
        112 + step * len(lines) + 52,
        "dropout of 2²⁸ elements: microseconds",
        f"{data.source()}. p = 0.1. The mark is where a copy of the bytes that the job needs ends.",
    )
    picture.legend(24, 78, [(kind, name) for name, kind in kinds.items()])
    room = (width - left - 40 - 60 * (len(types) - 1)) / len(types)
    longest = max(
        float(r["us"])
        for r in data.rows
        if r["us"] and r["what"].split(",")[0] in ("forward", "backward")
    )
    for k, type_name in enumerate(types):
        x = left + k * (room + 60)
        picture.text(x, 106, type_name, "p")
        y = 118
        for i, (way, mask, peer) in enumerate(lines):
            if i and lines[i - 1][0] != way:
                y += 14
            if k == 0:
                picture.text(left - 12, y + 13, f"{way}, {mask}: {peer}", "", "end")
            for row in data.where(type=type_name, what=f"{way}, {mask}", peer=peer):
                us, share = float(row["us"]), float(row["share"])
                scale = (room - 46) / longest
                picture.bar(x, y + 1, us * scale, 16, kinds[peer])
                picture.line(x + us * share * scale, y - 2, x + us * share * scale, y + 20, "l one")
                picture.text(x + max(us, us * share) * scale + 6, y + 14, f"{us:.0f}", "s")
            y += step
    return picture


def lists(data):
    """Bars: shares of the copy rate of check_finite_and_unscale, twinops above PyTorch."""
    names = {
        "resnet50": "ResNet-50: 161 tensors",
        "bert_large": "BERT-large: 391 tensors",
        "300x1024": "300 tensors of 1024",
        "2000x256": "2000 tensors of 256",
        "1x2^28": "one tensor of 2²⁸",
    }
    types = ["float16", "float32"]
    width, step, left = 1000, 50, 200
    picture = Picture(
        width,
        112 + step * len(names) + 34,
        "check_finite_and_unscale: share of the rate of a copy",
        f"{data.source()}. In place; the peer is torch._amp_foreach_non_finite_check_and_unscale_.",
    )
    picture.legend(24, 78, [("a", "twinops"), ("b", "PyTorch")])
    room = (width - left - 40 - 60) / 2
    for k, type_name in enumerate(types):
        x = left + k * (room + 60)
        scale = (room - 60) / 1.05
        picture.text(x, 106, type_name, "p")
        picture.line(x + scale, 112, x + scale, 112 + step * len(names) + 4, "one")
        picture.text(x + scale, 112 + step * len(names) + 20, "copy", "s", "middle")
        for i, (name, label) in enumerate(names.items()):
            y = 118 + step * i
            if k == 0:
                picture.text(left - 12, y + 21, label, "", "end")
            for row in data.where(list=name, type=type_name):
                for j, (share, us, kind) in enumerate(
                    (("share", "us", "a"), ("peer_share", "peer_us", "b"))
                ):
                    if row[share]:
                        value = float(row[share])
                        picture.bar(x, y + 18 * j, value * scale, 15, kind)
                        picture.text(
                            x + max(value, 1.01 if value > 0.75 else 0) * scale + 6,
                            y + 18 * j + 12,
                            f"{float(row[us]):.3g} µs",
                            "s",
                        )
    return picture


def steps(data):
    """Bars: GB/s of each step of examples/softmax_steps, a group for each length of a row."""
    copy = float(data.about["copy GB/s"])
    columns = list(dict.fromkeys(r["columns"] for r in data.rows))
    names = list(dict.fromkeys(r["step"] for r in data.rows))
    width, step, left = 1000, 24, 130
    picture = Picture(
        width,
        104 + step * len(names) + 30,
        "softmax of float32 in five steps: GB/s",
        f"{data.source()}. The line is the rate of a copy, {copy:.0f} GB/s: memory allows no more.",
    )
    room = (width - left - 30) / len(columns)
    for k, length in enumerate(columns):
        x = left + k * room
        scale = (room - 62) / copy
        picture.text(x, 82, f"{length} columns", "p")
        picture.line(x + copy * scale, 88, x + copy * scale, 96 + step * len(names), "one")
        for i, name in enumerate(names):
            y = 94 + step * i
            if k == 0:
                picture.text(left - 12, y + 12, name, "", "end")
            for row in data.where(step=name, columns=length):
                rate = float(row["gbps"])
                picture.bar(x, y, rate * scale, 16, "a" if "twinops" in name else "b")
                edge = copy if rate > 0.75 * copy else rate
                picture.text(x + edge * scale + 6, y + 13, f"{rate:.0f}", "s")
    return picture
