import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { EventId } from '#internal/base/index.ts'
import { acceptEvents } from '#test/support/accepted-event.ts'
import { adminToken, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import {
  dashboardKey,
  dashboardTenantYaml,
  failEvent,
  refuseCall,
  type SeededTenant,
  seedTenant,
} from '#test/support/backoffice-tenants.ts'
import {
  type DashboardSession,
  openDashboardSession,
  withoutFormToken,
} from '#test/support/dashboard-session.ts'
import { addAttempt } from '#test/support/event-attempts.ts'
import { receivedEvent } from '#test/support/received-event.ts'

/** Each breaks out of another place: text, an attribute, a script, a link. */
const attacks = [
  `<script>alert(1)</script>`,
  `"><img src=x onerror=alert(1)>`,
  `' onmouseover='alert(1)`,
  `</code></pre><svg/onload=alert(1)>`,
  `javascript:alert(1)`,
]
const evil = attacks.join(' ')
const isActive =
  /<script>alert|<img|<svg\/onload|<[^>]*\son\w+=|(href|src|action|hx-[a-z-]+)="\s*javascript:/i

let backoffice: TestBackoffice
let rival: SeededTenant
let admin: DashboardSession
let id: EventId

beforeAll(async () => {
  backoffice = await startTestBackoffice(`${dashboardTenantYaml('acme')}${dashboardTenantYaml('rival')}`)
  rival = await seedTenant(backoffice, 'rival')
  admin = await openDashboardSession(backoffice.url, adminToken)
  const { pool } = backoffice
  const tenantId = backoffice.tenantId('acme')
  const outside = { type: evil, rawType: evil, sourceEventId: evil }
  const [first] = await acceptEvents(pool, [
    receivedEvent({
      ...{ tenantId, ...outside },
      headers: JSON.stringify({ [evil]: evil, 'latchkey-simulation': evil }),
      payload: JSON.stringify({ [evil]: evil, list: [evil] }),
    }),
  ])
  if (first === undefined) throw new Error('an event was stored and not told')
  id = first
  await addAttempt(pool, id, { answer: evil })
  await addAttempt(pool, id, {
    attempt: 2,
    outcome: 'failed',
    status: null,
    cause: evil,
    answer: JSON.stringify([evil]),
  })
  await failEvent(backoffice, id)
  await refuseCall(backoffice, 'acme', { headers: { [evil]: evil }, sample: evil })
  await pool.query(
    'UPDATE refused_calls SET cause = $1, provider = $1, source_address = $1 WHERE tenant_id = $2',
    [evil, tenantId],
  )
  const from = new Date(Date.now() - 3_600_000).toISOString()
  const started = await backoffice.call('POST', '/internal/v1/replays', {
    ...{ body: { tenantId, from, type: evil }, headers: { 'Idempotency-Key': 'evil' } },
  })
  expect(started.status).toBe(200)
  await pool.query(
    'UPDATE replays SET requested_by = $1, failed_cause = $1, state = $2 WHERE tenant_id = $3',
    [evil, 'failed', tenantId],
  )
}, 30_000)
afterAll(() => backoffice.close())

const asked = encodeURIComponent(evil)
const hourAgo = new Date(Date.now() - 3_600_000).toISOString().slice(0, 19)

describe('text from outside is shown as text', () => {
  test.each([
    ['a list', () => '/events'],
    ['an event', () => `/events/${id}`],
    ['its timeline', () => `/events/${id}?part=progress`],
    ['a question', () => `/events/${id}/replay`],
    ['refused calls', () => '/refused?tenant=acme'],
    ['replays', () => '/replays'],
    ['a preview', () => `/replays/preview?tenant=acme&from=${hourAgo}&state=delivery_failed`],
  ])('%s', async (_what, path) => {
    const { status, html } = await admin.get(path())
    expect(status).toBe(200)
    expect(html).toContain('&lt;script>alert(1)&lt;/script>')
    expect(isActive.exec(html)?.[0]).toBeUndefined()
  })

  test('a replay', async () => {
    const path =
      /href="(\/replays\/rpl_[^"?]*)/.exec((await admin.get('/replays?tenant=acme')).html)?.[1] ?? ''
    const { status, html } = await admin.get(path)
    expect(status).toBe(200)
    expect(html).toContain('&lt;script>')
    expect(isActive.exec(html)?.[0]).toBeUndefined()
  })

  test('a payload as it was received', async () => {
    const { status, html } = await admin.post(`/events/${id}/payload`)
    expect(status).toBe(200)
    expect(html).toContain('&lt;script>')
    expect(isActive.exec(html)?.[0]).toBeUndefined()
  })

  test.each(['/events', '/refused', '/replays', '/replays/new', '/replays/preview'])(
    'what is asked for in the address of %s',
    async (path) => {
      for (const name of [
        'type',
        'find',
        'provider',
        'state',
        'cause',
        'from',
        'to',
        'within',
        'rate',
        'after',
        'tenant',
      ]) {
        const { html } = await admin.get(`${path}?${name === 'tenant' ? '' : 'tenant=acme&'}${name}=${asked}`)
        expect([name, isActive.exec(html)?.[0]]).toEqual([name, undefined])
      }
    },
  )
})

