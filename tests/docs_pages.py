"""Commands of the documents: found, split, and compared with what they print."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

_block = re.compile(
    r"(?:<!-- not run: (?P<why>[^\n]+?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_indented = re.compile(r"(?:<!-- not run: (?P<why>[^\n]+?) -->\n)?(?P<text>(?:^    \S[^\n]*\n)+)", re.MULTILINE)


class Command(NamedTuple):
    """One line that a reader may type.

    Attributes
    ----------
    why
        Why it cannot run in the tests; empty if it runs.
    shown
        What the document shows that it prints.
    """

    line: str
    why: str
    shown: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The command and its arguments, without comment and ``&``."""
        return [word for word in shlex.split(self.line, comments=True) if word != "&"]


def commands(text: str) -> Iterator[Command]:
    """Every command of a page, in its order."""
    fenced = [(found.start(), found) for found in _block.finditer(text)]
    bare = _block.sub(lambda found: re.sub(r"[^\n]", "#", found[0]), text)
    places = fenced + [(found.start(), found) for found in _indented.finditer(bare)]
    for _, found in sorted(places, key=lambda place: place[0]):
        language = found.groupdict().get("language", "")
        if language == "console":
            yield from _console(found["text"], found["why"] or "")
        elif language in ("", "sh"):
            joined = re.sub(r"\\\n\s*", "", found["text"])
            for line in joined.splitlines():
                if re.match(r"leap |sleep \d", line.strip()):
                    yield Command(line.strip(), found["why"] or "")


def _console(text: str, why: str) -> Iterator[Command]:
    for one in re.split(r"(?m)^\$ ", text)[1:]:
        line, *shown = one.splitlines()
        yield Command(line, why, tuple(shown))


def shape(line: str) -> list[str]:
    """Words of a line whose digits, versions and addresses do not matter.

    >>> shape("ok   7 as declared at 127.0.0.1:90")
    ['ok', '#', 'as', 'declared', 'at', '#']
    """
    return [re.sub(r"\S*\d\S*", "#", word) for word in line.split()]


def differs(shown: tuple[str, ...], printed: str) -> str:
    """First line that a document shows and the command did not print, in their order; … stands for any lines."""
    rest = iter([shape(line) for line in printed.splitlines()])
    for line in shown:
        if line.strip() in ("", "…"):
            continue
        if not any(shape(line) == other for other in rest):
            return line
    return ""


def broken_links(page: Path) -> list[str]:
    """Links to files that are not there, or to headings that their page does not have."""
    found = []
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
        name, _, heading = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists() or (heading and heading not in _headings(file.read_text())):
            found.append(target)
    return found


def _headings(text: str) -> set[str]:
    """Anchors of a page, as GitHub makes them."""
    titles = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
