"""Groups held out: which they are, what a fit may see of them, and scores against rankings known in advance."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest

from leap.predictor.features import architecture
from leap.predictor.models.serving import Prediction
from leap.retrainer.dataset.training_set import TrainingSet
from leap.retrainer.evaluation.groups import FOLDS, HOLDS, folds
from leap.retrainer.evaluation.holdout import Scores, hold_out
from leap.retrainer.evaluation.rules import Estimator, rules_of
from leap.retrainer.night.recipes import Published
from tests.commands import invoke
from tests.retrainer.evaluation.past_attempts import TYPES, Witness, attempts, grid

STRUCTURED = {"structured": partial(Published, "structured", calibrated=True)}


def held_out(attempts: TrainingSet, hold: str, estimators: Mapping[str, Callable[[], Estimator]]) -> dict[str, Scores]:
    return hold_out(attempts, list(folds(attempts.rows, hold)), estimators)


def many() -> TrainingSet:
    """Thirty models of ten prefixes on three types of hardware at three scales, over many days."""
    model, hardware, scale = (index.ravel() for index in np.meshgrid(np.arange(30), np.arange(3), np.arange(3)))
    return attempts(
        np.arange(len(model)).tolist(),
        model_type=[f"{'abcdefghij'[n % 10]}net{n}" for n in model],
        hardware_type=np.array(TYPES, dtype=object)[hardware],
        num_trainers=2.0**scale,
        throughput=np.exp(1.0 + 0.1 * model + 0.5 * hardware + 0.6 * scale),
    )


@pytest.mark.parametrize("hold", HOLDS)
def test_a_group_is_held_out_whole_once_and_what_must_be_known_stays(hold: str) -> None:
    rows = many().rows
    split = list(folds(rows, hold))
    assert 3 <= len(split) <= FOLDS
    np.testing.assert_array_equal(sum(fold.held_out.astype(int) for fold in split), 1)
    named = {**rows, "prefix": np.array([name[:4] for name in rows["model_type"]])}
    for fold in split:
        for key, apart in ((HOLDS[hold].group, True), *((key, False) for key in HOLDS[hold].known)):
            names = list(zip(*(named[name].tolist() for name in key), strict=True))
            kept = {name for name, held_out in zip(names, fold.held_out, strict=True) if not held_out}
            judged = {name for name, held_out in zip(names, fold.judged, strict=True) if held_out}
            assert judged.isdisjoint(kept) if apart else judged <= kept
    shuffled = np.random.default_rng(0).permutation(len(rows["day"]))
    again = list(folds({name: values[shuffled] for name, values in rows.items()}, hold))
    assert [fold.held_out.tolist() for fold in again] == [fold.held_out[shuffled].tolist() for fold in split]


def test_one_group_leaves_nothing_to_learn_from() -> None:
    with pytest.raises(ValueError, match="--hold hardware has nothing to judge"):
        list(folds(attempts([0.0, 1.0]).rows, "hardware"))


@pytest.mark.parametrize("hold", ["pair", "model", "scale"])
def test_a_fit_sees_neither_what_is_held_out_nor_its_history(hold: str) -> None:
    witness, rows = Witness(), many()
    held_out(rows, hold, {"witness": lambda: witness})
    y = dict(zip(rows.table["attempt_id"], rows.y, strict=True))
    for fitted, asked, fold in zip(witness.fitted, witness.asked, folds(rows.rows, hold), strict=True):
        assert set(fitted.table["attempt_id"]) == set(rows.table["attempt_id"][~fold.held_out])
        assert set(rows.table["attempt_id"][fold.judged]) <= set(asked.table["attempt_id"])
        for name, history in zip(asked.table["model_type"], asked.pairs.history["model_type"], strict=True):
            kept = fitted.table["attempt_id"][fitted.table["model_type"] == name]
            count = 0.0 if np.isnan(history[0]) else history[0]
            assert count == len(kept)
            assert not count or history[1] == pytest.approx(np.mean([y[key] for key in kept]), rel=1e-5)


class Told:
    """Learns nothing and answers what is true, but for one hardware type that it has no answer for."""

    def __init__(self, silent: str = "") -> None:
        self.silent = silent

    def fit(self, training: TrainingSet) -> None:
        pass

    def predict(self, attempts: TrainingSet) -> Prediction:
        return Prediction(np.where(attempts.pairs.hardware_type == self.silent, np.nan, attempts.y))


def test_scores_of_what_is_known_in_advance() -> None:
    """Half the ranking of four types is in order where the fastest is put last; its loss is that to the second."""
    told = {"told": Told, "silent": lambda: Told("B200")}
    found = held_out(grid(), "model", told)
    assert msgspec.structs.replace(found["told"], seconds=0) == Scores(
        n=80, answered=100.0, w20=100.0, w10=100.0, mdape=0.0, contexts=4, tau=1.0, regret=0.0, seconds=0
    )
    silent = found["silent"]
    assert (silent.n, silent.answered, silent.w20, silent.tau) == (80, 75.0, 75.0, 0.0)
    assert silent.regret == pytest.approx(100 * -np.expm1(-0.8), abs=0.5)
    assert (found["peak"].tau, found["bandwidth"].regret) == (1.0, 0.0)
    assert held_out(grid(slow="B200"), "model", told)["peak"].tau == 0.0


@pytest.mark.parametrize("hold", ["pair", "model"])
def test_structured_ranks_what_was_held_out_by_what_others_reached(hold: str) -> None:
    scores = held_out(grid(), hold, STRUCTURED)["structured"]
    assert (scores.n, scores.contexts, scores.tau, scores.regret) == (80, 4, 1.0, 0.0)
    assert scores.covered is not None


def test_rules_say_what_their_names_say() -> None:
    """Two models whose throughput follows FLOP/s, and Amdahl's law with a serial share of 0.1."""
    scale = np.array([1.0, 2.0, 4.0, 8.0] * 4)
    model, hardware = np.repeat(["big", "small"], 8), np.tile(np.repeat(TYPES[:2], 4), 2)
    flops = np.where(model == "big", 2e9, 1e9)
    rate = np.where(hardware == TYPES[0], 1e12, 4e12) / flops
    given = {"architecture_flops": flops, "num_trainers": scale, "accelerators_per_trainer": 1.0}
    known = attempts(
        np.arange(16.0).tolist(),
        model_type=model,
        hardware_type=hardware,
        throughput=scale * rate / (1 + 0.1 * (scale - 1)),
        **given,
    )
    assert "flops" in architecture.NAMES and set(rules_of(known)) == {"chain", "achieved_flops"}
    found = held_out(known, "scale", rules_of(known, "scale"))
    assert {name for name, scores in found.items() if scores.w20 is not None} == set(rules_of(known, "scale"))
    assert found["amdahl"].mdape is not None and found["amdahl"].mdape < 3.0
    assert found["linear"].mdape == pytest.approx(100 * np.median([1 - 1.1 / 2, 0.1, 0.18, 1.7 / 1.3 - 1]), abs=10)
    one = known.where(scale == 1.0)
    assert held_out(one, "model", rules_of(one))["achieved_flops"].mdape == pytest.approx(0.0, abs=0.1)
    assert "achieved_flops" not in rules_of(grid())


