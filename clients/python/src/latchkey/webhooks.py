"""Receiver of webhooks."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, NoReturn, cast

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from .aio import AsyncLatchkey
from .asgi import Receive, Scope, Send
from .errors import NothingHappened
from .event_types import Event, EventProvider, EventType
from .commit_once import Claim, Committed, commit_once
from .once import VALUE_CODEC
from .outcomes import Busy, Replayed, Unavailable, UnknownCommit
from .postgres import AsyncDatabase, commit_async
from .steps import Environment, Lock

__all__ = [
    "Context",
    "DeliveryAnswer",
    "Event",
    "EventProvider",
    "EventType",
    "InvalidDelivery",
    "InvalidDeliveryReason",
    "Receiver",
    "verify",
]

_logger = logging.getLogger("latchkey")
# Latchkey delivers payloads of up to 25 MiB, in an object with the other fields of the event.
_BODY_BYTES_DEFAULT = 26 * 1024 * 1024
# Longer than the schedule of redeliveries.
_TTL_SECONDS_DEFAULT = 7 * 86_400
_NAME_CHARS_MAX = 100
_BUSY_RETRY_MS = 1000
# Shorter than the time-out of a callback, which is 15 s by default.
_ACQUIRE_MS = 3000
_SAVE_MS = 3000
_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")
_TIMESTAMP = re.compile(r"-?[0-9]{1,15}")

_TOLERANCE_SECONDS = 5 * 60
# Unauthenticated callers reach a receiver, so refusals are logged at a bounded rate.
_LOG_EVERY_SECONDS = 10.0

InvalidDeliveryReason = Literal["headers_missing", "timestamp", "signature", "body"]

_REASONS: Mapping[InvalidDeliveryReason, str] = {
    "headers_missing": "it has no webhook-id, webhook-timestamp or webhook-signature: Latchkey did not send it",
    "timestamp": "its webhook-timestamp differs from the clock of this machine by more than 5 minutes",
    "signature": "none of the signing secrets of this receiver made its signature: compare them with the Secret of the tenant in"
    " Latchkey, and pass the body as received",
    "body": "its body is not an event of Latchkey",
}


class InvalidDelivery(Exception):
    """A delivery was refused. The message contains no secret and nothing of the delivery."""

    reason: InvalidDeliveryReason
    """`headers_missing`: one of `webhook-id`, `webhook-timestamp` and `webhook-signature` is missing or malformed. `timestamp`: its time
    differs from this clock by more than 5 minutes. `signature`: none of the secrets made its signature. `body`: it is signed, and no
    event."""

    def __init__(self, reason: InvalidDeliveryReason) -> None:
        super().__init__(f"Latchkey: a delivery was refused ({reason}): {_REASONS[reason]}")
        self.reason = reason


def verify(secrets: Sequence[str], headers: Mapping[str, str], body: bytes) -> Event:
    """Returns the event of a delivery that any of these secrets (`whsec_…`) signed, for frameworks that are not on ASGI. `body` is the
    body as received. Raises `InvalidDelivery`, which should be answered with 400, and `ValueError` for a malformed secret."""
    return _verify(_webhooks_of(secrets), headers, body)


def _webhooks_of(secrets: Sequence[str]) -> list[Webhook]:
    if isinstance(secrets, str) or not secrets:
        raise ValueError("Latchkey: the receiver needs a list of signing secrets")
    return [_webhook_of(secret, f"`secrets[{index}]`") for index, secret in enumerate(secrets)]


def _webhook_of(secret: str | None, where: str) -> Webhook:
    if secret is None or secret == "":
        state = "None" if secret is None else "empty"
        raise ValueError(
            f"Latchkey: {where} is missing ({state}): pass the signing secret of the tenant, such as"
            " os.environ['LATCHKEY_SIGNING_SECRET']"
        )
    try:
        return Webhook(secret)
    except Exception:
        # The text of the exception may contain a part of the secret.
        raise ValueError(
            f"Latchkey: {where} is malformed: a signing secret is `whsec_` and base64, as the Secret of the tenant has it"
        ) from None


def _verify(webhooks: Sequence[Webhook], headers: Mapping[str, str], body: bytes) -> Event:
    lower = {name.lower(): value for name, value in headers.items()}
    signed = {name: lower.get(name, "") for name in _HEADERS}
    for webhook in webhooks:
        try:
            event = webhook.verify(body, signed)
        except (WebhookVerificationError, ValueError, RecursionError):
            # Perhaps another secret signed it. ValueError: malformed base64, UTF-8 or JSON.
            continue
        if _is_event(event):
            return cast(Event, event)
        raise InvalidDelivery("body")
    raise InvalidDelivery(_refusal_of(webhooks, signed, body))


def _refusal_of(webhooks: Sequence[Webhook], signed: Mapping[str, str], body: bytes) -> InvalidDeliveryReason:
    if not all(signed.values()) or not _TIMESTAMP.fullmatch(signed["webhook-timestamp"]):
        return "headers_missing"
    seconds = int(signed["webhook-timestamp"])
    if abs(time.time() - seconds) > _TOLERANCE_SECONDS:
        return "timestamp"
    # A signed body that is not JSON fails like a wrong signature.
    at = datetime.fromtimestamp(seconds, tz=timezone.utc)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return "body"
    given = set(signed["webhook-signature"].split(" "))
    try:
        is_signed = any(webhook.sign(signed["webhook-id"], at, text) in given for webhook in webhooks)
    except UnicodeEncodeError:
        # Some servers decode the bytes of a header to surrogates.
        return "headers_missing"
    return "body" if is_signed else "signature"


class _RefusalLog:
    """Logs at most one refusal in 10 s, with the number of those that it left out."""

    def __init__(self) -> None:
        self._quiet_until = 0.0
        self._hidden = 0

    def add(self, error: InvalidDelivery) -> None:
        now = time.monotonic()
        if now < self._quiet_until:
            self._hidden += 1
            return
        self._quiet_until = now + _LOG_EVERY_SECONDS
        hidden, self._hidden = self._hidden, 0
        _logger.warning("%s %s", error, {"reason": error.reason, "left_out": hidden})


def _is_event(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    texts = (value.get(name) for name in ("id", "provider", "providerRawType", "type", "tenantId"))
    objects = (value.get(name) for name in ("payload", "headers"))
    return all(isinstance(each, str) for each in texts) and all(isinstance(each, dict) for each in objects)


@dataclass(frozen=True)
class DeliveryAnswer:
    """Response of a receiver. Never has a body."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


