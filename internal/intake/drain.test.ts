import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { ReceivedEvent } from '#internal/events/index.ts'
import { storeBatch } from '#internal/events/insert.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { type SpoolLab, startSpoolLab } from '#test/support/intake/spool-lab.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { untilWorks } from '#test/support/stores/redis-connection.ts'
import { command } from '#test/support/stores/redis-topology.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { until } from '#test/support/until.ts'
import { type DeadEntry, Drain, type DrainOptions } from './drain.ts'
import { countedKeys, encodeEvent, type Spool, spoolKeys, spoolScripts } from './spool.ts'

let lab: SpoolLab
let database: TestDatabase
let pool: Pool
let gone: Pool
let spool: Spool
let dead: DeadEntry[]

const never = new AbortController().signal
const empty = { entries: 0, bytes: 0, oldestAgeMs: 0, deadEntries: 0, deadBytes: 0 }

beforeAll(async () => {
  ;[lab, database] = await Promise.all([startSpoolLab(), createMigratedDatabase()])
  pool = poolOf(database.url)
  gone = poolOf('postgres://nobody@127.0.0.1:1/nothing')
})
afterAll(async () => {
  await Promise.all([pool.end(), gone.end(), lab.stop()])
  await database.drop()
})
beforeEach(async () => {
  dead = []
  spool = lab.spool()
  await lab.reset()
  await truncateEvents(pool)
})

function poolOf(url: string): Pool {
  const bounds = { connectionsMax: 4, queryTimeoutMs: 5_000, connectTimeoutMs: 500 }
  return createPool({ url, applicationName: 'test', ...bounds })
}

/** Stores as the product does, with the Postgres that `from` gives. */
function storingIn(from: () => Pool): DrainOptions['storeBatch'] {
  const options = { wake: () => undefined, onError: () => undefined, requeues: false }
  return (events) => storeBatch({ ...options, pool: from() }, events)
}

function drainOf(store: DrainOptions['storeBatch'] = storingIn(() => pool)): Drain {
  return new Drain({ redis: lab.redis, storeBatch: store, onDead: (entry) => dead.push(entry) })
}

async function spoolAll(events: readonly ReceivedEvent[]): Promise<void> {
  const outcomes = await Promise.all(events.map((event) => spool.append(event)))
  expect(outcomes).toEqual(events.map(() => 'queued'))
}

async function rowsOf<T extends object>(text: string, values: unknown[] = []): Promise<T[]> {
  return (await pool.query<T>(text, values)).rows
}

async function idsStored(): Promise<string[]> {
  return (await rowsOf<{ id: string }>('SELECT id FROM events ORDER BY id')).map(({ id }) => id)
}

const idsOf = (events: readonly ReceivedEvent[]) => events.map(({ id }) => id as string).toSorted()
const many = (count: number, fields: Partial<ReceivedEvent> = {}) =>
  Array.from({ length: count }, () => receivedEvent(fields))
const again = (event: ReceivedEvent) => ({ ...event, id: receivedEvent().id })

/** An entry that no version of ours wrote, but counted as ours are. */
async function appendRaw(id: string, facts: string, payload: string): Promise<void> {
  const args = ['1000000000', '1000000000', id, facts, payload, someTenantId()]
  expect(await lab.redis.evaluate(spoolScripts.append, countedKeys, args)).toEqual([1])
}

const bytesOf = (events: readonly ReceivedEvent[]) =>
  events.reduce((sum, event) => sum + Buffer.byteLength(encodeEvent(event).join('')), 0)

describe('tenant share of the spool', () => {
  test('spool share: two processes that drain the same entries subtract the bytes of each entry once', async () => {
    const tenantId = someTenantId()
    const [ours, others] = [many(40, { tenantId }), many(10, { tenantId: someTenantId() })]
    await spoolAll([...ours, ...others])
    const [entries] = await command(lab.server, ['XRANGE', spoolKeys.events, '-', '+'])
    const args = (entries as [string, string[]][]).flatMap(([at, fields]) => [at, fields[1] ?? '', ''])
    const settle = (from: number, to: number) =>
      lab.redis.evaluate(spoolScripts.remove, countedKeys, args.slice(from * 3, to * 3))
    const replies = await Promise.all([settle(0, 30), settle(10, 45)])
    expect(replies.flatMap((each) => each as number[]).filter((reply) => reply === 1)).toHaveLength(45)
    expect(await lab.shares()).toEqual({ [others[0]?.tenantId ?? '']: bytesOf(others.slice(5)) })
    await drainOf().runOnce(never)
    expect(await lab.shares()).toEqual({})
  })

  test('spool share: a tenant whose share was full can spool events again after a drain', async () => {
    const tenantId = someTenantId()
    const events = many(3, { tenantId, payload: `{"a":"${'x'.repeat(1_000)}"}` })
    const [first, second, third] = events
    if (!first || !second || !third) throw new Error('there are three')
    const narrow = lab.spool({ bytesMax: bytesOf([first, second]) * 4 })
    const append = (event: ReceivedEvent) => narrow.append(event)
    expect([await append(first), await append(second), await append(third)]).toEqual([
      'queued',
      'queued',
      'unavailable',
    ])
    await drainOf().runOnce(never)
    expect(await append(third)).toBe('queued')
    expect(await lab.shares()).toEqual({ [tenantId]: bytesOf([third]) })
  })
})

