"""Daily partitions of the feature table: Parquet, one directory a day, a day being when attempts finished."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from io import BytesIO
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from leap.predictor.features.history import SECONDS_PER_DAY
from leap.predictor.history import definitions
from leap.predictor.history.definitions import Definitions
from leap.retrainer.dataset.feature_table import frame, normalise
from leap.retrainer.dataset.record import Record
from leap.retrainer.storage.files import Files, open_files
from leap.retrainer.storage.overlay import Overlay
from leap.schemas.events import JobAttempt
from leap.schemas.hardware import Catalog

FILE = "attempts.parquet"


class Partitions:
    """Partitions under a directory or an fsspec URL.

    Parameters
    ----------
    root
        Holds ``day=YYYY-MM-DD/attempts.parquet``.
    catalog
        By whose names rows are read, whatever they were written under; without one as they were written.
    files
        Where they are kept; those under `root` unless given.

    Attributes
    ----------
    files
        All files under the root: reports and statistics lie beside the partitions.
    """

    def __init__(self, root: str | Path, catalog: Catalog | None = None, files: Files | None = None) -> None:
        self.root = root
        self._catalog = catalog
        self.files = files or open_files(root)

    def for_trial(self) -> "Partitions":
        """The same partitions, of which whatever is written stays in memory."""
        return Partitions(self.root, self._catalog, Overlay(self.files))

    @property
    def is_trial(self) -> bool:
        """Whether what is written stays in memory."""
        return isinstance(self.files, Overlay)

    def days(self) -> list[date]:
        """Days that have a partition, in order."""
        names = self.files.names(f"day=*/{FILE}")
        return [date.fromisoformat(name.split("/")[0].removeprefix("day=")) for name in names]

    def read(self, days: Iterable[date], columns: list[str] | None = None) -> pd.DataFrame:
        """Rows of those of `days` that there are, in order of day, then of finish.

        Of one attempt, which a corrected completion may have put on another day too, the last row stays; without the
        column of attempts every row does. A column that a partition does not have is missing in its rows.
        """
        parts = [part for day in sorted(days) if (part := self._read(day, columns)) is not None]
        rows = pd.concat(parts, ignore_index=True) if parts else frame(())
        if self._catalog and "hardware_type" in rows:
            known = {name: self._catalog.canonical(name) for name in rows["hardware_type"].dropna().unique()}
            rows["hardware_type"] = rows["hardware_type"].map(known).astype(object)
        if "attempt_id" in rows:
            rows = rows.drop_duplicates("attempt_id", keep="last", ignore_index=True)
        return rows.reindex(columns=columns) if columns else normalise(rows)

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
        present = {*self.days()}
        if not present:
            self._begin_record()
        rows, written = normalise(rows), []
        day_number = np.floor(rows["finished_at"].to_numpy(float) / SECONDS_PER_DAY).astype(int)
        for number in np.unique(day_number):
            day = day_of(int(number))
            merged = rows[day_number == number]
            if day in present:
                merged = normalise(pd.concat([self.read([day]), merged], ignore_index=True))
            merged = merged.drop_duplicates("attempt_id", keep="last").sort_values(["finished_at", "attempt_id"])
            self.files.write(_name(day), merged.to_parquet(index=False, compression="zstd"))
            written.append(day)
        return written

    def _begin_record(self) -> None:
        """Say that nothing was absorbed, or new partitions would be taken for those of before there were records."""
        record = Record.read(self.files) or Record()
        if record.offsets is None:
            msgspec.structs.replace(record, offsets={}).write(self.files)

    def ingest(self, attempts: Iterable[JobAttempt]) -> list[date]:
        """`merge` of joined attempts."""
        return self.merge(frame(attempts))

    def absorb(self, attempts: Iterable[JobAttempt], offsets: Mapping[str, int]) -> list[date]:
        """`ingest`, and then record the offsets that the topic was read to."""
        written = self.ingest(attempts)
        record = Record.read(self.files) or Record()
        msgspec.structs.replace(record, offsets={**(record.offsets or {}), **offsets}).write(self.files)
        return written

    def learned(self, days: Iterable[date]) -> None:
        """Record that a training run has learned from those of `days` that there are."""
        record, sizes = Record.read(self.files) or Record(), self.sizes()
        learned = {day: size for day, size in record.learned.items() if day in sizes}
        learned |= {day: sizes[day] for day in days if day in sizes}
        msgspec.structs.replace(record, learned=learned).write(self.files)

    def unlearned(self) -> list[date]:
        """Days that no training run has learned from as they are, in order."""
        learned = (Record.read(self.files) or Record()).learned
        return [day for day, size in self.sizes().items() if learned.get(day) != size]

    def prune(self, doomed: Iterable[date]) -> None:
        """Remove the partitions of days."""
        for day in doomed:
            self.files.remove(_name(day))

    def sizes(self) -> dict[date, int]:
        """Day to the length of its partition in bytes, which tells whether it has changed."""
        return {day: self.files.size(_name(day)) for day in self.days()}

    def definitions(self) -> Definitions:
        """Those that were kept beside the partitions."""
        try:
            return Definitions.from_json(self.files.read(definitions.FILE))
        except FileNotFoundError:
            return Definitions()

    def keep_definitions(self, known: Definitions) -> None:
        """Keep them for the nights to come, whose window may not reach back to who stated them."""
        self.files.write(definitions.FILE, known.to_json())

    def _read(self, day: date, columns: list[str] | None) -> pd.DataFrame | None:
        try:
            file = pq.ParquetFile(BytesIO(self.files.read(_name(day))))
        except FileNotFoundError:
            return None
        kept = [name for name in columns if name in file.schema_arrow.names] if columns else None
        return file.read(kept).to_pandas()


def day_of(number: int) -> date:
    """Date of a day counted from the epoch."""
    return datetime.fromtimestamp(number * SECONDS_PER_DAY, UTC).date()


def day_number(day: date) -> int:
    """Days from the epoch to a date."""
    return (day - date(1970, 1, 1)).days


def _name(day: date) -> str:
    return f"day={day.isoformat()}/{FILE}"
