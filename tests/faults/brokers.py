"""Three Kafka brokers, each behind a proxy, any of which can be killed and started again."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from leap.streams.embedded import free_port
from tests.proxy import Proxy
from tests.services import install_kafka, real_kafka

COUNT = 3
# Beside the listener for each other and for clients that want no detour, one whose address is a proxy.
PROPERTIES = """
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{proxied},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{proxy}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
replica.lag.time.max.ms=5000
"""


class Broker:
    """One of three; to be started together with another, for one alone is no majority."""

    def __init__(self, directory: Path, port: int, properties: str, proxy: Proxy) -> None:
        self.address = f"127.0.0.1:{port}"
        self.proxy = proxy
        self._directory = directory
        self._port = port
        self._properties = properties
        self._stack = ExitStack()

    def start(self) -> None:
        """Start, also again after `kill`, and wait until it answers."""
        self._stack.enter_context(real_kafka(self._directory, self._port, 0, self._properties))

    def kill(self) -> None:
        """Kill with -9."""
        self._stack.close()


class Brokers:
    """A cluster of three: every message is acknowledged by at least two."""

    def __init__(self, members: list[Broker]) -> None:
        self.members = members

    @property
    def direct(self) -> str:
        """Bootstrap servers."""
        return ",".join(member.address for member in self.members)

    @property
    def proxied(self) -> str:
        """Bootstrap servers of clients whose every connection goes through a proxy."""
        return ",".join(f"127.0.0.1:{member.proxy.port}" for member in self.members)


@contextmanager
def three_brokers(directory: Path) -> Iterator[Brokers]:
    """Run the cluster until the block ends."""
    install_kafka()
    directory.mkdir(parents=True, exist_ok=True)
    controllers = [free_port() for _ in range(COUNT)]
    voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in enumerate(controllers, 1))
    with ExitStack() as stack:
        members = []
        for node, controller in enumerate(controllers, 1):
            port, proxied = free_port(), free_port()
            proxy = stack.enter_context(Proxy("127.0.0.1", proxied))
            properties = PROPERTIES.format(
                node=node, voters=voters, port=port, proxied=proxied, controller=controller, proxy=proxy.port
            )
            member = Broker(directory / str(node), port, properties, proxy)
            stack.callback(member.kill)
            members.append(member)
        with ThreadPoolExecutor(COUNT) as starting:
            list(starting.map(Broker.start, members))
        yield Brokers(members)
