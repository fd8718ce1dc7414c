"""Calls the public API as a service would, with the client that openapi-python-client makes of its document."""

import hashlib
import hmac
import time
import uuid
from collections.abc import Generator

import httpx
from latchkey_public import AuthenticatedClient, Client
from latchkey_public.api.events import list_event_types
from latchkey_public.api.records import (
    check_record,
    check_records,
    extend_lock,
    fetch_record,
    remove_record,
    save_record,
)
from latchkey_public.api.simulations import simulate_chargeback
from latchkey_public.api.webhooks import receive_webhook, receive_webhook_by_slug
from latchkey_public.models import (
    BatchAnswer,
    BatchCheck,
    BatchError,
    BatchRequest,
    CheckRequest,
    Error,
    ErrorCode,
    EventTypeList,
    ExtendAnswer,
    ExtendRequest,
    GenericEvent,
    ListEventTypesProvider,
    LockBusy,
    LockTaken,
    RecordFound,
    RecordMissing,
    RemoveAnswer,
    SaveAnswer,
    SaveRequest,
    SaveRequestHeaders,
    SimulateChargebackRequest,
    SimulationAnswer,
    WebhookAnswer,
    WebhookInvalid,
    WebhookInvalidError,
)
from results import data_of, environment

from latchkey import Busy, Latchkey, LatchkeyRequestError, Lock, Ran, Replayed, ReusedKey

url = environment("API_URL")
client = AuthenticatedClient(base_url=url, token=environment("API_KEY"), raise_on_unexpected_status=True)


class Signature(httpx.Auth):
    """Signs the bytes of a call as the provider `generic` does."""

    requires_request_body = True

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        seconds = str(int(time.time()))
        secret = environment("PROVIDER_SECRET").encode()
        text = seconds.encode() + b"." + request.content
        mac = hmac.new(secret, text, hashlib.sha256).hexdigest()
        request.headers["X-Service-Signature"] = f"t={seconds},v1={mac}"
        yield request


def records() -> None:
    scope, key = "clients", str(uuid.uuid4())
    check = CheckRequest(scope, key, lock_seconds=30)
    lock = data_of(check_record.sync_detailed(client=client, body=check), LockTaken)
    busy = data_of(check_record.sync_detailed(client=client, body=CheckRequest(scope, key)), LockBusy)
    assert busy.retry_after_ms > 0

    extend = ExtendRequest(scope, key, lock_token=lock.lock_token, lock_seconds=60)
    extended = data_of(extend_lock.sync_detailed(client=client, body=extend), ExtendAnswer)
    assert extended.fence == lock.fence
    extend.lock_token = "another"
    lost = data_of(extend_lock.sync_detailed(client=client, body=extend), Error)
    assert lost.code == ErrorCode.LOCK_LOST

    headers = SaveRequestHeaders.from_dict({"location": "/orders/1"})
    body = {"id": 1, "lines": []}
    save = SaveRequest(scope, key, status=201, headers=headers, body=body, lock_token=lock.lock_token)
    data_of(save_record.sync_detailed(client=client, body=save), SaveAnswer)
    found = data_of(fetch_record.sync_detailed(client=client, scope=scope, key=key), RecordFound)
    assert found.record.to_dict() == {"status": 201, "headers": {"location": "/orders/1"}, "body": body}

    fresh = str(uuid.uuid4())
    checks = [BatchCheck(scope, key), BatchCheck(scope, fresh), BatchCheck(scope, fresh, lock_seconds=901)]
    answer = data_of(check_records.sync_detailed(client=client, body=BatchRequest(checks=checks)), BatchAnswer)
    assert [type(each) for each in answer.results] == [RecordFound, LockTaken, BatchError], answer

    removed = data_of(remove_record.sync_detailed(client=client, scope=scope, key=key), RemoveAnswer)
    assert removed.existed
    data_of(fetch_record.sync_detailed(client=client, scope=scope, key=key), RecordMissing)


