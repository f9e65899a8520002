"""Options that several commands have."""

from typing import Annotated

import typer

Artifacts = Annotated[str, typer.Option(envvar="LEAP_ARTIFACTS", help="Path or fsspec URL of the artifacts.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for a program to read.")]
OwnCatalog = Annotated[
    str, typer.Option("--catalog", envvar="LEAP_CATALOG", help="Own catalog (YAML), merged into the built-in one.")
]
Target = Annotated[str, typer.Option(help="Prediction target.")]
TrustedKeys = Annotated[
    str, typer.Option(envvar="LEAP_TRUSTED_KEYS", help="File of public keys, one of which must have signed.")
]
STORE = ".leap/artifacts"
