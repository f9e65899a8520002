"""``leap describe``: a model definition from what a launcher already has."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from leap.predictor.cli.errors import fail
from leap.predictor.describe import hf_model
from leap.predictor.describe.builder import NotDescribed
from leap.predictor.features import architecture
from leap.schemas.codec import MAX_MESSAGE_BYTES
from leap.schemas.distribution import install_command
from leap.schemas.launch import ModelDefinition

CONFIG = "config.json"


def describe(
    model: Annotated[Path | None, typer.Argument(help="An .onnx file, a config.json, or a folder with one.")] = None,
    torch: Annotated[
        str | None, typer.Option(metavar="PACKAGE.MODULE:FACTORY", help="Makes a PyTorch module and its inputs.")
    ] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=NUMBER",
            help="What the model leaves open: tokens, image_size, samples, a named dimension.",
        ),
    ] = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Totals in the place of operators: all that Leap learns from.")
    ] = False,
) -> None:
    """Print a model's definition, the `model` of a JobSubmitted, as JSON.

    Examples:
      leap describe resnet50.onnx
      leap describe bert/config.json --size tokens=512 --summary
      leap describe --torch training.model:make
    """
    if (model is None) == (torch is None):
        raise fail("name a model's file, or its factory with --torch")
    try:
        definition = _described(model, torch, _sizes(size or []))
    except NotDescribed as error:
        raise fail(str(error)) from None
    if summary:
        print(msgspec.json.format(msgspec.json.encode(architecture.to_totals(definition))).decode())
        return
    text = msgspec.json.encode(definition)
    if len(text) > MAX_MESSAGE_BYTES:
        typer.echo(
            f"{len(text):,} bytes, more than the {MAX_MESSAGE_BYTES:,} of a message: it will be refused", err=True
        )
    print(text.decode())


def _described(model: Path | None, torch: str | None, sizes: dict[str, int]) -> ModelDefinition:
    if model is None:
        from leap.predictor.describe import torch_module  # PyTorch is imported when it is called

        if sizes:
            raise NotDescribed("--size is for files; the factory's inputs have sizes")
        sys.path.insert(0, "")  # as `python -m` does: the factory may stand in the working folder
        return torch_module.describe(str(torch))
    path = model / CONFIG if model.is_dir() else model
    if not path.is_file():
        raise NotDescribed(f"{path}: no such file; name an .onnx file, a config.json, or a folder with one")
    if path.suffix != ".onnx":
        return hf_model.describe(path, sizes)
    try:
        from leap.predictor.describe import onnx_file
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise NotDescribed(f"reading ONNX needs the package onnx; run: {install_command('onnx')}") from None
    return onnx_file.describe(path, sizes)


def _sizes(written: list[str]) -> dict[str, int]:
    sizes = {}
    for size in written:
        name, _, value = size.partition("=")
        if not name or not value.isdecimal():
            raise NotDescribed(f"--size {size}: expected NAME=NUMBER")
        sizes[name] = int(value)
    return sizes
