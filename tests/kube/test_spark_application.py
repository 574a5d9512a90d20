"""The SparkApplication of a run, and the run of a SparkApplication."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from seamark.errors import InvalidDefinition
from seamark_operator.ports import RunSpec
from seamark_operator.specs import spark_application
from seamark_operator.specs.spark_application import PodSize, SparkSettings

SETTINGS = SparkSettings(image="registry.example/seamark-spark:1", service_account="drivers")


def run(**changes: object) -> RunSpec:
    facts: dict[str, object] = {
        "name": "ing-0123456789-a3",
        "namespace": "shop",
        "kind": "ingest",
        "attempt": 3,
        "collection": "orders",
        "rendition": "orders-r1",
        "rendition_uid": "f00d",
        "arguments": ("--location", "s3://bucket/shop", "--run-id", "ing-0123456789-a3"),
        "credentials_secret": "s3-credentials",
    }
    return RunSpec(**{**facts, **changes})  # type: ignore[arg-type]


def test_an_application_runs_the_application_of_its_kind_with_the_arguments_of_the_run() -> None:
    spec = spark_application.build(run(kind="backfill"), SETTINGS)["spec"]
    assert spec["mainApplicationFile"] == "local:///opt/seamark/spark_apps/backfill.py"
    assert spec["arguments"] == ["--location", "s3://bucket/shop", "--run-id", "ing-0123456789-a3"]
    assert (spec["type"], spec["mode"], spec["sparkVersion"]) == ("Python", "cluster", "4.1.1")


def test_an_application_is_never_restarted_by_kubeflow() -> None:
    assert spark_application.build(run(), SETTINGS)["spec"]["restartPolicy"] == {"type": "Never"}


def test_the_rendition_owns_the_application() -> None:
    (owner,) = spark_application.build(run(), SETTINGS)["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["name"], owner["uid"]) == (
        "seamark.io/v1alpha1",
        "Rendition",
        "orders-r1",
        "f00d",
    )


def test_driver_and_executors_get_the_credentials_and_only_when_there_are_some() -> None:
    spec = spark_application.build(run(), SETTINGS)["spec"]
    for pod in (spec["driver"], spec["executor"]):
        assert pod["envFrom"] == [{"secretRef": {"name": "s3-credentials"}}]
    spec = spark_application.build(run(credentials_secret=None), SETTINGS)["spec"]
    assert "envFrom" not in spec["driver"]
    assert "envFrom" not in spec["executor"]


def test_settings_size_the_pods_and_win_over_the_default_configuration() -> None:
    settings = SparkSettings(
        image="i",
        executor=PodSize(cores=4, memory="8g"),
        executors=5,
        spark_conf={"spark.ui.enabled": "true"},
    )
    spec = spark_application.build(run(), settings)["spec"]
    assert (spec["executor"]["instances"], spec["executor"]["cores"], spec["executor"]["memory"]) == (
        5,
        4,
        "8g",
    )
    assert spec["sparkConf"]["spark.ui.enabled"] == "true"
    assert spec["sparkConf"]["spark.hadoop.parquet.page.verify-checksum.enabled"] == "true"


def test_the_same_run_always_gives_the_same_application() -> None:
    assert spark_application.build(run(), SETTINGS) == spark_application.build(run(), SETTINGS)


@pytest.mark.parametrize("name", ["Ing-1", "1-ing", "ing-", "ing_1", "i" * 40, ""])
def test_a_name_that_kubeflow_would_break_on_is_refused(name: str) -> None:
    with pytest.raises(InvalidDefinition, match=r"at most 39 characters .*: shorten it"):
        spark_application.build(run(name=name), SETTINGS)


@pytest.mark.parametrize(
    ("state", "meaning"),
    [
        ("", "Pending"),
        ("SUBMITTED", "Pending"),
        ("PENDING_RERUN", "Pending"),
        ("UNKNOWN", "Pending"),
        ("RUNNING", "Running"),
        ("SUCCEEDING", "Running"),
        ("FAILING", "Running"),
        ("COMPLETED", "Succeeded"),
        ("FAILED", "Failed"),
        ("SUBMISSION_FAILED", "Failed"),
    ],
)
def test_an_application_is_read_back_as_its_run(state: str, meaning: str) -> None:
    application = spark_application.build(run(), SETTINGS)
    application["metadata"]["creationTimestamp"] = "2026-11-18T08:00:00Z"
    application["status"] = {"applicationState": {"state": state, "errorMessage": "why"}}
    found = spark_application.read(application)
    assert found is not None
    assert (found.state, found.message) == (meaning, "why")
    assert (found.name, found.namespace, found.kind, found.attempt) == (run().name, "shop", "ingest", 3)
    assert (found.collection, found.rendition) == ("orders", "orders-r1")
    assert found.created_at == datetime(2026, 11, 18, 8, tzinfo=UTC).timestamp()


def test_a_state_that_is_not_known_is_pending_and_named() -> None:
    application = spark_application.build(run(), SETTINGS)
    application["status"] = {"applicationState": {"state": "DREAMING"}}
    found = spark_application.read(application)
    assert found is not None
    assert (found.state, found.message) == ("Pending", "unknown application state 'DREAMING'")


def test_an_application_that_somebody_else_made_is_no_run() -> None:
    assert spark_application.read({"metadata": {"name": "pi", "namespace": "shop"}}) is None
    application = spark_application.build(run(), SETTINGS)
    application["metadata"]["labels"]["seamark.io/run-kind"] = "stroll"
    assert spark_application.read(application) is None
