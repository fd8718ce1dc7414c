import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { callbackQueueOf } from '#internal/events/index.ts'
import { type PausedForwarding, readQueueDepth } from '#internal/events/tenant-queue.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/events/callback-receiver.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { until } from '#test/support/until.ts'

let lab: DeliveryLab
let receiver: CallbackReceiver
let paused: PausedForwarding

beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})
beforeEach(async () => {
  receiver = startReceiver()
  paused = { all: false, tenants: new Set() }
  await truncateEvents(lab.pool)
})
afterEach(() => receiver.stop())

/** Starts a forwarder that reads `paused`. Its `turns` counts the polls for work. */
function startForwarder(tenants: readonly DirectoryTenant[]) {
  let turns = 0
  const directory = {
    findTenantById: (id: string) => tenants.find((tenant) => tenant.id === id),
    hasSnapshot: () => {
      turns += 1
      return true
    },
  }
  return { ...lab.forwarder({ directory, paused: () => paused }), turns: () => turns }
}

const untouched = 'SELECT count(*) FROM deliveries_due WHERE attempts = 0 AND claims = 0 AND lease IS NULL'

describe('paused tenants', () => {
  test('paused tenant: its deliveries are not claimed, cause no busy loop while others are served, and continue right after the pause', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    const other = startReceiver()
    const witness = await lab.addTenant({ url: other.url })
    paused = { all: false, tenants: new Set([tenant.id]) }
    await lab.accept(tenant.id, 100)
    const { forwarder, turns, attempts, stop } = startForwarder([tenant, witness])
    await lab.accept(witness.id)
    forwarder.notify([callbackQueueOf(tenant.id), callbackQueueOf(witness.id)])
    await other.received(1)
    await lab.becomes(100, 'SELECT count(*) FROM deliveries_due')
    const [turnsBefore, startedMs] = [turns(), performance.now()]
    await until(() => turns() >= turnsBefore + 3)
    // Only the poll, once a second, wakes the forwarder.
    expect(performance.now() - startedMs).toBeGreaterThan(1_500)
    expect(await lab.value(untouched)).toBe(100)
    expect(receiver.calls.length).toBe(0)
    paused = { all: false, tenants: new Set() }
    const resumedMs = Date.now()
    forwarder.notify('all')
    const calls = await receiver.received(100)
    expect((calls[0]?.atMs ?? 0) - resumedMs).toBeLessThan(1_000)
    await lab.becomes(0, 'SELECT count(*) FROM deliveries_due')
    await stop()
    await other.stop()
    expect(attempts.length).toBe(101)
    expect(await lab.value('SELECT count(*) FROM attempts WHERE attempt = 1')).toBe(101)
  })

  test('queue depth: excludes a paused tenant, and excludes all tenants while everything is paused', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    const other = await lab.addTenant({ url: receiver.url })
    await lab.accept(tenant.id, 3)
    await lab.accept(other.id, 2)
    const depth = async (of?: PausedForwarding) => (await readQueueDepth(lab.pool, of)).dueCount
    expect(await depth()).toBe(5)
    expect(await depth({ all: false, tenants: new Set([tenant.id]) })).toBe(2)
    expect(await depth({ all: true, tenants: new Set() })).toBe(0)
  })

  test('paused tenant: deliveries claimed before the pause are snoozed without an attempt', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    const ids = await lab.accept(tenant.id, 5)
    let asked = 0
    const { forwarder, stop, attempts } = lab.forwarder({
      directory: { findTenantById: () => tenant, hasSnapshot: () => true },
      // The first two calls, for the poll and the claim, report no pause. Calls for deliveries report a paused tenant.
      paused: () => {
        asked += 1
        return { all: false, tenants: new Set(asked > 2 ? [tenant.id] : []) }
      },
    })
    await lab.becomes(
      5,
      'SELECT count(*) FROM deliveries_due WHERE lease IS NULL AND claims = 0 AND is_retry',
    )
    expect(receiver.calls.length).toBe(0)
    asked = Number.NEGATIVE_INFINITY
    forwarder.notify('all')
    const calls = await receiver.received(5)
    await lab.becomes(0, 'SELECT count(*) FROM deliveries_due')
    await stop()
    expect(calls.map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
    expect(attempts.every(({ delivery }) => delivery.attempts === 0)).toBe(true)
  })
})

test('pause of all tenants: nothing is claimed until the pause ends', async () => {
  const tenant = await lab.addTenant({ url: receiver.url })
  paused = { all: true, tenants: new Set() }
  await lab.accept(tenant.id, 3)
  let looks = 0
  const { forwarder, stop } = lab.forwarder({
    directory: { findTenantById: () => tenant, hasSnapshot: () => true },
    paused: () => {
      looks += 1
      return paused
    },
  })
  for (let turn = 1; turn <= 5; turn += 1) {
    const before = looks
    forwarder.notify([callbackQueueOf(tenant.id)])
    await until(() => looks > before)
  }
  expect(await lab.value(untouched)).toBe(3)
  expect(await lab.value("SELECT count(*) FROM tenant_queues WHERE last_served_at = '-infinity'")).toBe(1)
  paused = { all: false, tenants: new Set() }
  forwarder.notify('all')
  await receiver.received(3)
  await lab.becomes(0, 'SELECT count(*) FROM deliveries_due')
  await stop()
})
