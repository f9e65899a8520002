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
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendered = TERMINAL if sys.stderr.isatty() else LINES
    structlog.configure(
        processors=[*shared, *rendered],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        # Asked at every line: a program may replace its standard error, and close the one before.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    handler = logging.StreamHandler()
    handler.setFormatter(  # the predictor and libraries log by the standard library: their lines look the same
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendered],
        )
    )
    logging.basicConfig(level=max(number, logging.INFO), handlers=[handler])
