"""docker-compose.yml: what it says holds together, and each service starts by its own command and gets healthy."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings
from tests.deploy.compose import instructions, services
from tests.deploy.stack import SERVICES, WORKERS, Stack
from tests.services import JARS, JAVA

EVERYTHING = services("everything")
MINIMUM = {"kafka", "redis", "topics", "history", "joiner", "ranking", "retrain"}

real = pytest.mark.real("needs Apache Kafka, redis-server and prometheus")


def test_the_minimum_comes_without_a_profile_and_everything_with_one() -> None:
    assert services().keys() == MINIMUM
    assert EVERYTHING.keys() == {*MINIMUM, "monitor", "prometheus", "grafana"}
    assert {*SERVICES} == {name for name, service in EVERYTHING.items() if service["image"] == "leap"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_of_leap_runs_with_least_rights_and_known_settings(name: str) -> None:
    service = EVERYTHING[name]
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["tmpfs"] == ["/tmp"]
    assert service["security_opt"] == ["no-new-privileges:true"] and service["init"]
    assert "user" not in service, "the image's own, which is not root"
    [volume] = service["volumes"]
    assert volume["target"] == dict(instructions())["WORKDIR"], "where artifacts and partitions are by default"
    Settings.from_environment(service["environment"])
    waits = {one: condition["condition"] for one, condition in service["depends_on"].items()}
    if name == "topics":
        assert waits == {"kafka": "service_healthy"} and service["restart"] == "no"
    else:
        assert waits == {"topics": "service_completed_successfully", "redis": "service_healthy"}


def test_workers_can_be_scaled_and_data_are_kept() -> None:
    for name in ("history", "joiner", "ranking"):
        assert not {"ports", "container_name"} & EVERYTHING[name].keys(), "two containers cannot share either"
    volumes = {
        name: {one["target"] for one in EVERYTHING[name]["volumes"] if one["type"] == "volume"} for name in EVERYTHING
    }
    assert volumes["kafka"] == {EVERYTHING["kafka"]["environment"]["KAFKA_LOG_DIRS"]}
    assert volumes["redis"] == {"/data"} and volumes["prometheus"] == {"/prometheus"}
    assert volumes["grafana"] == {"/var/lib/grafana"}


def test_nothing_is_open_to_other_machines_and_every_mounted_file_is_there() -> None:
    for name, service in EVERYTHING.items():
        assert {port["host_ip"] for port in service.get("ports", ())} <= {"127.0.0.1"}, name
        for one in service["volumes"]:
            assert one["type"] == "volume" or (Path(one["source"]).is_dir() and one["read_only"]), one


def test_a_command_on_this_machine_finds_broker_and_store_without_a_variable() -> None:
    """As the tour of the README has it."""
    settings = Settings.from_environment({})
    kafka, redis = EVERYTHING["kafka"], EVERYTHING["redis"]
    open_at = [f"{port['host_ip']}:{port['published']}" for one in (kafka, redis) for port in one["ports"]]
    assert open_at == [settings.bootstrap_servers, settings.redis_url.split("/")[2]]
    given = kafka["environment"]
    assert f"HOST://{settings.bootstrap_servers}" in given["KAFKA_ADVERTISED_LISTENERS"].split(",")
    assert f"HOST://:{kafka['ports'][0]['target']}" in given["KAFKA_LISTENERS"].split(",")


@real
@pytest.mark.timeout(300)
def test_every_service_starts_by_its_command_and_gets_healthy(stack: Stack) -> None:
    assert stack.once("topics") == "all topics are there, as declared\n"
    with ExitStack() as running, ThreadPoolExecutor() as side_by_side:
        contexts = [stack.exact(name) for name in WORKERS]
        for started in [side_by_side.submit(running.enter_context, one) for one in contexts]:
            started.result()
        stack.wait(lambda: len(stack.query('up{job="leap"} == 1')) == len(WORKERS), "Prometheus to see them all")


@real
def test_broker_and_store_pass_their_health_checks_and_the_store_is_durable(stack: Stack) -> None:
    port = stack.settings.redis_url.rpartition(":")[2].partition("/")[0]
    check = EVERYTHING["redis"]["healthcheck"]["test"]
    assert check == ["CMD", "redis-cli", "ping"]
    answer = subprocess.run([*check[1:2], "-p", port, *check[2:]], capture_output=True, text=True, check=True)
    assert answer.stdout == "PONG\n"
    assert connect(stack.settings.redis_url).config_get("append*")["appendonly"] == "yes"

    check = EVERYTHING["kafka"]["healthcheck"]["test"]
    assert check[1:] == ["/opt/kafka/bin/kafka-broker-api-versions.sh", "--bootstrap-server", "kafka:9092"]
    tool = ["java", *JAVA, "-cp", f"{JARS}/*", "org.apache.kafka.tools.BrokerApiVersionsCommand"]
    command = [*tool, "--bootstrap-server", stack.settings.bootstrap_servers]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert asked.returncode == 0 and "Produce(0)" in asked.stdout, asked.stderr
