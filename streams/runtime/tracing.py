"""Trace context in message headers (W3C Trace Context), and spans if OpenTelemetry is installed.

A worker copies the headers of a submission to its preference list, and those of the message that completed an attempt
to its row. With the extra ``tracing`` and an OpenTelemetry SDK in the process, each step is a span in between;
without, the headers are passed through unchanged. No trace is started for a message without headers.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Span as OpenSpan

try:
    from opentelemetry.trace import SpanKind, get_tracer, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError:  # the extra is not installed
    INSTALLED = False
else:
    INSTALLED = True

Headers = tuple[tuple[str, bytes], ...]

PARENT, STATE = "traceparent", "tracestate"
MAX_STATE = 512  # characters; the standard permits dropping a longer one
_parent = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def carried(headers: Iterable[tuple[str, str | bytes | None]] | None) -> Headers:
    """Trace context headers of a message; empty if malformed.

    >>> parent = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    >>> carried([("traceparent", parent), ("other", b"x")]) == (("traceparent", parent),)
    True
    >>> carried([("traceparent", b"x"), ("tracestate", b"a=1")])
    ()
    """
    if not headers:
        return ()
    context = {name: value for name, value in headers if name in (PARENT, STATE) and isinstance(value, bytes)}
    if not _parent.fullmatch(context.get(PARENT, b"")):
        return ()
    if len(context.get(STATE, b"")) > MAX_STATE:
        del context[STATE]
    return tuple(context.items())


def trace_id(headers: Headers) -> str | None:
    """Trace id of the headers, for logs.

    >>> trace_id((("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),))
    '0af7651916cd43dd8448eb211c80319c'
    >>> trace_id(())
    """
    match = _parent.fullmatch(dict(headers).get(PARENT, b""))
    return match[1].decode() if match else None


class Step:
    """A span from creation to `end`; a no-op without a trace or without OpenTelemetry.

    Parameters
    ----------
    name
        Span name, without the prefix ``leap``.
    headers
        Trace headers of the input message.

    Attributes
    ----------
    headers
        Trace headers for the output message.
    """

    def __init__(self, name: str, headers: Headers) -> None:
        self.headers = headers
        self._span: OpenSpan | None = None
        if headers and INSTALLED:
            text = {key: value.decode("latin-1") for key, value in headers}
            parent = TraceContextTextMapPropagator().extract(text)
            self._span = get_tracer("leap").start_span(f"leap {name}", parent, SpanKind.CONSUMER)
            self.headers = _of(self._span)

    def end(self, **attributes: str) -> None:
        """End the span with `attributes`."""
        if self._span is not None:
            self._span.set_attributes({f"leap.{name}": value for name, value in attributes.items()})
            self._span.end()


def current() -> Headers:
    """Headers of the current span of this thread, for a launcher's events."""
    return _of(None) if INSTALLED else ()


def _of(span: "OpenSpan | None") -> Headers:
    text: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(text, set_span_in_context(span) if span is not None else None)
    return tuple((name, value.encode("latin-1")) for name, value in text.items())
