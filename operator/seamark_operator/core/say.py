"""Short ways to name objects and to speak about them, shared by every decision."""

from __future__ import annotations

from seamark_operator.api import constants as k
from seamark_operator.api.meta import ObjectMeta
from seamark_operator.core.plan import About, EnsureFinalizer, Event, RemoveFinalizer


def about(kind: str, metadata: ObjectMeta) -> About:
    return About(kind, metadata.namespace, metadata.name, metadata.uid)


def tell(collection: ObjectMeta, reason: str, message: str) -> Event:
    return Event(about(k.COLLECTION, collection), "Normal", reason, message)


def warn(collection: ObjectMeta, reason: str, message: str) -> Event:
    return Event(about(k.COLLECTION, collection), "Warning", reason, message)


def ensure_finalizer(kind: str, metadata: ObjectMeta) -> tuple[EnsureFinalizer, ...]:
    if metadata.finalized_by_us:
        return ()
    return (EnsureFinalizer(about(kind, metadata), (*metadata.finalizers, k.FINALIZER)),)


def remove_finalizer(kind: str, metadata: ObjectMeta) -> tuple[RemoveFinalizer, ...]:
    if not metadata.finalized_by_us:
        return ()
    rest = tuple(name for name in metadata.finalizers if name != k.FINALIZER)
    return (RemoveFinalizer(about(kind, metadata), rest),)
