"""``leap catalog``: what is known of hardware types, and which one a name means."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
import yaml

from leap.predictor.cli.completion import hardware_types
from leap.predictor.cli.errors import fail
from leap.predictor.cli.options import Json, OwnCatalog
from leap.schemas.hardware import Catalog, Hardware, load_catalog

app = typer.Typer(no_args_is_help=True, help="Hardware types: specifications, prices and names.")

Name = Annotated[
    str,
    typer.Argument(help="As the catalog, a driver, a scheduler or a cloud writes it.", autocompletion=hardware_types),
]


@app.command("list")
def list_types(own: OwnCatalog = "", as_json: Json = False) -> None:
    """Every hardware type: vendor, memory, price, and names that do not follow from its own.

    Example:
      leap catalog list --catalog catalog.yaml
    """
    catalog = load_catalog(own)
    if as_json:
        print(catalog.to_json().decode())
        return
    for name, entry in catalog.items():
        memory = "" if entry.memory_gb is None else f"{entry.memory_gb:g} GB"
        price = "no price" if entry.price_per_hour is None else f"{entry.price_per_hour:.2f} USD/h"
        print(f"{name:24}{entry.vendor:14}{memory:>9}  {price:>12}  {', '.join(entry.aliases)}".rstrip())


@app.command()
def show(name: Name, own: OwnCatalog = "", as_json: Json = False) -> None:
    """What is known of one hardware type.

    Example:
      leap catalog show H100-SXM-80GB
    """
    catalog = load_catalog(own)
    entry = _known(catalog, name)
    if as_json:
        print(msgspec.json.encode(entry).decode())
    else:
        print(yaml.safe_dump(msgspec.to_builtins(entry), sort_keys=False, allow_unicode=True), end="")


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="Own catalog (YAML).", exists=True, dir_okay=False)],
    as_json: Json = False,
) -> None:
    """Read an own catalog as LEAP_CATALOG would be; say what it adds and changes.

    Example:
      leap catalog check catalog.yaml
    """
    built_in, catalog = load_catalog(), load_catalog(file)
    added = [name for name in catalog if name not in built_in]
    changed = [name for name in catalog if name in built_in and catalog[name] != built_in[name]]
    removed = [name for name in built_in if name not in catalog]
    unpriced = [name for name in (*added, *changed) if catalog[name].price_per_hour is None]
    found = {"added": added, "changed": changed, "removed": removed}
    if as_json:
        print(msgspec.json.encode(found | {"unpriced": unpriced, "types": list(catalog)}).decode())
        return
    for what, names in found.items():
        if names:
            print(f"{what}: {', '.join(names)}")
    if unpriced:
        print(f"without a price, so ranked only for jobs that ask for the fastest: {', '.join(unpriced)}")
    print(f"{len(catalog)} hardware types, {len(added)} added, {len(changed)} changed, {len(removed)} removed")


@app.command()
def resolve(name: Name, own: OwnCatalog = "") -> None:
    """Print the name in the catalog of what a name means; fails if that is not one hardware type.

    Example:
      leap catalog resolve 'NVIDIA A100-SXM4-80GB'
    """
    catalog = load_catalog(own)
    entry = _known(catalog, name)
    if entry.name not in catalog:
        typer.secho(f"not listed; predicted as {entry.like}, at its price", fg="yellow", err=True)
    print(entry.name)


def _known(catalog: Catalog, name: str) -> Hardware:
    entry = catalog.specification(name)
    if entry is None:
        raise fail(f"{name}: {catalog.why_unlisted(name)}; see `leap catalog list`")
    return catalog.get(entry.name, entry)
