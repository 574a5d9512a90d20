"""The command `seamark`: what is stored, and what it holds at a time.

Exit codes: 0 done, 1 refused or failed (the message says why and what to do), 2 wrong usage.
Other packages of the distribution add their commands through the entry-point group `seamark.cli`.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

import typer
from rich.console import Console

from seamark.cli import collection, shard
from seamark.errors import SeamarkError

app = typer.Typer(
    name="seamark",
    help="Definite, time-varying collections on object storage.\n\n"
    "A collection can be read as of any time between its since and its upper, and gives the same answer to everyone. "
    "Begin with `seamark local --help` to run one on this machine, or `seamark collection --help` to read one.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(collection.app, name="collection")
app.add_typer(shard.app, name="shard")


@app.command()
def version() -> None:
    """Print the version."""
    from seamark import __version__

    typer.echo(__version__)


def main() -> None:
    """The console script."""
    for point in entry_points(group="seamark.cli"):
        app.add_typer(point.load(), name=point.name)
    try:
        app()
    except SeamarkError as error:
        Console(stderr=True, soft_wrap=True).print(
            f"seamark: {type(error).__name__}: {error}", style="red", markup=False
        )
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
