import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startTestApi, type TestApi, tenantYaml, testApiKey } from '#test/support/api.ts'
import { answerSchema, operations, requestExamples } from '#test/support/documents/contract.ts'
import { eventTables } from './built-in/tables.ts'
import { eventCatalogue, typesOf } from './event-types.ts'

let api: TestApi

beforeAll(async () => {
  api = await startTestApi({ manifests: tenantYaml('acme', testApiKey) })
}, 30_000)
afterAll(() => api.close())

const read = (query = '') => fetch(`${api.url}/v1/event-types${query}`)

test('GET /v1/event-types: pages without a key contain the whole catalogue once, in alphabetical order', async () => {
  const items: unknown[] = []
  let query = ''
  for (let page = 0; page <= eventCatalogue.length / 50; page += 1) {
    const answer = await read(query)
    const body = (await answer.json()) as { items: unknown[]; next?: string }
    expect(answer.status).toBe(200)
    expect(answer.headers.get('cache-control')).toBe('public, max-age=300')
    expect(answerSchema('GET', '/v1/event-types', 200)(body)).toBe(true)
    items.push(...body.items)
    query = `?after=${body.next}`
    if (body.next === undefined) break
  }
  expect(items).toEqual([...eventCatalogue])
})

test.each([
  ['a neutral name', 'gateway', 'gateway'],
  ['a vendor’s name', 'braintree', 'gateway'],
  ['a provider without own types', 'generic', 'generic'],
])('GET /v1/event-types: returns the types of one provider by %s', async (_what, name, provider) => {
  const body: unknown = await (await read(`?provider=${name}&limit=100`)).json()
  expect(body).toEqual({ items: typesOf(provider) })
})

test('GET /v1/event-types: a page has at most `limit` types, and begins after the type `after`', async () => {
  const types = typesOf('wallet').map(({ type }) => type)
  const body = await (await read(`?provider=wallet&limit=2&after=${types[3]}`)).json()
  expect(body).toMatchObject({ items: [{ type: types[4] }, { type: types[5] }], next: types[5] })
  expect(await (await read(`?after=zzz`)).json()).toEqual({ items: [] })
})

test.each([
  ['a listed type', 'type=payment.succeeded', eventCatalogue],
  ['a listed type of one provider', 'type=payment.succeeded&provider=stripe', typesOf('card')],
  ['a type that the provider does not have', 'type=order.edited&provider=card', []],
  ['an unlisted type', 'type=card.v1.payment', []],
  ['a part of a type', 'type=payment', []],
])(
  'GET /v1/event-types: a query for %s returns exactly this type with its providers, or an empty list',
  async (_what, query, all) => {
    const type = new URLSearchParams(query).get('type')
    const items = all.filter((entry) => entry.type === type)
    expect(await (await read(`?${query}`)).json()).toEqual({ items: [...items] })
  },
)

test('GET /v1/event-types: `providerRawType` is a raw type of a source, and together with the example is normalized to the type', () => {
  for (const { type, providers } of eventCatalogue)
    for (const { provider, sources, providerRawType, example } of providers) {
      expect(sources.map((source) => source.providerRawType)).toContain(providerRawType)
      const table = Object.values(eventTables).find((each) => each.provider === provider)
      expect(table?.typeOf(providerRawType, example)).toBe(type)
    }
})

test('GET /v1/event-types: the documented example equals the response to the documented parameters', async () => {
  const described = operations.find(({ path }) => path === '/v1/event-types')
  if (described === undefined) throw new Error('the operation is not documented')
  const [example] = requestExamples(described).values()
  const promised = described.operation.responses['200']?.content['application/json']?.examples?.['card']
  expect(example?.query).toEqual({ provider: 'card', limit: '1' })
  expect(promised?.value).toEqual(await (await read(`?${new URLSearchParams(example?.query)}`)).json())
})

test.each([
  '?provider=Nobody',
  '?provider=',
  '?type=',
  '?types=payment.succeeded',
  '?provider=card&provider=card',
  '?limit=0',
  '?limit=101',
  '?after=',
])('GET /v1/event-types: returns 400 for the query %s', async (query) => {
  expect((await read(query)).status).toBe(400)
})
