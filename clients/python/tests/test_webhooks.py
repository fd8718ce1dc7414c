from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg as driver
import pytest
from standardwebhooks.webhooks import Webhook
from support import Network, call, environment, lock, new_key

from latchkey import AsyncLatchkey
from latchkey.postgres import AsyncDatabase, psycopg_async
from latchkey.webhooks import (
    Context,
    DeliveryAnswer,
    Event,
    InvalidDelivery,
    Receiver,
    verify,
)

SECRET = "whsec_" + "c2VjcmV0" * 4
OTHER = "whsec_" + "b3RoZXIh" * 4


def delivery(
    body: bytes | None = None, secret: str = SECRET, minutes: int = 0, event_id: str | None = None
) -> tuple[dict[str, str], bytes]:
    """Signs a delivery as Latchkey does."""
    event = {
        "id": event_id or f"evt_{new_key()}",
        "type": "payment.succeeded",
        "provider": "card",
        "providerRawType": "charge.succeeded",
        "tenantId": "ten_1",
        "payload": {},
        "headers": {},
    }
    content = json.dumps(event).encode() if body is None else body
    at = datetime.now(tz=timezone.utc) + timedelta(minutes=minutes)
    signature = Webhook(secret).sign("evt_1", at, content.decode("latin-1") if body else content.decode())
    headers = {"webhook-id": "evt_1", "webhook-timestamp": str(int(at.timestamp())), "webhook-signature": signature}
    return headers, content


async def ignore(_event: Event, _context: Context) -> None: ...


def deliver(
    handler: Callable[[Event, Context], Any],
    *deliveries: tuple[dict[str, str], bytes],
    network: Network | None = None,
    **options: Any,
) -> list[DeliveryAnswer]:
    async def main() -> list[DeliveryAnswer]:
        async with AsyncLatchkey(environment("API_URL"), environment("API_KEY"), transport=network) as latchkey:
            receiver = Receiver(handler, **{"secrets": [SECRET], "latchkey": latchkey, **options})
            return [await receiver.deliver(*each) for each in deliveries]

    return asyncio.run(main())


def test_signed_event_reaches_the_handler_once_and_a_duplicate_is_204() -> None:
    events: list[Event] = []

    async def handle(event: Event, context: Context) -> None:
        assert context.lock is not None and not context.taken_over
        events.append(event)

    signed = delivery()
    assert deliver(handle, signed, signed) == [DeliveryAnswer(204)] * 2
    assert events == [json.loads(signed[1])]
    # Another receiver of the same event.
    assert deliver(handle, signed, name="mails") == [DeliveryAnswer(204)]
    assert len(events) == 2


@pytest.mark.parametrize(
    "name",
    [
        *("wrong secret", "too old", "too new", "no signature", "malformed signature", "changed body", "no event"),
        *("no JSON", "two signs", "over-long time", "other digits", "surrogate in the id"),
    ],
)
def test_delivery_without_a_valid_signature_is_400(name: str) -> None:
    headers, body = {
        "wrong secret": delivery(secret=OTHER),
        "too old": delivery(minutes=-6),
        "too new": delivery(minutes=6),
        "no event": delivery(b"[1]"),
        "no JSON": delivery(b"{"),
    }.get(name, delivery())
    if name == "no signature":
        del headers["webhook-signature"]
    if name == "malformed signature":
        headers["webhook-signature"] = "v1 v1,a v1,\xe4"
    # The first 16 characters of the second one are the present.
    forged = {
        "two signs": "--5",
        "over-long time": f"000000{headers['webhook-timestamp']}999999",
        "other digits": "\u0661" * 10,
    }
    if name in forged:
        headers["webhook-timestamp"] = forged[name]
    if name == "surrogate in the id":
        headers["webhook-id"] = "\udcff"
    if name == "changed body":
        body += b" "
    assert deliver(ignore, (headers, body)) == [DeliveryAnswer(400)]
    with pytest.raises(InvalidDelivery) as refused:
        verify([SECRET], headers, body)
    reason = refused.value.reason
    assert reason == {
        "wrong secret": "signature",
        "changed body": "signature",
        "malformed signature": "signature",
        "no signature": "headers_missing",
        **dict.fromkeys([*forged, "surrogate in the id"], "headers_missing"),
        "too old": "timestamp",
        "too new": "timestamp",
    }.get(name, "body")
    assert f"({reason})" in str(refused.value)


