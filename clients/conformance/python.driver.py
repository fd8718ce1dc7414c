"""Driver of the Python library: makes the calls of the runner, which come as JSON lines. The argument is `sync` or `async`."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import json
import logging
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import fields
from typing import Any

from latchkey import (
    AsyncLatchkey,
    Cache,
    Latchkey,
    LatchkeyOutcomeError,
    LatchkeyRequestError,
    Lock,
    NothingHappened,
    Recovered,
    idempotent,
    unwrap,
)

Fields = dict[str, Any]

_options = {
    "fingerprint": "fingerprint",
    "ttlSeconds": "ttl_seconds",
    "lockSeconds": "lock_seconds",
    "waitMs": "wait_ms",
    "acquireMs": "acquire_ms",
    "saveMs": "save_ms",
    "onUnavailable": "on_unavailable",
    "onTakenOver": "on_taken_over",
}
_write = threading.Lock()
_replies: dict[int, Future[Any]] = {}
_clients: dict[str, Any] = {}
_debug: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("debug", default=None)
_debug_of_threads: list[str] = []


class WorkError(Exception):
    pass


class DebugLines(logging.Handler):
    """Keeps the lines of a call. Those of the library's own threads belong to no call and are kept for all."""

    def emit(self, record: logging.LogRecord) -> None:
        own = _debug.get()
        (_debug_of_threads if own is None else own).append(self.format(record))


def send(message: Fields) -> None:
    with _write:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def ask(call: int, question: str, lock: Lock) -> Future[Any]:
    reply: Future[Any] = Future()
    _replies[call] = reply
    context = {"fence": lock.fence, "takenOver": lock.taken_over, "attemptId": lock.attempt_id}
    send({"call": call, "asks": question, "context": context})
    return reply


def perform(reply: Fields) -> Any:
    """Does what the runner decided for `work`."""
    if "throws" in reply:
        raise WorkError(reply["throws"])
    if "nothingHappened" in reply:
        raise NothingHappened(reply["nothingHappened"])
    if reply.get("returnsNoJson"):
        return float("nan")
    return json.loads(reply["returnsJson"]) if "returnsJson" in reply else reply.get("returns")


def decide(reply: Any) -> Any:
    """Returns the decision of `on_taken_over`."""
    if isinstance(reply, str):
        return reply
    if "throws" in reply:
        raise WorkError(reply["throws"])
    return Recovered(reply["recovered"])


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.title() for each in others)


def fields_of(outcome: Any) -> Fields:
    # An exception of the transport is no JSON.
    names = [each.name for each in fields(outcome) if each.name != "cause"]
    values = {camel(name): getattr(outcome, name) for name in names}
    return {"kind": outcome.kind, **{name: value for name, value in values.items() if value is not None or name == "value"}}


def thrown(error: Exception) -> Fields:
    if isinstance(error, (WorkError, NothingHappened)):
        return {"thrown": "work", "message": str(error)}
    if isinstance(error, LatchkeyRequestError):
        return {"thrown": "request", "code": error.code, "status": error.status}
    if isinstance(error, LatchkeyOutcomeError):
        return {**fields_of(error.outcome), "thrown": "outcome"}
    return {"thrown": "other", "message": repr(error)}


def open_client(kind: Any, request: Fields) -> Fields:
    options = dict(request["options"])
    ahead_s = options.pop("clockAheadMs", 0) / 1000
    if ahead_s:
        # Kept for all later calls of the process, which must not notice it.
        real = time.time
        time.time = lambda: real() + ahead_s
    cache = options.get("cache")
    own = {"cache": Cache(entries_max=cache["entriesMax"], max_age_ms=cache["maxAgeMs"])} if cache else {}
    _clients[request["client"]] = kind(options["url"], options["apiKey"], **own)
    return {}


def options_of(request: Fields) -> Fields:
    return {_options[name]: value for name, value in request["options"].items() if name not in ("scope", "key")}


