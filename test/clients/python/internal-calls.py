"""Calls the internal API as another service would, with the client that openapi-python-client makes of its document."""

import datetime
import uuid

from latchkey_internal import AuthenticatedClient
from latchkey_internal.api.events import ingest_event, list_events, read_event, read_event_payload, replay_event
from latchkey_internal.api.replays import preview_replay
from latchkey_internal.api.settings import (
    clear_tenant_setting,
    list_tenant_settings,
    read_tenant_setting,
    write_tenant_setting,
)
from latchkey_internal.api.simulations import cancel_simulation, start_simulation
from latchkey_internal.api.tenants import list_tenants, read_tenant, test_callback
from latchkey_internal.api.usage import check_guardrail, emit_usage, read_usage
from latchkey_internal.models import (
    CallbackFailed,
    CallbackTested,
    CheckGuardrailBody,
    Done,
    EmitUsageBody,
    Error,
    ErrorCode,
    EventDetail,
    EventIngested,
    EventPage,
    StoredPayload,
    EventReplayed,
    EventSummaryState,
    Guardrail,
    GuardrailDecision,
    IngestEventBody,
    IngestEventBodyPayload,
    IngestEventBodyProvider,
    ListEventsState,
    PreviewReplayBody,
    ReplayPreview,
    ServiceOrigin,
    Setting,
    SettingChanged,
    SettingCleared,
    Settings,
    SimulateChargebackRequest,
    SimulationChanged,
    SimulationStarted,
    SimulationState,
    TenantDetail,
    TenantPage,
    Usage,
    WriteTenantSettingBody,
)
from results import data_of, environment

client = AuthenticatedClient(
    base_url=environment("BACKOFFICE_URL"),
    token=environment("BACKOFFICE_TOKEN"),
    raise_on_unexpected_status=True,
)
now = datetime.datetime.now(datetime.timezone.utc)
hour_ago = now - datetime.timedelta(hours=1)


def tenants() -> str:
    page = data_of(list_tenants.sync_detailed(client=client, search="acm"), TenantPage)
    [tenant] = page.items
    detail = data_of(read_tenant.sync_detailed(tenant.id, client=client), TenantDetail)
    assert (tenant.slug, detail.spec.slug) == ("acme", "acme")
    missing = data_of(read_tenant.sync_detailed("ten_" + "0" * 26, client=client), Error)
    assert missing.code == ErrorCode.NOT_FOUND
    return tenant.id


def events(tenant_id: str) -> None:
    payload = {"order": 1042, "lines": [{"sku": "a", "amount": 2}]}
    body = IngestEventBody(
        tenant_id=tenant_id,
        provider=IngestEventBodyProvider.GENERIC,
        source_event_id=str(uuid.uuid4()),
        type_="order.paid",
        payload=IngestEventBodyPayload.from_dict(payload),
    )
    first = data_of(ingest_event.sync_detailed(client=client, body=body), EventIngested)
    repeated = data_of(ingest_event.sync_detailed(client=client, body=body), EventIngested)
    assert (first.is_new, repeated.is_new, repeated.id) == (True, False, first.id)

    listed = list_events.sync_detailed(
        client=client, tenant_id=tenant_id, state=ListEventsState.ACCEPTED, from_=hour_ago
    )
    states = [each.state for each in data_of(listed, EventPage).items if each.id == first.id]
    assert states == [EventSummaryState.ACCEPTED]
    detail = data_of(read_event.sync_detailed(first.id, client=client), EventDetail)
    assert detail.event.received_at > hour_ago and detail.attempts == []
    assert isinstance(detail.event.origin, ServiceOrigin) and detail.event.origin.actor != ""
    raw = data_of(read_event_payload.sync_detailed(first.id, client=client), StoredPayload)
    assert raw.payload.to_dict() == payload
    replayed = data_of(replay_event.sync_detailed(first.id, client=client), EventReplayed)
    assert not replayed.is_new

    filtered = PreviewReplayBody(tenant_id=tenant_id, from_=hour_ago)
    preview = data_of(preview_replay.sync_detailed(client=client, body=filtered), ReplayPreview)
    assert (preview.total.count, preview.total.is_exact) == (0, True)


def usage(tenant_id: str) -> None:
    body = EmitUsageBody(kind="exports.rows", amount=3, occurred_at=now)
    emission = str(uuid.uuid4())
    emitted = [emit_usage.sync_detailed(tenant_id, emission, client=client, body=body) for _ in range(2)]
    assert [data_of(each, Done).is_new for each in emitted] == [True, False]
    hours = data_of(read_usage.sync_detailed(tenant_id, client=client), Usage).hours
    assert [each.amount for each in hours if each.kind == body.kind] == [3]


def guardrails(tenant_id: str) -> None:
    body = CheckGuardrailBody(
        tenant_id=tenant_id, kind="exports.rows", amount=2, commit=True, id=str(uuid.uuid4())
    )
    checked = [
        data_of(check_guardrail.sync_detailed(client=client, body=body), Guardrail) for _ in range(2)
    ]
    assert [(each.decision, each.is_new) for each in checked] == [
        (GuardrailDecision.ALLOW, True),
        (GuardrailDecision.ALLOW, False),
    ]


def settings(tenant_id: str) -> None:
    name = "forwarding.paused"
    body = WriteTenantSettingBody(value=True, expected_version=0)
    changed = data_of(write_tenant_setting.sync_detailed(tenant_id, name, client=client, body=body), SettingChanged)
    items = data_of(list_tenant_settings.sync_detailed(tenant_id, client=client), Settings).items
    assert [(each.value, each.version) for each in items if each.name == name] == [(True, changed.version)]
    body.value = False
    stale = data_of(write_tenant_setting.sync_detailed(tenant_id, name, client=client, body=body), Error)
    assert stale.code == ErrorCode.CONFLICT
    one = read_tenant_setting.sync_detailed(tenant_id, name, client=client)
    assert data_of(one, Setting).version == changed.version
    cleared = clear_tenant_setting.sync_detailed(tenant_id, name, client=client)
    assert data_of(cleared, SettingCleared).existed


def callback_and_simulations(tenant_id: str) -> None:
    # The host of the callback does not exist.
    tested = data_of(test_callback.sync_detailed(tenant_id, client=client), CallbackTested)
    assert isinstance(tested.result, CallbackFailed), tested
    body = SimulateChargebackRequest(amount=100, currency="EUR", step_seconds=600)
    started = start_simulation.sync_detailed(
        tenant_id, client=client, body=body, idempotency_key=str(uuid.uuid4())
    )
    simulation = data_of(started, SimulationStarted).simulation
    cancelled = data_of(cancel_simulation.sync_detailed(simulation.simulation_id, client=client), SimulationChanged)
    assert cancelled.simulation.state == SimulationState.CANCELLED


tenant = tenants()
events(tenant)
usage(tenant)
guardrails(tenant)
settings(tenant)
callback_and_simulations(tenant)
print("done")
