"""What is told to Prometheus, and that it stops when the object is gone."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from seamark_operator.api.resources import Collection
from seamark_operator.core.observed import Observed
from seamark_operator.core.plan import About, Handover, LaunchRun, PatchStatus, Sweep
from seamark_operator.metrics import Metrics
from seamark_operator.ports import CollectionFacts, RenditionFacts, Run, RunSpec, ShardFacts
from tests.cluster.fixtures import ROOT


def collection(phase: str | None = "Ready") -> Collection:
    manifest: dict[str, Any] = {
        "metadata": {"namespace": "shop", "name": "orders", "uid": "u1", "generation": 1},
        "spec": {"locationRef": {"name": "here"}},
        "status": {"phase": phase},
    }
    return msgspec.convert(manifest, Collection)


def observed(upper: int | None = 900_000) -> Observed:
    shards = tuple(
        ShardFacts(id=f"collections/orders/r1/{n}", since=0, upper=upper, epoch=3 + n, parts=2, bytes=50)
        for n in range(2)
    )
    rendition = RenditionFacts("r1", "active", "h", since=100, upper=upper, shards=shards)
    facts = CollectionFacts("shop/orders/u1", since=100, upper=upper, active="r1", renditions={"r1": rendition})
    run = Run("ing-1-a1", "shop", "ingest", 1, "orders", "orders-r1", "Running")
    return Observed(now=1000.0, collection=collection(), storage=facts, runs=(run,))


def samples(metrics: Metrics) -> dict[str, float]:
    lines = [line.rsplit(" ", 1) for line in metrics.text().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(watch_ages=lambda: {"Lease": 1.5}, clock=lambda: 1000.0)


PLACE = 'collection="orders",namespace="shop"'


def test_frontiers_lag_and_epochs_are_those_of_storage(metrics: Metrics) -> None:
    metrics.on_observed(observed())
    found = samples(metrics)
    assert found[f"seamark_collection_frontier_since_milliseconds{{{PLACE}}}"] == 100
    assert found[f"seamark_collection_frontier_upper_milliseconds{{{PLACE}}}"] == 900_000
    assert found[f"seamark_collection_lag_seconds{{{PLACE}}}"] == 100
    assert found[f'seamark_rendition_role{{{PLACE},rendition="r1",role="active"}}'] == 1
    assert found[f'seamark_rendition_role{{{PLACE},rendition="r1",role="retired"}}'] == 0
    assert found[f'seamark_rendition_parts{{{PLACE},rendition="r1"}}'] == 4
    assert found[f'seamark_lock_epoch{{{PLACE},rendition="r1",shard="1"}}'] == 4
    assert found['seamark_runs{kind="ingest",state="Running"}'] == 1
    assert found['seamark_watch_age_seconds{kind="Lease"}'] == 1.5


def test_a_closed_collection_has_no_upper_and_no_lag(metrics: Metrics) -> None:
    metrics.on_observed(observed(upper=None))
    assert not [name for name in samples(metrics) if "upper" in name or "lag" in name]


def test_the_phase_is_the_one_written_last(metrics: Metrics) -> None:
    metrics.on_observed(observed())
    metrics.on_action(PatchStatus(About("Collection", "shop", "orders"), {"phase": "Rebuilding"}))
    found = samples(metrics)
    assert found[f'seamark_collection_phase{{{PLACE},phase="Rebuilding"}}'] == 1
    assert found[f'seamark_collection_phase{{{PLACE},phase="Ready"}}'] == 0


def test_actions_are_counted_by_what_they_do(metrics: Metrics) -> None:
    metrics.on_observed(observed())
    spec = RunSpec("bkf-1-a1", "shop", "backfill", 1, "orders", "orders-r2", "u2", ())
    for action in (LaunchRun(spec, ()), Handover("r2"), Sweep("r1")):
        metrics.on_action(action)
    found = samples(metrics)
    assert found['seamark_actions_total{action="Handover"}'] == 1
    assert found['seamark_runs_launched_total{kind="backfill"}'] == 1
    assert found[f"seamark_handover_total{{{PLACE}}}"] == 1
    assert found[f"seamark_renditions_collected_total{{{PLACE}}}"] == 1


def test_a_collection_that_is_gone_leaves_no_series_behind(metrics: Metrics) -> None:
    metrics.on_observed(observed())
    metrics.on_action(Handover("r2"))
    metrics.passed(None, [("shop", "orders")])
    assert any("orders" in name for name in samples(metrics))
    metrics.passed(None, None)
    assert any("orders" in name for name in samples(metrics))
    metrics.passed(None, [])
    assert not [name for name in samples(metrics) if "orders" in name]


def test_the_page_names_every_series_and_no_other(metrics: Metrics) -> None:
    text = metrics.text().decode()
    told = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)) - set(re.findall(r"\S+_created", text))
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert set(re.findall(r"^\| `(seamark_\w+)`", page, re.MULTILINE)) == told
