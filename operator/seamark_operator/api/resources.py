"""The six kinds: what users declare, and what is told about it in status."""

from __future__ import annotations

from typing import Literal

import msgspec

from seamark_operator.api.meta import Condition, ObjectMeta, Ref

CollectionPhase = Literal["Pending", "Hydrating", "Ready", "Rebuilding", "Failed", "Deleting"]


class HandoverPolicy(msgspec.Struct, frozen=True, rename="camel"):
    mode: Literal["Auto", "Manual"] = "Auto"


class CollectionSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The operational fields; the definition itself is parsed by the library, from the same spec."""

    location_ref: Ref
    checkpoint_store_ref: Ref | None = None
    tick_seconds: float = 5
    retain_seconds: float = 3600
    handover: HandoverPolicy = HandoverPolicy()
    hydration_deadline_seconds: float = 86400
    deletion_policy: Literal["Retain", "Delete"] = "Retain"


class LastHandover(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    from_: str
    to: str
    at: int


class CollectionStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: CollectionPhase | None = None
    active_rendition: str | None = None
    candidate_rendition: str | None = None
    since: int | None = None
    upper: int | None = None
    definition_hash: str | None = None
    last_handover: LastHandover | None = None
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None


class Collection(msgspec.Struct, frozen=True, rename="camel"):
    metadata: ObjectMeta
    spec: CollectionSpec
    status: CollectionStatus = CollectionStatus()

    @property
    def key(self) -> tuple[str, str]:
        return self.metadata.namespace, self.metadata.name


class RunStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    state: str
    attempt: int


class RenditionSpec(msgspec.Struct, frozen=True, rename="camel"):
    collection_ref: Ref
    ordinal: int
    definition_hash: str
    definition: str


class RenditionStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str | None = None
    since: int | None = None
    upper: int | None = None
    handed_over_at: int | None = None
    run: RunStatus | None = None
    message: str | None = None
    conditions: tuple[Condition, ...] = ()


class Rendition(msgspec.Struct, frozen=True, rename="camel"):
    """One rendition; made by the control plane, read by people."""

    metadata: ObjectMeta
    spec: RenditionSpec
    status: RenditionStatus = RenditionStatus()


class ShardSpec(msgspec.Struct, frozen=True, rename="camel"):
    collection_ref: Ref
    rendition_ref: Ref
    index: int


class ShardStatus(msgspec.Struct, frozen=True, rename="camel"):
    since: int | None = None
    upper: int | None = None
    epoch: int | None = None
    lock_holder: str | None = None
    parts: int | None = None
    bytes: int | None = None


class Shard(msgspec.Struct, frozen=True, rename="camel"):
    """One shard; made by the control plane, read by people."""

    metadata: ObjectMeta
    spec: ShardSpec
    status: ShardStatus = ShardStatus()


class ReadHoldSpec(msgspec.Struct, frozen=True, rename="camel"):
    collection_ref: Ref
    as_of: int


class ReadHoldStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: Literal["Held", "Pending", "Refused"] | None = None
    as_of: int | None = None
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None


class ReadHold(msgspec.Struct, frozen=True, rename="camel"):
    """A promise to readers that times from `asOf` on stay readable."""

    metadata: ObjectMeta
    spec: ReadHoldSpec
    status: ReadHoldStatus = ReadHoldStatus()


class StoreSpec(msgspec.Struct, frozen=True, rename="camel"):
    url: str
    credentials_secret_ref: Ref | None = None


class StoreStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: Literal["Available", "Unavailable"] | None = None
    message: str | None = None
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None


class Store(msgspec.Struct, frozen=True, rename="camel"):
    """A StorageLocation or a CheckpointStore: a root of storage, and whether it answers."""

    metadata: ObjectMeta
    spec: StoreSpec
    status: StoreStatus = StoreStatus()
    kind: str = "StorageLocation"
