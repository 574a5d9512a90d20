"""Which rendition a collection is, at each time: the metadata shard's records and their meaning as a value.

A record is `(rendition, role, at, definition)` at a time. At every time exactly one rendition is `active`. The
metadata shard's upper is the proof that no rendition changes before it.

    building ──> standby ──> active ──> retired ──> condemned ──> (gone)
        └───────────┴──> abandoned ────────────────────┘
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seamark.errors import NotFound, Refused
from seamark.persist import Column, Schema
from seamark.persist.schema import DIFF, TIME

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = Schema(
    columns=(
        Column("rendition", "string"),
        Column("role", "string"),
        Column("at", "int64"),
        Column("definition", "string"),
    ),
    key=("rendition",),
)
BUILDING, STANDBY, ACTIVE = "building", "standby", "active"
RETIRED, ABANDONED, CONDEMNED = "retired", "abandoned", "condemned"
CANDIDATES = (BUILDING, STANDBY)


@dataclass(frozen=True)
class Row:
    """A rendition's role from a time on."""

    rendition: str
    role: str
    at: int
    """Since when; a condemned rendition keeps the time at which it ceased to be read."""
    definition: str


@dataclass(frozen=True)
class Change:
    """A row that begins (+1) or ends (-1) at a time."""

    time: int
    row: Row
    diff: int


@dataclass(frozen=True)
class Timeline:
    """The metadata's contents at `start` and every change after it, up to (not including) `upper`."""

    start: int
    upper: int
    first: frozenset[Row]
    changes: tuple[Change, ...]

    def at(self, time: int) -> frozenset[Row]:
        """The rows at `time`."""
        rows = set(self.first)
        for change in self.changes:
            if change.time > time:
                break
            (rows.add if change.diff > 0 else rows.discard)(change.row)
        return frozenset(rows)

    @property
    def now(self) -> dict[str, Row]:
        """The latest row of each rendition."""
        return {row.rendition: row for row in self.at(self.upper)}

    def row(self, rendition: str) -> Row:
        found = self.now.get(rendition)
        if found is None:
            raise NotFound(f"no rendition {rendition!r}; there are {', '.join(sorted(self.now)) or 'none'}")
        return found

    def active_at(self, time: int) -> str:
        """The one rendition that the collection is at `time`."""
        active = [row.rendition for row in self.at(time) if row.role == ACTIVE]
        assert len(active) == 1, f"{len(active)} active renditions at {time}"
        return active[0]

    @property
    def active(self) -> str:
        return self.active_at(self.upper)

    def next_handover(self, after: int) -> tuple[int, str] | None:
        """The first time later than `after` at which another rendition becomes the active one."""
        current = self.active_at(after)
        for change in self.changes:
            begins = change.time > after and change.diff > 0 and change.row.role == ACTIVE
            if begins and change.row.rendition != current:
                return change.time, change.row.rendition
        return None

    def handed_over_at(self, rendition: str) -> int | None:
        """When the rendition ceased to be the active one; None when it never was, or still is."""
        row = self.now.get(rendition)
        return row.at if row is not None and row.role in (RETIRED, CONDEMNED) else None

    def standby(self) -> list[str]:
        return sorted(row.rendition for row in self.now.values() if row.role == STANDBY)


def moves(timeline: Timeline, to: dict[str, str | None], time: int) -> list[tuple[Row, int]]:
    """The record changes that give renditions new roles (None: gone). Exactly one active must remain."""
    after = dict(timeline.now)
    records: list[tuple[Row, int]] = []
    for rendition, role in to.items():
        before = after.pop(rendition)
        records.append((before, -1))
        if role is not None:
            at = before.at if role == CONDEMNED else time
            after[rendition] = Row(rendition, role, at, before.definition)
            records.append((after[rendition], +1))
    active = sorted(row.rendition for row in after.values() if row.role == ACTIVE)
    if len(active) != 1:
        raise Refused(f"exactly one rendition must be active, this would leave {active or 'none'}; nothing changed")
    return records


def collectable(timeline: Timeline, rendition: str, since: int) -> bool:
    """Nobody can read it any more: never active, or every hold has passed the time of its handover."""
    role = timeline.row(rendition).role
    if role in (ABANDONED, CONDEMNED):
        return True
    handed_over = timeline.handed_over_at(rendition)
    return role == RETIRED and handed_over is not None and since > handed_over


def to_records(changes: Iterable[tuple[Row, int]], time: int) -> pa.Table:
    import pyarrow as pa

    rows = list(changes)
    return pa.table(
        {
            "rendition": pa.array([row.rendition for row, _ in rows], pa.string()),
            "role": pa.array([row.role for row, _ in rows], pa.string()),
            "at": pa.array([row.at for row, _ in rows], pa.int64()),
            "definition": pa.array([row.definition for row, _ in rows], pa.string()),
            TIME: pa.array([time] * len(rows), pa.int64()),
            DIFF: pa.array([diff for _, diff in rows], pa.int64()),
        }
    )


def to_timeline(first: pa.Table, changes: pa.Table, start: int, upper: int) -> Timeline:
    ordered = sorted(
        (Change(item[TIME], _row(item), item[DIFF]) for item in changes.to_pylist()),
        key=lambda change: (change.time, change.diff),
    )
    return Timeline(start, upper, frozenset(_row(item) for item in first.to_pylist()), tuple(ordered))


def _row(item: dict[str, Any]) -> Row:
    return Row(item["rendition"], item["role"], item["at"], item["definition"])
