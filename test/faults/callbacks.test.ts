import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createServer, type Server, type Socket } from 'node:net'
import type { TenantId } from '#internal/base/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { seedWaiting } from '#test/bench/webhooks/seed.ts'
import { acceptEvents } from '#test/support/accepted-event.ts'
import { cloneTenants } from '#test/support/cloned-tenants.ts'
import { receivedEvent } from '#test/support/received-event.ts'
import { until } from '#test/support/until.ts'
import { EventLedger, printCounts } from './event-ledger.ts'
import { answersOf } from './event-load.ts'
import { type EventScene, loadSlug, openEventScene } from './event-scene.ts'
import { type SlowCallback, startSlowCallback } from './slow-callback.ts'

const slowTenants = 1_000
const slowEvents = 2
/** All under way at once, before a breaker may open. */
const endlessEvents = 60
const backlog = 100_000
const behindThose = 98_000

let scene: EventScene
let pool: Pool
let slow: SlowCallback
const slowLedger = new EventLedger()

beforeAll(async () => {
  slow = startSlowCallback((id) => slowLedger.arrived(id))
  scene = await openEventScene()
  const bounds = { connectionsMax: 2, queryTimeoutMs: 30_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: scene.postgres.url, applicationName: 'test', ...bounds })
}, 60_000)
afterAll(async () => {
  await pool?.end()
  await scene?.close()
  await slow?.stop()
})

/** Events of each tenant, as intake stores them; no forwarder is told. */
async function accept(ledger: EventLedger, tenantIds: readonly TenantId[], each: number): Promise<void> {
  const events = tenantIds.flatMap((tenantId) =>
    Array.from({ length: each }, () => receivedEvent({ tenantId })),
  )
  for (const { sourceEventId } of events) ledger.sent(sourceEventId)
  await acceptEvents(pool, events)
  for (const { sourceEventId } of events) ledger.acknowledged(sourceEventId, 200)
}

/** A time that is measured, rather than a wait for something. */
async function passes(ms: number): Promise<void> {
  const endMs = performance.now() + ms
  await until(`${ms} ms`, () => performance.now() >= endMs)
}

function p99(sorted: readonly number[]): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.99))] ?? Number.NaN
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

/**
 * Far more than `npm run bench -- webhooks` allows (1.5 times), since other work on the machine is in both figures here. What
 * this is for is a queue that stands still: then they are as long as a call's time-out, 15 s.
 */
const timesMax = 4
const shortMs = 1_000
/** Less than a call's time-out. */
const settleMsMax = 12_000

interface Turn {
  readonly calm: number
  readonly troubled: number
}

function expectUnharmed(turns: readonly Turn[]): void {
  const troubled = median(turns.map((turn) => turn.troubled))
  const times = median(turns.map((turn) => turn.troubled / turn.calm))
  expect(troubled <= shortMs || times <= timesMax).toBe(true)
}

function inWords(turns: readonly Turn[]): string {
  const pairs = turns.map(({ calm, troubled }) => `${calm.toFixed(0)} → ${troubled.toFixed(0)}`)
  return `p99 ms of the others without → with: ${pairs.join(', ')}`
}

test('a thousand callbacks that hang do not hold up the others', async () => {
  const tenantIds = await cloneTenants(pool, {
    of: loadSlug,
    count: slowTenants,
    callback: { url: slow.url },
  })
  const load = scene.startLoad({ senders: 8, restMs: 50 })
  const turns: Turn[] = []
  // The first calls show the forwarder the way.
  await load.untilMore(200)
  for (let turn = 0; turn < 3; turn += 1) {
    await until('a queue at rest', () => load.ledger.missing().length < 20)
    const calmFromMs = performance.now()
    await passes(3_000)
    const calm = p99(load.ledger.delaysSince(calmFromMs))
    slow.hang()
    await accept(slowLedger, tenantIds, slowEvents)
    // A thousand calls at once are work by themselves, and until one of its calls waits for half a second nobody hangs.
    await until('calls that hang wherever anybody may', () => slow.hanging() >= 900)
    await until('the others at rest', () => load.ledger.missing().length < 20, settleMsMax)
    const troubledFromMs = performance.now()
    await passes(4_000)
    const waiting = load.ledger.missing().length
    const delays = load.ledger.delaysSince(troubledFromMs)
    expect(slow.hanging()).toBeGreaterThanOrEqual(900)
    expect(delays.length).toBeGreaterThan(waiting)
    turns.push({ calm, troubled: p99(delays) })
    slow.release()
    await until('those that hung', () => slowLedger.missing().length === 0, 60_000)
  }
  await scene.finish(load)
  const counts = load.ledger.counts()
  printCounts('beside 1 000 callbacks that hang', counts, `${answersOf(load)}; ${inWords(turns)}`)
  printCounts('1 000 callbacks that hang', slowLedger.counts())
  expect(counts.lost + counts.twice).toBe(0)
  expectUnharmed(turns)
}, 120_000)

