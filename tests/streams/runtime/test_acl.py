"""The least rights: as documented, as printed, and for every program that the topics name."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from leap.schemas.topics import load_topics
from leap.streams.cli.topics import app
from leap.streams.runtime.acl import ROLES, Role

DOCUMENT = (Path(__file__).parents[3] / "docs" / "security.md").read_text(encoding="utf-8")
OPERATOR = "operator"


def row(title: str, role: Role) -> str:
    """A row of the table in docs/security.md."""
    topics = load_topics().values()
    read = [topic.name for topic in topics if role.name in topic.consumers]
    written = [topic.name for topic in topics if role.name in topic.producers]
    keys = [pattern.replace("~", "~leap", 1) for pattern in role.keys]
    cells = [", ".join(f"`{name}`" for name in names) for names in (read, written, role.groups, keys, role.commands)]
    if title == OPERATOR:
        cells[:2] = "all", "all"
    return f"| {title} | {' | '.join(cells)} |"


def test_documented_acl_table_equals_the_code() -> None:
    table = DOCUMENT.split("<!-- rights -->")[1].split("<!-- /rights -->")[0]
    assert table.strip().splitlines()[2:] == [row(title, role) for title, role in ROLES.items()]


def test_every_role_in_topic_declarations_has_acls() -> None:
    named = {name for topic in load_topics().values() for name in (*topic.producers, *topic.consumers)}
    assert named - {role.name for role in ROLES.values()} == {"replay"}, "which the operator runs"


def printed(*arguments: str) -> tuple[int, list[str]]:
    environment = {"LEAP_TOPIC_PREFIX": "fleet-", "LEAP_REDIS_PREFIX": "fleet"}
    done = CliRunner().invoke(app, ["rights", *arguments], env=environment)
    return done.exit_code, done.output.splitlines()


def test_rights_command_prints_the_acls_of_a_role() -> None:
    assert printed("ranking", "--user", "leap-ranking") == (
        0,
        [
            "kafka-acls --add --allow-principal User:leap-ranking --operation Write --topic fleet-dead-letter",
            "kafka-acls --add --allow-principal User:leap-ranking --operation Read --topic fleet-job-submitted",
            "kafka-acls --add --allow-principal User:leap-ranking --operation Write --topic fleet-preference-list",
            "kafka-acls --add --allow-principal User:leap-ranking --operation Read --group fleet-ranking",
            "user leap-ranking on >PASSWORD resetkeys resetchannels -@all %R~fleet:{switches}:current "
            "+ping +select +cluster|slots +command +asking +get",
        ],
    )


def test_rights_command_prints_prefixes_and_omits_redis_if_unused() -> None:
    code, lines = printed("launcher")
    assert code == 0 and lines[-1].endswith("--group fleet-preferences- --resource-pattern-type prefixed")


@pytest.mark.parametrize("role", ["", "nobody"])
def test_rights_command_rejects_an_unknown_role(role: str) -> None:
    code, lines = printed(role)
    assert code == 1 and "there are launcher, scheduler, history" in lines[0]
