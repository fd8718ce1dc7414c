import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'

const file = `${import.meta.dir}/../../../config/providers/slack.yaml`
const { vectors } = parse(readFileSync(file, 'utf8')).spec
const event: { headers: Record<string, string>; body: string; secrets: string[]; at: string } = vectors[1]
const headers = Object.entries(event.headers)
  .map(([name, value]) => `${name}: ${value}`)
  .join('\r\n')
const [secret = ''] = event.secrets
const call = { provider: 'slack', secret, headers, body: event.body, at: event.at }

let backoffice: TestBackoffice
let session: DashboardSession
beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
  backoffice.allow(() => true)
  session = await openDashboardSession(backoffice.url, someUser())
}, 30_000)
afterAll(() => backoffice.close())

const verify = (change: Partial<typeof call> = {}) => session.post('/refused/verify', { ...call, ...change })

test('verify a call: the form offers shipped and built-in declared providers', async () => {
  const { html } = await session.get('/refused/verify')
  for (const name of ['slack', 'card', 'generic']) expect(html).toContain(`<option value="${name}"`)
  expect(html).not.toContain('<option value="wallet"')
})

test('verify a call: for a verified call, the page shows the event and each step, but not the secret', async () => {
  const { status, html } = await verify()
  expect(status).toBe(200)
  expect(html).toContain('The call is verified')
  expect(html).toContain('slack.app_mention')
  expect(html).toContain('v0:1794300001:')
  expect(
    html.match(/0858a6e0674bf02d2a8f6a9ce224a12fd59361c372046d3db101928b5e94e33e/g)?.length,
  ).toBeGreaterThan(2)
  expect(html).not.toContain(secret)
})

test('verify a call: for a call with another secret, the page shows both signatures', async () => {
  const { html } = await verify({ secret: 'another-secret' })
  expect(html).toContain('The call is refused: ')
  expect(html).toContain('<dt>Received</dt>')
  expect(html).toContain('<dt>Computed</dt>')
  expect(html).not.toContain('another-secret')
})

test('verify a call: if the vendor publishes its keys, the page names the URL of the keys and fetches nothing', async () => {
  const { spec } = parse(readFileSync(file.replace('slack', 'googlepubsub'), 'utf8'))
  const [{ secrets, at, body, headers: given }] = spec.vectors
  const change = { provider: 'googlepubsub', secret: secrets[1], body, at }
  const { status, html } = await verify({ ...change, headers: `Authorization: ${given.Authorization}` })
  expect(status).toBe(200)
  expect(html).toContain('The keys of the vendor are needed')
  expect(html).toContain('https://www.googleapis.com/oauth2/v3/certs')
})

test('verify a call: line ends in the body, which browsers send as CRLF, are converted back to the LF that was pasted', async () => {
  const body = '{\n"type":"url_verification",\n"challenge":"abc"}'
  const signed = new Bun.CryptoHasher('sha256', secret).update(`v0:1794300001:${body}`).digest('hex')
  const lines = [
    'Content-Type: application/json',
    'X-Slack-Request-Timestamp: 1794300001',
    `X-Slack-Signature: v0=${signed}`,
  ].join('\r\n')
  const { html } = await verify({ headers: lines, body: body.replaceAll('\n', '\r\n') })
  expect(html).toContain('The call checks the URL')
})

test.each<[string, Partial<typeof call>, string]>([
  ['a provider that is not declared', { provider: 'wallet' }, 'provider'],
  ['headers without a name', { headers: 'v0=0858' }, 'line 1 has another form'],
  ['a time of another form', { at: 'yesterday' }, 'ust be a time such as'],
  ['no secret', { secret: '' }, 'Secret'],
])('verify a call: a form with %s is refused with 422 and keeps its fields', async (_name, change, text) => {
  const { status, html } = await verify(change)
  expect(status).toBe(422)
  expect(html).toContain(text)
  expect(html).toContain('app_mention')
})

test('verify a call: neither the log nor any table keeps the secret or the call', async () => {
  for (const change of [{}, { secret: 'another-secret' }, { at: 'yesterday' }]) await verify(change)
  const { pool } = backoffice
  const { rows: tables } = await pool.query<{ name: string }>(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'",
  )
  const kept = [backoffice.logs()]
  for (const { name } of tables) {
    const { rows } = await pool.query<{ text: string }>(`SELECT t::text AS text FROM "${name}" t`)
    kept.push(...rows.map(({ text }) => text))
  }
  const all = kept.join('\n')
  // Shows that the search covers the log lines of these calls and the row of this tenant.
  for (const text of ['/refused/verify', 'acme']) expect(all).toContain(text)
  for (const text of [secret, 'another-secret', 'app_mention', '0858a6e0674bf02d'])
    expect(all).not.toContain(text)
})
