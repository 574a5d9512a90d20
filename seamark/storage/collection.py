"""A collection: renditions, and the metadata that says which of them it is at each time.

Every change of metadata is one compare-and-append to the metadata shard. Readers' holds live on that shard; the
data shards follow its since.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from seamark.errors import Dropped, Gap, Held, HoldMismatch, NameTaken, NotFound, NotYet, Refused, UpperMismatch
from seamark.persist import Changes, Lease, Location, Shard
from seamark.persist.collect import delete_shard
from seamark.persist.holds import now_millis
from seamark.persist.state import releasable
from seamark.storage import facts, metadata, reader, runs
from seamark.storage.definition import Definition
from seamark.storage.evolution import joined
from seamark.storage.metadata import ABANDONED, ACTIVE, BUILDING, CANDIDATES, CONDEMNED, RETIRED, STANDBY, Row, Timeline
from seamark.storage.remap import Remap
from seamark.storage.rendition import Rendition

if TYPE_CHECKING:
    import pyarrow as pa

FIRST = "r1"
RETENTION = "retention"
RETENTION_STEP = 1000
"""Milliseconds by which retention moves at least: a hold that moved with every tick would fill the log."""
FOLLOW_STEP = 30_000

Moves = list[tuple[Row, int]]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Collection:
    """A handle on one collection. `refresh` sees what others did."""

    def __init__(self, location: Location, name: str, shard: Shard) -> None:
        self._location = location
        self.name = name
        self._metadata = shard
        self._renditions: dict[str, Rendition] = {}
        self._timeline: Timeline | None = None

    @classmethod
    def create(cls, location: Location, name: str, definition: Definition, *, owner: str) -> Collection:
        """Make the collection with its first rendition, active from time 0. Idempotent for the same owner."""
        _check_name("collection", name)
        try:
            shard = location.create_shard(_metadata_id(name), metadata.SCHEMA, owner=owner)
        except NameTaken:
            holder = location.open_shard(_metadata_id(name)).state.owner
            raise NameTaken(
                f"collection {name!r} in {location.url} belongs to {holder!r}, {owner!r} asked for it; "
                "two collections cannot write to one name: rename this one or give it another location"
            ) from None
        collection = cls(location, name, shard)
        # Before there is anything to read: without this hold, any other one would let history go.
        if RETENTION not in shard.refresh().holds:
            with suppress(HoldMismatch):
                shard.hold(RETENTION, 0, token=0)
        if shard.upper == 0:
            Rendition(location, name, FIRST, definition).create()
            row = Row(FIRST, ACTIVE, 0, definition.to_json())
            try:
                shard.compare_and_append(metadata.to_records([(row, +1)], 0), 0, 1)
            except UpperMismatch:
                shard.refresh()
        return collection

    @classmethod
    def open(cls, location: Location, name: str) -> Collection:
        try:
            shard = location.open_shard(_metadata_id(name))
        except NotFound:
            known = ", ".join(cls.names(location)) or "none"
            raise NotFound(f"collection {name!r} does not exist in {location.url}; there are: {known}") from None
        if shard.state.dropped is not None or shard.upper == 0:
            raise NotFound(f"collection {name!r} in {location.url} is not there (yet): it is being made or deleted")
        return cls(location, name, shard)

    @classmethod
    def names(cls, location: Location) -> list[str]:
        return [log.split("/")[1] for log in location.logs.names("collections/") if log.endswith("/metadata")]

    @property
    def owner(self) -> str:
        return self._metadata.state.owner

    @property
    def since(self) -> int:
        return self._metadata.since

    @property
    def upper(self) -> int:
        """The first time that cannot be read yet."""
        return min(self._metadata.upper, self.rendition(self.timeline.active).upper)

    @property
    def holds(self) -> dict[str, int]:
        return self._metadata.holds

    @property
    def timeline(self) -> Timeline:
        start, upper = self._metadata.since, self._metadata.upper
        # Any command through this handle may have brought in what others did, so the frontiers are compared.
        if self._timeline is None or (self._timeline.start, self._timeline.upper) != (start, upper):
            self._timeline = metadata.to_timeline(
                self._metadata.snapshot(start), self._metadata.changes(start + 1, upper), start, upper
            )
        return self._timeline

    def refresh(self) -> None:
        """See what others did, in the metadata and in the shards of every rendition that is open."""
        self._metadata.refresh()
        for name, rendition in list(self._renditions.items()):
            try:
                rendition.refresh()
            except (Dropped, Gap, NotFound):
                self._renditions.pop(name)
                self._metadata.refresh()
                if name in self.timeline.now and self.timeline.row(name).role in (ACTIVE, *CANDIDATES):
                    raise

    def rendition(self, name: str) -> Rendition:
        """A rendition by name, as its definition stands in the metadata."""
        if name not in self.timeline.now:
            self._metadata.refresh()
        definition = Definition.from_json(self.timeline.row(name).definition)
        found = self._renditions.get(name)
        if found is None or found.definition != definition:
            found = self._renditions[name] = Rendition(self._location, self.name, name, definition)
        return found

    def remap(self, definition: Definition) -> Remap:
        """The bindings of the definition's source, shared by all renditions of the same source."""
        shard_id = f"collections/{self.name}/remap-{definition.source_hash}"
        return Remap.open(self._location, shard_id, owner=self.name)

    def add_rendition(self, name: str, definition: Definition) -> Rendition:
        """Register a candidate and make its shards. Idempotent for the same definition."""
        _check_name("rendition", name)
        text = definition.to_json()

        def add(timeline: Timeline, time: int) -> Moves:
            present = timeline.now.get(name)
            if present is None:
                self._check_columns(timeline, name, definition)
                Rendition(self._location, self.name, name, definition).create()
                return [(Row(name, BUILDING, time, text), +1)]
            if present.definition != text:
                raise NameTaken(f"rendition {name} of {self.name} exists with another definition; choose another name")
            return []

        self._change(add)
        return self.rendition(name)

    def mark_standby(self, name: str) -> None:
        """From here on the collection's frontier waits for this candidate, so that a handover is always possible."""

        def stand_by(timeline: Timeline, time: int) -> Moves:
            role = timeline.row(name).role
            if role not in CANDIDATES:
                raise Refused(
                    f"rendition {name} of {self.name} is {role}; only a rendition that is building can stand by"
                )
            return [] if role == STANDBY else metadata.moves(timeline, {name: STANDBY}, time)

        self._change(stand_by)

    def abandon(self, name: str, why: str) -> None:
        """Give a candidate up; it can be collected at once, since no reader ever saw it."""

        def give_up(timeline: Timeline, time: int) -> Moves:
            role = timeline.row(name).role
            if role in (ABANDONED, CONDEMNED):
                return []
            if role not in CANDIDATES:
                raise Refused(f"rendition {name} of {self.name} is {role} and cannot be abandoned ({why})")
            return metadata.moves(timeline, {name: ABANDONED}, time)

        self._change(give_up)

    def handover(self, to: str, at: int | None = None, *, close_old: bool = False) -> int:
        """Make `to` the active rendition from one exact time on, in one compare-and-append; returns that time.

        Without `at`, the time is the first that no reader can have passed. `close_old` is for a rendition whose
        writer is gone for good: it is fenced, and declared unchanged up to the handover.
        """
        while True:
            self.refresh()
            timeline = self.timeline
            row = timeline.row(to)
            if row.role == ACTIVE:
                return row.at
            if row.role not in CANDIDATES:
                raise Refused(f"rendition {to} of {self.name} is {row.role}; only a candidate can take over")
            time = timeline.upper if at is None else at
            self._check_candidate(to, time)
            self._check_active(to, time, close_old=close_old)
            changes = metadata.moves(timeline, {timeline.active: RETIRED, to: ACTIVE}, time)
            # Losing the race means that another change of metadata came first: everything is judged anew.
            with suppress(UpperMismatch):
                self._metadata.compare_and_append(metadata.to_records(changes, time), timeline.upper, time + 1)
                return time

    def advance(self) -> int:
        """Move the metadata's upper to what is written, so that readers may go on; returns it.

        While a candidate stands by, the frontier stays one behind it: then the next time is always one at which
        the candidate can be read, and the handover cannot be starved by a faster active rendition.
        """
        self.refresh()
        while True:
            target = self.rendition(self.timeline.active).upper
            for standby in self.timeline.standby():
                target = min(target, self.rendition(standby).upper - 1)
            if target <= self._metadata.upper:
                return self._metadata.upper
            try:
                self._metadata.compare_and_append(None, self._metadata.upper, target)
            except UpperMismatch:
                self.refresh()

    def snapshot(self, as_of: int, *, timeout: float = 0.0) -> pa.Table:
        """The contents at `as_of`, of the rendition that is active then: user columns and `_diff`."""
        return reader.snapshot(self, as_of, timeout)

    def subscribe(
        self,
        as_of: int | None = None,
        *,
        frontier: int | None = None,
        timeout: float | None = None,
        poll: float = 0.2,
        lease_seconds: float = 60.0,
    ) -> Iterator[Changes]:
        """The contents at `as_of` (default: the newest), then every change, across handovers.

        With `frontier`, resumes a reader that has consumed everything before that time.
        """
        return reader.subscribe(self, as_of, frontier, timeout, poll, lease_seconds)

    def lease(self, as_of: int, seconds: float) -> Lease | None:
        """A hold that lasts while this process renews it; none where the location was opened read-only."""
        if self._location.read_only:
            return None
        return self._metadata.lease(as_of, seconds)

    def hold(self, name: str, as_of: int) -> None:
        """Promise `name` that the collection stays readable from `as_of` on. Moves only forward."""
        self._metadata.refresh()
        if self.holds.get(name) != as_of:
            self._metadata.hold(name, as_of)

    def unhold(self, name: str) -> None:
        self._metadata.unhold(name)

    def retain(self, millis: int) -> int:
        """Let history older than `millis` go, as far as other holds allow; returns the collection's since."""
        self.refresh()
        target = max(0, self.upper - 1 - millis)
        present = self.holds.get(RETENTION, 0)
        # A reader that died releases nothing itself: its lease ends, and this is who notices.
        released = releasable(self._metadata.state, now_millis()) > self._metadata.since
        if released or target >= present + RETENTION_STEP:
            self._metadata.hold(RETENTION, max(target, present, self._metadata.since))
        since = self._metadata.since
        for name, row in self.timeline.now.items():
            if row.role in (ACTIVE, *CANDIDATES):
                rendition = self.rendition(name)
                if since >= rendition.since + FOLLOW_STEP and since < rendition.upper:
                    rendition.follow(since)
        return since

    def collectable(self) -> list[str]:
        """Renditions that nobody can need any more."""
        self._metadata.refresh()
        return [name for name in self.timeline.now if metadata.collectable(self.timeline, name, self.since)]

    def condemn(self, name: str) -> None:
        """First phase of deletion: on record, visible, nothing deleted yet. `Held` while a hold needs it."""

        def mark(timeline: Timeline, time: int) -> Moves:
            if timeline.row(name).role == CONDEMNED:
                return []
            if not metadata.collectable(timeline, name, self.since):
                raise Held(self._why_held(name))
            return metadata.moves(timeline, {name: CONDEMNED}, time)

        self._change(mark)

    def sweep(self, name: str) -> int:
        """Second phase: delete the files of a condemned rendition, then its record; returns how many objects."""
        self._metadata.refresh()
        row = self.timeline.now.get(name)
        if row is None:
            return 0
        if row.role != CONDEMNED:
            raise Refused(f"rendition {name} of {self.name} is {row.role}, not condemned; condemn it first")
        deleted = self.rendition(name).delete(f"rendition {name} was collected")
        self._renditions.pop(name, None)
        self._change(
            lambda timeline, time: metadata.moves(timeline, {name: None}, time) if name in timeline.now else []
        )
        return deleted

    def drop(self) -> int:
        """Delete everything of the collection; returns how many objects. Resumable, and idempotent."""
        self._metadata.drop("the collection was deleted")
        deleted = 0
        mine = [log for log in self._location.logs.names(f"collections/{self.name}/") if log != _metadata_id(self.name)]
        for shard_id in mine:
            deleted += delete_shard(self._location, shard_id, "the collection was deleted")
        for prefix in (f"parts/collections/{self.name}/", runs.prefix_of(self.name)):
            for info in list(self._location.blobs.list(prefix)):
                self._location.blobs.delete(info.key)
                deleted += 1
        return deleted + delete_shard(self._location, _metadata_id(self.name), "the collection was deleted")

    def describe(self) -> facts.Facts:
        """What is true at this moment."""
        self.refresh()
        renditions = {}
        for name, row in self.timeline.now.items():
            renditions[name] = self._describe_rendition(name, row)
        return facts.Facts(
            name=self.name,
            owner=self.owner,
            since=self.since,
            upper=self.upper,
            metadata_upper=self._metadata.upper,
            active=self.timeline.active,
            renditions=renditions,
            holds=self.holds,
        )

    def _describe_rendition(self, name: str, row: Row) -> facts.RenditionFacts:
        definition = Definition.from_json(row.definition)
        try:
            states = [shard.refresh() for shard in self.rendition(name).shards]
        except (NotFound, Dropped):
            states = []
        return facts.RenditionFacts(
            name=name,
            role=row.role,
            definition_hash=definition.hash,
            since=max((state.since for state in states), default=0),
            upper=min((state.upper for state in states), default=0),
            handed_over_at=self.timeline.handed_over_at(name),
            shards=tuple(facts.of_shard(state) for state in states),
        )

    def _check_columns(self, timeline: Timeline, name: str, definition: Definition) -> None:
        for row in timeline.now.values():
            if row.role in (ACTIVE, *CANDIDATES):
                present = Definition.from_json(row.definition).schema()
                joined(present, definition.schema(), f"rendition {name} of {self.name} after {row.rendition}")

    def _check_candidate(self, to: str, time: int) -> None:
        candidate = self.rendition(to)
        candidate.refresh()
        if time < self._metadata.upper:
            raise Refused(
                f"handover of {self.name} to {to} at {time}: readers may have passed that time already "
                f"(metadata upper is {self._metadata.upper}); choose {self._metadata.upper} or later"
            )
        if not candidate.since <= time < candidate.upper:
            raise Refused(
                f"handover of {self.name} to {to} at {time}: {to} can be read only at times from {candidate.since} "
                f"up to {candidate.upper} (exclusive); wait until it has caught up, or choose a time inside. "
                "Nothing changed"
            )

    def _check_active(self, to: str, time: int, *, close_old: bool) -> None:
        """Readers negate the old rendition at `time - 1`, so it must be written up to `time`."""
        active = self.rendition(self.timeline.active)
        active.refresh()
        if active.upper >= time:
            return
        if close_old:
            active.close_at(time, f"handover to {to}")
            return
        raise NotYet(
            f"handover of {self.name} to {to} at {time}: the active rendition {active.name} is written only up to "
            f"{active.upper}; wait for its writer, or close it if the writer is gone for good"
        )

    def _why_held(self, name: str) -> str:
        role, at = self.timeline.row(name).role, self.timeline.handed_over_at(name)
        if role != RETIRED or at is None:
            return f"rendition {name} of {self.name} is {role}: it is still read; hand over to another one first"
        needing = sorted(hold for hold, time in self.holds.items() if time <= at)
        leases = sum(lease.time <= at for lease in self._metadata.state.leases.values())
        return (
            f"rendition {name} of {self.name} was handed over at {at}, but the collection's since is {self.since}: "
            f"held by {', '.join(needing) or 'no durable hold'} and {leases} leased reader(s); move these past {at}"
        )

    def _change(self, make: Callable[[Timeline, int], Moves]) -> None:
        """One compare-and-append to the metadata at its upper; judged and made anew when another was faster."""
        while True:
            self._metadata.refresh()
            time = self.timeline.upper
            changes = make(self.timeline, time)
            if not changes:
                return
            with suppress(UpperMismatch):
                self._metadata.compare_and_append(metadata.to_records(changes, time), time, time + 1)
                return


def _check_name(kind: str, name: str) -> None:
    """Names become one word of shard ids, beside the words that the metadata and the remap shards have."""
    if not _NAME.fullmatch(name) or name == "metadata" or name.startswith("remap-"):
        raise Refused(
            f"{kind} name {name!r} is not allowed: use letters, digits, '.', '_' and '-', beginning with a letter "
            "or digit, and neither 'metadata' nor a name that begins with 'remap-'"
        )


def _metadata_id(name: str) -> str:
    return f"collections/{name}/metadata"
