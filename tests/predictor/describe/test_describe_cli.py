"""`leap describe` as a user runs it."""

import json
import sys
from pathlib import Path

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from leap.predictor.cli import describe as command
from leap.predictor.describe import hf_model
from leap.predictor.features.architecture import summary
from leap.schemas.launch import ModelDefinition, Operator
from tests.predictor.describe.test_onnx import LIGHT

app = typer.Typer()
app.command()(command.describe)
MODEL = ModelDefinition(operators=(Operator(kind="attention", attributes={"heads": 12.0}),), name="GPT2LMHeadModel")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration of which tracing 16 tokens makes `MODEL`."""
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "gpt2"}')
    monkeypatch.setattr(hf_model, "describe", lambda read, sizes: {(path, 16): MODEL}[read, sizes["tokens"]])
    return path


def run(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    return done.exit_code, done.stdout, done.stderr


def test_a_folder_with_a_configuration(config: Path) -> None:
    code, printed, _ = run(config.parent, "--size", "tokens=16")
    assert code == 0
    assert msgspec.json.decode(printed, type=ModelDefinition) == MODEL


def test_the_summary_has_the_values_that_are_learned_from(config: Path) -> None:
    code, printed, _ = run(config, "--size", "tokens=16", "--summary")
    assert code == 0
    totals = msgspec.json.decode(printed, type=ModelDefinition)
    assert summary(totals) == summary(MODEL)
    assert not totals.operators


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


def test_a_model_larger_than_a_message_is_told(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MAX_MESSAGE_BYTES", 20)
    code, _, told = run(config, "--size", "tokens=16")
    assert code == 0
    assert "more than the 20 of a message" in told


@pytest.mark.parametrize(
    ("missing", "arguments", "remedy"),
    [
        ("onnx", (LIGHT / "light_vgg19.onnx",), "pip install 'leap-launch[onnx]'"),
        ("torch", ("--torch", "a:b"), "pip install torch"),
        ("torch", ("config.json",), "pip install torch 'transformers>=5'"),
    ],
)
def test_what_is_not_installed_is_named(
    missing: str,
    arguments: tuple[str | Path, ...],
    remedy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text('{"model_type": "gpt2"}')
    for name in [name for name in sys.modules if name.startswith("leap.predictor.describe.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("leap.predictor.describe.onnx_file", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    code, _, told = run(*arguments)
    assert code == 1
    assert remedy in told
