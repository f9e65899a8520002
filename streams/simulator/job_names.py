"""Job names: the family, and a run-specific part in one of eight styles."""

import datetime as dt

from leap.streams.simulator.day_batch import DayBatch

_USERS = ("alice", "bob", "chen", "dana", "emre", "fatima", "goran", "hiro")


def job_names(batch: DayBatch) -> list[str]:
    """Name of each attempt. A family keeps its style; run identifiers derive from time and number."""
    families = batch.families
    rows = zip(batch.family.tolist(), batch.submitted.tolist(), strict=True)
    return [
        _name(families.names[family], int(families.style[family]), milliseconds // 1000, batch.day, row)
        for row, (family, milliseconds) in enumerate(rows)
    ]


def _name(family: str, style: int, second: int, day: int, row: int) -> str:
    match style:
        case 0:
            return f"{family}-{dt.datetime.fromtimestamp(second, dt.UTC):%Y-%m-%d}"
        case 1:
            return f"{family}_{dt.datetime.fromtimestamp(second, dt.UTC):%Y%m%d_%H%M%S}"
        case 2:
            mixed = second * 2_654_435_761 + row * 40_503
            return f"{family}-{mixed % (1 << 32):08x}-{day:04x}-4{row % 4096:03x}-8000-{mixed % (1 << 48):012x}"
        case 3:
            return f"{family}.{_USERS[row % len(_USERS)]}.run{1 + row % 40}"
        case 4:
            return f"{family}-attempt-{1 + row % 3}"
        case 5:
            return f"{family}/run_{100 * day + row % 100}"
        case 6:
            return f"{family}-{row % 10}{'abcdef'[second % 6]}{second * 7919 % (1 << 28):07x}"
        case _:
            return f"{family}-{second}"
