"""`seamark local`: kubectl's verbs over a folder, and the controller as a foreground process."""

from __future__ import annotations

import json
import logging
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer
import yaml
from rich.console import Console
from rich.live import Live

from seamark.errors import InvalidDefinition, NotYet, SeamarkError
from seamark_operator.adapters.local_objects import require
from seamark_operator.api import constants as k
from seamark_operator.control import Summary
from seamark_operator.ports import Object
from seamark_operator.settings import Settings
from seamark_operator.shells.local import show
from seamark_operator.shells.local.manifests import read_manifests
from seamark_operator.shells.local.root import Root, run_controller
from seamark_operator.shells.local.wait import parse_goal

app = typer.Typer(
    help=(
        "Run collections on this machine, without Kubernetes: the same manifests, the same control plane, "
        "objects kept in a folder, Spark in local mode."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
console = Console()
errors = Console(stderr=True)

P = ParamSpec("P")

RootOption = Annotated[
    Path, typer.Option("--root", help="The folder that everything is kept in.", envvar="SEAMARK_ROOT")
]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the objects.")]
KindArgument = Annotated[
    str,
    typer.Argument(
        metavar="KIND", help="A kind as kubectl knows it (collection, coll, ...), several with commas, or all."
    ),
]
SHORT_NAMES = {
    k.STORAGE_LOCATION: "sloc",
    k.CHECKPOINT_STORE: "ckpt",
    k.COLLECTION: "coll",
    k.RENDITION: "rend",
    k.SHARD: "shd",
    k.READ_HOLD: "rhold",
}
DEFAULT_ROOT = Path(".seamark")


def plainly(command: Callable[P, None]) -> Callable[P, None]:
    """A refusal is one clear message and exit code 1, never a stack trace."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except SeamarkError as error:
            errors.print(f"[red]error:[/red] {type(error).__name__}: ", end="")
            errors.print(str(error), markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from None

    return wrapped


@app.command()
@plainly
def apply(
    filename: Annotated[
        list[Path], typer.Option("--filename", "-f", help="A manifest, or a folder of manifests. May be repeated.")
    ],
    root: RootOption = DEFAULT_ROOT,
    namespace: NamespaceOption = "default",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line an object.")] = False,
) -> None:
    """Create the objects of manifests, or change them to what the manifests say.

    Paths and disk: URLs that begin with ./ or ../ are meant from the manifest's own folder.
    """
    opened = Root.open(root)
    for manifest in read_manifests(filename):
        metadata = {"namespace": namespace, **(manifest.get("metadata") or {})}
        outcome, obj = opened.objects.apply({**manifest, "metadata": metadata})
        kind, name = obj["kind"], obj["metadata"]["name"]
        if as_json:
            typer.echo(json.dumps({"kind": kind, "name": name, "outcome": outcome}))
        else:
            typer.echo(f"{kind.lower()}/{name} {outcome}")


@app.command()
@plainly
def get(
    kind: KindArgument,
    name: Annotated[str | None, typer.Argument(help="One object; all of the kind when absent.")] = None,
    root: RootOption = DEFAULT_ROOT,
    namespace: NamespaceOption = "default",
    output: Annotated[str, typer.Option("--output", "-o", help="table, yaml, json or jsonpath={.a.b}.")] = "table",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Draw the table again whenever it changes.")] = False,
) -> None:
    """Show objects, with the columns that kubectl would show."""
    path = re.fullmatch(r"jsonpath=\{?(\.[^{}]+)\}?", output)
    if output not in ("table", "yaml", "json") and path is None:
        raise typer.BadParameter(
            f"{output!r} is not one of table, yaml, json, jsonpath={{.a.b}}", param_hint="--output"
        )
    opened = Root.open(root)
    kinds = _kinds(kind)
    if watch:
        _watch(opened, kinds[0], name, namespace)
        return
    if output == "table":
        for number, each in enumerate(kinds):
            found = _find(opened, each, name, namespace)
            if found or len(kinds) == 1:
                if number:
                    console.print()
                console.print(
                    show.table(each, found, opened.schemas) if found else f"No {each} in namespace {namespace}."
                )
        return
    found = [obj for each in kinds for obj in _find(opened, each, name, namespace)]
    if path is not None:
        values = [show.lookup(obj, path.group(1)) for obj in found]
        typer.echo("\n".join("" if each is None else str(each) for each in values))
        return
    value: Any = found[0] if name is not None else {"kind": "List", "items": found}
    typer.echo(
        json.dumps(value, indent=2) if output == "json" else yaml.safe_dump(value, sort_keys=False), nl=output == "json"
    )


@app.command()
@plainly
def describe(
    kind: KindArgument,
    name: str,
    root: RootOption = DEFAULT_ROOT,
    namespace: NamespaceOption = "default",
) -> None:
    """Show one object with its conditions and its events."""
    opened = Root.open(root)
    resolved = _kind(kind)
    obj = require(opened.objects, resolved, namespace, name)
    console.print(show.description(obj, opened.objects.events(resolved, namespace, name)))


@app.command()
@plainly
def delete(
    kind: KindArgument,
    name: str,
    root: RootOption = DEFAULT_ROOT,
    namespace: NamespaceOption = "default",
    wait: Annotated[float, typer.Option("--wait", help="Wait up to so many seconds until it is gone.")] = 0,
) -> None:
    """Delete one object. A Collection's data stays unless its deletionPolicy is Delete."""
    opened = Root.open(root)
    resolved = _kind(kind)
    require(opened.objects, resolved, namespace, name)
    opened.objects.delete(resolved, namespace, name)
    deadline = time.monotonic() + wait
    while (present := opened.objects.get(resolved, namespace, name)) and time.monotonic() < deadline:
        time.sleep(0.1)
    if present is None:
        typer.echo(f"{resolved.lower()}/{name} deleted")
        return
    typer.echo(f"{resolved.lower()}/{name} is being deleted; `seamark local run` finishes it")
    if wait:
        raise typer.Exit(1)


@app.command()
@plainly
def wait(
    target: Annotated[str, typer.Argument(metavar="KIND/NAME", help="One object, which need not be there yet.")],
    goal: Annotated[
        str,
        typer.Option(
            "--for",
            help="A condition (Ready, Rebuilding=False), a field (status.activeRendition=r2), or deleted.",
        ),
    ],
    root: RootOption = DEFAULT_ROOT,
    namespace: NamespaceOption = "default",
    timeout: Annotated[float, typer.Option(min=0, help="Seconds after which it gives up, with exit code 1.")] = 30,
) -> None:
    """Wait until an object is as asked for. A status that is older than the spec is not taken for an answer."""
    kind, slash, name = target.partition("/")
    if not slash or not name:
        raise typer.BadParameter(f"{target!r} is not KIND/NAME, for example collection/orders")
    reached = parse_goal(goal)
    opened, resolved = Root.open(root), _kind(kind)
    deadline = time.monotonic() + timeout
    while not (found := reached(opened.objects.get(resolved, namespace, name))).holds:
        if time.monotonic() >= deadline:
            hint = "" if opened.controller_pid() else "; no controller runs: start `seamark local run`"
            raise NotYet(
                f"{resolved.lower()}/{name} did not become {goal} within {timeout:g} s: {found.seen}{hint}; "
                f"`seamark local describe {resolved.lower()} {name}` tells more"
            )
        time.sleep(0.2)
    typer.echo(f"{resolved.lower()}/{name} {found.seen}")


@app.command()
@plainly
def annotate(
    kind: KindArgument,
    name: str,
    changes: Annotated[list[str], typer.Argument(help="KEY=VALUE sets an annotation, KEY- removes it.")],
    root: RootOption = DEFAULT_ROOT,
    namespace: NamespaceOption = "default",
) -> None:
    """Set annotations: seamark.io/handover=r2 approves a handover, seamark.io/paused=true pauses."""
    opened = Root.open(root)
    resolved = _kind(kind)
    require(opened.objects, resolved, namespace, name)
    wanted: dict[str, str | None] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals and not change.endswith("-"):
            raise typer.BadParameter(f"{change!r} is neither KEY=VALUE nor KEY-")
        wanted[key if equals else change.removesuffix("-")] = value if equals else None
    opened.objects.annotate(resolved, namespace, name, wanted)
    typer.echo(f"{resolved.lower()}/{name} annotated")


@app.command()
@plainly
def run(
    root: RootOption = DEFAULT_ROOT,
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds between two passes.")] = 1.0,
    stop_runs: Annotated[
        bool,
        typer.Option(
            "--stop-runs/--keep-runs", help="Whether the Spark runs end with the controller; kept ones are found again."
        ),
    ] = True,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every pass.")] = False,
) -> None:
    """Run the controller in the foreground until Ctrl-C: it makes true what the objects ask for."""
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)-7s %(message)s", stream=sys.stderr)
    logging.getLogger("seamark").setLevel(level)
    stop = threading.Event()
    before = {n: signal.signal(n, lambda *_: stop.set()) for n in (signal.SIGINT, signal.SIGTERM)}
    logging.getLogger("seamark.local").info("controller over %s; Ctrl-C stops it", root.resolve())
    try:
        run_controller(Root.open(root), interval, stop, stop_runs=stop_runs, chosen=Settings(), after_step=_log_pass)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@app.command()
@plainly
def status(
    root: RootOption = DEFAULT_ROOT,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Draw every collection with its renditions, runs and holds."""
    opened = Root.open(root)
    objects = {kind: opened.objects.list(kind) for kind in k.KINDS}
    runs = opened.runner().list()
    pid = opened.controller_pid()
    if as_json:
        listed = [{"name": r.name, "kind": r.kind, "rendition": r.rendition, "state": r.state} for r in runs]
        typer.echo(json.dumps({"controller": pid, "objects": objects, "runs": listed}, indent=2))
        return
    running = f"process {pid}" if pid else "not running (start it with `seamark local run`)"
    console.print(show.summary(objects, runs, running))


def _log_pass(summary: Summary) -> None:
    if summary.actions:
        logging.getLogger("seamark.local").debug("%d actions; %s", summary.actions, summary.results)


def _watch(opened: Root, kind: str, name: str | None, namespace: str) -> None:
    try:
        with Live(console=console, refresh_per_second=4) as live:
            while True:
                live.update(show.table(kind, _find(opened, kind, name, namespace), opened.schemas))
                time.sleep(0.5)
    except KeyboardInterrupt:
        return


def _find(opened: Root, kind: str, name: str | None, namespace: str) -> list[Object]:
    if name is not None:
        return [require(opened.objects, kind, namespace, name)]
    return [obj for obj in opened.objects.list(kind) if obj["metadata"]["namespace"] == namespace]


def _kinds(text: str) -> list[str]:
    return [*k.KINDS] if text in ("all", "seamark") else [_kind(word) for word in text.split(",")]


def _kind(text: str) -> str:
    for kind in k.KINDS:
        if text.lower() in (kind.lower(), k.PLURALS[kind], SHORT_NAMES[kind]):
            return kind
    known = ", ".join(kind.lower() for kind in k.KINDS)
    raise InvalidDefinition(f"kind {text!r} is not known; known are {known}")
