"""Signed sample events."""

from __future__ import annotations

import functools
import importlib.resources
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, cast

from standardwebhooks.webhooks import Webhook

from ..event_types import Event, EventProvider, EventType


@dataclass(frozen=True)
class SignedEvent:
    """Signed delivery: `client.post(url, headers=delivery.headers, content=delivery.body)`."""

    event: Event
    headers: Mapping[str, str]
    body: bytes


def signed_event(
    type: EventType | str,
    *,
    secret: str,
    provider: EventProvider | None = None,
    provider_raw_type: str | None = None,
    payload: Mapping[str, Any] | None = None,
    at: datetime | None = None,
    occurred_at: datetime | None = None,
    id: str | None = None,
    tenant_id: str = "ten_test",
    headers: Mapping[str, str] | None = None,
) -> SignedEvent:
    """Makes a delivery as Latchkey sends it, with the sample payload of a type of the catalogue.

    `secret`: signing secret, `whsec_…`. `provider`: chooses the sample where several providers have this type. `payload`: merged into the sample, object by
    object; any other value replaces that of the sample. `at`: time of the signature and of `receivedAt`, by default now; a receiver refuses 5 minutes of difference.
    `occurred_at`: by default `at`. `id`: by default a new one; an event with the same id is a duplicate.

    Raises `ValueError` for a type that the catalogue does not have, or not from this provider.
    """
    sample = _sample_of(type, provider)
    # `Webhook.sign` takes the fields of a time as UTC.
    signed_at = (at or datetime.now(tz=timezone.utc)).astimezone(timezone.utc)
    event_id = id or f"evt_{uuid.uuid4().hex}"
    event: dict[str, Any] = {
        "id": event_id,
        "provider": sample["provider"],
        "providerRawType": sample["providerRawType"] if provider_raw_type is None else provider_raw_type,
        "type": type,
        "tenantId": tenant_id,
        "occurredAt": _text_of(occurred_at or signed_at),
        "receivedAt": _text_of(signed_at),
        "payload": _merged(sample["payload"], payload or {}),
        "headers": {"content-type": "application/json"} if headers is None else dict(headers),
    }
    body = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    signature = Webhook(secret).sign(event_id, signed_at, body)
    signed = {
        "content-type": "application/json",
        "webhook-id": event_id,
        "webhook-timestamp": str(int(signed_at.timestamp())),
        "webhook-signature": signature,
    }
    return SignedEvent(cast(Event, event), signed, body.encode())


@functools.cache
def _samples() -> dict[str, str]:
    text = importlib.resources.files(__package__).joinpath("event-samples.txt").read_text("utf-8")
    lines = (line.partition(" ") for line in text.splitlines())
    return {name: samples for name, _, samples in lines}


def _sample_of(type: str, provider: str | None) -> dict[str, Any]:
    samples = _samples().get(type)
    if samples is None:
        raise ValueError(f'Latchkey: the catalogue has no event type "{type}"')
    for sample in json.loads(samples):
        if provider in (None, sample["provider"]):
            return cast("dict[str, Any]", sample)
    raise ValueError(f'Latchkey: the catalogue has no "{type}" of provider "{provider}"')


def _merged(sample: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(sample)
    for name, value in changes.items():
        earlier = sample.get(name)
        is_object = isinstance(earlier, Mapping) and isinstance(value, Mapping)
        merged[name] = _merged(cast("Mapping[str, Any]", earlier), value) if is_object else value
    return merged


def _text_of(time: datetime) -> str:
    return time.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
