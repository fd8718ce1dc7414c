import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  type AskedRight,
  adminToken,
  someUser,
  startTestBackoffice,
  type TestBackoffice,
} from '#test/support/backoffice.ts'
import {
  dashboardTenantYaml,
  refuseCall,
  type SeededTenant,
  seedTenant,
} from '#test/support/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard-session.ts'
import { addAttempt } from '#test/support/event-attempts.ts'

let backoffice: TestBackoffice
let acme: SeededTenant
let admin: DashboardSession

beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
  acme = await seedTenant(backoffice, 'acme')
  await addAttempt(backoffice.pool, acme.failedId)
  admin = await openDashboardSession(backoffice.url, adminToken)
}, 30_000)
afterAll(() => backoffice.close())

const hourAgo = () => new Date(Date.now() - 3_600_000).toISOString().slice(0, 19)

/** The hidden fields of the form that starts a replay. */
function startFields(html: string): Record<string, string> {
  const form = /<form method="post" action="\/replays".*?<\/form>/s.exec(html)?.[0] ?? ''
  const fields = [...form.matchAll(/name="(\w+)" value="([^"]*)"/g)].map(([, name, value]) => [name, value])
  return Object.fromEntries(fields) as Record<string, string>
}

describe('a replay of many', () => {
  test('is previewed, asked about, begun once however often the form is sent, and ended', async () => {
    const preview = await admin.get(
      `/replays/preview?tenant=acme&state=delivery_failed&from=${hourAgo()}&rate=100`,
    )
    expect(preview.status).toBe(200)
    expect(preview.html).toContain('Start this replay?')
    expect(preview.html).toContain(`/events/${acme.failedId}`)
    expect(preview.html).not.toContain(`/events/${acme.eventId}`)
    const fields = startFields(preview.html)
    const first = await admin.post('/replays', fields)
    expect([first.status, first.location]).toEqual([
      303,
      expect.stringMatching(/^\/replays\/rpl_[0-9a-z]{26}\?tenant=ten_/),
    ])
    expect((await admin.post('/replays', fields)).location).toBe(first.location)
    const path = first.location?.split('?')[0] ?? ''
    const { html } = await admin.get(path)
    for (const part of [
      'Queued',
      'at most 100 events a second',
      'dev:admin',
      'updates live',
      `${path}/cancel`,
    ])
      expect(html).toContain(part)
    expect((await admin.get('/replays')).html).toContain(path)
    expect((await admin.get(`${path}/cancel`)).html).toContain('End this replay?')
    for (const _time of [1, 2]) expect((await admin.post(`${path}/cancel`)).status).toBe(303)
    const ended = await admin.get(path)
    expect(ended.html).toContain('Cancelled')
    expect(ended.html).not.toContain(`${path}/cancel`)
  })

  test('of a form that is none is shown with what is wrong', async () => {
    const { status, html } = await admin.get('/replays/preview?tenant=acme&from=&rate=5000')
    expect(status).toBe(422)
    expect(html).toContain('Give a time in UTC')
    expect(html).toContain('1 to 1000 events a second')
  })

  test('of nothing is not begun', async () => {
    const { html } = await admin.get(`/replays/preview?tenant=acme&type=no.such&from=${hourAgo()}`)
    expect(html).toContain('There is nothing to replay')
    expect(html).not.toContain('Start the replay')
  })

  test('cannot be begun without what was previewed', async () => {
    const { status, html } = await admin.post('/replays', { tenant: 'acme', from: hourAgo() })
    expect(status).toBe(400)
    expect(html).toContain('preview the replay once more')
  })

  test('is not offered to, nor begun or ended by, whoever may only see', async () => {
    const name = someUser()
    backoffice.allow(({ user, subresource }: AskedRight) => user === name && subresource === '')
    const viewer = await openDashboardSession(backoffice.url, name)
    const { html } = await viewer.get('/replays?tenant=acme')
    expect(html).toContain(acme.replayId)
    expect(html).not.toContain('/replays/new')
    expect((await viewer.get(`/replays/${acme.replayId}`)).html).not.toContain('/cancel')
    expect((await viewer.get('/replays/new?tenant=acme')).status).toBe(403)
    expect((await viewer.post(`/replays/${acme.replayId}/cancel`)).status).toBe(403)
    const preview = await admin.get(`/replays/preview?tenant=acme&state=delivery_failed&from=${hourAgo()}`)
    const { csrf: _own, ...fields } = startFields(preview.html)
    expect((await viewer.post('/replays', fields)).status).toBe(403)
    expect((await admin.get(`/replays/${acme.replayId}`)).html).not.toContain('Cancelled')
  })
})

describe('refused calls', () => {
  test('need a tenant, and say of each why, and what to do', async () => {
    expect((await admin.get('/refused')).html).toContain('Choose a tenant')
    const { status, html } = await admin.get('/refused?tenant=acme')
    expect(status).toBe(200)
    for (const part of [
      acme.refusedId,
      'Signature wrong',
      'Copy the signing secret',
      '203.0.113.7',
      'signature_mismatch',
    ])
      expect(html).toContain(part)
  })

  test('are found by provider and cause', async () => {
    expect((await admin.get('/refused?tenant=acme&provider=card&cause=signature_mismatch')).html).toContain(
      acme.refusedId,
    )
    for (const filter of ['provider=wallet', 'cause=loop_detected', 'cause=no_such'])
      expect((await admin.get(`/refused?tenant=acme&${filter}`)).html).toContain('No calls match')
    expect((await admin.get('/refused?tenant=acme&provider=nobody')).status).toBe(400)
  })

  test('show headers and bodies without their secrets', async () => {
    const secret = 'sk_live_0123456789abcdefABCDEF'
    const { id } = await refuseCall(backoffice, 'acme', {
      headers: { 'x-api-key': secret, 'user-agent': 'curl/8' },
      sample: `{"password":"${secret}","note":"kept"}`,
    })
    // As long as is kept of a body: the secret stands astride its end.
    await refuseCall(backoffice, 'acme', {
      sample: `{"text":"${'x'.repeat(980)}","password":"${secret}`.slice(0, 1_024),
    })
    const { html } = await admin.get('/refused?tenant=acme')
    for (const part of [id, 'curl/8', 'kept', 'xxxx']) expect(html).toContain(part)
    for (const part of [secret, secret.slice(0, 12)]) expect(html).not.toContain(part)
  })
})
