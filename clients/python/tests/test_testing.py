from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any, get_args

import pytest

from latchkey import AsyncLatchkey, Busy, Latchkey, Lock, Ran, Replayed, TakenOver, Unavailable, Unknown
from latchkey.event_types import EventType
from latchkey.testing import Failure, TestServer, signed_event
from latchkey.webhooks import InvalidDelivery, Receiver, verify

SECRET = "whsec_" + "c2VjcmV0" * 4


@pytest.fixture
def server() -> TestServer:
    return TestServer()


@pytest.fixture
def latchkey(server: TestServer) -> Latchkey:
    return Latchkey(server.url, server.api_key, transport=server)


def test_functions_run_once_and_the_state_of_the_key_is_seen(server: TestServer, latchkey: Latchkey) -> None:
    assert server.state_of("orders", "1").kind == "none"

    def work(_lock: Lock) -> str:
        assert server.state_of("orders", "1").kind == "held"
        return "shipped"

    assert latchkey.once("orders", "1", work) == Ran("shipped")
    assert latchkey.once("orders", "1", work) == Replayed("shipped")
    record = server.state_of("orders", "1").record
    assert record is not None and record["body"] == "shipped"


def test_coroutines_wait_for_a_busy_key_and_replay(server: TestServer) -> None:
    async def main() -> None:
        async with AsyncLatchkey(server.url, server.api_key, transport=server) as latchkey:

            async def work(_lock: Lock) -> int:
                await asyncio.sleep(0.05)
                return 1

            outcomes = await asyncio.gather(*(latchkey.once("orders", "1", work) for _ in range(5)))
            assert sorted(each.kind for each in outcomes) == ["ran", *["replayed"] * 4]

    asyncio.run(main())


def test_functions_in_threads_wait_for_a_busy_key_and_replay(latchkey: Latchkey) -> None:
    with ThreadPoolExecutor(5) as threads:
        calls = [threads.submit(latchkey.once, "orders", "1", lambda _lock: 1) for _ in range(5)]
    assert sorted(each.result().kind for each in calls) == ["ran", *["replayed"] * 4]


def test_clock_ends_locks_and_records(server: TestServer, latchkey: Latchkey) -> None:
    def die(_lock: Lock) -> None:
        raise KeyboardInterrupt

    server.fail_next("call_lost", operation="extend", times=100)
    with pytest.raises(KeyboardInterrupt):
        latchkey.once("orders", "1", die)
    assert latchkey.once("orders", "1", die, wait_ms=0) == Busy(1000)
    server.advance(60_000)
    assert server.state_of("orders", "1").kind == "over"
    assert latchkey.once("orders", "1", die, wait_ms=0) == TakenOver("before")
    assert server.state_of("orders", "1").kind == "released"
    latchkey.once("orders", "2", lambda _lock: 1, ttl_seconds=10)
    server.advance(10_001)
    assert latchkey.once("orders", "2", lambda _lock: 2) == Ran(2)


def test_clock_wakes_a_caller_that_waits(server: TestServer) -> None:
    async def main() -> None:
        async with AsyncLatchkey(server.url, server.api_key, transport=server) as latchkey:
            server.fail_next("call_lost", operation="extend", times=100)

            async def hold(_lock: Lock) -> None:
                await asyncio.sleep(5)

            async def work(_lock: Lock) -> int:
                return 2

            holder = asyncio.create_task(latchkey.once("orders", "1", hold))
            await asyncio.sleep(0.05)
            waiter = asyncio.create_task(latchkey.once("orders", "1", work, on_taken_over="run"))
            await asyncio.sleep(0.05)
            server.advance(60_000)
            assert await asyncio.wait_for(waiter, 2) == Ran(2)
            holder.cancel()
            await asyncio.wait({holder})

    asyncio.run(main())


