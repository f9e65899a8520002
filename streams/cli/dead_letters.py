"""``leap letters``: what was set aside, why, and once more."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
import typer

from leap.streams.cli.common import read_settings

CUT = "first "  # how the reason of a letter begins whose message was too long to keep whole


def letters(
    hours: Annotated[float, typer.Option(min=0, help="How far back to look.")] = 24.0,
    again: Annotated[bool, typer.Option("--again", help="Send the original messages to their topics.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, for a program to read.")] = False,
) -> None:
    """List the dead letters of the last hours by worker, topic and reason; or send their messages again.

    A message that two workers refused is sent once. One that was too long to be kept whole is not sent.
    """
    from leap.schemas.codec import Rejected, decode
    from leap.schemas.events import DeadLetter
    from leap.schemas.topics import DEAD_LETTERS, load_topics
    from leap.streams.kafka.clients import CheckedProducer
    from leap.streams.kafka.range_reader import read_range

    settings = read_settings()
    limit = load_topics()[DEAD_LETTERS].max_message_bytes
    since = datetime.now(UTC) - timedelta(hours=hours)
    found: list[DeadLetter] = []
    for message in read_range(settings, settings.topic(DEAD_LETTERS), since):
        try:
            found.append(decode(message.value, DeadLetter, limit))
        except Rejected as error:
            where = f"{message.partition}/{message.offset}"
            typer.secho(f"not a dead letter: {message.topic} at {where}: {error}", fg="yellow", err=True)
    if again:
        whole = {(one.topic, one.partition, one.offset): one for one in found if not one.reason.startswith(CUT)}
        producer = CheckedProducer(settings)
        for one in whole.values():
            producer.produce(one.topic, one.value or b"", one.key)
        producer.flush()
        print(f"{len(whole)} messages sent again")
        return
    counts = Counter((one.worker, one.topic, one.reason) for one in found)
    last = {(one.worker, one.topic, one.reason): f"{one.partition}/{one.offset}" for one in found}
    rows = [
        {"worker": kind[0], "topic": kind[1], "reason": kind[2], "count": count, "last": last[kind]}
        for kind, count in counts.most_common()
    ]
    if as_json:
        print(msgspec.json.encode(rows).decode())
        return
    print(f"{len(found)} dead letters in {hours:g} hours")
    for row in rows:
        print(f"{row['count']:8} {row['worker']:8} {row['topic']} (last at {row['last']}): {row['reason']}")
