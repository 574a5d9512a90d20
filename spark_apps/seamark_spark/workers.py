"""Spark's Python workers between two tasks: a tick of a hundred rows must not pay for reading archives.

Before each task a worker asks every finder of modules to forget what it knows. A finder of a zip archive answers by
reading the archive's directory again, and Spark's own modules come from archives: measured, four fifths of the CPU
time of a small task. Finders that are not there cannot be asked. Python makes them again when a module is imported,
from a directory that it still knows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar
from zipimport import zipimporter

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")


def light(task: Callable[Arguments, Iterator[Item]]) -> Callable[Arguments, Iterator[Item]]:
    """`task`, leaving no finder of archives behind."""

    @wraps(task)
    def run(*args: Arguments.args, **options: Arguments.kwargs) -> Iterator[Item]:
        try:
            yield from task(*args, **options)
        finally:
            for path, finder in list(sys.path_importer_cache.items()):
                if isinstance(finder, zipimporter):
                    del sys.path_importer_cache[path]

    return run
