from dataclasses import fields
from pathlib import Path

import pytest

from leap.schemas.errors import SettingsError
from leap.streams.kafka.clients import admin_config, consumer_config, producer_config
from leap.streams.runtime.settings import FIXED, VARIABLES, Settings


def test_defaults_are_those_of_the_table() -> None:
    settings = Settings.from_environment({})
    table = {variable.name: variable.default for variable in VARIABLES if "<" not in variable.name}
    assert settings.to_environment() == table
    assert settings.bootstrap_servers == "127.0.0.1:9092"


def test_settings_round_trip_through_the_environment() -> None:
    given = {"LEAP_KAFKA_SASL_USERNAME": "u", "LEAP_REDIS_URL": "rediss://x", "LEAP_TOPIC_PREFIX": "p-"}
    settings = Settings.from_environment(given | {"HOME": "/", "LEAPFROG": "no"})
    assert Settings.from_environment(settings.to_environment()) == settings
    assert given.items() <= settings.to_environment().items()


def test_librdkafka_properties_reach_every_client() -> None:
    settings = Settings.from_environment(
        {"LEAP_KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "LEAP_KAFKA_SESSION_TIMEOUT_MS": "9000"}
    )
    for config in (admin_config(settings), producer_config(settings), consumer_config(settings, "w")):
        assert config["security.protocol"] == "SASL_SSL"
        assert config["session.timeout.ms"] == "9000"


def test_secret_is_read_from_a_file_and_not_in_the_repr(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush\n")
    settings = Settings.from_environment(
        {
            "LEAP_KAFKA_SASL_PASSWORD_FILE": str(tmp_path / "secret"),
            "LEAP_REDIS_URL": "redis://user:whisper@host/0",
        }
    )
    assert settings.kafka["sasl.password"] == "hush"
    assert "hush" not in repr(settings)
    assert "whisper" not in repr(settings)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"LEAP_LOG_LEVEL": "loud"}, "LEAP_LOG_LEVEL: 'loud' is not one of debug, info, warning, error"),
        ({"LEAP_METRICS_PORT": "many"}, "LEAP_METRICS_PORT: 'many' is not an integer"),
        ({"LEAP_KAFKA_SASL_PASSWORD_FILE": "/no/such"}, "LEAP_KAFKA_SASL_PASSWORD_FILE: .*/no/such"),
        ({"LEAP_REDIS_URL": "a", "LEAP_REDIS_URL_FILE": "b"}, "LEAP_REDIS_URL are both set"),
        ({"LEAP_TARGETS": "throughput,"}, "LEAP_TARGETS: 'throughput,' is not a comma-separated list"),
        ({"LEAP_TARGETS": "a, a"}, "LEAP_TARGETS"),
        ({"LEAP_TARGETS": "a-b"}, "LEAP_TARGETS"),
    ],
)
def test_malformed_variable_is_named_in_the_error(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Settings.from_environment(environ)


@pytest.mark.parametrize("name", sorted(FIXED))
def test_fixed_properties_cannot_be_set(name: str) -> None:
    variable = "LEAP_KAFKA_" + name.upper().replace(".", "_")
    with pytest.raises(SettingsError, match=variable):
        Settings.from_environment({variable: "true"})


def test_client_configs_have_the_fixed_properties() -> None:
    settings = Settings.from_environment({"LEAP_TOPIC_PREFIX": "p-"})
    consumer, producer = consumer_config(settings, "w"), producer_config(settings)
    assert consumer["group.id"] == "p-w"
    assert consumer["enable.auto.commit"] is consumer["enable.auto.offset.store"] is False
    assert "cooperative" not in consumer["partition.assignment.strategy"]
    assert (producer["enable.idempotence"], producer["acks"]) == (True, "all")


def test_every_setting_has_a_variable() -> None:
    names = {variable.name for variable in VARIABLES}
    assert {f"LEAP_{field.name.upper()}" for field in fields(Settings)} - {"LEAP_KAFKA"} <= names
