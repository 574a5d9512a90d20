"""Runs the long commands behind a component so that a person sees that something moves, and why it failed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.components.errors import ComponentError


def say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def run(
    what: str,
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    every: float = 5.0,
) -> None:
    """Run the command, saying every few seconds that it runs; its output is shown only when it fails."""
    started = time.monotonic()
    say(f"{what} …")
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while True:
                try:
                    code = process.wait(timeout=every)
                    break
                except subprocess.TimeoutExpired:
                    say(f"{what} … {time.monotonic() - started:.0f} s")
        except BaseException:
            process.kill()
            process.wait()
            raise
        output.seek(0)
        tail = "".join(output.readlines()[-40:])
    if code != 0:
        raise ComponentError(f"{what}: `{' '.join(command)}` ended with code {code}. Its last lines:\n{tail}")
    say(f"{what}: done in {time.monotonic() - started:.0f} s")
