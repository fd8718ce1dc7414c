// Caching of key sets, with a simulated vendor and a clock that the test controls.
import { describe, expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import type { TenantId } from '#internal/base/index.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import type { FetchedText } from './fetch.ts'
import { VendorKeys } from './vendor-keys.ts'

const startMs = Date.UTC(2026, 10, 26)
const minuteMs = 60_000
const hourMs = 60 * minuteMs
const url = 'https://keys.example.com/jwks'
const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const jwk = publicKey.export({ format: 'jwk' })
const setOf = (...ids: readonly string[]): FetchedText => ({
  kind: 'text',
  text: JSON.stringify({ keys: ids.map((kid) => ({ ...jwk, kid })) }),
})
const failed: FetchedText = { kind: 'failed', detail: 'status 500' }

function openKeys(first: FetchedText | Promise<FetchedText>) {
  const lab = {
    nowMs: startMs,
    answer: first,
    fetched: [] as string[],
    outcomes: [] as string[],
    async find(keyId?: string, address = url, tenantId: TenantId = someTenantId()): Promise<string> {
      const found = await keys.find({ kind: 'located', source: 'jwks', url: address, keyId }, tenantId)
      return found.kind === 'trusted' ? found.keys.keys.map(({ id }) => id).join() : found.kind
    },
    keys: undefined as unknown as VendorKeys,
  }
  const keys = new VendorKeys({
    sources: { live: { origins: [], path: '/' }, sandbox: { origins: [], path: '/' } },
    fetchText: async (address) => {
      lab.fetched.push(address)
      return lab.answer
    },
    trust: () => ({ kind: 'unreadable' }),
    clock: { now: () => lab.nowMs },
    onFetched: (source, outcome, detail) =>
      lab.outcomes.push([source, outcome, detail].filter((each) => each !== undefined).join(' ')),
  })
  lab.keys = keys
  return lab
}

describe('key sets', () => {
  test('key set: concurrent and later calls of all tenants share one fetch', async () => {
    const { promise, resolve } = Promise.withResolvers<FetchedText>()
    const lab = openKeys(promise)
    const waiting = Array.from({ length: 100 }, () => lab.find('a'))
    resolve(setOf('a'))
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(['a']))
    expect(await lab.find('a')).toBe('a')
    expect(lab.fetched).toEqual([url])
    expect(lab.outcomes).toEqual(['jwks trusted'])
  })

  test('key set: a set that cannot be fetched is reported as unavailable for 10 s, and never causes a refusal', async () => {
    for (const answer of [failed, { kind: 'absent' } as const, { kind: 'text', text: '<html>' } as const]) {
      const lab = openKeys(answer)
      for (let call = 0; call < 50; call += 1) expect(await lab.find('a')).toBe('unavailable')
      expect(lab.fetched).toHaveLength(1)
      lab.nowMs += 10_000
      lab.answer = setOf('a')
      expect(await lab.find('a')).toBe('a')
    }
  })

  test('key set: after one hour, a call refreshes the set in the background; after six hours, a call waits for the refresh', async () => {
    const lab = openKeys(setOf('a'))
    await lab.find('a')
    lab.nowMs += hourMs
    lab.answer = setOf('a', 'b')
    expect(await lab.find('a')).toBe('a')
    expect(lab.fetched).toHaveLength(2)
    lab.nowMs += 6 * hourMs
    lab.answer = setOf('a', 'b', 'c')
    expect(await lab.find('a')).toBe('a,b,c')
  })

  test('key set: serves a stale set for three days while refreshes fail', async () => {
    const lab = openKeys(setOf('a'))
    await lab.find('a')
    lab.answer = failed
    lab.nowMs += 72 * hourMs - 1
    expect(await lab.find('a')).toBe('a')
    lab.nowMs += 1
    expect(await lab.find('a')).toBe('unavailable')
  })
})

describe('unknown keys', () => {
  test('key set: an unknown key id causes another fetch of the set, at most once a minute, however many ids the callers invent', async () => {
    const lab = openKeys(setOf('a'))
    await lab.find('a')
    for (let call = 0; call < 200; call += 1) expect(await lab.find(`invented-${call}`)).toBe('a')
    expect(lab.fetched).toHaveLength(1)
    lab.nowMs += minuteMs
    await Promise.all(Array.from({ length: 200 }, (_, call) => lab.find(`invented-${call}`)))
    expect(lab.fetched).toHaveLength(2)
    for (let second = 0; second < 600; second += 1) {
      lab.nowMs += 1000
      await lab.find(`invented-${second}`)
    }
    expect(lab.fetched).toHaveLength(12)
  })

  test('key set: the first calls with a new key share one fetch, which finds the key', async () => {
    const lab = openKeys(setOf('a'))
    await lab.find('a')
    lab.nowMs += minuteMs
    const { promise, resolve } = Promise.withResolvers<FetchedText>()
    lab.answer = promise
    const waiting = Array.from({ length: 20 }, () => lab.find('b'))
    expect(await lab.find('a')).toBe('a')
    resolve(setOf('a', 'b'))
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(['a,b']))
    expect(lab.fetched).toHaveLength(2)
  })

  test('key set: while the set cannot be fetched, a call with an unknown key is reported as unavailable, and known keys still work', async () => {
    const lab = openKeys(setOf('a'))
    await lab.find('a')
    lab.nowMs += minuteMs
    lab.answer = failed
    for (let call = 0; call < 5; call += 1) expect(await lab.find('b')).toBe('unavailable')
    expect(await lab.find('a')).toBe('a')
    expect(lab.fetched).toHaveLength(2)
    lab.nowMs += minuteMs
    lab.answer = setOf('b')
    expect(await lab.find('b')).toBe('b')
  })

  test('key sets: at most 120 fetches of known addresses start in a minute, and at most 8 are in flight', async () => {
    const lab = openKeys(failed)
    for (let number = 0; number < 500; number += 1) await lab.find('a', `${url}/${number}`)
    expect(lab.fetched).toHaveLength(120)
    expect(lab.outcomes.filter((each) => each === 'jwks held_back')).toHaveLength(380)
    lab.nowMs += minuteMs
    const { promise, resolve } = Promise.withResolvers<FetchedText>()
    lab.answer = promise
    const asked = Array.from({ length: 20 }, (_, number) => lab.find('a', `${url}/x${number}`))
    expect(lab.fetched).toHaveLength(128)
    resolve(setOf('a'))
    expect((await Promise.all(asked)).filter((each) => each === 'a')).toHaveLength(8)
  })
})

test('subscription confirmation: a tenant has at most two requests in flight, and each request is reported with its result or cause of failure', async () => {
  const { promise, resolve } = Promise.withResolvers<FetchedText>()
  const lab = openKeys(promise)
  const tenantId = someTenantId()
  const asked = [1, 2, 3].map(() => lab.keys.confirm('https://sns.us-west-2.amazonaws.com/?a', tenantId))
  resolve({ kind: 'text', text: '' })
  expect(await Promise.all(asked)).toEqual([true, true, false])
  for (const answer of [failed, { kind: 'absent' } as const]) {
    lab.answer = answer
    expect(await lab.keys.confirm('https://sns.us-west-2.amazonaws.com/?a', tenantId)).toBe(false)
  }
  expect(lab.outcomes).toEqual([
    'sns_confirmation held_back',
    'sns_confirmation trusted',
    'sns_confirmation trusted',
    'sns_confirmation failed status 500',
    'sns_confirmation absent',
  ])
})
