"""One Spark run, complete: its name, its command line and whose it is."""

from __future__ import annotations

from seamark_operator.api import constants as k
from seamark_operator.api.meta import ObjectMeta
from seamark_operator.ports import RunKind, RunSpec
from seamark_operator.specs import names, objects


def run_spec(
    collection: ObjectMeta,
    parent: ObjectMeta,
    rendition: str,
    definition_hash: str,
    kind: RunKind,
    attempt: int,
    *,
    location: str,
    checkpoints: str | None,
    tick_seconds: float,
    credentials_secret: str | None,
) -> RunSpec:
    """`parent` is the Rendition object, which owns the run; `rendition` its name in storage."""
    name = names.run(collection.namespace, collection.name, collection.uid, rendition, kind, definition_hash, attempt)
    arguments = [
        "--location", location,
        "--collection", collection.name,
        "--rendition", rendition,
        "--run-id", name,
        "--reentrance-id", names.reentrance_id(collection.namespace, collection.name, rendition),
    ]  # fmt: skip
    if checkpoints is not None:
        arguments += ["--checkpoints", checkpoints]
    if kind == "ingest":
        arguments += ["--tick-seconds", f"{tick_seconds:g}"]
    return RunSpec(
        name=name,
        namespace=collection.namespace,
        kind=kind,
        attempt=attempt,
        collection=collection.name,
        rendition=parent.name,
        rendition_uid=parent.uid,
        arguments=tuple(arguments),
        credentials_secret=credentials_secret,
        labels={
            **objects.labels(collection.name, parent.name),
            k.LABEL_RUN_KIND: kind,
            k.LABEL_ATTEMPT: str(attempt),
        },
    )
