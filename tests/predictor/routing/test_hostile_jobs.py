"""Jobs that nobody checked: an empty list with its reason, which can be encoded, and no wait for others."""

import threading
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.routing import ranking
from leap.predictor.routing import router as router_module
from leap.predictor.routing.ranking import MAX_LIST_BYTES
from leap.predictor.routing.router import Router
from leap.schemas.codec import decode, encode
from leap.schemas.events import MAX_CANDIDATES, JobSubmitted, PreferenceList
from tests.builders import MODEL, submission
from tests.schemas.test_validation import ANYTHING, FIELDS, changed

NOW = datetime(2026, 3, 11, tzinfo=UTC)
JOB = submission("new", job_name="team/job-3x", model_type="model-3", at=NOW, model=MODEL)


@pytest.fixture(scope="module")
def router(artifact_store: LocalStore) -> Router:
    made = Router(artifact_store, clock=lambda: NOW, deadline=None)
    assert made.refresh()
    return made


def both_ways(router: Router, job: Any) -> PreferenceList:
    """The list of a job alone and in a batch, which can be encoded and read back."""
    answer = router.rank(job)
    good, together = router.rank_many([JOB, job])
    assert together == answer
    assert good.ranked
    assert decode(encode(answer), PreferenceList) == answer
    return answer


@pytest.mark.parametrize("job", [None, {}, {"attempt_id": "a-1"}, "a-1", 7, object(), JobSubmitted, MODEL, [JOB]])
def test_what_is_no_submission_is_refused(router: Router, job: object) -> None:
    answer = both_ways(router, job)
    assert answer.ranked == ()
    assert answer.no_opinion is not None
    assert answer.no_opinion.startswith("invalid submission: ")
    assert answer.no_opinion.endswith("; see `leap schemas show job-submitted`")


@pytest.mark.parametrize(
    ("field", "value"),
    [("num_trainers", 0), ("num_trainers", -1), ("accelerators_per_trainer", 0), ("batch_size", "64")],
)
def test_a_number_that_would_turn_the_order_is_refused(router: Router, field: str, value: object) -> None:
    refused = router.counts["invalid submission"]
    answer = both_ways(router, changed(f"config.{field}", value, JOB))
    assert (answer.attempt_id, answer.model_type, answer.ranked) == ("new", "model-3", ())
    assert f"config.{field} is {value!r}: Expected" in (answer.no_opinion or "")
    assert router.counts["invalid submission"] == refused + 2


@pytest.mark.parametrize("path", ["attempt_id", "job_name", "model_type", "pinned"])
def test_text_that_cannot_be_encoded_is_escaped(router: Router, path: str) -> None:
    answer = both_ways(router, changed(path, "\ud800" * 400, JOB))
    assert f"{path} is " in (answer.no_opinion or "")


def test_the_fields_of_a_submission_are_as_good_as_the_submission(router: Router) -> None:
    assert router.rank(msgspec.to_builtins(JOB)) == router.rank(JOB)


@given(path=st.sampled_from(FIELDS), value=ANYTHING)
def test_whatever_is_in_a_field_there_is_a_list_that_can_be_encoded(router: Router, path: str, value: object) -> None:
    both_ways(router, changed(path, value, JOB))


@given(value=ANYTHING)
def test_whatever_is_ranked_there_is_a_list_that_can_be_encoded(router: Router, value: object) -> None:
    both_ways(router, value)


def test_a_job_beyond_a_limit_waits_for_nobody_and_nobody_for_it(
    artifact_store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, release = threading.Event(), threading.Event()
    ranked: list[int] = []

    def slow(artifact: Any, jobs: Any, policy: Any, now: Any) -> list[PreferenceList]:
        begun.set()
        release.wait(60)
        ranked.extend(len(job.candidates) for job in jobs)
        return ranking.rank(artifact, jobs, policy, now)

    router = Router(artifact_store, deadline=60.0)
    router.refresh()
    monkeypatch.setattr(router_module, "rank", slow)
    small = threading.Thread(target=router.rank, args=(JOB,))
    small.start()
    assert begun.wait(60)
    answer = router.rank(changed("candidates", tuple(f"type-{number}" for number in range(10**6)), JOB))
    assert small.is_alive(), "it was refused while another job was ranked"
    assert answer.no_opinion is not None
    assert "over the limit of 1048576" in answer.no_opinion
    release.set()
    small.join(60)
    assert ranked == [len(JOB.candidates)]


def test_as_many_candidates_as_may_be_are_ranked_and_their_list_fits(router: Router) -> None:
    names = ("fast", "basic", *(f"some-hardware-type-of-a-cloud-{number}" for number in range(MAX_CANDIDATES - 2)))
    answer = router.rank(msgspec.structs.replace(JOB, candidates=names))
    assert len(answer.ranked) + len(answer.excluded) == MAX_CANDIDATES
    known = router.rank(msgspec.structs.replace(JOB, candidates=("fast", "basic", "newest", "unpriced") * 250))
    assert len(known.ranked) + len(known.excluded) == MAX_CANDIDATES
    assert max(len(encode(one)) for one in (answer, known)) <= MAX_LIST_BYTES


def test_a_list_of_the_longest_names_fits_without_them(router: Router) -> None:
    names = tuple(f"{number:04}" + "é" * 508 for number in range(MAX_CANDIDATES))
    answer = router.rank(msgspec.structs.replace(JOB, candidates=names))
    assert (answer.ranked, answer.candidates) == ((), ())
    assert answer.no_opinion is not None
    shorter = tuple(f"{number:04}" + "é" * 496 for number in range(MAX_CANDIDATES))
    answer = router.rank(msgspec.structs.replace(JOB, candidates=shorter))
    assert (answer.no_opinion, answer.candidates) == ("list too large", ())
