import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { recordDurabilities } from '#internal/tenants/index.ts'
import { builtInLimits } from '#test/support/records/built-in-limits.ts'
import { openRecordLab, type RecordLab } from '#test/support/records/record-lab.ts'
import { acquireInput, saveInput } from '#test/support/records/record-steps.ts'
import { directoryTenant } from '#test/support/tenants/directory-tenant.ts'
import { type Records, type RecordTenant, toAcquired } from './acquire.ts'
import { hitAnswer } from './answer.ts'
import { checkBatch } from './batch.ts'
import { type CheckOutcome, joinRecord } from './record.ts'
import type { AcquireInput } from './store.ts'

const quarterOfAnswers = 16 * 1024 * 1024
/** Maximum concurrent calls of a tenant. */
const callsOfTenant = { redis: 2000, postgres: 500 }
const checks = 100

function inputOf(tenantId: TenantId, key: string): AcquireInput {
  return acquireInput(tenantId, { key, lockToken: crypto.randomUUID(), fingerprint: '' })
}

function tenantOf(id: TenantId): RecordTenant {
  const records = { requireLockToken: false, ttlSecondsMax: 86_400, bodyBytesMax: 262_144 }
  return directoryTenant({ id, records, limits: { locksPerMinute: { hard: 1_000_000 } } })
}

