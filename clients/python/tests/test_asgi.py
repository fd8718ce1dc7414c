from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from latchkey import AsyncLatchkey
from latchkey.asgi import IdempotencyMiddleware, operation_of
from latchkey.idempotency_key import MalformedKey, parse_key_header
from latchkey.stored_response import CapturedResponse, from_record, kept_header_names, to_record
from support import Fate, Network, call, dead_network, environment, new_key

Handle = Callable[[Request], Awaitable[Response]]
PATH = "/charges"


def principal(scope: Any) -> str:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    return headers.get(b"x-user", b"").decode()


def starlette(handle: Handle) -> Starlette:
    return Starlette(routes=[Route(PATH, handle, methods=["GET", "POST", "PUT", "PATCH"])])


def fastapi(handle: Handle) -> FastAPI:
    app = FastAPI()

    @app.api_route(PATH, methods=["GET", "POST", "PUT", "PATCH"])
    async def charge(request: Request) -> Response:
        return await handle(request)

    return app


@pytest.fixture(params=[starlette, fastapi])
def make(request: pytest.FixtureRequest) -> Callable[[Handle], Any]:
    make: Callable[[Handle], Any] = request.param
    return make


class App:
    """App behind the middleware."""

    def __init__(self, app: Any, network: Network | None = None, **options: Any) -> None:
        self._app = app
        self._network = network
        self._options = {"principal": principal, **options}

    async def requests(self, *requests: dict[str, Any], at_once: bool = False) -> list[httpx.Response]:
        address = (environment("API_URL"), environment("API_KEY"))
        async with AsyncLatchkey(*address, transport=self._network) as latchkey:
            guarded = IdempotencyMiddleware(self._app, latchkey, **self._options)
            transport = httpx.ASGITransport(app=guarded)
            async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
                calls = [client.request(**{"method": "POST", "url": PATH, **each}) for each in requests]
                if at_once:
                    return list(await asyncio.gather(*calls))
                return [await each for each in calls]

    def run(self, *requests: dict[str, Any], at_once: bool = False) -> list[httpx.Response]:
        return asyncio.run(self.requests(*requests, at_once=at_once))


def with_key(key: str, user: str = "ada", **fields: Any) -> dict[str, Any]:
    return {"headers": {"idempotency-key": f'"{key}"', "x-user": user}, "content": b'{"amount":4200}', **fields}


def counting(response: Callable[[int], Response]) -> tuple[Handle, list[bytes]]:
    bodies: list[bytes] = []

    async def handle(request: Request) -> Response:
        bodies.append(await request.body())
        return response(len(bodies))

    return handle, bodies


def test_repeated_request_gets_the_first_response_and_the_handler_runs_once(make: Any, key: str) -> None:
    headers = {"location": "/charges/1", "x-other": "x", "set-cookie": "a=b"}
    handle, bodies = counting(lambda count: JSONResponse({"count": count}, 201, headers))
    first, again = App(make(handle)).run(with_key(key), with_key(key))
    assert bodies == [b'{"amount":4200}']
    assert (first.status_code, first.headers["x-other"], first.headers["set-cookie"]) == (201, "x", "a=b")
    assert "idempotent-replayed" not in first.headers
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    assert (again.headers["location"], again.headers["content-type"]) == ("/charges/1", "application/json")
    assert "x-other" not in again.headers and "set-cookie" not in again.headers


def test_two_callers_with_one_key_never_see_each_others_response(make: Any, key: str) -> None:
    handle, _ = counting(lambda count: PlainTextResponse(f"response {count}"))
    users = ["ada", "bob", "ada", "bob", "-"]
    texts = [each.text for each in App(make(handle)).run(*[with_key(key, user) for user in users])]
    assert texts == ["response 1", "response 2", "response 1", "response 2", "response 3"]


