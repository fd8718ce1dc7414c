import { afterEach, expect, test } from 'bun:test'
import { createHealth } from '#internal/telemetry/index.ts'
import { createMovedClock } from '#test/support/moved-clock.ts'
import { type SeenRequest, startFakeApiServer } from '#test/support/tenants/fake-api-server.ts'
import { until } from '#test/support/until.ts'
import { createKubeClient } from './client.ts'
import { Election, type ElectionEvent, type ElectionOptions, type Leadership } from './leader.ts'
import type { Lease } from './lease.ts'
import { createTransport, type Transport } from './transport.ts'

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

/** One lease, kept as the API server keeps it, on a server that can be unavailable or hang. */
function serveLease() {
  const timing = createMovedClock()
  const kept: { lease: Lease | undefined; version: number } = { lease: undefined, version: 0 }
  const server = { mode: 'up' as 'up' | 'unavailable' | 'hung', inFlight: 0 }
  const refuse = (status: number, reason: string) => Response.json({ kind: 'Status', reason }, { status })
  const keep = (lease: Lease) => {
    kept.version += 1
    const metadata = { ...lease.metadata, uid: 'u', resourceVersion: String(kept.version) }
    kept.lease = { ...lease, metadata }
    return Response.json(kept.lease)
  }
  const answer = ({ method, body }: SeenRequest): Response => {
    if (server.mode === 'unavailable') return refuse(503, 'ServiceUnavailable')
    if (method === 'POST') return kept.lease ? refuse(409, 'AlreadyExists') : keep(body as Lease)
    if (!kept.lease) return refuse(404, 'NotFound')
    if (method === 'GET') return Response.json(kept.lease)
    const sent = body as Lease
    return sent.metadata.resourceVersion === kept.lease.metadata.resourceVersion
      ? keep(sent)
      : refuse(409, 'Conflict')
  }
  const fake = startFakeApiServer((request) =>
    server.mode === 'hung' ? new Promise(() => undefined) : answer(request),
  )
  closing.push(fake.stop)
  const inner = createTransport({ endpoint: fake.endpoint, userAgent: 'test' })
  const transport: Transport = {
    ...inner,
    request: async (request) => {
      server.inFlight += 1
      try {
        return await inner.request(request)
      } finally {
        server.inFlight -= 1
      }
    },
  }
  /** Moves time in small steps, each only when every answer that will come has come. */
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 100) {
      await timing.advance(100)
      await until(() => server.inFlight === 0 || server.mode === 'hung')
      await timing.settle()
    }
  }
  return { timing, kept, server, keep, pass, client: createKubeClient(transport) }
}
type Served = ReturnType<typeof serveLease>

/** A candidate whose work runs until its signal fires, and then until the test lets it end. */
function stand(served: Served, options: Partial<ElectionOptions> = {}) {
  const events: ElectionEvent[] = []
  const terms: Leadership[] = []
  const hold = { slow: false, let: () => undefined as void }
  const election = new Election({
    client: served.client,
    namespace: 'default',
    name: 'latchkey',
    host: 'pod',
    timing: served.timing,
    clock: served.timing,
    onEvent: (event) => events.push(event),
    lead: async (leadership) => {
      terms.push(leadership)
      await new Promise<void>((resolve) => {
        leadership.signal.addEventListener('abort', () => {
          hold.let = resolve
          if (!hold.slow) resolve()
        })
      })
    },
    ...options,
  })
  closing.push(async () => {
    hold.slow = false
    hold.let()
    await election.stop()
  })
  return { election, events, terms, hold, kinds: () => events.map(({ kind }) => kind) }
}

test('election: the first candidate creates the lease and leads, and the second candidate waits while the first renews the lease', async () => {
  const served = serveLease()
  const first = stand(served)
  await until(() => first.terms.length === 1)
  expect(first.election.isLeading()).toBe(true)
  expect(served.kept.lease?.spec).toMatchObject({
    holderIdentity: first.election.identity,
    leaseDurationSeconds: 15,
    leaseTransitions: 1,
  })
  const second = stand(served)
  const { version } = served.kept
  await served.pass(60_000)
  // The leader renews its lease every 2 s.
  expect(served.kept.version - version).toBeGreaterThan(25)
  expect(second.terms).toHaveLength(0)
  expect(first.events).toEqual([{ kind: 'leading', fence: 1 }])
})

test('election: 15 s after the last renewal another candidate becomes leader with a greater fence', async () => {
  const served = serveLease()
  served.keep({
    metadata: { name: 'latchkey', namespace: 'default' },
    spec: {
      holderIdentity: 'dead',
      leaseDurationSeconds: 15,
      // Ignored, because only a wrong clock can write a time so far ahead.
      renewTime: '2099-01-01T00:00:00.000000Z',
      leaseTransitions: 7,
    },
  })
  const { terms } = stand(served)
  await served.pass(14_900)
  expect(terms).toHaveLength(0)
  await served.pass(200)
  expect(terms.map(({ fence }) => fence)).toEqual([8])
})

