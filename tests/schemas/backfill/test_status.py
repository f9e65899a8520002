"""Words of schedulers and trackers for how an attempt ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.schemas.backfill.status import UNFINISHED, WORDS, StatusError, status_of

CASES = {
    "COMPLETED": "succeeded",
    "Succeeded": "succeeded",
    "finished": "succeeded",
    "FINISHED": "succeeded",
    "Complete": "succeeded",
    "FAILED": "failed",
    "crashed": "failed",
    "OOMKilled": "out_of_memory",
    "OUT_OF_MEMORY": "out_of_memory",
    "CANCELLED by 1001": "cancelled",
    "CANCELLED+": "cancelled",
    "Stopped": "cancelled",
    "killed": "cancelled",
    "TIMEOUT": "timeout",
    "DeadlineExceeded": "timeout",
    "PREEMPTED": "preempted",
    "Evicted": "preempted",
    "NODE_FAIL": "hardware_failure",
    "BOOT_FAIL": "hardware_failure",
    "FAILED_SETUP": "failed",
}


@pytest.mark.parametrize(("word", "status"), CASES.items())
def test_usual_words_are_translated(word: str, status: str) -> None:
    assert status_of(word) == status


@pytest.mark.parametrize("word", ["weird", "", "COMPLETED?no", "succeeded maybe", "0", "completed by"])
def test_an_unknown_word_is_an_error_that_says_which_there_are(word: str) -> None:
    with pytest.raises(StatusError, match=r"unknown; say under `values` which of succeeded, failed, .* it is"):
        status_of(word)


@pytest.mark.parametrize("word", ["RUNNING", "Pending", "IN_PROGRESS", "COMPLETING"])
def test_what_has_not_ended_is_no_attempt(word: str) -> None:
    with pytest.raises(StatusError, match="has not ended"):
        status_of(word)


def test_no_word_means_two_things() -> None:
    words = [word for status, others in WORDS.items() for word in (status.replace("_", ""), *others)]
    assert len(words) == len(set(words))
    assert not UNFINISHED & set(words)


@given(st.text())
def test_any_text_is_a_status_or_an_error(word: str) -> None:
    try:
        status = status_of(word)
    except StatusError:
        return
    assert status in WORDS
    assert status_of(status) == status
