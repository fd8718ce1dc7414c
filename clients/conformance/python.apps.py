"""Serves the apps of the cases with the Python library. Speaks JSON lines, as the driver does."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import psycopg
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from latchkey import AsyncLatchkey, NothingHappened
from latchkey.asgi import IdempotencyMiddleware, Operation, operation_of
from latchkey.postgres import psycopg_async
from latchkey.webhooks import Context, Event, Receiver

Fields = dict[str, Any]
Scope = Any
METHODS = ["GET", "POST", "PUT", "PATCH"]
PATHS = ["/charges", "/orders/{id}", "/events"]
OPTIONS = {
    "scope": "scope",
    "required": "required",
    "acceptUnquoted": "accept_unquoted",
    "principal": "principal",
    "methods": "methods",
    "requestBytesMax": "request_bytes_max",
    "responseBytesMax": "response_bytes_max",
    "headersKept": "headers_kept",
}
BOUNDS = {
    "ttlSeconds": "ttl_seconds",
    "waitMs": "wait_ms",
    "acquireMs": "acquire_ms",
    "saveMs": "save_ms",
    "onTakenOver": "on_taken_over",
    "onUnavailable": "on_unavailable",
}
RECEIVER = {"name": "name", "bodyBytesMax": "body_bytes_max"}


@dataclass
class Reply:
    """Response of a handler, in the terms of no framework."""

    status: int
    headers: list[tuple[str, str]]
    writes: list[bytes]


Handle = Callable[[bytes, Operation | None, str], Awaitable[Reply]]


def serve_routes(app: Starlette, reply: Handle, receiver: Receiver | None, middleware: Fields | None) -> Starlette:
    add_routes(app, reply, receiver)
    if middleware is not None:
        app.add_middleware(IdempotencyMiddleware, **middleware)
    return app


def add_routes(app: Starlette, reply: Handle, receiver: Receiver | None) -> None:
    async def handle(request: Request) -> Response:
        body, script = await request.body(), request.headers["x-handler"]
        made = await reply(body, operation_of(request.scope), script)
        response = StreamingResponse(each(made.writes)) if len(made.writes) > 1 else Response(b"".join(made.writes))
        response.status_code = made.status
        for name, value in made.headers:
            response.headers.append(name, value)
        return response

    for path in PATHS:
        app.add_route(path, handle, methods=METHODS)
    if receiver is not None:
        app.routes.append(Route("/hook", receiver))


async def each(writes: list[bytes]) -> AsyncIterator[bytes]:
    for body in writes:
        yield body


def asgi(reply: Handle, receiver: Receiver | None, middleware: Fields | None) -> Any:
    async def app(scope: Scope, receive: Any, send: Any) -> None:
        if scope["path"] == "/hook" and receiver is not None:
            return await receiver(scope, receive, send)
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        script = dict(scope["headers"])[b"x-handler"].decode()
        made = await reply(body, operation_of(scope), script)
        headers = [(name.encode(), value.encode()) for name, value in made.headers]
        await send({"type": "http.response.start", "status": made.status, "headers": headers})
        for written in made.writes:
            await send({"type": "http.response.body", "body": written, "more_body": True})
        await send({"type": "http.response.body"})

    return app if middleware is None else IdempotencyMiddleware(app, **middleware)


FRAMEWORKS: dict[str, Callable[[Handle, Receiver | None, Fields | None], Any]] = {
    "Starlette": lambda *parts: serve_routes(Starlette(), *parts),
    "FastAPI": lambda *parts: serve_routes(FastAPI(), *parts),
    "ASGI": asgi,
}


@dataclass
class CaseApp:
    """App of one case."""

    runs: int = 0
    handled: int = 0
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    latchkey: AsyncLatchkey | None = None
    server: uvicorn.Server | None = None
    task: asyncio.Task[None] | None = None

    async def serve(self, options: Fields) -> Fields:
        self.latchkey = AsyncLatchkey(options["url"], options["apiKey"])
        by = options.get("by")
        receiver = self.receiver(by, options) if by else None
        middleware = None if by else self.middleware(options["options"])
        app = FRAMEWORKS[options["framework"]](self.reply, receiver, middleware)
        config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)
        # Accepts connections before the server has started.
        listening = socket.create_server(("127.0.0.1", 0))
        self.task = asyncio.create_task(self.server.serve([listening]))
        return {"url": f"http://127.0.0.1:{listening.getsockname()[1]}"}

    def middleware(self, options: Fields) -> Fields:
        own = dict(options)
        saved_below = own.pop("savedBelow", None)
        bounds = {BOUNDS[name]: own.pop(name) for name in list(own) if name in BOUNDS}
        named = {"principal": user_of, **{OPTIONS[name]: value for name, value in own.items()}}
        if saved_below is not None:
            named["save"] = lambda status: status < saved_below
        return {"latchkey": self.latchkey, "bounds": bounds, **named}

    def receiver(self, by: str, options: Fields) -> Receiver:
        named = {RECEIVER[name]: value for name, value in options["options"].items()}
        more: Fields = {"latchkey": self.latchkey} if by == "records" else {}
        if by == "transaction":
            url = options["databaseUrl"]
            more = {"transaction": psycopg_async(lambda: psycopg.AsyncConnection.connect(url))}
        return Receiver(self.handle, secrets=options["secrets"], **more, **named)

    async def reply(self, received: bytes, operation: Operation | None, encoded: str) -> Reply:
        self.runs += 1
        run = self.runs
        script = json.loads(unquote(encoded))
        await self.perform(script)
        if script.get("nothingHappened") and operation is not None:
            operation.nothing_happened()
        taken_over = operation is not None and operation.lock.taken_over
        if "base64" in script:
            part = base64.b64decode(script["base64"])
        else:
            text = script.get("text", "").replace("{run}", str(run)).replace("{takenOver}", str(taken_over).lower())
            part = text.encode().replace(b"{body}", received)
        body = part * script.get("times", 1)
        headers = [
            (name, value)
            for name, values in script.get("headers", {}).items()
            for value in ([values] if isinstance(values, str) else values)
        ]
        return Reply(script.get("status", 200), headers, [body] * script.get("writes", 1) if body else [])

    async def perform(self, script: Fields) -> None:
        if script.get("hold"):
            await self.finished.wait()
        match script.get("throws"):
            case "error":
                raise RuntimeError("the handler failed")
            case "nothingHappened":
                raise NothingHappened("the handler failed")

    async def handle(self, event: Event, context: Context) -> None:
        self.runs += 1
        if context.tx is not None:
            await context.tx.execute("INSERT INTO handled VALUES (%s)", [event["id"]])
        script: Fields = event["payload"]["handler"]
        await self.perform(script)
        if "rejects" in script:
            try:
                getattr(context, script["rejects"])()
            except Exception:
                if not script.get("catches"):
                    raise
                return
        self.handled += 1

    async def close(self) -> None:
        if self.server and self.task:
            self.server.should_exit = True
            await self.task
        if self.latchkey:
            await self.latchkey.aclose()


def user_of(scope: Scope) -> str:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    return headers.get(b"x-user", b"").decode()


APPS: dict[str, CaseApp] = {}


async def answer(request: Fields) -> Fields:
    app = APPS.setdefault(request["client"], CaseApp())
    match request["do"]:
        case "serve":
            return await app.serve(request["options"])
        case "runs":
            return {"runs": app.runs, "handled": app.handled}
        case "finish":
            app.finished.set()
        case "close":
            await app.close()
    return {}


async def send_answer(request: Fields) -> None:
    try:
        reply: Fields = {"result": await answer(request)}
    except Exception as error:
        reply = {"failed": repr(error)}
    sys.stdout.write(json.dumps({"call": request["call"], **reply}) + "\n")
    sys.stdout.flush()


async def main() -> None:
    # Exceptions of the handlers are expected.
    logging.disable(logging.CRITICAL)
    tasks: set[asyncio.Task[None]] = set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        task = asyncio.create_task(send_answer(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


asyncio.run(main())
