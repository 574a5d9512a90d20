"""Of several operator processes one acts: whoever holds the operator's Lease, for as long as it renews it.

A holder that could not renew for two thirds of the duration gives up, so that it has stopped before another
may begin. Expiry is judged by how long the Lease stood still by our own clock: two machines' clocks differ.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from seamark.errors import SeamarkError
from seamark_operator.adapters.kube_client import LEASES, MANAGER, ApiRefused, Kube
from seamark_operator.adapters.kube_leases import MANAGED, micro_time
from seamark_operator.ports import Object

log = logging.getLogger(__name__)


class Elector:
    """Takes the Lease, then renews it in a thread of its own until stopped or lost."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        name: str,
        identity: str,
        seconds: float,
        *,
        on_written: Callable[[Object], None] = lambda _lease: None,
        on_lost: Callable[[str], None] = lambda _why: None,
    ) -> None:
        self._kube = kube
        self._place = (namespace, name)
        self._identity = identity
        self._seconds = seconds
        self._on_written = on_written
        self._on_lost = on_lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="leader", daemon=True)
        self._renewed = 0.0
        self._seen: tuple[str, float] = ("", 0.0)
        """The version of the Lease found last, and since when it stands still."""

    @property
    def period(self) -> float:
        return self._seconds / 5

    def try_take(self) -> str | None:
        """None when the Lease is ours; otherwise who has it."""
        before = time.monotonic()
        present = self._kube.get(LEASES, *self._place)
        other = self._other(present)
        if other is not None:
            return other
        try:
            written = self._write(present)
        except ApiRefused as refused:
            if refused.code not in (404, 409):
                raise
            return "another process that was faster"
        self._renewed = before
        self._on_written(written)
        return None

    def start(self) -> None:
        self._thread.start()

    def holds(self) -> bool:
        """Whether it may act: renewed lately enough that no other can have taken over."""
        return time.monotonic() - self._renewed < self._seconds * 2 / 3

    def release(self) -> None:
        """Stop renewing and leave the Lease to whoever wants it, at once."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5)
        try:
            present = self._kube.get(LEASES, *self._place)
            if present is not None and present["spec"].get("holderIdentity") == self._identity:
                self._kube.update(LEASES, {**present, "spec": {**present["spec"], "holderIdentity": ""}})
        except SeamarkError as error:
            log.warning("the operator's Lease was not released, it expires by itself: %s", error)

    def _renew(self) -> None:
        pause = self.period
        while not self._stop.wait(pause):
            pause = self.period
            try:
                other = self.try_take()
            except SeamarkError as error:
                log.warning("the operator's Lease could not be renewed: %s", error)
                pause = self.period / 6
                continue
            if other is not None:
                self._renewed = 0.0
                self._on_lost(f"the operator's Lease was taken by {other}")
                return

    def _other(self, present: Object | None) -> str | None:
        spec = (present or {}).get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        if present is None or not holder or holder == self._identity:
            return None
        version = present["metadata"]["resourceVersion"]
        if self._seen[0] != version:
            self._seen = (version, time.monotonic())
        stands = time.monotonic() - self._seen[1]
        return holder if stands < float(spec.get("leaseDurationSeconds") or self._seconds) else None

    def _write(self, present: Object | None) -> Object:
        now = micro_time(time.time())
        namespace, name = self._place
        if present is None:
            fresh = {"acquireTime": now, "leaseTransitions": 0}
            metadata = {"namespace": namespace, "name": name, "labels": {MANAGED: MANAGER}}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
            return self._kube.create(LEASES, {**lease, "spec": self._held(fresh, now)})
        spec = dict(present["spec"])
        if spec.get("holderIdentity") != self._identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        return self._kube.update(LEASES, {**present, "spec": self._held(spec, now)})

    def _held(self, spec: Object, now: str) -> Object:
        duration = max(1, round(self._seconds))
        return {**spec, "holderIdentity": self._identity, "renewTime": now, "leaseDurationSeconds": duration}
