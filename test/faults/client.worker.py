"""Makes operations with the library for Python, as JSON lines ask for them, and ends itself where one says so."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg as driver

from latchkey import AsyncLatchkey, Latchkey, Lock, Ran, Replayed
from latchkey.postgres import psycopg, psycopg_async, with_transaction

DATABASE_URL = os.environ["CALLERS_DATABASE_URL"]
INSERT = "INSERT INTO effects (key, by) VALUES (%s, %s)"
WRITE = threading.Lock()
SYNC = httpx.HTTPTransport(limits=httpx.Limits(max_connections=100))
BOUNDS = {
    "waitMs": "wait_ms",
    "acquireMs": "acquire_ms",
    "saveMs": "save_ms",
    "claimMs": "claim_ms",
    "commitMs": "commit_ms",
    "lockSeconds": "lock_seconds",
}


def die() -> None:
    """Ends this process as if its machine had lost power."""
    os.kill(os.getpid(), signal.SIGKILL)


class DyingTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Transport of one operation."""

    def __init__(self, die_at: str | None, over: httpx.AsyncBaseTransport | None = None) -> None:
        self._die_at = die_at
        self._over = over

    def _step(self, when: str, request: httpx.Request) -> None:
        is_acquisition = request.method == "POST" and request.url.path == "/v1/record"
        name = "acquisition" if is_acquisition else "save" if request.method == "PUT" else ""
        if self._die_at == f"{when} the {name}":
            die()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._step("before", request)
        response = SYNC.handle_request(request)
        self._step("after", request)
        return response

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        assert self._over is not None
        self._step("before", request)
        response = await self._over.handle_async_request(request)
        self._step("after", request)
        return response

    def close(self) -> None: ...

    async def aclose(self) -> None: ...


def bounds_of(request: dict[str, Any]) -> dict[str, Any]:
    is_transaction = request["kind"] == "transaction"
    return {
        BOUNDS[name]: value
        for name, value in request["bounds"].items()
        if is_transaction or name not in ("claimMs", "commitMs")
    }


def answer(request: dict[str, Any], outcome: Any) -> None:
    result = {"outcome": outcome if isinstance(outcome, str) else outcome.kind}
    if isinstance(outcome, (Ran, Replayed)):
        result["by"] = outcome.value["by"]
    with WRITE:
        print(json.dumps({"call": request["call"], "result": result}), flush=True)


def connect() -> driver.Connection[Any]:
    return driver.connect(DATABASE_URL, connect_timeout=2)


def run(request: dict[str, Any]) -> None:
    key, effect = request["key"], {"by": request["id"]}

    def work(connection: driver.Connection[Any]) -> dict[str, str]:
        connection.execute(INSERT, (key, request["id"]))
        if request.get("dieAt") == "after the effect":
            die()
        return effect

    def work_alone(_lock: Lock) -> dict[str, str]:
        with connect() as connection:
            connection.autocommit = True
            return work(connection)

    latchkey = Latchkey(request["url"], request["apiKey"], transport=DyingTransport(request.get("dieAt")))
    try:
        if request["kind"] == "transaction":
            database = psycopg(connect)
            answer(request, with_transaction(latchkey, database, "chaos", key, lambda tx, _lock: work(tx), **bounds_of(request)))
        else:
            answer(request, latchkey.once("chaos", key, work_alone, **bounds_of(request)))
    except Exception as error:
        answer(request, f"exception: {error!r}")


async def run_async(request: dict[str, Any], over: httpx.AsyncBaseTransport) -> None:
    key, effect = request["key"], {"by": request["id"]}

    async def work(connection: driver.AsyncConnection[Any]) -> dict[str, str]:
        await connection.execute(INSERT, (key, request["id"]))
        if request.get("dieAt") == "after the effect":
            die()
        return effect

    async def connect_async() -> driver.AsyncConnection[Any]:
        return await driver.AsyncConnection.connect(DATABASE_URL, connect_timeout=2)

    async def work_alone(_lock: Lock) -> dict[str, str]:
        async with await connect_async() as connection:
            await connection.set_autocommit(True)
            return await work(connection)

    transport = DyingTransport(request.get("dieAt"), over)
    latchkey = AsyncLatchkey(request["url"], request["apiKey"], transport=transport)
    try:
        if request["kind"] == "transaction":
            database = psycopg_async(connect_async)
            answer(request, await with_transaction(latchkey, database, "chaos", key, lambda tx, _lock: work(tx), **bounds_of(request)))
        else:
            answer(request, await latchkey.once("chaos", key, work_alone, **bounds_of(request)))
    except Exception as error:
        answer(request, f"exception: {error!r}")


async def main_async() -> None:
    over = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_connections=100))
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        task = asyncio.create_task(run_async(json.loads(line), over))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def main_sync() -> None:
    with ThreadPoolExecutor(32) as threads:
        for line in sys.stdin:
            threads.submit(run, json.loads(line))


if sys.argv[1] == "async":
    asyncio.run(main_async())
else:
    main_sync()