def run_sync(request: Fields) -> Fields:
    call, options = request["call"], request["options"]
    latchkey: Latchkey = _clients[request["client"]]

    def work(lock: Lock) -> Any:
        ended = threading.Event()
        threading.Thread(target=watch, args=(call, lock, ended), daemon=True).start()
        try:
            return perform(ask(call, "work", lock).result())
        finally:
            ended.set()

    match request["do"]:
        case "once":
            more = {"on_taken_over": lambda lock: decide(ask(call, "recovery", lock).result())} if "recover" in request else {}
            outcome = latchkey.once(options["scope"], options["key"], work, **{**options_of(request), **more})
            return {"kind": "value", "value": unwrap(outcome)} if request.get("unwrap") else fields_of(outcome)
        case "complete":
            bounds = {"save_ms": options["saveMs"]} if "saveMs" in options else {}
            return fields_of(latchkey.complete(options["pending"], **bounds))
        case "fetchRecord":
            return {"record": latchkey.fetch_record(options["scope"], options["key"])}
        case "removeRecord":
            return {"existed": latchkey.remove_record(options["scope"], options["key"])}
        case "decorated":
            lock = Lock("", None, False, threading.Event())

            @idempotent(latchkey, key=lambda *_args: options["key"], scope=options["scope"])
            def charge(*_args: Any) -> Any:
                return work(lock)

            return {"kind": "value", "value": charge(*options["args"])}
    raise ValueError(request["do"])


def watch(call: int, lock: Lock, ended: threading.Event) -> None:
    """Reports that the lock is lost. An event cannot wait for two events."""
    while not ended.is_set():
        if lock.cancelled.wait(0.05):
            send({"call": call, "aborted": True})
            return


async def run_async(request: Fields) -> Fields:
    call, options = request["call"], request["options"]
    latchkey: AsyncLatchkey = _clients[request["client"]]

    async def work(lock: Lock) -> Any:
        reply = asyncio.wrap_future(ask(call, "work", lock))
        while True:
            try:
                return perform(await asyncio.shield(reply))
            except asyncio.CancelledError:
                # Goes on, as `work` that cannot be interrupted does.
                send({"call": call, "aborted": True})

    async def recover(lock: Lock) -> Any:
        return decide(await asyncio.wrap_future(ask(call, "recovery", lock)))

    match request["do"]:
        case "once":
            more = {"on_taken_over": recover} if "recover" in request else {}
            outcome = await latchkey.once(options["scope"], options["key"], work, **{**options_of(request), **more})
            return {"kind": "value", "value": unwrap(outcome)} if request.get("unwrap") else fields_of(outcome)
        case "complete":
            bounds = {"save_ms": options["saveMs"]} if "saveMs" in options else {}
            return fields_of(await latchkey.complete(options["pending"], **bounds))
        case "fetchRecord":
            return {"record": await latchkey.fetch_record(options["scope"], options["key"])}
        case "removeRecord":
            return {"existed": await latchkey.remove_record(options["scope"], options["key"])}
        case "decorated":
            lock = Lock("", None, False, threading.Event())

            @idempotent(latchkey, key=lambda *_args: options["key"], scope=options["scope"])
            async def charge(*_args: Any) -> Any:
                return await work(lock)

            return {"kind": "value", "value": await charge(*options["args"])}
    raise ValueError(request["do"])


def answer_sync(request: Fields) -> None:
    lines: list[str] = []
    _debug.set(lines)
    try:
        result = run_sync(request)
    except Exception as error:
        result = thrown(error)
    send({"call": request["call"], "result": {**result, "debug": lines + _debug_of_threads}})


async def answer_async(request: Fields) -> None:
    lines: list[str] = []
    _debug.set(lines)
    try:
        result = await run_async(request)
    except Exception as error:
        result = thrown(error)
    send({"call": request["call"], "result": {**result, "debug": lines + _debug_of_threads}})


def main(kind: str) -> None:
    logger = logging.getLogger("latchkey")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(DebugLines())
    loop = asyncio.new_event_loop()
    if kind == "async":
        threading.Thread(target=loop.run_forever, daemon=True).start()
    opening = functools.partial(open_client, Latchkey if kind == "sync" else AsyncLatchkey)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("do") == "open":
            send({"call": message["call"], "result": opening(message)})
        elif "do" not in message:
            _replies.pop(message["call"]).set_result(message.get("reply"))
        elif kind == "sync":
            threading.Thread(target=answer_sync, args=(message,), daemon=True).start()
        else:
            asyncio.run_coroutine_threadsafe(answer_async(message), loop)


main(sys.argv[1])
