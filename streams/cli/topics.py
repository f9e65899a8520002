"""``leap topics``: create the declared topics, and check them."""

import json
from typing import Annotated

import typer

from leap.predictor.cli.errors import fail
from leap.predictor.cli.options import Json
from leap.schemas.topics import load_topics
from leap.streams.cli.common import read_settings

app = typer.Typer(no_args_is_help=True, help="Create and check the declared topics.")


@app.command()
def ensure() -> None:
    """Create the topics that are missing; fail if one is not as declared.

    Example:
      leap topics ensure
    """
    from leap.streams.kafka.topic_admin import ensure_topics

    created = ensure_topics(read_settings(), load_topics().values())
    print(f"{len(created)} created: {', '.join(created)}" if created else "all topics are there, as declared")


@app.command()
def check() -> None:
    """Fail if a topic is missing or not as declared.

    Example:
      leap topics check
    """
    from leap.streams.kafka.topic_admin import assert_topics

    if grown := assert_topics(read_settings(), load_topics().values()):
        raise fail("; ".join(grown))
    print("all topics are there, as declared")


@app.command("list")
def list_topics(as_json: Json = False) -> None:
    """List the declared topics.

    Example:
      leap topics list
    """
    if as_json:
        fields = ("name", "partitions", "retention_days", "cleanup", "description", "producers", "consumers")
        rows = [{field: getattr(topic, field) for field in fields} for topic in load_topics().values()]
        print(json.dumps(rows))
        return
    for topic in load_topics().values():
        print(f"{topic.name:20} {topic.partitions:3} partitions  {topic.retention_days:4} days  {topic.description}")


@app.command()
def rights(
    role: Annotated[str, typer.Argument(help="A program, or operator for whoever runs `leap`.")],
    user: Annotated[str, typer.Option(help="Its name at broker and store; that of the role by default.")] = "",
) -> None:
    """Print the least rights that a program needs: commands for the broker, and a line of the store's ACL file.

    Example:
      leap topics rights ranking
    """
    from leap.streams.runtime.acl import ROLES, grants, kafka_command, store_rules

    if role not in ROLES:
        raise fail(f"no role {role!r}; there are {', '.join(ROLES)}")
    settings = read_settings()
    for grant in grants(role, settings):
        print(kafka_command(grant, f"User:{user or role}"))
    if rules := store_rules(role, settings):
        print(" ".join(["user", user or role, "on", ">PASSWORD", *rules]))
