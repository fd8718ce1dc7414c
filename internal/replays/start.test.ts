import { beforeAll, beforeEach, expect, test } from 'bun:test'
import { openReplayLab, type ReplayLab } from '#test/support/events/replay-lab.ts'
import { previewReplay, type StartReplayRequest } from './start.ts'

let lab: ReplayLab

beforeAll(async () => {
  lab = await openReplayLab()
  return () => lab.close()
})
beforeEach(() => lab.reset())

test('start of a replay: a repeated request with the same key returns the same job, and a different request with this key is refused', async () => {
  const filter = lab.anHour()
  const job = await lab.started({ filter })
  const repeats = await Promise.all(Array.from({ length: 10 }, () => lab.start({ filter })))
  expect(repeats.map((repeat) => repeat.kind === 'already_started' && repeat.job.id)).toEqual(
    repeats.map(() => job.id),
  )
  expect(await lab.start({ filter: { ...filter, type: 'order.paid' } })).toEqual({ kind: 'conflict' })
  expect(await lab.start({ filter, ratePerSecond: 5 })).toEqual({ kind: 'conflict' })
  const other = (await lab.addTenant()).id
  expect(await lab.start({ filter: { ...filter, tenantId: other } })).toMatchObject({ kind: 'started' })
  expect(await lab.value('SELECT count(*) FROM audit')).toBe(2)
})

test('start of a replay: enforces the limits per tenant and for all tenants', async () => {
  const many = await Promise.all(
    Array.from({ length: 6 }, (_none, nth) => lab.start({ idempotencyKey: `k${nth}` })),
  )
  expect(many.filter(({ kind }) => kind === 'started')).toHaveLength(2)
  expect(many.find(({ kind }) => kind === 'too_many')).toEqual({ kind: 'too_many', whose: 'own', max: 2 })
  for (let nth = 2; nth < 20; nth += 1) {
    const owner = (await lab.addTenant()).id
    expect(await lab.start({ filter: { ...lab.anHour(), tenantId: owner } })).toMatchObject({
      kind: 'started',
    })
  }
  const { tenantId: _mine, ...everybody } = lab.anHour()
  expect(await lab.start({ filter: everybody })).toEqual({ kind: 'too_many', whose: 'all', max: 20 })
})

test('start of a replay: waiting jobs do not count towards the limit for all tenants, and some slots are reserved for the platform', async () => {
  const ofAnother = async (isByTenant: boolean) =>
    lab.start({ filter: { ...lab.anHour(), tenantId: (await lab.addTenant()).id }, isByTenant })
  const refused = { kind: 'too_many', whose: 'all', max: 15 } as const
  for (let nth = 0; nth < 15; nth += 1) expect(await ofAnother(true)).toMatchObject({ kind: 'started' })
  expect(await ofAnother(true)).toEqual(refused)
  expect(await ofAnother(false)).toMatchObject({ kind: 'started' })
  const { tenantId: _mine, ...everybody } = lab.anHour()
  expect(await lab.start({ filter: everybody })).toMatchObject({ kind: 'started' })
  await lab.pool.query('UPDATE replays SET is_waiting = true')
  expect(await ofAnother(true)).toMatchObject({ kind: 'started' })
})

test.each<[string, Partial<StartReplayRequest>]>([
  ['a rate of 0', { ratePerSecond: 0 }],
  ['a rate above the maximum', { ratePerSecond: 1_001 }],
  ['a fractional rate', { ratePerSecond: 1.5 }],
  ['an empty key', { idempotencyKey: '' }],
  ['an actor of 201 characters', { by: 'x'.repeat(201) }],
  ['an end before its start', { filter: { fromMs: 2, toMs: 1 } }],
  ['an empty list of ids', { filter: { fromMs: 0, ids: [] } }],
])('start of a replay: a request with %s is refused', async (_what, fields) => {
  expect(await lab.start(fields)).toMatchObject({ kind: 'invalid' })
  expect(await lab.value('SELECT count(*) FROM replays')).toBe(0)
})

test('start of a replay: an unknown tenant is refused', async () => {
  await lab.pool.query('UPDATE tenants SET deleted_at = now() WHERE id = $1', [lab.tenantId])
  expect(await lab.start()).toEqual({ kind: 'unknown_tenant' })
})

test('replay preview: returns the count, the first events and the newest event', async () => {
  const ids = await lab.failed(60)
  await lab.accept(lab.tenantId, 2)
  const preview = await previewReplay(lab.reader, { tenantId: lab.tenantId, fromMs: 0 }, Date.now() + 1)
  expect(preview.total).toEqual({ count: 60, isExact: true })
  expect(preview.examples.map(({ id }) => id)).toEqual(ids.slice(0, 20))
  const newest = await previewReplay(lab.reader, lab.anHour(), Date.now() + 1)
  expect([newest.newest?.id]).toEqual(ids.slice(-1))
  expect(await lab.value('SELECT count(*) FROM deliveries_due')).toBe(2)
})

test('replay preview: the count is a lower bound above 10 000 events', async () => {
  const [one] = await lab.failed(1)
  await lab.pool.query(
    `INSERT INTO events SELECT substr(id, 1, 21) || lpad(to_hex(n), 9, '0'), expires_on, tenant_id, provider, source_event_id || n, raw_type,
       type, occurred_at, received_at, headers, payload_bytes, payload_expires_on, 'processed', 1, now()
     FROM events, generate_series(1, 12000) n WHERE id = $1`,
    [one],
  )
  const { total } = await previewReplay(lab.reader, { tenantId: lab.tenantId, fromMs: 0 }, Date.now() + 1)
  expect(total).toEqual({ count: 10_000, isExact: false })
})
