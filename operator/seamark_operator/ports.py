"""What the control plane needs from the world. The shells differ only in what stands behind these ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Object = dict[str, Any]
"""A Kubernetes object as plain JSON: apiVersion, kind, metadata, spec, status."""

RunKind = Literal["ingest", "backfill"]
RunState = Literal["Pending", "Running", "Succeeded", "Failed"]


class Objects(Protocol):
    """The custom resources of the API group, by kind. Objects in, objects out; nothing is cached here."""

    def list(self, kind: str) -> Sequence[Object]:
        """Every object of the kind in the watched namespaces."""
        ...

    def get(self, kind: str, namespace: str, name: str) -> Object | None: ...

    def create(self, obj: Object) -> Object:
        """Create only; when it exists already, the present object is returned untouched."""
        ...

    def patch_status(self, kind: str, namespace: str, name: str, status: Mapping[str, Any]) -> None:
        """Merge into the status subresource; lists are replaced. A vanished object is no error."""
        ...

    def set_finalizers(self, kind: str, namespace: str, name: str, finalizers: Sequence[str]) -> None:
        """Replace the finalizers. A vanished object is no error."""
        ...

    def remove_annotation(self, kind: str, namespace: str, name: str, annotation: str) -> None: ...

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Idempotent; finalizers are honoured."""
        ...

    def event(self, about: Object, severity: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Tell people why. `reason` is a CamelCase word."""
        ...


@dataclass(frozen=True)
class RunSpec:
    """One Spark run to launch: create-only, never edited, named for the work so that no work runs twice."""

    name: str
    namespace: str
    kind: RunKind
    attempt: int
    collection: str
    rendition: str
    """The Rendition object's name; it owns the run."""
    rendition_uid: str
    arguments: tuple[str, ...]
    """Command-line arguments of `spark_apps/<kind>.py`."""
    credentials_secret: str | None = None
    """Secret whose keys become environment of driver and executors."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One Spark run as observed. `state` is only a hint: the verdict is the marker in storage."""

    name: str
    namespace: str
    kind: RunKind
    attempt: int
    collection: str
    rendition: str
    state: RunState
    message: str = ""
    created_at: float = 0.0


class SparkRunner(Protocol):
    """Launches, observes and stops Spark runs."""

    def launch(self, spec: RunSpec) -> None:
        """Create only: a run of that name that exists already is success."""
        ...

    def list(self) -> Sequence[Run]: ...

    def stop(self, namespace: str, name: str) -> None:
        """Stop it and forget it. Idempotent."""
        ...


@dataclass(frozen=True)
class Lease:
    """A shard's write lock as people see it; the fence itself is the epoch in the shard's log."""

    namespace: str
    name: str
    holder: str
    epoch: int
    renewed_at: float
    duration_seconds: int


class Leases(Protocol):
    """Reentrant leases: the same holder takes its lease again at once, another waits or breaks it."""

    def list(self) -> Sequence[Lease]: ...

    def acquire(self, namespace: str, name: str, holder: str, now: float, labels: Mapping[str, str]) -> bool:
        """Take or renew; False when another holder has it and it has not expired."""
        ...

    def record_epoch(self, namespace: str, name: str, epoch: int) -> None:
        """Show the epoch found in the log."""
        ...

    def release(self, namespace: str, name: str) -> None:
        """Delete it. Idempotent."""
        ...


@dataclass(frozen=True)
class DefinitionFacts:
    """What a Collection's spec defines, parsed by the library."""

    hash: str
    document: str
    """The canonical JSON that storage keeps."""
    shards: int


@dataclass(frozen=True)
class ShardFacts:
    """One shard as its log tells it. `upper` is None when the shard is closed."""

    id: str
    since: int
    upper: int | None
    epoch: int = 0
    lock_holder: str = ""
    parts: int = 0
    bytes: int = 0


Role = Literal["building", "standby", "active", "retired", "abandoned", "condemned"]


@dataclass(frozen=True)
class RenditionFacts:
    """One rendition as storage tells it."""

    name: str
    role: Role
    definition_hash: str
    since: int
    upper: int | None
    handed_over_at: int | None = None
    shards: tuple[ShardFacts, ...] = ()
    document: str = ""
    """The definition it is built by, as canonical JSON."""


@dataclass(frozen=True)
class CollectionFacts:
    """One collection as storage tells it: the truth that status is a projection of."""

    owner: str
    since: int
    upper: int | None
    active: str
    renditions: Mapping[str, RenditionFacts]
    holds: Mapping[str, int] = field(default_factory=dict)
    metadata_upper: int = 0
    """The first time that no reader can have passed: where a handover happens."""


@dataclass(frozen=True)
class Marker:
    """What a run wrote in storage when it ended: the verdict, whatever the runner says."""

    run_id: str
    rendition: str
    kind: RunKind
    outcome: Literal["committed", "failed", "retired"]
    detail: str = ""


@dataclass(frozen=True)
class Target:
    """A collection in storage: where it lies and its name there."""

    url: str
    checkpoints: str | None
    name: str


class Storage(Protocol):
    """The library, as far as the control plane uses it. Every change is safe to repeat."""

    def define(self, spec: Mapping[str, Any]) -> DefinitionFacts:
        """Parse a Collection's spec; `InvalidDefinition` names path and value."""
        ...

    def probe(self, url: str) -> None:
        """Open the storage and list one prefix, read only; raises what went wrong."""
        ...

    def describe(self, target: Target) -> CollectionFacts | None:
        """None when the collection does not exist there."""
        ...

    def markers(self, target: Target, renditions: Sequence[str]) -> Sequence[Marker]: ...

    def create(self, target: Target, document: str, owner: str) -> None: ...

    def add_rendition(self, target: Target, rendition: str, document: str) -> None: ...

    def mark_standby(self, target: Target, rendition: str) -> None: ...

    def handover(self, target: Target, rendition: str, *, close_old: bool = False) -> int:
        """Hand the readers over; the time it happens at.

        `close_old` is for an active rendition whose writer is gone: it is fenced and ends where it stands.
        """
        ...

    def abandon(self, target: Target, rendition: str, why: str) -> None: ...

    def hold(self, target: Target, name: str, as_of: int) -> None: ...

    def unhold(self, target: Target, name: str) -> None: ...

    def retain(self, target: Target, millis: int) -> None: ...

    def condemn(self, target: Target, rendition: str) -> None: ...

    def sweep(self, target: Target, rendition: str) -> int:
        """Delete the condemned rendition's objects; how many."""
        ...

    def drop(self, target: Target, owner: str) -> None:
        """Delete everything of the collection, also what a drop that was interrupted left; only the owner's."""
        ...

    def close(self) -> None: ...
