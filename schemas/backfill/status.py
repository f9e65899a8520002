"""How an attempt ended, in Leap's words, from the words of schedulers and trackers.

Only `succeeded` is learned from. The words are those of Slurm, Kubernetes, Ray, W&B, MLflow, SkyPilot and SageMaker;
one that is not among them is an error, for to take it for a failure would lose attempts without a word.
"""

import re

from leap.schemas.errors import LeapError
from leap.schemas.events import SUCCEEDED

#: Leap's word to the others, in lower case and without what separates words.
WORDS: dict[str, frozenset[str]] = {
    SUCCEEDED: frozenset({"success", "successful", "complete", "completed", "finished", "done", "ok", "passed",
                          "successcriteriamet"}),
    "failed": frozenset({"failure", "error", "errored", "crashed", "fail", "backofflimitexceeded", "failedsetup",
                         "failedprechecks", "failednoresource", "failedcontroller", "faileddriver", "failuretarget",
                         "podfailurepolicy", "failedindexes",
                         "maxfailedindexesexceeded"}),
    "out_of_memory": frozenset({"oom", "oomkilled", "outofmem"}),
    "timeout": frozenset({"timedout", "deadlineexceeded", "deadline", "activedeadlineexceeded"}),
    "preempted": frozenset({"preemption", "evicted", "spotinterrupted"}),
    "hardware_failure": frozenset({"nodefail", "nodefailure", "bootfail", "nodelost"}),
    "cancelled": frozenset({"canceled", "cancel", "killed", "stopped", "abort", "aborted", "revoked", "deleted",
                            "terminated"}),
}  # fmt: skip
#: Words of what has not ended yet.
UNFINISHED = frozenset(
    {"running", "pending", "queued", "starting", "scheduled", "suspended", "requeued", "requeuehold", "resizing",
     "completing", "configuring", "created", "inprogress", "stopping", "recovering", "submitted", "init", "settingup",
     "cancelling", "launching", "waiting"}
)  # fmt: skip
_STATUS = {re.sub("[^a-z]", "", word): status for status, words in WORDS.items() for word in (status, *words)}
#: Slurm says `CANCELLED by 1001`, and marks a shortened state with a plus sign.
_BY = re.compile(r"\s+by\s+\S+$|\+$")


class StatusError(LeapError, ValueError):
    """A word that says of no attempt how it ended; the text says what to do."""


def status_of(word: str) -> str:
    """Leap's word for a scheduler's.

    Raises
    ------
    StatusError
        If the word is not known, or the attempt has not ended.

    Examples
    --------
    >>> [status_of(word) for word in ("COMPLETED", "CANCELLED by 1001", "OOMKilled", "NODE_FAIL")]
    ['succeeded', 'cancelled', 'out_of_memory', 'hardware_failure']
    """
    key = re.sub("[^a-z]", "", _BY.sub("", word.strip().lower()))
    if key in UNFINISHED:
        raise StatusError("has not ended; exclude such rows under `keep`")
    if key not in _STATUS:
        raise StatusError(f"unknown; say under `values` which of {', '.join(WORDS)} it is")
    return _STATUS[key]
