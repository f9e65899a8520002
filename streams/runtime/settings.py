"""Environment variables, in one table.

Any librdkafka property can be set: ``LEAP_KAFKA_SASL_USERNAME`` is ``sasl.username``,
``LEAP_KAFKA_SSL_CA_LOCATION`` is ``ssl.ca.location``. With the suffix ``_FILE``, as in
``LEAP_KAFKA_SASL_PASSWORD_FILE``, a variable names a file that holds the value.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from leap.predictor.routing.rollout import premium_efficiency
from leap.schemas.errors import SettingsError
from leap.schemas.names.slips import warn_of_slips

PREFIX = "LEAP_"
KAFKA_PREFIX = "LEAP_KAFKA_"


class Variable(NamedTuple):
    """One row of the table of variables."""

    name: str
    default: str
    meaning: str


VARIABLES = (
    Variable("LEAP_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092", "Bootstrap brokers, host:port, comma-separated."),
    Variable("LEAP_KAFKA_<PROPERTY>", "", "Any librdkafka property: security.protocol, sasl.*, ssl.*, …"),
    Variable("LEAP_TOPIC_PREFIX", "", "Prefix of topics and consumer groups, for a shared cluster."),
    Variable("LEAP_TOPIC_REPLICATION", "-1", "Replication factor of created topics; -1 is the broker's default."),
    Variable("LEAP_TOPIC_EPOCH", "0", "Replaces topic ids on brokers without them; increase to start over."),
    Variable("LEAP_REDIS_URL", "redis://127.0.0.1:6379/0", "Redis; rediss:// for TLS, user:password@ for ACL."),
    Variable("LEAP_REDIS_PREFIX", "leap", "Prefix of all Redis keys."),
    Variable("LEAP_TARGETS", "throughput", "Measurements to predict, comma-separated; each has its own artifacts."),
    Variable("LEAP_METRICS_PORT", "0", "Port of /metrics, /livez and /readyz; 0 disables them."),
    Variable("LEAP_LOG_LEVEL", "info", "debug (each attempt with family and trace), info, warning or error."),
    Variable("LEAP_ARTIFACTS", ".leap/artifacts", "Artifacts and pointers: a path, or any fsspec URL."),
    Variable("LEAP_TRUSTED_KEYS", "", "File of public keys; only artifacts signed by one of them are accepted."),
    Variable("LEAP_SIGNING_KEY", "", "File of the private key that the nightly training run signs with."),
    Variable("LEAP_PARTITIONS", ".leap/partitions", "Daily partitions and reports: a path, or any fsspec URL."),
    Variable("LEAP_CATALOG", "", "Own hardware catalog (YAML), merged into the built-in one."),
    Variable(
        "LEAP_PREMIUM_EFFICIENCY", "1.0", "Minimum score of a premium type, as a share of the best standard type's."
    ),
)

LOG_LEVELS = ("debug", "info", "warning", "error")

FIXED = {
    "enable.auto.commit": "offsets are committed after processing",
    "enable.auto.offset.store": "offsets are committed after processing",
    "enable.idempotence": "retries must not duplicate or reorder events",
    "acks": "an event is sent once all in-sync replicas have it",
    "request.required.acks": "an event is sent once all in-sync replicas have it",
    "auto.offset.reset": "a new group that began at the end would never see what is in a topic already",
    "group.id": "it is the name of the worker; LEAP_TOPIC_PREFIX goes before it",
    "isolation.level": "what an aborted transaction wrote does not count",
    "enable.partition.eof": "readers have to know where a partition ends",
    "group.protocol": "the workers rely on eager assignment",
    "partition.assignment.strategy": "manual commits are lost under cooperative assignment",
    "allow.auto.create.topics": "topics are created as declared, by leap topics ensure",
}


@dataclass(frozen=True)
class Settings:
    """Settings of a process. Fields that may hold a password are left out of the repr.

    Attributes
    ----------
    kafka
        librdkafka property to value, as given.
    redis_url
        URL of the Redis store.
    topic_prefix, redis_prefix
        Prefix of topics and consumer groups, and of Redis keys.
    topic_replication
        Replication factor of created topics.
    topic_epoch
        Replaces topic ids where a broker reports none.
    targets
        Measurements of a completion to keep statistics of and to train for.
    metrics_port
        Port of metrics and health; 0 disables them.
    log_level
        Lowest level that is logged.
    artifacts, partitions
        Locations of artifacts and daily partitions.
    trusted_keys, signing_key
        Files of the trusted public keys and of the private signing key; empty is none.
    catalog
        Path of the hardware catalog; empty is the built-in one.
    premium_efficiency
        Minimum score of a premium type, as a share of the best standard type's.

    Examples
    --------
    >>> settings = Settings.from_environment({"LEAP_KAFKA_SASL_PASSWORD": "hush", "LEAP_TOPIC_PREFIX": "test-"})
    >>> settings.kafka["sasl.password"], settings.topic("job-submitted")
    ('hush', 'test-job-submitted')
    >>> "hush" in repr(settings)
    False
    """

    kafka: Mapping[str, str] = field(repr=False)
    redis_url: str = field(repr=False)
    topic_prefix: str
    topic_replication: int
    topic_epoch: str
    redis_prefix: str
    targets: tuple[str, ...]
    metrics_port: int
    log_level: str
    artifacts: str = field(repr=False)
    partitions: str = field(repr=False)
    trusted_keys: str
    signing_key: str
    catalog: str
    premium_efficiency: float

    @property
    def bootstrap_servers(self) -> str:
        """Bootstrap brokers."""
        return self.kafka["bootstrap.servers"]

    def topic(self, name: str) -> str:
        """Prefixed name of a topic or consumer group."""
        return self.topic_prefix + name

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Settings":
        """Read the variables of the table.

        Raises
        ------
        SettingsError
            If a value is malformed, a file is unreadable, or a property is one of :data:`FIXED`.
        """
        warn_of_unknown(environ)
        values = {variable.name: variable.default for variable in VARIABLES if "<" not in variable.name}
        values |= _read_files({name: text for name, text in environ.items() if name.startswith(PREFIX)})
        kafka = {
            name.removeprefix(KAFKA_PREFIX).lower().replace("_", "."): text
            for name, text in values.items()
            if name.startswith(KAFKA_PREFIX)
        }
        for name in sorted(kafka.keys() & FIXED.keys()):
            raise SettingsError(f"{_variable(name)}: {name} cannot be set, because {FIXED[name]}; unset it")
        return cls(
            kafka=kafka,
            redis_url=values["LEAP_REDIS_URL"],
            topic_prefix=values["LEAP_TOPIC_PREFIX"],
            topic_replication=_integer(values, "LEAP_TOPIC_REPLICATION"),
            topic_epoch=values["LEAP_TOPIC_EPOCH"],
            redis_prefix=values["LEAP_REDIS_PREFIX"],
            targets=_names(values, "LEAP_TARGETS"),
            metrics_port=_port(values, "LEAP_METRICS_PORT"),
            log_level=_level(values, "LEAP_LOG_LEVEL"),
            artifacts=values["LEAP_ARTIFACTS"],
            trusted_keys=values["LEAP_TRUSTED_KEYS"],
            signing_key=values["LEAP_SIGNING_KEY"],
            partitions=values["LEAP_PARTITIONS"],
            catalog=values["LEAP_CATALOG"],
            premium_efficiency=premium_efficiency(values),
        )

    def to_environment(self) -> dict[str, str]:
        """Variables that reproduce these settings, for a child process."""
        return {_variable(name): text for name, text in self.kafka.items()} | {
            "LEAP_REDIS_URL": self.redis_url,
            "LEAP_TOPIC_PREFIX": self.topic_prefix,
            "LEAP_TOPIC_REPLICATION": str(self.topic_replication),
            "LEAP_TOPIC_EPOCH": self.topic_epoch,
            "LEAP_REDIS_PREFIX": self.redis_prefix,
            "LEAP_TARGETS": ",".join(self.targets),
            "LEAP_METRICS_PORT": str(self.metrics_port),
            "LEAP_LOG_LEVEL": self.log_level,
            "LEAP_ARTIFACTS": self.artifacts,
            "LEAP_TRUSTED_KEYS": self.trusted_keys,
            "LEAP_SIGNING_KEY": self.signing_key,
            "LEAP_PARTITIONS": self.partitions,
            "LEAP_CATALOG": self.catalog,
            "LEAP_PREMIUM_EFFICIENCY": str(self.premium_efficiency),
        }


def warn_of_unknown(environ: Mapping[str, str]) -> None:
    """Log a warning of variables that look like those of the table but are none."""
    known = [variable.name for variable in VARIABLES if "<" not in variable.name]
    names = (name for name in environ if name.startswith(PREFIX) and not name.startswith(KAFKA_PREFIX))
    warn_of_slips((name for name in names if name.removesuffix("_FILE") not in known), known, "environment")


def _variable(property_name: str) -> str:
    return KAFKA_PREFIX + property_name.upper().replace(".", "_")


def _read_files(given: Mapping[str, str]) -> dict[str, str]:
    """Replace each ``NAME_FILE`` by ``NAME`` with the content of the file."""
    values = {}
    for name, text in given.items():
        if not name.endswith("_FILE"):
            values[name] = text
            continue
        if name.removesuffix("_FILE") in given:
            raise SettingsError(f"{name} and {name.removesuffix('_FILE')} are both set; unset one")
        try:
            values[name.removesuffix("_FILE")] = Path(text).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{name}: {error}") from error
    return values


def _names(values: Mapping[str, str], name: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in values[name].split(","))
    if not all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_.]*", part) for part in names) or len(set(names)) < len(names):
        raise SettingsError(
            f"{name}: {values[name]!r} is not a comma-separated list of distinct names of letters, digits, _ and ."
        )
    return names


def _integer(values: Mapping[str, str], name: str) -> int:
    try:
        return int(values[name])
    except ValueError:
        raise SettingsError(f"{name}: {values[name]!r} is not an integer") from None


def _port(values: Mapping[str, str], name: str) -> int:
    if not 0 <= (port := _integer(values, name)) < 2**16:
        raise SettingsError(f"{name}: {port} is not a port (0 to 65535)")
    return port


def _level(values: Mapping[str, str], name: str) -> str:
    if values[name] not in LOG_LEVELS:
        raise SettingsError(f"{name}: {values[name]!r} is not one of {', '.join(LOG_LEVELS)}")
    return values[name]
