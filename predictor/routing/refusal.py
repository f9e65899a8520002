"""The empty list of what could not be ranked, and may be no submission at all."""

from datetime import datetime

from leap.schemas.events import PreferenceList
from leap.schemas.launch import MAX_NAME
from leap.schemas.validation import clipped, part

#: Stands for an attempt that has no id.
NO_ID = "?"


def refusal(job: object, reason: str, now: datetime) -> PreferenceList:
    """An empty list that can be encoded whatever `job` is; of its fields it has those that are texts.

    Its candidates are left out: nobody has checked how many they are, and what they are called.
    """
    return PreferenceList(
        attempt_id=_text(job, "attempt_id") or NO_ID,
        model_type=_text(job, "model_type"),
        no_opinion=clipped(reason, MAX_NAME),
        pinned=_text(job, "pinned") or None,
        decided_at=now,
    )


def _text(job: object, name: str) -> str:
    value = part(job, name)
    return clipped(value, MAX_NAME) if isinstance(value, str) else ""
