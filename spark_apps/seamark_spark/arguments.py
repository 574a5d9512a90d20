"""The flags that every app shares, so that whoever launches one app knows them all."""

from __future__ import annotations

import argparse

from seamark_spark.driver import Order


def parser(description: str, epilog: str) -> argparse.ArgumentParser:
    """A parser with the shared flags."""
    made = argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--location",
        required=True,
        metavar="URL",
        help="root of the storage: disk:PATH or s3://bucket/prefix?endpoint=…; credentials come from the environment",
    )
    made.add_argument("--collection", required=True, metavar="NAME", help="the collection, which exists already")
    made.add_argument("--rendition", required=True, metavar="rN", help="the rendition to write, which exists already")
    made.add_argument(
        "--run-id",
        required=True,
        metavar="ID",
        help="names this run for ever: started again after it ended, it does nothing and repeats its verdict",
    )
    made.add_argument(
        "--reentrance-id",
        required=True,
        metavar="ID",
        help="who may write: a run with the same id takes the write locks over and fences the run that had them",
    )
    made.add_argument(
        "--checkpoints", metavar="URL", help="where the shards' checkpoints are (default: in the location)"
    )
    return made


def order(parsed: argparse.Namespace) -> Order:
    """What was asked."""
    return Order(
        location=parsed.location,
        collection=parsed.collection,
        rendition=parsed.rendition,
        run_id=parsed.run_id,
        reentrance_id=parsed.reentrance_id,
        checkpoints=parsed.checkpoints,
    )
