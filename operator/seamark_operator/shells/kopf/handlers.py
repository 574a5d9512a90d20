"""What kopf is asked to do: watch, and say what changed. Nothing is decided and nothing is written here."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import kopf

from seamark_operator.api import constants as k
from seamark_operator.shells.kopf.liveness import WatchProof
from seamark_operator.shells.kopf.settings import Settings
from seamark_operator.shells.kopf.worker import Key

LEASE = "Lease"
Mark = Callable[[Key | None], None]


def registry(settings: Settings, watch: WatchProof, mark: Mark) -> kopf.OperatorRegistry:
    """The handlers of one operator."""
    found = kopf.OperatorRegistry()
    news = _News()

    def register(kind: str) -> None:
        @kopf.on.event(k.GROUP, k.VERSION, k.PLURALS[kind], registry=found, id=f"watch-{kind}")
        async def watched(event: Any, **_: Any) -> None:
            obj = event["object"]
            watch.shown(kind, obj)
            if news.is_news(event["type"], obj):
                mark(collection_of(kind, obj))

    for kind in k.KINDS:
        register(kind)

    if settings.leader_elect:

        @kopf.on.event("coordination.k8s.io", "v1", "leases", registry=found, id="watch-lease")
        async def sentinel(event: Any, **_: Any) -> None:
            watch.shown(LEASE, event["object"])

    @kopf.on.login(registry=found)
    def login(**kwargs: Any) -> Any:
        if os.environ.get("KUBECONFIG"):
            return kopf.login_with_kubeconfig(**kwargs)
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    return found


def kopf_settings(settings: Settings) -> kopf.OperatorSettings:
    """Bounds on every wait, our own keys, and none of the parts of kopf that write to the API."""
    found = kopf.OperatorSettings()
    # Not ours: kopf takes its own finalizer off whatever has it and no deletion handler.
    found.persistence.finalizer = f"{k.GROUP}/kopf"
    found.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=k.GROUP, v1=False)
    found.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=k.GROUP, key="last", v1=False)
    found.peering.standalone = True
    found.scanning.disabled = True
    found.watching.server_timeout, found.watching.client_timeout = 300, 310
    found.watching.connect_timeout = 30
    found.watching.chunk_size = 500
    found.networking.request_timeout = 60
    found.networking.error_backoffs = (1, 1, 2, 3, 5, 8, 13, 21)
    found.execution.default_backoff = 15
    # An ending operator waits for idle per-object tasks: they hold nothing worth waiting for.
    found.queueing.idle_timeout, found.queueing.exit_timeout = 0.5, 0.5
    found.posting.enabled = False
    found.posting.level = logging.WARNING
    found.posting.reporting_component = "seamark-operator"
    found.process.ultimate_exiting_timeout = 60
    # Other holders' Leases are none of our business, and there is one per node.
    found.watching.field_selectors["coordination.k8s.io", "leases"] = f"metadata.name={settings.lease_name}"
    return found


def collection_of(kind: str, obj: Any) -> Key | None:
    """The collection that a change of the object concerns; None when it may concern any."""
    namespace = obj["metadata"]["namespace"]
    if kind == k.COLLECTION:
        return namespace, obj["metadata"]["name"]
    reference = (obj.get("spec") or {}).get("collectionRef") or {}
    return (namespace, reference["name"]) if "name" in reference else None


class _News:
    """Tells a change that people or other controllers made from an echo of our own status writes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[object, ...]] = {}

    def is_news(self, event: str | None, obj: Any) -> bool:
        metadata = obj["metadata"]
        if event == "DELETED":
            self._known.pop(metadata["uid"], None)
            return True
        essence = (
            metadata.get("generation"),
            metadata.get("deletionTimestamp"),
            dict(metadata.get("annotations") or {}),
            tuple(metadata.get("finalizers") or ()),
        )
        if self._known.get(metadata["uid"]) == essence:
            return False
        self._known[metadata["uid"]] = essence
        return True
