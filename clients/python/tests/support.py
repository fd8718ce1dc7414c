"""Clients of both kinds behind one interface, and a network that loses calls."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import httpx

from latchkey import AsyncLatchkey, Latchkey, Lock, Outcome, Pending, SavedRecord

Fate = Literal["lose call", "lose answer", "pass"] | httpx.Response
Kind = Literal["sync", "async"]


def environment(name: str) -> str:
    return os.environ[name]


class Network(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Network to the real service. Each call meets the next fate; those after them pass."""

    def __init__(self, *fates: Fate, when: Callable[[httpx.Request], bool] = lambda _request: True) -> None:
        self._sync = httpx.HTTPTransport()
        self._async = httpx.AsyncHTTPTransport()
        self._fates = list(fates)
        self._when = when
        self.calls: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        fate = self._fate(request)
        if isinstance(fate, httpx.Response):
            return fate
        if fate == "lose call":
            raise httpx.ConnectError("lost")
        response = self._sync.handle_request(request)
        if fate == "lose answer":
            response.read()
            response.close()
            raise httpx.ReadError("lost")
        return response

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        fate = self._fate(request)
        if isinstance(fate, httpx.Response):
            return fate
        if fate == "lose call":
            raise httpx.ConnectError("lost")
        response = await self._async.handle_async_request(request)
        if fate == "lose answer":
            await response.aread()
            await response.aclose()
            raise httpx.ReadError("lost")
        return response

    def _fate(self, request: httpx.Request) -> Fate:
        self.calls.append(f"{request.method} {request.url.path}")
        return self._fates.pop(0) if self._fates and self._when(request) else "pass"

    def close(self) -> None:
        self._sync.close()

    async def aclose(self) -> None:
        await self._async.aclose()


def dead_network(when: Callable[[httpx.Request], bool] = lambda _request: True) -> Network:
    """Returns a network that loses all these calls."""
    fates: list[Fate] = ["lose call"] * 1000
    return Network(*fates, when=when)


class Client:
    """Calls `Latchkey` or `AsyncLatchkey`."""

    def __init__(self, kind: Kind, network: Network | None = None, **options: Any) -> None:
        self.kind = kind
        self.network = network or Network()
        self._address = (environment("API_URL"), options.pop("api_key", environment("API_KEY")))
        self._options = options
        self._latchkey = Latchkey(*self._address, transport=self.network, **options)

    def _run(self, call: Callable[[AsyncLatchkey], Awaitable[Any]]) -> Any:
        # The transport is open for the run only; the cache is kept with the first client.
        async def run() -> Any:
            async with AsyncLatchkey(*self._address, transport=self.network, **self._options) as latchkey:
                latchkey._cache = self._latchkey._cache
                result = await call(latchkey)
            self.network._async = httpx.AsyncHTTPTransport()
            return result

        return asyncio.run(run())

    def once(self, scope: str, key: str, work: Callable[[Lock], Any], **options: Any) -> Outcome[Any]:
        if self.kind == "sync":
            return self._latchkey.once(scope, key, work, **options)

        async def work_async(lock: Lock) -> Any:
            return await asyncio.to_thread(work, lock)

        outcome: Outcome[Any] = self._run(lambda latchkey: latchkey.once(scope, key, work_async, **options))
        return outcome

    def complete(self, pending: Pending, **options: Any) -> Outcome[Any]:
        if self.kind == "sync":
            return self._latchkey.complete(pending, **options)
        outcome: Outcome[Any] = self._run(lambda latchkey: latchkey.complete(pending, **options))
        return outcome

    def fetch_record(self, scope: str, key: str) -> SavedRecord | None:
        if self.kind == "sync":
            return self._latchkey.fetch_record(scope, key)
        record: SavedRecord | None = self._run(lambda latchkey: latchkey.fetch_record(scope, key))
        return record

    def remove_record(self, scope: str, key: str) -> bool:
        if self.kind == "sync":
            return self._latchkey.remove_record(scope, key)
        existed: bool = self._run(lambda latchkey: latchkey.remove_record(scope, key))
        return existed

    def close(self) -> None:
        self._latchkey.close()


def call(method: str, path: str, body: object = None, **query: str) -> dict[str, Any]:
    """Calls the service as another program does."""
    headers = {"Authorization": f"Bearer {environment('API_KEY')}"}
    url = environment("API_URL") + path
    answer = httpx.request(method, url, json=body, params=query, headers=headers)
    result: dict[str, Any] = answer.json()
    return result


def lock(scope: str, key: str, **fields: Any) -> dict[str, Any]:
    """Takes the lock of a key as another program does."""
    return call("POST", "/v1/record", {"scope": scope, "key": key, **fields})


def new_key() -> str:
    return str(uuid.uuid4())
