"""The decisions of the control plane, played in a world in memory."""

from __future__ import annotations

import pytest

from seamark.errors import StorageUnavailable
from seamark_operator.api import constants as k
from seamark_operator.core.observed import Policy
from seamark_operator.core.plan import (
    Abandon,
    Condemn,
    CreateObject,
    Event,
    Handover,
    LaunchRun,
    MarkStandby,
    PatchStatus,
    StopRun,
    Sweep,
)
from seamark_operator.ports import Target
from tests.control.world import World


@pytest.fixture
def world() -> World:
    return World()


def rebuilt(world: World) -> World:
    """A collection whose definition was changed and handed over."""
    world.apply_collection("a", retainSeconds=3600)
    world.live(5)
    world.objects.edit(k.COLLECTION, "orders", columns="b")
    world.live(10)
    return world


def test_a_collection_is_created_ingested_and_told_ready(world: World) -> None:
    world.apply_collection()
    world.live(3)
    assert world.status()["phase"] == "Ready"
    assert world.status()["activeRendition"] == "r1"
    assert world.status()["observedGeneration"] == 1
    assert world.condition("Ready")["status"] == "True"
    assert [run.kind for run in world.runner.launched] == ["ingest"]
    names = {name for kind, _, name in world.objects.found if kind in (k.RENDITION, k.SHARD)}
    assert names == {"orders-r1", "orders-r1-0", "orders-r1-1"}
    assert set(world.leases.leases) == {("default", "orders-r1-0"), ("default", "orders-r1-1")}


def test_children_are_owned_and_labelled(world: World) -> None:
    world.apply_collection()
    world.live(2)
    rendition = world.objects.found[k.RENDITION, "default", "orders-r1"]
    shard = world.objects.found[k.SHARD, "default", "orders-r1-1"]
    assert rendition["metadata"]["ownerReferences"][0]["uid"] == world.collection()["metadata"]["uid"]
    assert shard["metadata"]["ownerReferences"][0]["uid"] == rendition["metadata"]["uid"]
    assert shard["metadata"]["labels"] == {
        "seamark.io/collection": "orders",
        "seamark.io/rendition": "orders-r1",
    }
    spec = world.runner.launched[0]
    assert spec.rendition_uid == rendition["metadata"]["uid"]
    assert spec.labels["seamark.io/run-kind"] == "ingest"
    assert spec.arguments[:8] == (
        "--location", "mem:w", "--collection", "orders", "--rendition", "r1", "--run-id", spec.name,
    )  # fmt: skip
    assert spec.name.startswith("ing-")
    assert spec.name.endswith("-a1")


def test_a_pass_over_a_settled_world_does_nothing(world: World) -> None:
    world.apply_collection()
    world.apply_hold(0)
    world.live(5)
    world.step()
    assert world.step() == 0


def test_frontiers_alone_are_written_at_a_bounded_rate(world: World) -> None:
    world.apply_collection()
    world.live(5)
    before = world.objects.status_writes
    world.live(60)
    # Collection, one rendition and two shards, at most once in ten seconds each.
    assert world.objects.status_writes - before <= 7 * 4


def test_a_changed_definition_is_built_beside_handed_over_and_the_old_one_collected(world: World) -> None:
    world.apply_collection("a")
    world.live(5)
    world.objects.edit(k.COLLECTION, "orders", columns="b")
    world.step()
    assert world.status()["phase"] == "Rebuilding"
    assert world.status()["candidateRendition"] == "r2"
    world.live(20)
    assert [run.kind for run in world.runner.launched] == ["ingest", "backfill", "ingest"]
    assert world.status()["phase"] == "Ready"
    assert world.status()["activeRendition"] == "r2"
    (old, new, at) = world.stored().handovers[0]
    assert world.status()["lastHandover"] == {"from": old, "to": new, "at": at}
    assert set(world.stored().renditions) == {"r2"}
    kinds = {name for kind, _, name in world.objects.found if kind in (k.RENDITION, k.SHARD)}
    assert kinds == {"orders-r2", "orders-r2-0", "orders-r2-1"}
    assert {lease[1] for lease in world.leases.leases} == {"orders-r2-0", "orders-r2-1"}
    assert {run.rendition for run in world.runner.list()} == {"orders-r2"}


