"""Layer 1: checkpoints, a cache of the fold of a log. The log stays the truth."""

from seamark.checkpoints.store import BlobCheckpoints, Checkpoint, CheckpointStore

__all__ = ["BlobCheckpoints", "Checkpoint", "CheckpointStore"]
