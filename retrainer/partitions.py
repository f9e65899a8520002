"""Daily partitions of the feature table: Parquet, one directory a day, a day being when attempts finished."""

import os
import shutil
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from predictor.features.history import SECONDS_PER_DAY
from retrainer.table import frame, normalise
from schemas.events import JobAttempt

FILE = "attempts.parquet"


class Partitions:
    """Partitions under a directory.

    Parameters
    ----------
    root
        Holds ``day=YYYY-MM-DD/attempts.parquet``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def days(self) -> list[date]:
        """Days that have a partition, in order."""
        names = (path.parent.name.removeprefix("day=") for path in self.root.glob(f"day=*/{FILE}"))
        return sorted(date.fromisoformat(name) for name in names)

    def read(self, days: Iterable[date], columns: list[str] | None = None) -> pd.DataFrame:
        """Rows of those of `days` that there are, in order of day, then of finish."""
        parts = [pd.read_parquet(self._path(day), columns=columns) for day in sorted(days) if self._path(day).exists()]
        rows = pd.concat(parts, ignore_index=True) if parts else frame(())
        return rows if columns else normalise(rows)

    def merge(self, rows: pd.DataFrame) -> list[date]:
        """Add rows to the partitions of their days; of one attempt the last row stays.

        Doing it again changes nothing. A reader sees a partition before or after, never in between.

        Returns
        -------
        list of date
            The days that were written.
        """
        if rows.empty:
            return []
        written = []
        day_number = np.floor(rows["finished_at"].to_numpy(float) / SECONDS_PER_DAY).astype(int)
        for number in np.unique(day_number):
            day = day_of(int(number))
            merged = pd.concat([self.read([day]), rows[day_number == number]], ignore_index=True)
            merged = merged.drop_duplicates("attempt_id", keep="last")
            merged = normalise(merged.sort_values(["finished_at", "attempt_id"], kind="stable"))
            self._write(day, merged)
            written.append(day)
        return written

    def absorb(self, attempts: Iterable[JobAttempt]) -> list[date]:
        """`merge` of joined attempts."""
        return self.merge(frame(attempts))

    def prune(self, before: date) -> list[date]:
        """Remove the partitions of days before `before`."""
        doomed = [day for day in self.days() if day < before]
        for day in doomed:
            shutil.rmtree(self._path(day).parent)
        return doomed

    def _path(self, day: date) -> Path:
        return self.root / f"day={day.isoformat()}" / FILE

    def _write(self, day: date, rows: pd.DataFrame) -> None:
        path = self._path(day)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{FILE}.draft")
        rows.to_parquet(draft, index=False, compression="zstd")
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(path)


def day_of(number: int) -> date:
    """Date of a day counted from the epoch."""
    return datetime.fromtimestamp(number * SECONDS_PER_DAY, UTC).date()


def day_number(day: date) -> int:
    """Days from the epoch to a date."""
    return (day - date(1970, 1, 1)).days
