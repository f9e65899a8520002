"""The figures as PNG, for what takes no SVG: drawn by resvg, in the colours of the page in the light."""

import re
from collections.abc import Iterator
from html import escape
from importlib import resources

from leap.retrainer.report.figures import Figure
from leap.retrainer.report.svg_charts import WIDTH
from leap.schemas.distribution import install_command
from leap.schemas.errors import LeapError

#: Pixels for each unit of the drawing.
ZOOM = 2.0
#: Above the drawing, for its title.
HEAD = 34
#: Fonts of servers and desktops; resvg takes the first that is installed.
FONTS = "'DejaVu Sans', 'Liberation Sans', 'Noto Sans', Arial, Helvetica"


class NoRenderer(LeapError, RuntimeError):
    """Figures cannot be rendered here; the text says what is missing."""


def pictures(figures: list[Figure]) -> Iterator[tuple[str, bytes]]:
    """Name, made of the title's first words, and PNG of each figure.

    Raises
    ------
    NoRenderer
        If resvg or a font is not installed.
    """
    render = _Renderer()
    for figure in figures:
        name = "-".join(re.findall(r"[a-z0-9]+", figure.title.partition(":")[0].partition(";")[0].lower()))
        height = figure.drawing.height + HEAD
        yield (
            f"{name}.png",
            render(
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}">'
                f'<text class="title" x="8" y="22">{escape(figure.title)}</text>'
                f'<g transform="translate(0 {HEAD})">{figure.drawing.body}</g></svg>'
            ),
        )


class _Renderer:
    """resvg with the style of the page; it knows neither variables nor queries of media."""

    def __init__(self) -> None:
        try:
            from resvg_py import svg_to_bytes  # nothing else needs it
        except ImportError:
            raise NoRenderer(f"PNG needs the package resvg-py; run: {install_command('png')}") from None
        self._draw = svg_to_bytes
        css = resources.files("leap.retrainer.report").joinpath("report.css").read_text(encoding="utf-8")
        colours = dict(re.findall(r"--(\w+): ([^;}\s]+)", css[: css.index("@media")]))
        rules = "\n".join(re.findall(r"^svg [^{]+\{[^}]+\}|(?<=\} )svg [^{]+\{[^}]+\}", css, re.MULTILINE))
        self._style = (
            re.sub(r"var\(--(\w+)\)", lambda match: colours[match[1]], rules)
            + f"\ntext {{ font-family: {FONTS}; font-size: 12px }} .title {{ font-size: 14px; font-weight: bold }}"
        )
        empty, text = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">', '<text y="15">A</text>'
        if self(f"{empty}</svg>") == self(f"{empty}{text}</svg>"):
            raise NoRenderer(f"PNG needs one of the fonts {FONTS}; on Debian: fonts-dejavu-core")

    def __call__(self, text: str) -> bytes:
        return self._draw(text, style_sheet=self._style, background="#ffffff", zoom=ZOOM)