describe('drain', () => {
  test('drain: stores each event byte for byte, with its delivery', async () => {
    const payload =
      '{ "id":820982911946154508, "__proto__":1e400,\n\t"ü":"\\ud83d\\ude00 😀", "z":0.10, "a":[] }'
    const event = receivedEvent({ payload, headers: '{"x-name":"Zoë"}', sourceEventId: 'evt 1 "ß"' })
    await spoolAll([event, ...many(20, { state: 'verified' })])
    await drainOf().runOnce(never)
    expect(await rowsOf('SELECT payload FROM event_payloads WHERE event_id = $1', [event.id])).toEqual([
      { payload },
    ])
    const [row] = await rowsOf(
      `SELECT *, expires_on::text, payload_expires_on::text FROM events WHERE id = $1`,
      [event.id],
    )
    expect(row).toMatchObject({
      tenant_id: event.tenantId,
      source_event_id: event.sourceEventId,
      headers: event.headers,
      received_at: new Date(event.receivedAtMs),
      occurred_at: new Date(event.occurredAtMs),
      payload_bytes: Buffer.byteLength(payload),
      expires_on: event.expiresOn,
      payload_expires_on: event.payloadExpiresOn,
      state: 'accepted',
    })
    expect(await rowsOf('SELECT event_id FROM deliveries_due')).toEqual([{ event_id: event.id }])
    expect(await spool.stats()).toEqual(empty)
  })

  test('drain: limits batches by rows and bytes, and stores an event that exceeds a batch alone', async () => {
    const events = [...many(700), ...many(5, { payload: `{"a":"${'x'.repeat(1_500_000)}"}` })]
    events.push(receivedEvent({ payload: `{"a":"${'x'.repeat(5_000_000)}"}` }))
    await spoolAll(events)
    const sizes: number[] = []
    const store = storingIn(() => pool)
    await drainOf((batch) => {
      sizes.push(batch.length)
      return store(batch)
    }).runOnce(never)
    expect(sizes).toEqual([500, 202, 2, 1, 1])
    expect(await idsStored()).toEqual(idsOf(events))
  })

  test('drain: does nothing with an empty spool and stops on its signal', async () => {
    await drainOf(() => Promise.reject(new Error('nothing is to be stored'))).runOnce(never)
    await spoolAll(many(600))
    await drainOf().runOnce(AbortSignal.abort())
    expect(await spool.stats()).toMatchObject({ entries: 100 })
    await drainOf().runOnce(never)
    expect(await rowsOf('SELECT 1 FROM events')).toHaveLength(600)
  })

  test('drain: drops events that were stored before or spooled twice', async () => {
    const [stored, twice] = [receivedEvent(), receivedEvent()]
    await storingIn(() => pool)([stored])
    await spoolAll([again(stored), twice, again(twice), again(stored)])
    await drainOf().runOnce(never)
    expect(await idsStored()).toEqual(idsOf([stored, twice]))
    expect(await rowsOf('SELECT 1 FROM deliveries_due')).toHaveLength(2)
    expect(await spool.stats()).toEqual(empty)
  })

  test('drain: starts no new delivery cycle for a failed event', async () => {
    const event = receivedEvent()
    await storingIn(() => pool)([event])
    await pool.query(`UPDATE events SET state = 'delivery_failed'; DELETE FROM deliveries_due`)
    await spoolAll([{ ...again(event), retriesOnRedelivery: true }])
    await drainOf().runOnce(never)
    expect(await rowsOf('SELECT state FROM events')).toEqual([{ state: 'delivery_failed' }])
    expect(await rowsOf('SELECT 1 FROM deliveries_due')).toEqual([])
    expect(await spool.stats()).toEqual(empty)
  })
})

