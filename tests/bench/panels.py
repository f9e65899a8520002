"""Grafana's dashboard of deploy/grafana as a page without Grafana: its panels, expressions, units and places.

Drawn here because Grafana cannot be had where the suite runs; what Prometheus answers is what Grafana would draw.
"""

import json
import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from tests.services import ROOT

DASHBOARD = ROOT / "deploy" / "grafana" / "dashboards" / "leap.json"
COLOURS = ("#5794f2", "#73bf69", "#fade2a", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#c8f2c2")
ROW_PX, WIDTH, LEFT, FOOT = 30, 600, 52, 18

Line = list[tuple[float, float]]
Ask = Callable[[str], list[tuple[dict[str, str], Line]]]

STYLE = """
body { margin: 0; padding: 12px; background: #111217; color: #ccccdc; font: 13px sans-serif; }
h1 { font-size: 18px; margin: 0 0 8px; } h1 small { font-weight: normal; font-size: 12px; color: #8e8ea0; }
main { display: grid; grid-template-columns: repeat(24, 1fr); gap: 8px; }
section { box-sizing: border-box; background: #181b1f;
  border: 1px solid #2c2f36; border-radius: 2px; padding: 6px 8px; min-width: 0; }
h2 { font-size: 13px; margin: 0; } b { display: block; text-align: center; font-size: 34px; padding-top: 18px; }
svg { width: 100%; } svg text { fill: #8e8ea0; font: 11px sans-serif; } svg path { stroke: #2c2f36; }
polyline { fill: none; stroke-width: 1.5; }
p { margin: 0; font-size: 11px; } i { font-style: normal; margin-right: 10px; }
"""


def page(ask: Ask, now: float, note: str) -> str:
    """The dashboard as HTML.

    Parameters
    ----------
    ask
        Gives the series of an expression: labels and (seconds, value) points.
    now
        End of the time range; seconds since 1970.
    """
    dashboard = json.loads(DASHBOARD.read_text())
    panels = "".join(_panel(panel, ask, now) for panel in dashboard["panels"])
    title = f"<h1>{escape(dashboard['title'])} <small>{escape(note)}</small></h1>"
    return f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{title}<main>{panels}</main>"


def _panel(panel: dict[str, Any], ask: Ask, now: float) -> str:
    place, defaults = panel["gridPos"], panel["fieldConfig"]["defaults"]
    series = {}
    for target in panel["targets"]:
        for labels, line in ask(target["expr"]):
            name = target["legendFormat"]
            for label, value in labels.items():
                name = name.replace("{{" + label + "}}", value)
            series[name] = line
    draw = _graph if panel["type"] == "timeseries" else _number
    body = draw(series, defaults, place["h"] * ROW_PX - 54, now)
    style = f"grid-column: {place['x'] + 1} / span {place['w']}; height: {place['h'] * ROW_PX}px"
    return f'<section style="{style}"><h2>{escape(panel["title"])}</h2>{body}</section>'


def _number(series: dict[str, Line], defaults: dict[str, Any], height: int, now: float) -> str:
    value = next((line[-1][1] for line in series.values() if line), math.nan)
    steps = defaults["thresholds"]["steps"]
    passed = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    colour = {"text": "#ccccdc", "green": "#73bf69", "orange": "#ff9830", "red": "#f2495c"}[passed[-1]]
    return f'<b style="color: {colour}">{_text(value, defaults["unit"])}</b>'


def _graph(series: dict[str, Line], defaults: dict[str, Any], height: int, now: float) -> str:
    points = [point for line in series.values() for point in line if math.isfinite(point[1])]
    if not points:
        return "<p>no data</p>"
    first = min(at for at, _ in points)
    most = defaults.get("max") or max(value for _, value in points) * 1.05 or 1.0

    def x(at: float) -> float:
        return LEFT + (at - first) / max(1.0, now - first) * (WIDTH - LEFT)

    def y(value: float) -> float:
        return height - FOOT - value / most * (height - FOOT - 8)

    parts = []
    for share in (0.0, 0.5, 1.0):
        at = y(share * most)
        parts.append(f'<path d="M{LEFT} {at:.0f}H{WIDTH}"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{at + 4:.0f}" text-anchor="end">{_text(share * most, defaults["unit"])}</text>'
        )
    minutes = range(int((now - first) // 60) + 1)
    parts += [f'<text x="{x(first + 60 * at):.0f}" y="{height - 3}">{at} min</text>' for at in minutes]
    legend = []
    for colour, (name, line) in zip(COLOURS * 3, sorted(series.items()), strict=False):
        for run in _runs(line):
            path = " ".join(f"{x(at):.1f},{y(min(value, most)):.1f}" for at, value in run)
            parts.append(f'<polyline stroke="{colour}" points="{path}"/>')
        legend.append(f'<i><span style="color: {colour}">▬</span> {escape(name)}</i>')
    size = f'viewBox="0 0 {WIDTH} {height}" style="height: {height}px" preserveAspectRatio="none"'
    return f"<svg {size}>{''.join(parts)}</svg><p>{''.join(legend)}</p>"


def _runs(line: Line) -> Sequence[Line]:
    """The parts of a line that have values."""
    runs: list[Line] = [[]]
    for at, value in line:
        if math.isfinite(value):
            runs[-1].append((at, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _text(value: float, unit: str) -> str:
    if math.isnan(value):
        return "–"
    match unit:
        case "percentunit":
            return f"{100 * value:.3g}%"
        case "bytes":
            return f"{value / 2**20:.0f} MiB"
        case "s":
            scale, name = next((one for one in ((3600, "h"), (60, "min"), (1, "s")) if value >= one[0]), (0.001, "ms"))
            return f"{value / scale:.3g} {name}"
        case _:
            return f"{value / 1000:.3g} k" if value >= 10_000 else f"{value:.3g}"
