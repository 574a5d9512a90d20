"""The port `Objects` over the Kubernetes API: the six kinds of the API group, and events about them."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from seamark.errors import InvalidDefinition, SeamarkError
from seamark_operator.adapters.kube_client import EVENTS, MANAGER, ApiRefused, Kube, Resource
from seamark_operator.api import constants as k
from seamark_operator.ports import Object

MESSAGE_LIMIT = 1024
"""The API server refuses an event with a longer message."""

log = logging.getLogger(__name__)


def resource(kind: str) -> Resource:
    """Where the objects of the kind are."""
    if kind not in k.PLURALS:
        raise InvalidDefinition(
            f"kind {kind!r} was asked for; the API group has {', '.join(k.PLURALS)}: use one of them"
        )
    return Resource(k.GROUP, k.VERSION, k.PLURALS[kind])


class KubeObjects:
    """Nothing is cached; `on_known` is told every object version that the server showed."""

    def __init__(
        self,
        kube: Kube,
        namespaces: Sequence[str] = (),
        *,
        on_known: Callable[[str, Sequence[Object]], None] = lambda _kind, _objects: None,
        quiet_seconds: float = 300.0,
        instance: str = MANAGER,
    ) -> None:
        self._kube = kube
        self._namespaces = tuple(namespaces)
        self._on_known = on_known
        self._events = _Recent(quiet_seconds)
        self._instance = instance

    def list(self, kind: str) -> Sequence[Object]:
        found = self._kube.everything(resource(kind), self._namespaces)
        for obj in found:  # items of a list carry neither field
            obj["apiVersion"], obj["kind"] = k.API_VERSION, kind
        self._on_known(kind, found)
        return found

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        return self._kube.get(resource(kind), namespace, name)

    def create(self, obj: Object) -> Object:
        kind, metadata = obj["kind"], obj["metadata"]
        for _ in range(3):  # the present one may vanish between the refusal and the look at it
            try:
                return self._kube.create(resource(kind), obj)
            except ApiRefused as refused:
                if refused.code != 409:
                    raise
                present = self.get(kind, metadata["namespace"], metadata["name"])
                if present is not None:
                    return present
                conflict = refused
        raise conflict

    def patch_status(self, kind: str, namespace: str, name: str, status: Mapping[str, object]) -> None:
        self._kube.merge(resource(kind), namespace, name, {"status": dict(status)}, subresource="status")

    def set_finalizers(self, kind: str, namespace: str, name: str, finalizers: Sequence[str]) -> None:
        self._kube.merge(resource(kind), namespace, name, {"metadata": {"finalizers": [*finalizers]}})

    def remove_annotation(self, kind: str, namespace: str, name: str, annotation: str) -> None:
        self._kube.merge(resource(kind), namespace, name, {"metadata": {"annotations": {annotation: None}}})

    def delete(self, kind: str, namespace: str, name: str) -> None:
        self._kube.delete(resource(kind), namespace, name)

    def event(self, about: Object, severity: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Best effort by intent: an event that cannot be told is logged; it never stops what it explains."""
        metadata = about["metadata"]
        identity = (
            about["kind"],
            metadata["namespace"],
            metadata["name"],
            metadata.get("uid", ""),
            reason,
            message,
        )
        if not self._events.is_new(identity):
            return
        try:
            self._tell(about, severity, reason, message, hashlib.sha256(repr(identity).encode()).hexdigest()[:16])
        except SeamarkError as error:
            log.warning("event %s about %s %s was not told: %s", reason, about["kind"], metadata["name"], error)

    def _tell(self, about: Object, severity: str, reason: str, message: str, digest: str) -> None:
        metadata = about["metadata"]
        when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        name = f"{metadata['name'][:230]}.{digest}"
        try:
            self._kube.create(
                EVENTS,
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": name, "namespace": metadata["namespace"]},
                    "involvedObject": {
                        "apiVersion": about.get("apiVersion", k.API_VERSION),
                        "kind": about["kind"],
                        "namespace": metadata["namespace"],
                        "name": metadata["name"],
                        "uid": metadata.get("uid", ""),
                        "resourceVersion": metadata.get("resourceVersion", ""),
                    },
                    "type": severity,
                    "reason": reason,
                    "message": message[:MESSAGE_LIMIT],
                    "source": {"component": MANAGER},
                    "reportingComponent": MANAGER,
                    "reportingInstance": self._instance,
                    "firstTimestamp": when,
                    "lastTimestamp": when,
                    "count": 1,
                },
            )
        except ApiRefused as refused:
            if refused.code != 409:
                raise
            self._kube.merge(EVENTS, metadata["namespace"], name, {"lastTimestamp": when})


class _Recent:
    """What was told lately: the same words about the same object are not repeated in that time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._told: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()

    def is_new(self, identity: tuple[str, ...]) -> bool:
        now = time.monotonic()
        with self._lock:
            self._told = {key: at for key, at in self._told.items() if now - at < self._seconds}
            if identity in self._told:
                return False
            self._told[identity] = now
            return True
