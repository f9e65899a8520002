"""``leap topics``: create the declared topics, and check them."""

import os
from typing import Annotated

import typer

from schemas.topics import load_topics
from streams.settings import Settings, SettingsError

app = typer.Typer(no_args_is_help=True, help="Create and check the declared topics.")


def read_settings() -> Settings:
    """Settings from the environment, or an exit that says what is wrong with them."""
    try:
        return Settings.from_environment(os.environ)
    except SettingsError as error:
        typer.secho(str(error), fg="red", err=True)
        raise typer.Exit(1) from None


@app.command()
def ensure() -> None:
    """Create the topics that are missing; fail if one is not as declared."""
    from streams.topics import TopicError, ensure_topics

    settings = read_settings()
    try:
        created = ensure_topics(settings, load_topics().values())
    except TopicError as error:
        typer.secho(str(error), fg="red", err=True)
        raise typer.Exit(1) from None
    print(f"{len(created)} created: {', '.join(created)}" if created else "all topics are there, as declared")


@app.command()
def check() -> None:
    """Fail if a topic is missing or not as declared."""
    from streams.topics import TopicError, assert_topics

    try:
        if grown := assert_topics(read_settings(), load_topics().values()):
            raise TopicError("; ".join(grown))
    except TopicError as error:
        typer.secho(str(error), fg="red", err=True)
        raise typer.Exit(1) from None
    print("all topics are there, as declared")


@app.command("list")
def list_topics() -> None:
    """The declared topics."""
    for topic in load_topics().values():
        print(f"{topic.name:20} {topic.partitions:3} partitions  {topic.retention_days:4} days  {topic.description}")


@app.command()
def rights(
    role: Annotated[str, typer.Argument(help="A program, or operator for whoever runs `leap`.")],
    user: Annotated[str, typer.Option(help="Its name at broker and store; that of the role by default.")] = "",
) -> None:
    """The least that a program needs: commands for the broker, and for the store a line of its ACL file."""
    from streams.rights import ROLES, grants, kafka_command, store_rules

    if role not in ROLES:
        typer.secho(f"no role {role!r}; there are {', '.join(ROLES)}", fg="red", err=True)
        raise typer.Exit(1)
    settings = read_settings()
    for grant in grants(role, settings):
        print(kafka_command(grant, f"User:{user or role}"))
    if rules := store_rules(role, settings):
        print(" ".join(["user", user or role, "on", ">PASSWORD", *rules]))
