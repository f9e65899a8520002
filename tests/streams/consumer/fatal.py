"""A fatal error in a client, by librdkafka's own hook for tests."""

import ctypes

from confluent_kafka import Consumer, KafkaError, Producer, cimpl


def fail(client: Producer | Consumer) -> None:
    """Bring a fatal error upon a client, as a broker does that no longer knows it."""
    hook = ctypes.CDLL(cimpl.__file__).rd_kafka_test_fatal_error
    hook.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    handle = ctypes.c_void_p.from_address(id(client) + object.__basicsize__)  # the first field of the object
    assert hook(handle, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, b"of a test") == 0