def test_failures_of_calls(server: TestServer, latchkey: Latchkey) -> None:
    server.fail_next("answer_lost", operation="acquire")
    server.fail_next("answer_lost", operation="save")
    assert latchkey.once("orders", "1", lambda _lock: 1) == Ran(1)
    server.fail_next(Failure(503, "store_unavailable", 7))
    outcome = latchkey.once("orders", "2", lambda _lock: 1, acquire_ms=0)
    assert outcome == Unavailable("store_unavailable", 7000)
    server.fail_next("call_lost", operation="save", times=2)
    assert isinstance(latchkey.once("orders", "3", lambda _lock: 1, save_ms=0), Unknown)


def test_every_type_of_the_catalogue_has_a_signed_sample() -> None:
    for type in get_args(EventType):
        delivery = signed_event(type, secret=SECRET)
        assert verify([SECRET], delivery.headers, delivery.body) == delivery.event
        assert delivery.event["type"] == type and delivery.event["payload"]


def test_sample_can_be_chosen_and_changed() -> None:
    at = datetime.now(tz=timezone.utc) - timedelta(minutes=2)
    delivery = signed_event(
        "chargeback.created",
        secret=SECRET,
        provider="wallet",
        payload={"resource": {"reason": "OTHER"}, "more": [1]},
        at=at,
        occurred_at=at - timedelta(hours=1),
        id="evt_1",
        tenant_id="ten_1",
    )
    event: dict[str, Any] = json.loads(delivery.body)
    assert (event["id"], event["provider"], event["tenantId"]) == ("evt_1", "wallet", "ten_1")
    assert event["payload"]["resource"]["reason"] == "OTHER" and event["payload"]["more"] == [1]
    assert len(event["payload"]["resource"]) > 1
    assert event["occurredAt"] < event["receivedAt"] and event["receivedAt"].endswith("Z")
    verify([SECRET], delivery.headers, delivery.body)


def test_sample_signed_too_long_ago_is_refused() -> None:
    delivery = signed_event("payment.succeeded", secret=SECRET, at=datetime.now(tz=timezone.utc) - timedelta(minutes=6))
    with pytest.raises(InvalidDelivery):
        verify([SECRET], delivery.headers, delivery.body)


@pytest.mark.parametrize("at", [datetime.now(timezone(timedelta(hours=2))), datetime.now(timezone(-timedelta(hours=7)))])
def test_time_of_a_sample_can_be_in_any_time_zone(at: datetime) -> None:
    delivery = signed_event("payment.succeeded", secret=SECRET, at=at)
    assert verify([SECRET], delivery.headers, delivery.body) == delivery.event


def test_time_of_a_sample_without_a_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        delivery = signed_event("payment.succeeded", secret=SECRET, at=datetime.now())
        assert verify([SECRET], delivery.headers, delivery.body) == delivery.event
    finally:
        monkeypatch.undo()
        time.tzset()


def test_empty_values_of_a_sample_are_kept() -> None:
    event = signed_event("payment.succeeded", secret=SECRET, headers={}, provider_raw_type="").event
    assert (event["headers"], event["providerRawType"]) == ({}, "")


@pytest.mark.parametrize(("type", "provider"), [("no.such_type", None), ("payment.succeeded", "codehost")])
def test_unknown_type_or_provider_is_refused(type: str, provider: Any) -> None:
    with pytest.raises(ValueError, match="the catalogue has no"):
        signed_event(type, secret=SECRET, provider=provider)


def test_receiver_drops_a_duplicate_of_a_signed_event(server: TestServer) -> None:
    handled: list[str] = []

    async def handle(event: Any, _context: Any) -> None:
        handled.append(event["id"])

    async def main() -> None:
        latchkey = AsyncLatchkey(server.url, server.api_key, transport=server)
        receiver = Receiver(handle, secrets=[SECRET], latchkey=latchkey)
        delivery = signed_event("payment.succeeded", secret=SECRET)
        answers = [await receiver.deliver(delivery.headers, delivery.body) for _ in range(2)]
        assert [each.status for each in answers] == [204, 204]

    asyncio.run(main())
    assert len(handled) == 1