def test_events_tell_why_before_anything_disruptive(world: World) -> None:
    world.apply_collection("a")
    world.live(5)
    world.objects.edit(k.COLLECTION, "orders", columns="b")
    world.live(20)
    wanted = {Handover: "HandingOver", Condemn: "Condemning", Sweep: "Sweeping"}
    for index, action in enumerate(world.acted):
        if type(action) in wanted:
            event = world.acted[index - 1]
            assert isinstance(event, Event)
            assert event.reason == wanted[type(action)]
    assert {type(action) for action in world.acted} >= set(wanted)


def test_what_is_condemned_is_swept_in_a_later_pass(world: World) -> None:
    world.apply_collection("a")
    world.live(5)
    world.objects.edit(k.COLLECTION, "orders", columns="b")
    while not any(isinstance(action, Condemn) for action in world.acted):
        world.live(1)
    assert not any(isinstance(action, Sweep) for action in world.acted)
    assert world.stored().renditions["r1"].role == "condemned"
    world.step()
    assert any(isinstance(action, Sweep) for action in world.acted)


def test_a_hold_keeps_the_old_rendition_until_it_moves_past_the_handover(world: World) -> None:
    world.apply_collection("a")
    world.live(5)
    as_of = world.stored().upper - 1
    world.apply_hold(as_of)
    world.live(2)
    world.objects.edit(k.COLLECTION, "orders", columns="b")
    world.live(30)
    assert world.stored().renditions["r1"].role == "retired"
    assert world.stored().since == as_of
    hold = world.objects.found[k.READ_HOLD, "default", "audit"]
    assert hold["status"]["phase"] == "Held"
    world.objects.edit(k.READ_HOLD, "audit", asOf=world.stored().upper - 1)
    world.live(5)
    assert "r1" not in world.stored().renditions


def test_deleting_a_readhold_releases_it(world: World) -> None:
    world.apply_collection()
    world.live(3)
    world.apply_hold(world.stored().upper - 1)
    world.live(1)
    assert "readhold/default/audit" in world.stored().holds
    world.objects.delete(k.READ_HOLD, "default", "audit")
    assert (k.READ_HOLD, "default", "audit") in world.objects.found
    world.live(1)
    assert "readhold/default/audit" not in world.stored().holds
    assert (k.READ_HOLD, "default", "audit") not in world.objects.found


def test_a_readhold_on_the_past_is_refused_with_the_smallest_time_that_can_be_had(world: World) -> None:
    world.apply_collection()
    world.live(20)
    assert world.stored().since > 7
    world.apply_hold(7)
    world.live(1)
    status = world.objects.found[k.READ_HOLD, "default", "audit"]["status"]
    assert status["phase"] == "Refused"
    assert f"ask for {world.stored().since} or later" in status["conditions"][0]["message"]


def test_a_readhold_without_collection_waits_and_can_be_deleted(world: World) -> None:
    world.apply_location()
    world.apply_hold(7)
    world.step()
    assert world.objects.found[k.READ_HOLD, "default", "audit"]["status"]["phase"] == "Pending"
    world.objects.set_finalizers(k.READ_HOLD, "default", "audit", [k.FINALIZER])
    world.objects.delete(k.READ_HOLD, "default", "audit")
    world.step()
    assert (k.READ_HOLD, "default", "audit") not in world.objects.found


def test_an_invalid_definition_is_told_and_the_old_rendition_keeps_serving(world: World) -> None:
    world.apply_collection("a")
    world.live(5)
    world.objects.edit(k.COLLECTION, "orders", columns="wrong")
    world.live(2)
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "InvalidDefinition")
    assert "known are int32, int64" in ready["message"]
    assert set(world.stored().renditions) == {"r1"}
    before = world.stored().upper
    (run,) = world.runner.list()
    world.runner.fail(run.name)
    world.live(10)
    assert world.stored().upper > before
    world.objects.edit(k.COLLECTION, "orders", columns="a")
    world.live(1)
    assert world.condition("Ready")["status"] == "True"


