"""The figures' harness: what it prints for machines, and that a reference takes turns with what it is beside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import alone, append_lines, beside, interleave, percentile
from benchmarks.run import BENCHMARKS

ROOT = Path(__file__).resolve().parents[2]


def test_a_figure_is_one_line_with_the_keys_that_are_promised(tmp_path: Path) -> None:
    append_lines(tmp_path / "f", [alone("b", "m", "s", [1.0]), beside("b", "n", "s", [2.0, 4.0, 9.0], [1.0, 2.0, 3.0])])
    first, second = (json.loads(line) for line in (tmp_path / "f").read_text().splitlines())
    keys = ["bench", "metric", "value", "unit", "reference", "ratio", "goal", "holds"]
    assert list(first) == list(second) == keys
    assert first["reference"] is None
    assert (second["value"], second["reference"], second["ratio"]) == (4.0, 2.0, 2.0)


def test_all_turns_are_taken_in_every_round_and_another_one_is_first_each_time() -> None:
    order: list[str] = []

    def turn(name: str) -> float:
        order.append(name)
        return 1.0

    taken = interleave(2, {"a": lambda: turn("a"), "b": lambda: turn("b")})
    assert order == ["a", "b", "b", "a"]
    assert taken == {"a": [1.0, 1.0], "b": [1.0, 1.0]}


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile(list(map(float, range(100))), 99) == 98.0


def test_an_unknown_benchmark_is_refused_with_the_known_ones() -> None:
    command = [sys.executable, "-m", "benchmarks.run", "nonsense"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert all(name in done.stderr for name in BENCHMARKS)
