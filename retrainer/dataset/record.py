"""What partitions know of themselves: how far they have absorbed the topic, and which days were learned from.

The record is one file beside the partitions, ``record.json``. Offsets are written after the rows that they stand for,
and merging rows again changes nothing: a crash in between reads them again. So rows are absorbed exactly once whatever
dies, and whoever else reads the topic takes nothing from these partitions.
"""

from datetime import date

import msgspec

from leap.retrainer.storage.files import Files
from leap.schemas.errors import LeapError

FILE = "record.json"


class RecordError(LeapError, ValueError):
    """The record cannot be read; the text says what to do."""


class Record(msgspec.Struct, frozen=True):
    """What partitions hold.

    Attributes
    ----------
    offsets
        Source (``<topic id>/<partition>``) to the offset after the last attempt that was merged; none where that is not
        known, because the partitions were written before there were records.
    learned
        Day to the length in bytes that its partition had when a training run learned from it.
    """

    offsets: dict[str, int] | None = None
    learned: dict[date, int] = {}

    @classmethod
    def read(cls, files: Files) -> "Record | None":
        """The record of partitions; none of those that were written before there were records.

        Raises
        ------
        RecordError
            If the file is no record.
        """
        try:
            return msgspec.json.decode(files.read(FILE), type=cls)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise RecordError(
                f"{FILE} beside the partitions cannot be read: {error}. Remove it: attempts are then read again from "
                "where the consumer group stood before there were records, or from the beginning"
            ) from error

    def write(self, files: Files) -> None:
        """Replace the record of partitions."""
        files.write(FILE, msgspec.json.format(msgspec.json.encode(self), indent=1))
