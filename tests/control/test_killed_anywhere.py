"""A controller killed between any two actions, as often as chance wills, reaches the same end.

What must never happen on the way (two runs with the same work, a sweep while a hold needs it, a name used twice,
a handover to what cannot be read) is asserted by the world itself, at every change.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark_operator.api import constants as k
from tests.control.world import World

Operation = tuple[str, Any]

operations = st.lists(
    st.one_of(
        st.tuples(st.just("define"), st.sampled_from("abc")),
        st.tuples(st.just("hold"), st.integers(0, 20_000)),
        st.tuples(st.just("move hold"), st.integers(0, 20_000)),
        st.tuples(st.just("delete hold"), st.none()),
        st.tuples(st.just("kill a driver"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.integers(1, 12)),
    ),
    max_size=8,
)
kills = st.lists(st.integers(1, 15), max_size=6)


def play(world: World, operation: Operation) -> None:
    verb, value = operation
    held = (k.READ_HOLD, "default", "audit") in world.objects.found
    stored = world.storage.collections.get("orders")
    match verb:
        case "define":
            world.objects.edit(k.COLLECTION, "orders", columns=value)
        case "hold" if stored is not None and not held:
            world.apply_hold(max(0, stored.upper - value))
        case "move hold" if stored is not None and held:
            world.objects.edit(k.READ_HOLD, "audit", asOf=max(0, stored.upper - value))
        case "delete hold" if held:
            world.objects.delete(k.READ_HOLD, "default", "audit")
        case "kill a driver":
            living = [run for run in world.runner.list() if run.state == "Running"]
            if living:
                world.runner.fail(living[value % len(living)].name)
        case "wait":
            world.live(value)


def story(script: list[Operation], deaths: list[int], *, delete: bool) -> World:
    world = World()
    world.apply_collection("a", deletionPolicy="Delete")
    pending = list(deaths)
    for operation in [*script, ("wait", 5)]:
        if pending and world.kill_after is None:
            world.kill_after = pending.pop()
        play(world, operation)
    world.kill_after = None
    if (k.READ_HOLD, "default", "audit") in world.objects.found:
        world.objects.delete(k.READ_HOLD, "default", "audit")
    world.live(40, seconds=3)
    if delete:
        world.objects.delete(k.COLLECTION, "default", "orders")
        world.kill_after = pending.pop() if pending else None
        world.live(10)
    return world


@settings(max_examples=60)
@given(script=operations, deaths=kills, delete=st.booleans())
def test_the_end_is_the_same_however_often_the_controller_is_killed(
    script: list[Operation], deaths: list[int], delete: bool
) -> None:
    killed = story(script, deaths, delete=delete)
    left_alone = story(script, [], delete=delete)
    assert killed.end() == left_alone.end()
    wanted = [value for verb, value in script if verb == "define"][-1:] or ["a"]
    if delete:
        assert killed.storage.collections == {}
        assert killed.runner.list() == []
        assert {kind for kind, _, _ in killed.objects.found} == {k.STORAGE_LOCATION}
    else:
        assert killed.end()["definition"] == f'{{"columns": "{wanted[0]}"}}'
        assert killed.end()["roles"] == ["active"]
        assert killed.end()["living runs"] == ["ingest"]


@settings(max_examples=60)
@given(script=operations)
def test_a_plan_that_was_carried_out_is_not_made_again(script: list[Operation]) -> None:
    world = story(script, [], delete=False)
    world.step()
    assert world.step() == 0


@pytest.mark.parametrize("seed", [11, 12])
def test_every_single_point_of_the_story_survives_a_kill(seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    script: list[Operation] = [
        ("wait", 4),
        ("hold", 500),
        ("define", "b"),
        ("wait", 12),
        ("move hold", 0),
        ("wait", 6),
    ]
    calm = story(script, [], delete=False)
    points = range(1, len(calm.acted), 1 + chance.randrange(3))
    for point in points:
        world = World()
        world.apply_collection("a", deletionPolicy="Delete")
        world.kill_after = point
        for operation in script:
            play(world, operation)
        world.objects.delete(k.READ_HOLD, "default", "audit")
        world.live(40, seconds=3)
        assert world.end() == calm.end(), f"killed after action {point}"
        assert len(world.runner.launched) == 3, f"killed after action {point}: {world.runner.launched}"
