"""The outcome of all faults as a table."""

from collections.abc import Sequence

from tests.faults.run import Row

HEAD = (
    "fault", "events", "times", "killed", "in flight", "lost", "doubled", "wrong", "unanswered", "no opinion",
    "unjoined", "gaps", "misplaced", "s", "s to recover", "MiB",
)  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Format rows in Markdown."""
    lines = [HEAD, ("---",) * len(HEAD), *map(_cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    found = row.verdict
    counts = (row.events, row.times, row.deaths.get(-9, 0), row.in_flight, found.lost, found.doubled, found.wrong)
    rest = (found.unanswered, found.no_opinion.total(), found.unjoined, found.gaps, found.misplaced)
    cells = [*map(str, counts), *map(str, rest), f"{row.seconds:.0f}", f"{row.recovered_s:.1f}", f"{row.peak_mib:.0f}"]
    return row.fault, *cells
