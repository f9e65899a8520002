"""What a terminal is shown: names come from whoever submits jobs, and may hold anything; not every one has Unicode."""

import codecs
import io
import re
from typing import TextIO

#: All but line ends and tabs that a terminal obeys rather than shows, and what turns the direction of writing.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
#: What Leap itself writes beyond ASCII.
_ASCII = {"–": "-", "·": "|", "…": "...", "×": "x", "→": "->", "≈": "~"}


def printable(text: object) -> str:
    """A text in which nothing steers the terminal: an escape character is written as such.

    >>> printable("H100[/x]\\x1b[8m")
    'H100[/x]\\\\x1b[8m'
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    wrong = error.object[error.start : error.end]
    return "".join(_ASCII.get(each) or each.encode("unicode_escape").decode() for each in wrong), error.end


codecs.register_error("leap_ascii", _in_ascii)


def tolerate(*streams: TextIO) -> None:
    """Let streams write in their own encoding what it does not have, instead of ending in an error."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="leap_ascii")
