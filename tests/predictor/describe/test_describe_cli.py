"""`leap describe` as a user runs it."""

import json
import sys
from pathlib import Path

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from leap.predictor.cli.describe import describe
from leap.schemas.launch import ModelDefinition
from tests.predictor.describe.test_onnx import LIGHT

app = typer.Typer()
app.command()(describe)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "gpt2", "n_layer": 2}')
    return path


def run(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    return done.exit_code, done.stdout, done.stderr


def test_a_folder_with_a_configuration(config: Path) -> None:
    code, printed, _ = run(config.parent, "--size", "tokens=16")
    model = msgspec.json.decode(printed, type=ModelDefinition)
    assert code == 0
    assert model.name == "GPT2LMHeadModel"
    assert model.operators[0].shape == (16, 768)


def test_the_summary_has_the_values_that_are_learned_from(config: Path) -> None:
    code, printed, _ = run(config, "--summary")
    assert code == 0
    assert dict(line.split() for line in printed.splitlines())["heads"] == "12"


def test_an_onnx_file() -> None:
    code, printed, _ = run(LIGHT / "light_vgg19.onnx")
    assert code == 0
    assert sum(each.get("parameters", 0) for each in json.loads(printed)["operators"]) == 143_667_240


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a model's file, or its factory with --torch"),
        (("nowhere.onnx",), "nowhere.onnx: no such file"),
        (("nowhere.onnx", "--size", "tokens"), "--size tokens: expected NAME=NUMBER"),
        (("--torch", "a:b", "--size", "tokens=1"), "--size is for files"),
    ],
)
def test_a_wrong_call_is_told(arguments: tuple[str, ...], said: str) -> None:
    code, _, told = run(*arguments)
    assert code == 1
    assert said in told


def test_a_model_larger_than_a_message_is_told(config: Path) -> None:
    config.write_text('{"model_type": "gpt2", "n_layer": 1000}')
    code, _, told = run(config)
    assert code == 0
    assert "more than the 1,048,576 of a message" in told


@pytest.mark.parametrize(
    ("missing", "remedy", "arguments"),
    [("onnx", "'leap-launch[onnx]'", (LIGHT / "light_vgg19.onnx",)), ("torch", "torch", ("--torch", "a:b"))],
)
def test_what_is_not_installed_is_named(
    missing: str, remedy: str, arguments: tuple[str | Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("leap.predictor.describe.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("leap.predictor.describe.onnx_file", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    code, _, told = run(*arguments)
    assert code == 1
    assert f"pip install {remedy}" in told
