"""Charts as inline SVG, drawn by hand: text that scales, prints, and takes its colours from the page.

Every function returns the elements inside an ``<svg>`` of `WIDTH` and the height that it needs.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from leap.predictor.features.batch import Floats

WIDTH = 720
LEFT, RIGHT, TOP, BOTTOM = 190, 60, 8, 34
ROW = 20
PLOT = 300  # height of a chart with two axes
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Drawing(NamedTuple):
    """What a chart is made of."""

    height: float
    body: str


class Scale:
    """Values to pixels, evenly or in the logarithm."""

    def __init__(self, low: float, high: float, first: float, last: float, log: bool = False) -> None:
        self._log = log
        self.low, self.high = low, high if high > low else low + 1.0
        self._first, self._last = first, last

    def __call__(self, value: float) -> float:
        low, high, clipped = self.low, self.high, min(max(value, self.low), self.high)
        if self._log:
            low, high, clipped = np.log(low), np.log(high), np.log(clipped)
        return float(self._first + (clipped - low) / (high - low) * (self._last - self._first))

    def ticks(self) -> list[float]:
        """Five or so round values."""
        if self._log:
            exponents = range(int(np.ceil(np.log10(self.low))), int(np.floor(np.log10(self.high))) + 1)
            return [10.0**exponent for exponent in exponents][:: max(1, len(exponents) // 6)]
        step = 10 ** np.floor(np.log10((self.high - self.low) / 4))
        step *= next(factor for factor in (1, 2, 5, 10) if (self.high - self.low) / (step * factor) <= 6)
        return list(np.arange(np.ceil(self.low / step), np.floor(self.high / step) + 1) * step)


def bars(rows: Sequence[tuple[str, float, str]], mark: float | None = None) -> Drawing:
    """Horizontal bars: label, value, text behind it; `mark` is a value to compare with."""
    scale = Scale(min([0.0, *(value for _, value, _ in rows)]), _most(rows, mark), LEFT, WIDTH - RIGHT)
    parts = []
    for number, (label, value, text) in enumerate(rows):
        y = TOP + ROW * number
        left, right = sorted((scale(0.0), scale(value)))
        parts += [
            _text(LEFT - 8, y + 14, label, "end"),
            _box(left, y + 3, right - left, ROW - 6, "one"),
            _text(max(right, 0.0 if mark is None else scale(mark)) + 6, y + 14, text),
        ]
    bottom = TOP + ROW * len(rows)
    if mark is not None:
        parts.append(_line(scale(mark), scale(mark), TOP, bottom, "mark"))
    return Drawing(bottom + 8, "".join(parts))


def ranges(rows: Sequence[tuple[str, Sequence[float]]]) -> Drawing:
    """On a logarithmic axis, of each row five quantiles: whiskers, box and median."""
    values = np.array([five for _, five in rows])
    scale = Scale(float(values.min()), float(values.max()), LEFT, WIDTH - RIGHT, log=True)
    bottom = TOP + ROW * len(rows)
    parts = [_vertical(scale, bottom)]
    for number, (label, five) in enumerate(rows):
        y = TOP + ROW * number + ROW / 2
        least, low, middle, high, most = map(scale, five)
        parts += [
            _text(LEFT - 8, y + 4, label, "end"),
            _line(least, most, y, y, "whisker"),
            _box(low, y - 5, high - low, 10, "one"),
            _line(middle, middle, y - 8, y + 8, "mark"),
        ]
    return Drawing(bottom + BOTTOM, "".join(parts))


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]], names: Mapping[float, str] | None = None, low: float = 0.0
) -> Drawing:
    """Lines over one axis, each with its name at its end; `names` are labels of x instead of numbers."""
    points = [point for line in series.values() for point in line]
    x = Scale(min(p[0] for p in points), max(p[0] for p in points), 60, WIDTH - 130)
    y = Scale(low, max(p[1] for p in points), TOP + PLOT, TOP + 10)
    parts = [_horizontal(y, 60, WIDTH - 130)]
    labels = names or {value: f"{value:g}" for value in x.ticks()}
    parts += [_text(x(value), TOP + PLOT + 20, label, "middle") for value, label in labels.items()]
    ends: list[float] = []
    for kind, (name, line) in zip(("one", "two", "three"), series.items(), strict=False):
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in line)
        parts.append(f'<polyline class="{kind}" points="{path}"/>')
        parts += [f'<circle class="{kind}" cx="{x(a):.1f}" cy="{y(b):.1f}" r="3"/>' for a, b in line if len(line) < 40]
        end = y(line[-1][1]) + 4
        while any(abs(end - other) < 15 for other in ends):
            end += 15
        ends.append(end)
        parts.append(_text(x(line[-1][0]) + 8, end, name))
    return Drawing(TOP + PLOT + BOTTOM, "".join(parts))


def density(x: Floats, y: Floats, x_name: str, y_name: str, bins: int = 60) -> Drawing:
    """Two values of many attempts on logarithmic axes, the more in a square the darker; within the band is ±20%."""
    low, high = float(min(x.min(), y.min())), float(max(x.max(), y.max()))
    across, up = Scale(low, high, 70, WIDTH - 30, log=True), Scale(low, high, TOP + 420, TOP, log=True)
    edges = np.geomspace(low, high * (1 + 1e-9), bins + 1)
    counts, _, _ = np.histogram2d(x, y, bins=(edges, edges))
    parts = [_vertical(across, TOP + 420), _horizontal(up, 70, WIDTH - 30, "e")]
    for column, row in np.argwhere(counts > 0):
        shade = 0.15 + 0.85 * np.log1p(counts[column, row]) / np.log1p(counts.max())
        box = (across(edges[column]), up(edges[row + 1]), (WIDTH - 100) / bins, 420 / bins)
        parts.append(_box(*box, "one", f' fill-opacity="{shade:.2f}"'))
    for factor in (0.8, 1.0, 1.2):
        ends = (max(low, low / factor), min(high, high / factor))
        start, stop = ((across(end), up(end * factor)) for end in ends)
        parts.append(_line(start[0], stop[0], start[1], stop[1], "mark" if factor == 1.0 else "whisker"))
    parts.append(_text(WIDTH / 2, TOP + 460, x_name, "middle"))
    parts.append(
        f'<text transform="translate(14 {TOP + 210}) rotate(-90)" text-anchor="middle">{escape(y_name)}</text>'
    )
    return Drawing(TOP + 470, "".join(parts))


def grid(rows: Sequence[str], columns: Sequence[str], shares: Floats) -> Drawing:
    """Share, 0 to 1, of each row by column: the larger the darker, with its percent where there is room."""
    width = (WIDTH - LEFT - 70) / max(1, len(columns))  # the last name leans over the edge
    head = 96
    parts = []
    for column, name in enumerate(columns):
        transform = f"translate({LEFT + width * (column + 0.6):.1f} {head - 6}) rotate(-50)"
        parts.append(f'<text transform="{transform}">{escape(name)}</text>')
    for row, name in enumerate(rows):
        y = head + ROW * row
        parts.append(_text(LEFT - 8, y + 14, name, "end"))
        for column in range(len(columns)):
            share = float(shares[row, column])
            parts.append(_box(LEFT + width * column, y + 1, width - 2, ROW - 2, "one", f' fill-opacity="{share:.2f}"'))
            if share >= 0.05 and width > 26:
                kind = "inverse" if share > 0.55 else "plain"
                x = LEFT + width * (column + 0.5) - 1
                parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y + 14}" text-anchor="middle">{share:.0%}</text>')
    return Drawing(head + ROW * len(rows) + 8, "".join(parts))


def svg(drawing: Drawing, title_id: str) -> str:
    """The element, named by the element of the page with that id."""
    return f'<svg viewBox="0 0 {WIDTH} {drawing.height:g}" role="img" aria-labelledby="{title_id}">{drawing.body}</svg>'


def _most(rows: Iterable[tuple[str, float, str]], mark: float | None) -> float:
    return max([1e-9, *(value for _, value, _ in rows), *([] if mark is None else [mark])]) * 1.12


def _vertical(scale: Scale, bottom: float) -> str:
    return "".join(
        _line(scale(tick), scale(tick), TOP, bottom, "grid") + _text(scale(tick), bottom + 18, _short(tick), "middle")
        for tick in scale.ticks()
    )


def _horizontal(scale: Scale, left: float, right: float, kind: str = "g") -> str:
    return "".join(
        _line(left, right, scale(tick), scale(tick), "grid")
        + _text(left - 6, scale(tick) + 4, _short(tick) if kind == "e" else f"{tick:g}", "end")
        for tick in scale.ticks()
    )


def _short(value: float) -> str:
    return f"{value:g}" if 0.01 <= value < 10_000 else "10" + str(round(np.log10(value))).translate(RAISED)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, x2: float, y1: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _box(x: float, y: float, width: float, height: float, kind: str, more: str = "") -> str:
    size = f'width="{max(width, 0.5):.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" {size}{more}/>'
