import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { inspect } from 'node:util'
import { startTestApi, type TestApi, testApiKey } from '../../../test/support/api.ts'
import { FaultyFetch } from '../../../test/support/clients/faulty-fetch.ts'
import {
  Latchkey,
  LatchkeyOutcomeError,
  nothingHappened,
  type OnceOptions,
  type Outcome,
  type Recovery,
  unwrap,
} from './index.ts'

let api: TestApi
let latchkey: Latchkey
beforeAll(async () => {
  api = await startTestApi()
  latchkey = new Latchkey({ url: `${api.url}/`, apiKey: testApiKey })
})
afterAll(() => api.close())

/** Returns options with a key that no other test uses. */
function fresh() {
  return { scope: 'once', key: crypto.randomUUID() }
}

const never = () => expect.unreachable()

test.each([
  ['an object', { id: 'ch_1', lines: [1, null] }, { id: 'ch_1', lines: [1, null] }],
  ['a text', 'é\u0000', 'é\u0000'],
  ['nothing, as null', undefined, null],
])('once: runs the work once, and replays its result for a duplicate: %s', async (_name, value, replayed) => {
  const address = fresh()
  const ran: unknown = await latchkey.once<unknown>(address, () => value)
  expect(ran).toEqual({ kind: 'ran', value, guarded: true })
  expect(await latchkey.once<unknown>(address, never)).toEqual({ kind: 'replayed', value: replayed })
})

test('once: of 50 concurrent callers, one runs the work and the others wait for its result', async () => {
  const address = fresh()
  const callers = Array.from({ length: 50 }, (_, n) => latchkey.once(address, () => n))
  const outcomes = await Promise.all(callers)
  expect(outcomes.filter(({ kind }) => kind === 'ran')).toHaveLength(1)
  expect(outcomes.filter(({ kind }) => kind === 'replayed')).toHaveLength(49)
  expect(new Set(outcomes.map(unwrap)).size).toBe(1)
})

test('once: with `waitMs` 0, returns `busy` immediately while another caller works', async () => {
  const address = fresh()
  await latchkey.once(address, async () => {
    const outcome = await latchkey.once<unknown>({ ...address, waitMs: 0 }, never)
    expect(outcome).toEqual({ kind: 'busy', retryAfterMs: expect.any(Number) as number })
  })
})

test('once: another fingerprint with the same key returns `reused_key`', async () => {
  const address = fresh()
  await latchkey.once({ ...address, fingerprint: 'one' }, () => 1)
  expect(await latchkey.once<unknown>({ ...address, fingerprint: 'two' }, never)).toEqual({
    kind: 'reused_key',
  })
})

test('once: a lock that arrives after a wait of more than a third of its duration is renewed before the work runs', async () => {
  const address = fresh()
  const faults = new FaultyFetch()
  const other = new Latchkey({ url: api.url, apiKey: testApiKey, fetch: faults.fetch })
  let waiting: Promise<Outcome<number>> | undefined
  const extended = Promise.withResolvers<void>()
  const debug = (event: string) => event === 'lock extended' && extended.resolve()
  const holder = new Latchkey({ url: api.url, apiKey: testApiKey, debug })
  const first = holder.once({ ...address, lockSeconds: 2 }, async () => {
    waiting = other.once({ ...address, lockSeconds: 1 }, () => 2)
    await extended.promise
    throw nothingHappened(new Error('gone'))
  })
  await expect(first).rejects.toThrow('gone')
  expect(await waiting).toEqual({ kind: 'ran', value: 2, guarded: true })
  const check = 'POST /v1/record'
  expect(faults.calls).toEqual([check, check, check, 'PUT /v1/record'])
})

describe('once: exception of the work', () => {
  test('once: an exception of the work is thrown unchanged, and the next caller learns that the effect is uncertain', async () => {
    const address = fresh()
    const error = new Error('no answer of the bank')
    await expect(latchkey.once(address, () => Promise.reject(error))).rejects.toBe(error)
    const next = await latchkey.once({ ...address, onTakenOver: 'run' }, ({ takenOver }) => takenOver)
    expect(next).toEqual({ kind: 'ran', value: true, guarded: true })
  })

  test.each([
    ['an error', new Error('declined'), 'declined'],
    ['a text', 'declined', 'The operation had no effect'],
    ['a frozen error', Object.freeze(new Error('declined')), 'The operation had no effect'],
  ])(
    'once: an exception marked by `nothingHappened`, %s, lets the next caller start again immediately',
    async (_name, error, message) => {
      const address = fresh()
      const failing = latchkey.once(address, () => {
        throw nothingHappened(error)
      })
      await expect(failing).rejects.toThrow(message)
      const next = await latchkey.once({ ...address, waitMs: 0 }, ({ takenOver }) => takenOver)
      expect(next).toEqual({ kind: 'ran', value: false, guarded: true })
    },
  )

  test('once: an exception marked by `nothingHappened` in an inner operation leaves the outer operation uncertain', async () => {
    const [outer, inner] = [fresh(), fresh()]
    const failing = latchkey.once(outer, () =>
      latchkey.once(inner, () => {
        throw nothingHappened(new Error('declined'))
      }),
    )
    await expect(failing).rejects.toThrow('declined')
    expect(await latchkey.once<unknown>(outer, never)).toEqual({ kind: 'taken_over', phase: 'before' })
  })

  test('once: a result that is not JSON is treated like an exception of the work', async () => {
    const address = fresh()
    const error = await latchkey.once<unknown>(address, () => 1n).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(TypeError)
    expect(error).toMatchObject({
      message: expect.stringContaining('the result of the operation is not JSON, so it is not saved'),
      cause: expect.any(TypeError),
    })
    expect(await latchkey.once<unknown>(address, never)).toEqual({ kind: 'taken_over', phase: 'before' })
  })
})

