"""A broker and a store with a user for every role, with the rights of :mod:`leap.streams.runtime.acl` and no others."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from leap.streams.embedded import Pair
from leap.streams.kafka.clients import admin_config
from leap.streams.runtime.acl import ROLES, grants, store_rules
from leap.streams.runtime.settings import Settings
from tests.security.services import ADMIN, Authority, kafka_environment, secure_kafka, secure_redis

PREFIX = {"LEAP_TOPIC_PREFIX": "fleet-", "LEAP_REDIS_PREFIX": "fleet"}


@dataclass(frozen=True)
class House:
    """Addresses, certificates, and a password for every role."""

    bootstrap: str
    redis: str
    authority: Authority

    def password(self, role: str) -> str:
        """What a role's user is let in with, at broker and store alike."""
        return f"{role}-s3cr3t"

    def environment(self, role: str, password: str | None = None, ca: Path | None = None) -> dict[str, str]:
        """The variables of a role's process."""
        password = password or self.password(role)
        ca = ca or self.authority.ca
        url = f"rediss://{role}:{password}@{self.redis}/0?ssl_ca_certs={ca}"
        kafka = kafka_environment(self.bootstrap, self.authority, role, password)
        return PREFIX | kafka | {"LEAP_KAFKA_SSL_CA_LOCATION": str(ca), "LEAP_REDIS_URL": url}

    def settings(self, role: str) -> Settings:
        """Settings of a role's process."""
        return Settings.from_environment(self.environment(role))


@pytest.fixture(scope="session")
def house(backend: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Broker and store with TLS, users and rights. `backend` has seen to it that the programs are there."""
    directory = tmp_path_factory.mktemp("secure")
    authority = Authority.under(directory)
    settings = Settings.from_environment(PREFIX)
    users = [
        " ".join(["user", role, "on", f">{role}-s3cr3t", *rules])
        for role in ROLES
        if (rules := store_rules(role, settings))
    ]
    with secure_kafka(directory, authority) as bootstrap, secure_redis(directory, authority, users) as store:
        built = House(bootstrap, store, authority)
        environment = kafka_environment(bootstrap, authority, *ADMIN)
        _give_rights(AdminClient(admin_config(Settings.from_environment(environment))), built, settings)
        yield built


def _give_rights(admin: AdminClient, house: House, settings: Settings) -> None:
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    users: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(role, credential, house.password(role).encode()) for role in ROLES
    ]
    rights = [
        AclBinding(
            ResourceType[grant.resource.upper()],
            grant.name,
            ResourcePatternType.PREFIXED if grant.prefixed else ResourcePatternType.LITERAL,
            f"User:{role}",
            "*",
            AclOperation[grant.operation.upper()],
            AclPermissionType.ALLOW,
        )
        for role in ROLES
        for grant in grants(role, settings)
    ]
    for done in (*admin.alter_user_scram_credentials(users).values(), *admin.create_acls(rights).values()):
        done.result(30)
