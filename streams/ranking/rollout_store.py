"""Runtime switches in Redis: changed by ``leap switch``, followed by workers, every change on record."""

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
#: Changes kept on record.
RECORD = 1000
DEFAULT = "*"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Who changed what, and when. Model type ``*`` is the default of all; `switch` none removes its own."""

    model_type: str
    switch: Switch | None
    by: str
    at: Time


class SwitchStore:
    """Switches of one deployment.

    Parameters
    ----------
    client
        Connection, without `decode_responses`.
    prefix
        Put before every key.
    """

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._switches = f"{prefix}:{{switches}}:current"
        self._record = f"{prefix}:{{switches}}:record"

    def known(self) -> Switches | None:
        """What was set last, be it nothing but defaults; none if nothing ever was, or the store has lost it.

        Raises
        ------
        redis.RedisError, redis.exceptions.RedisClusterException
            If the store does not answer.
        """
        return _decoded(self._client.get(self._switches))

    def read(self) -> Switches:
        """The switches that a worker would begin with; raises as `known` does."""
        return self.known() or Switches()

    def set(self, model_type: str, switch: Switch | None, by: str) -> Switches:
        """Change one switch, and put it on record, in one transaction.

        Parameters
        ----------
        model_type
            ``*`` for the default of all that have none of their own.
        switch
            None removes the model type's own switch.
        by
            Who asks for it.
        """
        change = Change(model_type=model_type, switch=switch, by=by, at=datetime.now(UTC))

        def swap(pipe: redis.client.Pipeline) -> None:
            switches = _decoded(pipe.get(self._switches)) or Switches()
            pipe.multi()
            pipe.set(self._switches, msgspec.json.encode(_changed(switches, change)))
            pipe.lpush(self._record, msgspec.json.encode(change))
            pipe.ltrim(self._record, 0, RECORD - 1)

        self._client.transaction(swap, self._switches)
        return self.read()

    def history(self, count: int = 50) -> list[Change]:
        """The latest changes, newest first."""
        return [msgspec.json.decode(raw, type=Change) for raw in self._client.lrange(self._record, 0, count - 1)]


class SwitchFollower:
    """The last switches that the store told, held in memory; those of the default until it has answered.

    Parameters
    ----------
    open_store
        Connects to the store, which may be away: then, and whenever it or what it held is lost, nothing changes.
    """

    def __init__(self, open_store: Callable[[], SwitchStore]) -> None:
        self._open_store = open_store
        self._store: SwitchStore | None = None
        self._told = False
        self.current = Switches()

    def refresh(self) -> None:
        """Ask once."""
        try:
            self._store = self._store or self._open_store()
            switches = self._store.known()
        except Exception as error:  # whatever it is, the next time may be better, and nobody else would ask
            log.warning("switches not read, keeping the last known", reason=repr(error))
            return
        if switches is not None:
            self.current = switches
        elif self._told:
            log.warning("the store has lost the switches, keeping the last known until one is set")
        self._told = switches is not None

    def follow(self, stop: threading.Event) -> None:
        """Ask now, then in the background until `stop`."""

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
