"""Structured logs on standard error: JSON lines, or coloured text on a terminal."""

import logging
import os
import sys

import structlog

# Tracebacks without local variables, which structlog prints by default: they include passwords.
TERMINAL = (
    structlog.dev.ConsoleRenderer(
        colors=not os.environ.get("NO_COLOR"), exception_formatter=structlog.dev.plain_traceback
    ),
)
LINES = (
    structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
    structlog.processors.JSONRenderer(),
)


def configure(level: int | str = logging.INFO) -> None:
    """Configure logging of this process; call once at startup."""
    number = logging.getLevelNamesMapping()[level.upper()] if isinstance(level, str) else level
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendered = TERMINAL if sys.stderr.isatty() else LINES
    structlog.configure(
        processors=[*shared, *rendered],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        # Looked up per line: a program may replace sys.stderr and close the old one.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    handler = logging.StreamHandler()
    handler.setFormatter(  # same format for the standard library's loggers (predictor, third parties)
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendered],
        )
    )
    logging.basicConfig(level=max(number, logging.INFO), handlers=[handler])