describe('drain while Postgres is unavailable', () => {
  test('drain: keeps all entries while Postgres is unavailable, then stores each event once', async () => {
    const events = many(1_300)
    await spoolAll(events)
    const before = await spool.stats()
    let at = gone
    const drain = drainOf(storingIn(() => at))
    for (let turn = 0; turn < 12; turn += 1)
      await expect(drain.runOnce(never)).rejects.toThrow('Postgres stored no event')
    expect(await spool.stats()).toMatchObject({ entries: before.entries, bytes: before.bytes })
    at = pool
    await drain.runOnce(never)
    expect(await idsStored()).toEqual(idsOf(events))
    expect(await rowsOf('SELECT 1 FROM deliveries_due')).toHaveLength(1_300)
    expect(await spool.stats()).toEqual(empty)
  })

  test('drain: a poison event that makes Postgres fail does not block later events and stays in the spool', async () => {
    const [stuck, ...others] = many(40)
    if (!stuck) throw new Error('there are forty')
    await spoolAll([...others.slice(0, 3), stuck, ...others.slice(3)])
    const store = storingIn(() => pool)
    const drain = drainOf(async (batch) =>
      batch.some(({ id }) => id === stuck.id) ? { kind: 'unavailable' } : await store(batch),
    )
    for (let turn = 0; turn < 12; turn += 1) await drain.runOnce(never).catch(() => undefined)
    expect(await idsStored()).toEqual(idsOf(others))
    expect((await lab.entriesOf(spoolKeys.events)).map(({ id }) => id ?? '')).toEqual([stuck.id])
  })
})

describe('concurrent drains', () => {
  test('drain: of two processes only the one with the lease works, and no event is stored twice or left in the spool', async () => {
    const events = many(3_000)
    await spoolAll(events)
    let atOnce = 0
    let atOnceMost = 0
    const store = storingIn(() => pool)
    const counted: DrainOptions['storeBatch'] = async (batch) => {
      atOnce += 1
      atOnceMost = Math.max(atOnceMost, atOnce)
      return store(batch).finally(() => {
        atOnce -= 1
      })
    }
    await Promise.all([1, 2, 3].map(() => drainOf(counted).runOnce(never)))
    expect(atOnceMost).toBe(1)
    expect(await idsStored()).toEqual(idsOf(events))
    expect(await spool.stats()).toEqual(empty)
    expect(await command(lab.server, ['EXISTS', spoolKeys.lease])).toEqual([0])
  })

  test('drain: a process that lost its lease removes no entry twice, and byte counts stay exact', async () => {
    const events = many(900)
    await spoolAll(events)
    const store = storingIn(() => pool)
    const other = drainOf()
    const slow = drainOf(async (batch) => {
      const outcome = await store(batch)
      // Simulates that this process pauses until its lease has expired, while another process drains the stored entries.
      await command(lab.server, ['DEL', spoolKeys.lease])
      await other.runOnce(never)
      await spoolAll(many(2))
      return outcome
    })
    await slow.runOnce(AbortSignal.abort())
    const { entries, bytes } = await spool.stats()
    const left = await lab.entriesOf(spoolKeys.events)
    expect(entries).toBe(2)
    expect(bytes).toBe(left.reduce((sum, entry) => sum + Buffer.byteLength(Object.values(entry).join('')), 0))
    await other.runOnce(never)
    expect(await rowsOf('SELECT 1 FROM events')).toHaveLength(902)
    expect(await spool.stats()).toEqual(empty)
  })

  test('drain: does not release another process’s lease', async () => {
    await spoolAll(many(3))
    await command(lab.server, ['SET', spoolKeys.lease, 'other', 'PX', '60000'])
    await drainOf().runOnce(never)
    expect(await spool.stats()).toMatchObject({ entries: 3 })
    expect(await command(lab.server, ['GET', spoolKeys.lease])).toEqual(['other'])
  })
})

describe('crash between commit and removal', () => {
  test('drain: entries left by a crash after the commit are dropped by the next drain', async () => {
    const events = many(30)
    await spoolAll(events)
    const store = storingIn(() => pool)
    const crashing = drainOf(async (batch) => {
      await store(batch)
      throw new Error('the process ends here')
    })
    await expect(crashing.runOnce(never)).rejects.toThrow('ends here')
    expect(await spool.stats()).toMatchObject({ entries: 30 })
    await drainOf().runOnce(never)
    expect(await idsStored()).toEqual(idsOf(events))
    expect(await rowsOf('SELECT 1 FROM deliveries_due')).toHaveLength(30)
    expect(await spool.stats()).toEqual(empty)
  })
})

