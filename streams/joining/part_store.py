"""Parts of attempts in Redis."""

from collections.abc import Mapping
from importlib import resources
from itertools import chain
from zlib import crc32

import msgspec

from leap.schemas.topics import DAY_MS
from leap.streams.joining.attempt import RANK, Parts
from leap.streams.redis_store.client import Client
from leap.streams.redis_store.offset_fence import OffsetRange, check_fences, encode_ranges

#: TTL in days of incomplete attempts, renewed by each part (longer than the retention of the topics), and of complete
#: ones, for late parts.
WAIT_DAYS = 45
LATE_DAYS = 3
#: Cluster slots that attempts are spread over; a bucket is one script call.
BUCKETS = 16
NONE_SEEN: Mapping[str, Parts] = {}
NO_SPANS: Mapping[str, OffsetRange] = {}

_decode_reply = msgspec.msgpack.Decoder(list[list[str]]).decode
_arguments = (WAIT_DAYS * DAY_MS // 1000, LATE_DAYS * DAY_MS // 1000, RANK)
_script = resources.files("leap.streams.joining").joinpath("merge.lua").read_text(encoding="utf-8")


class PartStore:
    """Parts of attempts: one hash per attempt, which expires some days after its last part.

    Parameters
    ----------
    client
        Connection, without `decode_responses`.
    prefix
        Prefix of all keys.
    """

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def add(
        self,
        parts: Mapping[str, Parts],
        seen: Mapping[str, Parts] = NONE_SEEN,
        spans: Mapping[str, OffsetRange] = NO_SPANS,
    ) -> dict[str, Parts]:
        """Store parts of many attempts in one round trip; idempotent.

        Parameters
        ----------
        parts
            Attempt id to its new parts.
        seen
            Attempt id to the parts returned for it before.
        spans
            The offsets that the parts cover, by source.

        Returns
        -------
        dict
            Attempt id to all its parts, for attempts with a submission and a completion that differ from `seen`.

        Raises
        ------
        StoreDataLost
            If the store lacks parts from before the spans.
        """
        buckets: dict[int, list[str]] = {number: [] for number in range(BUCKETS)} if spans else {}
        for attempt_id in parts:
            buckets.setdefault(crc32(attempt_id.encode()) % BUCKETS, []).append(attempt_id)
        ranges = encode_ranges(spans)
        with self._client.pipeline(transaction=False) as pipeline:
            for bucket, attempt_ids in buckets.items():
                names = [f"{self._prefix}:attempt:{{{bucket}}}:{attempt_id}" for attempt_id in attempt_ids]
                keys = [f"{self._prefix}:attempt:{{{bucket}}}", *names]
                new = [
                    [seen.get(attempt_id, {}).get("n", ""), *chain.from_iterable(parts[attempt_id].items())]
                    for attempt_id in attempt_ids
                ]
                packed = msgspec.msgpack.encode(new)
                pipeline.execute_command("EVAL", _script, len(keys), *keys, *_arguments, ranges, packed)
            replies = pipeline.execute()
        check_fences(spans, [reply[1:] for reply in replies])
        return {
            attempt_id: dict(zip(fields[::2], fields[1::2], strict=True))
            for attempt_ids, reply in zip(buckets.values(), replies, strict=True)
            for attempt_id, fields in zip(attempt_ids, _decode_reply(reply[0]), strict=True)
            if fields
        }
