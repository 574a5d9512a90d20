"""Layer 0: pluggable storage engines behind two ports, `Log` and `Blob`, chosen by URL."""

from seamark.engines.ports import Blob, BlobInfo, Log, Logs
from seamark.engines.registry import Engines, open_engines

__all__ = ["Blob", "BlobInfo", "Engines", "Log", "Logs", "open_engines"]
