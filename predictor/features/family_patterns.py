"""Own patterns of what differs between runs of a job, applied where events are made, which then state the family.

Workers know nothing of them: what an event states is taken as it is, so a family is the same everywhere.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from leap.predictor.features.job_family import family
from leap.schemas.errors import LeapError
from leap.schemas.events import JobCompleted, JobSubmitted
from leap.schemas.safe_yaml import YamlError, read_yaml

__all__ = ["MAX_PATTERNS", "MAX_PATTERN_LENGTH", "FamilyPatterns", "PatternError", "bounded_pattern",
           "load_family_patterns"]  # fmt: skip

MAX_PATTERNS = 32
MAX_PATTERN_LENGTH = 200
MAX_WAYS = 20_000
"""Ways in which a pattern may match from one place: one unbounded repeat in 512 characters, and a little."""

E = TypeVar("E", JobSubmitted, JobCompleted)
_UNBOUNDED = 512
_ATOM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_GROUP = re.compile(r"\(\?(?:P?<\w+>|<?[=!]|[:>])")
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{)")
_REPEAT = re.compile(r"\{(?P<least>[0-9]*),(?P<most>[0-9]*)\}|(?P<unbounded>[*+])|(?P<choice>[?|])")


class PatternError(LeapError, ValueError):
    """A pattern that is not valid or could take too long; the message names it."""


class FamilyPatterns:
    """Families by patterns of one's own, then by the rules for all names.

    Parameters
    ----------
    patterns
        Regular expressions of what is taken out of a job name, in order. A group may be optional but not repeated,
        and there may be little more than one repeat without a bound, so no name takes long.

    Raises
    ------
    PatternError
        If there are too many, or one is invalid, too long, or could take too long.

    Examples
    --------
    >>> patterns = FamilyPatterns(["-[a-z0-9]{5}$"])
    >>> patterns.family("train-bert-kqzwx")
    'train-bert'
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        if len(patterns) > MAX_PATTERNS:
            raise PatternError(f"{len(patterns)} patterns of families; at most {MAX_PATTERNS}")
        self._patterns = [bounded_pattern(pattern) for pattern in patterns]

    def family(self, job_name: str) -> str:
        """Family of a job name; of a name that the patterns take out whole, as without them."""
        text = job_name
        for pattern in self._patterns:
            text = pattern.sub("", text)
        return family(text or job_name)

    def state(self, event: E) -> E:
        """The event with its family stated; unchanged if it states one."""
        return event if event.family is not None else msgspec.structs.replace(event, family=self.family(event.job_name))


def load_family_patterns(path: Path) -> FamilyPatterns:
    """Read a YAML file with a list of patterns.

    Raises
    ------
    PatternError
        If it cannot be read, is not a list of texts, or a pattern is refused.
    """
    try:
        return FamilyPatterns(msgspec.convert(read_yaml(path), list[str]))
    except (OSError, YamlError, msgspec.ValidationError, PatternError) as error:
        raise PatternError(f"{path}: {error}") from error


def bounded_pattern(pattern: str, max_ways: int = MAX_WAYS) -> re.Pattern[str]:
    """Compile a pattern that takes no long on any text of 512 characters.

    Parameters
    ----------
    pattern
        Regular expression: no repeated group, few repeats without a bound.
    max_ways
        Ways in which it may match from one place.

    Raises
    ------
    PatternError
        If it is invalid, too long, or could take too long.
    """
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise PatternError(f"pattern {pattern[:40]!r}... is longer than {MAX_PATTERN_LENGTH} characters")
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"pattern {pattern!r}: {error}") from error
    plain = _GROUP.sub("(", _ATOM.sub("x", pattern))
    if _REPEATED_GROUP.search(plain):
        raise PatternError(f"pattern {pattern!r} repeats a group; write it without, for it could take too long")
    ways = 1
    for repeat in _REPEAT.finditer(plain):
        ways *= _ways(repeat)
    if ways > max_ways:
        raise PatternError(f"pattern {pattern!r} could take too long; bound its repeats, as in {{1,8}}")
    return compiled


def _ways(repeat: re.Match[str]) -> int:
    """In how many ways a repeat can match."""
    if repeat["choice"]:
        return 2
    if repeat["unbounded"] or not repeat["most"]:
        return _UNBOUNDED
    return max(int(repeat["most"]) - int(repeat["least"] or 0) + 1, 1)
