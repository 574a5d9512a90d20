"""When a watch counts as dead, and what the probes say then."""

from __future__ import annotations

from typing import Any

from seamark_operator.shells.kopf.liveness import Vitals, WatchProof


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def obj(version: int, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"uid": uid, "resourceVersion": str(version)}}


def test_a_watch_that_shows_what_the_server_told_has_no_age() -> None:
    clock = Clock()
    proof = WatchProof(clock)
    proof.known("Lease", [obj(5)])
    clock.now += 3
    assert proof.ages() == {"Lease": 3}
    proof.shown("Lease", obj(5))
    assert proof.ages() == {"Lease": 0}


def test_a_watch_that_was_faster_than_the_list_has_no_age() -> None:
    proof = WatchProof(Clock())
    proof.shown("Lease", obj(7))
    proof.known("Lease", [obj(6)])
    assert proof.ages() == {"Lease": 0}


def test_a_watch_that_hides_a_change_ages_from_when_it_was_first_told() -> None:
    clock = Clock()
    proof = WatchProof(clock)
    for version in (5, 6, 7):
        proof.known("Lease", [obj(version)])
        clock.now += 10
    assert proof.ages() == {"Lease": 30}


def test_a_watch_that_lags_is_not_dead() -> None:
    clock = Clock()
    proof = WatchProof(clock)
    for version in range(5, 50):
        proof.known("Lease", [obj(version)])
        proof.shown("Lease", obj(version - 1))
        clock.now += 1
    assert proof.ages() == {"Lease": 1}


def test_an_object_that_is_gone_is_not_waited_for() -> None:
    clock = Clock()
    proof = WatchProof(clock)
    proof.known("Shard", [obj(5, "a"), obj(6, "b")])
    clock.now += 5
    proof.known("Shard", [obj(6, "b")])
    proof.shown("Shard", obj(6, "b"))
    assert proof.ages() == {"Shard": 0}


def vitals(clock: Clock) -> tuple[WatchProof, Vitals]:
    proof = WatchProof(clock)
    return proof, Vitals(proof, watch_dead_seconds=60, pass_dead_seconds=300, clock=clock)


def test_liveness_fails_when_a_watch_is_dead_and_names_it() -> None:
    clock = Clock()
    proof, alive = vitals(clock)
    alive.leads()
    proof.known("Collection", [obj(5)])
    clock.now += 61
    alive.passed()
    assert not alive.live().ok
    assert alive.live().reasons == (
        "watch of Collection: a change that the API server told of has not come by for 61 s (bound 60 s)",
    )
    proof.shown("Collection", obj(5))
    assert alive.live().ok


def test_liveness_fails_when_no_pass_is_completed() -> None:
    clock = Clock()
    _, alive = vitals(clock)
    alive.leads()
    alive.passed()
    clock.now += 301
    assert alive.live().reasons == ("leading: has not completed a pass for 301 s (bound 300 s)",)


def test_a_leader_is_ready_after_its_first_pass() -> None:
    _, alive = vitals(Clock())
    alive.leads()
    assert alive.live().ok
    assert not alive.ready().ok
    alive.passed()
    assert alive.ready().ok


def test_a_process_that_stands_by_is_ready_as_long_as_it_reaches_the_server() -> None:
    clock = Clock()
    _, alive = vitals(clock)
    assert not alive.ready().ok
    alive.waits("standing by: other leads")
    assert alive.ready().ok
    clock.now += 301
    assert not alive.ready().ok
