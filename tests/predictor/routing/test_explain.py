"""An explanation gives every term of a score, so that a reader can work it out again."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from leap.predictor.routing.explain import explain
from leap.schemas.events import ExcludedCandidate, JobCompleted, PreferenceList, RankedCandidate
from leap.schemas.launch import ModelDefinition
from tests.builders import CATALOG, MIDNIGHT, MODEL, submission

NOW = datetime(2026, 3, 11, 12, tzinfo=UTC)
JOB = submission("a-1", trainers=2)


def ranked(name: str, throughput: float, cost: float) -> RankedCandidate:
    return RankedCandidate(
        hardware_type=name,
        throughput=throughput,
        lower=throughput / 2,
        upper=throughput * 2,
        cost_per_hour=cost,
        throughput_per_cost=throughput / cost,
        score=throughput / cost,
        basis="family history",
        observations=17,
        outside=("batch_size",) if name == "fast" else (),
    )


ANSWER = PreferenceList(
    attempt_id="a-1",
    family="ads/ranker",
    ranked=(ranked("newest", 4800.0, 160.0), ranked("fast", 960.0, 48.0)),
    excluded=(
        ExcludedCandidate(hardware_type="basic", reason="memory cannot hold the job", throughput=80.0),
        ExcludedCandidate(hardware_type="strange", reason="no specification in the catalog"),
    ),
    artifact="throughput-1",
    decided_at=NOW,
)


@pytest.mark.parametrize(
    ("model", "flops", "said"),
    [
        (MODEL, 1e12, "Work: 1e+12 FLOP per sample, forward (stated with the job); training takes 3 times as many."),
        (None, 1e12, "Work: 1e+12 FLOP per sample, forward (kept of model type dlrm); training"),
        (None, 1e12, "180 of 400 TFLOP/s per accelerator (fp16): utilisation 45.0%, measured on 5 attempts of its"),
        (None, 1e12, "900 of 900 TFLOP/s per accelerator (fp16): utilisation 100.0%, predicted: none ran there"),
        (None, 2e12, "more than the peak: check FLOP per sample"),
    ],
)
def test_the_physics_of_what_is_predicted(model: ModelDefinition | None, flops: float, said: str) -> None:
    history = {"family_hardware_count": (None, 5.0)}
    answer = msgspec.structs.replace(ANSWER, flops=flops, candidates=("newest", "fast"), served_history=history)
    assert said in explain(answer, submission("a-1", model=model), CATALOG)


def completed(hardware_type: str, throughput: float | None) -> JobCompleted:
    return JobCompleted(
        attempt_id="a-1",
        job_name="ads/ranker",
        hardware_type=hardware_type,
        started_at=MIDNIGHT,
        finished_at=MIDNIGHT + timedelta(hours=1),
        status="succeeded" if throughput else "failed",
        measurements={"throughput": throughput} if throughput else {},
    )


def test_every_term_of_every_candidate() -> None:
    assert explain(ANSWER, JOB, CATALOG).splitlines() == [
        "a-1: family ads/ranker, model type dlrm",
        "Decided 2026-03-11 12:00:00 UTC with throughput-1.",
        "Sorted by predicted throughput per USD; equal ones by name.",
        "Work unknown: no FLOP of model type dlrm; `model` of a submission states them.",
        "1. newest",
        "   4,800 samples/s, 80% between 2,400 and 9,600",
        "   from finished attempts of its family: 17, of which 0 on this hardware type",
        "   cost 160.00 USD/h = 2 trainers x 8 accelerators x 10.00 USD/h",
        "   score 4,800 / 160.00 = 30",
        "   premium: stays, as its score reaches 1 x 20, the best standard score",
        "2. fast",
        "   960 samples/s, 80% between 480 and 1,920",
        "   from finished attempts of its family: 17, of which 0 on this hardware type",
        "   cost 48.00 USD/h = 2 trainers x 8 accelerators x 3.00 USD/h",
        "   score 960 / 48.00 = 20",
        "   outside what was trained on: batch_size",
        "–  basic: memory cannot hold the job",
        "   80 samples/s predicted",
        "   80 / 16.00 USD/h = 5",
        "–  strange: no specification in the catalog",
    ]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"shadow": True}, "In shadow: recorded, not to be acted on."),
        ({"pinned": "basic"}, "The user pinned basic, and that holds whatever is ranked here."),
        ({"no_opinion": "no artifact", "ranked": ()}, "No opinion: no artifact."),
        ({"objective": "fastest"}, "Sorted by predicted throughput; equal ones by name."),
        ({"ranked": (ranked("newest", 4800.0, 160.0),)}, "   premium: stays, as no standard type is eligible"),
        (
            {"pinned": "newest", "ranked": (ranked("fast", 960.0, 48.0), ranked("newest", 480.0, 160.0))},
            "   premium: below 1 x 20, the best standard score, and stays because it is pinned",
        ),
    ],
)
def test_what_holds_is_said(change: dict[str, object], line: str) -> None:
    assert line in explain(msgspec.structs.replace(ANSWER, **change), JOB, CATALOG).splitlines()


@pytest.mark.parametrize(
    ("ended", "line"),
    [
        (completed("fast", 1200.0), "It ran on fast and succeeded at 1,200 samples/s: predicted 960, -20.0%."),
        (completed("basic", 100.0), "It ran on basic and succeeded at 100 samples/s: predicted 80, -20.0%."),
        (completed("T4", 10.0), "It ran on T4 and succeeded at 10 samples/s; nothing was predicted for that type."),
        (completed("fast", None), "It ran on fast and failed."),
    ],
)  # fmt: skip
def test_what_became_of_the_attempt(ended: JobCompleted, line: str) -> None:
    assert explain(ANSWER, JOB, CATALOG, ended).splitlines()[-1] == line
