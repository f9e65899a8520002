"""``leap dead-letters``: what workers refused and why, and sending it again."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from leap.predictor.cli.options import Json
from leap.streams.cli.common import read_settings

if TYPE_CHECKING:
    from leap.schemas.events import DeadLetter
    from leap.streams.runtime.settings import Settings

CUT = "first "  # how the reason of a dead letter begins whose message was too long to keep whole

app = typer.Typer(no_args_is_help=True, help="List dead letters, and send their messages again.")
Hours = Annotated[float, typer.Option(min=0, help="How far back to look.")]


@app.command("list")
def list_letters(hours: Hours = 24.0, as_json: Json = False) -> None:
    """Count the dead letters of the last hours by worker, topic and reason.

    Example:
      leap dead-letters list --hours 2
    """
    letters = _read(read_settings(), hours)
    counts = Counter((letter.worker, letter.topic, letter.reason) for letter in letters)
    last = {(letter.worker, letter.topic, letter.reason): f"{letter.partition}/{letter.offset}" for letter in letters}
    rows = [
        {"worker": kind[0], "topic": kind[1], "reason": kind[2], "count": count, "last": last[kind]}
        for kind, count in counts.most_common()
    ]
    if as_json:
        print(msgspec.json.encode(rows).decode())
        return
    print(f"{len(letters)} dead letters in {hours:g} hours")
    for row in rows:
        print(f"{row['count']:8} {row['worker']:8} {row['topic']} (last at {row['last']}): {row['reason']}")


@app.command()
def replay(hours: Hours = 24.0) -> None:
    """Send the original messages of the last hours to their topics again.

    A message that two workers refused is sent once. One that was too long to be kept whole is not sent.

    Example:
      leap dead-letters replay --hours 2
    """
    from leap.streams.kafka.clients import CheckedProducer

    settings = read_settings()
    whole = {
        (letter.topic, letter.partition, letter.offset): letter
        for letter in _read(settings, hours)
        if not letter.reason.startswith(CUT)
    }
    producer = CheckedProducer(settings)
    for letter in whole.values():
        producer.produce(letter.topic, letter.value or b"", letter.key)
    producer.flush()
    print(f"{len(whole)} messages sent again")


def letters(
    hours: Hours = 24.0,
    again: Annotated[bool, typer.Option("--again", help="Now `leap dead-letters replay`.")] = False,
    as_json: Json = False,
) -> None:
    """Now `leap dead-letters`.

    Example:
      leap dead-letters list
    """
    typer.secho("leap letters is now leap dead-letters list and leap dead-letters replay", fg="yellow", err=True)
    if again:
        replay(hours)
    else:
        list_letters(hours, as_json)


def _read(settings: "Settings", hours: float) -> "list[DeadLetter]":
    from leap.schemas.codec import Rejected, decode
    from leap.schemas.events import DeadLetter
    from leap.schemas.topics import DEAD_LETTERS, load_topics
    from leap.streams.kafka.range_reader import read_range

    limit = load_topics()[DEAD_LETTERS].max_message_bytes
    letters = []
    for message in read_range(settings, settings.topic(DEAD_LETTERS), datetime.now(UTC) - timedelta(hours=hours)):
        try:
            letters.append(decode(message.value, DeadLetter, limit))
        except Rejected as error:
            where = f"{message.partition}/{message.offset}"
            typer.secho(f"not a dead letter: {message.topic} at {where}: {error}", fg="yellow", err=True)
    return letters
