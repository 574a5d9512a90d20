"""Drives one shard's state machine over its log: catch up, propose, commit, checkpoint.

The only place where a shard's log is appended to. A command is applied to the state first (so that an illegal
one never reaches the log), then written at the next sequence number only if that is absent; when another writer
was faster, its entries are applied and the command is tried again on the new state.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import cast

import msgspec

from seamark.checkpoints import Checkpoint, CheckpointStore
from seamark.engines.ports import Log
from seamark.errors import Conflict, Corrupt, Dropped, Gap, NotFound, Refused, SeamarkError
from seamark.persist import entries
from seamark.persist.commands import AnyCommand
from seamark.persist.state import ShardState, apply

CHECKPOINT_EVERY = 256

log = logging.getLogger(__name__)
_encoder = msgspec.msgpack.Encoder()


class Rollup(msgspec.Struct, frozen=True):
    """What a checkpoint of a shard holds."""

    state: ShardState
    entry: bytes
    """Checksum of the last entry in it: the proof that the checkpoint was made from this log, and not from one
    that had the name before."""


_decoder = msgspec.msgpack.Decoder(Rollup)


class Machine:
    """The state of one shard in this process. Thread-safe; calls are linearised in the order they come."""

    def __init__(
        self,
        shard: str,
        shard_log: Log,
        checkpoints: CheckpointStore,
        *,
        session: str,
        read_only: bool = False,
    ) -> None:
        self.shard = shard
        self._log = shard_log
        self._checkpoints = checkpoints
        self._session = session
        self._read_only = read_only
        self._mutex = threading.RLock()
        self._state: ShardState | None = None
        self._next = 0
        self._attempts = 0
        self._last = b""
        self._load()

    @property
    def known(self) -> ShardState:
        """The state as last seen, without asking the log."""
        if self._state is None:
            raise NotFound(f"shard {self.shard} does not exist here; create it first, or check the location's URL")
        return self._state

    @property
    def exists(self) -> bool:
        return self._state is not None

    def refresh(self) -> ShardState:
        """The state after every entry that is durable at this moment."""
        with self._mutex:
            self._catch_up()
            return self.known

    def commit(self, propose: Callable[[ShardState | None], AnyCommand]) -> ShardState:
        """Commit what `propose` makes of the state; it is called again when another writer was faster.

        Neither a refusal nor "nothing to do" is answered before the log was read to its end: a cached state
        decides nothing.
        """
        if self._read_only:
            raise Refused(f"shard {self.shard} was opened read-only; open the location for writing")
        with self._mutex:
            fresh = False
            while True:
                try:
                    command = propose(self._state)
                    after = apply(self._state, command, self.shard)
                except SeamarkError:
                    if fresh:
                        raise
                    self._catch_up()
                    fresh = True
                    continue
                if after is self._state:
                    if fresh:
                        return after
                    self._catch_up()
                    fresh = True
                    continue
                payload = self._encode(command)
                try:
                    self._log.append(self._next, payload).result()
                except Conflict:
                    self._catch_up()
                    fresh = True
                    continue
                except Gap as gap:
                    raise Dropped(f"shard {self.shard}: its log is gone ({gap})") from gap
                self._state = after
                self._last = entries.checksum(payload)
                self._next += 1
                self._maybe_checkpoint()
                return after

    def close(self) -> None:
        self._log.close()

    def _encode(self, command: AnyCommand) -> bytes:
        epoch = self._state.epoch if self._state else 0
        wall = time.time_ns() // 1_000_000
        self._attempts += 1
        return entries.encode(entries.Entry(self._session, self._attempts, wall, epoch, 1, command))

    def _load(self) -> None:
        checkpoint = self._checkpoints.newest(self.shard)
        if checkpoint is not None:
            self._restore(checkpoint)
        self._catch_up()

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Begin from the checkpoint, unless it cannot be read or was made from another log."""
        try:
            rollup = _decoder.decode(checkpoint.tree)
        except msgspec.MsgspecError as error:
            log.warning("checkpoint %s of %s cannot be read: %s", checkpoint.event, self.shard, error)
            return
        head = self._log.head()
        if checkpoint.event >= head:
            raise Corrupt(
                f"shard {self.shard}: checkpoint at entry {checkpoint.event} is ahead of the log, whose first free "
                f"entry is {head}; restore the log, or delete the checkpoint if the log is right"
            )
        if checkpoint.event >= self._log.floor():
            with self._log.read(checkpoint.event) as payload:
                if entries.checksum(payload) != rollup.entry:
                    log.warning("checkpoint %s of %s is of another log: skipped", checkpoint.event, self.shard)
                    return
        self._state, self._last, self._next = rollup.state, rollup.entry, checkpoint.event + 1

    def _catch_up(self) -> None:
        for seqno, payload in self._log.scan(self._next):
            entry = entries.decode(payload, f"shard {self.shard}: entry {seqno}")
            try:
                self._state = apply(self._state, entry.command, self.shard)
            except Dropped:
                raise
            except SeamarkError as error:
                raise Corrupt(f"shard {self.shard}: entry {seqno} is not legal where it stands: {error}") from error
            self._last = entries.checksum(payload)
            self._next = seqno + 1

    def _maybe_checkpoint(self) -> None:
        """A checkpoint is a cache: failing to write one is reported and costs only a longer replay."""
        if self._next % CHECKPOINT_EVERY:
            return
        rollup = Rollup(cast(ShardState, self._state), self._last)
        try:
            self._checkpoints.write(self.shard, self._next - 1, _encoder.encode(rollup))
        except SeamarkError as error:
            log.warning("no checkpoint of %s at entry %s: %s", self.shard, self._next - 1, error)


def new_session() -> str:
    """A name that no other writer has."""
    return uuid.uuid4().hex