class _Rejection(NothingHappened):
    """Raised by `gone`, `disable` and `abort`."""

    def __init__(self, answer: DeliveryAnswer) -> None:
        super().__init__(f"Latchkey: the handler rejected the event with status {answer.status}")
        self.answer = answer


@dataclass
class Context:
    """Passed to a handler with the event."""

    lock: Lock | None
    """Lock of the event; None without `latchkey`."""
    taken_over: bool
    """An earlier delivery of the event ended without a result, so its effect may have happened."""
    tx: Any = None
    """Open transaction with the option `transaction`, else None: the driver's own object. Its statements are committed together with the
    event."""
    _rejection: _Rejection | None = None

    def gone(self) -> NoReturn:
        """Rejects the event with 410: it fails without another delivery, and Latchkey suspends the callback. Raises an exception."""
        self._reject(DeliveryAnswer(410))

    def disable(self) -> NoReturn:
        """Rejects the event with `webhook-delivery: disable`: it fails without another delivery, and Latchkey suspends the callback.
        Raises an exception."""
        self._reject(DeliveryAnswer(422, {"webhook-delivery": "disable"}))

    def abort(self) -> NoReturn:
        """Rejects the event with `webhook-delivery: abort-message`: it fails without another delivery. Raises an exception."""
        self._reject(DeliveryAnswer(422, {"webhook-delivery": "abort-message"}))

    def _reject(self, answer: DeliveryAnswer) -> NoReturn:
        self._rejection = _Rejection(answer)
        raise self._rejection


Handler = Callable[[Event, Context], Awaitable[Any]]


