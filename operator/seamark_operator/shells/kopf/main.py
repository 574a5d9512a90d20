"""The operator as a process: wait to lead, then watch and work, and end cleanly or not at all."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Collection, Sequence

import kopf
import prometheus_client

from seamark.errors import SeamarkError
from seamark_operator.adapters.kube_client import ApiRefused, Kube, Limits
from seamark_operator.adapters.kube_leases import KubeLeases
from seamark_operator.adapters.kube_objects import KubeObjects, resource
from seamark_operator.adapters.kube_runner import KubeRunner
from seamark_operator.adapters.storage import LibraryStorage
from seamark_operator.api import constants as k
from seamark_operator.control import Controller
from seamark_operator.metrics import Metrics
from seamark_operator.ports import Object
from seamark_operator.shells.kopf import web
from seamark_operator.shells.kopf.handlers import LEASE, kopf_settings, registry
from seamark_operator.shells.kopf.leader import Elector
from seamark_operator.shells.kopf.liveness import Vitals, WatchProof
from seamark_operator.shells.kopf.settings import Settings, parse
from seamark_operator.shells.kopf.worker import Key, Worker

DONE, LOST, DEAD = 0, 1, 3
"""Exit codes: asked to end; not leading any more or the watch ended; ended itself because it did not work."""
GRACE_SECONDS = 15.0
"""For the pass under way; with the watch's own end it stays within the 30 s that a pod is given."""

log = logging.getLogger("seamark_operator")


