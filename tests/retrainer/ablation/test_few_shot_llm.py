"""Answers in text: what is shown, what fits the budget, what an answer says, and how it is scored."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.retrainer.ablation.problem import FleetSource, Problem
from leap.retrainer.ablation.text.few_shot_llm import (
    EXAMPLES,
    TASK,
    Answered,
    Generative,
    key,
    load,
    parsed,
    prompt,
    written,
)
from leap.retrainer.ablation.text.nearest_neighbours import MISMATCH, Neighbours
from leap.retrainer.ablation.text.serialization import texts


def words(text: str) -> int:
    return len(text.split())


@given(
    st.lists(st.text("ab ;:", max_size=40), min_size=1, max_size=30), st.lists(st.text("xy ", max_size=60), max_size=9)
)
def test_a_prompt_keeps_its_budget_its_question_and_the_most_similar(parts: list[str], shown: list[str]) -> None:
    question, budget = "; ".join(parts), 60
    asked = prompt(question, [(text, 10.0) for text in shown], budget, words)
    assert asked.startswith(TASK)
    assert asked.endswith("\nThroughput:")
    assert words(asked) <= max(budget, words(TASK) + 2 + words(parts[0]))
    whole = f"Job: {question}\nThroughput:"
    kept = asked.count("Throughput: 10\n\n")
    if kept:
        examples = [f"Job: {text}\nThroughput: 10\n\n" for text in shown[:kept]]
        assert asked == TASK + "".join(reversed(examples)) + whole


@given(st.floats(1e-3, 1e9))
def test_what_is_written_is_read_back(throughput: float) -> None:
    assert parsed(f" {written(throughput)} samples/s") == pytest.approx(throughput, rel=5.1e-3)


@given(st.text(max_size=300))
def test_any_answer_is_a_positive_number_or_none(answer: str) -> None:
    value = parsed(answer)
    assert np.isnan(value) or 0 < value < 1e30


@pytest.fixture(scope="module")
def problem() -> Problem:
    return FleetSource(days=5, per_day=150).problem(0)


def test_neighbours_are_the_nearest_and_the_latest_among_equals(problem: Problem) -> None:
    ((training, held_out),) = problem.folds()
    neighbours = Neighbours(training)
    found = neighbours.nearest(held_out, 5)
    points, asked = neighbours.points(training), neighbours.points(held_out)
    row = 3
    distance = np.sqrt(((points - asked[row]) ** 2).mean(axis=1))
    for name, cost in MISMATCH.items():
        distance += cost * (training.table[name] != held_out.table[name][row]).to_numpy()
    np.testing.assert_allclose(distance[found[row]], np.sort(distance)[:5], rtol=1e-4)
    itself = neighbours.nearest(training, 1)[:, 0]
    first = neighbours.points(training)
    assert (itself >= np.arange(len(training))).all()
    np.testing.assert_allclose(first[itself], first, atol=5e-3)  # float32 cancels


class Copying:
    """Answers what the example nearest to the question shows."""

    def count(self, text: str) -> int:
        return words(text)

    def answer(self, prompts: Sequence[str]) -> list[str]:
        return [text.rsplit("Throughput: ", 1)[1].split("\n")[0] for text in prompts]


def test_what_is_shown_comes_from_the_past_and_an_answer_is_a_prediction(problem: Problem) -> None:
    ((training, held_out),) = problem.folds()
    model = Generative(Copying()).fit(training)
    predicted = model.predict(held_out).mean
    nearest = Neighbours(training).nearest(held_out, EXAMPLES)
    np.testing.assert_allclose(predicted, training.y[nearest[:, 0]], atol=6e-3)
    constant = np.median(np.abs(held_out.y - training.y.mean()))
    assert np.median(np.abs(predicted - held_out.y)) < 0.3 * constant


def test_a_run_made_elsewhere_is_scored_here(problem: Problem, tmp_path: Path) -> None:
    ((training, held_out),) = problem.folds()
    prompts = Generative(Copying()).fit(training).prompts(held_out)
    answers = ["1.5k samples/s", "I cannot say", *Copying().answer(prompts[2:])]
    lines = [msgspec.json.encode(Answered(key(text), said)) for text, said in zip(prompts, answers, strict=True)]
    record = tmp_path / "answers.jsonl"
    record.write_bytes(b"\n".join(lines[:-1]))
    predicted = Generative(load(record)).fit(training).predict(held_out).mean
    assert predicted[0] == pytest.approx(np.log(1500.0))
    assert np.isnan(predicted[[1, -1]]).all()
    np.testing.assert_allclose(predicted[2:-1], Generative(Copying()).fit(training).predict(held_out).mean[2:-1])
    assert len(texts(held_out)) == len(predicted)
