"""The attempts of one simulated day, one column a property."""

import datetime as dt
from dataclasses import dataclass

from leap.streams.simulator.job_families import Bools, Configurations, Families
from leap.streams.simulator.model_types import Floats, Ints, ModelTypes


@dataclass(frozen=True)
class DayBatch:
    """The attempts submitted on one day, in the order of submission.

    Attributes
    ----------
    day, date
        The day, counted from the first of the fleet, and its date.
    types, families, hardware_types
        The fleet's model types, families and hardware types, which the columns index.
    family, variant, hardware
        (n,) indices: family, variant of its configuration, and hardware type that the attempt ran on.
    config
        Columns of n launch configurations.
    candidates
        (n, hardware types) whether an attempt may run on a hardware type.
    submitted, allocated, started, finished
        (n,) milliseconds since 1970, UTC.
    measured
        (n,) samples/s.
    run
        (n, 4) draws in [0, 1) behind the disorder of the events.
    """

    day: int
    date: dt.date
    types: ModelTypes
    families: Families
    hardware_types: tuple[str, ...]
    family: Ints
    variant: Ints
    config: Configurations
    candidates: Bools
    hardware: Ints
    submitted: Ints
    allocated: Ints
    started: Ints
    finished: Ints
    measured: Floats
    run: Floats

    def __len__(self) -> int:
        return len(self.family)

    @property
    def model_type(self) -> Ints:
        """Model type of each attempt, an index into `types`."""
        return self.families.model_type[self.family]