@pytest.fixture
def table(tmp_path: Path) -> tuple[str, str]:
    """A table of past jobs with one that failed, one without throughput and one that is bad, and its mapping."""
    rows, lines = grid(models=2), ["id,model,hardware,when,speed,state"]
    for n, (name, ran_on, y) in enumerate(zip(rows.table["model_type"], rows.pairs.hardware_type, rows.y, strict=True)):
        lines.append(f"{n},{name},{ran_on},{1.7e9 + 86_400 * (n // 4)},{np.exp(y)},COMPLETED")
    lines += ["a,model-a,B200,1.8e9,7777,FAILED", "b,model-a,B200,1.8e9,,COMPLETED", "c,model-a,B200,soon,5,COMPLETED"]
    (tmp_path / "jobs.csv").write_text("\n".join(lines))
    (tmp_path / "map.yaml").write_text(
        "attempt_id: id\njob_name: model\nmodel_type: model\nhardware_type: hardware\nsubmitted_at: when\n"
        "time_format: seconds\nrun_seconds: 3600\nstatus: state\n"
        "config: {num_trainers: 1, accelerators_per_trainer: 8, batch_size: 256}\nmeasurements: {throughput: speed}\n"
    )
    return str(tmp_path / "jobs.csv"), str(tmp_path / "map.yaml")


@pytest.fixture
def arguments(table: tuple[str, str]) -> tuple[str, ...]:
    return "holdout", table[0], "--mapping", table[1]


def test_the_command(arguments: tuple[str, ...]) -> None:
    done = invoke(*arguments, "--hold", "pair", "--hold", "model", "--recipe", "chain", "--recipe", "boosted", "--json")
    assert done.exit_code == 0, done.output
    found = msgspec.json.decode(done.stdout, type=dict[str, dict[str, Scores]])
    assert list(found) == ["pair", "model"]
    assert list(found["pair"]) == ["boosted", "chain", "peak", "bandwidth", "price"]
    assert all(scores.n == 40 for scores in found["pair"].values())
    for said in ("42 attempts, 40 to learn from; 1 bad", "FAILED 1 (failed)", "bad, 1: submitted_at"):
        assert said in done.stderr
    text = invoke(*arguments, "--recipe", "chain").stdout
    assert text.startswith("pair held out, n 40") and "bandwidth" in text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--same", "colour"), "colour"),
        (("--hold", "colour"), "pair, model, prefix, hardware, scale"),
        (("--recipe", "oracle"), "structured, boosted"),
        (("--hold", "scale"), "nothing to judge"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], wrong: tuple[str, str], said: str) -> None:
    done = invoke(*arguments, *wrong)
    assert (done.exit_code, said in done.stderr) == (1, True)


def test_the_own_catalog_and_any_spelling(arguments: tuple[str, ...], tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("replace: true\nentries: [{name: X1, vendor: V}]")

    def found(*more: str, **environment: str) -> dict[str, Scores]:
        done = invoke(*arguments, *more, "--recipe", "chain", "--json", env=environment)
        assert done.exit_code == 0, done.output
        scores = msgspec.json.decode(done.stdout, type=dict[str, dict[str, Scores]])["pair"]
        return {name: msgspec.structs.replace(one, seconds=None) for name, one in scores.items()}

    as_listed, file = found(), Path(arguments[1])
    file.write_text(file.read_text().replace("A100-SXM-80GB", "NVIDIA A100-SXM4-80GB").replace("B200", "nvidia-b200"))
    assert found() == as_listed and as_listed["price"].tau
    for priceless in (found("--accept", "--catalog", str(own)), found("--accept", LEAP_CATALOG=str(own))):
        assert priceless["price"].tau is None, "no type of the table has a price there"
