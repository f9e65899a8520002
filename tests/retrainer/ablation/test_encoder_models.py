"""Models of language: a job as text, an encoder that computes what its reference does, and what learns from it."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from leap.predictor.features.matrix import Matrix
from leap.retrainer.ablation.neural import training as networks
from leap.retrainer.ablation.problem import FleetSource, Problem
from leap.retrainer.ablation.text.encoder_models import TextNetwork, TextTrees
from leap.retrainer.ablation.text.few_shot_llm import load as load_generator
from leap.retrainer.ablation.text.frozen_encoder import load
from leap.retrainer.ablation.text.serialization import texts

WIDTH, INNER, LAYERS, HEADS, POSITIONS = 8, 16, 2, 2, 128
WORDS = ("[UNK]", "hardware", "model", "job", "batch", "size", "64", "H100", "dlrm", ";")
SENTENCES = ("hardware H100 ; model dlrm", "job", "batch size 64 ; batch size 64 ; what is this")
#: What transformers 5.24 and PyTorch 2.15 give for `SENTENCES`: `BertModel` of the folder below, the mean over the
#: tokens, divided by its length.
REFERENCE = [
    [0.557536, -0.616257, -0.192424, -0.346678, 0.150235, 0.231591, 0.275596, -0.003277],
    [0.458362, -0.661074, -0.123758, -0.309107, 0.412402, 0.249764, -0.042046, 0.088301],
    [0.556313, -0.584173, -0.179986, -0.109221, 0.005228, 0.543087, -0.018139, -0.098159],
]


def tiny_encoder(folder: Path) -> Path:
    """A BERT of random weights in Hugging Face's layout."""
    rng = np.random.default_rng(7)
    dense = {"attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH)}
    dense |= {"attention.self.value": (WIDTH, WIDTH), "attention.output.dense": (WIDTH, WIDTH)}
    dense |= {"intermediate.dense": (INNER, WIDTH), "output.dense": (WIDTH, INNER)}
    tables = {"word": len(WORDS), "position": POSITIONS, "token_type": 2}
    shapes = {f"embeddings.{name}_embeddings.weight": (rows, WIDTH) for name, rows in tables.items()}
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        shapes |= {f"{at}.{name}.weight": shape for name, shape in dense.items()}
        norms += [f"{at}.attention.output.LayerNorm", f"{at}.output.LayerNorm"]
    weights = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    for name in [name for name in shapes if name.startswith("encoder")]:
        weights[name.replace("weight", "bias")] = rng.standard_normal(shapes[name][0])
    for name in norms:
        weights[f"{name}.weight"] = 1 + 0.1 * rng.standard_normal(WIDTH)
        weights[f"{name}.bias"] = 0.1 * rng.standard_normal(WIDTH)
    save_file({name: array.astype(np.float32) for name, array in weights.items()}, folder / "model.safetensors")
    config = {"model_type": "bert", "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": LAYERS}
    config |= {"num_attention_heads": HEADS, "max_position_embeddings": POSITIONS, "vocab_size": len(WORDS)}
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer(WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_the_encoder_computes_what_its_reference_does(tmp_path: Path) -> None:
    np.testing.assert_allclose(load(tiny_encoder(tmp_path)).embed(SENTENCES), REFERENCE, atol=2e-6)


def test_a_vector_does_not_depend_on_what_is_encoded_beside_it(tmp_path: Path) -> None:
    encoder = load(tiny_encoder(tmp_path))
    many = encoder.embed([*SENTENCES, "job " * 40] * 20)
    np.testing.assert_allclose(many[:3], encoder.embed(SENTENCES), atol=1e-6)
    np.testing.assert_allclose(many[:4], many[76:], atol=1e-6)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a folder with a Hugging Face model is expected"):
        load(tmp_path)


def test_what_other_encoders_need_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    with pytest.raises(ValueError, match="needs torch; run: pip install torch transformers"):
        load(tmp_path)
    with pytest.raises(ValueError, match="needs torch; run: pip install torch transformers"):
        load_generator(tmp_path)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return FleetSource(days=5, per_day=150).problem(0)


def test_the_text_tells_the_job_and_nothing_of_how_it_went(problem: Problem) -> None:
    ((_, held_out),) = problem.folds()
    written = texts(held_out)
    first, pairs = written[0], held_out.pairs
    assert first.startswith(f"hardware {pairs.hardware_type[0]}; model {pairs.jobs.model_type[0]}".replace("_", " "))
    assert f"batch size {pairs.jobs.number('batch_size')[0]:g}" in first
    assert texts(replace(held_out, y=np.zeros(len(held_out)))) == written


class Letters:
    """Counts of letters: enough to tell hardware types and models apart."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        counts = np.array([[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz0123456789"] for text in texts])
        return np.asarray(counts / np.linalg.norm(counts, axis=1, keepdims=True), dtype=np.float32)


def test_trees_and_network_learn_from_text_and_numbers(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "BLOCKS", 1)
    monkeypatch.setattr(networks, "MAX_EPOCHS", 25)
    ((training, held_out),) = problem.folds()
    constant = np.median(np.abs(held_out.y - training.y.mean()))
    for model in (TextTrees(Letters()), TextNetwork(Letters())):
        predicted = model.fit(training).predict(replace(held_out, y=np.full(len(held_out), np.nan))).mean
        assert np.median(np.abs(predicted - held_out.y)) < 0.5 * constant
