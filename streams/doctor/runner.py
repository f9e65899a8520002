"""Check everything that Leap depends on; each failed check says what to do.

A check is a function that returns a summary or raises :class:`CheckFailed`. Checks that others require run first, then
the rest; each group runs concurrently under a deadline, so the run takes at most twice the deadline whatever hangs.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec

from leap.predictor.storage.urls import redact_url
from leap.streams.doctor import artifact_checks, kafka_checks, lag_checks, redis_checks
from leap.streams.doctor.check import DEADLINE_S, CheckContext, CheckFailed


class Check(NamedTuple):
    """A check.

    Attributes
    ----------
    run
        Runs the check; returns what it found.
    requires
        Name of the check that this one requires.
    """

    name: str
    run: Callable[[CheckContext], str]
    requires: str = ""


CHECKS = (
    Check("broker", kafka_checks.broker),
    Check("topics", kafka_checks.topics, "broker"),
    Check("replicas", kafka_checks.replicas, "broker"),
    Check("rights on topics", kafka_checks.rights, "broker"),
    Check("history worker", lag_checks.history, "broker"),
    Check("attempt joiner", lag_checks.joiner, "broker"),
    Check("ranking worker", lag_checks.ranking, "broker"),
    Check("dead letters", kafka_checks.dead_letters, "broker"),
    Check("clocks of senders", kafka_checks.clocks, "broker"),
    Check("store", redis_checks.answers),
    Check("rights in the store", redis_checks.rights, "store"),
    Check("store persistence", redis_checks.persistence, "store"),
    Check("store eviction", redis_checks.eviction, "store"),
    Check("store memory", redis_checks.memory, "store"),
    Check("clock of the store", redis_checks.clock, "store"),
    Check("artifacts", artifact_checks.reachable),
    Check("production", artifact_checks.production, "artifacts"),
    Check("hardware catalog", artifact_checks.catalog),
)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a check.

    Attributes
    ----------
    state
        A warning can wait until morning; a check is skipped if the one that it requires has a fault.
    remedy
        What to do; empty if the check passed.
    """

    check: str
    state: Literal["ok", "warning", "fault", "skipped"]
    found: str
    remedy: str = ""


def examine(context: CheckContext, checks: Sequence[Check] = CHECKS, deadline_s: float = DEADLINE_S) -> list[Finding]:
    """Run all checks; returns their findings in the same order, within twice the deadline."""
    first = _run_concurrently(context, [check for check in checks if not check.requires], deadline_s)
    wanted = [check for check in checks if check.requires and first[check.requires].state != "fault"]
    findings = first | _run_concurrently(context, wanted, deadline_s)
    return [findings.get(check.name) or _skipped(check) for check in checks]


def _run_concurrently(context: CheckContext, checks: Sequence[Check], deadline_s: float) -> dict[str, Finding]:
    findings = {
        check.name: Finding(
            check=check.name,
            state="fault",
            found=f"no answer within {deadline_s:g} s",
            remedy="check the network path and the load of the service",
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
    return dict(findings)  # a copy: late results are ignored


def _finding(context: CheckContext, check: Check) -> Finding:
    try:
        return Finding(check=check.name, state="ok", found=check.run(context))
    except CheckFailed as failure:
        state: Literal["warning", "fault"] = "warning" if failure.can_wait else "fault"
        return Finding(check=check.name, state=state, found=str(failure), remedy=failure.remedy)
    except Exception as error:  # any exception of a client is a finding too
        text = redact_url(f"{type(error).__name__}: {error}")
        return Finding(check=check.name, state="fault", found=text, remedy="see the error message")


def _skipped(check: Check) -> Finding:
    return Finding(check=check.name, state="skipped", found=f"requires {check.requires}")
