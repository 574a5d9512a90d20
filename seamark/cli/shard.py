"""`seamark shard`: list and show shards."""

from __future__ import annotations

from typing import Annotated

import typer

from seamark.cli.output import JsonOption, LocationOption, moment, show

app = typer.Typer(help="Look at shards: frontiers, holds, lock, batches.", no_args_is_help=True)


@app.command("ls")
def list_shards(location: LocationOption, json_: JsonOption = False) -> None:
    """List the shards of a location with their frontiers."""
    from seamark import open

    with open(location, read_only=True) as place:
        rows = []
        for shard_id in place.shard_ids():
            state = place.open_shard(shard_id).state
            rows.append({"shard": shard_id, "since": state.since, "upper": state.upper, "epoch": state.epoch})
        show(rows, ("shard", "since", "upper", "epoch"), as_json=json_)


@app.command("show")
def show_shard(
    shard_id: Annotated[str, typer.Argument(help="The shard's id, as `seamark shard ls` prints it.")],
    location: LocationOption,
    json_: JsonOption = False,
) -> None:
    """Show one shard: its frontiers, lock, holds and batches."""
    from seamark import open

    with open(location, read_only=True) as place:
        state = place.open_shard(shard_id).state
    batches = [
        {"lower": b.lower, "upper": b.upper, "rows": b.rows, "parts": len(b.parts), "inline": len(b.inline)}
        for b in state.batches
    ]
    if not json_:
        lock = f"locked by {state.lock.holder}" if state.lock else "not locked"
        typer.echo(f"{shard_id}: since {moment(state.since)}, upper {moment(state.upper)}, epoch {state.epoch}, {lock}")
        for name, hold in sorted(state.holds.items()):
            typer.echo(f"  hold {name} at {hold.time}")
    show(batches, ("lower", "upper", "rows", "parts", "inline"), as_json=json_)
