"""The one place that says which names of logs and keys of blobs are allowed, so that every engine agrees."""

from __future__ import annotations

import re

from seamark.errors import Refused

MAX_SEQNO = 2**64 - 1
_WORDS = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
_PREFIX = re.compile(r"[A-Za-z0-9._/-]*")
# The longest key S3 takes is 1,024 bytes; what is left is room for a location's own prefix.
_LONGEST = 800
# The longest file name of common file systems is 255 bytes; what is left is room for an engine's own marks.
_LONGEST_WORD = 240


def check_name(kind: str, name: str) -> str:
    """`name`, when it is `/`-separated words that mean the same on every engine; `kind` is for the error."""
    words = name.split("/")
    if (
        not _WORDS.fullmatch(name)
        or len(name) > _LONGEST
        or any(word in (".", "..") or len(word) > _LONGEST_WORD for word in words)
    ):
        raise Refused(
            f"{kind} {name[:200]!r} is not allowed: use words of letters, digits, '.', '_' and '-' "
            f"joined by '/', no '.' or '..' as a word, at most {_LONGEST_WORD} characters a word "
            f"and {_LONGEST} in all"
        )
    return name


def check_prefix(kind: str, prefix: str) -> str:
    """`prefix`, when some allowed name could begin with it."""
    words = prefix.split("/")
    if not _PREFIX.fullmatch(prefix) or any(word in (".", "..", "") for word in words[:-1]):
        raise Refused(
            f"{kind} prefix {prefix[:200]!r} is not allowed: use the beginning of a name, "
            "that is words of letters, digits, '.', '_' and '-' joined by '/'"
        )
    return prefix


def check_seqno(log: str, seqno: int) -> int:
    if not 0 <= seqno < MAX_SEQNO:
        raise Refused(f"log {log}: {seqno} is not a sequence number: use 0 to {MAX_SEQNO - 1}")
    return seqno


def check_range(key: str, start: int, end: int | None) -> None:
    if start < 0 or (end is not None and end < start):
        raise Refused(f"blob {key}: bytes {start} to {end} are not a range: use 0 <= start <= end")
