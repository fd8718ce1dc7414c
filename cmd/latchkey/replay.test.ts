import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createEventId, type EventId } from '#internal/base/index.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { type CommandLab, startCommandLab } from '#test/support/processes/command-lab.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'
import { parseTime } from './values.ts'

let lab: CommandLab
beforeAll(async () => {
  lab = await startCommandLab()
}, 30_000)
afterAll(() => lab.close())
beforeEach(async () => {
  await truncateEvents(lab.backoffice.pool, 'audit', 'replays')
})

/** Events of acme whose delivery cycle has ended. */
async function processed(count: number): Promise<EventId[]> {
  const { pool } = lab.backoffice
  const { tenantId } = lab.seeded.acme
  const ids = await acceptEvents(
    pool,
    Array.from({ length: count }, () => receivedEvent({ tenantId })),
  )
  await pool.query('TRUNCATE deliveries_due')
  await pool.query("UPDATE events SET state = 'processed', completed_at = now()")
  return ids.toSorted()
}

/** Variables of a caller with an API key and without a token, so that commands use the public API. */
function keyOnly(tenant: 'acme' | 'rival' = 'acme'): Record<string, string> {
  const { LATCHKEY_TOKEN: _token, LATCHKEY_INTERNAL_URL: _url, ...env } = lab.env(tenant)
  return env
}

/** Environments of both APIs, with the actor that the audit log has, and the options that choose acme's events. */
const apis = [
  ['the internal API', () => lab.env(), 'dev', ['--tenant', 'shops/acme']],
  ['the public API', () => keyOnly(), 'key:', []],
] as const
// Excludes the events of the lab's simulation, which can arrive at any time.
const ofAcme = ['--from', '24h', '--state', 'processed', '--provider', 'generic']

describe.each(apis)('replay with %s', (_name, env, actor, ofTenant) => {
  const run = (...args: string[]) => latchkey(['replay', ...args], env())
  const json = async (...args: string[]) => JSON.parse((await run(...args, '--json')).out)

  test('latchkey replay event: starts another delivery cycle, and the audit log names the caller', async () => {
    const [id = ''] = await processed(1)
    expect(await run('event', id)).toEqual({ code: 0, out: 'Delivery cycle 2 begins now\n', err: '' })
    expect((await run('event', id)).out).toContain('Delivery cycle 2 is in progress')
    const { rows } = await lab.backoffice.pool.query(
      "SELECT actor, tenant_id FROM audit WHERE action = 'events.replayed'",
    )
    expect(rows).toEqual([{ actor: expect.stringContaining(actor), tenant_id: lab.seeded.acme.tenantId }])
    const unknown = await run('event', createEventId(Date.now(), 90), '--json')
    expect([unknown.code, JSON.parse(unknown.out)]).toMatchObject([3, { code: 'not_found' }])
  })

  test('latchkey replay start --dry-run: counts the events and starts no replay', async () => {
    const ids = await processed(30)
    const { code, out } = await run('start', ...ofTenant, ...ofAcme, '--dry-run')
    expect(code).toBe(0)
    expect(out).toContain('30 events match')
    for (const id of [ids[0], ids.at(-1)]) expect(out).toContain(id ?? 'none')
    const counted = await json('start', ...ofTenant, ...ofAcme, '--dry-run')
    expect(counted).toMatchObject({ total: { count: 30, isExact: true }, newest: { id: ids.at(-1) } })
    expect(counted.examples).toHaveLength(20)
    expect(await json('list')).toEqual([])
  })

  test('latchkey replay: start, status, list and cancel work on the same replay', async () => {
    await processed(3)
    const job = await json('start', ...ofTenant, ...ofAcme, '--rate', '7')
    const { tenantId } = lab.seeded.acme
    expect(job).toMatchObject({
      state: 'queued',
      ratePerSecond: 7,
      requestedBy: expect.stringContaining(actor),
      filter: { tenantId, state: 'processed' },
    })
    const vendor = ['--from', '1h', '--provider', 'github', '--dry-run']
    expect(await json('start', ...ofTenant, ...vendor)).toMatchObject({ total: { count: 0 } })
    const { out } = await run('status', job.id)
    for (const text of ['queued', '7 a second', tenantId]) expect(out).toContain(text)
    expect(await json('list', ...ofTenant)).toMatchObject([{ id: job.id }])
    expect((await run('list')).out).toContain(job.id)
    expect((await run('cancel', job.id)).out).toContain('cancelled')
    expect(await run('cancel', job.id)).toMatchObject({
      code: 1,
      err: 'The replay had already ended: cancelled\n',
    })
  })

  test('latchkey replay start --replay: replays the events that failed again in an earlier replay, and status and list show its progress', async () => {
    const [kept = '', failed = ''] = await processed(2)
    const job = await json('start', ...ofTenant, ...ofAcme)
    const { pool } = lab.backoffice
    await pool.query(
      `UPDATE replays SET state = 'completed', queued_count = 2, queued = $2, ended_at = now() WHERE id = $1`,
      [job.id, [`${kept}:1`, `${failed}:1`]],
    )
    await pool.query("UPDATE events SET state = 'delivery_failed' WHERE id = $1", [failed])
    const words = '2 queued: 1 delivered, 1 failed again'
    const { out } = await run('status', job.id)
    for (const text of [words, `latchkey events list --replay ${job.id} --outcome failed`])
      expect(out).toContain(text)
    expect((await run('list')).out).toContain(words)
    const again = await json('start', ...ofTenant, '--replay', job.id, '--outcome', 'failed', '--dry-run')
    expect(again).toMatchObject({ total: { count: 1, isExact: true }, examples: [{ id: failed }] })
  })

  test('latchkey replay start --key: a repeated command returns the same replay, and a different request with the same key is refused', async () => {
    const args = ['start', '--from', '2026-01-01', ...ofTenant, '--key', 'incident 7']
    const first = await json(...args)
    expect((await json(...args)).id).toBe(first.id)
    expect(await run(...args, '--rate', '9')).toMatchObject({
      code: 1,
      err: expect.stringContaining('idempotency_key_reused'),
    })
  })

  test.each([['status'], ['cancel']])(
    'latchkey replay %s: an unknown replay is not found',
    async (command) => {
      expect((await run(command, 'rpl_00000000000000000000000000')).code).toBe(3)
    },
  )
})

