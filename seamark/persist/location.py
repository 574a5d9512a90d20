"""A location: a root of storage (blob engine, log engine, checkpoint store) in which shards live."""

from __future__ import annotations

from types import TracebackType

from seamark.checkpoints import BlobCheckpoints, CheckpointStore
from seamark.engines import Blob, Engines, Logs, open_engines
from seamark.errors import NotFound
from seamark.persist.commands import Create
from seamark.persist.machine import Machine, new_session
from seamark.persist.read_only import ReadOnlyBlob, ReadOnlyLogs
from seamark.persist.schema import Schema
from seamark.persist.shard import Shard


class Location:
    """Opens shards. Close it, or use it as a context manager."""

    def __init__(self, engines: Engines, checkpoints: Engines | None, *, read_only: bool) -> None:
        self._engines = engines
        self._checkpoint_engines = checkpoints
        self.read_only = read_only
        self.blobs: Blob = ReadOnlyBlob(engines.blobs, engines.url) if read_only else engines.blobs
        self.logs: Logs = ReadOnlyLogs(engines.logs, engines.url) if read_only else engines.logs
        beside = checkpoints.blobs if checkpoints else engines.blobs
        self.checkpoints: CheckpointStore = BlobCheckpoints(ReadOnlyBlob(beside, engines.url) if read_only else beside)

    @classmethod
    def open(cls, url: str, *, checkpoints: str | None = None, read_only: bool = False) -> Location:
        """`checkpoints` names another place for them; by default they lie beside the data."""
        return cls(open_engines(url), open_engines(checkpoints) if checkpoints else None, read_only=read_only)

    @property
    def url(self) -> str:
        return self._engines.url

    def create_shard(self, shard_id: str, schema: Schema, *, owner: str = "") -> Shard:
        """Make the shard, or open it when the same owner made it with the same schema."""
        machine = self._machine(shard_id)
        machine.commit(lambda _state: Create(schema=schema, owner=owner))
        return Shard(machine, self.blobs)

    def open_shard(self, shard_id: str) -> Shard:
        """The shard, or `NotFound`."""
        machine = self._machine(shard_id)
        if not machine.exists:
            machine.close()
            raise NotFound(f"shard {shard_id} does not exist in {self.url}; create it first, or check the URL")
        return Shard(machine, self.blobs)

    def shard_ids(self, prefix: str = "") -> list[str]:
        return list(self.logs.names(prefix))

    def close(self) -> None:
        self._engines.close()
        if self._checkpoint_engines is not None:
            self._checkpoint_engines.close()

    def __enter__(self) -> Location:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _machine(self, shard_id: str) -> Machine:
        return Machine(
            shard_id,
            self.logs.open(shard_id),
            self.checkpoints,
            session=new_session(),
            read_only=self.read_only,
        )
