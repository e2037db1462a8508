"""A server in this process that speaks OpenAI's API and can fail in every way that one does."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FaultyLM:
    """``mode`` is ``good``, ``garbage`` (no fields), ``html`` (no API), ``hangs`` (until
    ``release``), ``drops`` (the connection, in the middle of the reply) or a status.

    ``fails_first`` is how many of the requests to come fail in the mode, all when it is None.
    ``requests`` are the bodies received.
    """

    def __init__(self) -> None:
        self.mode = "good"
        self.fails_first: int | None = None
        self.reply: Callable[[dict[str, Any]], Any] = lambda body: {"answer": "Tamsin"}
        self.requests: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self.release = threading.Event()
        self.arrived = threading.Event()
        self.port = 0
        self.up()

    def up(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send(200, {"object": "list", "data": []})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.requests.append(body)
                outer.arrived.set()
                mode = outer.next_mode()
                if mode == "hangs":
                    outer.release.wait(20)
                if mode.isdigit():
                    self.send(int(mode), {"error": {"message": "planted failure"}})
                elif mode == "drops":
                    self.drop()
                elif mode == "html":
                    self.send(200, "<html>welcome</html>")
                else:
                    garbage = mode == "garbage"
                    text = "lorem ipsum" if garbage else json.dumps(outer.reply(body))
                    self.send(200, completion(text))

            def send(self, status: int, body: Any) -> None:
                data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

            def drop(self) -> None:
                with contextlib.suppress(OSError):
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", "1000")
                    self.end_headers()
                    self.wfile.write(b'{"id": "c", "choi')
                self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def next_mode(self) -> str:
        """What becomes of this request."""
        with self._lock:
            if self.fails_first is None:
                return self.mode
            self.fails_first -= 1
            return self.mode if self.fails_first >= 0 else "good"

    def down(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


def completion(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105},
    }
