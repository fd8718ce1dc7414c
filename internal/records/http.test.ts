import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { recordDurabilities } from '#internal/tenants/index.ts'
import { startTestApi, type TestAnswer, type TestApi, testApiKey } from '#test/support/api.ts'

describe.each(recordDurabilities)('records in %s', (durability) => {
  let api: TestApi

  beforeAll(async () => {
    api = await startTestApi({ recordDurability: durability })
  }, 30_000)
  afterAll(() => api.close())

  let keys = 0
  /** Returns an unused pair of scope and key. */
  function fresh(): { scope: string; key: string } {
    keys += 1
    return { scope: 'http', key: `key-${keys}` }
  }

  const query = (address: Record<string, string>) => `/v1/record?${new URLSearchParams(address)}`
  const check = (body: object, headers?: Record<string, string>) =>
    api.call('POST', '/v1/record', body, headers)
  const save = (body: object | string) => api.call('PUT', '/v1/record', body)
  const fetchRecord = (address: Record<string, string>) => api.call('GET', query(address))
  const remove = (address: Record<string, string>) => api.call('DELETE', query(address))

  async function lock(body: object): Promise<{ lockToken: string; fence: number; expiresInMs: number }> {
    const answer = await check(body)
    expect(answer.json).toMatchObject({ cached: false, locked: true })
    return answer.json as { lockToken: string; fence: number; expiresInMs: number }
  }

  async function expectBusy(address: object): Promise<void> {
    expect((await check(address)).json).toMatchObject({ cached: false, locked: false })
  }

  function expectError(answer: TestAnswer, status: number, code: string): void {
    expect(answer.json).toEqual({
      message: expect.any(String),
      error: expect.any(String),
      statusCode: status,
      code,
      requestId: answer.headers.get('x-request-id'),
    })
    expect(answer.status).toBe(status)
  }

  async function waiting(count: number): Promise<void> {
    const seen = await poll(
      async () => {
        const metrics = await (await fetch(`${api.opsUrl}/metrics`)).text()
        return metrics.includes(`\nlatchkey_records_waiters_count ${count}\n`) || undefined
      },
      { deadlineMs: 5000 },
    )
    expect(seen).toBe(true)
  }

  describe('every response', () => {
    test('every response: is JSON, must not be cached, and contains a request id', async () => {
      const answer = await fetchRecord(fresh())
      expect(answer.headers.get('content-type')).toBe('application/json')
      expect(answer.headers.get('cache-control')).toBe('no-store')
      expect(answer.headers.get('x-request-id')).toMatch(/^[\w-]+$/)
    })

    test.each([
      ['all sorts of characters', 'Az09_.:-'],
      ['the longest one', 'r'.repeat(128)],
    ])('request id: a well-formed X-Request-Id is used: %s', async (_name, id) => {
      const answer = await api.call('GET', query(fresh()), undefined, { 'X-Request-Id': id })
      expect(answer.headers.get('x-request-id')).toBe(id)
    })

    test.each([
      ['one character too long', 'r'.repeat(129)],
      ['a space in it', 'a b'],
      ['a quote', '"a"'],
      ['another letter', 'ä'],
      ['empty', ''],
    ])('request id: a malformed X-Request-Id is replaced by a generated id: %s', async (_name, id) => {
      const answer = await api.call('GET', '/v1/record', undefined, { 'X-Request-Id': id })
      const own = answer.headers.get('x-request-id')
      expect(own).toMatch(/^[\w-]{8,64}$/)
      expect(own).not.toBe(id)
      expect(answer.json.requestId).toBe(own)
    })
  })

  describe('POST /v1/record', () => {
    test('POST /v1/record: a first call gets the lock, and only the documented fields', async () => {
      const answer = await check(fresh())
      expect(answer.status).toBe(200)
      expect(answer.json).toEqual({
        cached: false,
        locked: true,
        lockToken: expect.stringMatching(/^[\w-]{16,128}$/),
        fence: expect.any(Number),
        expiresInMs: 60_000,
      })
      expect(answer.headers.has('idempotent-replayed')).toBe(false)
      expect(answer.headers.has('retry-after')).toBe(false)
    })

    test('POST /v1/record: a second call while the key is busy gets the time at which to retry', async () => {
      const address = fresh()
      await lock(address)
      const answer = await check(address)
      expect(answer.status).toBe(200)
      expect(answer.json).toEqual({ cached: false, locked: false, retryAfterMs: expect.any(Number) })
      const retryAfterMs = Number(answer.json.retryAfterMs)
      expect(retryAfterMs).toBeGreaterThan(0)
      expect(retryAfterMs).toBeLessThanOrEqual(1000)
      expect(answer.headers.get('retry-after')).toBe('1')
    })

    test('POST /v1/record: a call after the save gets the saved response, marked as a replay', async () => {
      const address = fresh()
      const { lockToken } = await lock(address)
      const record = { status: 201, headers: { Location: '/a' }, body: { id: 1 } }
      await save({ ...address, ...record, lockToken })
      const answer = await check(address)
      expect(answer.status).toBe(200)
      expect(answer.json).toEqual({ cached: true, record })
      expect(answer.headers.get('idempotent-replayed')).toBe('true')
      expect(answer.headers.has('retry-after')).toBe(false)
    })

    test('POST /v1/record: fences grow with every acquisition, and every lock has its own token', async () => {
      const locks = [await lock(fresh()), await lock(fresh()), await lock(fresh())]
      const fences = locks.map(({ fence }) => fence)
      expect(fences.every(Number.isSafeInteger)).toBe(true)
      expect(fences).toEqual(fences.toSorted((one, other) => one - other))
      expect(new Set(fences).size).toBe(3)
      expect(new Set(locks.map(({ lockToken }) => lockToken)).size).toBe(3)
    })

    test.each([
      ['the requested duration', { lockSeconds: 7 }, 7000],
      ['the maximum', { lockSeconds: 900 }, 900_000],
      ['the ttl of the record if that is shorter', { lockSeconds: 50, ttlSeconds: 20 }, 20_000],
      ['the default reduced to the ttl of the record', { ttlSeconds: 30 }, 30_000],
    ])('POST /v1/record: the duration of a lock is %s', async (_name, asked, expiresInMs) => {
      expect((await lock({ ...fresh(), ...asked })).expiresInMs).toBe(expiresInMs)
    })

    test('POST /v1/record: different pairs of scope and key stay distinct even if their concatenations are equal', async () => {
      for (const [scope, key] of [
        ['a', 'b:c'],
        ['a:b', 'c'],
        ['a:b:c', '-'],
        ['a/b', 'c'],
        ['a', 'b/c'],
        ['{a}', 'b'],
        ['a', '{b}'],
        ['A', 'b:c'],
        ['a ', 'b:c'],
      ]) {
        await lock({ scope, key })
      }
    })

    test('POST /v1/record: a takeover of an expired lock is reported, and a save by the late holder changes nothing', async () => {
      const address = fresh()
      const first = await lock({ ...address, lockSeconds: 1 })
      const second = await check({ ...address, waitMs: 10_000 })
      expect(second.json).toMatchObject({ cached: false, locked: true, takenOver: true })
      expect(Number(second.json.fence)).toBeGreaterThan(first.fence)
      expectError(
        await save({ ...address, status: 200, body: 1, lockToken: first.lockToken }),
        409,
        'lock_lost',
      )
      expect((await fetchRecord(address)).json).toEqual({ cached: false })
      const { lockToken } = second.json
      expect((await save({ ...address, status: 200, body: 2, lockToken })).status).toBe(200)
      expectError(
        await save({ ...address, status: 200, body: 1, lockToken: first.lockToken }),
        409,
        'lock_lost',
      )
    })

    describe('fingerprint', () => {
      test('fingerprint: a different fingerprint is refused during the first call and after it', async () => {
        const address = fresh()
        const { lockToken } = await lock({ ...address, fingerprint: 'one' })
        expectError(await check({ ...address, fingerprint: 'two' }), 422, 'fingerprint_mismatch')
        await save({ ...address, status: 200, body: null, lockToken })
        expectError(await check({ ...address, fingerprint: 'two' }), 422, 'fingerprint_mismatch')
      })

      test('fingerprint: the same fingerprint matches, and so does a missing fingerprint', async () => {
        const address = fresh()
        const { lockToken } = await lock({ ...address, fingerprint: 'one' })
        await expectBusy({ ...address, fingerprint: 'one' })
        await expectBusy(address)
        await save({ ...address, status: 200, body: null, lockToken })
        expect((await check({ ...address, fingerprint: 'one' })).json.cached).toBe(true)
        expect((await check(address)).json.cached).toBe(true)
      })
    })

    describe('attemptId', () => {
      test('attemptId: the same attempt gets its own lock again, and another attempt does not', async () => {
        const address = { ...fresh(), attemptId: 'try-1' }
        const first = await lock(address)
        expect(await lock(address)).toMatchObject({ lockToken: first.lockToken, fence: first.fence })
        await expectBusy({ ...address, attemptId: 'try-2' })
      })
    })

    describe('waitMs', () => {
      test('waitMs: a waiting caller gets the record as soon as the holder saves it', async () => {
        const address = fresh()
        const { lockToken } = await lock(address)
        const waiter = check({ ...address, waitMs: 25_000 })
        await waiting(1)
        await save({ ...address, status: 200, body: 'done', lockToken })
        const answer = await waiter
        expect(answer.json).toEqual({ cached: true, record: { status: 200, headers: {}, body: 'done' } })
        expect(answer.headers.get('idempotent-replayed')).toBe('true')
      })

      test('waitMs: a waiting caller wins the lock when the holder releases it', async () => {
        const address = fresh()
        const { lockToken } = await lock(address)
        const waiter = check({ ...address, waitMs: 25_000 })
        await waiting(1)
        await remove({ ...address, lockToken })
        expect((await waiter).json).toMatchObject({ cached: false, locked: true })
      })

      test('waitMs: a caller gets a busy response when its waiting time is over', async () => {
        const address = fresh()
        await lock(address)
        const startedMs = performance.now()
        const answer = await check({ ...address, waitMs: 60 })
        expect(performance.now() - startedMs).toBeGreaterThanOrEqual(59)
        expect(answer.json).toMatchObject({ cached: false, locked: false })
      })

      test('waitMs: a caller that hangs up while it waits leaves no lock behind', async () => {
        const address = fresh()
        const { lockToken } = await lock(address)
        const hangUp = new AbortController()
        const waiter = fetch(`${api.url}/v1/record`, {
          method: 'POST',
          headers: { Authorization: `Bearer ${testApiKey}` },
          body: JSON.stringify({ ...address, waitMs: 25_000 }),
          signal: hangUp.signal,
        })
        await waiting(1)
        hangUp.abort()
        expect(await waiter.catch((error: Error) => error.name)).toBe('AbortError')
        await waiting(0)
        await remove({ ...address, lockToken })
        await lock(address)
      })
    })
  })

  describe('PUT /v1/record', () => {
    test('PUT /v1/record: a repeated save succeeds, and a different save is refused and changes nothing', async () => {
      const address = fresh()
      const { lockToken } = await lock(address)
      const saved = { ...address, status: 200, headers: { a: '1' }, body: { n: 1 }, lockToken }
      const first = await save(saved)
      expect([first.status, first.text]).toEqual([200, '{"ok":true}'])
      expect((await save(saved)).text).toBe('{"ok":true}')
      expectError(await save({ ...saved, body: { n: 2 } }), 409, 'record_exists')
      expectError(await save({ ...saved, lockToken: 'somebody else’s' }), 409, 'lock_lost')
      expect((await fetchRecord(address)).json.record).toEqual({
        status: 200,
        headers: { a: '1' },
        body: { n: 1 },
      })
    })

    test('PUT /v1/record: a save is accepted without an earlier lock', async () => {
      const address = fresh()
      expect((await save({ ...address, status: 204, body: null })).text).toBe('{"ok":true}')
      expect((await check(address)).json).toEqual({
        cached: true,
        record: { status: 204, headers: {}, body: null },
      })
    })

    test('PUT /v1/record: a save with a token that owns no lock changes nothing', async () => {
      const address = fresh()
      expectError(await save({ ...address, status: 200, body: 1, lockToken: 'none' }), 409, 'lock_lost')
      await lock(address)
      expectError(await save({ ...address, status: 200, body: 1, lockToken: 'none' }), 409, 'lock_lost')
      await expectBusy(address)
    })

    test('PUT /v1/record: the record inherits the fingerprint of the lock that it completes', async () => {
      const address = fresh()
      await lock({ ...address, fingerprint: 'one' })
      await save({ ...address, status: 200, body: 1 })
      expectError(await check({ ...address, fingerprint: 'two' }), 422, 'fingerprint_mismatch')
    })

    test.each([
      ['a number beyond a double', '12345678901234567890123456789012345678901234567890.5'],
      ['an id beyond 2^53', '{"id":820982911946154508}'],
      ['an unusual notation of a number', '[1.10,1e2,-0,1E+400,0.30000000000000004]'],
      ['the order of keys', '{"z":1,"2":2,"a":3,"1":4}'],
      ['__proto__', '{"__proto__":{"admin":true},"constructor":1}'],
      ['a repeated name', '{"a":1,"a":2}'],
      ['escapes', '"\\u0041\\u00e9\\ud83d\\ude00\\/\\n\\"\\\\"'],
      ['a lone surrogate’s escape', '"\\ud800"'],
      ['letters beyond ASCII', '"é€😀\u2028"'],
      ['white space inside', '{ "a" :\t[ 1 ,\r\n2 ] }'],
      ['brackets in strings', '["}{][\\\\","\\""]'],
      ['a string', '"text"'],
      ['the empty string', '""'],
      ['true', 'true'],
      ['null', 'null'],
      ['an empty object', '{}'],
    ])('PUT /v1/record: keeps the body as received: %s', async (_name, text) => {
      const { scope, key } = fresh()
      const sent = `{"scope":"${scope}","status":200 , "body" :\n ${text} \n,"key":"${key}"}`
      expect((await save(sent)).text).toBe('{"ok":true}')
      const wanted = `{"cached":true,"record":{"status":200,"headers":{},"body":${text}}}`
      expect((await fetchRecord({ scope, key })).text).toBe(wanted)
      expect((await check({ scope, key })).text).toBe(wanted)
      const batch = await api.call('POST', '/v1/record/batch', { checks: [{ scope, key }] })
      expect(batch.text).toBe(`{"results":[${wanted}]}`)
    })

    test('PUT /v1/record: keeps headers as received', async () => {
      const { scope, key } = fresh()
      const headers = '{ "X-B":"2", "X-A" : "\\u0031", "__proto__":"p", "X-Empty": "" }'
      await save(`{"scope":"${scope}","key":"${key}","status":200,"headers":${headers},"body":0}`)
      expect((await fetchRecord({ scope, key })).text).toBe(
        `{"cached":true,"record":{"status":200,"headers":${headers},"body":0}}`,
      )
    })

    test('PUT /v1/record: accepts field names that contain JSON escapes', async () => {
      const { scope, key } = fresh()
      const sent = `{"sc\\u006fpe":"${scope}","key":"${key}","status":200,"b\\u006fdy":1.0}`
      expect((await save(sent)).text).toBe('{"ok":true}')
      expect((await fetchRecord({ scope, key })).text).toContain('"body":1.0}')
    })
  })

  describe('GET /v1/record', () => {
    test('GET /v1/record: reports that no record exists, also while a lock is held', async () => {
      const address = fresh()
      expect((await fetchRecord(address)).text).toBe('{"cached":false}')
      await lock(address)
      const answer = await fetchRecord(address)
      expect(answer.text).toBe('{"cached":false}')
      expect(answer.headers.has('idempotent-replayed')).toBe(false)
    })

    test('GET /v1/record: a found record is marked as a replay', async () => {
      const address = fresh()
      await save({ ...address, status: 200, body: 1 })
      const answer = await fetchRecord(address)
      expect(answer.json).toEqual({ cached: true, record: { status: 200, headers: {}, body: 1 } })
      expect(answer.headers.get('idempotent-replayed')).toBe('true')
    })

    test('GET /v1/record: scope and key can contain any text that percent-encoding can represent', async () => {
      const address = { scope: 'sp ace+plus', key: 'é€😀/?&=#%"\\' }
      await save({ ...address, status: 200, body: 'found' })
      expect((await fetchRecord(address)).json.cached).toBe(true)
      expect((await remove(address)).json.existed).toBe(true)
    })
  })

  describe('DELETE /v1/record', () => {
    test('DELETE /v1/record: the first call removes the record, and a second call finds none', async () => {
      const address = fresh()
      await save({ ...address, status: 200, body: 1 })
      expect((await remove(address)).text).toBe('{"ok":true,"existed":true}')
      expect((await remove(address)).text).toBe('{"ok":true,"existed":false}')
      expect((await fetchRecord(address)).json).toEqual({ cached: false })
    })

    test('DELETE /v1/record: a call without a token does not release a held lock', async () => {
      const address = fresh()
      await lock(address)
      expect((await remove(address)).json).toEqual({ ok: true, existed: false })
      await expectBusy(address)
    })

    test('DELETE /v1/record: only the token of the lock releases the lock', async () => {
      const address = fresh()
      const { lockToken } = await lock(address)
      expect((await remove({ ...address, lockToken: 'other' })).json).toEqual({ ok: true, existed: false })
      await expectBusy(address)
      expect((await remove({ ...address, lockToken })).json).toEqual({ ok: true, existed: true })
      const next = await check(address)
      expect(next.json.locked).toBe(true)
      expect(next.json).not.toHaveProperty('takenOver')
    })

    test('DELETE /v1/record: a call with a token does not remove a record', async () => {
      const address = fresh()
      const { lockToken } = await lock(address)
      await save({ ...address, status: 200, body: 1, lockToken })
      expect((await remove({ ...address, lockToken })).json).toEqual({ ok: true, existed: false })
      expect((await fetchRecord(address)).json.cached).toBe(true)
    })
  })

  describe('POST /v1/record/extend', () => {
    const extend = (body: object) => api.call('POST', '/v1/record/extend', body)

    test('POST /v1/record/extend: the lock is held for the requested time from now on, and keeps its fence', async () => {
      const address = fresh()
      const { lockToken, fence } = await lock({ ...address, lockSeconds: 5 })
      const answer = await extend({ ...address, lockToken, lockSeconds: 120 })
      expect(answer.status).toBe(200)
      expect(answer.json).toEqual({ ok: true, fence, expiresInMs: 120_000 })
    })

    test('POST /v1/record/extend: without a requested time, the lock is held for its original duration', async () => {
      const address = fresh()
      const { lockToken } = await lock({ ...address, lockSeconds: 5 })
      expect((await extend({ ...address, lockToken })).json.expiresInMs).toBe(5000)
    })

    test.each(['nobody', 'somebody else', 'a record'])(
      'POST /v1/record/extend: a lock that was lost to %s is not extended',
      async (who) => {
        const address = fresh()
        const { lockToken } = await lock(address)
        if (who === 'nobody') await remove({ ...address, lockToken })
        if (who === 'a record') await save({ ...address, status: 200, body: 1, lockToken })
        const token = who === 'somebody else' ? 'other' : lockToken
        expectError(await extend({ ...address, lockToken: token }), 409, 'lock_lost')
      },
    )
  })

  describe('POST /v1/record/batch', () => {
    const batch = (checks: readonly unknown[]) => api.call('POST', '/v1/record/batch', { checks })

    test('POST /v1/record/batch: returns one result per check in order, with an error for an invalid check', async () => {
      const [saved, busy, free] = [fresh(), fresh(), fresh()]
      await save({ ...saved, status: 200, body: 1.5 })
      await lock({ ...busy, fingerprint: 'one' })
      const answer = await batch([
        free,
        { ...saved, lockTokn: 'x' },
        saved,
        busy,
        { ...busy, fingerprint: 'two' },
        { ...free, waitMs: 5 },
        7,
        null,
        [saved],
        { ...free, ttlSeconds: 2_592_001 },
      ])
      expect(answer.status).toBe(200)
      expect(Object.keys(answer.json)).toEqual(['results'])
      const refused = (statusCode: number, code: string) => ({
        message: expect.any(String),
        error: expect.any(String),
        statusCode,
        code,
        requestId: answer.headers.get('x-request-id'),
      })
      expect(answer.json.results).toEqual([
        {
          cached: false,
          locked: true,
          lockToken: expect.any(String),
          fence: expect.any(Number),
          expiresInMs: 60_000,
        },
        refused(400, 'invalid_request'),
        { cached: true, record: { status: 200, headers: {}, body: 1.5 } },
        { cached: false, locked: false, retryAfterMs: expect.any(Number) },
        refused(422, 'fingerprint_mismatch'),
        refused(400, 'invalid_request'),
        refused(400, 'invalid_request'),
        refused(400, 'invalid_request'),
        refused(400, 'invalid_request'),
        refused(400, 'invalid_request'),
      ])
    })

    test('POST /v1/record/batch: of two checks with the same key, one gets the lock and the other is busy', async () => {
      const address = fresh()
      const { results } = (await batch([address, address])).json as { results: { locked: boolean }[] }
      expect(results.map(({ locked }) => locked)).toEqual([true, false])
    })

    test('POST /v1/record/batch: accepts 100 checks', async () => {
      const addresses = Array.from({ length: 100 }, fresh)
      const { results } = (await batch(addresses)).json as { results: { locked: boolean }[] }
      expect(results).toHaveLength(100)
      expect(results.every(({ locked }) => locked)).toBe(true)
    })

    test.each([
      ['101 checks', { checks: Array.from({ length: 101 }, () => ({ scope: 's', key: 'k' })) }],
      ['no check', { checks: [] }],
      ['more than 1 MiB', { checks: [{ scope: 's', key: 'k'.repeat(1024 * 1024) }] }],
    ])('POST /v1/record/batch: refuses %s', async (_name, body) => {
      expectError(await api.call('POST', '/v1/record/batch', body), 400, 'invalid_request')
    })
  })
})
