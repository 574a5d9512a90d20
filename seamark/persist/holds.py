"""Leased holds: a reader's promise-keeper that lasts only while its process renews it."""

from __future__ import annotations

import time
import uuid

from seamark.persist import commands as c
from seamark.persist.machine import Machine


def now_millis() -> int:
    return time.time_ns() // 1_000_000


class Lease:
    """Keeps since at or below `time`. Renew it at a quarter of its duration: `heartbeat` does so when due."""

    def __init__(self, machine: Machine, lease_id: str, as_of: int, seconds: float) -> None:
        self._machine = machine
        self.id = lease_id
        self.time = as_of
        self._seconds = seconds
        self._renewed = time.monotonic()
        self._released = False

    @classmethod
    def take(cls, machine: Machine, as_of: int, seconds: float) -> Lease:
        lease = cls(machine, uuid.uuid4().hex, as_of, seconds)
        lease._set(as_of, renew=False)
        return lease

    def downgrade(self, as_of: int) -> None:
        """Allow since to follow up to `as_of`; written with the next heartbeat that is due."""
        self.time = max(self.time, as_of)
        self.heartbeat()

    def heartbeat(self, *, force: bool = False) -> None:
        """Renew when a quarter of the lease has passed. `LeaseLost` when it has expired."""
        if force or time.monotonic() - self._renewed >= self._seconds / 4:
            self._set(self.time, renew=True)

    def release(self) -> None:
        """Idempotent."""
        if not self._released:
            self._released = True
            self._machine.commit(lambda _state: c.DropLease(id=self.id, now=now_millis()))

    def _set(self, as_of: int, *, renew: bool) -> None:
        def propose(_state: object) -> c.AnyCommand:
            now = now_millis()
            expires = now + int(self._seconds * 1000)
            return c.SetLease(id=self.id, time=as_of, expires=expires, now=now, renew=renew)

        self._machine.commit(propose)
        self._renewed = time.monotonic()