def webhooks() -> None:
    event = GenericEvent(id=str(uuid.uuid4()), type_="order.created")
    # The API key identifies the tenant, the signature the provider.
    keyed = AuthenticatedClient(base_url=url, token=client.token, httpx_args={"auth": Signature()})
    stored = receive_webhook.sync_detailed("generic", client=keyed, body=event)
    assert data_of(stored, WebhookAnswer).to_dict() == {"ok": True}
    signed = Client(base_url=url, httpx_args={"auth": Signature()})
    again = receive_webhook_by_slug.sync_detailed("acme", "generic", client=signed, body=event)
    assert data_of(again, WebhookAnswer).cached is True
    bare = Client(base_url=url)
    unsigned = receive_webhook_by_slug.sync_detailed("acme", "generic", client=bare, body=event)
    assert data_of(unsigned, WebhookInvalid).error == WebhookInvalidError.INVALID_SIGNATURE


def event_types() -> None:
    listed = list_event_types.sync_detailed(client=Client(base_url=url), provider=ListEventTypesProvider.GATEWAY)
    items = data_of(listed, EventTypeList).items
    assert items and all("." in each.type_ for each in items)


def simulations() -> None:
    dispute = SimulateChargebackRequest(amount=4200, currency="EUR")
    key = str(uuid.uuid4())
    calls = [
        simulate_chargeback.sync_detailed(client=client, body=dispute, idempotency_key=key) for _ in range(2)
    ]
    first, repeated = [data_of(call, SimulationAnswer) for call in calls]
    assert first.simulation_id == repeated.simulation_id and len(first.events) == 3
    assert calls[1].headers["idempotent-replayed"] == "true"


def client_and_library_agree() -> None:
    """Checks that the generated client and the client library get the same locks, records and errors from the service."""
    scope, key = "clients", str(uuid.uuid4())

    def fail(_lock: Lock) -> None:
        raise AssertionError("work must not run")

    def run(lock: Lock) -> dict[str, int]:
        data_of(check_record.sync_detailed(client=client, body=CheckRequest(scope, key)), LockBusy)
        # The attempt id gets the library's lock, not a new one.
        again = CheckRequest(scope, key, attempt_id=lock.attempt_id)
        own = data_of(check_record.sync_detailed(client=client, body=again), LockTaken)
        assert (lock.fence, lock.taken_over) == (own.fence, own.taken_over is True)
        return {"fence": own.fence}

    with Latchkey(url, client.token) as latchkey:
        check = CheckRequest(scope, key, fingerprint="a")
        lock = data_of(check_record.sync_detailed(client=client, body=check), LockTaken)
        assert isinstance(latchkey.once(scope, key, fail, wait_ms=0), Busy)
        assert latchkey.once(scope, key, fail, fingerprint="b") == ReusedKey()
        body = {"id": 1, "lines": ["ü"]}
        headers = SaveRequestHeaders.from_dict({"location": "/orders/1"})
        save = SaveRequest(scope, key, status=201, headers=headers, body=body, lock_token=lock.lock_token)
        data_of(save_record.sync_detailed(client=client, body=save), SaveAnswer)
        assert latchkey.once(scope, key, fail) == Replayed(body)
        found = data_of(fetch_record.sync_detailed(client=client, scope=scope, key=key), RecordFound)
        assert latchkey.fetch_record(scope, key) == found.record.to_dict()
        assert latchkey.remove_record(scope, key)
        data_of(fetch_record.sync_detailed(client=client, scope=scope, key=key), RecordMissing)

        ran = latchkey.once(scope, key, run)
        assert isinstance(ran, Ran) and ran.value["fence"] > lock.fence
        own = data_of(fetch_record.sync_detailed(client=client, scope=scope, key=key), RecordFound)
        assert own.record.to_dict() == {"status": 200, "headers": {}, "body": ran.value}

        wrong = CheckRequest(scope, key, lock_seconds=901)
        refused = data_of(check_record.sync_detailed(client=client, body=wrong), Error)
        try:
            latchkey.once(scope, key, fail, lock_seconds=901)
            raise AssertionError("lockSeconds 901 was accepted")
        except LatchkeyRequestError as error:
            assert (error.code, error.status) == (refused.code, refused.status_code)


records()
client_and_library_agree()
webhooks()
event_types()
simulations()
print("done")
