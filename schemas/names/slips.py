"""One rule for names that are not known but look like one that is: say which was probably meant."""

import logging
import re
from collections.abc import Iterable
from difflib import get_close_matches

import msgspec

log = logging.getLogger(__name__)

#: Share of letters in common, by :mod:`difflib`, from which a name is taken for another.
CUTOFF = 0.8
#: Longer names are nobody's slip, and so many different ones are not looked at: both may come from a stranger.
MAX_LENGTH = 64
MAX_NAMES = 1_000
_asked: set[tuple[str, str]] = set()


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that another looks like, in whatever case and with whatever separators; none if there is none.

    Examples
    --------
    >>> known = ["batch_size", "num_trainers", "precision"]
    >>> [meant(name, known) for name in ("batchsize", "num_trainer", "numTrainers", "colour")]
    ['batch_size', 'num_trainers', 'num_trainers', None]
    """
    if len(name) > MAX_LENGTH or not name.isprintable():
        return None
    plain = {_plain(other): other for other in known}
    found = get_close_matches(_plain(name), plain, n=1, cutoff=CUTOFF)
    return plain[found[0]] if found else None


def warn_of_slips(unknown: Iterable[str], known: Iterable[str], where: str) -> None:
    """Log a warning for each unknown name that looks like a known one, once a process.

    Parameters
    ----------
    where
        What has the names: an event, the environment.
    """
    for name in unknown:
        if (where, name) in _asked or len(_asked) >= MAX_NAMES:
            continue
        _asked.add((where, name))
        if other := meant(name, known):
            log.warning("%s: `%s` is not known, and is ignored; is `%s` meant?", where, name, other)


def with_meant(error: msgspec.ValidationError, *structs: type[msgspec.Struct]) -> str:
    """The text of an error, and where it is about an unknown field the field of `structs` that it looks like.

    Examples
    --------
    >>> from leap.schemas.launch import LaunchConfig
    >>> fields = {"num_trainers": 1, "accelerators_per_trainer": 8, "batchsize": 4}
    >>> try:
    ...     msgspec.convert(fields, LaunchConfig)
    ... except msgspec.ValidationError as error:
    ...     print(with_meant(error, LaunchConfig))
    Object contains unknown field `batchsize`; is `batch_size` meant?
    """
    text = str(error)
    unknown = re.match(r"Object contains unknown field `(.*?)`", text)
    known = [name for struct in structs for name in struct.__struct_fields__]
    other = meant(unknown[1], known) if unknown else None
    return f"{text}; is `{other}` meant?" if other else text


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())
