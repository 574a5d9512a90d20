"""Every name the control plane gives, in one place: a name decides whether two things are the same thing."""

from __future__ import annotations

import hashlib
import re

from seamark.errors import Refused
from seamark_operator.api.constants import HOLD_PREFIX
from seamark_operator.ports import RunKind

RUN_PREFIX: dict[RunKind, str] = {"ingest": "ing", "backfill": "bkf"}

_ATTEMPT = re.compile(r"-a(\d+)$")
_RENDITION = re.compile(r"^r([1-9]\d*)$")


def rendition(ordinal: int) -> str:
    """The name of a rendition in storage."""
    return f"r{ordinal}"


def ordinal(rendition_name: str) -> int:
    match = _RENDITION.match(rendition_name)
    if match is None:
        raise Refused(f"rendition {rendition_name!r} is not named r1, r2, ...; rename it in storage or remove it")
    return int(match.group(1))


def rendition_object(collection: str, rendition_name: str) -> str:
    return f"{collection}-{rendition_name}"


def rendition_of_object(collection: str, object_name: str) -> str:
    return object_name.removeprefix(f"{collection}-")


def shard_object(collection: str, rendition_name: str, index: int) -> str:
    return f"{collection}-{rendition_name}-{index}"


def lease(collection: str, rendition_name: str, index: int) -> str:
    return shard_object(collection, rendition_name, index)


def lease_belongs_to(lease_name: str, collection: str) -> bool:
    return re.fullmatch(re.escape(collection) + r"-r\d+-\d+", lease_name) is not None


def owner(namespace: str, name: str, uid: str) -> str:
    """Who a collection in storage belongs to."""
    return f"{namespace}/{name}/{uid}"


def reentrance_id(namespace: str, collection: str, rendition_name: str) -> str:
    """All writers of one rendition share it: each takes the lock over from the one before."""
    return f"{namespace}/{collection}/{rendition_name}"


def hold(namespace: str, name: str) -> str:
    return f"{hold_prefix(namespace)}{name}"


def hold_prefix(namespace: str) -> str:
    return f"{HOLD_PREFIX}{namespace}/"


def run(
    namespace: str,
    collection: str,
    uid: str,
    rendition_name: str,
    kind: RunKind,
    definition_hash: str,
    attempt: int,
) -> str:
    """Equal work, equal name: whoever launches it again finds it launched already."""
    work = "/".join((namespace, collection, uid, rendition_name, kind, definition_hash))
    return f"{RUN_PREFIX[kind]}-{hashlib.sha256(work.encode()).hexdigest()[:10]}-a{attempt}"


def attempt_of(run_name: str) -> int:
    match = _ATTEMPT.search(run_name)
    return int(match.group(1)) if match else 0


def kind_of(run_name: str) -> RunKind | None:
    return next((kind for kind, prefix in RUN_PREFIX.items() if run_name.startswith(f"{prefix}-")), None)
