"""Structured logs: one JSON object a line on standard error, or coloured text on a terminal."""

import logging
import sys

import structlog

# Tracebacks without the values of variables, which structlog shows by default: passwords are among them.
TERMINAL = (structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),)
LINES = (
    structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
    structlog.processors.JSONRenderer(),
)


def configure(level: int | str = logging.INFO) -> None:
    """Set up logging of this process, once, at its start, from a level on."""
    number = logging.getLevelNamesMapping()[level.upper()] if isinstance(level, str) else level
    terminal = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *(TERMINAL if terminal else LINES),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        # Asked at every line: a program may replace its standard error, and close the one before.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    logging.basicConfig(
        level=max(number, logging.INFO), stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