describe('once: an earlier caller ended without a result', () => {
  async function abandoned() {
    const address = fresh()
    await expect(latchkey.once(address, () => Promise.reject(new Error('lost')))).rejects.toThrow('lost')
    return address
  }

  test.each<[string, OnceOptions<string>['onTakenOver'], unknown]>([
    ['by default', undefined, { kind: 'taken_over', phase: 'before' }],
    ['refuse', 'refuse', { kind: 'taken_over', phase: 'before' }],
    ['run', 'run', { kind: 'ran', value: 'ran', guarded: true }],
    ['a callback that refuses', () => 'refuse', { kind: 'taken_over', phase: 'before' }],
    ['a callback that runs', () => 'run', { kind: 'ran', value: 'ran', guarded: true }],
    [
      'a callback that finds the effect',
      ({ takenOver, fence }): Recovery<string> => ({ recovered: `${takenOver} ${typeof fence}` }),
      { kind: 'replayed', value: 'true number' },
    ],
  ])(
    'once: after a caller without a result, onTakenOver (%s) decides, and the next caller gets the saved result or `taken_over`',
    async (_name, onTakenOver, expected) => {
      const address = await abandoned()
      const outcome: unknown = await latchkey.once({ ...address, onTakenOver }, () => 'ran')
      expect(outcome).toEqual(expected)
      const { kind } = await latchkey.once({ ...address, waitMs: 0 }, () => 'again')
      expect(kind).toBe('value' in (expected as object) ? 'replayed' : 'taken_over')
    },
  )

  test('once: an exception of the onTakenOver callback is thrown, and the next caller gets `takenOver` immediately', async () => {
    const address = await abandoned()
    const onTakenOver = () => Promise.reject(new Error('search failed'))
    await expect(latchkey.once({ ...address, onTakenOver }, () => 1)).rejects.toThrow('search failed')
    const next = await latchkey.once<unknown>({ ...address, waitMs: 0 }, never)
    expect(next).toEqual({ kind: 'taken_over', phase: 'before' })
  })
})

test('LatchkeyOutcomeError: a log of the error contains neither the lock token nor the result', () => {
  const pending = {
    scope: 's',
    key: 'k',
    lockToken: 'token-1',
    record: { status: 200, headers: {}, body: 'b-1' },
  }
  const error = new LatchkeyOutcomeError({ kind: 'unknown', value: 'b-1', pending, reason: 'no_answer' })
  const texts = [inspect(error, { depth: 9 }), JSON.stringify(error), Object.keys(error).join(' ')]
  expect(texts.join(' ')).not.toMatch(/token-1|b-1/)
  expect(error.outcome).toMatchObject({ pending })
})

describe('cache', () => {
  function cached(entriesMax: number, maxAgeMs = 60_000) {
    const faults = new FaultyFetch()
    const cache = { entriesMax, maxAgeMs }
    return { faults, client: new Latchkey({ url: api.url, apiKey: testApiKey, fetch: faults.fetch, cache }) }
  }

  test('cache: replays a result without a call, and a caller cannot change the result that the next caller gets', async () => {
    const { faults, client } = cached(10)
    const address = fresh()
    await client.once(address, () => ({ lines: [1] }))
    const sent = faults.calls.length
    for (let n = 0; n < 2; n += 1) {
      const value = unwrap(await client.once(address, (): { lines: number[] } => never()))
      expect(value).toEqual({ lines: [1] })
      value.lines.push(2)
    }
    expect(faults.calls).toHaveLength(sent)
  })

  test.each<[string, (client: Latchkey, address: { scope: string; key: string }) => Promise<unknown>]>([
    ['another fingerprint', (client, address) => client.once({ ...address, fingerprint: 'other' }, never)],
    ['another key', (client, address) => client.once({ ...address, key: crypto.randomUUID() }, () => 1)],
    [
      'a key that was removed',
      async (client, address) => {
        expect(await client.removeRecord(address)).toBe(true)
        return client.once(address, () => 1)
      },
    ],
  ])('cache: calls the service for %s', async (_name, call) => {
    const { faults, client } = cached(10)
    const address = fresh()
    await client.once({ ...address, fingerprint: 'one' }, () => 1)
    const sent = faults.calls.length
    await call(client, address)
    expect(faults.calls.length).toBeGreaterThan(sent)
  })

  test('cache: removes the least recently used record, and records over their maximum age', async () => {
    const { faults, client } = cached(2)
    const [one, two, three] = [fresh(), fresh(), fresh()]
    for (const each of [one, two, one, three]) await client.once(each, () => 1)
    const sent = faults.calls.length
    await client.once(one, () => 1)
    expect(faults.calls).toHaveLength(sent)
    await client.once(two, () => 1)
    expect(faults.calls).toHaveLength(sent + 1)
    const old = cached(2, 0)
    for (let n = 0; n < 2; n += 1) await old.client.once(one, () => 1)
    expect(old.faults.calls).toHaveLength(2)
  })
})

