"""A handle on one shard: append, read as of a time, follow, hold, lock, drop.

Decides nothing by itself: every change is a command in the shard's log (`machine.py`, `state.py`), every read is
a function of the state after some entry of that log.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from seamark.engines.ports import Blob
from seamark.errors import Corrupt, Dropped, Fenced, NotFound, NotReadable, NotYet, Refused, UpperMismatch
from seamark.persist import commands as c
from seamark.persist.consolidate import consolidate, contents
from seamark.persist.holds import Lease, now_millis
from seamark.persist.machine import Machine
from seamark.persist.parts import epoch_of, read_part, store_part
from seamark.persist.schema import TIME, Schema
from seamark.persist.state import ShardState

if TYPE_CHECKING:
    import pyarrow as pa

INLINE_WRITE = 16 * 1024
"""Records of at most this many bytes ride inside the log entry: one sync or one PUT in all."""
INLINE_SHARD = 1024 * 1024
"""At most this many bytes of a shard ride in entries; beyond, even small writes become parts."""


@dataclass(frozen=True)
class Changes:
    """Every change at the times `[lower, upper)`: user columns, time and diff."""

    lower: int
    upper: int
    records: pa.Table


class Shard:
    """One shard. Thread-safe."""

    def __init__(self, machine: Machine, blobs: Blob) -> None:
        self._machine = machine
        self._blobs = blobs

    @property
    def id(self) -> str:
        return self._machine.shard

    @property
    def state(self) -> ShardState:
        """As last seen by this handle."""
        return self._machine.known

    @property
    def schema(self) -> Schema:
        return self.state.schema

    @property
    def since(self) -> int:
        return self.state.since

    @property
    def upper(self) -> int:
        return self.state.upper

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def holds(self) -> dict[str, int]:
        return {name: hold.time for name, hold in self.state.holds.items()}

    def refresh(self) -> ShardState:
        """Ask the log for what others have done since. `Dropped` once the shard has ended."""
        state = self._machine.refresh()
        if state.dropped is not None:
            raise Dropped(f"shard {self.id} was dropped ({state.dropped}); nothing can be read from it any more")
        return state

    def compare_and_append(
        self,
        records: pa.Table | None,
        lower: int,
        upper: int,
        *,
        parts: Sequence[c.PartRef] = (),
        epoch: int | None = None,
    ) -> None:
        """Append what happened in `[lower, upper)`; commits only if the shard's upper is `lower`. Durable on return.

        Records come as a table, as parts that were written elsewhere, or both. Without any, time advances alone.
        """
        # Epoch and upper only grow: what refuses here would be refused by the log, and no part is written for it.
        state = self.state
        if epoch is not None and epoch < state.epoch:
            raise Fenced(self.id, epoch, state.epoch, state.lock.holder if state.lock else "nobody")
        if state.upper > lower:
            raise UpperMismatch(self.id, lower, state.upper)
        batch = self._batch(records, lower, upper, parts, epoch)
        self._machine.commit(lambda _state: c.Append(lower=lower, upper=upper, epoch=epoch, batch=batch))

    def snapshot(self, as_of: int, *, timeout: float = 0.0) -> pa.Table:
        """The contents at `as_of`: user columns and `_diff`, consolidated. Waits until it is written."""
        self.wait_past(as_of, timeout=timeout)
        if as_of < self.state.since:
            raise NotReadable(f"shard {self.id}", as_of, self.state.since)
        return contents(self._records(0, as_of + 1), self.schema)

    def changes(self, lower: int, upper: int) -> pa.Table:
        """Every change at the times `[lower, upper)`, consolidated, with its time."""
        state = self.state if upper <= self.state.upper else self.refresh()
        if lower <= state.since and state.since > 0:
            raise NotReadable(f"shard {self.id}: changes", lower, state.since + 1)
        if upper > state.upper:
            raise NotYet(f"shard {self.id}: asked for changes before {upper}, written up to {state.upper}; wait")
        return consolidate(self._records(lower, upper), self.schema)

    def lookup(self, keys: pa.Table, as_of: int) -> pa.Table:
        """The rows (user columns) that have one of `keys` at `as_of`. Reads only parts whose bounds overlap."""
        import pyarrow.compute as pc

        schema = self.schema
        if not schema.key:
            raise Refused(f"shard {self.id} has no key columns; lookup needs them")
        if as_of >= 0:
            self.wait_past(as_of, timeout=0.0)
            if as_of < self.state.since:
                raise NotReadable(f"shard {self.id}: lookup", as_of, self.state.since)
        wanted = keys.select(list(schema.key)).cast(_key_schema(schema))
        bounds = pc.min_max(wanted.column(schema.key[0])).as_py() if wanted.num_rows else None
        if bounds is None or as_of < 0:
            return schema.user_arrow().empty_table()
        records = self._records(0, as_of + 1, bounds["min"], bounds["max"])
        if records.num_rows:
            records = records.join(wanted, list(schema.key), join_type="left semi")
        return contents(records, schema).select(schema.names)

    def listen(self, as_of: int, *, timeout: float | None = None, poll: float = 0.1) -> Iterator[Changes]:
        """Every change after `as_of`, once, in the order of frontiers; ends when nothing new comes for `timeout`."""
        if as_of < self.refresh().since:
            raise NotReadable(f"shard {self.id}", as_of, self.state.since)
        frontier = as_of + 1
        waited = 0.0
        while True:
            upper = self.refresh().upper
            if upper > frontier:
                yield Changes(frontier, upper, self.changes(frontier, upper))
                frontier, waited = upper, 0.0
                continue
            if timeout is not None and waited >= timeout:
                return
            time.sleep(poll)
            waited += poll

    def subscribe(self, as_of: int, *, timeout: float | None = None, poll: float = 0.1) -> Iterator[Changes]:
        """The contents at `as_of` as changes at that time, then every later change."""
        yield Changes(as_of, as_of + 1, at_time(self.snapshot(as_of, timeout=timeout or 0.0), as_of))
        yield from self.listen(as_of, timeout=timeout, poll=poll)

    def wait_past(self, as_of: int, *, timeout: float) -> None:
        """Return once upper is beyond `as_of`; `NotYet` when that takes longer than `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.state.upper <= as_of and self.refresh().upper <= as_of:
            if time.monotonic() >= deadline:
                raise NotYet(
                    f"shard {self.id}: asked for time {as_of}, written up to {self.state.upper} (exclusive); "
                    "wait for the writer, or read at an earlier time"
                )
            time.sleep(min(0.05, max(0.0, deadline - time.monotonic())))

    def acquire(self, reentrance_id: str, holder: str, *, reason: str = "", break_lock: bool = False) -> int:
        """Take the write lock and return its epoch. The same reentrance id takes it again at once."""
        command = c.Lock(reentrance_id=reentrance_id, holder=holder, reason=reason, broke=break_lock)
        return self._machine.commit(lambda _state: command).epoch

    def release(self, epoch: int) -> None:
        """Give the lock back; nothing when a successor has it."""
        self._machine.commit(lambda _state: c.Unlock(epoch=epoch))

    def hold(self, name: str, as_of: int, *, token: int | None = None) -> int:
        """Create or move a durable hold. With `token`, only if it is the one found (compare-and-set)."""

        def propose(state: ShardState | None) -> c.AnyCommand:
            present = state.holds.get(name) if state else None
            expected = token if token is not None else (present.token if present else 0)
            return c.SetHold(name=name, time=as_of, token=expected, now=now_millis())

        return self._machine.commit(propose).holds[name].token

    def unhold(self, name: str) -> None:
        """Release a durable hold. Idempotent."""
        if name in self.refresh().holds:
            self._machine.commit(lambda _state: c.DropHold(name=name, now=now_millis()))

    def lease(self, as_of: int, seconds: float) -> Lease:
        """A hold that lasts while this process renews it."""
        return Lease.take(self._machine, as_of, seconds)

    def drop(self, reason: str = "asked") -> None:
        """End the shard: no command can follow. Its files are deleted by `collect.delete_shard`."""
        if self._machine.known.dropped is None:
            with suppress(Dropped):
                self._machine.commit(lambda _state: c.Drop(reason=reason))

    def close(self) -> None:
        self._machine.close()

    def _batch(
        self, records: pa.Table | None, lower: int, upper: int, parts: Sequence[c.PartRef], epoch: int | None
    ) -> c.Batch | None:
        import pyarrow.compute as pc

        refs = list(parts)
        for part in refs:
            self._verify_stored(part, epoch or 0)
        inline, inline_rows = b"", 0
        first = min((part.first for part in refs), default=None)
        last = max((part.last for part in refs), default=None)
        table = consolidate(self.schema.fit(records), self.schema) if records is not None else None
        if table is not None and table.num_rows:
            times = pc.min_max(table.column(TIME)).as_py()
            if times["min"] < lower or times["max"] >= upper:
                raise Refused(
                    f"shard {self.id}: records have times {times['min']} to {times['max']}, "
                    f"outside of the appended [{lower}, {upper}); nothing was written"
                )
            encoded = _encode_inline(table) if table.nbytes <= INLINE_WRITE else None
            if encoded is not None and self.state.inline_bytes + len(encoded) <= INLINE_SHARD:
                inline, inline_rows = encoded, table.num_rows
            else:
                refs.append(cast(c.PartRef, store_part(self._blobs, self.id, self.schema, table, epoch=epoch or 0)))
            first = times["min"] if first is None else min(first, times["min"])
            last = times["max"] if last is None else max(last, times["max"])
        if first is None or last is None:
            return None
        rows = inline_rows + sum(part.rows for part in refs)
        return c.Batch(lower, upper, tuple(refs), inline, rows, first, last)

    def _verify_stored(self, part: c.PartRef, epoch: int) -> None:
        if epoch_of(part.key, self.id) != epoch:
            raise Refused(
                f"shard {self.id}: part {part.key} was not written for this shard under epoch {epoch}, so the sweep "
                "may take it for an orphan; write the part again with the shard's id and the writer's epoch"
            )
        found = next((info for info in self._blobs.list(part.key) if info.key == part.key), None)
        if found is None or found.size != part.size:
            seen = "nothing" if found is None else f"{found.size} bytes"
            raise NotFound(
                f"shard {self.id}: part {part.key} of {part.size} bytes was handed over, storage has {seen}; "
                "write the part again"
            )

    def _records(self, lower: int, upper: int, low: c.KeyBound = None, high: c.KeyBound = None) -> pa.Table:
        """Records with `lower <= time < upper`, not consolidated; parts outside of the key bounds are not read."""
        import pyarrow as pa
        import pyarrow.compute as pc

        schema = self.schema
        tables = []
        for batch in self.state.batches:
            if batch.first >= upper or batch.last < lower:
                continue
            if batch.inline:
                tables.append(_decode_inline(batch.inline))
            tables.extend(
                self._read(part)
                for part in batch.parts
                if part.first < upper and part.last >= lower and not _outside(part, low, high)
            )
        if not tables:
            return schema.arrow().empty_table()
        table = pa.concat_tables([table.cast(schema.arrow()) for table in tables])
        stamp = table.column(TIME)
        return table.filter(pc.and_(pc.greater_equal(stamp, lower), pc.less(stamp, upper)))

    def _read(self, part: c.PartRef) -> pa.Table:
        try:
            return read_part(self._blobs, part, self.schema)
        except NotFound as missing:
            # The shard's end, if that is why, is on record for longer than its parts.
            self.refresh()
            raise Corrupt(
                f"part {part.key} is missing: shard {self.id} refers to it, storage does not have it; "
                "restore the object from a copy, or rebuild the rendition"
            ) from missing


def at_time(table: pa.Table, stamp: int) -> pa.Table:
    """A snapshot's rows as records at one time."""
    import pyarrow as pa

    times = pa.repeat(pa.scalar(stamp, pa.int64()), table.num_rows)
    return table.add_column(table.num_columns - 1, pa.field(TIME, pa.int64(), False), times)


def _key_schema(schema: Schema) -> pa.Schema:
    import pyarrow as pa

    whole = schema.arrow()
    return pa.schema([whole.field(name) for name in schema.key])


def _outside(part: c.PartRef, low: c.KeyBound, high: c.KeyBound) -> bool:
    if low is None or high is None or part.low is None or part.high is None:
        return False
    if isinstance(low, str) != isinstance(part.low, str):
        return False
    return bool(part.high < low or part.low > high)  # type: ignore[operator]


def _encode_inline(table: pa.Table) -> bytes:
    import pyarrow as pa

    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _decode_inline(data: bytes) -> pa.Table:
    import pyarrow as pa

    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
