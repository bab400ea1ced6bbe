"""A web server on this machine that serves files, and misbehaves on demand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Server(ThreadingHTTPServer):
    """Serves `files`; `moods` says for a path how to fail: a status, `cut`, `stall`, `encoded`, or a function."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.moods: dict[str, list[object]] = {}
        self.hits: list[str] = []
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.path.lstrip("/")
        self.server.hits.append(path)
        moods = self.server.moods.get(path, [])
        # the last mood stays
        mood = moods.pop(0) if len(moods) > 1 else (moods or [None])[0]
        if callable(mood):
            self.close_connection = True
            with suppress(OSError):  # whoever asked may have had enough
                mood(self)
            return
        data = self.server.files.get(path)
        if isinstance(mood, int) or data is None:
            self.send_error(mood if isinstance(mood, int) else 404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        if mood == "encoded":
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if mood in ("cut", "stall"):
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            if mood == "stall":
                self.server.closing.wait(10)
            self.close_connection = True
            return
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield running
        running.closing.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def no_mirror(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the folder of real inputs, but leave its path to a test that asks for it."""
    if "mirror" in request.fixturenames:
        request.getfixturevalue("mirror")
    monkeypatch.delenv("REPRO_MIRROR", raising=False)


@pytest.fixture
def read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read meshes in this process, which is quicker; `test_apart.py` and `test_limits.py` read in one of its own."""
    monkeypatch.setattr("repro.problems.meshes.read_isolated", lambda read, *_, **__: read())