describe('a tenant’s key', () => {
  let own: DashboardSession
  beforeAll(async () => {
    own = await openDashboardSession(backoffice.url, dashboardKey('acme'))
  })
  const unknown = {
    failedId: 'evt_06gw979vs1d9q6mddfvvx375s4',
    replayId: 'rpl_06gw979vs1d9q6mddfvvx375s4',
    tenantId: `ten_${'1'.repeat(26)}`,
  }
  type Named = typeof unknown

  const pages: readonly ((of: Named) => string)[] = [
    ({ failedId }) => `/events/${failedId}`,
    ({ failedId }) => `/events/${failedId}?part=progress`,
    ({ failedId }) => `/events/${failedId}/replay`,
    ({ replayId }) => `/replays/${replayId}`,
    ({ replayId }) => `/replays/${replayId}/cancel`,
    ({ tenantId }) => `/events?tenant=${tenantId}`,
    ({ tenantId }) => `/refused?tenant=${tenantId}`,
    ({ tenantId }) => `/replays?tenant=${tenantId}`,
    ({ tenantId }) => `/replays/new?tenant=${tenantId}`,
    ({ tenantId }) => `/replays/preview?tenant=${tenantId}&from=${hourAgo}`,
  ]
  const blurred = (html: string, of: Named) =>
    withoutFormToken(html)
      .replaceAll(of.failedId, 'ID')
      .replaceAll(of.replayId, 'ID')
      .replaceAll(of.tenantId, 'ID')

  test.each(pages.map((page) => [page(unknown), page] as const))(
    'sees of another what nobody has: %s',
    async (_path, page) => {
      const [others, nobodys] = [await own.get(page(rival)), await own.get(page(unknown))]
      expect([others.status, nobodys.status]).toEqual([404, 404])
      expect(blurred(others.html, rival)).toBe(blurred(nobodys.html, unknown))
      expect(others.html).not.toContain('rival')
    },
  )

  test.each([
    '/events',
    '/events?find=src-rival',
    () => `/events?find=${rival.failedId}`,
    () => `/events?after=${rival.failedId}`,
    '/refused',
    () => `/refused?after=${rival.refusedId}`,
    '/replays',
    () => `/replays?after=${rival.replayId}`,
    `/replays/preview?from=${hourAgo}`,
  ])('finds nothing of another: %p', async (path) => {
    const { status, html } = await own.get(typeof path === 'string' ? path : path())
    expect(status).toBe(200)
    const withoutForms = html.replaceAll(/value="[^"]*"|(href|hx-get)="[^"]*[?&](after|find)=[^"]*"/g, '')
    for (const theirs of [
      rival.tenantId,
      rival.eventId,
      rival.failedId,
      rival.replayId,
      rival.refusedId,
      'src-rival',
    ])
      expect(withoutForms).not.toContain(theirs)
  })

  test('does nothing to another', async () => {
    const before = await stateOf(rival)
    const { tenantId: tenant, failedId, replayId } = rival
    for (const [path, fields] of [
      [`/events/${failedId}/payload`, {}],
      [`/events/${failedId}/replay`, { round: '1' }],
      [`/replays/${replayId}/cancel`, {}],
      ['/replays', { tenant, from: hourAgo, to: hourAgo.replace('T', ' '), key: crypto.randomUUID() }],
    ] as const) {
      const { status, html } = await own.post(path, fields)
      expect([path, status]).toEqual([path, 404])
      expect(html).not.toContain('820982911946154508')
    }
    expect(await stateOf(rival)).toEqual(before)
  })
})

async function stateOf({ tenantId }: SeededTenant): Promise<unknown> {
  const { rows } = await backoffice.pool.query(
    `SELECT (SELECT count(*) FROM audit WHERE tenant_id = $1) AS audits, (SELECT json_agg(e.cycle ORDER BY e.id) FROM events e WHERE tenant_id = $1) AS rounds,
       (SELECT json_agg(r.state ORDER BY r.id) FROM replays r WHERE tenant_id = $1) AS replays`,
    [tenantId],
  )
  return rows
}
