"""Messages that the client itself cannot read: they stop no worker, and the others are not lost."""

import os
import subprocess
import sys
from collections.abc import Mapping

from confluent_kafka import Producer

from leap.schemas.codec import decode
from leap.schemas.events import DeadLetter
from leap.schemas.topics import COMPLETED, DEAD_LETTERS
from leap.streams.consumer.batch_loop import BatchLoop
from leap.streams.history.worker import history_loop
from leap.streams.kafka.clients import producer_config
from leap.streams.kafka.message import Message
from leap.streams.kafka.range_reader import read_range
from leap.streams.runtime.settings import Settings

# Another language's client writes any bytes as a header's name; of Python's only this one can be made to, and only
# without its compiled parts.
STRANGE_HEADER = """
import asyncio, sys
from aiokafka import AIOKafkaProducer

class NotUtf8(str):
    def encode(self, *how):
        return bytes([255, 254])

async def send(servers, topic):
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait(topic, b"strange", partition=0, headers=[(NotUtf8("x"), b"")])

asyncio.run(send(*sys.argv[1:]))
"""
# More than the client unpacks; 9 kB on the wire.
BOMB = bytes(100 * 2**20)
LARGE = {"compression.type": "zstd", "message.max.bytes": 10**9, "queue.buffering.max.kbytes": 2**20}


def send(settings: Settings, value: bytes, times: int = 1, configuration: Mapping[str, object] | None = None) -> None:
    producer = Producer(producer_config(settings) | dict(configuration or {}))
    for _ in range(times):
        producer.produce(settings.topic(COMPLETED), value, partition=0)
    assert producer.flush(60) == 0


def read_all(settings: Settings) -> list[Message]:
    messages: list[Message] = []
    BatchLoop(settings, "any", [settings.topic(COMPLETED)], messages.extend).run(until_end=True)
    return messages


def test_header_with_invalid_utf8_name_is_ignored(topics: Settings) -> None:
    send(topics, b"before", times=100)  # the interpreter takes shortcuts where a call is made often
    command = [sys.executable, "-c", STRANGE_HEADER, topics.bootstrap_servers, topics.topic(COMPLETED)]
    subprocess.run(command, env=os.environ | {"AIOKAFKA_NO_EXTENSIONS": "1"}, check=True)
    send(topics, b"after")
    assert [(message.value, message.trace) for message in read_all(topics)][100:] == [(b"strange", ()), (b"after", ())]
    assert [message.value for message in read_range(topics, topics.topic(COMPLETED))][100:] == [b"strange", b"after"]


def test_undecompressible_message_becomes_a_dead_letter_without_value(topics: Settings) -> None:
    send(topics, b"before")
    send(topics, BOMB, configuration=LARGE)
    send(topics, b"after")
    messages = read_all(topics)
    assert [(message.offset, message.position, message.value) for message in messages] == [
        (0, 0, b"before"), (1, 1, None), (2, 2, b"after")
    ]  # fmt: skip
    assert [message.value for message in read_range(topics, topics.topic(COMPLETED))] == [b"before", b"after"]
    history_loop(topics).run(until_end=True)
    letters = [decode(letter.value, DeadLetter) for letter in read_range(topics, topics.topic(DEAD_LETTERS))]
    assert sorted((letter.offset, letter.value) for letter in letters) == [(0, b"before"), (1, None), (2, b"after")]
