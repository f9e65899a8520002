"""What a family of models is: a name, what it needs at serving, and an estimator with one interface."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from leap.retrainer.evaluation import rules
from leap.schemas.launch import ModelDefinition


class Estimator(rules.Estimator, Protocol):
    """One way to learn ln throughput from attempts, with a size."""

    def save(self, folder: Path) -> None:
        """Write what serving would load; its size is reported."""


@dataclass(frozen=True)
class Context:
    """What an estimator is made with.

    Attributes
    ----------
    seed
        Of its own randomness.
    models
        Model type to its operators and edges, where the source has them.
    options
        Values of `Family.options` that were given.
    """

    seed: int = 0
    models: Mapping[str, ModelDefinition] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """One alternative.

    Attributes
    ----------
    name
        Row in the table.
    about
        What it is.
    serving
        What a launcher needs for it, beside numpy.
    make
        Makes a fresh estimator; what it imports beyond `[retrainer]` it imports when called.
    also
        Further rows that are read from the same fit: name to what makes their estimator of the fitted one.
    options
        Those of the command that it reads, as in ``--set weights=PATH``: name to meaning.
    needs
        Of these, the ones without which it cannot run.
    """

    name: str
    about: str
    serving: str
    make: Callable[[Context], Estimator]
    also: Mapping[str, Callable[[Any], Estimator]] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
