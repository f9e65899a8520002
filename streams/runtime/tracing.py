"""Trace context that travels in the headers of messages (W3C Trace Context), and spans where OpenTelemetry is there.

A worker puts the headers of a submission on its preference list, and those of the message that completed an attempt on
its row. With the extra ``tracing`` and an OpenTelemetry SDK in the process, each step is a span between them;
without, the headers travel as they are. A message without them has none made up.
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
MAX_STATE = 512  # characters; the standard lets whoever passes a longer one on leave it out
_parent = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def carried(headers: Iterable[tuple[str, str | bytes | None]] | None) -> Headers:
    """The trace context among a message's headers; nothing if it is malformed.

    >>> parent = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    >>> carried([("traceparent", parent), ("other", b"x")]) == (("traceparent", parent),)
    True
    >>> carried([("traceparent", b"x"), ("tracestate", b"a=1")])
    ()
    """
    if not headers:
        return ()
    found = {name: value for name, value in headers if name in (PARENT, STATE) and isinstance(value, bytes)}
    if not _parent.fullmatch(found.get(PARENT, b"")):
        return ()
    if len(found.get(STATE, b"")) > MAX_STATE:
        del found[STATE]
    return tuple(found.items())


def trace_id(headers: Headers) -> str | None:
    """The trace that headers belong to, for a log.

    >>> trace_id((("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),))
    '0af7651916cd43dd8448eb211c80319c'
    >>> trace_id(())
    """
    found = _parent.fullmatch(dict(headers).get(PARENT, b""))
    return found[1].decode() if found else None


class Step:
    """One step of a trace, from its creation to `end`: a span where there is a trace and OpenTelemetry, else nothing.

    Parameters
    ----------
    name
        What is done.
    headers
        Of the message that it is done for.

    Attributes
    ----------
    headers
        For the message that comes of it.
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
        """It is done; `attributes` say what came of it."""
        if self._span is not None:
            self._span.set_attributes({f"leap.{name}": value for name, value in attributes.items()})
            self._span.end()


def current() -> Headers:
    """Context of the span that is open in this thread, for a launcher's events."""
    return _of(None) if INSTALLED else ()


def _of(span: "OpenSpan | None") -> Headers:
    text: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(text, set_span_in_context(span) if span is not None else None)
    return tuple((name, value.encode("latin-1")) for name, value in text.items())
