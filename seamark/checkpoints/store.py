"""Where checkpoints are kept: by owner and event, in any blob engine.

    ┌───────────┬────────┬──────────────┬───────────────┐
    │ "SMKCKPT" │ format │ xxh3_64 (BE) │ tree, encoded │
    └───────────┴────────┴──────────────┴───────────────┘

A checkpoint that does not verify is skipped and reported; the next older one and a longer replay serve.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Protocol

import xxhash

from seamark.engines.ports import Blob
from seamark.errors import Immutable, NotFound

MAGIC = b"SMKCKPT"
FORMAT = 1
HEADER = len(MAGIC) + 1 + 8
KEEP = 10
NAME = re.compile(r"[0-9]{20}")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state after every event up to and including `event`, encoded by its owner."""

    event: int
    tree: bytes


class CheckpointStore(Protocol):
    """What a shard needs of this layer."""

    def write(self, owner: str, event: int, tree: bytes) -> None:
        """Durable on return. A second writer of the same event is success: both folded the same log."""
        ...

    def newest(self, owner: str) -> Checkpoint | None:
        """The newest checkpoint that verifies."""
        ...

    def drop(self, owner: str) -> None:
        """Delete every checkpoint of an owner. Idempotent."""
        ...


class BlobCheckpoints:
    """Checkpoints as objects `checkpoints/<owner>/<event>`, at most `keep` of them."""

    def __init__(self, blobs: Blob, keep: int = KEEP) -> None:
        self._blobs = blobs
        self._keep = max(2, keep)

    def write(self, owner: str, event: int, tree: bytes) -> None:
        framed = MAGIC + bytes([FORMAT]) + xxhash.xxh3_64_digest(tree) + tree
        try:
            self._blobs.put(_key(owner, event), framed)
        except Immutable:
            log.info("checkpoint %s of %s exists already, written by another", event, owner)
        for old in self._events(owner)[: -self._keep]:
            self._blobs.delete(_key(owner, old))

    def newest(self, owner: str) -> Checkpoint | None:
        for event in reversed(self._events(owner)):
            try:
                data = self._blobs.get(_key(owner, event))
            except NotFound:
                continue
            tree = data[HEADER:]
            sound = data[: len(MAGIC)] == MAGIC and xxhash.xxh3_64_digest(tree) == data[len(MAGIC) + 1 : HEADER]
            if sound and data[len(MAGIC)] == FORMAT:
                return Checkpoint(event, tree)
            why = "damaged" if not sound else f"of format {data[len(MAGIC)]}, newer than {FORMAT}"
            log.warning("checkpoint %s of %s is %s: skipped, an older one and more replay serve", event, owner, why)
        return None

    def drop(self, owner: str) -> None:
        prefix = f"checkpoints/{owner}/"
        for info in list(self._blobs.list(prefix)):
            if "/" not in info.key.removeprefix(prefix):
                self._blobs.delete(info.key)

    def _events(self, owner: str) -> list[int]:
        prefix = f"checkpoints/{owner}/"
        names = (info.key[len(prefix) :] for info in self._blobs.list(prefix))
        return sorted(int(name) for name in names if NAME.fullmatch(name))


def _key(owner: str, event: int) -> str:
    return f"checkpoints/{owner}/{event:020d}"
