"""Layer 2: shards, definite collections of records with `[since, upper)`."""

from seamark.persist.commands import Batch, PartRef
from seamark.persist.holds import Lease
from seamark.persist.location import Location
from seamark.persist.schema import Column, Schema
from seamark.persist.shard import Changes, Shard
from seamark.persist.state import ShardState

__all__ = ["Batch", "Changes", "Column", "Lease", "Location", "PartRef", "Schema", "Shard", "ShardState"]