def test_caller_that_principal_does_not_know_is_an_exception(make: Any, key: str) -> None:
    handle, bodies = counting(lambda _count: Response())
    with pytest.raises(TypeError, match="principal"):
        App(make(handle)).run(with_key(key, user=""))
    assert bodies == []


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ([("x-user", "ada")], 400, "idempotency_key_missing"),
        ([("x-user", "ada"), ("idempotency-key", "bare")], 400, "idempotency_key_malformed"),
        ([("x-user", "ada"), ("idempotency-key", '"a"'), ("idempotency-key", '"a"')], 400, "idempotency_key_malformed"),
    ],
)
def test_request_without_a_valid_key_is_refused(make: Any, headers: Any, status: int, code: str) -> None:
    handle, bodies = counting(lambda _count: Response())
    [answer] = App(make(handle)).run({"headers": headers})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["code"] == code and answer.json()["status"] == status
    assert answer.json()["type"] == f"https://latchkey.dev/problems/{code.replace('_', '-')}"
    assert answer.json()["detail"].endswith("Keys are kept for 86400 seconds.")
    assert bodies == []


@pytest.mark.parametrize(
    ("request_fields", "options"),
    [({"method": "GET", "content": b""}, {}), ({"method": "PUT"}, {}), ({"headers": {}}, {"required": False})],
)
def test_other_methods_and_requests_that_need_no_key_are_unguarded(
    make: Any, key: str, request_fields: Any, options: Any
) -> None:
    handle, bodies = counting(lambda _count: Response())
    App(make(handle), **options).run(*[with_key(key, **request_fields)] * 2)
    assert len(bodies) == 2


@pytest.mark.parametrize("change", [{"content": b"{}"}, {"url": f"{PATH}?a=b"}])
def test_another_request_under_the_key_is_422(make: Any, key: str, change: Any) -> None:
    handle, _ = counting(lambda _count: Response())
    _, answer = App(make(handle)).run(with_key(key), with_key(key, **change))
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")


def test_body_over_request_bytes_max_is_413(make: Any, key: str) -> None:
    handle, bodies = counting(lambda _count: Response())
    [answer] = App(make(handle), request_bytes_max=10).run(with_key(key))
    assert (answer.status_code, answer.json()["code"], bodies) == (413, "idempotency_request_too_large", [])


def test_request_whose_first_one_still_runs_is_409_with_retry_after(make: Any, key: str) -> None:
    async def main() -> None:
        started, may_end = asyncio.Event(), asyncio.Event()

        async def handle(_request: Request) -> Response:
            started.set()
            await may_end.wait()
            return Response(status_code=201)

        app = App(make(handle), bounds={"wait_ms": 0})
        first = asyncio.create_task(app.requests(with_key(key)))
        await started.wait()
        [answer] = await app.requests(with_key(key))
        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_key_in_use")
        assert answer.headers["retry-after"] == "1"
        may_end.set()
        assert (await first)[0].status_code == 201

    asyncio.run(main())


def test_requests_at_the_same_time_run_the_handler_once(make: Any, key: str) -> None:
    handle, bodies = counting(lambda count: PlainTextResponse(str(count)))
    answers = App(make(handle)).run(*[with_key(key)] * 5, at_once=True)
    assert [each.text for each in answers] == ["1"] * 5
    assert len(bodies) == 1


def test_response_of_500_is_sent_and_the_next_attempt_is_told(make: Any, key: str) -> None:
    handle, bodies = counting(lambda _count: PlainTextResponse("broken", 500))
    first, again = App(make(handle)).run(with_key(key), with_key(key))
    assert (first.status_code, first.text) == (500, "broken")
    assert (again.status_code, again.json()["code"]) == (409, "idempotency_outcome_unknown")
    assert len(bodies) == 1


def test_response_of_500_after_nothing_happened_lets_the_next_attempt_start_anew(make: Any, key: str) -> None:
    async def handle(request: Request) -> Response:
        operation = operation_of(request.scope)
        assert operation is not None and not operation.lock.taken_over
        operation.nothing_happened()
        return Response(status_code=503)

    answers = App(make(handle), bounds={"wait_ms": 0}).run(with_key(key), with_key(key))
    assert [each.status_code for each in answers] == [503, 503]


def test_option_save_decides_which_responses_are_saved(make: Any, key: str) -> None:
    handle, bodies = counting(lambda count: PlainTextResponse(str(count), 500))
    answers = App(make(handle), save=lambda _status: True).run(with_key(key), with_key(key))
    assert [(each.status_code, each.text) for each in answers] == [(500, "1")] * 2


