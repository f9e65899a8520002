"""The real services as a production would have them: TLS, passwords, and nobody in without rights."""

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
import trustme
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from leap.streams.embedded import child, free_port
from tests.services import JARS, JAVA, SERVER

ADMIN = ("admin", "admin-secret")
MECHANISM = "SCRAM-SHA-512"
SECURE = """
listeners=SASL_SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=SASL_SSL://127.0.0.1:{port}
inter.broker.listener.name=SASL_SSL
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="admin-secret";
ssl.keystore.type=PEM
ssl.keystore.location={certificate}
ssl.truststore.type=PEM
ssl.truststore.location={ca}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
"""
#: The controller's listener alone is without passwords, and only the broker itself can reach what it serves.


@dataclass(frozen=True)
class Authority:
    """A certificate authority of this run, and a server's certificate and key under it, as PEM files."""

    ca: Path
    server: Path
    other_ca: Path

    @classmethod
    def under(cls, directory: Path) -> "Authority":
        """Make one in a directory."""
        authority = trustme.CA()
        made = authority.issue_cert("127.0.0.1", "localhost")
        place = cls(directory / "ca.pem", directory / "server.pem", directory / "other-ca.pem")
        authority.cert_pem.write_to_path(place.ca)
        key = load_pem_private_key(made.private_key_pem.bytes(), None)
        pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # the form that Java reads
        place.server.write_bytes(pkcs8 + b"".join(blob.bytes() for blob in made.cert_chain_pems))
        trustme.CA().cert_pem.write_to_path(place.other_ca)
        return place


def kafka_environment(bootstrap: str, authority: Authority, user: str, password: str) -> dict[str, str]:
    """The variables by which a process comes in as a user."""
    return {
        "LEAP_KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "LEAP_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "LEAP_KAFKA_SASL_MECHANISM": MECHANISM,
        "LEAP_KAFKA_SASL_USERNAME": user,
        "LEAP_KAFKA_SASL_PASSWORD": password,
        "LEAP_KAFKA_SSL_CA_LOCATION": str(authority.ca),
        "LEAP_KAFKA_SESSION_TIMEOUT_MS": "1000",
        "LEAP_KAFKA_HEARTBEAT_INTERVAL_MS": "300",
        "LEAP_KAFKA_FETCH_WAIT_MAX_MS": "20",
    }


@contextmanager
def secure_kafka(directory: Path, authority: Authority) -> Iterator[str]:
    """Run Apache Kafka with SASL_SSL, SCRAM and ACLs, and one user who may do everything."""
    port = free_port()
    properties = directory / "server.properties"
    plain = [line for line in SERVER.splitlines() if not line.startswith(("listeners", "advertised.listeners"))]
    wanted = "\n".join(plain) + SECURE
    ports = {"port": port, "controller": free_port()}
    properties.write_text(
        wanted.format(**ports, data=directory / "data", certificate=authority.server, ca=authority.ca)
    )
    java = ["java", *JAVA, "-cp", f"{JARS}/*"]
    scram = f"{MECHANISM}=[name={ADMIN[0]},password={ADMIN[1]}]"
    storage = ["kafka.tools.StorageTool", "format", "-t", uuid.uuid4().hex, "-c", str(properties), "-S", scram]
    subprocess.run([*java, *storage], capture_output=True, check=True)
    bootstrap = f"127.0.0.1:{port}"
    environment = kafka_environment(bootstrap, authority, *ADMIN)
    config = {
        name.removeprefix("LEAP_KAFKA_").lower().replace("_", "."): value
        for name, value in environment.items()
        if "SASL" in name or "SSL" in name or "BOOTSTRAP" in name or "PROTOCOL" in name
    }

    def ready() -> bool:
        try:
            return bool(AdminClient(config | {"log_level": 0}).list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    with child([*java, "kafka.Kafka", str(properties)], directory / "kafka.log", ready, deadline_s=90):
        yield bootstrap


@contextmanager
def secure_redis(directory: Path, authority: Authority, users: list[str]) -> Iterator[str]:
    """Run Redis with TLS and an ACL file; yields ``host:port``."""
    port = free_port()
    (directory / "users.acl").write_text("\n".join(["user default off", *users]) + "\n")
    program = shutil.which("redis-server")
    assert program is not None
    options = ["--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", ""]
    options += ["--tls-cert-file", str(authority.server), "--tls-key-file", str(authority.server)]
    options += ["--tls-ca-cert-file", str(authority.ca), "--tls-auth-clients", "no"]
    options += ["--aclfile", str(directory / "users.acl")]

    def ready() -> bool:
        try:
            with redis.Redis.from_url(f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={authority.ca}") as client:
                client.ping()
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False
        return True

    with child([program, *options], directory / "redis.log", ready):
        yield f"127.0.0.1:{port}"