test('debug and tracer: report an outcome without the API key, the idempotency key, a lock token or a body', async () => {
  const reported: unknown[] = []
  const faults = new FaultyFetch()
  const tracer = {
    startSpan(name: string, options: unknown) {
      reported.push(name, options)
      return {
        setAttribute: (...attribute: unknown[]) => reported.push(attribute),
        setStatus: (status: unknown) => reported.push(status),
        end: () => reported.push('end'),
      }
    },
  }
  const debug = (...event: unknown[]) => reported.push(event)
  const client = new Latchkey({ url: api.url, apiKey: testApiKey, fetch: faults.fetch, tracer, debug })
  const address = fresh()
  faults.fail('POST /v1/record', 'answer lost')
  faults.fail('PUT /v1/record', 'answer lost')
  await client.once(address, () => 'the body')
  const failing = client.once(fresh(), () => Promise.reject(new Error('the error')))
  await expect(failing).rejects.toThrow('the error')
  const text = JSON.stringify(reported)
  for (const secret of [testApiKey, address.key, faults.lockToken, 'the body', 'the error'])
    expect(text).not.toContain(secret)
  expect(reported).toContainEqual(['latchkey.outcome', 'ran'])
  expect(reported).toContainEqual(['latchkey.attempts', 2])
  expect(reported).toContainEqual(['latchkey.outcome', 'exception'])
  expect(reported).toContainEqual({ code: 2 })
  expect(reported.filter((each) => each === 'end')).toHaveLength(2)
})

test.each<Outcome<number>>([
  { kind: 'busy', retryAfterMs: 1 },
  { kind: 'taken_over', phase: 'before' },
  { kind: 'reused_key' },
  { kind: 'unavailable', reason: 'overloaded', retryAfterMs: 1 },
])('unwrap: throws the outcome: %j', (outcome) => {
  expect(() => unwrap(outcome)).toThrow(LatchkeyOutcomeError)
  expect(() => unwrap(outcome)).toThrow(outcome.kind)
})

test('fetchRecord and removeRecord: return the saved record, and reject without a response or without permission', async () => {
  const address = fresh()
  expect(await latchkey.fetchRecord(address)).toBeUndefined()
  expect(await latchkey.removeRecord(address)).toBe(false)
  await latchkey.once(address, () => 'ä')
  expect(await latchkey.fetchRecord(address)).toEqual({ status: 200, headers: {}, body: 'ä' })
  expect(await latchkey.removeRecord(address)).toBe(true)
  const other = new Latchkey({ url: api.url, apiKey: 'lk_unknown_0123456789abcdef0123456789' })
  await expect(other.fetchRecord(address)).rejects.toMatchObject({ code: 'api_key_invalid', status: 403 })
})

test.each([
  ['a text that is not a URL', { url: 'latchkey', apiKey: testApiKey }],
  ['an address of another protocol', { url: 'ftp://example.com', apiKey: testApiKey }],
  ['an address with a query', { url: 'https://example.com/?a=1', apiKey: testApiKey }],
  ['an API key with a line feed', { url: 'https://example.com', apiKey: `${testApiKey}\n` }],
])('Latchkey: refuses %s', (_name, options) => {
  expect(() => new Latchkey(options)).toThrow(/^Latchkey: `(url|apiKey)` must be/)
})

test.each([
  ['url', undefined, 'undefined', 'LATCHKEY_URL'],
  ['apiKey', undefined, 'undefined', 'LATCHKEY_API_KEY'],
  ['apiKey', '', 'empty', 'LATCHKEY_API_KEY'],
])('Latchkey: the error for %s %p says that the option is missing', (name, value, state, variable) => {
  const options = { url: 'https://example.com', apiKey: testApiKey, [name]: value }
  const message = `Latchkey: \`${name}\` is missing (${state}): if you pass process.env.${variable}, set it`
  expect(() => new Latchkey(options)).toThrow(message)
})
