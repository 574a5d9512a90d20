"""`seamark collection`: list, show, read as of a time, follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from seamark.cli.output import JsonOption, LocationOption, moment, show

app = typer.Typer(help="Read collections: what is there, its contents as of a time, its changes.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The collection's name.")]


@app.command("ls")
def list_collections(location: LocationOption, json_: JsonOption = False) -> None:
    """List the collections of a location."""
    from seamark import open
    from seamark.storage import Collection

    with open(location, read_only=True) as place:
        rows = []
        for name in Collection.names(place):
            found = Collection.open(place, name).describe()
            rows.append(
                {"collection": name, "active": found.active, "since": found.since, "upper": found.upper}
                | {"renditions": " ".join(sorted(found.renditions))}
            )
        show(rows, ("collection", "active", "since", "upper", "renditions"), as_json=json_)


@app.command("show")
def show_collection(name: Name, location: LocationOption, json_: JsonOption = False) -> None:
    """Show a collection's renditions, shards and holds."""
    from dataclasses import asdict

    from seamark import open
    from seamark.storage import Collection

    with open(location, read_only=True) as place:
        found = Collection.open(place, name).describe()
    if json_:
        typer.echo(json.dumps(asdict(found)))
        return
    typer.echo(f"{name}: readable from {moment(found.since)} up to {moment(found.upper)}, active {found.active}")
    rows = [
        {"rendition": r.name, "role": r.role, "definition": r.definition_hash, "since": r.since, "upper": r.upper}
        | {"shards": len(r.shards), "parts": sum(s.parts for s in r.shards), "bytes": sum(s.bytes for s in r.shards)}
        for r in sorted(found.renditions.values(), key=lambda each: (len(each.name), each.name))
    ]
    show(rows, ("rendition", "role", "definition", "since", "upper", "shards", "parts", "bytes"), as_json=False)
    show([{"hold": h, "from": t} for h, t in sorted(found.holds.items())], ("hold", "from"), as_json=False)


@app.command()
def snapshot(
    name: Name,
    location: LocationOption,
    as_of: Annotated[int | None, typer.Option(help="The time to read at; the newest readable one by default.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until that time is written.")] = 0.0,
    json_: JsonOption = False,
) -> None:
    """Print the contents as of a time."""
    from seamark import open
    from seamark.storage import Collection

    with open(location, read_only=True) as place:
        collection = Collection.open(place, name)
        time = max(0, collection.upper - 1) if as_of is None else as_of
        table = collection.snapshot(time, timeout=timeout)
    show(table.to_pylist(), table.column_names, as_json=json_)
    if not json_:
        typer.echo(f"{table.num_rows} rows as of {time} ({moment(time)})")


@app.command()
def subscribe(
    name: Name,
    location: LocationOption,
    as_of: Annotated[int | None, typer.Option(help="Begin with the contents at this time (default: newest).")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="File that keeps how far this reader is; with it, a restart goes on from there.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="End after so many seconds without news.")] = None,
) -> None:
    """Print the contents, then every change as it comes, as JSON lines. Ctrl-C ends it.

    With --resume, lines are delivered at least once: the file is moved on after they are printed.
    """
    from seamark import open
    from seamark.cli.output import _plain
    from seamark.storage import Collection

    frontier = int(resume.read_text()) if resume is not None and resume.exists() else None
    with open(location) as place:
        collection = Collection.open(place, name)
        for changes in collection.subscribe(as_of, frontier=frontier, timeout=timeout):
            for row in changes.records.to_pylist():
                typer.echo(json.dumps(row, default=_plain, ensure_ascii=False))
            typer.echo(json.dumps({"frontier": changes.upper}))
            if resume is not None:
                temporary = resume.with_suffix(".tmp")
                temporary.write_text(str(changes.upper))
                temporary.replace(resume)