describe('dead entries', () => {
  test('drain: a rejected or unreadable entry moves unchanged to the dead stream, and later entries are stored', async () => {
    const refused = receivedEvent({ payload: '{"a":"\0"}' })
    const [first, ...others] = many(20)
    if (!first) throw new Error('there are twenty')
    await spoolAll([first])
    const [, facts] = encodeEvent(receivedEvent())
    await appendRaw('', facts, '{}')
    await spoolAll([refused])
    await appendRaw(receivedEvent().id, '{"half":', 'x')
    await spoolAll(others)
    await drainOf().runOnce(never)
    expect(await idsStored()).toEqual(idsOf([first, ...others]))
    expect(dead.map(({ reason }) => reason).toSorted()).toEqual(['refused', 'unreadable', 'unreadable'])
    const entries = await lab.entriesOf(spoolKeys.dead)
    expect(entries.find(({ reason }) => reason === 'refused')).toEqual({
      reason: 'refused',
      id: refused.id,
      facts: encodeEvent(refused)[1],
      payload: refused.payload,
      tenant: refused.tenantId,
    })
    const { deadBytes, ...stats } = await spool.stats()
    expect(stats).toEqual({ entries: 0, bytes: 0, oldestAgeMs: 0, deadEntries: 3 })
    const values = entries.flatMap(({ reason: _reason, ...counted }) => Object.values(counted))
    expect(deadBytes).toBe(Buffer.byteLength(values.join('')))
    expect(await lab.shares()).toEqual({})
  })

  test('drain: the removal of a rejected entry does not remove another entry with the same dedupe key', async () => {
    const refused = receivedEvent({ payload: '{"a":"\0"}' })
    const good = { ...again(refused), payload: '{"a":1}' }
    await spoolAll([refused, good])
    await drainOf().runOnce(never)
    expect(await idsStored()).toEqual([good.id])
    expect(dead).toEqual([{ eventId: refused.id, reason: 'refused' }])
  })

  test('drain: an unreadable entry moves to the dead stream even while Postgres is unavailable', async () => {
    await appendRaw('nothing', 'of', 'ours')
    await spoolAll(many(2))
    await expect(drainOf(storingIn(() => gone)).runOnce(never)).rejects.toThrow('Postgres stored no event')
    expect(dead).toEqual([{ eventId: 'nothing', reason: 'unreadable' }])
    expect(await spool.stats()).toMatchObject({ entries: 2, deadEntries: 1 })
  })

  test('drain: an entry moves to the dead stream even if Redis and the spool are full', async () => {
    await spoolAll([receivedEvent({ payload: '{"a":"\0"}' }), ...many(3)])
    await command(lab.server, ['CONFIG', 'SET', 'maxmemory', '1mb'])
    await drainOf().runOnce(never)
    await command(lab.server, ['CONFIG', 'SET', 'maxmemory', '256mb'])
    expect(await spool.stats()).toMatchObject({ entries: 0, deadEntries: 1 })
  })
})

describe('drain and Redis failures', () => {
  test('drain: if Redis loses its data between read and removal, the read events are stored and newer entries stay', async () => {
    const events = many(5)
    await spoolAll(events)
    const store = storingIn(() => pool)
    const later = receivedEvent()
    const drain = drainOf(async (batch) => {
      const [entries] = await command(lab.server, ['XRANGE', spoolKeys.events, '-', '+'])
      const entryId = (entries as [string][])[0]?.[0] ?? ''
      await command(lab.server, ['FLUSHALL'])
      // Simulates a server whose clock is behind, which assigns the id of an earlier entry to a new one.
      const [id, facts, payload] = encodeEvent(later)
      const fields = ['id', id, 'facts', facts, 'payload', payload]
      await command(lab.server, ['XADD', spoolKeys.events, entryId, ...fields])
      return await store(batch)
    })
    await drain.runOnce(AbortSignal.abort())
    expect(await idsStored()).toEqual(idsOf(events))
    expect((await lab.entriesOf(spoolKeys.events)).map(({ id }) => id)).toEqual([later.id])
  })

  test('drain: fails while Redis is unavailable and continues when Redis is available again', async () => {
    const events = many(10)
    await spoolAll(events)
    lab.server.signal('SIGKILL')
    await until('a turn that fails', () =>
      drainOf()
        .runOnce(never)
        .then(
          () => undefined,
          () => true,
        ),
    )
    await lab.server.restart()
    await untilWorks(lab.redis, 'latchkey:spool')
    await drainOf().runOnce(never)
    expect(await idsStored()).toEqual(idsOf(events))
  })
})