def test_changing_back_abandons_the_candidate_and_never_uses_its_name_again(world: World) -> None:
    world.apply_collection("a", handover={"mode": "Manual"})
    world.live(5)
    world.objects.edit(k.COLLECTION, "orders", columns="b")
    world.live(2)
    world.objects.edit(k.COLLECTION, "orders", columns="a")
    world.live(5)
    assert set(world.stored().renditions) == {"r1"}
    assert {run.rendition for run in world.runner.list()} == {"orders-r1"}
    assert world.objects.found[k.RENDITION, "default", "orders-r2"]["status"]["phase"] == "Abandoned"
    assert world.status()["phase"] == "Ready"
    world.objects.edit(k.COLLECTION, "orders", columns="b", handover={"mode": "Auto"})
    world.live(20)
    assert world.status()["activeRendition"] == "r3"
    assert {name for kind, _, name in world.objects.found if kind == k.RENDITION} == {"orders-r3"}


def test_a_third_definition_abandons_the_unfinished_candidate_first(world: World) -> None:
    world.apply_collection("a", handover={"mode": "Manual"})
    world.live(5)
    world.objects.edit(k.COLLECTION, "orders", columns="b")
    world.live(1)
    world.acted.clear()
    world.objects.edit(k.COLLECTION, "orders", columns="c", handover={"mode": "Auto"})
    world.live(20)
    assert [a.rendition for a in world.acted if isinstance(a, Abandon)] == ["r2"]
    assert [a.rendition for a in world.acted if isinstance(a, Handover)] == ["r3"]
    assert set(world.stored().renditions) == {"r3"}


def test_a_manual_handover_waits_for_its_approval_and_takes_the_annotation_away(world: World) -> None:
    world.apply_collection("a", handover={"mode": "Manual"})
    world.live(5)
    world.objects.edit(k.COLLECTION, "orders", columns="b")
    world.live(20)
    assert world.status()["activeRendition"] == "r1"
    assert world.condition("Rebuilding")["reason"] == "AwaitingApproval"
    assert "seamark.io/handover=r2" in world.condition("Rebuilding")["message"]
    world.objects.annotate(k.COLLECTION, "orders", "seamark.io/handover", "r7")
    world.live(3)
    assert world.status()["activeRendition"] == "r1"
    assert "'r7', which is not the candidate" in world.condition("Rebuilding")["message"]
    world.objects.annotate(k.COLLECTION, "orders", "seamark.io/handover", "r2")
    world.live(5)
    assert world.status()["activeRendition"] == "r2"
    assert "seamark.io/handover" not in world.collection()["metadata"]["annotations"]


def test_a_candidate_that_misses_its_deadline_is_abandoned_and_not_tried_again(world: World) -> None:
    world.apply_collection("a", hydrationDeadlineSeconds=30)
    world.live(5)
    world.broken_driver = True
    world.objects.edit(k.COLLECTION, "orders", columns="b")
    world.live(60)
    assert "r2" not in world.stored().renditions
    assert world.stored().used == {"r1", "r2"}
    failed = world.condition("RebuildFailed")
    assert (failed["status"], failed["reason"]) == ("True", "HydrationDeadlineExceeded")
    assert "orders-r2" in failed["message"]
    world.broken_driver = False
    world.objects.edit(k.COLLECTION, "orders", hydrationDeadlineSeconds=300)
    world.live(90)
    assert world.status()["activeRendition"] == "r3"
    assert all(c["type"] != "RebuildFailed" for c in world.status()["conditions"])


def test_a_failed_run_is_tried_again_under_the_next_name_with_a_growing_pause(world: World) -> None:
    world.apply_collection()
    world.broken_driver = True
    world.live(200)
    assert [run.attempt for run in world.runner.launched] == list(range(1, len(world.runner.launched) + 1))
    started = [action.spec.attempt for action in world.acted if isinstance(action, LaunchRun)]
    assert len(started) < 12
    failing = world.condition("IngestFailing")
    assert "not JSON" in failing["message"]
    assert world.objects.found[k.RENDITION, "default", "orders-r1"]["status"]["message"].endswith("not JSON")


def test_after_ten_failures_in_a_row_the_collection_says_so_and_progress_clears_it() -> None:
    world = World(Policy(backoff_cap_seconds=4))
    world.apply_collection()
    world.broken_driver = True
    world.live(80)
    failing = world.condition("IngestFailing")
    assert (failing["status"], failing["reason"]) == ("True", "RunFailed")
    assert len(world.runner.list()) <= 11, "old attempts are forgotten"
    world.broken_driver = False
    world.live(20)
    assert world.condition("IngestFailing")["status"] == "False"
    assert world.status()["phase"] == "Ready"