class Receiver:
    """ASGI app that receives deliveries: `app.routes.append(Route("/webhooks", Receiver(handle, secrets=[secret], latchkey=latchkey)))`.
    Without ASGI, use `deliver`."""

    def __init__(
        self,
        handler: Handler,
        *,
        secrets: Sequence[str],
        latchkey: AsyncLatchkey | Callable[[], AsyncLatchkey] | None = None,
        transaction: AsyncDatabase[Any] | None = None,
        name: str = "events",
        body_bytes_max: int = _BODY_BYTES_DEFAULT,
        ttl_seconds: int = _TTL_SECONDS_DEFAULT,
    ) -> None:
        """`secrets`: the tenant's signing secrets. A delivery that any of them signed is accepted. `latchkey`: deduplicates by records
        of the service, so that the handler runs once per event, unless its process ends before it is finished. `transaction`:
        deduplicates in a database, in whose transactions the handler runs, so that its effect and the event are committed together;
        `context.tx` is the transaction. Without either, every delivery reaches the handler. `name`: distinguishes receivers of the same
        events. `ttl_seconds`: how long duplicates of an event are detected. Raises `ValueError` for malformed secrets, and `TypeError`
        for both `latchkey` and `transaction`."""
        if latchkey is not None and transaction is not None:
            raise TypeError("Latchkey: a receiver takes `latchkey` or `transaction`, not both")
        if not 1 <= len(name) <= _NAME_CHARS_MAX:
            raise ValueError(f"Latchkey: the name of a receiver has 1 to {_NAME_CHARS_MAX} characters")
        self._handler = handler
        self._webhooks = _webhooks_of(secrets)
        self._refusals = _RefusalLog()
        self._latchkey = latchkey
        self._transaction = transaction
        self._scope = f"webhook {name}"
        self._body_bytes_max = body_bytes_max
        self._ttl_seconds = ttl_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError("Latchkey: a receiver takes HTTP only")
        if scope["method"] != "POST":
            return await _send(send, DeliveryAnswer(405, {"allow": "POST"}))
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if len(body) > self._body_bytes_max:
                return await _send(send, DeliveryAnswer(413))
            if not message.get("more_body", False):
                break
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        await _send(send, await self.deliver(headers, bytes(body)))

    async def deliver(self, headers: Mapping[str, str], body: bytes) -> DeliveryAnswer:
        """Handles a delivery and returns the response. Exceptions of the handler, and refusals at most once in 10 s, are logged."""
        if len(body) > self._body_bytes_max:
            return DeliveryAnswer(413)
        try:
            event = _verify(self._webhooks, headers, body)
        except InvalidDelivery as error:
            self._refusals.add(error)
            return DeliveryAnswer(400)
        failures: list[Exception] = []
        try:
            return await self._handle_once(event, failures)
        except _Rejection as rejection:
            return rejection.answer
        except Exception as error:
            if failures:
                _logger.error("an event was not handled %s", {"id": event["id"]}, exc_info=failures[0])
                return DeliveryAnswer(500)
            _logger.error("the deduplication of an event failed %s", {"id": event["id"]}, exc_info=error)
            return _retry_later(503)

    async def _handle_once(self, event: Event, failures: list[Exception]) -> DeliveryAnswer:
        """Appends an exception of the handler to `failures`, to tell it from an exception of the deduplication."""
        if self._transaction is not None:
            return await self._handle_in(self._transaction, event, failures)
        if self._latchkey is None:
            await self._run(event, Context(None, False), failures)
            return DeliveryAnswer(204)

        has_run = False

        async def work(lock: Lock) -> None:
            nonlocal has_run
            await self._run(event, Context(lock, lock.taken_over), failures)
            has_run = True

        latchkey = self._latchkey if isinstance(self._latchkey, AsyncLatchkey) else self._latchkey()
        outcome = await latchkey.once(
            self._scope,
            event["id"],
            work,
            ttl_seconds=self._ttl_seconds,
            wait_ms=0,
            acquire_ms=_ACQUIRE_MS,
            save_ms=_SAVE_MS,
            on_taken_over="run",
        )
        if has_run:
            # Even if the save failed: the handler has had its effect.
            return DeliveryAnswer(204)
        match outcome:
            case Replayed():
                return DeliveryAnswer(204)
            case Unavailable(_, retry_after_ms):
                return _retry_later(503, retry_after_ms)
            case Busy(retry_after_ms):
                return _retry_later(409, retry_after_ms)
            case _:
                return _retry_later(409)

    async def _handle_in(
        self, database: AsyncDatabase[Any], event: Event, failures: list[Exception]
    ) -> DeliveryAnswer:
        async def work(tx: Any) -> None:
            await self._run(event, Context(None, False, tx), failures)

        claim = Claim(self._scope, event["id"], ttl_seconds=self._ttl_seconds)
        committed: Committed[None] = await commit_async(
            database, commit_once(claim, VALUE_CODEC, Environment()), work
        )
        if isinstance(committed, Busy):
            return _retry_later(409)
        return _retry_later(503) if isinstance(committed, UnknownCommit) else DeliveryAnswer(204)

    async def _run(self, event: Event, context: Context, failures: list[Exception]) -> None:
        try:
            await self._handler(event, context)
        except Exception as error:
            # A rejection counts also if the handler caught it and raised another exception.
            if context._rejection is None:
                failures.append(error)
                raise
        if context._rejection is not None:
            raise context._rejection


def _retry_later(status: int, retry_after_ms: int = _BUSY_RETRY_MS) -> DeliveryAnswer:
    return DeliveryAnswer(status, {"retry-after": str(max(1, math.ceil(retry_after_ms / 1000)))})


async def _send(send: Send, answer: DeliveryAnswer) -> None:
    headers = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
