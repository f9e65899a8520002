"""Candidates, preferences and allocation of hardware in the simulated fleet."""

import numpy as np

from leap.streams.simulator import constants as c
from leap.streams.simulator.job_families import Bools, Families, fresh
from leap.streams.simulator.model_types import Floats, Ints, ModelTypes
from leap.streams.simulator.roofline import Machines, memory_needed

HOURS = 24


def eligibility(
    types: ModelTypes, families: Families, machines: Machines, names: tuple[str, ...], rng: np.random.Generator
) -> tuple[Bools, Floats]:
    """Candidates and habit of each family, family × hardware type.

    A habit is a log-preference: by model size, model type and family, independent of the real efficiency. Candidates
    are the 3 to 14 most preferred types with enough memory, or the two with the most memory if few have.
    """
    pools = [c.POOLS[name] for name in names]
    work = np.log(types.flops)
    mean = types.share @ work
    lighter = np.clip((mean - work) / np.sqrt(types.share @ (work - mean) ** 2), -2.5, 2.5)
    affinity = np.outer(lighter, [p.tilt for p in pools]) + np.outer(lighter**2 - 1, [p.breadth for p in pools])
    of_type = affinity + fresh(rng).gumbel(0, c.TYPE_HABIT_SPREAD, (len(types), len(names)))
    habit = of_type[families.model_type] + fresh(rng).gumbel(0, c.HABIT_SPREAD, (len(families), len(names)))
    habit += np.log([p.capacity for p in pools])
    first = families.configurations.take(np.arange(len(families)), np.zeros(len(families), dtype=np.int64))
    fits = memory_needed(types, families.model_type, first)[:, None] <= machines.memory
    fits |= machines.memory >= np.sort(machines.memory)[-2]
    liked = np.where(fits, habit, -np.inf)
    preference_rank = np.argsort(np.argsort(-liked, axis=1), axis=1)
    return fits & (preference_rank < fresh(rng).integers(3, 15, len(families))[:, None]), habit


def allocate(candidates: Bools, wish: Floats, hour: Ints, capacity: Floats) -> Ints:
    """Allocate to each attempt, in order of submission, its most preferred candidate with free capacity.

    Parameters
    ----------
    candidates, wish
        Attempt × hardware type.
    hour
        Hour of the day of each attempt, ascending.
    capacity
        Attempts per hour of each hardware type. An attempt without any free candidate waits for its first choice.

    Returns
    -------
    Hardware type of each attempt.
    """
    machines = len(capacity)
    hours = np.arange(HOURS + 1)[:, None] * capacity
    room = np.diff(np.floor(hours), axis=0).astype(np.int64).ravel()
    choices = np.argsort(np.where(candidates, -wish, np.inf), axis=1, kind="stable")
    allocated = choices[:, 0].copy()
    waiting = np.arange(len(hour))
    options = candidates.sum(axis=1)
    for turn in range(machines):
        waiting = waiting[options[waiting] > turn]
        if len(waiting) == 0:
            break
        slot = hour[waiting] * machines + choices[waiting, turn]
        order = np.argsort(slot, kind="stable")
        ordered = slot[order]
        start = np.searchsorted(ordered, ordered)
        placed = order[np.arange(len(order)) - start < room[ordered]]
        allocated[waiting[placed]] = choices[waiting[placed], turn]
        room -= np.bincount(slot[placed], minlength=len(room))
        waiting = np.delete(waiting, placed)
    return allocated
