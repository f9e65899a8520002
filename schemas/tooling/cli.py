"""`leap schemas`: export, check, show, validate."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, NoReturn

import msgspec
import typer
import yaml

from leap.schemas.codec import Rejected, decode
from leap.schemas.tooling.check import NEW_VERSION, check
from leap.schemas.tooling.json_schema import JSON, ROOT, BreakingChange, event_schema, export
from leap.schemas.topics import Topic, load_topics

app = typer.Typer(help="The contract: events, topics and their schemas.", no_args_is_help=True)

Against = Annotated[str, typer.Option(help="Git revision to stay compatible with.")]


Name = Annotated[str, typer.Argument(help="Topic, as shown by `leap topics list`.")]


@app.command("export")
def export_command(against: Against = "HEAD") -> None:
    """Write the JSON Schemas, the AsyncAPI document and docs/events.md.

    Example:
      leap schemas export --against main
    """
    try:
        written = export(baseline=committed(ROOT, against))
    except BreakingChange as error:
        _fail(f"{error}\n{NEW_VERSION}")
    for name in written:
        typer.echo(f"wrote {name}")
    typer.echo(f"{len(written)} files written, the others were up to date")


@app.command("check")
def check_command(against: Against = "HEAD") -> None:
    """Check that generated files are up to date, and compatible with an earlier commit.

    Example:
      leap schemas check --against main
    """
    baseline = committed(ROOT, against)
    if problems := check(baseline=baseline):
        _fail("\n".join([*problems, f"{len(problems)} problems"]))
    where = (
        "no git repository to compare with"
        if baseline is None
        else f"compatible with {len(baseline)} schemas at {against}"
    )
    typer.echo(f"{len(load_topics())} topics: schemas, documents and examples are up to date; {where}")


@app.command()
def show(topic: Name) -> None:
    """Print the declaration of a topic and the schema of its events.

    Example:
      leap schemas show job-submitted
    """
    declared = _topic(topic)
    typer.echo(yaml.safe_dump(msgspec.to_builtins(declared), sort_keys=False, width=110))
    typer.echo(json.dumps(event_schema(declared.event_type), indent=2, ensure_ascii=False))


@app.command()
def validate(
    topic: Name,
    file: Annotated[
        typer.FileBinaryRead,
        typer.Argument(
            help="A .json file holds one event; any other file, or - for standard input, one event per line."
        ),
    ],
) -> None:
    """Validate events in a file; list every invalid one.

    Example:
      leap schemas validate job-submitted examples/job.json
    """
    declared = _topic(topic)
    name = getattr(file, "name", "standard input")
    valid = 0
    problems = []
    for line, value in _messages(file, name):
        try:
            decode(value, declared.event_type, declared.max_message_bytes)
            valid += 1
        except Rejected as error:
            problems.append(f"{name}:{line}: {error}")
    for problem in problems:
        typer.echo(problem, err=True)
    typer.echo(f"{valid} valid, {len(problems)} invalid")
    if problems:
        raise typer.Exit(1)


def committed(root: Path, revision: str) -> dict[str, str] | None:
    """Schemas at a git revision, by path; None without a repository.

    Raises
    ------
    typer.Exit
        If git cannot read the revision.
    """
    if not (root / ".git").exists():
        return None
    names = _git(root, "ls-tree", "-r", "--name-only", revision, "--", JSON).splitlines()
    return {name: _git(root, "show", f"{revision}:{name}") for name in names}


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    except FileNotFoundError:
        _fail("git is not installed, so the schemas cannot be compared with those committed; install it")
    except subprocess.CalledProcessError as error:
        _fail(f"git {' '.join(arguments[:2])}: {error.stderr.strip()}; name a revision with --against")
    return done.stdout


def _messages(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Events of a file with their line numbers; blank lines are skipped."""
    if name.endswith(".json"):
        yield 1, file.read()
        return
    for number, line in enumerate(file, 1):
        if line.strip():
            yield number, line.rstrip(b"\r\n")


def _topic(name: str) -> Topic:
    topics = load_topics()
    if name not in topics:
        _fail(f"no topic {name!r}; available: {', '.join(topics)}")
    return topics[name]


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(1)
