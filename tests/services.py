"""The real services: Apache Kafka from Maven Central and Debian's redis-server."""

import fcntl
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from leap.streams.embedded import STOP_S, Pair, broker_ready, child, free_port, store_ready

ROOT = Path(__file__).parents[1]
POM = ROOT / "tests" / "kafka" / "pom.xml"
JARS = ROOT / ".leap" / "kafka"
CLUSTER = "leap-tests-cluster-idw"

# A broker of one node that lets tests use sessions of 1 s and waits for nobody. One CPU thread of compiler
# and the serial collector start fastest on a small machine.
JAVA = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
SERVER = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
offsets.topic.num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
controlled.shutdown.enable=false
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"""


def install_kafka() -> None:
    """Have Maven lay the broker's jars under ``.leap/kafka``, unless those of this pom are there."""
    installed = JARS / "pom.xml"
    JARS.parent.mkdir(exist_ok=True)
    with (JARS.parent / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the first of the processes that run the tests; the others wait
        if installed.exists() and installed.read_bytes() == POM.read_bytes():
            return
        shutil.rmtree(JARS, ignore_errors=True)
        command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={JARS}"]
        subprocess.run(command, check=True)
        shutil.copyfile(POM, installed)


@contextmanager
def real_kafka(directory: Path, port: int | None = None, stop_s: float = STOP_S, properties: str = "") -> Iterator[str]:
    """Run Apache Kafka until the block ends; the same directory and port again are a restart.

    It has `stop_s` seconds to end before it is killed. `properties` come beside those of a broker on its own.

    Yields
    ------
    str
        Its bootstrap servers.
    """
    port = port or free_port()
    data = directory / "data"
    file = directory / "server.properties"
    java = ["java", *JAVA, "-cp", f"{JARS}/*"]
    if not data.exists():
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text(SERVER.format(port=port, controller=free_port(), data=data) + properties)
        storage = ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(file)]
        done = subprocess.run([*java, *storage], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"Kafka's storage cannot be formatted:\n{done.stdout}{done.stderr}")
    address = f"127.0.0.1:{port}"
    command = [*java, "kafka.Kafka", str(file)]
    with child(command, directory / "kafka.log", lambda: broker_ready(address), deadline_s=90, stop_s=stop_s):
        yield address


@contextmanager
def real_redis(directory: Path, port: int | None = None, stop_s: float = STOP_S) -> Iterator[str]:
    """Run Redis with an append-only file until the block ends; as `real_kafka`, it can be restarted.

    Yields
    ------
    str
        Its URL.
    """
    port = port or free_port()
    directory.mkdir(parents=True, exist_ok=True)
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", ""]
    command = ["redis-server", *options, "--appendonly", "yes", "--appendfsync", "always"]
    url = f"redis://127.0.0.1:{port}/0"
    with child(command, directory / "redis.log", lambda: store_ready(url), stop_s=stop_s):
        yield url


@contextmanager
def real_pair(directory: Path) -> Iterator[Pair]:
    """Run both until the block ends.

    Raises
    ------
    RuntimeError
        If Java, Maven or redis-server is not installed.
    """
    missing = [program for program in ("java", "mvn", "redis-server") if not shutil.which(program)]
    if missing:
        raise RuntimeError(
            f"{', '.join(missing)} not found: apt-get install openjdk-17-jdk-headless maven redis-server"
        )
    install_kafka()
    with ExitStack() as stack:
        broker = stack.enter_context(real_kafka(directory / "kafka"))
        store = stack.enter_context(real_redis(directory / "redis"))
        yield Pair(broker, store)
