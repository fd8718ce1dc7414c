"""Serves the Python library's `TestServer` over HTTP, and prints its address and key. The argument is `sync` or `async`."""

from __future__ import annotations

import asyncio
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from latchkey.testing import TestServer

KIT = TestServer()
IS_ASYNC = sys.argv[1] == "async"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        request = httpx.Request(self.command, KIT.url + self.path, headers=dict(self.headers), content=content)
        if IS_ASYNC:
            response = asyncio.run(KIT.handle_async_request(request))
        else:
            response = KIT.handle_request(request)
        body = response.read()
        self.send_response(response.status_code)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, format: str, *args: object) -> None: ...


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None: ...


server = Server(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port} {KIT.api_key}", flush=True)
server.serve_forever()
