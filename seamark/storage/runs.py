"""Run markers: what a Spark run says it did, written once, in the storage it wrote to.

The state that a scheduler reports of a run is a hint; the marker is the verdict.
"""

from __future__ import annotations

import msgspec

from seamark.errors import Corrupt, Immutable, NotFound
from seamark.persist import Location

COMMITTED, FAILED, RETIRED = "committed", "failed", "retired"


class RunMarker(msgspec.Struct, frozen=True):
    """The end of a run: `committed` (all it was asked), `retired` (nobody needs it any more) or `failed`."""

    run_id: str
    collection: str
    rendition: str
    kind: str
    outcome: str
    upper: int
    epoch: int
    detail: str = ""


def prefix_of(collection: str, rendition: str = "") -> str:
    return f"runs/{collection}/{rendition}/" if rendition else f"runs/{collection}/"


def write_marker(location: Location, marker: RunMarker) -> RunMarker:
    """Write it once; returns the marker that stands, which is an earlier one when there is one."""
    try:
        location.blobs.put(_key(marker.collection, marker.rendition, marker.run_id), msgspec.json.encode(marker))
    except Immutable:
        present = read_marker(location, marker.collection, marker.rendition, marker.run_id)
        if present is not None:
            return present
        raise
    return marker


def read_marker(location: Location, collection: str, rendition: str, run_id: str) -> RunMarker | None:
    key = _key(collection, rendition, run_id)
    try:
        return msgspec.json.decode(location.blobs.get(key), type=RunMarker)
    except NotFound:
        return None
    except msgspec.MsgspecError as error:
        raise Corrupt(f"run marker {key} cannot be read: {error}; delete it and run again") from error


def _key(collection: str, rendition: str, run_id: str) -> str:
    return f"{prefix_of(collection, rendition)}{run_id}.json"
