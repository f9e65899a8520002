"""Where a mapping finds what is known of a model: in columns, in a second table, or in a folder of definitions."""

from pathlib import Path
from typing import Self

import msgspec

from leap.schemas.backfill.source import Field
from leap.schemas.launch import ModelTotals


class ModelSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One source of model definitions: `totals` alone, a `table`, or a `folder`.

    Attributes
    ----------
    totals
        Name of a total of :class:`leap.schemas.launch.ModelTotals` to its source: columns of the table of jobs, or of
        the second table if there is one. A second table's columns that are named as totals are taken without.
    precision
        Precision of the parameters, from the same columns.
    table
        A second table, one model a row.
    folder
        Definitions as `leap describe` writes them, each in a file named after its model: ``resnet50.json``.
    name
        Of a job, what names its model in the second table or the folder.
    key
        Column of the second table that has these names; that of `name` unless given.
    """

    totals: dict[str, Field] = {}
    precision: Field | None = None
    table: str | None = None
    folder: str | None = None
    name: Field | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if sum((bool(self.totals) and not self.table, self.table is not None, self.folder is not None)) != 1:
            raise ValueError("model: give totals, or a table, or a folder")
        if (self.name is None) != (self.table is None and self.folder is None):
            raise ValueError("model: `name` says what of a job names its model in the table or folder")
        if self.table is not None and self.key is None and not isinstance(self.name, str):
            raise ValueError("model: `key` says which column of the second table has the names of models")
        if unknown := sorted(self.totals.keys() - set(ModelTotals.__struct_fields__)):
            raise ValueError(f"model: no totals {', '.join(unknown)}; use {', '.join(ModelTotals.__struct_fields__)}")

    def found_in(self, base: Path) -> Self:
        """The source with a path that is there, from a folder; as it is written otherwise."""
        paths = {name: str(base / path) for name in ("table", "folder") if (path := getattr(self, name))}
        return msgspec.structs.replace(self, **{name: path for name, path in paths.items() if Path(path).exists()})
