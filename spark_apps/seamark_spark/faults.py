"""Errors of tasks, as the driver's own: a task's error reaches the driver as text inside Spark's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

import seamark.errors
from seamark.errors import Retryable, SeamarkError, Terminal

_NAMED = re.compile(r"seamark\.errors\.(\w+): (.+)")
_DATA = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ([^\n]+?) SQLSTATE: 22")


@contextmanager
def translated() -> Iterator[None]:
    """Raise Seamark's errors from Spark's."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise translate(str(error)) from error


def data_error(text: str) -> str | None:
    """What Spark says about a value that an expression cannot take (SQLSTATE class 22), in one line."""
    stated = _DATA.search(text)
    return f"[{stated[1]}] {stated[2].strip()}" if stated else None


def translate(text: str) -> SeamarkError:
    """The error that a task raised, by its name in the text; else what Spark says, in one line."""
    named = _NAMED.search(text)
    if named:
        kind = getattr(seamark.errors, named[1], Terminal)
        base = Retryable if issubclass(kind, Retryable) else Terminal
        return base(f"a task failed: {named[1]}: {named[2]}")
    first = next((line for line in text.splitlines() if line.strip()), "no message")
    return Terminal(f"Spark failed: {first}")
