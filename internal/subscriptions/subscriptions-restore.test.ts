import { expect, test } from 'bun:test'
import type { EventId } from '#internal/base/index.ts'
import { eventReadSettings } from '#internal/events/list.ts'
import { createPool } from '#internal/storage/index.ts'
import { blockNamed } from '#test/support/documents/page.ts'
import { createDeliveryLab } from '#test/support/events/delivery-lab.ts'
import { acknowledgeEvents } from './lease.ts'
import { pullEvents } from './pull.ts'
import { writeSubscription } from './store.ts'
import type { SubscriptionName } from './subscription.ts'

const statements = blockNamed('docs/operate/restore.md', 'statements').text

test('docs/operate/restore.md: after the documented statements, subscriptions of a restored dump return all unacknowledged and all new events', async () => {
  const lab = await createDeliveryLab()
  const bounds = { connectionsMax: 2, queryTimeoutMs: 20_000, connectTimeoutMs: 5_000 }
  const pool = createPool({
    url: lab.databaseUrl,
    applicationName: 'test',
    sessionSettings: eventReadSettings,
    ...bounds,
  })
  try {
    const { id: tenantId } = await lab.addTenant()
    const named = (text: string) => ({ tenantId, name: text as SubscriptionName })
    for (const name of ['half', 'all', 'none', 'payments'])
      await writeSubscription(pool, {
        ...named(name),
        providers: [],
        fromMs: 0,
        types: name === 'payments' ? ['payment.*'] : [],
      })
    const pull = async (name: string, limit = 100) => {
      const pulled = await pullEvents(pool, { ...named(name), limit, leaseSeconds: 60 }, Date.now())
      if (pulled.kind !== 'pulled') throw new Error(pulled.kind)
      const { ackToken = '', events } = pulled
      if (events.length > 0) await acknowledgeEvents(pool, { ...named(name), ackToken }, Date.now())
      return events.map(({ id }) => id)
    }
    const drain = async (name: string): Promise<EventId[]> => {
      const given = await pull(name)
      return given.length === 0 ? [] : [...given, ...(await drain(name))]
    }
    const old = (await lab.accept(tenantId, 1_200)).toSorted()
    const acknowledged = await pull('half', 90)
    expect(await drain('all')).toHaveLength(1_200)

    // Simulates a restore into a cluster with lower transaction numbers.
    const ahead = '4611686018427387904'
    await lab.pool.query(`UPDATE events SET stored_by = (stored_by::text::numeric + ${ahead})::text::xid8`)
    await lab.pool.query(
      `UPDATE subscriptions SET position_transaction = (position_transaction::text::numeric + ${ahead})::text::xid8
       WHERE position_transaction > '0'`,
    )
    await expect(pull('half')).rejects.toThrow('beyond_end')
    await lab.pool.query(statements)
    const fresh = await lab.accept(tenantId, 3)

    expect((await drain('half')).toSorted()).toEqual(
      [...old.filter((id) => !acknowledged.includes(id)), ...fresh].toSorted(),
    )
    expect(await drain('all')).toEqual([...old.slice(-1_001), ...fresh.toSorted()])
    expect((await drain('none')).toSorted()).toEqual([...old, ...fresh].toSorted())
    expect(await drain('payments')).toEqual([])
  } finally {
    await pool.end()
    await lab.close()
  }
}, 60_000)
