"""The history of one kind of run for one rendition: which attempt is next, when, and what keeps failing."""

from __future__ import annotations

from dataclasses import dataclass

from seamark_operator.core.observed import Observed, Policy, living
from seamark_operator.ports import RenditionFacts, Run, RunKind
from seamark_operator.specs import names


@dataclass(frozen=True)
class Attempts:
    runs: tuple[Run, ...]
    """Those the runner remembers, oldest first."""
    highest: int
    """The highest attempt ever seen, also where the runner has forgotten it."""
    failures: int
    """How many failed in a row, up to the latest that ended."""
    message: str
    """What the latest failure said."""

    @property
    def latest(self) -> Run | None:
        return self.runs[-1] if self.runs else None

    @property
    def alive(self) -> Run | None:
        return self.latest if self.latest is not None and living(self.latest) else None

    def next_at(self, policy: Policy) -> float:
        """When the next attempt may be created."""
        if self.latest is None or self.failures == 0:
            return 0.0
        doubled = policy.backoff_first_seconds * float(2 ** min(self.failures - 1, 32))
        return self.latest.created_at + min(policy.backoff_cap_seconds, doubled)


def attempts(observed: Observed, rendition: RenditionFacts, kind: RunKind, policy: Policy) -> Attempts:
    found = [run for run in observed.runs_of(rendition.name) if run.kind == kind]
    runs = tuple(sorted(found, key=lambda run: run.attempt))
    return Attempts(
        runs=runs,
        highest=_highest(observed, rendition.name, kind, runs),
        failures=_failures(observed.now, rendition, kind, runs, policy),
        message=_message(observed, runs),
    )


def backfilled(observed: Observed, rendition: str) -> bool:
    """Only the marker in storage tells; what the runner says is a hint."""
    return any(m.rendition == rendition and m.kind == "backfill" and m.outcome == "committed" for m in observed.markers)


def wanted_run(observed: Observed, rendition: RenditionFacts) -> RunKind | None:
    """The work a rendition needs now; None when nobody should write to it any more."""
    if rendition.role in ("active", "standby"):
        return "ingest"
    if rendition.role == "building":
        return "ingest" if backfilled(observed, rendition.name) else "backfill"
    return None


def _highest(observed: Observed, rendition: str, kind: RunKind, runs: tuple[Run, ...]) -> int:
    seen = [run.attempt for run in runs]
    seen += [names.attempt_of(m.run_id) for m in observed.markers if m.rendition == rendition and m.kind == kind]
    parent = observed.by_rendition.get(rendition)
    told = parent.status.run if parent is not None else None
    if told is not None and names.kind_of(told.name) == kind:
        seen.append(told.attempt)
    return max(seen, default=0)


def _failures(now: float, rendition: RenditionFacts, kind: RunKind, runs: tuple[Run, ...], policy: Policy) -> int:
    """A run that lived long, or after whose creation the frontier moved, was no failure to start with."""
    count = 0
    ended_by = now
    for run in reversed(runs):
        long = ended_by - run.created_at > policy.healthy_run_seconds
        moved = kind == "ingest" and rendition.upper is not None and rendition.upper > run.created_at * 1000
        if long or moved:
            return count
        if not living(run):
            count += 1
        ended_by = run.created_at
    return count


def _shortened(text: str, limit: int = 2000) -> str:
    """A status is no place for a whole stack trace: the end of it says most."""
    return text if len(text) <= limit else "... " + text[-limit:]


def _message(observed: Observed, runs: tuple[Run, ...]) -> str:
    for run in reversed(runs):
        if living(run):
            continue
        marker = next((m for m in observed.markers if m.run_id == run.name), None)
        said = marker.detail if marker is not None and marker.outcome == "failed" else run.message
        return _shortened(said) or f"run {run.name} ended as {run.state} without a marker in storage"
    return ""
