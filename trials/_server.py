"""Tracking servers that do not behave: each answers its health check, and then fails in one way."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

#: Seconds after which a request that hangs is given up, so that threads end.
LONG = 600


class Request(BaseHTTPRequestHandler):
    """A request, and its body."""

    body = b""


def _answer(request: Request, code: int, body: bytes = b"{}", **headers: str) -> None:
    request.send_response(code)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def _hang(request: Request) -> None:
    time.sleep(LONG)


def _drip(request: Request) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "100000")
    request.end_headers()
    for _ in range(LONG):
        request.wfile.write(b" ")
        request.wfile.flush()
        time.sleep(1)


def _drip_header(request: Request) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for at in range(LONG):
        request.wfile.write(f"X-{at}: x\r\n".encode())
        request.wfile.flush()
        time.sleep(1)


def _close(request: Request) -> None:
    request.close_connection = True


def delayed(port: int, seconds: float) -> Callable[[Request], None]:
    """Return what passes each request on to a server of this machine, and its answer back, so many seconds later."""

    def forward(request: Request) -> None:
        time.sleep(seconds)
        connection = HTTPConnection("127.0.0.1", port)
        kept = {name: value for name, value in request.headers.items() if name.lower() not in ("host", "connection")}
        connection.request(request.command, request.path, request.body, kept)
        answer = connection.getresponse()
        _answer(request, answer.status, answer.read(), Content_Type=answer.headers.get("Content-Type", ""))

    return forward


#: What the API of each server does.
SERVERS: dict[str, Callable[[Request], None]] = {
    "hangs": _hang,
    "drips": _drip,
    "drips its header": _drip_header,
    "closes": _close,
    "Retry-After: 3600": lambda request: _answer(request, 503, Retry_After="3600"),
    "429, Retry-After: 3600": lambda request: _answer(request, 429, Retry_After="3600"),
    "500": lambda request: _answer(request, 500),
    "no JSON": lambda request: _answer(request, 200, b"<html>"),
    "an empty object": lambda request: _answer(request, 200),
    "redirects to itself": lambda request: _answer(request, 302, Location=request.path),
}


@contextmanager
def server(behave: Callable[[Request], None], healthy: bool = True) -> Iterator[str]:
    """Start a server in this process, and yield its address; `healthy`: its health check is fine."""

    class Handler(Request):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except OSError:  # the client went away
                self.close_connection = True

        def do_GET(self) -> None:
            self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == "/health" and healthy:
                _answer(self, 200, b"OK")
            else:
                behave(self)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        def log_message(self, format: str, *args: object) -> None: ...

    one = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    one.daemon_threads = True
    Thread(target=one.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{one.server_address[1]}"
    finally:
        one.shutdown()
        one.server_close()
