"""What a shell completes, beside commands and options: versions of artifacts and hardware types."""

import os

import typer


def versions(context: typer.Context, incomplete: str) -> list[str]:
    """Versions in the store that the command would ask, newest first; none if it does not answer."""
    from leap.predictor.artifacts.open import open_store
    from leap.predictor.cli.options import STORE
    from leap.schemas.events import THROUGHPUT

    place = context.params.get("artifacts") or os.environ.get("LEAP_ARTIFACTS", STORE)
    try:
        names = open_store(place).versions(context.params.get("target") or THROUGHPUT)
    except Exception:  # a shell that waits for a line to be completed shows no errors
        return []
    return [name for name in reversed(names) if name.startswith(incomplete)]


def hardware_types(incomplete: str) -> list[str]:
    """Names in the catalog in use."""
    from leap.schemas.hardware import load_catalog

    try:
        names = load_catalog(os.environ.get("LEAP_CATALOG", ""))
    except Exception:
        return []
    return [name for name in names if name.startswith(incomplete)]