describe.each(recordDurabilities)('shares of tenants with records in %s', (durability) => {
  let lab: RecordLab
  beforeAll(async () => {
    lab = await openRecordLab({ durability })
  }, 30_000)
  afterAll(() => lab.close())

  async function saveRecord(tenantId: TenantId, key: string, bytes: number): Promise<string> {
    const record = joinRecord(200, '{}', `"${key}${'x'.repeat(bytes)}"`)
    await lab.store.save(saveInput(tenantId, { key, record }))
    return record
  }

  /** Creates a tenant with `count` records of 250 KB. */
  async function tenantWithLongRecords(count: number): Promise<TenantId> {
    const tenantId = await lab.createTenant()
    for (let n = 0; n < count; n += 1) await saveRecord(tenantId, `long-${n}`, 250_000)
    return tenantId
  }

  /** Starts a batch as the route does. `begun` returns the number of started checks. */
  function startBatch(tenantId: TenantId, keyOf: (index: number) => string, size = checks) {
    let begun = 0
    const outcomes: CheckOutcome[] = []
    const records: Records = {
      storeOf: () => lab.store,
      waiters: lab.waiters,
      ttlSecondsMax: 86_400,
      bodyBytesMax: 262_144,
      limitsOf: builtInLimits,
      onChecked: (outcome) => outcomes.push(outcome),
    }
    const answer = checkBatch(records, {
      tenant: tenantOf(tenantId),
      requestId: 'r',
      size,
      check: (index) => {
        begun += 1
        return { kind: 'parsed', value: { scope: 'orders', key: keyOf(index) } }
      },
    })
    return { answer, outcomes, begun: () => begun }
  }

  describe('batch', () => {
    test('batch: runs a limited number of checks at a time, so that other calls are served in between', async () => {
      const [tenantId, other] = [await lab.createTenant(), await lab.createTenant()]
      await Promise.all([tenantId, other].map((each) => lab.store.acquire(inputOf(each, 'first'))))
      const batch = startBatch(tenantId, (index) => `k-${index}`)
      expect((await lab.store.acquire(inputOf(other, 'k'))).kind).toBe('locked')
      expect(batch.begun()).toBeLessThan(checks / 2)
      await batch.answer
      expect(batch.outcomes).toEqual(Array.from({ length: checks }, () => 'locked' as const))
    })

    test('batch: reads long records in slices, and other calls are served meanwhile', async () => {
      const [tenantId, other] = [await tenantWithLongRecords(20), await lab.createTenant()]
      let over = false
      const batch = startBatch(tenantId, (index) => `long-${index}`, 20).answer.then(() => {
        over = true
      })
      let answered = 0
      while (!over && answered < 1000) {
        await lab.store.acquire(inputOf(other, `k-${answered}`))
        answered += 1
      }
      await batch
      expect(answered).toBeGreaterThan(5)
    })

    test('batch: returns all locks and at most 4 MiB of records, and an error with a retry time for each further record', async () => {
      const tenantId = await tenantWithLongRecords(20)
      const small = await saveRecord(tenantId, 'small', 30_000)
      const keys = [...Array.from({ length: 20 }, (_, n) => `long-${n}`), 'small', 'free']
      const batch = startBatch(tenantId, (index) => keys[index] ?? '', keys.length)
      const answer = await batch.answer
      const { results } = JSON.parse(answer.body) as { results: Record<string, unknown>[] }
      const fit = Math.floor((4 * 1024 * 1024 - small.length) / 250_100)
      expect(results.slice(0, fit).every((result) => result.cached)).toBe(true)
      for (const refused of results.slice(fit, 20)) {
        expect(refused).toMatchObject({
          statusCode: 503,
          code: 'overloaded',
          retryAfterMs: 1000,
          requestId: 'r',
        })
        expect(refused.message).toContain('separate call')
      }
      expect(results.slice(20)).toMatchObject([{ cached: true }, { cached: false, locked: true }])
      expect(answer.body.length).toBeLessThan(4.1 * 1024 * 1024)
      expect(answer.headers).toEqual({ 'Retry-After': '1' })
      expect(answer.log).toEqual({ checks: `hit ${fit + 1}, overloaded ${20 - fit}, locked 1` })
      expect(batch.outcomes.filter((outcome) => outcome === 'overloaded')).toHaveLength(20 - fit)
      expect((await lab.store.acquire(inputOf(tenantId, 'long-19'))).kind).toBe('hit')
      expect(lab.store.answers.taken).toBe(0)
    })
  })

  describe('long records', () => {
    test('long records: a tenant that uses its quarter of the memory is refused, but another tenant is not', async () => {
      const [tenantId, other] = [await tenantWithLongRecords(1), await tenantWithLongRecords(1)]
      const small = await saveRecord(tenantId, 'small', 1000)
      const { answers } = lab.store
      expect(answers.take(quarterOfAnswers, tenantId)).toBe(true)
      const refused = await lab.store.acquire(inputOf(tenantId, 'long-0'))
      expect(refused).toMatchObject({ kind: 'long' })
      expect(toAcquired({ limitsOf: builtInLimits }, refused, tenantOf(tenantId))).toMatchObject({
        code: 'overloaded',
        headers: { 'Retry-After': '1' },
      })
      expect((await lab.store.fetch(inputOf(tenantId, 'long-0'))).kind).toBe('long')
      expect(JSON.parse((await startBatch(tenantId, () => 'long-0', 1).answer).body)).toMatchObject({
        results: [{ code: 'overloaded' }],
      })
      expect(await lab.store.acquire(inputOf(tenantId, 'small'))).toEqual({ kind: 'hit', record: small })
      expect((await lab.store.acquire(inputOf(other, 'long-0'))).kind).toBe('hit')
      expect((await lab.store.fetch(inputOf(other, 'long-0'))).kind).toBe('hit')
      answers.give(quarterOfAnswers, tenantId)
      expect((await lab.store.acquire(inputOf(tenantId, 'long-0'))).kind).toBe('hit')
      expect(answers.taken).toBe(0)
    })

    test.each([32_000, 32_767, 32_768, 40_000])(
      'long records: a record of %d bytes is returned completely',
      async (bytes) => {
        const tenantId = await lab.createTenant()
        const record = await saveRecord(tenantId, '€', bytes)
        expect(await lab.store.acquire(inputOf(tenantId, '€'))).toEqual({ kind: 'hit', record })
        expect(await lab.store.fetch(inputOf(tenantId, '€'))).toEqual({ kind: 'hit', record })
        const batch = JSON.parse((await startBatch(tenantId, () => '€', 2).answer).body) as {
          results: unknown[]
        }
        expect(batch.results).toEqual([1, 2].map(() => JSON.parse(hitAnswer(record).body)))
      },
    )

    test('long records: a check with another fingerprint is refused as a mismatch, even if no memory for the record is free', async () => {
      const tenantId = await lab.createTenant()
      const held = { ...inputOf(tenantId, 'k'), fingerprint: 'one' }
      await lab.store.acquire(held)
      const record = joinRecord(200, '{}', `"${'x'.repeat(50_000)}"`)
      await lab.store.save({ ...held, ttlMs: null, defaultTtlMs: 1000, record })
      expect(await lab.store.acquire({ ...held, fingerprint: 'two' })).toEqual({ kind: 'mismatch' })
      expect(await lab.store.acquire({ ...held, attemptId: 'a' })).toEqual({ kind: 'hit', record })
    })
  })

  test('record calls: a tenant that uses its quarter of the calls is refused immediately, but another tenant is not', async () => {
    const [tenantId, other] = [await lab.createTenant(), await lab.createTenant()]
    await Promise.all([tenantId, other].map((each) => lab.store.acquire(inputOf(each, 'first'))))
    const underWay = Array.from({ length: callsOfTenant[durability] }, (_, n) =>
      lab.store.acquire(inputOf(tenantId, `k-${n}`)),
    )
    await expect(lab.store.acquire(inputOf(tenantId, 'more'))).rejects.toMatchObject({ reason: 'overloaded' })
    await expect(lab.store.remove(inputOf(tenantId, 'more'), '')).rejects.toMatchObject({
      reason: 'overloaded',
    })
    expect((await lab.store.acquire(inputOf(other, 'k'))).kind).toBe('locked')
    const kinds = (await Promise.all(underWay)).map(({ kind }) => kind)
    expect(new Set(kinds)).toEqual(new Set(['locked']))
    expect((await lab.store.acquire(inputOf(tenantId, 'more'))).kind).toBe('locked')
  })
})
