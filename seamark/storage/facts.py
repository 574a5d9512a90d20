"""What is true of a collection at one moment, as plain values: for status, metrics and people."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.persist import ShardState


@dataclass(frozen=True)
class ShardFacts:
    id: str
    since: int
    upper: int
    epoch: int
    lock_holder: str
    parts: int
    bytes: int


@dataclass(frozen=True)
class RenditionFacts:
    name: str
    role: str
    definition_hash: str
    since: int
    upper: int
    handed_over_at: int | None
    shards: tuple[ShardFacts, ...]


@dataclass(frozen=True)
class Facts:
    name: str
    owner: str
    since: int
    upper: int
    metadata_upper: int
    active: str
    renditions: dict[str, RenditionFacts]
    holds: dict[str, int]


def of_shard(state: ShardState) -> ShardFacts:
    return ShardFacts(
        id=state.shard,
        since=state.since,
        upper=state.upper,
        epoch=state.epoch,
        lock_holder=state.lock.holder if state.lock else "",
        parts=sum(len(batch.parts) for batch in state.batches),
        bytes=sum(part.size for batch in state.batches for part in batch.parts) + state.inline_bytes,
    )
