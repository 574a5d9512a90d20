"""Everything a decision about one collection may rest on, read once and then fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark_operator.api.resources import Collection, ReadHold, Rendition, Shard
from seamark_operator.ports import (
    CollectionFacts,
    DefinitionFacts,
    Lease,
    Marker,
    RenditionFacts,
    Run,
    Target,
)
from seamark_operator.specs import names


@dataclass(frozen=True)
class Policy:
    """The numbers of the control plane; tests use smaller ones."""

    backoff_first_seconds: float = 2
    """From the creation of the first attempt to that of the second; doubles with each failure in a row."""
    backoff_cap_seconds: float = 60
    pending_deadline_seconds: float = 600
    """A run that has not started by then is stopped and tried again under the next name."""
    failing_after: int = 10
    """So many failures in a row, and the collection says that its ingestion fails."""
    healthy_run_seconds: float = 600
    """A run that lived so long ends a row of failures, however it ended."""
    status_seconds: float = 10
    """Frontiers alone are written to status at most this often."""
    caught_up_ticks: float = 3
    """A candidate this close to the active rendition is made the standby."""
    hopeless_after: int = 3
    """So many failures of the active rendition in a row, and a handover no longer waits for its frontier."""
    retention_step_millis: int = 5_000
    """The retention hold is moved when it lags by this much, or when a rendition waits for it."""


@dataclass(frozen=True)
class Problem:
    """Something that went wrong, as a condition says it."""

    reason: str
    message: str


@dataclass(frozen=True)
class Observed:
    now: float
    collection: Collection
    target: Target | None = None
    """Where the collection lies; None when its location or checkpoint store is not there."""
    credentials_secret: str | None = None
    location_problem: Problem | None = None
    definition: DefinitionFacts | None = None
    definition_problem: Problem | None = None
    storage: CollectionFacts | None = None
    """None when storage has no such collection, or did not tell."""
    storage_problem: Problem | None = None
    """Why storage did not tell."""
    renditions: tuple[Rendition, ...] = ()
    shards: tuple[Shard, ...] = ()
    holds: tuple[ReadHold, ...] = ()
    runs: tuple[Run, ...] = ()
    leases: tuple[Lease, ...] = ()
    markers: tuple[Marker, ...] = ()
    status_due: bool = True
    """Whether frontiers alone may be written to status in this pass."""
    failure: Problem | None = None
    """What the pass before this one failed with."""
    by_rendition: Mapping[str, Rendition] = field(init=False, default_factory=dict)
    """The Rendition objects by their name in storage."""

    def __post_init__(self) -> None:
        name = self.collection.metadata.name
        found = {names.rendition_of_object(name, item.metadata.name): item for item in self.renditions}
        object.__setattr__(self, "by_rendition", found)

    @property
    def ours(self) -> bool:
        """Whether what storage has under the name belongs to this very object."""
        meta = self.collection.metadata
        return self.storage is not None and self.storage.owner == names.owner(meta.namespace, meta.name, meta.uid)

    @property
    def facts(self) -> CollectionFacts | None:
        """What storage has, if it is ours."""
        return self.storage if self.ours else None

    @property
    def active(self) -> RenditionFacts | None:
        return self.facts.renditions.get(self.facts.active) if self.facts else None

    @property
    def candidates(self) -> tuple[RenditionFacts, ...]:
        """Renditions on their way to be active, oldest first."""
        if self.facts is None:
            return ()
        found = [r for r in self.facts.renditions.values() if r.role in ("building", "standby")]
        return tuple(sorted(found, key=lambda r: names.ordinal(r.name)))

    def runs_of(self, rendition: str) -> tuple[Run, ...]:
        parent = names.rendition_object(self.collection.metadata.name, rendition)
        return tuple(run for run in self.runs if run.rendition == parent)


def living(run: Run) -> bool:
    return run.state in ("Pending", "Running")
