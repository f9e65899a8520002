"""What a store holds, artifact by artifact, and what the nights decided about each."""

from datetime import datetime
from pathlib import Path

import msgspec

from leap.predictor.artifacts.manifest import ArtifactError, decode
from leap.predictor.artifacts.store import ArtifactStore, Pointer
from leap.predictor.storage.urls import open_filesystem


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One artifact.

    Attributes
    ----------
    w20
        Share of the held-out attempts predicted within 20%, in percent.
    rows
        Attempts that it was trained on.
    production, pinned
        Whether it serves, and whether nights may not move that.
    night, promoted, reason
        The night that made it, what it decided, and why; none without its report.
    fault
        What is wrong with its manifest; the fields from there are none then.
    """

    version: str
    created_at: datetime | None = None
    recipe: str | None = None
    w20: float | None = None
    rows: int | None = None
    production: bool = False
    pinned: bool = False
    night: str | None = None
    promoted: bool | None = None
    reason: str | None = None
    fault: str | None = None

    def in_words(self) -> str:
        """One line, and another for why it was not promoted."""
        state = "  in production" * self.production + ", pinned" * self.pinned
        if self.fault:
            return f"{self.version}{state}\n    {self.fault}"
        w20 = "" if self.w20 is None else f"  w20 {self.w20:.1f}"
        line = f"{self.version}  {self.created_at:%Y-%m-%d}  {self.recipe}{w20}  {self.rows:,} rows{state}"
        return f"{line}\n    not promoted: {self.reason}" if self.promoted is False else line


class _Decision(msgspec.Struct, frozen=True):
    """The part of a night's report that is about promotion."""

    night: str
    artifact: str
    promoted: bool
    reason: str


def inventory(store: ArtifactStore, target: str, pointer: Pointer | None, reports: str) -> list[Row]:
    """Every artifact of a target, oldest first.

    Parameters
    ----------
    reports
        Path or fsspec URL of the partitions, beside which nights leave their reports; it need not be there.
    """
    decided = _decisions(reports, target)
    rows = []
    for version in store.versions(target):
        production = pointer is not None and pointer.version == version
        row = Row(version=version, production=production, pinned=bool(production and pointer and pointer.pinned))
        try:
            about = decode(store.manifest(target, version))
        except ArtifactError as error:
            rows.append(msgspec.structs.replace(row, fault=str(error)))
            continue
        decision = decided.get(version)
        rows.append(
            msgspec.structs.replace(
                row,
                created_at=about.created_at,
                recipe=about.recipe,
                w20=about.metrics.get("w20"),
                rows=about.rows,
                night=decision and decision.night,
                promoted=decision and decision.promoted,
                reason=decision and decision.reason,
            )
        )
    return rows


def _decisions(location: str, target: str) -> dict[str, _Decision]:
    """Version to what its night decided; trials too, which promote nothing."""
    found = {}
    for folder in ("reports", "reports/trials"):
        for data in _files(location, f"{folder}/{target}-*.json"):
            try:
                decision = msgspec.json.decode(data, type=_Decision)
            except msgspec.MsgspecError:  # the night says so, when it is asked for its report
                continue
            found[decision.artifact] = decision
    return found


def _files(location: str, pattern: str) -> list[bytes]:
    if "://" not in location:
        return [path.read_bytes() for path in sorted(Path(location).glob(pattern))]
    files, root = open_filesystem(location)
    return [bytes(files.cat_file(path)) for path in sorted(files.glob(f"{root.rstrip('/')}/{pattern}"))]
