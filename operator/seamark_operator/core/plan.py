"""What a decision may ask for. Each action names everything it needs and is safe to carry out twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from seamark_operator.ports import Object, RunSpec


@dataclass(frozen=True)
class About:
    """The object that an event or a status tells of."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True)
class Event:
    about: About
    severity: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True)
class EnsureFinalizer:
    about: About
    finalizers: tuple[str, ...]


@dataclass(frozen=True)
class RemoveFinalizer:
    about: About
    finalizers: tuple[str, ...]


@dataclass(frozen=True)
class RemoveAnnotation:
    about: About
    annotation: str


@dataclass(frozen=True)
class CreateObject:
    object: Object


@dataclass(frozen=True)
class DeleteObject:
    about: About


@dataclass(frozen=True)
class PatchStatus:
    about: About
    status: Mapping[str, Any]
    """Only what changed; None removes a field."""


@dataclass(frozen=True)
class LaunchRun:
    spec: RunSpec
    leases: tuple[str, ...]
    """Not launched when one of these was refused in the same plan."""


@dataclass(frozen=True)
class StopRun:
    namespace: str
    name: str


@dataclass(frozen=True)
class AcquireLease:
    namespace: str
    name: str
    holder: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class RecordEpoch:
    namespace: str
    name: str
    epoch: int


@dataclass(frozen=True)
class ReleaseLease:
    namespace: str
    name: str


@dataclass(frozen=True)
class CreateCollection:
    document: str
    owner: str


@dataclass(frozen=True)
class AddRendition:
    rendition: str
    document: str


@dataclass(frozen=True)
class MarkStandby:
    rendition: str


@dataclass(frozen=True)
class Handover:
    rendition: str
    close_old: bool = False
    """The active rendition's writer has failed for good: it ends where it stands."""


@dataclass(frozen=True)
class Abandon:
    rendition: str
    why: str


@dataclass(frozen=True)
class SetHold:
    name: str
    as_of: int


@dataclass(frozen=True)
class ReleaseHold:
    name: str


@dataclass(frozen=True)
class MoveRetention:
    millis: int


@dataclass(frozen=True)
class Condemn:
    rendition: str


@dataclass(frozen=True)
class Sweep:
    rendition: str


@dataclass(frozen=True)
class DropCollection:
    """Everything the collection has in storage."""

    owner: str


StorageAction = (
    CreateCollection
    | AddRendition
    | MarkStandby
    | Handover
    | Abandon
    | SetHold
    | ReleaseHold
    | MoveRetention
    | Condemn
    | Sweep
    | DropCollection
)
ObjectAction = Event | EnsureFinalizer | RemoveFinalizer | RemoveAnnotation | CreateObject | DeleteObject | PatchStatus
RunAction = LaunchRun | StopRun | AcquireLease | RecordEpoch | ReleaseLease
Action = StorageAction | ObjectAction | RunAction

OPENS_THE_NEXT_STEP = (CreateCollection, CreateObject, AddRendition, MarkStandby, Handover, Abandon, StopRun)
"""After one of these the next decision can be taken at once, on a fresh look."""


@dataclass(frozen=True)
class Plan:
    actions: tuple[Action, ...] = ()

    @property
    def again(self) -> bool:
        """Whether a fresh look is worth taking at once. What is condemned waits for the next pass."""
        return any(isinstance(action, OPENS_THE_NEXT_STEP) for action in self.actions)
