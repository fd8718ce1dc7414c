from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import (
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from support import Network, call, environment

from latchkey import AsyncLatchkey
from latchkey.asgi import IdempotencyMiddleware
from latchkey.idempotency_key import MalformedKey, parse_key_header
from latchkey.stored_response import (
    CapturedResponse,
    from_record,
    kept_header_names,
    to_record,
)

Handle = Callable[[Request], Awaitable[Response]]
PATH = "/charges"


def principal(scope: Any) -> str:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    return headers.get(b"x-user", b"").decode()


def starlette(handle: Handle) -> Starlette:
    return Starlette(routes=[Route(PATH, handle, methods=["POST"])])


class App:
    """App behind the middleware."""

    def __init__(self, app: Any, **options: Any) -> None:
        self._app = app
        self._options = {"principal": principal, **options}

    async def requests(self, *requests: dict[str, Any]) -> list[httpx.Response]:
        async with AsyncLatchkey(environment("API_URL"), environment("API_KEY")) as latchkey:
            guarded = IdempotencyMiddleware(self._app, latchkey, **self._options)
            transport = httpx.ASGITransport(app=guarded)
            async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
                return [await client.request(**{"method": "POST", "url": PATH, **each}) for each in requests]

    def run(self, *requests: dict[str, Any]) -> list[httpx.Response]:
        return asyncio.run(self.requests(*requests))


def with_key(key: str, user: str = "ada", **fields: Any) -> dict[str, Any]:
    return {"headers": {"idempotency-key": f'"{key}"', "x-user": user}, "content": b'{"amount":4200}', **fields}


def counting(response: Callable[[int], Response]) -> tuple[Handle, list[bytes]]:
    bodies: list[bytes] = []

    async def handle(request: Request) -> Response:
        bodies.append(await request.body())
        return response(len(bodies))

    return handle, bodies


def test_caller_that_principal_does_not_know_is_an_exception(key: str) -> None:
    handle, bodies = counting(lambda _count: Response())
    with pytest.raises(TypeError, match="principal"):
        App(starlette(handle)).run(with_key(key, user=""))
    assert bodies == []


def test_exception_of_the_handler_is_raised(key: str) -> None:
    async def handle(_request: Request) -> Response:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        App(starlette(handle)).run(with_key(key))


def test_wrong_bounds_are_refused_when_the_middleware_is_made(key: str) -> None:
    async def latchkey() -> None: ...

    with pytest.raises(ValueError, match="`lock_seconds` must be at least 1, not 0"):
        IdempotencyMiddleware(latchkey, latchkey, principal="none", bounds={"lock_seconds": 0})  # type: ignore[arg-type]


def test_default_scope_is_the_path_as_it_was_sent(key: str) -> None:
    async def handle(_request: Request) -> Response:
        return Response(status_code=204)

    app = Starlette(routes=[Route("/orders/{name}", handle, methods=["POST"])])
    App(app, principal="none").run({**with_key(key), "url": "/orders/caf%C3%A9?a=%20"})
    assert call("GET", "/v1/record", scope="POST /orders/caf%C3%A9", key=f"-:{key}")["cached"] is True


async def parts() -> AsyncIterator[bytes]:
    for _ in range(3):
        yield b"x" * 100_000


async def flushed() -> AsyncIterator[bytes]:
    yield b""
    yield b"late"


@pytest.mark.parametrize(
    ("response", "size"),
    [
        (lambda: Response(b"x" * 200_000), 200_000),
        (lambda: StreamingResponse(parts()), 300_000),
        (lambda: StreamingResponse(flushed()), 4),
        # Refused by the service, since it is longer than 256 KiB as base64.
        (lambda: Response(b"\xff" * 199_000), 199_000),
    ],
)
def test_response_that_cannot_be_kept_is_sent_whole_and_the_handler_does_not_run_again(
    key: str, response: Any, size: int
) -> None:
    handle, bodies = counting(lambda _count: response())
    response_bytes_max = 199_500 if size == 199_000 else 180 * 1024
    first, again = App(starlette(handle), response_bytes_max=response_bytes_max).run(with_key(key), with_key(key))
    assert (first.status_code, len(first.content)) == (200, size)
    assert (again.status_code, again.json()["code"]) == (409, "idempotency_response_not_kept")
    assert len(bodies) == 1


def test_events_are_refused_with_an_exception_that_names_the_route(key: str) -> None:
    handle, _ = counting(lambda _count: Response(b"", media_type="text/event-stream"))
    with pytest.raises(RuntimeError, match=PATH):
        App(starlette(handle)).run(with_key(key))


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ('"a"', "a"),
        (r' "a \" \\ b"; p=1;q="x" ', r'a " \ b'),
        (f'"{"k" * 200}"', "k" * 200),
        (f'"{"k" * 201}"', None),
        ('""', None),
        ("a", None),
        ('"a", "b"', None),
        ('"ä"', None),
        ('"a"\n', None),
    ],
)
def test_key_header_is_a_structured_field_string(value: str, key: str | None) -> None:
    if key is not None:
        assert parse_key_header([value]) == key
        return
    with pytest.raises(MalformedKey):
        parse_key_header([value])


