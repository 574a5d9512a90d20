"""Seamark: definite, time-varying collections on object storage.

The library is a fat client: it talks straight to storage and needs neither Kubernetes nor Spark.
"""

from seamark.persist import Location

__all__ = ["Location", "open"]
__version__ = "0.1.0"


def open(url: str, *, checkpoints: str | None = None, read_only: bool = False) -> Location:
    """Open a location by URL, for example `disk:./data` or `s3://bucket/prefix`."""
    return Location.open(url, checkpoints=checkpoints, read_only=read_only)
