"""Rollout switches in Redis: set by ``leap switch``, followed by ranking workers, with a change log."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import redis
import structlog

from leap.predictor.routing.rollout import Switch, Switches
from leap.schemas.base import Time
from leap.streams.redis_store.client import Client

log = structlog.get_logger(__name__)

FOLLOW_EVERY_S = 2.0
#: Length of the change log.
LOG_LENGTH = 1000
DEFAULT = "*"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Entry of the change log. Model type ``*`` is the default; `switch` is None if an override was removed."""

    model_type: str
    switch: Switch | None
    by: str
    at: Time


class SwitchStore:
    """Switches of a deployment.

    Parameters
    ----------
    client
        Connection, without `decode_responses`.
    prefix
        Prefix of all keys.
    """

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._switches = f"{prefix}:{{switches}}:current"
        self._change_log = f"{prefix}:{{switches}}:record"

    def known(self) -> Switches | None:
        """The stored switches; None if none were ever set, or the store has lost them.

        Raises
        ------
        redis.RedisError, redis.exceptions.RedisClusterException
            If Redis is unavailable.
        """
        return _decoded(self._client.get(self._switches))

    def read(self) -> Switches:
        """The stored switches, or the defaults; raises as `known` does."""
        return self.known() or Switches()

    def set(self, model_type: str, switch: Switch | None, by: str) -> Switches:
        """Change one switch and log the change, in one transaction.

        Parameters
        ----------
        model_type
            ``*`` for the default of model types without an override.
        switch
            None removes the override.
        by
            Author of the change.
        """
        change = Change(model_type=model_type, switch=switch, by=by, at=datetime.now(UTC))

        def swap(pipe: redis.client.Pipeline) -> None:
            switches = _decoded(pipe.get(self._switches)) or Switches()
            pipe.multi()
            pipe.set(self._switches, msgspec.json.encode(_changed(switches, change)))
            pipe.lpush(self._change_log, msgspec.json.encode(change))
            pipe.ltrim(self._change_log, 0, LOG_LENGTH - 1)

        self._client.transaction(swap, self._switches)
        return self.read()

    def history(self, count: int = 50) -> list[Change]:
        """The latest changes, newest first."""
        return [msgspec.json.decode(raw, type=Change) for raw in self._client.lrange(self._change_log, 0, count - 1)]


class SwitchFollower:
    """In-memory copy of the switches; the defaults until the store has been read.

    Parameters
    ----------
    open_store
        Connects to the store. While it is unavailable, or has lost the switches, the last known ones stay in force.
    """

    def __init__(self, open_store: Callable[[], SwitchStore]) -> None:
        self._open_store = open_store
        self._store: SwitchStore | None = None
        self._stored = False
        self.current = Switches()

    def refresh(self) -> None:
        """Read the switches once."""
        try:
            self._store = self._store or self._open_store()
            switches = self._store.known()
        except Exception as error:  # keep following: any error may be transient
            log.warning("switches not read, keeping the last known", reason=repr(error))
            return
        if switches is not None:
            self.current = switches
        elif self._stored:
            log.warning("switches missing in the store, keeping the last known until one is set")
        self._stored = switches is not None

    def follow(self, stop: threading.Event) -> None:
        """Refresh immediately, then periodically in the background until `stop`."""

        def run() -> None:
            while True:
                self.refresh()
                if stop.wait(FOLLOW_EVERY_S):
                    return

        threading.Thread(target=run, name="leap-switches", daemon=True).start()


def _decoded(raw: object) -> Switches | None:
    return msgspec.json.decode(raw, type=Switches) if isinstance(raw, bytes) else None


def _changed(switches: Switches, change: Change) -> Switches:
    if change.model_type == DEFAULT:
        return msgspec.structs.replace(switches, default=change.switch or Switch())
    others = {name: switch for name, switch in switches.by_model_type.items() if name != change.model_type}
    own = {change.model_type: change.switch} if change.switch else {}
    return msgspec.structs.replace(switches, by_model_type=others | own)
