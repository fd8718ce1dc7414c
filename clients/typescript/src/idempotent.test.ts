import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startTestApi, type TestApi, testApiKey } from '../../../test/support/api.ts'
import canonical from '../../conformance/canonical-json.json'
import { canonicalJson } from './fingerprint.ts'
import { idempotent, Latchkey } from './index.ts'

let api: TestApi
let latchkey: Latchkey
beforeAll(async () => {
  api = await startTestApi()
  latchkey = new Latchkey({ url: api.url, apiKey: testApiKey })
})
afterAll(() => api.close())

interface Order {
  readonly id: string
  readonly cents: number
}

test('idempotent: runs a method once per key, with its `this`, and returns the saved result', async () => {
  const shop = {
    name: 'shop',
    runs: 0,
    charge: idempotent(
      latchkey,
      { key: (order: Order) => order.id },
      async function charge(this: { name: string; runs: number }, { cents }: Order) {
        this.runs += 1
        return { at: this.name, cents }
      },
    ),
  }
  const id = crypto.randomUUID()
  expect(await shop.charge({ id, cents: 5 })).toEqual({ at: 'shop', cents: 5 })
  expect(await shop.charge({ cents: 5, id })).toEqual({ at: 'shop', cents: 5 })
  expect(shop.runs).toBe(1)
  expect(await latchkey.fetchRecord({ scope: 'charge', key: id })).toMatchObject({ body: { at: 'shop' } })
  await expect(shop.charge({ id, cents: 6 })).rejects.toMatchObject({ outcome: { kind: 'reused_key' } })
})

test('idempotent: accepts a scope and a fingerprint', async () => {
  const options = {
    scope: 'jobs',
    key: (id: string, _attempt: number) => id,
    fingerprint: (id: string) => id,
  }
  const job = idempotent(latchkey, options, (_id, attempt) => attempt)
  const id = crypto.randomUUID()
  expect(await job(id, 1)).toBe(1)
  expect(await job(id, 2)).toBe(1)
  expect(() => idempotent(latchkey, { key: () => id }, () => 1)).toThrow(TypeError)
})

test.each([
  ['members in another order', { b: 1, a: [{ d: 1, c: 2 }] }, { a: [{ c: 2, d: 1 }], b: 1 }, true],
  ['elements in another order', [1, 2], [2, 1], false],
  ['a member that is undefined', { a: 1, b: undefined }, { a: 1 }, true],
  ['a number and its text', { a: 1 }, { a: '1' }, false],
])('canonicalJson: compares %s', (_name, one, other, isEqual) => {
  expect(canonicalJson(one) === canonicalJson(other)).toBe(isEqual)
})

test('canonicalJson: sorts member names as strings, including names that look like numbers', () => {
  expect(canonicalJson({ b: [null, { 9: 'ä', 10: 1.5 }], a: true })).toBe(
    '{"a":true,"b":[null,{"10":1.5,"9":"ä"}]}',
  )
})

test.each(canonical)(
  'canonicalJson: the result for $json equals the result of the Python library',
  ({ json, canonical: text }) => {
    expect(canonicalJson(JSON.parse(json))).toBe(text)
  },
)
