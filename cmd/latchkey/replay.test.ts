import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createEventId, type EventId, type TenantId } from '#internal/base/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/delivery-lab.ts'
import { latchkey } from '#test/support/latchkey.ts'
import { truncateEvents } from '#test/support/truncate-events.ts'
import { parseTime } from './values.ts'

let lab: DeliveryLab
let tenantId: TenantId
beforeAll(async () => {
  lab = await createDeliveryLab()
  tenantId = (await lab.addTenant()).id
  return () => lab.close()
})
beforeEach(async () => {
  await truncateEvents(lab.pool, 'audit', 'replays')
})

/** Events whose delivery cycle has ended. */
async function processed(count: number): Promise<EventId[]> {
  const ids = await lab.accept(tenantId, count)
  await lab.pool.query('TRUNCATE deliveries_due')
  await lab.pool.query("UPDATE events SET state = 'processed', completed_at = now()")
  return ids.toSorted()
}

const run = (...args: string[]) => latchkey(['replay', ...args], { LATCHKEY_DATABASE_URL: lab.databaseUrl })
const ofTenant = () => ['--tenant', tenantId, '--from', '24h', '--state', 'processed']

describe('replay', () => {
  test('latchkey replay event: queues another delivery cycle of one event and records the actor in the audit log', async () => {
    const [id = ''] = await processed(1)
    expect(await run('event', id, '--by', 'ann')).toEqual({
      code: 0,
      out: 'queued: delivery cycle 2 begins now\n',
      err: '',
    })
    expect(await run('event', id)).toMatchObject({
      code: 0,
      out: 'delivery cycle 2 is already running: nothing to do\n',
    })
    const { rows } = await lab.pool.query('SELECT actor, tenant_id FROM audit')
    expect(rows).toEqual([{ actor: 'ann', tenant_id: tenantId }])
    const unknown = createEventId(Date.now(), 90)
    expect(await run('event', unknown)).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringContaining('no such event'),
    })
    const json = await run('event', unknown, '--json')
    expect([json.code, JSON.parse(json.out)]).toEqual([
      1,
      { eventId: unknown, result: { kind: 'not_found' } },
    ])
  })

  test('latchkey replay start --dry-run: counts the events and starts no replay', async () => {
    const ids = await processed(30)
    const { code, out } = await run('start', ...ofTenant(), '--dry-run')
    expect(code).toBe(0)
    expect(out).toContain('30 events would be examined; nothing was queued')
    expect(out).toContain(ids[0] ?? 'none')
    const json = JSON.parse((await run('start', ...ofTenant(), '--dry-run', '--json')).out)
    expect(json).toMatchObject({ total: { count: 30, isExact: true }, newest: { id: ids.at(-1) } })
    expect(json.examples).toHaveLength(20)
    expect(await lab.value('SELECT count(*) FROM replays')).toBe(0)
  })

  test('latchkey replay: start, status, list and cancel work on the same replay', async () => {
    await processed(3)
    const started = await run('start', ...ofTenant(), '--rate', '7', '--by', 'ann', '--json')
    const job = JSON.parse(started.out)
    expect([started.code, job]).toMatchObject([
      0,
      { state: 'queued', ratePerSecond: 7, requestedBy: 'ann', filter: { tenantId, state: 'processed' } },
    ])
    const vendor = [
      'start',
      '--tenant',
      tenantId,
      '--from',
      '1h',
      '--provider',
      'github',
      '--dry-run',
      '--json',
    ]
    expect(JSON.parse((await run(...vendor)).out)).toMatchObject({ total: { count: 0 } })
    const status = await run('status', job.id)
    expect(status.out).toContain('queued')
    expect(status.out).toContain('7 a second')
    expect(JSON.parse((await run('list', '--tenant', tenantId, '--json')).out)).toMatchObject({
      ...{ items: [{ id: job.id }], next: null },
    })
    expect((await run('list')).out).toContain(job.id)
    expect(await run('cancel', job.id)).toMatchObject({ code: 0, out: expect.stringContaining('cancelled') })
    expect(await run('cancel', job.id)).toMatchObject({
      code: 1,
      err: 'The replay had already ended: cancelled\n',
    })
  })

  test('latchkey replay start --key: a repeated request returns the same replay, and a different request with that key is refused', async () => {
    const at = ['--from', '2026-01-01', '--tenant', tenantId, '--key', 'incident 7', '--json']
    const first = JSON.parse((await run('start', ...at)).out)
    expect(JSON.parse((await run('start', ...at)).out).id).toBe(first.id)
    expect(await run('start', ...at, '--rate', '9')).toMatchObject({
      code: 1,
      out: expect.stringContaining('The key was used for another replay'),
    })
  })

  test.each([
    [['start', '--tenant', 'nobody', '--from', '1h'], 'No tenant has that id or slug'],
    [['list', '--tenant', 'nobody'], 'No tenant has that id or slug'],
    [['status', 'rpl_00000000000000000000000000'], 'No replay has that id'],
    [['cancel', 'rpl_00000000000000000000000000'], 'No replay has that id'],
  ])('latchkey replay: the arguments %j fail with "%s"', async (args, text) => {
    expect(await run(...args)).toEqual({ code: 1, out: '', err: `${text}\n` })
  })

  test('latchkey replay --help: prints the usage', async () => {
    const { code, out } = await run('start', '--help')
    expect([code, out]).toEqual([0, expect.stringContaining('Usage: latchkey replay start [options]')])
  })

  test.each([
    [[], 'Usage: latchkey replay'],
    [['again'], "unknown command 'again'"],
    [['stat'], 'Did you mean start?'],
    [['event'], "missing required argument 'id'"],
    [['event', 'x'], 'It has to be evt_ and 26 characters'],
    [['status', 'evt_1'], 'It has to be rpl_ and 26 characters'],
    [['list', 'x'], 'too many arguments'],
    [['list', '--rate', '3'], "unknown option '--rate'"],
    [
      ['list', '--limit', '101'],
      "'--limit <n>' argument '101' is invalid. It has to be a whole number from 1 to 100",
    ],
    [['list', '--after', 'x'], 'It has to be rpl_ and 26 characters'],
    [['start', '--from', '1h'], 'Give either --tenant ID|SLUG or --all-tenants'],
    [
      ['start', '--from', '1h', '--tenant', 'a', '--all-tenants'],
      "cannot be used with option '--all-tenants'",
    ],
    [['start', '--tenant', 'a'], "required option '--from <time>' not specified"],
    [['start', '--tenant', 'a', '--from', 'yesterday'], 'It has to be a time'],
    [['start', '--tenant', 'a', '--from', '2026-13-41'], 'It has to be a time'],
    [
      ['start', '--tenant', 'a', '--from', '1h', '--to', '10:00'],
      "'--to <time>' argument '10:00' is invalid",
    ],
    [
      ['start', '--tenant', 'a', '--from', '1h', '--state', 'accepted'],
      'Allowed choices are delivery_failed',
    ],
    [['start', '--tenant', 'a', '--from', '1h', '--provider', 'nobody'], 'Allowed choices are card'],
    [['start', '--tenant', 'a', '--from', '1h', '--rate', '0'], 'It has to be a whole number from 1 to 1000'],
    [['start', '--tenant', 'a', '--from', '1h', '--colour'], "unknown option '--colour'"],
  ])('latchkey replay: the arguments %j are rejected with "%s"', async (args, text) => {
    const { code, out, err } = await run(...args)
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
})
