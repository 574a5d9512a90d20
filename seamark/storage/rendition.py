"""A rendition: one standalone version of a collection, in a fixed number of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.errors import Fenced, NameTaken, NotReadable, NotYet, Refused
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
            self._shards = [self._open(shard_id) for shard_id in self.shard_ids]
        return self._shards

    @property
    def owner(self) -> str:
        """Whose the shards are. The definition is part of it: shards of another one are not this rendition's."""
        return f"{self._collection}/{self.name}/{self.definition.hash}"

    @property
    def since(self) -> int:
        return max(shard.since for shard in self.shards)

    @property
    def upper(self) -> int:
        return min(shard.upper for shard in self.shards)

    def create(self) -> None:
        """Make the shards of a rendition that the metadata does not name yet. Idempotent.

        Shards of another definition are what an attempt left that ended before its record was written; nothing was
        ever written to them, and they give way.
        """
        mine = self.shard_ids
        for shard_id in self._location.shard_ids(f"collections/{self._collection}/{self.name}/"):
            if shard_id not in mine:
                delete_shard(self._location, shard_id, "left by an attempt that was not finished")
        for shard_id in mine:
            try:
                self._make(shard_id)
            except NameTaken:
                delete_shard(self._location, shard_id, "left by an attempt that was not finished")
                self._make(shard_id)

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
            while shard.refresh().upper < time:
                epoch = shard.acquire("handover", "handover", reason=reason, break_lock=True)
                try:
                    shard.compare_and_append(None, shard.upper, time, epoch=epoch)
                except Fenced:
                    # Another process closes it too; it says the same, so whoever is last will do.
                    continue

    def delete(self, reason: str) -> int:
        """Delete every file of it, run markers included; returns how many objects. Resumable."""
        deleted = sum(delete_shard(self._location, shard_id, reason) for shard_id in self.shard_ids)
        for info in list(self._location.blobs.list(runs.prefix_of(self._collection, self.name))):
            self._location.blobs.delete(info.key)
            deleted += 1
        self._shards = None
        return deleted

    def _make(self, shard_id: str) -> None:
        self._location.create_shard(shard_id, self.definition.schema(), owner=self.owner).close()

    def _open(self, shard_id: str) -> Shard:
        shard = self._location.open_shard(shard_id)
        if shard.state.owner != self.owner:
            raise Refused(
                f"shard {shard_id} belongs to {shard.state.owner!r}, the metadata says {self.owner!r}; "
                "the rendition cannot be used: abandon it and build another"
            )
        return shard

    def _readable(self, as_of: int) -> None:
        what = f"rendition {self.name} of {self._collection}"
        if as_of < self.since:
            raise NotReadable(what, as_of, self.since)
        if as_of >= self.upper:
            self.refresh()
        if as_of >= self.upper:
            raise NotYet(f"{what}: asked for time {as_of}, written up to {self.upper} (exclusive); wait for its writer")
