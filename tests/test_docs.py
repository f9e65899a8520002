"""Every command of the documents runs, in its order, on a small fleet; what cannot run here exists with its options.

A block under ``<!-- not run: why -->`` is only looked up: the command, and every option that it names. Words in
capitals stand for what the fleet has.
"""

import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import typer
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from leap import cli
from leap.predictor.artifacts.local_store import LocalStore
from leap.schemas.events import THROUGHPUT
from leap.schemas.topics import load_topics
from leap.streams.embedded import child, embedded_pair
from leap.streams.kafka.clients import consumer_config
from leap.streams.kafka.range_reader import read_range
from leap.streams.kafka.topic_admin import ensure_topics
from leap.streams.runtime.acl import ROLES
from leap.streams.runtime.settings import Settings
from tests.docs_pages import PAGES, ROOT, Command, broken_links, commands, differs

#: What `leap up` runs that commits what it has read.
WORKERS = ("history", "joiner", "ranking")
#: Whole pages that are only looked up, and why.
LOOKED_UP = {
    "ablation.md": "takes minutes, and has tests of its own",
    "deployment.md": "needs Docker or Kubernetes",
    "runbook.md": "needs the alert that it is about",
    "security.md": "needs brokers and stores with users",
}


@pytest.fixture(scope="module")
def app() -> typer.Typer:
    """The whole command, as installed."""
    return cli.app


def test_pages_have_commands() -> None:
    found = {page.name: len(list(commands(page.read_text()))) for page in PAGES}
    assert found["README.md"] >= 8 and found["operations.md"] >= 15 and found["backfill.md"] >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_is_there(page: Path, app: typer.Typer) -> None:
    whole = typer.main.get_command(app)
    for command in commands(page.read_text()):
        if command.words[0] == "leap":
            assert unknown(whole, command.words[1:]) == "", f"{page.name}: {command.line}"


def test_what_is_not_there_is_found(app: typer.Typer) -> None:
    whole = typer.main.get_command(app)
    assert unknown(whole, ["history", "shout"]) == "shout"
    assert unknown(whole, ["history", "show", "x", "--loud"]) == "--loud"
    assert unknown(whole, ["history", "show", "x", "--target=throughput", "--json"]) == ""
    assert differs(("7 attempts", "…", "gone"), "8 attempts\nand more") == "gone"
    assert differs(("7 attempts", "…"), "8 attempts\nand more") == ""


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_every_document_is_in_the_index() -> None:
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)\)", (ROOT / "README.md").read_text()))
    assert linked >= {page.name for page in PAGES if page.parent.name == "docs"}


def test_every_command_and_option_has_a_help_text(app: typer.Typer) -> None:
    def silent(found: Any, path: str) -> Iterator[str]:
        if not (found.help or "").strip():
            yield path
        for name in found.list_commands(None) if hasattr(found, "commands") else ():
            yield from silent(found.get_command(None, name), f"{path} {name}")
        yield from (f"{path} {option.opts[0]}" for option in found.params if not getattr(option, "help", "help"))

    assert [*silent(typer.main.get_command(app), "leap")] == []


def unknown(found: Any, words: list[str]) -> str:
    """First word that is neither a subcommand nor an option of the command that it stands behind."""
    while hasattr(found, "commands"):
        name, *words = words or ["--help"]
        if name in ("--help", "--version"):
            return ""
        below = found.get_command(None, name)
        if below is None:
            return name
        found = below
    known = {name for option in found.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
    return next((word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known), "")


class World:
    """What the tour of the README makes, and all pages after it use."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.workers: list[str] = []
        self.words = {
            "MODEL_TYPE": "mmoe-s-v1",
            "ATTEMPT": "jobs/7",
            "FAMILY": "music-retrieval-wav2vec-s-v1-train",
            "DATE": "2026-06-15",
            "T0": "2026-06-10",
            "T1": "2026-06-11",
        }
        shutil.copytree(ROOT / "examples", folder / "examples")

    def environment(self) -> dict[str, str]:
        """Variables of every command."""
        return self.settings.to_environment() | {"COLUMNS": "120", "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}

    def run(self, app: typer.Typer, page: str, command: Command, workers: ExitStack) -> None:
        """Run one command as the reader would, from the folder of the fleet."""
        versions = LocalStore(self.folder / "artifacts").versions(THROUGHPUT) or [""]
        stands_for = self.words | {"A": versions[0], "B": versions[-1], "VERSION": versions[-1]}
        words = [stands_for.get(word, word) for word in command.words]
        if words == ["leap", "up"]:  # the pair is there
            ensure_topics(self.settings, load_topics().values())
            for name in WORKERS:
                self.start(name, workers)
            return
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, f"{page}: {command.line}\n{done.output}\n{done.exception!r}"
        assert differs(command.shown, done.stdout) == "", f"{page}: {command.line}\n{done.stdout}"

    def start(self, name: str, workers: ExitStack) -> None:
        """Start a worker, and wait until it has its partitions."""
        log = self.folder / f"{name}.log"
        command = [sys.executable, "-m", "leap", "worker", name]
        workers.enter_context(
            child(command, log, lambda: "partitions assigned" in log.read_text(), self.environment(), 60)
        )
        self.workers.append(name)

    def settle(self) -> None:
        """Wait until the workers have done all that there is."""
        while not all(worked_off(self.settings, worker) for worker in self.workers):  # pytest-timeout ends it
            time.sleep(0.2)


def worked_off(settings: Settings, worker: str) -> bool:
    """Whether a worker has committed all that its topics hold."""
    names = [settings.topic(name) for name, one in load_topics().items() if ROLES[worker].name in one.consumers]
    ends = {(one.topic, one.partition): one.offset + 1 for name in names for one in read_range(settings, name)}
    consumer = Consumer(consumer_config(settings, worker))
    try:
        done = consumer.committed([TopicPartition(*partition) for partition in ends], timeout=60)
    finally:
        consumer.close()
    return all(one.offset >= ends[one.topic, one.partition] for one in done)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One fleet for all pages, on a broker and store of its own."""
    folder = tmp_path_factory.mktemp("world")
    with embedded_pair(folder / "services") as pair:
        places = {"LEAP_ARTIFACTS": str(folder / "artifacts"), "LEAP_PARTITIONS": str(folder / "partitions")}
        yield World(Settings.from_environment(pair.environment() | places), folder)


@pytest.fixture
def there(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The fleet, with its environment and folder as this process's."""
    monkeypatch.chdir(world.folder)
    for name, value in world.environment().items():
        monkeypatch.setenv(name, value)
    yield world


@pytest.mark.timeout(600)
def test_every_command_runs(there: World, app: typer.Typer) -> None:
    """One test for all pages, README first: what a page needs was made by those before it."""
    with ExitStack() as workers:
        for page in PAGES:
            there.settle()
            for command in commands(page.read_text()) if page.name not in LOOKED_UP else ():
                if not command.why:
                    there.run(app, page.name, command, workers)
