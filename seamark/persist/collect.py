"""Deletion of what nothing can need: a dropped shard's files, and parts that no writer can commit any more."""

from __future__ import annotations

from seamark.errors import Corrupt, Dropped, NotFound
from seamark.persist.location import Location
from seamark.persist.parts import epoch_of, prefix_of
from seamark.persist.shard import Shard


def delete_shard(location: Location, shard_id: str, reason: str) -> int:
    """End the shard and delete every object of it; returns how many. Resumable: call it again after a crash.

    The log goes last, so that for as long as anything of the shard exists, its end is on record. A shard that is
    damaged can be deleted too; one of a newer format cannot.
    """
    try:
        shard = location.open_shard(shard_id)
    except (NotFound, Dropped, Corrupt):
        pass
    else:
        shard.drop(reason)
        shard.close()
    deleted = 0
    prefix = prefix_of(shard_id)
    for info in list(location.blobs.list(prefix)):
        if "/" not in info.key.removeprefix(prefix):
            location.blobs.delete(info.key)
            deleted += 1
    location.checkpoints.drop(shard_id)
    location.logs.drop(shard_id)
    return deleted


def sweep_orphans(location: Location, shard: Shard) -> int:
    """Delete parts of older epochs that no batch refers to; returns how many.

    Safe by fencing: a part's key carries its writer's epoch, and an append of an epoch older than the shard's
    present one is refused for ever.
    """
    state = shard.refresh()
    referenced = {part.key for batch in state.batches for part in batch.parts}
    deleted = 0
    for info in list(location.blobs.list(prefix_of(shard.id))):
        epoch = epoch_of(info.key, shard.id)
        if info.key not in referenced and epoch is not None and 0 < epoch < state.epoch:
            location.blobs.delete(info.key)
            deleted += 1
    return deleted