class Operator:
    """One process: everything it is made of, and the order in which that starts and ends."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stopping = threading.Event()
        self.code = DONE
        self.watch = WatchProof()
        self.vitals = Vitals(
            self.watch,
            watch_dead_seconds=settings.watch_dead_seconds,
            pass_dead_seconds=settings.pass_dead_seconds,
        )
        self.metrics = Metrics(
            watch_ages=self.watch.ages,
            leading=self.may_act,
            runs_can_be_launched=lambda: self.runner.served,
        )
        self.kube = Kube(on_error=self.metrics.api_error, stopping=self.stopping)
        self.runner = KubeRunner(self.kube, settings.spark, settings.namespaces)
        # One try that is given up within a period: a slow renewal must not outlive the Lease.
        quick = Limits(request_seconds=max(1.0, settings.lease_seconds / 6), attempts=1)
        self.elector = Elector(
            Kube(on_error=self.metrics.api_error, limits=quick),
            settings.lease_namespace,
            settings.lease_name,
            settings.identity,
            settings.lease_seconds,
            on_written=self._lease_written,
            on_lost=lambda why: self.end(LOST, why),
        )
        self.storage = LibraryStorage()
        self.leading = not settings.leader_elect
        self.worker = self._worker()
        self._loop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def may_act(self) -> bool:
        return self.leading and (not self.settings.leader_elect or self.elector.holds())

    def run(self) -> int:
        self._heed_signals()
        settings = self.settings
        probes = {"/healthz": web.probe(self.vitals.live), "/readyz": web.probe(self.vitals.ready)}
        web.serve(settings.bind_address, settings.health_port, probes)
        web.serve(settings.bind_address, settings.metrics_port, {"/metrics": web.text(self.metrics.text)})
        threading.Thread(target=self._watchdog, name="watchdog", daemon=True).start()
        if self._wait_until_served() and self._wait_to_lead():
            self._lead()
        return self.code

    def _heed_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.end(DONE, "asked to end"))

    def end(self, code: int, why: str) -> None:
        """Begin to end; the first reason counts."""
        if self.stopping.is_set():
            return
        self.code = code
        log.log(logging.INFO if code == DONE else logging.CRITICAL, "ending: %s", why)
        self.stopping.set()
        if self._loop is not None:
            loop, flag = self._loop
            loop.call_soon_threadsafe(flag.set)

    def _worker(self) -> Worker:
        settings = self.settings
        controller = Controller(
            KubeObjects(self.kube, settings.namespaces, on_known=self.watch.known, instance=settings.identity),
            self.runner,
            KubeLeases(self.kube, settings.namespaces),
            self.storage,
            observer=self.metrics,
        )

        def step(keys: Collection[Key] | None) -> None:
            summary = controller.step(keys)
            self.metrics.passed(None, None if keys is not None else summary.results.keys())
            self.vitals.passed()

        return Worker(
            step,
            settings.resync_seconds,
            may_act=self.may_act,
            on_failure=lambda error: self.metrics.passed(error, None),
        )

    def _lease_written(self, lease: Object) -> None:
        watched = self.settings.namespaces
        if not watched or lease["metadata"]["namespace"] in watched:
            self.watch.known(LEASE, [lease])

    def _wait_until_served(self) -> bool:
        """Every kind can be listed: without that there is nothing to watch, and kopf would not look again."""
        missing = set(k.KINDS)
        while missing and not self.stopping.is_set():
            for kind in sorted(missing):
                try:
                    for namespace in self.settings.namespaces or (None,):
                        self.kube.call("list", resource(kind).path(namespace), query={"limit": "1"})
                    missing.discard(kind)
                    self.vitals.waits("starting: looking for the kinds")
                except ApiRefused as refused:
                    hint = "apply the CRDs" if refused.code == 404 else "check the operator's Roles"
                    self.vitals.waits(f"starting: {kind} cannot be listed: {hint}")
                    log.warning("%s cannot be listed (%s): %s; trying again", kind, hint, refused)
                except SeamarkError as error:
                    log.warning("%s cannot be listed: %s; trying again", kind, error)
            if missing:
                self.stopping.wait(3)
        return not self.stopping.is_set()

    def _wait_to_lead(self) -> bool:
        said = ""
        while self.settings.leader_elect and not self.stopping.is_set():
            try:
                other = self.elector.try_take()
                if other is None:
                    self.elector.start()
                    self.leading = True
                    log.info("leading as %s", self.settings.identity)
                    break
                self.vitals.waits(f"standing by: {other} leads")
                if other != said:
                    log.info("standing by: %s leads", other)
                    said = other
            except SeamarkError as error:
                log.warning("the operator's Lease cannot be taken: %s; trying again", error)
            self.stopping.wait(self.elector.period)
        return not self.stopping.is_set()

    def _lead(self) -> None:
        self.vitals.leads()
        self.worker.start()
        try:
            asyncio.run(self._watch())
            self.end(DONE, "asked to end")
        except Exception as error:
            log.exception("the watch ended")
            self.end(LOST, f"the watch ended: {error}")
        finally:
            self._heed_signals()  # an event loop that ends takes its handlers with it
            ended = self.worker.stop(GRACE_SECONDS)
            if ended:
                self.storage.close()
            if self.settings.leader_elect:
                if ended:
                    self.elector.release()
                else:  # what is still under way must not meet a successor: the Lease runs out by itself
                    log.warning("a pass did not end within %.0f s; the Lease is left to expire", GRACE_SECONDS)

    async def _watch(self) -> None:
        loop, stop, ready = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        self._loop = (loop, stop)
        if self.stopping.is_set():
            return

        async def heed_signals() -> None:
            await ready.wait()  # kopf takes them first, and then waits 5 s for a stop flag that nobody raises
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.end, DONE, "asked to end")

        heeding = asyncio.create_task(heed_signals())
        try:
            await kopf.operator(
                registry=registry(self.settings, self.watch, self.worker.mark),
                settings=kopf_settings(self.settings),
                standalone=True,
                clusterwide=not self.settings.namespaces,
                namespaces=self.settings.namespaces,
                stop_flag=stop,
                ready_flag=ready,
            )
        finally:
            heeding.cancel()
            self._loop = None

    def _watchdog(self) -> None:
        """Ends a process that lost its Lease or does not work, also when the thread that should is stuck."""
        sick_since: float | None = None
        while not self.stopping.wait(1):
            if self.leading and self.settings.leader_elect and not self.elector.holds():
                self.end(LOST, "the operator's Lease was not renewed in time")
            verdict = self.vitals.live()
            sick_since = None if verdict.ok else (sick_since or time.monotonic())
            if sick_since is not None and time.monotonic() - sick_since > self.settings.exit_seconds:
                self.end(DEAD, "; ".join(verdict.reasons))
        time.sleep(3 if self.code == LOST else GRACE_SECONDS + 10)
        log.critical("did not end in time; ending at once")
        os._exit(self.code or DEAD)


class _Json(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line)


def _log_to_stderr(settings: Settings) -> None:
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)-8s %(name)s: %(message)s")
    handler.setFormatter(_Json() if settings.log_format == "json" else text)
    logging.basicConfig(level=settings.log_level, handlers=[handler])
    logging.getLogger("kopf").setLevel(max(logging.getLogger().level, logging.INFO))
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # a line per event that the watch shows


def main(arguments: Sequence[str] | None = None) -> None:
    settings = parse(arguments)
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # doubles every counter
    _log_to_stderr(settings)
    sys.exit(Operator(settings).run())


if __name__ == "__main__":
    main()
