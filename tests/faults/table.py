"""The outcome of all faults as a table."""

from collections.abc import Sequence

from tests.faults.run import Row

HEAD = (
    "fault", "events", "times", "killed", "rewound", "in flight", "lost", "doubled", "wrong", "unanswered",
    "no opinion", "unjoined", "gaps", "misplaced", "s", "s to recover", "MiB",
)  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Format rows in Markdown."""
    lines = [HEAD, ("---",) * len(HEAD), *map(_cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    found = row.verdict
    struck = row.events, row.times, row.deaths.get(-9, 0), row.rewound, row.in_flight
    counted = found.lost, found.doubled, found.wrong, found.unanswered, found.no_opinion.total()
    rest = found.unjoined, found.gaps, found.misplaced
    numbers = map(str, struck + counted + rest)
    return row.fault, *numbers, f"{row.seconds:.0f}", f"{row.recovered_s:.1f}", f"{found.peak_mib:.0f}"
