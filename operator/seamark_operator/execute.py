"""Carries a plan out, action by action and in order. Each may be repeated; the first that fails ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from seamark.errors import NotFound
from seamark_operator.api.constants import API_VERSION
from seamark_operator.core import plan as p
from seamark_operator.ports import Leases, Object, Objects, SparkRunner, Storage, Target

OnAction = Callable[[p.Action], None]


class Executor:
    """The hands of the control plane."""

    def __init__(
        self,
        objects: Objects,
        runner: SparkRunner,
        leases: Leases,
        storage: Storage,
        on_action: OnAction | None = None,
    ) -> None:
        self._objects = objects
        self._runner = runner
        self._leases = leases
        self._storage = storage
        self._on_action = on_action

    def execute(self, plan: p.Plan, target: Target | None, now: float) -> None:
        refused: set[str] = set()
        for action in plan.actions:
            if isinstance(action, p.LaunchRun) and refused.intersection(action.leases):
                continue
            if isinstance(action, p.AcquireLease):
                if not self._leases.acquire(action.namespace, action.name, action.holder, now, action.labels):
                    refused.add(action.name)
            elif isinstance(action, p.RunAction):
                self._run(action)
            elif isinstance(action, p.ObjectAction):
                self._object(action)
            else:
                self._store(action, target)
            if self._on_action is not None:
                self._on_action(action)

    def _run(self, action: p.RunAction) -> None:
        match action:
            case p.LaunchRun(spec):
                self._runner.launch(spec)
            case p.StopRun(namespace, name):
                self._runner.stop(namespace, name)
            case p.RecordEpoch(namespace, name, epoch):
                self._leases.record_epoch(namespace, name, epoch)
            case p.ReleaseLease(namespace, name):
                self._leases.release(namespace, name)
            case p.AcquireLease():
                raise AssertionError("a lease is acquired where its refusal is remembered")
            case _:
                assert_never(action)

    def _object(self, action: p.ObjectAction) -> None:
        match action:
            case p.Event(about, severity, reason, message):
                self._objects.event(_reference(about), severity, reason, message)
            case p.EnsureFinalizer(about, finalizers) | p.RemoveFinalizer(about, finalizers):
                self._objects.set_finalizers(about.kind, about.namespace, about.name, finalizers)
            case p.RemoveAnnotation(about, annotation):
                self._objects.remove_annotation(about.kind, about.namespace, about.name, annotation)
            case p.CreateObject(obj):
                self._objects.create(obj)
            case p.DeleteObject(about):
                self._objects.delete(about.kind, about.namespace, about.name)
            case p.PatchStatus(about, status):
                self._objects.patch_status(about.kind, about.namespace, about.name, status)
            case _:
                assert_never(action)

    def _store(self, action: p.StorageAction, target: Target | None) -> None:
        if target is None:
            raise NotFound(f"{type(action).__name__} needs the collection's StorageLocation, which is not there")
        storage = self._storage
        match action:
            case p.CreateCollection(document, owner):
                storage.create(target, document, owner)
            case p.AddRendition(rendition, document):
                storage.add_rendition(target, rendition, document)
            case p.MarkStandby(rendition):
                storage.mark_standby(target, rendition)
            case p.Handover(rendition, close_old):
                storage.handover(target, rendition, close_old=close_old)
            case p.Abandon(rendition, why):
                storage.abandon(target, rendition, why)
            case p.SetHold(name, as_of):
                storage.hold(target, name, as_of)
            case p.ReleaseHold(name):
                storage.unhold(target, name)
            case p.MoveRetention(millis):
                storage.retain(target, millis)
            case p.Condemn(rendition):
                storage.condemn(target, rendition)
            case p.Sweep(rendition):
                storage.sweep(target, rendition)
            case p.DropCollection(owner):
                storage.drop(target, owner)
            case _:
                assert_never(action)


def _reference(about: p.About) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": about.kind,
        "metadata": {"namespace": about.namespace, "name": about.name, "uid": about.uid},
    }