def test_exception_of_the_handler_is_raised(key: str) -> None:
    async def handle(_request: Request) -> Response:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        App(starlette(handle)).run(with_key(key))


def test_unavailable_service_is_503_with_retry_after(make: Any, key: str) -> None:
    handle, bodies = counting(lambda _count: Response())
    [answer] = App(make(handle), dead_network(), bounds={"acquire_ms": 100}).run(with_key(key))
    assert (answer.status_code, answer.json()["code"]) == (503, "idempotency_unavailable")
    assert answer.headers["retry-after"] == "1" and bodies == []


def test_response_whose_save_fails_is_sent(make: Any, key: str) -> None:
    handle, _ = counting(lambda count: PlainTextResponse(str(count), 201))
    network = dead_network(lambda request: request.method == "PUT")
    [answer] = App(make(handle), network, bounds={"save_ms": 100}).run(with_key(key))
    assert (answer.status_code, answer.text) == (201, "1")


def test_response_does_not_wait_long_for_its_save_which_goes_on(key: str) -> None:
    handle, _ = counting(lambda count: PlainTextResponse(str(count), 201))
    fates: list[Fate] = ["lose call"] * 12
    network = Network(*fates, when=lambda request: request.method == "PUT")
    sent_s = 0.0
    guarded: Any = None

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def timed(message: Any) -> None:
            nonlocal sent_s
            sent_s = sent_s or time.monotonic() - started_s
            await send(message)

        await guarded(scope, receive, timed)

    async def main() -> None:
        nonlocal guarded
        address = (environment("API_URL"), environment("API_KEY"))
        async with AsyncLatchkey(*address, transport=network) as latchkey:
            guarded = IdempotencyMiddleware(starlette(handle), latchkey, principal="none")
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://app") as client:
                for replayed in (None, "true"):
                    answer = await client.post(PATH, headers={"idempotency-key": f'"{key}"'})
                    assert (answer.text, answer.headers.get("idempotent-replayed")) == ("1", replayed)

    started_s = time.monotonic()
    asyncio.run(main())
    assert sent_s < 3


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
    make: Any, key: str, response: Any, size: int
) -> None:
    handle, bodies = counting(lambda _count: response())
    response_bytes_max = 199_500 if size == 199_000 else 180 * 1024
    first, again = App(make(handle), response_bytes_max=response_bytes_max).run(with_key(key), with_key(key))
    assert (first.status_code, len(first.content)) == (200, size)
    assert (again.status_code, again.json()["code"]) == (409, "idempotency_response_not_kept")
    assert len(bodies) == 1


def test_events_are_refused_with_an_exception_that_names_the_route(key: str) -> None:
    handle, _ = counting(lambda _count: Response(b"", media_type="text/event-stream"))
    with pytest.raises(RuntimeError, match=PATH):
        App(starlette(handle)).run(with_key(key))


def test_record_of_another_program_is_replayed_as_json(key: str) -> None:
    handle, bodies = counting(lambda _count: Response())
    record = {"status": 202, "headers": {"Location": "/x", "Set-Cookie": "a=b"}, "body": {"ä": 1}}
    call("PUT", "/v1/record", {"scope": f"POST {PATH}", "key": f"-:{key}", **record})
    [answer] = App(starlette(handle), principal="none").run(with_key(key))
    assert (answer.status_code, answer.json(), answer.headers["location"]) == (202, {"ä": 1}, "/x")
    assert "set-cookie" not in answer.headers and bodies == []


def test_scope_beyond_100_characters_is_shortened_by_a_hash(key: str) -> None:
    handle, _ = counting(lambda _count: Response(status_code=204))
    [answer] = App(starlette(handle), principal="none", scope="s" * 300).run(with_key(key))
    scope = "s" * 100 + "~5YiT_xT3fS16fqQkJvzKwr"
    found = call("GET", "/v1/record", scope=scope, key=f"-:{key}")
    assert answer.status_code == 204
    assert found["record"]["status"] == 204


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
