"""Layer 3a: collections made of renditions, with exact handover between them."""

from seamark.storage.collection import Collection
from seamark.storage.definition import Definition, parse_definition
from seamark.storage.facts import Facts, RenditionFacts, ShardFacts
from seamark.storage.remap import Remap, Slice
from seamark.storage.rendition import Rendition
from seamark.storage.runs import RunMarker, read_marker, write_marker

__all__ = [
    "Collection",
    "Definition",
    "Facts",
    "Remap",
    "Rendition",
    "RenditionFacts",
    "RunMarker",
    "ShardFacts",
    "Slice",
    "parse_definition",
    "read_marker",
    "write_marker",
]