test('election: after the leader releases the lease, another candidate becomes leader at its next attempt', async () => {
  const served = serveLease()
  const first = stand(served)
  await until(() => first.terms.length === 1)
  const second = stand(served)
  await served.pass(2500)
  await first.election.stop()
  expect(first.kinds()).toEqual(['leading', 'released'])
  expect(served.kept.lease?.spec).toMatchObject({ holderIdentity: '', leaseTransitions: 1 })
  await served.pass(2500)
  expect(second.terms.map(({ fence }) => fence)).toEqual([2])
})

test.each(['unavailable', 'hung'] as const)(
  'election: while the API server is %s, the leader’s work ends within renewMs, before another candidate can become leader',
  async (mode) => {
    const served = serveLease()
    const { election, terms, events, kinds } = stand(served)
    await until(() => terms.length === 1)
    await served.pass(2000)
    served.server.mode = mode
    await served.pass(8000)
    expect(terms[0]?.signal.aborted).toBe(false)
    await served.pass(2100)
    expect(terms[0]?.signal.aborted).toBe(true)
    expect(election.isLeading()).toBe(false)
    expect(terms[0]?.isHeld()).toBe(false)
    expect(events).toContainEqual({ kind: 'lost', why: 'deadline', fence: 1 })
    served.server.mode = 'up'
    await until(async () => {
      await served.pass(500)
      return terms.length === 2
    })
    expect(terms[1]?.fence).toBeGreaterThan(1)
    expect(kinds()).not.toContain('released')
  },
)

test.each<[string, (served: Served) => void]>([
  [
    'another candidate took the lease',
    ({ kept, keep }) =>
      keep({
        ...kept.lease,
        spec: { ...kept.lease?.spec, holderIdentity: 'b', leaseTransitions: 2 },
      } as Lease),
  ],
  [
    'the lease was deleted',
    ({ kept }) => {
      kept.lease = undefined
    },
  ],
])('election: the leader’s work ends at the next renewal after %s', async (_case, change) => {
  const served = serveLease()
  const { terms, events } = stand(served)
  await until(() => terms.length === 1)
  change(served)
  await served.pass(2200)
  expect(terms[0]?.signal.aborted).toBe(true)
  expect(events).toContainEqual({ kind: 'lost', why: 'taken', fence: 1 })
})

test('election: another client’s label on the lease does not end the leadership', async () => {
  const served = serveLease()
  const { terms, kinds } = stand(served)
  await until(() => terms.length === 1)
  for (let times = 0; times < 5; times += 1) {
    const { lease } = served.kept
    if (!lease) throw new Error('no lease')
    served.keep({ ...lease, metadata: { ...lease.metadata, labels: { seen: String(times) } } })
    await served.pass(4100)
  }
  expect(kinds()).toEqual(['leading'])
})

test('election: a deposed leader waits for its work before it becomes a candidate again, and fails liveness if the work hangs', async () => {
  const served = serveLease()
  const health = createHealth({ clock: served.timing })
  const { terms, hold } = stand(served, { health })
  await until(() => terms.length === 1)
  hold.slow = true
  served.server.mode = 'unavailable'
  await served.pass(12_500)
  served.server.mode = 'up'
  await served.pass(20_000)
  expect(terms).toHaveLength(1)
  expect(health.liveness().ok).toBe(true)
  await served.pass(16_000)
  expect(health.liveness().ok).toBe(false)
  hold.slow = false
  hold.let()
  await served.pass(5000)
  expect(terms).toHaveLength(2)
  expect(health.liveness().ok).toBe(true)
})

test('election: stop waits for the leader’s work before it releases the lease', async () => {
  const served = serveLease()
  const { election, terms, hold } = stand(served)
  await until(() => terms.length === 1)
  hold.slow = true
  const stopping = election.stop()
  await until(() => terms[0]?.signal.aborted === true)
  await served.timing.settle()
  expect(served.kept.lease?.spec?.holderIdentity).toBe(election.identity)
  hold.let()
  await Promise.all([stopping, election.stop()])
  expect(served.kept.lease?.spec?.holderIdentity).toBe('')
})

test('election: the fence of a recreated lease is above fenceFloor', async () => {
  const served = serveLease()
  const { terms } = stand(served, { fenceFloor: () => Promise.resolve(41) })
  await until(() => terms.length === 1)
  expect(terms[0]?.fence).toBe(42)
})

test('election: an exception of the leader’s work releases the lease and is reported, and the work starts again', async () => {
  const served = serveLease()
  let terms = 0
  const { events } = stand(served, {
    lead: () => {
      terms += 1
      throw new Error('broken')
    },
  })
  await until(() => events.length === 2)
  expect(events).toMatchObject([{ kind: 'leading' }, { kind: 'released', error: { message: 'broken' } }])
  await served.pass(3000)
  expect(terms).toBe(2)
})

test.each([
  { leaseMs: 10_000, renewMs: 10_000 },
  { renewMs: 3000, retryMs: 2000 },
])('election: the constructor throws for %p, since 2 × retryMs ≤ renewMs < leaseMs must hold', (times) => {
  const served = serveLease()
  expect(() => stand(served, times)).toThrow(RangeError)
})
