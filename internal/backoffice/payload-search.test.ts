import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { dayAfter, type EventId } from '#internal/base/index.ts'
import type { ReceivedEvent } from '#internal/events/index.ts'
import { parseProviderName } from '#internal/tenants/index.ts'
import { someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardKey, dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { createMovedClock } from '#test/support/moved-clock.ts'
import { ok } from './outcome.ts'
import { matcherOf, type PayloadTerm, SearchTurns } from './payload-search.ts'

const hourMs = 3_600_000
const secret = 'sk_live_0123456789abcdefABCDEF'
const path = '/internal/v1/event-searches'
let backoffice: TestBackoffice

beforeAll(async () => {
  backoffice = await startTestBackoffice(
    [dashboardTenantYaml('acme'), dashboardTenantYaml('rival')].join('---\n'),
  )
}, 30_000)
afterAll(() => backoffice.close())

const from = () => new Date(Date.now() - hourMs).toISOString()
const search = (body: object, token?: string) =>
  backoffice.call('POST', path, {
    body: { tenantId: backoffice.tenantId('acme'), from: from(), ...body },
    ...(token !== undefined && { token }),
  })

async function store(
  payload: object | string,
  slug = 'acme',
  type = 'order.created',
  times: Partial<ReceivedEvent> = {},
): Promise<EventId> {
  const text = typeof payload === 'string' ? payload : JSON.stringify(payload)
  const event = receivedEvent({ tenantId: backoffice.tenantId(slug), type, payload: text, ...times })
  const [id] = await acceptEvents(backoffice.pool, [event])
  if (id === undefined) throw new Error('no event')
  return id
}

const foundIds = (answer: { readonly json: Record<string, unknown> }) =>
  (answer.json['items'] as { id: string }[]).map(({ id }) => id)

describe('terms of a search', () => {
  const text = (value: string): PayloadTerm => ({ kind: 'text', text: value })
  const at = (path_: string, equals: string): PayloadTerm => ({ kind: 'path', path: path_, equals })
  const payload = String.raw`{"id":"a\"b","name":"Gr\u00fc\u00dfe","url":"http:\/\/x\/y","n":12.50,"big":820982911946154508,"ok":true,"none":null,"lines":[{"sku":"s1"},{"sku":"s2"}],"data":{"object":{"id":"ch_1"}}}`

  test.each<[string, PayloadTerm, boolean]>([
    ['a text', text('ch_1'), true],
    ['a text in another case', text('CH_1'), false],
    ['a quotation mark that the payload escapes', text('a"b'), true],
    ['letters that the payload escapes', text('Grüße'), true],
    ['slashes that the payload escapes', text('http://x/y'), true],
    ['a nested member', at('data.object.id', 'ch_1'), true],
    ['a nested member with $', at('$.data.object.id', 'ch_1'), true],
    ['another value', at('data.object.id', 'ch_'), false],
    ['a place in an array', at('lines.1.sku', 's2'), true],
    ['a place in brackets', at('$.lines[1].sku', 's2'), true],
    ['a number in another form', at('n', '12.5'), true],
    ['a long number', at('big', '820982911946154508'), true],
    ['a boolean', at('ok', 'true'), true],
    ['null', at('none', 'null'), true],
    ['a member that is missing', at('missing', 'null'), false],
    ['an inherited member', at('constructor.name', 'Object'), false],
    ['an object', at('data.object', '[object Object]'), false],
  ])('search in payloads: %s', (_what, term, expected) => {
    const matches = matcherOf(term)
    if (typeof matches === 'string') throw new Error(matches)
    expect(matches(payload)).toBe(expected)
  })

  test.each<[string, PayloadTerm]>([
    ['a text of two characters', text('ab')],
    ['a text of 201 characters', text('x'.repeat(201))],
    ['a path with an empty name', at('a..b', 'x')],
    ['a path of 17 names', at(Array.from({ length: 17 }, () => 'a').join('.'), 'x')],
  ])('search in payloads: %s is refused', (_what, term) => {
    expect(matcherOf(term)).toBeString()
  })
})

describe('POST event-searches', () => {
  test.each(['slack', 'latchkey'])(
    'search in payloads: can be filtered by the provider %s, which is not built in',
    async (name) => {
      const provider = parseProviderName(name)
      const text = `of-${name}`
      await store({ text })
      const id = await store({ text }, 'acme', 'order.created', { ...(provider && { provider }) })
      expect(foundIds(await search({ text, provider: name }))).toEqual([id])
    },
  )

  test('search in payloads: finds events of the tenant by text and by path, newest first, and audits the search without its text', async () => {
    const first = await store({ order: { id: 'o-1' }, token: secret })
    const second = await store({ order: { id: 'o-1' } }, 'acme', 'refund.created')
    await store({ order: { id: 'o-1' } }, 'rival')
    expect(foundIds(await search({ path: 'order.id', equals: 'o-1' }))).toEqual([second, first])
    expect(foundIds(await search({ path: 'order.id', equals: 'o-1', type: 'refund.*' }))).toEqual([second])
    const found = await search({ text: secret })
    expect(foundIds(found)).toEqual([first])
    expect(found.json).toMatchObject({ skippedCount: 0, searchedTo: expect.any(String) })
    expect(found.json['next']).toBeUndefined()
    const { rows } = await backoffice.pool.query<{ detail: object }>(
      "SELECT detail FROM audit WHERE action = 'payloads.searched' ORDER BY id DESC LIMIT 1",
    )
    expect(rows[0]?.detail).toMatchObject({ textChars: secret.length, matchedCount: 1 })
    expect(JSON.stringify(rows)).not.toContain(secret)
  })

  test('search in payloads: each page continues where the previous page stopped', async () => {
    const wanted = []
    for (let nth = 0; nth < 5; nth += 1) wanted.push(await store({ batch: 'pages', nth }))
    const seen: string[] = []
    let after: object = {}
    for (let pages = 0; pages < 4; pages += 1) {
      const answer = await search({ path: 'batch', equals: 'pages', limit: 2, ...after })
      seen.push(...foundIds(answer))
      if (answer.json['next'] === undefined) break
      after = { after: answer.json['next'] }
    }
    expect(seen).toEqual(wanted.toSorted().toReversed())
  })

  test('search in payloads: an expired payload is skipped, even before retention removes it', async () => {
    const payload = { needle: 'expired-payload' }
    const kept = await store(payload, 'acme', 'expiry.tested')
    const expired = await store(payload, 'acme', 'expiry.tested', {
      payloadExpiresOn: dayAfter(Date.now(), -1),
    })
    const { rows } = await backoffice.pool.query('SELECT FROM event_payloads WHERE event_id = $1', [expired])
    expect(rows).toHaveLength(1)
    const found = await search({ text: 'expired-payload', type: 'expiry.tested' })
    expect(foundIds(found)).toEqual([kept])
    expect(found.json).toMatchObject({ examinedCount: 1, skippedCount: 1 })
  })

  test.each([
    ['neither text nor path', {}],
    ['a text and a path', { text: 'abc', path: 'a', equals: 'b' }],
    ['a path without a value', { path: 'a' }],
    ['a type with an asterisk inside', { text: 'abc', type: 'payment.*.x' }],
    ['an end before the start', { text: 'abc', to: '2020-01-01T00:00:00Z' }],
    ['no start', { text: 'abc', from: undefined }],
  ])('search in payloads: %s returns 400', async (_what, body) => {
    expect((await search(body)).status).toBe(400)
  })

  test('search in payloads: searching another tenant returns 404, and without the right to read payloads a search returns 403', async () => {
    const body = { text: secret }
    expect((await search(body, dashboardKey('rival'))).status).toBe(404)
    backoffice.allow(({ verb, subresource }) => verb === 'get' && subresource === '')
    const audited = 'SELECT count(*) FROM audit'
    const before = await backoffice.pool.query(audited)
    expect((await search(body, someUser())).status).toBe(403)
    expect((await backoffice.pool.query(audited)).rows).toEqual(before.rows)
    backoffice.allow(({ verb, subresource }) => verb === 'get' && ['', 'payloads'].includes(subresource))
    expect((await search(body, someUser())).status).toBe(200)
  })
})

test('search in payloads: an actor can run 30 searches per minute, one at a time', async () => {
  const clock = createMovedClock()
  const turns = new SearchTurns(clock)
  const run = (actor: string) => turns.run(actor, async () => ok('found'))
  const gate = Promise.withResolvers<undefined>()
  const slow = turns.run('ann', async () => ok(await gate.promise))
  expect(await run('ann')).toEqual({
    kind: 'tooMany',
    code: 'too_many_searches',
    retryAfterMs: 1_000,
    problem: 'Another search of yours is running: wait until it ends',
  })
  expect(await run('ben')).toMatchObject({ kind: 'ok' })
  const other = turns.run('cid', async () => ok(await gate.promise))
  expect(await run('ben')).toMatchObject({ kind: 'unavailable', code: 'overloaded' })
  gate.resolve(undefined)
  await Promise.all([slow, other])
  await clock.advance(20_000)
  for (let nth = 1; nth < 30; nth += 1) expect(await run('ann')).toMatchObject({ kind: 'ok' })
  expect(await run('ann')).toMatchObject({ kind: 'tooMany', code: 'too_many_searches', retryAfterMs: 40_000 })
  expect(await run('ben')).toMatchObject({ kind: 'ok' })
  await clock.advance(40_000)
  expect(await run('ann')).toMatchObject({ kind: 'ok' })
})