def test_key_header_without_quotation_marks_is_accepted_on_demand() -> None:
    assert parse_key_header(["8e03978e-40d5"], accept_unquoted=True) == "8e03978e-40d5"
    for value in ("a b", "a,b", 'a"b'):
        with pytest.raises(MalformedKey):
            parse_key_header([value], accept_unquoted=True)


@pytest.mark.parametrize("body", [b"", "ä\ufeff".encode(), b"\xff\x00", b"\x01" * 50, b'{"a":"b"}'])
def test_response_becomes_the_same_bytes_again(body: bytes) -> None:
    names = kept_header_names([])
    response = CapturedResponse(200, {"etag": "x"}, body)
    record = to_record(response)
    assert from_record(record, names) == response
    if record["headers"]["latchkey-body"] == "base64":
        assert base64.b64decode(record["body"]) == body


def test_set_cookie_cannot_be_kept() -> None:
    with pytest.raises(ValueError, match="set-cookie"):
        kept_header_names(["Set-Cookie"])


def test_response_that_ends_early_because_the_caller_hung_up_is_never_replayed(key: str) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"begin"
        await asyncio.Event().wait()

    async def handle(_request: Request) -> Response:
        return StreamingResponse(slow())

    messages = iter([{"type": "http.request", "body": b""}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        return next(messages)

    async def send(_message: Any) -> None: ...

    async def main() -> None:
        async with AsyncLatchkey(environment("API_URL"), environment("API_KEY")) as latchkey:
            guarded = IdempotencyMiddleware(starlette(handle), latchkey, "none")
            fields = {"method": "POST", "path": PATH, "query_string": b"", "root_path": ""}
            headers = [(b"idempotency-key", f'"{key}"'.encode())]
            scope = {"type": "http", "asgi": {"spec_version": "2.3"}, "headers": headers, **fields}
            with pytest.raises(RuntimeError, match="before its response was complete"):
                await guarded(scope, receive, send)

    asyncio.run(main())
    assert call("GET", "/v1/record", scope=f"POST {PATH}", key=f"-:{key}")["cached"] is False


@pytest.mark.parametrize("status", [201, 503])
def test_background_task_neither_delays_nor_undoes_the_response(key: str, status: int) -> None:
    may_end, runs = asyncio.Event(), 0

    async def mail() -> None:
        await asyncio.wait_for(may_end.wait(), 5)
        raise ValueError("mail")

    async def handle(_request: Request) -> Response:
        nonlocal runs
        runs += 1
        return Response(b"charged", status, background=BackgroundTask(mail))

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def request(guarded: IdempotencyMiddleware) -> list[Any]:
        messages: list[Any] = []

        async def send(message: Any) -> None:
            messages.append(message)
            if message["type"] == "http.response.body":
                may_end.set()

        fields = {"method": "POST", "path": PATH, "query_string": b"", "root_path": ""}
        headers = [(b"idempotency-key", f'"{key}"'.encode())]
        with pytest.raises(ValueError, match="mail") if runs == 0 else nullcontext():
            await guarded({"type": "http", "asgi": {}, "headers": headers, **fields}, receive, send)
        return [message.get("status", message.get("body")) for message in messages]

    async def main() -> None:
        async with AsyncLatchkey(environment("API_URL"), environment("API_KEY")) as latchkey:
            guarded = IdempotencyMiddleware(starlette(handle), latchkey, "none", save=lambda _status: status == 201)
            assert await request(guarded) == [status, b"charged"]
            if status == 201:
                assert await request(guarded) == [status, b"charged"]

    asyncio.run(main())
    assert runs == 1


def test_lock_lost_while_a_response_is_sent_is_an_exception_and_no_second_response(key: str) -> None:
    sent: list[Any] = []

    async def endless() -> AsyncIterator[bytes]:
        yield b""
        await asyncio.Event().wait()

    async def handle(_request: Request) -> Response:
        return StreamingResponse(endless())

    messages = iter([{"type": "http.request", "body": b""}])

    async def receive() -> Any:
        for message in messages:
            return message
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async def main() -> None:
        lost = httpx.Response(409, json={"code": "lock_lost", "message": "Lost"})
        network = Network(lost, when=lambda request: request.url.path.endswith("/extend"))
        async with AsyncLatchkey(environment("API_URL"), environment("API_KEY"), transport=network) as latchkey:
            guarded = IdempotencyMiddleware(starlette(handle), latchkey, "none", bounds={"lock_seconds": 1})
            fields = {"method": "POST", "path": PATH, "query_string": b"", "root_path": ""}
            headers = [(b"idempotency-key", f'"{key}"'.encode())]
            with pytest.raises(RuntimeError, match="lock was lost"):
                await guarded({"type": "http", "asgi": {}, "headers": headers, **fields}, receive, send)

    asyncio.run(main())
    assert sent.count("http.response.start") == 1
