"""Names of the columns that travel beside the user's own between decoding and writing.

User columns never begin with an underscore, so these can never meet one.
"""

from __future__ import annotations

ORDINAL = "_ordinal"
"""Which slice a row came from; the order of slices is the order of their times and paths."""

OFFSET = "_offset"
"""The byte at which its line begins in the file."""

DELETE = "_delete"
"""Whether it removes its key."""

REASON = "_reason"
"""Why it is refused; null for a good one."""

LINE = "_line"
"""The beginning of a refused line."""

BUCKET = "_bucket"
"""Shard and slot, see `sharding`."""
