"""What both stand-ins for the Spark applications do: advance the frontiers of a rendition, without any rows.

They keep the contract of the real ones: take the write lock, append under its epoch, advance the collection, leave
a marker, end when the rendition is needed no more.
"""

from __future__ import annotations

import argparse
import time

from seamark.persist import Location
from seamark.storage import Collection, RunMarker, read_marker, write_marker


def main(kind: str) -> int:
    parser = argparse.ArgumentParser()
    for flag in ("location", "collection", "rendition", "run-id", "reentrance-id"):
        parser.add_argument(f"--{flag}", required=True)
    parser.add_argument("--checkpoints")
    parser.add_argument("--tick-seconds", type=float, default=1.0)
    args = parser.parse_args()
    with Location.open(args.location, checkpoints=args.checkpoints) as location:
        collection = Collection.open(location, args.collection)
        if read_marker(location, args.collection, args.rendition, args.run_id) is not None:
            return 0
        shards = collection.rendition(args.rendition).shards
        epochs = [shard.acquire(args.reentrance_id, args.run_id) for shard in shards]

        def mark(outcome: str) -> None:
            marker = RunMarker(args.run_id, args.collection, args.rendition, kind, outcome, upper, epochs[0])
            write_marker(location, marker)

        while True:
            collection.refresh()
            row = collection.timeline.now.get(args.rendition)
            upper = int(time.time() * 1000)
            if row is None or row.role not in ("building", "standby", "active"):
                mark("retired")
                return 0
            for shard, epoch in zip(shards, epochs, strict=True):
                if shard.refresh().upper < upper:
                    shard.compare_and_append(None, shard.upper, upper, epoch=epoch)
            collection.advance()
            if kind == "backfill":
                mark("committed")
                return 0
            time.sleep(args.tick_seconds)
