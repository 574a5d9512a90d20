"""A page as a script: its bash blocks in order, and what the page says each of them prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACEHOLDER = re.compile(r"…|<([a-z][a-z-]*)>")


@dataclass(frozen=True)
class Step:
    """One bash block, where it stands, and the text block that follows it directly, if any."""

    line: int
    commands: str
    shown: str | None


def read_steps(text: str) -> list[Step]:
    steps: list[Step] = []
    end = 0
    for fence in FENCE.finditer(text):
        language, body = fence.groups()
        if language == "bash":
            steps.append(Step(text[: fence.start()].count("\n") + 1, body, None))
        elif language == "text":
            if not steps or steps[-1].shown is not None or text[end : fence.start()].strip():
                raise ValueError(f"line {text[: fence.start()].count(chr(10)) + 1}: this output follows no command")
            steps[-1] = Step(steps[-1].line, steps[-1].commands, body)
        end = fence.end()
    return steps


def script(steps: list[Step], outputs: Path) -> str:
    """One bash session; the output of the n-th step goes to the n-th file."""
    lines = ["set -euo pipefail"]
    for number, step in enumerate(steps):
        lines += [f"exec > {outputs / f'{number:02d}'} 2>&1", step.commands]
    return "\n".join(lines)


def difference(shown: str, printed: str, meanings: dict[str, str]) -> str | None:
    """None when `printed` is what the page shows, else the first line that is not.

    `…` is anything; `<word>` one word that differs from run to run, kept in `meanings`: the same everywhere.
    Spaces count as one.
    """
    want, have = _lines(shown), _lines(printed)
    for number, line in enumerate(want):
        found = have[number] if number < len(have) else "(nothing)"
        match = re.fullmatch(_pattern(line, meanings), found)
        if match is None:
            return f"the page shows: {line}\nwas printed:    {found}\nwith {meanings}"
        meanings.update(match.groupdict())
    return f"was printed, and the page does not show it: {have[len(want)]}" if len(have) > len(want) else None


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def _pattern(line: str, meanings: dict[str, str]) -> str:
    pattern, end = "", 0
    seen: set[str] = set()
    for mark in PLACEHOLDER.finditer(line):
        pattern += re.escape(line[end : mark.start()])
        end = mark.end()
        word = (mark.group(1) or "").replace("-", "_")
        if not word:
            pattern += ".*"
        elif word in meanings:
            pattern += re.escape(meanings[word])
        else:
            pattern += f"(?P={word})" if word in seen else rf"(?P<{word}>\w+)"
            seen.add(word)
    return pattern + re.escape(line[end:])