/** A callback whose answers have no end: bytes as fast as they go, or one each 50 ms. */
async function startEndless(
  kind: 'flood' | 'drip',
): Promise<{ server: Server; url: string; open(): number }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n')
      const bytes = Buffer.alloc(kind === 'flood' ? 65_536 : 1, 'x')
      const pour = () => {
        while (kind === 'flood' && socket.writable && socket.write(bytes));
      }
      const timer = kind === 'drip' ? setInterval(() => socket.write(bytes), 50) : undefined
      socket.on('drain', pour)
      pour()
      socket.on('close', () => {
        clearInterval(timer)
        sockets.delete(socket)
      })
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = address !== null && typeof address === 'object' ? address.port : 0
  return { server, url: `http://127.0.0.1:${port}/`, open: () => sockets.size }
}

async function forwarderBytes(): Promise<number> {
  const { opsPort } = await scene.forwarder.logged('listening')
  const text = await (await fetch(`http://localhost:${opsPort}/metrics`)).text()
  return Number(/^process_resident_memory_bytes (\S+)/m.exec(text)?.[1])
}

test.each([
  // 16 KiB of it are read, which is all that would be kept.
  ['flood', 'processed'],
  // It has not answered when its time is over.
  ['drip', 'delivery_failed'],
] as const)(
  'a callback that answers endlessly (%s) ends each call, and holds up nobody',
  async (kind, state) => {
    const endless = await startEndless(kind)
    const timeoutSeconds = kind === 'drip' ? 1 : 15
    const callback = { url: endless.url, timeoutSeconds, retry: { schedule: ['0s'] } }
    const tenantIds = await cloneTenants(pool, { of: loadSlug, count: 1, name: kind, callback })
    const load = scene.startLoad({ senders: 8, restMs: 20 })
    await load.untilMore(200)
    const before = await forwarderBytes()
    const ledger = new EventLedger()
    await accept(ledger, tenantIds, endlessEvents)
    const states = async () => {
      const { rows } = await pool.query<{ state: string; count: number }>(
        'SELECT state, count(*) AS count FROM events WHERE tenant_id = $1 GROUP BY state',
        [tenantIds[0]],
      )
      return Object.fromEntries(rows.map((row) => [row.state, row.count]))
    }
    await until('all of them ended', async () => (await states())[state] === endlessEvents, 30_000)
    await until('no connection that is left', () => endless.open() === 0)
    const grown = (await forwarderBytes()) - before
    await scene.finish(load)
    const counts = load.ledger.counts()
    const note = `${answersOf(load)}; its own: ${JSON.stringify(await states())}, forwarder ${(grown / 2 ** 20).toFixed(0)} MB more`
    printCounts(`beside a callback that answers endlessly (${kind})`, counts, note)
    expect(counts.lost + counts.twice).toBe(0)
    expect(grown).toBeLessThan(100 * 2 ** 20)
    endless.server.close()
  },
  120_000,
)

/** Events that wait; those whose turn never comes need not be there but for their place in the queue. */
async function pile(tenantId: TenantId): Promise<void> {
  await seedWaiting(pool, { tenantId, count: backlog - behindThose })
  await pool.query(
    `INSERT INTO deliveries_due (event_id, tenant_id, expires_on, payload_expires_on, payload_bytes, round, due_at)
     SELECT left(d.event_id, 16) || lpad(n::text, 14, '0'), tenant_id, expires_on, payload_expires_on, payload_bytes, 1, now()
     FROM generate_series(1, $2::integer) n, (SELECT * FROM deliveries_due WHERE tenant_id = $1 LIMIT 1) d`,
    [tenantId, behindThose],
  )
}

test('100 000 events behind one dead callback do not hold up the others', async () => {
  const [dead] = await cloneTenants(pool, {
    ...{ of: loadSlug, count: 1, name: 'dead' },
    callback: { url: 'http://127.0.0.1:9/' },
  })
  if (!dead) throw new Error('one was cloned')
  const load = scene.startLoad({ senders: 8, restMs: 50 })
  await load.untilMore(200)
  await until('a queue at rest', () => load.ledger.missing().length < 20)
  const calmFromMs = performance.now()
  await passes(4_000)
  const calm = p99(load.ledger.delaysSince(calmFromMs))
  await pile(dead)
  const troubledFromMs = performance.now()
  await passes(8_000)
  const waiting = load.ledger.missing().length
  const turn = { calm, troubled: p99(load.ledger.delaysSince(troubledFromMs)) }
  await scene.finish(load)
  const counts = load.ledger.counts()
  const { rows } = await pool.query<{ due: number; tried: number }>(
    'SELECT count(*) AS due, count(*) FILTER (WHERE attempts > 0) AS tried FROM deliveries_due WHERE tenant_id = $1',
    [dead],
  )
  const [left] = rows
  const note = `${answersOf(load)}; ${inWords([turn])}; behind it ${left?.due}, of which tried ${left?.tried}`
  printCounts('beside 100 000 events of a dead callback', counts, note)
  expect(counts.lost + counts.twice).toBe(0)
  expect(waiting).toBeLessThan(200)
  expectUnharmed([turn])
  // Nothing of it is given up, and its breaker keeps most of it from being tried in vain.
  expect(Number(left?.due)).toBe(backlog)
  expect(Number(left?.tried)).toBeLessThan(backlog / 10)
}, 120_000)