test('latchkey replay: an API key gives no access to replays of other tenants', async () => {
  await processed(1)
  const { id } = await lab.json<{ id: string }>('replay', 'start', '--tenant', 'acme', ...ofAcme)
  for (const command of ['status', 'cancel'])
    expect((await latchkey(['replay', command, id], keyOnly('rival'))).code).toBe(3)
  expect((await latchkey(['replay', 'list', '--json'], keyOnly('rival'))).out).toBe('[]\n')
})

test('latchkey replay start --all-tenants: replays events of all tenants', async () => {
  await processed(2)
  const job = await lab.json('replay', 'start', '--all-tenants', ...ofAcme)
  expect(job['filter']).not.toHaveProperty('tenantId')
  expect((await lab.run('replay', 'status', String(job['id']))).out).toMatch(/^tenant +all$/m)
})

test.each([
  [['start', '--tenant', 'nobody', '--from', '1h'], 3, '(not_found, request '],
  [['list', '--tenant', 'nobody'], 3, '(not_found, request '],
  [['start', '--from', '1h'], 2, 'give either --tenant TENANT or --all-tenants'],
])('latchkey replay %j: with a token, ends with exit code %d and prints %j', async (args, exitCode, text) => {
  const { code, out, err } = await lab.run('replay', ...args)
  expect({ code, out }).toEqual({ code: exitCode, out: '' })
  expect(err).toContain(text)
})

test.each([
  [['start', '--tenant', 'acme', '--from', '1h']],
  [['start', '--all-tenants', '--from', '1h']],
  [['list', '--tenant', 'acme']],
])('latchkey replay %j: without a token, prints how to log in', async (args) => {
  const { code, err } = await latchkey(['replay', ...args], keyOnly())
  expect([code, err]).toEqual([4, expect.stringContaining('latchkey login --internal')])
})

test.each([
  [['event'], "missing required argument 'id'"],
  [['event', 'x'], 'It must be evt_ and 26 characters'],
  [['status', 'evt_1'], 'It must be rpl_ and 26 characters'],
  [['list', 'x'], 'too many arguments'],
  [['list', '--limit', '1001'], 'It must be a whole number from 1 to 1000'],
  [['start', '--from', '1h', '--tenant', 'a', '--all-tenants'], "cannot be used with option '--all-tenants'"],
  [['start', '--tenant', 'a'], 'give --from TIME, or --replay ID'],
  [['start', '--tenant', 'a', '--replay', 'evt_1'], 'It must be rpl_ and 26 characters'],
  [['start', '--tenant', 'a', '--from', '1h', '--outcome', 'lost'], 'Allowed choices are delivered'],
  [['start', '--tenant', 'a', '--from', 'yesterday'], 'It must be a time'],
  [['start', '--tenant', 'a', '--from', '2026-13-41'], 'It must be a time'],
  [['start', '--from', '1h', '--to', '10:00'], "'--to <time>' argument '10:00' is invalid"],
  [['start', '--from', '1h', '--state', 'accepted'], 'Allowed choices are processed'],
  [['start', '--from', '1h', '--provider', 'No one'], 'It must be the name of a provider'],
  [['start', '--from', '1h', '--rate', '0'], 'It must be a whole number from 1 to 1000'],
])('latchkey replay: the arguments %j are rejected with "%s"', async (args, text) => {
  const { code, out, err } = await latchkey(['replay', ...args], {})
  expect({ code, out }).toEqual({ code: 2, out: '' })
  expect(err).toContain(text)
})

test.each([
  ['90m', Date.UTC(2026, 10, 20, 22, 30)],
  ['24h', Date.UTC(2026, 10, 20)],
  ['7d', Date.UTC(2026, 10, 14)],
  ['2026-11-01', Date.UTC(2026, 10, 1)],
  ['2026-11-01T08:30:00Z', Date.UTC(2026, 10, 1, 8, 30)],
  ['2026-11-01T08:30+02:00', Date.UTC(2026, 10, 1, 6, 30)],
])('latchkey replay start: accepts %s as --from', (from, fromMs) => {
  expect(parseTime(Date.UTC(2026, 10, 21))(from)).toBe(fromMs)
})
