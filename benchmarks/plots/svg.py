"""What the pictures of plot.py are drawn with: text, bars and curves as SVG, in light and in dark."""

import math
import statistics
from html import escape

# The colours in light and in dark: background, text, soft text, grid, edge, and four curves.
LIGHT = "#ffffff #1f2328 #59636e #e4e8ec #d1d9e0 #0b62d6 #d1660b #8957c9 #2b8a3e".split()
DARK = "#0f141a #e6edf3 #9aa5b1 #252c35 #343c46 #58a6ff #f0964b #b995f0 #56c271".split()


def colours(back, ink, soft, grid, edge, *curves):
    rules = [
        f".back{{fill:{back};stroke:{edge}}}text{{fill:{ink}}}.s{{fill:{soft}}}",
        f".g{{stroke:{grid}}}.one{{stroke:{soft}}}",
    ]
    rules += [f".{k}{{stroke:{c}}}.f{k}{{fill:{c}}}" for k, c in zip("abcd", curves)]
    return "".join(rules)


STYLE = (
    'text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}'
    "text.s{font-size:11.5px}text.h{font-size:16px;font-weight:600}text.p{font-weight:600}"
    ".one{stroke-dasharray:5 4}.l{fill:none;stroke-width:1.7;stroke-linejoin:round}"
    ".w{stroke-width:2.6}"
    + colours(*LIGHT)
    + "@media(prefers-color-scheme:dark){"
    + colours(*DARK)
    + "}"
)


class Picture:
    def __init__(self, width, height, title, subtitle):
        self.width, self.height = width, height
        self.parts = [f'<rect class="back" width="{width}" height="{height}" rx="8"/>']
        self.title = title
        self.text(24, 32, title, "h")
        self.text(24, 52, subtitle, "s")

    def text(self, x, y, what, kind="", anchor=""):
        anchor = f' text-anchor="{anchor}"' if anchor else ""
        kind = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}"{kind}{anchor}>{escape(what)}</text>')

    def line(self, x1, y1, x2, y2, kind):
        self.parts.append(f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>')

    def curve(self, points, kind):
        if len(points) > 1:
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            self.parts.append(f'<path class="l {kind}" d="M{path}"/>')
        radius = 3 if len(points) < 12 else 1.6
        for x, y in points:
            self.parts.append(
                f'<circle class="f{kind[0]}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'
            )

    def bar(self, x, y, width, height, kind):
        self.parts.append(
            f'<rect class="f{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(1, width):.1f}" '
            f'height="{height:g}" rx="2"/>'
        )

    def legend(self, x, y, names):
        """`names`: the colour of each name; drawn from x on, to the right."""
        for kind, name in names:
            self.line(x, y - 4, x + 22, y - 4, f"l w {kind}")
            self.text(x + 28, y, name)
            x += 52 + 7 * len(name)

    def svg(self):
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'role="img"><title>{escape(self.title)}</title><style>{STYLE}</style>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def short(n):
    """1024 -> 1K, 2^20 -> 1M."""
    for power, letter in ((20, "M"), (10, "K")):
        if n >= 1 << power:
            return f"{n >> power}{letter}"
    return str(n)


class Panel:
    """Curves over columns. `top`: the greatest value of the vertical axis."""

    def __init__(self, picture, x, y, width, height, title, top, ticks, columns, label=str):
        self.picture, self.x, self.y, self.width, self.height = picture, x, y, width, height
        self.top = top
        self.low, self.high = math.log2(min(columns)) - 0.3, math.log2(max(columns)) + 0.3
        picture.text(x, y - 10, title, "p")
        for tick in ticks:
            at = self.at(1, tick)[1]
            picture.line(x, at, x + width, at, "one" if tick == 1 else "g")
            picture.text(x - 7, at + 4, label(tick), "s", "end")
        power = math.ceil(self.low / 2) * 2
        while power <= self.high:
            at = self.at(2.0**power, 0)[0]
            picture.line(at, y, at, y + height, "g")
            picture.text(at, y + height + 17, short(1 << power), "s", "middle")
            power += 2

    def at(self, columns, value):
        return (
            self.x + (math.log2(columns) - self.low) / (self.high - self.low) * self.width,
            self.y + self.height * (1 - min(value, self.top) / self.top),
        )

    def curve(self, points, kind):
        """`points`: (columns, value) pairs; of several values at one length the median."""
        lengths = sorted({columns for columns, _ in points})
        medians = [(c, statistics.median(v for d, v in points if d == c)) for c in lengths]
        self.picture.curve([self.at(*point) for point in medians], kind)

    def rate_axis(self, copy):
        """What the shares are in TB/s, `copy` being the rate of a copy."""
        for rate in range(1, math.floor(copy * self.top) + 1):
            self.picture.text(
                self.x + self.width + 5, self.at(1, rate / copy)[1] + 4, str(rate), "s"
            )
        self.picture.text(self.x + self.width + 5, self.y - 10, "TB/s", "s")
