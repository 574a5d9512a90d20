"""Draws objects for people: tables with the CRDs' columns, a description, a summary."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import yaml
from rich.console import Group
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from seamark_operator.adapters.local_schema import Schemas
from seamark_operator.api import constants as k
from seamark_operator.api.meta import parse_time
from seamark_operator.ports import Object, Run

_FILTER = re.compile(r'(\w+)\[\?\(@\.(\w+)=="([^"]*)"\)\]')
_COLOURS = {
    "Ready": "green", "Active": "green", "Available": "green", "Held": "green", "True": "green",
    "Standby": "cyan", "Hydrating": "yellow", "Rebuilding": "yellow", "Pending": "yellow",
    "Failed": "red", "Unavailable": "red", "Refused": "red", "Abandoned": "red", "False": "red",
}  # fmt: skip


def lookup(obj: Any, path: str) -> Any:
    """The small part of JSONPath that printer columns use."""
    value = obj
    for step in re.findall(r"\w+\[\?\([^)]*\)\]|\w+", path):
        if value is None:
            return None
        match = _FILTER.fullmatch(step)
        if match:
            field, key, wanted = match.groups()
            items = value.get(field) or []
            value = next((item for item in items if item.get(key) == wanted), None)
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


def table(kind: str, found: Sequence[Object], schemas: Schemas) -> Table:
    columns = schemas.columns(kind)
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("NAME", *(name.upper() for name, _ in columns)):
        drawn.add_column(heading, no_wrap=True)
    for obj in found:
        cells = [_cell(lookup(obj, path), path) for _, path in columns]
        drawn.add_row(obj["metadata"]["name"], *cells)
    return drawn


def description(obj: Object, events: Sequence[Mapping[str, str]]) -> Group:
    shown = {key: value for key, value in obj.items() if key != "status"}
    parts: list[Any] = [Text(yaml.safe_dump(shown, sort_keys=False).rstrip())]
    status = dict(obj.get("status", {}))
    conditions = status.pop("conditions", [])
    if status:
        parts.append(Text(yaml.safe_dump({"status": status}, sort_keys=False).rstrip()))
    if conditions:
        drawn = Table(title="Conditions", title_justify="left", box=None, pad_edge=False)
        for heading in ("Type", "Status", "Reason", "Since", "Message"):
            drawn.add_column(heading)
        for c in conditions:
            since = _age(c["lastTransitionTime"])
            drawn.add_row(c["type"], _cell(c["status"]), c["reason"], since, c.get("message", ""))
        parts.append(drawn)
    drawn = Table(title="Events", title_justify="left", box=None, pad_edge=False)
    for heading in ("Age", "Type", "Reason", "Message"):
        drawn.add_column(heading)
    for event in events[-20:]:
        drawn.add_row(_age(event["time"]), event["severity"], event["reason"], event["message"])
    parts.append(drawn if events else Text("No events."))
    return Group(*parts)


def summary(objects: Mapping[str, Sequence[Object]], runs: Sequence[Run], controller: str) -> Tree:
    """Each collection with its renditions, runs and holds below it."""
    tree = Tree(Text(f"controller: {controller}"))
    for location in objects[k.STORAGE_LOCATION]:
        phase = lookup(location, ".status.phase")
        label = Text("location ").append(location["metadata"]["name"], "bold")
        tree.add(label.append("  ").append_text(_cell(phase)).append(f"  {location['spec']['url']}"))
    for collection in objects[k.COLLECTION]:
        name, status = collection["metadata"]["name"], collection.get("status", {})
        label = Text("collection ").append(name, "bold").append("  ").append_text(_cell(status.get("phase")))
        if status.get("upper") is not None:
            label.append(f"  readable [{moment(status['since'])} .. {moment(status['upper'])})")
        branch = tree.add(label)
        trouble = lookup(collection, '.status.conditions[?(@.type=="Ready")]') or {}
        if trouble.get("status") == "False":
            branch.add(Text(f"{trouble['reason']}: {trouble['message']}", "red"))
        for rendition in _of(objects[k.RENDITION], collection):
            _add_rendition(branch, name, rendition, runs)
        for hold in _of(objects[k.READ_HOLD], collection):
            phase = lookup(hold, ".status.phase")
            label = Text(f"hold {hold['metadata']['name']}  ").append_text(_cell(phase))
            branch.add(label.append(f"  from {moment(hold['spec']['asOf'])}"))
    return tree


def moment(time_: int | None) -> str:
    """A time of a collection as people read it; small numbers are no milliseconds since the epoch."""
    if time_ is None:
        return "closed"
    if time_ < 10**11:
        return str(time_)
    return datetime.fromtimestamp(time_ / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]


def _add_rendition(branch: Tree, collection: str, rendition: Object, runs: Sequence[Run]) -> None:
    meta, status = rendition["metadata"], rendition.get("status", {})
    label = Text(f"rendition {meta['name'].removeprefix(collection + '-')}  ")
    label.append_text(_cell(status.get("phase")))
    if status.get("upper") is not None:
        label.append(f"  up to {moment(status['upper'])}")
    if status.get("handedOverAt") is not None:
        label.append(f"  handed over at {moment(status['handedOverAt'])}")
    leaf = branch.add(label)
    for run in runs:
        if run.rendition == meta["name"] and run.namespace == meta.get("namespace", "default"):
            leaf.add(f"{run.kind} {run.name}  {run.state}")


def _of(found: Sequence[Object], collection: Object) -> list[Object]:
    namespace, name = collection["metadata"].get("namespace"), collection["metadata"]["name"]
    return [
        obj
        for obj in found
        if obj["metadata"].get("namespace") == namespace and obj["spec"]["collectionRef"]["name"] == name
    ]


def _cell(value: Any, path: str = "") -> Text:
    if path.endswith("Timestamp") and isinstance(value, str):
        return Text(_age(value))
    text = "" if value is None else str(value)
    return Text(text, _COLOURS.get(text, ""))


def _age(timestamp: str) -> str:
    seconds = max(0, int(time.time() - parse_time(timestamp)))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
