"""``leap dead-letters``: what workers refused and why, and sending it again."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from leap.predictor.cli.options import Json
from leap.predictor.cli.terminal import printable
from leap.streams.cli.common import read_settings

if TYPE_CHECKING:
    from leap.schemas.events import DeadLetter
    from leap.streams.consumer.resend import Refused
    from leap.streams.runtime.settings import Settings

app = typer.Typer(no_args_is_help=True, help="List dead letters, and send their messages again.")
Hours = Annotated[float, typer.Option(min=0, help="How far back to look.")]
Worker = Annotated[str, typer.Option(help="Only what this worker refused.")]
OfTopic = Annotated[str, typer.Option(help="Only messages of this topic.")]
Reason = Annotated[str, typer.Option(help="Only reasons that contain this text.")]
#: Bytes of a payload that are shown, to a person and as JSON.
SHOWN, SHOWN_JSON = 120, 2000


@app.command("list")
def list_letters(
    hours: Hours = 24.0,
    worker: Worker = "",
    topic: OfTopic = "",
    reason: Reason = "",
    each: Annotated[int, typer.Option(min=0, help="Latest messages to show of each kind.")] = 3,
    as_json: Json = False,
) -> None:
    """Count the dead letters of the last hours by worker, topic and reason, and show the latest of each.

    A message that was sent again and refused again counts once.

    Example:
      leap dead-letters list --hours 2 --worker history
    """
    settings = read_settings()
    takes = _filter(settings, worker, topic, reason)
    letters = [letter for one in _refused(settings, hours, takes) for letter in one.latest.values() if takes(letter)]
    kinds: dict[tuple[str, str, str], list[DeadLetter]] = {}
    for letter in sorted(letters, key=lambda letter: letter.rejected_at, reverse=True):
        kinds.setdefault((letter.worker, letter.topic, letter.reason), []).append(letter)
    rows: list[dict[str, Any]] = [
        dict(zip(("worker", "topic", "reason"), kind, strict=True))
        | {"count": len(same), "last": f"{same[0].partition}/{same[0].offset}"}
        | {"letters": [_shown(letter, SHOWN_JSON if as_json else SHOWN) for letter in same[:each]]}
        for kind, same in sorted(kinds.items(), key=lambda item: -len(item[1]))
    ]
    if as_json:
        print(msgspec.json.encode(rows).decode())
        return
    print(f"{len(letters)} dead letters in {hours:g} hours")
    for row in rows:
        print(printable(f"{row['count']:8} {row['worker']:8} {row['topic']} (last at {row['last']}): {row['reason']}"))
        for one in row["letters"]:
            where = f"{one['at']:%Y-%m-%d %H:%M:%SZ} {one['position']} key {one['key']}"
            print(printable(f"{'':9}{where}: {one['payload']}"))


@app.command()
def replay(
    hours: Hours = 24.0,
    worker: Worker = "",
    topic: OfTopic = "",
    reason: Reason = "",
    send: Annotated[bool, typer.Option("--send", help="Send them; without it, only say what would be sent.")] = False,
    as_json: Json = False,
) -> None:
    """Send the original messages of the last hours to their topics again, for the workers that refused them.

    First without --send, which only counts. A message that two workers refused is sent once. Not sent are one that
    was too long to be kept whole, and one that was sent again since it was last refused.

    Examples:
      leap dead-letters replay --hours 2 --reason "unknown field"
      leap dead-letters replay --hours 2 --reason "unknown field" --send
    """
    from leap.streams.consumer.resend import send_again, waiting

    settings = read_settings()
    chosen = _refused(settings, hours, _filter(settings, worker, topic, reason))
    due = list(waiting(settings, chosen))
    cut = sum(not one.is_whole for one in chosen)
    count = {"messages": len(due), "sent_before": len(chosen) - cut - len(due), "cut": cut, "sent": send}
    if send:
        send_again(settings, due)
    if as_json:
        print(msgspec.json.encode(count).decode())
        return
    print(f"{len(due)} messages {'sent again' if send else 'to send again'}")
    if not send:
        for name, number in Counter(one.letter.reason for one in due).most_common():
            print(printable(f"{number:8} {name}"))
        print("nothing is sent without --send")
    if count["sent_before"]:
        print(f"{count['sent_before']} were sent again before, and not refused since")
    if cut:
        print(f"{cut} were too long to be kept whole: their senders have to send them")


def letters(
    hours: Hours = 24.0,
    again: Annotated[bool, typer.Option("--again", help="Now `leap dead-letters replay --send`.")] = False,
    as_json: Json = False,
) -> None:
    """Now `leap dead-letters`.

    Example:
      leap dead-letters list
    """
    typer.secho("leap letters is now leap dead-letters list and leap dead-letters replay", fg="yellow", err=True)
    if again:
        replay(hours, send=True)
    else:
        list_letters(hours, as_json=as_json)


def _refused(settings: "Settings", hours: float, takes: "Callable[[DeadLetter], bool]") -> "list[Refused]":
    from leap.streams.consumer.resend import refused

    def tell(text: str) -> None:
        typer.secho(printable(text), fg="yellow", err=True)

    return refused(settings, datetime.now(UTC) - timedelta(hours=hours), takes, tell)


def _filter(settings: "Settings", worker: str, topic: str, reason: str) -> "Callable[[DeadLetter], bool]":
    def takes(letter: "DeadLetter") -> bool:
        return (
            worker in ("", letter.worker)
            and topic in ("", letter.topic, letter.topic.removeprefix(settings.topic_prefix))
            and reason in letter.reason
        )

    return takes


def _shown(letter: "DeadLetter", limit: int) -> dict[str, Any]:
    value = letter.value or b""
    return {
        "at": letter.rejected_at,
        "key": (letter.key or b"")[:SHOWN].decode(errors="replace"),
        "position": f"{letter.partition}/{letter.offset}",
        "payload": value[:limit].decode(errors="replace") + ("…" if len(value) > limit else ""),
        "bytes": len(value),
    }