def test_a_definition_that_never_worked_can_be_replaced(world: World) -> None:
    world.apply_collection("a")
    world.broken_driver = True
    world.live(40)
    world.objects.edit(k.COLLECTION, "orders", columns="b")
    world.live(1)
    world.broken_driver = False
    for _ in range(60):
        world.live(1)
        for run in list(world.runner.runs.values()):
            if run.rendition == "orders-r1" and run.state == "Running":
                world.runner.fail(run.name)
                world.stored().renditions["r1"].upper = 0
    assert world.status()["activeRendition"] == "r2"
    assert world.status()["phase"] == "Ready"


def test_a_run_that_stays_pending_is_stopped_and_tried_again(world: World) -> None:
    world.apply_collection()
    world.live(2)
    (run,) = world.runner.list()
    world.runner.runs[run.name] = run.__class__(**{**run.__dict__, "state": "Pending", "message": "no quota"})
    world.now += 601
    world.step()
    assert StopRun("default", run.name) in world.acted
    assert any("no quota" in message for _, _, message in world.objects.events)
    world.step()
    assert [spec.attempt for spec in world.runner.launched] == [1, 2]


def test_a_backfill_reported_as_failed_is_done_when_its_marker_says_so(world: World) -> None:
    world.apply_collection("a")
    world.live(5)
    world.objects.edit(k.COLLECTION, "orders", columns="b")
    world.step()
    world.pass_time()
    (backfill,) = [run for run in world.runner.list() if run.kind == "backfill"]
    world.runner.fail(backfill.name, "driver pod already exists")
    world.live(20)
    assert [run.kind for run in world.runner.launched] == ["ingest", "backfill", "ingest"]
    assert world.status()["activeRendition"] == "r2"


def test_a_backfill_reported_as_succeeded_without_a_marker_is_run_again(world: World) -> None:
    world.apply_collection("a")
    world.live(5)
    world.objects.edit(k.COLLECTION, "orders", columns="b")
    world.step()
    (backfill,) = [run for run in world.runner.list() if run.kind == "backfill"]
    world.runner.runs[backfill.name] = backfill.__class__(**{**backfill.__dict__, "state": "Succeeded"})
    world.live(20)
    assert [r.attempt for r in world.runner.launched if r.kind == "backfill"] == [1, 2]
    assert world.status()["activeRendition"] == "r2"


def test_a_candidate_whose_ingest_has_not_moved_is_no_standby(world: World) -> None:
    world.apply_collection("a")
    world.live(5)
    world.objects.edit(k.COLLECTION, "orders", columns="b")
    world.step()
    world.pass_time()
    world.step()
    stored = world.stored()
    stored.renditions["r2"].upper = stored.renditions["r1"].upper - 1
    assert not any(isinstance(action, MarkStandby) for action in world.acted)
    world.live(3)
    assert any(isinstance(action, MarkStandby) for action in world.acted)


def test_a_lease_in_other_hands_keeps_the_run_from_starting_until_it_expires(world: World) -> None:
    world.apply_collection()
    world.leases.acquire("default", "orders-r1-1", "somebody else", world.now, {})
    world.live(5)
    assert world.runner.launched == []
    failing = world.condition("IngestFailing")
    assert failing["reason"] == "Locked"
    assert "Lease orders-r1-1 is held by 'somebody else'" in failing["message"]
    world.live(60)
    assert len(world.runner.launched) == 1


def test_a_paused_collection_is_left_alone_but_can_be_deleted(world: World) -> None:
    world.apply_collection("a")
    world.live(5)
    world.objects.annotate(k.COLLECTION, "orders", "seamark.io/paused", "true")
    world.objects.edit(k.COLLECTION, "orders", columns="b")
    world.step()
    world.acted.clear()
    world.live(20)
    assert world.acted == []
    assert world.condition("ReconciliationPaused")["status"] == "True"
    world.objects.delete(k.COLLECTION, "default", "orders")
    world.live(3)
    assert (k.COLLECTION, "default", "orders") not in world.objects.found


