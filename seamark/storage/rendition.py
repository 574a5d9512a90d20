"""A rendition: one standalone version of a collection, in a fixed number of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.errors import NotReadable, NotYet
from seamark.persist import Location, Shard
from seamark.persist.collect import delete_shard
from seamark.persist.consolidate import consolidate, contents
from seamark.storage import runs
from seamark.storage.definition import Definition

if TYPE_CHECKING:
    import pyarrow as pa


class Rendition:
    """Since is the largest of its shards' sinces, upper the smallest of their uppers: it is readable in between."""

    def __init__(self, location: Location, collection: str, name: str, definition: Definition) -> None:
        self._location = location
        self._collection = collection
        self.name = name
        self.definition = definition
        self._shards: list[Shard] | None = None

    @property
    def shard_ids(self) -> list[str]:
        return [f"collections/{self._collection}/{self.name}/{index}" for index in range(self.definition.shards)]

    @property
    def shards(self) -> list[Shard]:
        """Handles on the shards, opened at first use."""
        if self._shards is None:
            self._shards = [self._location.open_shard(shard_id) for shard_id in self.shard_ids]
        return self._shards

    @property
    def since(self) -> int:
        return max(shard.since for shard in self.shards)

    @property
    def upper(self) -> int:
        return min(shard.upper for shard in self.shards)

    def create(self) -> None:
        """Make the shards. Idempotent."""
        schema = self.definition.schema()
        for shard_id in self.shard_ids:
            self._location.create_shard(shard_id, schema, owner=f"{self._collection}/{self.name}").close()

    def refresh(self) -> None:
        for shard in self.shards:
            shard.refresh()

    def snapshot(self, as_of: int) -> pa.Table:
        """The contents at `as_of`: user columns and `_diff`."""
        import pyarrow as pa

        self._readable(as_of)
        return contents(pa.concat_tables([shard.snapshot(as_of) for shard in self.shards]), self.definition.schema())

    def changes(self, lower: int, upper: int) -> pa.Table:
        """Every change at the times `[lower, upper)`."""
        import pyarrow as pa

        tables = [shard.changes(lower, upper) for shard in self.shards]
        return consolidate(pa.concat_tables(tables), self.definition.schema())

    def follow(self, since: int) -> None:
        """Let the shards' history go up to `since`, which the collection's holds have released."""
        for shard in self.shards:
            if shard.holds.get("collection", -1) < since:
                shard.hold("collection", max(since, shard.since))

    def close_at(self, time: int, reason: str) -> None:
        """Fence the writers and declare that nothing more happens before `time`."""
        for shard in self.shards:
            if shard.refresh().upper < time:
                epoch = shard.acquire("handover", "handover", reason=reason, break_lock=True)
                if shard.upper < time:
                    shard.compare_and_append(None, shard.upper, time, epoch=epoch)

    def delete(self, reason: str) -> int:
        """Delete every file of it, run markers included; returns how many objects. Resumable."""
        deleted = sum(delete_shard(self._location, shard_id, reason) for shard_id in self.shard_ids)
        for info in list(self._location.blobs.list(runs.prefix_of(self._collection, self.name))):
            self._location.blobs.delete(info.key)
            deleted += 1
        self._shards = None
        return deleted

    def _readable(self, as_of: int) -> None:
        what = f"rendition {self.name} of {self._collection}"
        if as_of < self.since:
            raise NotReadable(what, as_of, self.since)
        if as_of >= self.upper:
            self.refresh()
        if as_of >= self.upper:
            raise NotYet(f"{what}: asked for time {as_of}, written up to {self.upper} (exclusive); wait for its writer")
