"""What every benchmark shares: turns taken with a reference, medians, a table for people and lines for machines.

The machine changes from minute to minute, so an absolute figure says little. A benchmark and its reference take
turns in one run, each round gives one ratio, and the ratio that is reported is the median of the rounds' ratios.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

Turn = Callable[[], float]
"""One measurement; returns the figure of that round."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result. `ratio` is value to reference; goal and holds are null where no goal is set."""

    bench: str
    metric: str
    value: float
    unit: str
    reference: float | None = None
    ratio: float | None = None
    goal: float | None = None
    holds: bool | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """How much to do."""

    full: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What a benchmark hands back: its figures, and what a reader must know about them."""

    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()


def interleave(rounds: int, turns: Mapping[str, Turn]) -> dict[str, list[float]]:
    """Every turn once a round, beginning with another one each round, so that a drift of the machine hits all."""
    names = list(turns)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            taken[name].append(turns[name]())
    return taken


def beside(bench: str, metric: str, unit: str, taken: Sequence[float], reference: Sequence[float]) -> Figure:
    """The median of the rounds, and the median of the ratios round by round."""
    ratios = [one / other for one, other in zip(taken, reference, strict=True)]
    return Figure(
        bench=bench,
        metric=metric,
        value=statistics.median(taken),
        unit=unit,
        reference=statistics.median(reference),
        ratio=statistics.median(ratios),
    )


def alone(bench: str, metric: str, unit: str, taken: Sequence[float]) -> Figure:
    """The median of the rounds, with nothing beside it: a reference itself, or a part of another figure."""
    return Figure(bench=bench, metric=metric, value=statistics.median(taken), unit=unit)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def show(name: str, report: Report, console: Console | None = None) -> None:
    """The table for people."""
    console = console or Console(width=None if sys.stdout.isatty() else 110)
    table = Table(title=name, title_justify="left")
    table.add_column("metric")
    for column in ("value", "unit", "reference", "ratio", "goal"):
        table.add_column(column, justify="left" if column == "unit" else "right", no_wrap=True)
    for figure in report.figures:
        goal = "none yet" if figure.goal is None else f"{_short(figure.goal)} {'holds' if figure.holds else 'FAILS'}"
        table.add_row(
            figure.metric, _short(figure.value), figure.unit, _short(figure.reference), _short(figure.ratio), goal
        )
    console.print(table)
    for note in report.notes:
        console.print(f"  {note}", highlight=False, markup=False)


def append_lines(path: Path, figures: Iterable[Figure]) -> None:
    """One line of JSON per figure, behind what the file has."""
    with path.open("a") as file:
        for figure in figures:
            file.write(json.dumps(asdict(figure)) + "\n")


def _short(value: float | None) -> str:
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
