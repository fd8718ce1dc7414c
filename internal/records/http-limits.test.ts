import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { recordDurabilities } from '#internal/tenants/index.ts'
import { startTestApi, type TestAnswer, type TestApi, tenantYaml } from '#test/support/api.ts'

describe.each(recordDurabilities)('records in %s', (durability) => {
  let api: TestApi

  const keyOf = (tenant: string) => `lk_${tenant}_0123456789abcdef0123456789abcdef`

  /** Less than three records, and as much as two with a lock. */
  const recordBytesMax = { redis: 1000, postgres: 1100 }[durability]

  /** Tenants that each differ from the default in one rule. */
  const tenants: Record<string, readonly string[]> = {
    plain: [],
    other: [],
    tokens: ['records: {requireLockToken: true}'],
    short: ['records: {ttlSecondsMax: 60}'],
    small: ['records: {bodyBytesMax: 10}'],
    minute: ['limits: {locksPerMinute: {hard: 3}}'],
    month: ['limits: {locksPerMonth: {hard: 2}}'],
    bytes: [`limits: {recordBytes: {hard: ${recordBytesMax}}}`],
    none: ['limits: {locksPerMinute: {hard: 0}}'],
    soft: ['limits: {locksPerMinute: {soft: 0}, locksPerMonth: {soft: 0}, recordBytes: {soft: 0}}'],
  }

  beforeAll(async () => {
    const manifests = Object.entries(tenants).map(([name, spec]) => tenantYaml(name, keyOf(name), spec))
    api = await startTestApi({
      recordDurability: durability,
      manifests: manifests.join(''),
      recordTtlSecondsMax: 1000,
      recordBodyBytesMax: 50,
    })
  }, 30_000)
  afterAll(() => api.close())

  let keys = 0
  function fresh(): { scope: string; key: string } {
    keys += 1
    return { scope: 'limits', key: `key-${keys}` }
  }

  const call = (tenant: string, method: string, path: string, body?: unknown) =>
    api.call(method, path, body, { Authorization: `Bearer ${keyOf(tenant)}` })
  const check = (tenant: string, body: object) => call(tenant, 'POST', '/v1/record', body)
  const save = (tenant: string, body: object | string) => call(tenant, 'PUT', '/v1/record', body)

  async function lock(tenant: string, body: object): Promise<string> {
    const answer = await check(tenant, body)
    expect(answer.json).toMatchObject({ cached: false, locked: true })
    return String(answer.json.lockToken)
  }

  function expectRefused(answer: TestAnswer, ...words: string[]): void {
    expect(answer.json).toMatchObject({ statusCode: 400, code: 'invalid_request' })
    for (const word of words) expect(answer.json.message).toContain(word)
  }

  test('records: two tenants can use the same scope and key independently', async () => {
    const address = fresh()
    const lockToken = await lock('plain', address)
    await lock('other', address)
    await save('plain', { ...address, status: 200, body: 'plain', lockToken })
    expect((await check('other', address)).json).toMatchObject({ cached: false, locked: false })
    const removed = await call(
      'other',
      'DELETE',
      `/v1/record?${new URLSearchParams({ ...address, lockToken })}`,
    )
    expect(removed.json).toEqual({ ok: true, existed: false })
    expect((await check('plain', address)).json).toMatchObject({ cached: true, record: { body: 'plain' } })
  })

  describe('requireLockToken', () => {
    test('requireLockToken: a save without a token is refused and the lock stays held, and a save with the token succeeds', async () => {
      const address = fresh()
      const lockToken = await lock('tokens', address)
      expectRefused(await save('tokens', { ...address, status: 200, body: 1 }), 'lockToken')
      expect((await check('tokens', address)).json).toMatchObject({ locked: false })
      expect((await save('tokens', { ...address, status: 200, body: 1, lockToken })).text).toBe('{"ok":true}')
    })
  })

  describe('ttlSeconds', () => {
    test.each([
      ['the platform’s', 'plain', 1000],
      ['a tenant’s own', 'short', 60],
    ])('ttlSeconds: a value over the maximum is refused: %s', async (_name, tenant, most) => {
      const address = fresh()
      for (const ttlSeconds of [most + 1, 2_147_483_648])
        expectRefused(await check(tenant, { ...address, ttlSeconds }), 'ttlSeconds', `from 1 to ${most}`)
      const lockToken = await lock(tenant, { ...address, ttlSeconds: most })
      const saved = { ...address, status: 200, body: 1, lockToken }
      expectRefused(await save(tenant, { ...saved, ttlSeconds: most + 1 }), 'ttlSeconds', String(most))
      expect((await check(tenant, address)).json).toMatchObject({ locked: false })
      expect((await save(tenant, { ...saved, ttlSeconds: most })).status).toBe(200)
    })

    test('ttlSeconds: the default is reduced to the maximum', async () => {
      expect((await check('short', { ...fresh(), lockSeconds: 900 })).json.expiresInMs).toBe(60_000)
    })
  })

  describe('saved body', () => {
    test.each([
      ['the platform’s', 'plain', 50],
      ['a tenant’s own', 'small', 10],
    ])(
      'saved body: a body over the maximum is refused and the lock stays held: %s',
      async (_name, tenant, most) => {
        const { scope, key } = fresh()
        const lockToken = await lock(tenant, { scope, key })
        const sized = (bytes: number) =>
          `{"scope":"${scope}","key":"${key}","status":200,"lockToken":"${lockToken}","body": "${'é'.repeat(
            Math.floor((bytes - 2) / 2),
          )}${'a'.repeat((bytes - 2) % 2)}" }`
        expectRefused(await save(tenant, sized(most + 1)), 'body', String(most))
        expect((await check(tenant, { scope, key })).json).toMatchObject({ cached: false, locked: false })
        expect((await save(tenant, sized(most))).text).toBe('{"ok":true}')
        expect((await check(tenant, { scope, key })).json.cached).toBe(true)
      },
    )
  })

  describe('usage', () => {
    test('usage: above the hard limit per minute, new locks are refused, but hits, busy responses and saves never are', async () => {
      const minuteOf = () => Math.floor(Date.now() / 60_000)
      const [saved, held] = [fresh(), fresh()]
      const startedMinute = minuteOf()
      const lockToken = await lock('minute', saved)
      await save('minute', { ...saved, status: 200, body: 1, lockToken })
      await lock('minute', held)
      for (let times = 0; times < 5; times += 1) {
        expect((await check('minute', saved)).json.cached).toBe(true)
        expect((await check('minute', held)).json.locked).toBe(false)
      }
      let granted = 2
      let answer = await check('minute', fresh())
      // Repeats the call until it is refused: if a minute ends during the test, the count is reset, at most once.
      for (; answer.status === 200 && granted < 7; granted += 1) answer = await check('minute', fresh())
      expect(answer.json).toMatchObject({
        statusCode: 429,
        code: 'limit_exceeded',
        error: 'Too Many Requests',
      })
      if (minuteOf() === startedMinute) expect(granted).toBe(3)

      const limit = parseItem(answer.headers.get('ratelimit'))
      const policy = parseItem(answer.headers.get('ratelimit-policy'))
      const retryAfter = Number(answer.headers.get('retry-after'))
      expect(limit).toEqual({ name: 'locks-per-minute', parameters: { r: 0, t: retryAfter } })
      expect(policy).toEqual({ name: 'locks-per-minute', parameters: { q: 3, w: 60 } })
      expect(retryAfter).toBeGreaterThanOrEqual(1)
      expect(retryAfter).toBeLessThanOrEqual(60)

      expect((await check('minute', saved)).json.cached).toBe(true)
      expect((await check('minute', held)).json.locked).toBe(false)
      expect((await save('minute', { ...fresh(), status: 200, body: 1 })).status).toBe(200)
    })

    test('usage: locks over the hard limit per month are refused', async () => {
      const address = fresh()
      await lock('month', address)
      await lock('month', fresh())
      const answer = await check('month', fresh())
      expect(answer.json).toMatchObject({ statusCode: 429, code: 'limit_exceeded' })
      const retryAfter = Number(answer.headers.get('retry-after'))
      const now = new Date()
      const monthEndMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)
      expect(Math.abs(retryAfter - (monthEndMs - now.getTime()) / 1000)).toBeLessThan(5)
      expect(parseItem(answer.headers.get('ratelimit'))).toEqual({
        name: 'locks-per-month',
        parameters: { r: 0, t: retryAfter },
      })
      expect(parseItem(answer.headers.get('ratelimit-policy'))).toEqual({
        name: 'locks-per-month',
        parameters: { q: 2 },
      })
      expect((await check('month', address)).json.locked).toBe(false)
    })

    test('usage: at the limit of record bytes, no lock is granted until a record is removed', async () => {
      const address = fresh()
      for (let count = 0; count < 3; count += 1) {
        await save('bytes', { scope: 'bytes', key: `${count}`, status: 200, body: 'b'.repeat(40) })
      }
      const answer = await check('bytes', address)
      expect(answer.json).toMatchObject({ statusCode: 429, code: 'limit_exceeded' })
      expect(parseItem(answer.headers.get('ratelimit-policy'))).toEqual({
        name: 'record-bytes',
        parameters: { q: recordBytesMax, qu: 'content-bytes' },
      })
      expect((await check('bytes', { scope: 'bytes', key: '0' })).json.cached).toBe(true)
      await call('bytes', 'DELETE', '/v1/record?scope=bytes&key=0')
      await lock('bytes', address)
    })

    test('usage: a limit of 0 grants no lock, and in a batch every check gets an error', async () => {
      const answer = await call('none', 'POST', '/v1/record/batch', { checks: [fresh(), fresh()] })
      expect(answer.status).toBe(200)
      const results = answer.json.results as { statusCode: number; code: string; retryAfterMs: number }[]
      const refused = { statusCode: 429, code: 'limit_exceeded' }
      expect(results).toMatchObject([refused, refused])
      const soonestMs = Math.min(...results.map(({ retryAfterMs }) => retryAfterMs))
      expect(soonestMs).toBeWithin(1, 61_000)
      expect(answer.headers.get('Retry-After')).toBe(String(soonestMs / 1000))
    })

    test('usage: a soft limit refuses nothing', async () => {
      await save('soft', { ...fresh(), status: 200, body: 1 })
      await lock('soft', fresh())
    })
  })

  /**
   * Parses a header field whose value is a list of one string with parameters (RFC 9651 sections 3.1, 3.1.2), as RateLimit and
   * RateLimit-Policy are.
   */
  function parseItem(value: string | null): { name: string; parameters: Record<string, number | string> } {
    const match =
      /^"([\x20\x21\x23-\x5b\x5d-\x7e]*)"((?:;[a-z*][a-z0-9_.*-]*=(?:-?\d{1,15}|"[\x20\x21\x23-\x5b\x5d-\x7e]*"))*)$/.exec(
        value ?? '',
      )
    if (!match) throw new Error(`not a structured field: ${value}`)
    const pairs = (match[2] ?? '').split(';').slice(1)
    const parameters = pairs.map((pair): [string, number | string] => {
      const [name = '', text = ''] = pair.split('=')
      return [name, text.startsWith('"') ? text.slice(1, -1) : Number(text)]
    })
    return { name: match[1] ?? '', parameters: Object.fromEntries(parameters) }
  }
})
