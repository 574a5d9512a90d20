"""A TCP proxy before the API server whose connections can go silent or be cut, as real networks do."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from types import TracebackType


class Proxy:
    """`with Proxy(port) as proxy` listens on `proxy.port` and forwards to 127.0.0.1:port."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._peers: dict[socket.socket, socket.socket] = {}
        self._frozen: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._cut = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        self._thread.join(5)
        for each in [self._listener, *self._peers]:
            each.close()

    def silence(self) -> None:
        """Every open connection stays open and carries nothing any more; new ones work."""
        with self._lock:
            self._frozen.update(self._peers)

    def cut(self) -> None:
        """Every connection is closed, and so is every new one."""
        with self._lock:
            self._cut = True
            for each in list(self._peers):
                self._drop(each)

    def _run(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select(0.05):
                with self._lock:
                    self._forward(key.fileobj)

    def _forward(self, ready: object) -> None:
        if ready is self._listener:
            near, _ = self._listener.accept()
            if self._cut:
                near.close()
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            for one, other in ((near, far), (far, near)):
                self._peers[one] = other
                self._selector.register(one, selectors.EVENT_READ)
            return
        assert isinstance(ready, socket.socket)
        if ready not in self._peers:
            return
        if ready in self._frozen:
            self._selector.unregister(ready)
            return
        try:
            data = ready.recv(65536)
            if data:
                self._peers[ready].sendall(data)
                return
        except OSError:
            pass
        self._drop(ready)

    def _drop(self, one: socket.socket) -> None:
        other = self._peers.get(one)
        for each in (one, other):
            if each is None or each not in self._peers:
                continue
            del self._peers[each]
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(each)
            each.close()
