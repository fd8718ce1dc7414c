import { beforeAll, describe, expect, test } from 'bun:test'
import type { EventId, TenantId } from '#internal/base/index.ts'
import { listEvents, type ReceivedEvent } from '#internal/events/index.ts'
import { purgeEventSteps } from '#internal/events/purge.ts'
import { type ProviderName, providerNames } from '#internal/tenants/index.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { directoryTenant, someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { createReceivedEvent } from './intake.ts'

let lab: DeliveryLab

beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})

function made(id: TenantId, provider: ProviderName, eventId: string): ReceivedEvent {
  return createReceivedEvent({
    origin: { kind: 'provider' },
    tenant: directoryTenant({ id }),
    provider,
    headers: '{}',
    receivedAtMs: Date.now(),
    state: 'accepted',
    event: {
      kind: 'event',
      sourceEventId: eventId,
      rawType: 'a',
      type: 'a',
      payload: '{}',
      occurredAtMs: undefined,
    },
    retention: { payloadDays: 30, eventDays: 90 },
  })
}

describe('dedupe key', () => {
  const tenantId = someTenantId()
  const keyOf = (...parts: Parameters<typeof made>) => made(...parts).dedupeKey

  test('dedupe key: is equal for the same tenant, provider and event id', () => {
    expect(keyOf(tenantId, 'card', 'evt_1')).toBe(keyOf(tenantId, 'card', 'evt_1'))
  })

  test.each<[string, Parameters<typeof made>]>([
    ['tenant', [someTenantId(), 'card', 'evt_1']],
    ['provider', [tenantId, 'generic', 'evt_1']],
    ['id', [tenantId, 'card', 'evt_2']],
  ])('dedupe key: differs for a different %s', (_what, other) => {
    expect(keyOf(...other)).not.toBe(keyOf(tenantId, 'card', 'evt_1'))
  })

  // The event list and the tenant purge compute the key in SQL.
  test('dedupe key: intake, event list and tenant removal compute the same key', async () => {
    const tenant = await lab.addTenant()
    const events = providerNames.map((provider) => made(tenant.id, provider, 'evt_é'))
    const ids: EventId[] = await acceptEvents(lab.pool, events)
    const { events: found } = await listEvents(
      lab.pool,
      { tenantId: tenant.id, sourceEventId: 'evt_é', limit: 100 },
      Date.now(),
    )
    expect(found.map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
    expect(await lab.value('SELECT count(*) FROM dedupe_keys')).toBe(providerNames.length)
    for (const step of purgeEventSteps) while ((await step(lab.pool, tenant.id, 1_000)) > 0);
    expect(await lab.value('SELECT count(*) FROM dedupe_keys')).toBe(0)
  })
})
