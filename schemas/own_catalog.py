"""An own catalog: entries that add to the catalog that comes with Leap, or change what they state of one of its own.

The file is a list of entries. One whose name, or any spelling of it, is a shipped entry's changes the fields that it
states and adds its aliases; any other is an entry of its own, which may take figures from another by ``like``. What it
calls an entry no shipped entry is called any more. A mapping with ``replace: true`` and the list under ``entries``
starts from nothing.
"""

from collections.abc import Mapping
from typing import Any

from leap.schemas.names.accelerators import AcceleratorNames, Named, parse

Entry = Mapping[str, Any]

EXPECTED = (
    "expected a list of hardware types, each with `name` and `vendor`, or a mapping of `replace: true` and the list "
    "under `entries`"
)


def merged(shipped: list[dict[str, Any]], own: Any) -> list[Any]:
    """Entries of both, those of `own` first and in its order; what is wrong in one is left to whoever reads it.

    Raises
    ------
    ValueError
        If `own` is no list of entries.
    """
    replaces = isinstance(own, dict) and own.keys() == {"replace", "entries"} and own["replace"] is True
    entries = own["entries"] if replaces else own
    if not isinstance(entries, list) or not entries:
        raise ValueError(EXPECTED)
    if replaces:
        return entries
    by_name = {entry["name"]: entry for entry in shipped}
    names = AcceleratorNames(
        Named(name, tuple(entry.get("aliases", ())), entry.get("memory_gb", 0.0), linked="interconnect_gb_s" in entry)
        for name, entry in by_name.items()
    )
    result = [_merge(entry, by_name, names) if _has_name(entry) else entry for entry in entries]
    changed = {entry["name"] for entry in result if _has_name(entry)}
    taken = {parse(text) for entry in entries if _has_name(entry) for text in (entry["name"], *_aliases(entry))}
    rest = [entry for name, entry in by_name.items() if name not in changed]
    return result + [
        {**entry, "aliases": [alias for alias in _aliases(entry) if parse(alias) not in taken]} for entry in rest
    ]


def _merge(entry: Entry, by_name: Mapping[str, Entry], names: AcceleratorNames) -> dict[str, Any]:
    """An entry over the one that it names, or that it is like; the source of a price goes with the price."""
    name, like = names.resolve(entry["name"]), names.resolve(str(entry.get("like")))
    base = dict(by_name.get(name or like or "", {}))
    if base and "price_per_hour" in entry:
        base |= {"price_source": "own catalog", "price_date": "not stated"}
    unverified = [field for field in base.get("unverified", ()) if field not in entry]
    aliases = [*(_aliases(base) if name else ()), *_aliases(entry)]
    stated = {**entry, "name": name or entry["name"]}
    if like:
        stated["like"] = like
    if isinstance(entry.get("aliases", []), list):
        stated["aliases"] = list(dict.fromkeys(aliases))
    return {**base, "unverified": unverified, **stated}


def _has_name(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("name"), str)


def _aliases(entry: Entry) -> list[str]:
    """Those that are texts; the others are refused with the entry."""
    found = entry.get("aliases")
    return [alias for alias in found if isinstance(alias, str)] if isinstance(found, list) else []
