"""What is true of a collection at one moment, as plain values: for status, metrics and people."""

from __future__ import annotations

from dataclasses import dataclass


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