@pytest.mark.parametrize(("policy", "kept"), [("Retain", True), ("Delete", False)])
def test_deletion_stops_the_runs_and_keeps_or_deletes_the_data(world: World, policy: str, kept: bool) -> None:
    world.apply_collection("a", deletionPolicy=policy)
    world.live(5)
    world.apply_hold(world.stored().upper - 1)
    world.live(1)
    world.objects.delete(k.COLLECTION, "default", "orders")
    world.live(3)
    assert ("orders" in world.storage.collections) == kept
    if kept:
        assert "readhold/default/audit" not in world.stored().holds
    assert world.runner.list() == []
    assert world.leases.list() == []
    assert {kind for kind, _, _ in world.objects.found} == {k.STORAGE_LOCATION, k.READ_HOLD}
    assert "Deleting" in world.reasons()


def test_data_that_cannot_be_deleted_keeps_the_object_and_says_why(world: World) -> None:
    world.apply_collection("a", deletionPolicy="Delete")
    world.live(5)
    world.storage.unavailable = StorageUnavailable("no route to the bucket")
    world.objects.delete(k.COLLECTION, "default", "orders")
    world.live(3)
    told = world.condition("Reconciled")
    assert told["status"] == "False"
    assert "no route to the bucket" in told["message"]
    assert "set deletionPolicy to Retain" in told["message"]
    world.storage.unavailable = None
    world.live(10)
    assert (k.COLLECTION, "default", "orders") not in world.objects.found


def test_the_name_of_another_owner_is_not_touched(world: World) -> None:
    world.apply_collection("a", deletionPolicy="Delete")
    world.storage.create(Target("mem:w", None, "orders"), '{"columns": "x"}', "elsewhere/orders/uid-0")
    world.live(3)
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NameTaken")
    assert "belongs to 'elsewhere/orders/uid-0'" in ready["message"]
    assert world.runner.launched == []
    world.objects.delete(k.COLLECTION, "default", "orders")
    world.live(3)
    assert "orders" in world.storage.collections


def test_a_missing_location_is_named(world: World) -> None:
    world.apply_collection()
    world.objects.found.pop((k.STORAGE_LOCATION, "default", "main"))
    world.live(1)
    ready = world.condition("Ready")
    assert ready["reason"] == "LocationNotFound"
    assert "StorageLocation main" in ready["message"]
    world.apply_location()
    world.live(3)
    assert world.condition("Ready")["status"] == "True"


def test_storage_that_does_not_answer_stops_nothing_and_is_told(world: World) -> None:
    world.apply_collection()
    world.live(5)
    world.storage.unavailable = StorageUnavailable("no route to the bucket")
    world.acted.clear()
    world.live(40)
    assert {type(action) for action in world.acted} <= {PatchStatus}
    assert world.condition("Ready")["reason"] == "StorageUnavailable"
    location = world.objects.found[k.STORAGE_LOCATION, "default", "main"]
    assert location["status"]["phase"] == "Unavailable"
    assert location["status"]["message"] == "no route to the bucket"
    assert len(world.runner.list()) == 1


def test_one_bad_collection_does_not_stop_another(world: World) -> None:
    world.apply_collection()
    bad = {"kind": k.COLLECTION, "metadata": {"name": "bad"}, "spec": {"locationRef": "main", "columns": "a"}}
    world.objects.create(bad)
    world.live(4)
    assert world.status()["phase"] == "Ready"
    told = world.objects.found[k.COLLECTION, "default", "bad"]["status"]["conditions"][0]
    assert told["reason"] == "InvalidSpec"
    assert "locationRef" in told["message"]


def test_the_transition_time_moves_only_with_the_status(world: World) -> None:
    world.apply_collection()
    world.live(5)
    before = world.condition("Ready")["lastTransitionTime"]
    world.objects.edit(k.COLLECTION, "orders", tickSeconds=2)
    world.live(5)
    assert world.condition("Ready")["lastTransitionTime"] == before
    assert world.condition("Ready")["observedGeneration"] == 2


def test_runs_of_a_collection_that_is_gone_are_stopped(world: World) -> None:
    world.apply_collection()
    world.live(3)
    world.objects.found.pop((k.COLLECTION, "default", "orders"))
    world.step()
    assert world.runner.list() == []


def test_spec_is_never_written(world: World) -> None:
    rebuilt(world)
    made = [action.object["kind"] for action in world.acted if isinstance(action, CreateObject)]
    assert set(made) == {k.RENDITION, k.SHARD}
    assert world.collection()["metadata"]["generation"] == 2
