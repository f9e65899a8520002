"""Two figures of a fleet as SVG, generated without a plotting library."""

from pathlib import Path

import numpy as np

from leap.streams.simulator.calibration_report import Description

WIDTH, LEFT, RIGHT, ROW, TOP = 800, 250, 30, 20, 50
_STYLE = "<style>text{font:12px sans-serif}.title{font-size:15px}.grid{stroke:#ddd}</style>"


def write_plots(description: Description, folder: Path) -> list[Path]:
    """Write ``marginals.svg`` and ``hardware.svg`` to `folder`, created if missing; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {"marginals.svg": _marginals(description), "hardware.svg": _hardware(description)}
    for name, text in drawn.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in drawn]


def _marginals(description: Description) -> str:
    """Simulated relative to published, one line per statistic; the band is the tolerance of 10%."""
    marginals = [marginal for marginal in description.marginals if marginal.is_ == "about"]
    parts = [_rectangle(_x(0.9, 0.5, 1.5), TOP, _x(1.1, 0.5, 1.5), TOP + ROW * len(marginals), "#eef3e6")]
    parts += [_grid(_x(value, 0.5, 1.5), len(marginals), f"{value:g}") for value in (0.5, 0.75, 1.0, 1.25, 1.5)]
    for row, marginal in enumerate(marginals):
        middle = TOP + ROW * row + ROW / 2
        x = _x(min(max(marginal.simulated / marginal.published, 0.5), 1.5), 0.5, 1.5)
        parts.append(_text(LEFT - 8, middle + 4, marginal.name.replace("at most times apart", "times"), "end"))
        parts.append(f'<circle cx="{x:.1f}" cy="{middle:.1f}" r="4" fill="#1f5a92"/>')
    return _svg("Simulated over published; the band is 10%", parts, len(marginals))


def _hardware(description: Description) -> str:
    """Median throughput of each hardware type, with the 95/5 range centred on it in ln."""
    hardware = sorted(description.hardware.items(), key=lambda item: item[1][1])
    parts = [_grid(_x(value, 0.0, 8.0), len(hardware), f"1e{value}") for value in range(0, 9, 2)]
    for row, (name, (_, median, ratio)) in enumerate(hardware):
        middle, half = TOP + ROW * row + ROW / 2, np.log10(ratio) / 2
        left, centre, right = (_x(np.log10(median) + shift, 0.0, 8.0) for shift in (-half, 0.0, half))
        parts.append(_text(LEFT - 8, middle + 4, f"{name}  ×{ratio:.0f}", "end"))
        parts.append(_rectangle(left, middle - 4, right, middle + 4, "#9bb8d3"))
        parts.append(_rectangle(centre - 1, middle - 7, centre + 1, middle + 7, "#1f5a92"))
    return _svg("Throughput, samples/s: median and width of the 95/5 range", parts, len(hardware))


def _x(value: float, low: float, high: float) -> float:
    return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _rectangle(left: float, top: float, right: float, bottom: float, fill: str) -> str:
    size = f'width="{right - left:.1f}" height="{bottom - top:.1f}"'
    return f'<rect x="{left:.1f}" y="{top:.1f}" {size} fill="{fill}"/>'


def _grid(x: float, rows: int, label: str) -> str:
    bottom = TOP + ROW * rows
    line = f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>'
    return line + _text(x, bottom + 16, label, "middle")


def _svg(title: str, parts: list[str], rows: int) -> str:
    height = TOP + ROW * rows + 30
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}">{_STYLE}'
    return head + f'<text class="title" x="20" y="26">{title}</text>' + "".join(parts) + "</svg>\n"
