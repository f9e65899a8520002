"""Look at everything that Leap stands on, and say what to do about what is found: one check, one function.

A check returns what it found in order, or raises :class:`CheckFailed`. It has a deadline of its own, so that whatever
hangs, all are done within twice the deadline: first those that others need, then the rest, each lot side by side.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec

from leap.predictor.storage.urls import redact_url
from leap.streams.doctor import artifact_checks as artifacts
from leap.streams.doctor import kafka_checks as kafka
from leap.streams.doctor import redis_checks as store
from leap.streams.doctor.check import DEADLINE_S, CheckContext, CheckFailed


class Check(NamedTuple):
    """One row of the table of checks.

    Attributes
    ----------
    run
        Runs the check; returns what it found.
    needs
        Name of the check without which this one has nothing to look at.
    """

    name: str
    run: Callable[[CheckContext], str]
    needs: str = ""


CHECKS = (
    Check("broker", kafka.broker),
    Check("topics", kafka.topics, "broker"),
    Check("replicas", kafka.replicas, "broker"),
    Check("rights on topics", kafka.rights, "broker"),
    Check("history worker", kafka.history, "broker"),
    Check("attempt joiner", kafka.joiner, "broker"),
    Check("ranking worker", kafka.ranking, "broker"),
    Check("dead letters", kafka.dead_letters, "broker"),
    Check("clocks of senders", kafka.clocks, "broker"),
    Check("store", store.answers),
    Check("rights in the store", store.rights, "store"),
    Check("store persistence", store.persistence, "store"),
    Check("store eviction", store.eviction, "store"),
    Check("store memory", store.memory, "store"),
    Check("clock of the store", store.clock, "store"),
    Check("artifacts", artifacts.reachable),
    Check("production", artifacts.production, "artifacts"),
    Check("hardware catalog", artifacts.catalog),
)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found.

    Attributes
    ----------
    state
        A warning can wait until morning; what was not looked at is told by the fault that it hangs on.
    remedy
        What to do; empty where all is well.
    """

    check: str
    state: Literal["ok", "warning", "fault", "not looked at"]
    found: str
    remedy: str = ""


def examine(context: CheckContext, checks: Sequence[Check] = CHECKS, deadline_s: float = DEADLINE_S) -> list[Finding]:
    """Run all checks; returns their findings in the order of the table, within twice the deadline."""
    first = _side_by_side(context, [check for check in checks if not check.needs], deadline_s)
    wanted = [check for check in checks if check.needs and first[check.needs].state != "fault"]
    findings = first | _side_by_side(context, wanted, deadline_s)
    return [findings.get(check.name) or _left_out(check) for check in checks]


def _side_by_side(context: CheckContext, checks: Sequence[Check], deadline_s: float) -> dict[str, Finding]:
    findings = {
        check.name: Finding(
            check=check.name,
            state="fault",
            found=f"no answer within {deadline_s:g} s",
            remedy="look at the network between here and there, and at its load",
        )
        for check in checks
    }
    done = threading.Semaphore(0)

    def run(check: Check) -> None:
        findings[check.name] = _finding(context, check)
        done.release()

    for check in checks:
        threading.Thread(target=run, args=(check,), name=check.name, daemon=True).start()
    until = context.monotonic() + deadline_s
    for _ in checks:
        done.acquire(timeout=max(0.0, until - context.monotonic()))
    return dict(findings)  # one that answers later changes nothing


def _finding(context: CheckContext, check: Check) -> Finding:
    try:
        return Finding(check=check.name, state="ok", found=check.run(context))
    except CheckFailed as failure:
        state: Literal["warning", "fault"] = "warning" if failure.can_wait else "fault"
        return Finding(check=check.name, state=state, found=str(failure), remedy=failure.remedy)
    except Exception as error:  # whatever a client raises is a finding too
        text = redact_url(f"{type(error).__name__}: {error}")
        return Finding(check=check.name, state="fault", found=text, remedy="see what it names")


def _left_out(check: Check) -> Finding:
    return Finding(check=check.name, state="not looked at", found=f"needs: {check.needs}")