def test_a_wrong_secret_is_logged_once_in_a_while_without_the_secret(caplog: pytest.LogCaptureFixture) -> None:
    wrong = delivery(secret=OTHER)
    with caplog.at_level(logging.WARNING, logger="latchkey"):
        assert deliver(ignore, wrong, wrong, wrong) == [DeliveryAnswer(400)] * 3
    (record,) = [each for each in caplog.records if "was refused" in each.getMessage()]
    text = record.getMessage()
    assert "none of the signing secrets of this receiver made its signature" in text
    for hidden in (SECRET[6:], OTHER[6:], wrong[0]["webhook-signature"], "payment"):
        assert hidden not in text


def test_verify_returns_the_event_whatever_the_case_of_the_headers() -> None:
    headers, body = delivery(event_id="evt_a")
    event = verify([OTHER, SECRET], {name.title(): value for name, value in headers.items()}, body)
    assert (event["id"], event["type"]) == ("evt_a", "payment.succeeded")


@pytest.mark.parametrize("secrets", [[], SECRET, ["whsec_"], ["whsec_a"]])
def test_malformed_secrets_are_refused_without_naming_them(secrets: Any) -> None:
    with pytest.raises(ValueError, match="signing secret") as raised:
        Receiver(ignore, secrets=secrets)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("secrets", "message"),
    [
        ([None], r"`secrets\[0\]` is missing \(None\)"),
        ([SECRET, ""], r"`secrets\[1\]` is missing \(empty\)"),
        ([SECRET, "whsec_a"], r"`secrets\[1\]` is malformed: a signing secret is `whsec_` and base64"),
    ],
)
def test_a_missing_or_malformed_secret_is_named_by_its_place(secrets: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Receiver(ignore, secrets=secrets)


def test_exception_of_the_handler_is_500_logged_and_the_redelivery_is_told(caplog: pytest.LogCaptureFixture) -> None:
    contexts: list[Context] = []

    async def handle(_event: Event, context: Context) -> None:
        contexts.append(context)
        if len(contexts) == 1:
            raise ValueError("broken")

    signed = delivery(event_id=(event_id := f"evt_{new_key()}"))
    with caplog.at_level(logging.ERROR):
        assert deliver(handle, signed) == [DeliveryAnswer(500)]
    assert [(each.getMessage(), each.exc_info and each.exc_info[0]) for each in caplog.records] == [
        (f"an event was not handled {{'id': '{event_id}'}}", ValueError)
    ]
    # The lock was shortened to a second. Its release keeps the mark of the takeover.
    token = lock("webhook events", event_id, waitMs=3000)["lockToken"]
    call("DELETE", "/v1/record", scope="webhook events", key=event_id, lockToken=token)
    assert deliver(handle, signed) == [DeliveryAnswer(204)]
    assert contexts[1].taken_over


def test_every_delivery_reaches_the_handler_without_latchkey() -> None:
    locks: list[Any] = []

    async def handle(_event: Event, context: Context) -> None:
        locks.append(context.lock)

    signed = delivery()
    deliver(handle, signed, signed, latchkey=None)
    assert locks == [None, None]


def test_event_and_effect_are_committed_together_once_in_a_transaction() -> None:
    failures = [RuntimeError("no")]

    async def handle(event: Event, context: Context) -> None:
        await context.tx.execute("INSERT INTO charges (key) VALUES (%s)", (event["id"],))
        if failures:
            raise failures.pop()

    def charges_of(event_id: str) -> int:
        with driver.connect(environment("POSTGRES_URL")) as connection:
            [[count]] = connection.execute("SELECT count(*) FROM charges WHERE key = %s", (event_id,)).fetchall()
            return int(count)

    async def main() -> None:
        receiver = Receiver(handle, secrets=[SECRET], transaction=database())
        signed = delivery(event_id="evt_tx_" + new_key())
        event_id = json.loads(signed[1])["id"]
        # The exception rolls back, and the next two deliveries come at the same time.
        assert await receiver.deliver(*signed) == DeliveryAnswer(500)
        assert charges_of(event_id) == 0
        answers = await asyncio.gather(receiver.deliver(*signed), receiver.deliver(*signed))
        assert list(answers) == [DeliveryAnswer(204)] * 2
        assert charges_of(event_id) == 1

    asyncio.run(main())


def test_receiver_accepts_only_one_way_to_deduplicate() -> None:
    def latchkey() -> AsyncLatchkey:
        raise AssertionError

    with pytest.raises(TypeError, match="not both"):
        Receiver(ignore, secrets=[SECRET], latchkey=latchkey, transaction=database())


def database() -> AsyncDatabase[driver.AsyncConnection[Any]]:
    return psycopg_async(lambda: driver.AsyncConnection.connect(environment("POSTGRES_URL")))
