"""Trace context goes with the work: from a submission to its list, from a completion to its row."""

import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from leap.predictor.artifacts.local_store import LocalStore
from leap.schemas.codec import encode
from leap.schemas.topics import ATTEMPTS, COMPLETED, DEAD_LETTERS, PREFERENCES, SUBMITTED
from leap.streams.joining.worker import joiner_loop
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.message import Message
from leap.streams.kafka.range_reader import read_range
from leap.streams.launcher.launcher import Launcher
from leap.streams.ranking.worker import ranking_loop
from leap.streams.runtime import tracing
from leap.streams.runtime.settings import Settings
from leap.streams.runtime.tracing import Headers, Step, carried, trace_id
from tests.builders import attempt, submission

STATE = ("tracestate", b"vendor=1")


def parent(number: int) -> Headers:
    return (("traceparent", b"00-%032x-%016x-01" % (number, number)), STATE)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """An SDK in this process; what it exports."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "get_tracer", provider.get_tracer)
    return exporter


@given(st.lists(st.tuples(st.sampled_from(["traceparent", "tracestate", "x"]), st.none() | st.binary(max_size=600))))
def test_arbitrary_headers_do_not_raise(headers: list[tuple[str, bytes | None]]) -> None:
    assert carried(headers) == () or trace_id(carried(headers))


@pytest.mark.parametrize("bad", [b"", b"ff-%032x-%016x-01" % (1, 1), b"00-%032x-%016x-01" % (0, 1), b"00-1-2-01"])
def test_malformed_traceparent_is_dropped(bad: bytes) -> None:
    assert carried([("traceparent", bad), STATE]) == ()


def test_oversized_tracestate_is_dropped() -> None:
    assert carried([parent(7)[0], ("tracestate", b"a=" + b"1" * 600)]) == parent(7)[:1]


def test_headers_pass_through_without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "INSTALLED", False)
    step = Step("rank", parent(3))
    step.end(attempt="a")
    assert (step.headers, tracing.current()) == (parent(3), ())


def test_headers_pass_through_without_an_sdk() -> None:
    assert Step("rank", parent(3)).headers == parent(3)
    assert Step("rank", ()).headers == ()


def read(settings: Settings, topic: str) -> list[Message]:
    return list(read_range(settings, settings.topic(topic)))


def test_trace_continues_from_submission_to_list_and_completion_to_row(
    topics: Settings, artifact_store: LocalStore, spans: InMemorySpanExporter
) -> None:
    settings = replace(topics, artifacts=str(artifact_store.root))
    job = submission("a-1", job_name="team/job-3x")
    producer = CheckedProducer(settings)
    producer.produce(settings.topic(SUBMITTED), encode(job), trace=parent(1))
    producer.produce(settings.topic(SUBMITTED), b"{", trace=parent(2))
    producer.produce(settings.topic(COMPLETED), encode(attempt(job, "basic", 10.0).completed), trace=parent(3))
    producer.flush()
    stop = threading.Event()
    ranking_loop(settings, stop).run(until_end=True)
    stop.set()
    joiner_loop(settings).run(until_end=True)
    [answer] = read(settings, PREFERENCES)
    letters = {letter.trace for letter in read(settings, DEAD_LETTERS)}
    row = read(settings, ATTEMPTS)[-1]
    assert (trace_id(answer.trace), trace_id(row.trace), letters) == (f"{1:032x}", f"{3:032x}", {parent(2)})
    assert STATE in answer.trace
    ranked, *joined = spans.get_finished_spans()
    assert ranked.parent is not None and ranked.context is not None
    assert (ranked.name, ranked.parent.span_id) == ("leap rank", 1)
    assert answer.trace[0][1].split(b"-")[2] == b"%016x" % ranked.context.span_id
    assert ranked.attributes == {"leap.attempt": "a-1", "leap.family": "team/job-3x", "leap.outcome": "ranked"}
    assert {span.name for span in joined} == {"leap join"}


def test_launcher_sends_the_current_span(topics: Settings) -> None:
    outer = trace.NonRecordingSpan(trace.SpanContext(trace_id=5, span_id=6, is_remote=False))
    with Launcher(topics) as launcher:
        with trace.use_span(outer):
            launcher.submitted(submission("with"))
        launcher.submitted(submission("without"))
    traces = {message.key: trace_id(message.trace) for message in read(topics, SUBMITTED)}
    assert traces == {b"with": f"{5:032x}", b"without": None}
