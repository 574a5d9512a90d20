"""A folder of text files as a source: an address is a byte of a file, and only whole lines are ever taken."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import xxhash

from seamark.errors import NotFound, SourceChanged

CHUNK = 8 * 1024 * 1024


@dataclass(frozen=True)
class FileSpan:
    """A file as listed, with its size at that moment."""

    path: str
    size: int


def list_spans(folder: str) -> list[FileSpan]:
    """The folder's files in order of name. Hidden files are left out: writers use them for what is not finished."""
    root = Path(folder)
    if not root.is_dir():
        raise NotFound(f"source folder {folder} does not exist; create it, or correct spec.source.files.path")
    with os.scandir(root) as entries:
        found = [
            FileSpan(str(root / entry.name), entry.stat().st_size)
            for entry in entries
            if entry.is_file() and not entry.name.startswith(".")
        ]
    return sorted(found, key=lambda span: span.path)


def whole_lines(path: str, start: int, size: int) -> int:
    """The largest end in `(start, size]` that closes a line, or `start` when there is none."""
    with Path(path).open("rb") as file:
        end = size
        while end > start:
            begin = max(start, end - CHUNK)
            file.seek(begin)
            at = file.read(end - begin).rfind(b"\n")
            if at >= 0:
                return begin + at + 1
            end = begin
    return start


def digest(path: str, start: int, end: int) -> str:
    """The digest of a byte range; `SourceChanged` when the file is shorter."""
    hasher = xxhash.xxh3_128()
    with Path(path).open("rb") as file:
        file.seek(start)
        left = end - start
        while left:
            data = file.read(min(CHUNK, left))
            if not data:
                raise SourceChanged(
                    f"source file {path} has no bytes {end - left} to {end}, which were bound to a time; "
                    "restore the file, or rebuild the collection from another source"
                )
            hasher.update(data)
            left -= len(data)
    return hasher.hexdigest()
