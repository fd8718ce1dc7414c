import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { openRedis, type RedisConnection, RedisUnavailable, withTx } from '#internal/storage/index.ts'
import type { Limits, RecordDurability } from '#internal/tenants/index.ts'
import {
  labStartMs,
  movableClock,
  openRecordLab,
  type RecordLab,
  randomTenantId,
} from '#test/support/records/record-lab.ts'
import { recordUsage } from './emissions.ts'
import {
  checkGuardrail,
  commitGuardrail,
  type GuardedTenant,
  type GuardrailAnswer,
  type GuardrailCommit,
  type GuardrailParts,
} from './guardrails.ts'
import { LimitsInForce } from './limits.ts'
import { defineCommitLocksScript } from './lock-commits.ts'
import type { SoftCrossing } from './meter.ts'
import { clearLimitOverride, setLimitOverride } from './overrides.ts'
import { readUsage } from './read-usage.ts'
import { defineUsageScript } from './reading.ts'
import { UsageTurns } from './turns.ts'

const durabilities = ['redis', 'postgres'] as const
const labs = new Map<RecordDurability, RecordLab>()
/** Lab of the current test. */
let lab: RecordLab
beforeAll(async () => {
  for (const durability of durabilities) labs.set(durability, await openRecordLab({ durability }))
  useLab('redis')
}, 30_000)
afterAll(async () => {
  for (const each of labs.values()) await each.close()
})

function useLab(durability: RecordDurability): void {
  const found = labs.get(durability)
  if (!found) throw new Error('no such lab')
  lab = found
}

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const script = defineCommitLocksScript(movableClock)
const usageScript = defineUsageScript(movableClock)

/** A process with its own limits in memory and its own clock. */
function openProcess(startMs = labStartMs) {
  const clock = { nowMs: startMs, now: () => clock.nowMs }
  const { pool, redis, meter } = lab
  const crossings: SoftCrossing[] = []
  const limits = new LimitsInForce({ pool, clock })
  const parts: GuardrailParts = {
    pool,
    redis,
    meter,
    script,
    usageScript,
    clock,
    limits,
    turns: new UsageTurns(clock),
    onSoftCrossing: (crossing) => crossings.push(crossing),
  }
  return { parts, clock, crossings }
}

async function createTenant(limits: Limits): Promise<GuardedTenant> {
  const id = await lab.createTenant()
  await lab.pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at)
     VALUES ($1, $1, 'shops', $1, false, '{}', 1, now(), now(), now()) ON CONFLICT DO NOTHING`,
    [id],
  )
  return { id, limits, suspended: false }
}

const rows = (hard: number, soft?: number): Limits => ({
  emitted: [{ kind: 'exports.rows', hard, ...(soft !== undefined && { soft }) }],
})
const commitOf = (more: Partial<GuardrailCommit> = {}): GuardrailCommit => ({
  kind: 'exports.rows',
  amount: 1,
  id: crypto.randomUUID(),
  by: 'user:biller',
  ...more,
})

async function commit(parts: GuardrailParts, tenant: GuardedTenant, more: Partial<GuardrailCommit> = {}) {
  const outcome = await commitGuardrail(parts, tenant, commitOf(more))
  if (outcome.kind !== 'answered') throw new Error(JSON.stringify(outcome))
  return outcome.answer
}

async function check(parts: GuardrailParts, tenant: GuardedTenant, kind: string, amount = 1) {
  const outcome = await checkGuardrail(parts, tenant, { kind, amount })
  if (outcome.kind !== 'answered') throw new Error(JSON.stringify(outcome))
  return outcome.answer
}

const emit = (
  tenantId: TenantId,
  more: { id?: string; amount?: number; occurredAtMs?: number; soft?: number } = {},
) =>
  withTx(lab.pool, (client) => {
    const { id = crypto.randomUUID(), amount = 1, occurredAtMs = labStartMs, soft = null } = more
    const bounds = { soft, hard: null }
    return recordUsage(
      client,
      { tenantId, kind: 'exports.rows', id, amount, occurredAtMs },
      { bounds, nowMs: labStartMs, by: 'user:reporter' },
    )
  })

/** Adds a row as a version of Latchkey does that knows neither decisions nor the lock of a month. */
let locks = 0
async function acquire(tenantId: TenantId, hard: number | null): Promise<string> {
  const { kind } = await lab.store.acquire({
    tenantId,
    scope: 's',
    key: `k-${locks++}`,
    ttlMs: 60_000,
    lockMs: 60_000,
    lockToken: `t-${locks}`,
    fingerprint: '',
    attemptId: '',
    waits: false,
    limits: { locksPerMinute: hard, locksPerMonth: null, recordBytes: null },
  })
  return kind
}

const countOf = (answers: readonly { readonly isCommitted: boolean }[]) =>
  answers.filter(({ isCommitted }) => isCommitted).length
const stateOf = ({ limits }: GuardrailAnswer) => limits.map(({ limit, used, state }) => [limit, used, state])
const hundred = <T>(work: (nth: number) => Promise<T>) =>
  Promise.all(Array.from({ length: 100 }, (_n, nth) => work(nth)))
const auditOf = async (tenantId: TenantId, action: string) =>
  (
    await lab.pool.query<{ actor: string; detail: Record<string, unknown> }>(
      'SELECT actor, detail FROM audit WHERE tenant_id = $1 AND action = $2 ORDER BY id',
      [tenantId, action],
    )
  ).rows

describe('emitted kinds', () => {
  test('guardrails: 100 concurrent commits in two processes with a hard limit of 50 count exactly 50', async () => {
    const tenant = await createTenant(rows(50))
    const processes = [openProcess(), openProcess()]
    const answers = await hundred((nth) => commit((processes[nth % 2] ?? openProcess()).parts, tenant))
    expect(countOf(answers)).toBe(50)
    expect(answers.filter(({ decision }) => decision === 'deny')).toHaveLength(50)
    expect(Math.max(...answers.map(({ limits }) => limits[0]?.used ?? 0))).toBe(50)
    expect(stateOf(await check(openProcess().parts, tenant, 'exports.rows'))).toEqual([
      ['exports.rowsPerMonth', 50, 'hard'],
    ])
    expect(await auditOf(tenant.id, 'usage.committed')).toHaveLength(50)
  })

  test('guardrails: concurrent emissions are never refused, and concurrent commits use at most the rest of the limit', async () => {
    const tenant = await createTenant(rows(50))
    const { parts } = openProcess()
    const answers = await hundred(async (nth) =>
      nth % 4 === 0 ? (await emit(tenant.id)).kind : (await commit(parts, tenant)).isCommitted,
    )
    const committed = answers.filter((each) => each === true).length
    expect(answers.filter((each) => each === 'recorded')).toHaveLength(25)
    const { limits } = await check(parts, tenant, 'exports.rows')
    expect(limits[0]?.used).toBe(25 + committed)
    expect(committed).toBeWithin(25, 51)
  })

  test('guardrails: 100 concurrent commits with one id count once and get the same decision', async () => {
    const tenant = await createTenant(rows(50, 1))
    const { parts } = openProcess()
    const answers = await hundred(() => commit(parts, tenant, { id: 'same', amount: 30 }))
    expect(answers.filter(({ isNew }) => isNew === true)).toHaveLength(1)
    expect(answers.filter(({ isNew }) => isNew === false)).toHaveLength(99)
    for (const answer of answers)
      expect(answer).toMatchObject({ decision: 'warn', reason: 'soft_limit', limit: 'exports.rowsPerMonth' })
    expect((await check(parts, tenant, 'exports.rows')).limits[0]?.used).toBe(30)
    expect(await auditOf(tenant.id, 'usage.committed')).toEqual([
      { actor: 'user:biller', detail: { id: 'same', kind: 'exports.rows', amount: 30, decision: 'warn' } },
    ])
  })

  test('guardrails: a repeated commit gets its first decision again after the limit is used up, also in a later hour', async () => {
    const tenant = await createTenant(rows(10, 5))
    const { parts, clock } = openProcess()
    const first = await commit(parts, tenant, { id: 'early', amount: 4 })
    await commit(parts, tenant, { amount: 6 })
    clock.nowMs += 2 * hourMs
    const again = await commit(parts, tenant, { id: 'early', amount: 4 })
    expect([first, again].map(({ decision, isNew }) => [decision, isNew])).toEqual([
      ['allow', true],
      ['allow', false],
    ])
    expect(stateOf(again)).toEqual([['exports.rowsPerMonth', 10, 'hard']])
  })

  test('guardrails: an id that is both committed and emitted counts once, in either order', async () => {
    const tenant = await createTenant(rows(10, 5))
    const { parts } = openProcess()
    await emit(tenant.id, { id: 'emitted', amount: 6 })
    const repeat = { isNew: false, isCommitted: true, decision: 'warn', reason: 'soft_limit' }
    expect(await commit(parts, tenant, { id: 'emitted', amount: 6 })).toMatchObject(repeat)
    await commit(parts, tenant, { id: 'committed', amount: 2 })
    for (const occurredAtMs of [labStartMs, labStartMs - 2 * hourMs])
      expect(await emit(tenant.id, { id: 'committed', amount: 2, occurredAtMs })).toEqual({ kind: 'known' })
    expect(
      await emit(tenant.id, { id: 'emitted', amount: 6, occurredAtMs: labStartMs - 2 * hourMs }),
    ).toEqual({
      kind: 'conflict',
    })
    expect((await check(parts, tenant, 'exports.rows')).limits[0]?.used).toBe(8)
  })

  test('guardrails: a commit with a used id and different content is a conflict, and a commit with a denied id can be repeated', async () => {
    const tenant = await createTenant(rows(10))
    const { parts, clock } = openProcess()
    await commit(parts, tenant, { id: 'one', amount: 4 })
    for (const other of [{ amount: 5 }, { kind: 'x' }])
      expect(await commitGuardrail(parts, tenant, commitOf({ id: 'one', amount: 4, ...other }))).toEqual({
        kind: 'conflict',
      })
    const denied = await commit(parts, tenant, { id: 'two', amount: 7 })
    expect(denied).toMatchObject({ decision: 'deny', reason: 'hard_limit', isCommitted: false })
    expect(denied.isNew).toBeUndefined()
    expect(denied.limits[0]).toMatchObject({ used: 4, resetsAtMs: Date.UTC(2026, 11, 1) })
    clock.nowMs = Date.UTC(2026, 11, 1)
    expect(await commit(parts, tenant, { id: 'two', amount: 7 })).toMatchObject({ isNew: true })
  })

  test('guardrails: an emission counts towards the month of its time, and a month begins at 00:00 UTC', async () => {
    const tenant = await createTenant(rows(10))
    const { parts, clock } = openProcess(Date.UTC(2026, 10, 1) - 1)
    await commit(parts, tenant, { amount: 10 })
    expect((await check(parts, tenant, 'exports.rows')).decision).toBe('deny')
    clock.nowMs += 1
    expect(await commit(parts, tenant, { amount: 3 })).toMatchObject({ limits: [{ used: 3 }] })
    await emit(tenant.id, { amount: 5, occurredAtMs: Date.UTC(2026, 9, 31, 23, 59) })
    await emit(tenant.id, { amount: 6, occurredAtMs: Date.UTC(2026, 10, 1) })
    expect((await check(parts, tenant, 'exports.rows')).limits[0]?.used).toBe(9)
  })

  test('guardrails: an override lifts the limit until it expires or is cleared', async () => {
    const tenant = await createTenant(rows(1))
    const { parts, clock } = openProcess()
    const { limits } = parts
    await commit(parts, tenant)
    const limit = 'exports.rowsPerMonth' as const
    const setting = {
      tenantId: tenant.id,
      limit,
      by: 'ada',
      reason: 'a sale',
      hard: 3,
      expiresAtMs: labStartMs + dayMs,
    }
    const override = async (hard: number | null) => {
      await setLimitOverride(parts, { ...setting, hard })
      await limits.look()
    }
    expect((await check(parts, tenant, 'exports.rows')).decision).toBe('deny')
    await override(3)
    const lifted = await commit(parts, tenant)
    expect(lifted).toMatchObject({ decision: 'allow', limits: [{ hard: 3, override: { reason: 'a sale' } }] })
    expect(stateOf(lifted)).toEqual([[limit, 2, 'overridden']])
    expect(stateOf(await commit(parts, tenant))).toEqual([[limit, 3, 'hard']])
    await override(null)
    expect(stateOf(await commit(parts, tenant, { amount: 7 }))).toEqual([[limit, 10, 'overridden']])
    clock.nowMs += dayMs
    expect(await commit(parts, tenant)).toMatchObject({
      decision: 'deny',
      limits: [{ hard: 1, override: undefined }],
    })
    clock.nowMs -= dayMs
    await clearLimitOverride(parts, setting)
    await limits.look()
    expect((await commit(parts, tenant)).decision).toBe('deny')
  })

  test('guardrails: an override limits a kind without another limit, and every reader lists it', async () => {
    const tenant = await createTenant({})
    const { parts } = openProcess()
    expect(await commit(parts, tenant, { amount: 4 })).toMatchObject({
      decision: 'allow',
      reason: 'no_limit',
    })
    const expiresAtMs = labStartMs + dayMs
    const of = { tenantId: tenant.id, limit: 'exports.rowsPerMonth', by: 'ada', reason: 'abuse' } as const
    await setLimitOverride(parts, { ...of, hard: 4, expiresAtMs })
    await parts.limits.look()
    expect((await commit(parts, tenant)).decision).toBe('deny')
    const { limits } = await readUsage(parts, tenant, { fromMs: 0, toMs: 1 })
    expect(limits.at(-1)).toMatchObject({ limit: 'exports.rowsPerMonth', used: 4, hard: 4, state: 'hard' })
  })

  test('guardrails: a tenant has overrides of at most 50 emitted kinds', async () => {
    const tenant = await createTenant({})
    const { parts } = openProcess()
    const set = (kind: string, hard = 1) =>
      setLimitOverride(parts, {
        tenantId: tenant.id,
        limit: `${kind}PerMonth`,
        hard,
        by: 'ada',
        reason: 'x',
        expiresAtMs: labStartMs + dayMs,
      })
    for (let nth = 1; nth <= 50; nth += 1) expect(await set(`k${nth}`)).toEqual({ kind: 'written' })
    expect(await set('k51')).toMatchObject({ kind: 'refused', problem: expect.stringContaining('50') })
    expect(await set('k50', 2)).toEqual({ kind: 'written' })
    expect(await set('locks')).toEqual({ kind: 'written' })
  })

  test('guardrails: a soft limit is reported once per month, by the commit or the emission that reaches the limit', async () => {
    const tenant = await createTenant(rows(100, 5))
    const { parts, crossings } = openProcess()
    await hundred(() => commit(parts, tenant))
    const limit = 'exports.rowsPerMonth' as const
    const crossing = { tenantId: tenant.id, limit, periodMs: Date.UTC(2026, 10, 1), used: 5, soft: 5 }
    expect(crossings).toEqual([crossing])
    const other = await createTenant({})
    expect(await emit(other.id, { amount: 4, soft: 5 })).toEqual({ kind: 'recorded', crossing: undefined })
    const reached = { ...crossing, tenantId: other.id, used: 6 }
    expect(await emit(other.id, { amount: 2, soft: 5 })).toEqual({ kind: 'recorded', crossing: reached })
    expect(await emit(other.id, { amount: 2, soft: 5 })).toEqual({ kind: 'recorded', crossing: undefined })
    const period = '2026-11-01T00:00:00.000Z'
    expect(await auditOf(other.id, 'usage.soft_limit_crossed')).toEqual([
      { actor: 'user:reporter', detail: { limit, period, used: 6, soft: 5 } },
    ])
    expect(await auditOf(tenant.id, 'usage.soft_limit_crossed')).toMatchObject([{ actor: 'user:biller' }])
  })

  test.each<[string, Partial<GuardrailCommit>, string]>([
    ['without an id', { id: '' }, 'id must'],
    ['with a line break in its id', { id: 'a\nb' }, 'id must'],
    ['of events', { kind: 'events' }, 'check without commit'],
    ['with a malformed kind', { kind: 'Rows' }, 'dotted lowercase'],
  ])('guardrails: a commit %s is refused', async (_case, more, words) => {
    const tenant = await createTenant({})
    const outcome = await commitGuardrail(openProcess().parts, tenant, commitOf(more))
    expect(outcome).toMatchObject({ kind: 'refused', problem: expect.stringContaining(words) })
  })

  test('guardrails: a commit for a deleted tenant is refused', async () => {
    const tenant = { id: randomTenantId(), limits: {}, suspended: false }
    const outcome = await commitGuardrail(openProcess().parts, tenant, commitOf())
    expect(outcome).toEqual({ kind: 'refused', problem: 'There is no such tenant' })
  })
})

const perMinute = (hard: number, soft?: number): Limits => ({
  locksPerMinute: { hard, ...(soft !== undefined && { soft }) },
})

describe.each(durabilities)('locks of records in %s', (durability) => {
  beforeAll(() => useLab(durability))
  afterAll(() => useLab('redis'))

  test('guardrails: 100 concurrent commits of locks with a hard limit of 50 count exactly 50', async () => {
    const tenant = await createTenant(perMinute(50))
    const { parts } = openProcess()
    const answers = await hundred(() => commit(parts, tenant, { kind: 'locks' }))
    expect(countOf(answers)).toBe(50)
    expect(await acquire(tenant.id, 50)).toBe('limited')
    expect(await auditOf(tenant.id, 'usage.committed')).toHaveLength(50)
    await lab.meter.flush()
    const { limits, hours } = await readUsage(parts, tenant, {
      fromMs: labStartMs - dayMs,
      toMs: labStartMs + dayMs,
    })
    expect(hours).toMatchObject([{ kind: 'locks', amount: 50 }])
    expect(limits.find(({ limit }) => limit === 'locksPerMonth')).toMatchObject({ used: 50, state: 'ok' })
  })

  test('guardrails: concurrent commits of locks with one id count once, and repeats keep their decision', async () => {
    const tenant = await createTenant(perMinute(50, 20))
    const { parts } = openProcess()
    const answers = await hundred(() => commit(parts, tenant, { kind: 'locks', id: 'same', amount: 20 }))
    expect(answers.filter(({ isNew }) => isNew === true)).toHaveLength(1)
    for (const answer of answers) expect(answer).toMatchObject({ decision: 'warn', limit: 'locksPerMinute' })
    await commit(parts, tenant, { kind: 'locks', amount: 30 })
    const again = await commit(parts, tenant, { kind: 'locks', id: 'same', amount: 20 })
    expect(again).toMatchObject({ decision: 'warn', reason: 'soft_limit', isNew: false })
    expect(stateOf(again)[0]).toEqual(['locksPerMinute', 50, 'hard'])
    expect(await commitGuardrail(parts, tenant, commitOf({ kind: 'locks', id: 'same', amount: 21 }))).toEqual(
      {
        kind: 'conflict',
      },
    )
  })

  test('guardrails: a repeated commit adds its locks to the hourly usage if the process of the first commit died', async () => {
    const tenant = await createTenant({})
    const { parts } = openProcess()
    const died = lab.createMeter()
    await commit({ ...parts, meter: died }, tenant, { kind: 'locks', id: 'once', amount: 7 })
    await commit(parts, tenant, { kind: 'locks', id: 'once', amount: 7 })
    await lab.meter.flush()
    const span = { fromMs: labStartMs - dayMs, toMs: labStartMs + dayMs }
    expect((await readUsage(parts, tenant, span)).hours).toMatchObject([{ kind: 'locks', amount: 7 }])
  })

  test('guardrails: denied locks are allowed in the next minute, and a month begins at 00:00 UTC', async () => {
    const tenant = await createTenant({ locksPerMinute: { hard: 5 }, locksPerMonth: { hard: 8 } })
    const { parts } = openProcess()
    const endMs = Date.UTC(2026, 11, 1)
    await lab.setClock(tenant.id, endMs - 60_001)
    const five = { kind: 'locks', amount: 5, id: 'five' }
    expect((await commit(parts, tenant, { kind: 'locks', amount: 5 })).decision).toBe('allow')
    const denied = await commit(parts, tenant, five)
    expect(denied).toMatchObject({ decision: 'deny', limit: 'locksPerMinute' })
    expect(denied.limits[0]?.resetsAtMs).toBe(endMs - 60_000)
    await lab.setClock(tenant.id, endMs - 60_000)
    expect(await commit(parts, tenant, five)).toMatchObject({ decision: 'deny', limit: 'locksPerMonth' })
    await lab.setClock(tenant.id, endMs)
    expect(await commit(parts, tenant, five)).toMatchObject({ decision: 'allow', isNew: true })
  })

  test('guardrails: the ids of committed locks count as record bytes for a day, and a commit is denied if no bytes are left', async () => {
    const [hard, least, most] = durability === 'redis' ? [500, 184, 240] : [800, 320, 400]
    const tenant = await createTenant({ recordBytes: { hard } })
    const { parts } = openProcess()
    const bytesOf = async () => (await check(parts, tenant, 'locks')).limits[2]?.used ?? 0
    const first = await commit(parts, tenant, { kind: 'locks', id: 'a' })
    expect(first.limits[2]?.used).toBeWithin(least, most)
    await commit(parts, tenant, { kind: 'locks', id: 'b' })
    const full = await commit(parts, tenant, { kind: 'locks', id: 'c' })
    expect(full).toMatchObject({ decision: 'deny', limit: 'recordBytes', isCommitted: false })
    expect(await bytesOf()).toBe(2 * (first.limits[2]?.used ?? 0))
    await lab.setClock(tenant.id, labStartMs + 25 * hourMs)
    expect(await commit(parts, tenant, { kind: 'locks', id: 'c' })).toMatchObject({ isNew: true })
    expect(await bytesOf()).toBe(first.limits[2]?.used ?? 0)
  })
})

describe('locks of records in Redis', () => {
  test('guardrails: concurrent commits and acquisitions of locks together count exactly the hard limit', async () => {
    const tenant = await createTenant(perMinute(50))
    const { parts } = openProcess()
    const answers = await hundred(async (nth) =>
      nth % 2 === 0
        ? (await commit(parts, tenant, { kind: 'locks' })).isCommitted
        : (await acquire(tenant.id, 50)) === 'locked',
    )
    expect(answers.filter(Boolean)).toHaveLength(50)
    expect((await check(parts, tenant, 'locks')).limits[1]?.used).toBe(50)
  })

  test('guardrails: a commit of locks whose reply was lost gets exactly one audit entry, written by the repeated commit', async () => {
    const tenant = await createTenant({})
    const { parts } = openProcess()
    const locks = { kind: 'locks', id: 'lost', amount: 3 }
    // Creates the meter first, since the call whose reply is lost must count.
    await commit(parts, tenant, { kind: 'locks' })
    const losing: RedisConnection = {
      ...lab.redis,
      async evaluate(...call) {
        await lab.redis.evaluate(...call)
        throw new RedisUnavailable('timeout')
      },
    }
    await expect(commit({ ...parts, redis: losing }, tenant, locks)).rejects.toBeInstanceOf(RedisUnavailable)
    const entries = async () =>
      (await auditOf(tenant.id, 'usage.committed')).filter(({ detail }) => detail['id'] === 'lost')
    expect(await entries()).toEqual([])
    const repeats = await Promise.all([1, 2, 3].map(() => commit(openProcess().parts, tenant, locks)))
    for (const repeat of repeats) expect(repeat).toMatchObject({ isCommitted: true, isNew: false })
    const [first, ...others] = await entries()
    expect(first).toMatchObject({
      actor: 'user:biller',
      detail: { kind: 'locks', amount: 3, decision: 'allow' },
    })
    expect(others).toEqual([])
    await lab.setClock(tenant.id, labStartMs + 25 * hourMs)
    await lab.raw.del(`{${tenant.id}}:commit:lost`)
    expect(await commit(parts, tenant, locks)).toMatchObject({ isNew: true })
    expect(await entries()).toHaveLength(2)
  })

  test('guardrails: without Redis, checks and commits of locks fail as unavailable and nothing is audited', async () => {
    const tenant = await createTenant({})
    const { parts } = openProcess()
    const away = openRedis({ url: 'redis://127.0.0.1:1', onError: () => undefined })
    try {
      const broken = { ...parts, redis: away }
      await expect(check(broken, tenant, 'locks')).rejects.toBeInstanceOf(RedisUnavailable)
      await expect(commit(broken, tenant, { kind: 'locks' })).rejects.toBeInstanceOf(RedisUnavailable)
      expect((await commit(broken, tenant)).decision).toBe('allow')
      expect((await auditOf(tenant.id, 'usage.committed')).map(({ detail }) => detail['kind'])).toEqual([
        'exports.rows',
      ])
    } finally {
      await away.close()
    }
  })

  test('guardrails: a commit whose marker an earlier build wrote, without a time, is recognized as a repeat', async () => {
    const tenant = await createTenant({})
    const { parts } = openProcess()
    await commit(parts, tenant, { kind: 'locks' })
    await lab.raw.set(`{${tenant.id}}:commit:old`, '400 allow -')
    const old = { kind: 'locks', id: 'old', amount: 400 }
    expect(await commit(parts, tenant, old)).toMatchObject({ decision: 'allow', isNew: false })
    const other = await commitGuardrail(parts, tenant, commitOf({ ...old, amount: 401 }))
    expect(other).toEqual({ kind: 'conflict' })
  })
})

describe('locks of records in Postgres', () => {
  beforeAll(() => useLab('postgres'))
  afterAll(() => useLab('redis'))

  test('guardrails: without Redis, locks are checked, committed once per id and audited', async () => {
    const tenant = await createTenant(perMinute(5))
    const away = openRedis({ url: 'redis://127.0.0.1:1', onError: () => undefined })
    try {
      const parts = { ...openProcess().parts, redis: away }
      const once = { kind: 'locks', id: 'once', amount: 3 }
      expect(await commit(parts, tenant, once)).toMatchObject({ decision: 'allow', isNew: true })
      expect(await commit(parts, tenant, once)).toMatchObject({ decision: 'allow', isNew: false })
      expect(stateOf(await check(parts, tenant, 'locks'))).toMatchObject([
        ['locksPerMinute', 3, 'ok'],
        ['locksPerMonth', 3, 'ok'],
        ['recordBytes', expect.any(Number), 'ok'],
      ])
      expect(await commit(parts, tenant, { kind: 'locks', amount: 3 })).toMatchObject({ decision: 'deny' })
      await expect(check(parts, tenant, 'events')).rejects.toBeInstanceOf(RedisUnavailable)
      expect(await auditOf(tenant.id, 'usage.committed')).toHaveLength(1)
    } finally {
      await away.close()
    }
  })

  test('guardrails: commits of two processes count together with acquisitions', async () => {
    const tenant = await createTenant(perMinute(50))
    for (let nth = 0; nth < 10; nth += 1) expect(await acquire(tenant.id, 50)).toBe('locked')
    const processes = [openProcess(), openProcess()]
    const answers = await hundred((nth) =>
      commit((processes[nth % 2] ?? openProcess()).parts, tenant, { kind: 'locks' }),
    )
    expect(countOf(answers)).toBe(40)
    expect(Math.max(...answers.map(({ limits }) => limits[0]?.used ?? 0))).toBe(50)
    expect(await acquire(tenant.id, 50)).toBe('limited')
  })

  test('guardrails: the bytes that a commit counts are the bytes on which its decision is based', async () => {
    const tenant = await createTenant({})
    const { parts } = openProcess()
    const first = await commit(parts, tenant, { kind: 'locks', id: 'ü', amount: 12_345 })
    const bytes = first.limits[2]?.used ?? 0
    const limited = { ...tenant, limits: { recordBytes: { hard: 2 * bytes - 1 } } }
    expect(await commit(parts, limited, { kind: 'locks', id: 'ö' })).toMatchObject({ limit: 'recordBytes' })
    const room = { ...tenant, limits: { recordBytes: { hard: 2 * bytes } } }
    expect(await commit(parts, room, { kind: 'locks', id: 'ö' })).toMatchObject({ isNew: true })
  })
})

describe('locks of a tenant that moves', () => {
  beforeAll(() => useLab('postgres'))
  afterAll(() => useLab('redis'))

  const moveTo = (id: TenantId, store: RecordDurability) =>
    lab.pool.query(
      `UPDATE tenants SET record_store = $2, record_store_before = record_store,
         record_store_generation = record_store_generation + 1 WHERE id = $1`,
      [id, store],
    )

  test.each([
    ['redis', 'postgres'],
    ['postgres', 'redis'],
  ] as const)(
    'guardrails: an id that was committed in %s is known after a move to %s, and new ids count in the new store',
    async (before, after) => {
      const tenant = await createTenant({ locksPerMonth: { hard: 10 } })
      const { parts } = openProcess()
      if (before === 'redis')
        await lab.pool.query("UPDATE tenants SET record_store = 'redis' WHERE id = $1", [tenant.id])
      const early = { kind: 'locks', id: 'early', amount: 4 }
      await commit(parts, tenant, early)
      await lab.meter.flush()
      await moveTo(tenant.id, after)
      expect(await commit(parts, tenant, early)).toMatchObject({ isNew: false, decision: 'allow' })
      expect(await commitGuardrail(parts, tenant, commitOf({ ...early, amount: 5 }))).toEqual({
        kind: 'conflict',
      })
      expect(await commit(parts, tenant, { kind: 'locks', amount: 6 })).toMatchObject({ isNew: true })
      expect(await commit(parts, tenant, { kind: 'locks' })).toMatchObject({
        decision: 'deny',
        limit: 'locksPerMonth',
      })
      expect(stateOf(await check(parts, tenant, 'locks'))[1]).toEqual(['locksPerMonth', 10, 'hard'])
      expect(await auditOf(tenant.id, 'usage.committed')).toHaveLength(2)
    },
  )

  test('guardrails: the monthly usage of a tenant that moved to Postgres and back includes the counts of both stores', async () => {
    const tenant = await createTenant({ locksPerMonth: { hard: 10 } })
    const { parts } = openProcess()
    await lab.pool.query("UPDATE tenants SET record_store = 'redis' WHERE id = $1", [tenant.id])
    await commit(parts, tenant, { kind: 'locks', amount: 4 })
    await lab.meter.flush()
    await moveTo(tenant.id, 'postgres')
    await commit(parts, tenant, { kind: 'locks', amount: 3 })
    await moveTo(tenant.id, 'redis')
    expect(stateOf(await check(parts, tenant, 'locks'))[1]).toEqual(['locksPerMonth', 7, 'ok'])
    expect(await commit(parts, tenant, { kind: 'locks', amount: 4 })).toMatchObject({ decision: 'deny' })
    expect(await commit(parts, tenant, { kind: 'locks', amount: 3 })).toMatchObject({ isNew: true })
    expect(stateOf(await check(parts, tenant, 'locks'))[1]).toEqual(['locksPerMonth', 10, 'hard'])
  })
})

test.each([
  ['exports.rows', 'redis'],
  ['locks', 'redis'],
  ['locks', 'postgres'],
] as const)(
  'guardrails: %s of a suspended tenant with records in %s are denied and not counted, except repeated commits',
  async (kind, durability) => {
    useLab(durability)
    const tenant = await createTenant({ ...rows(10), locksPerMinute: { hard: 10 } })
    const { parts } = openProcess()
    const suspended = { ...tenant, suspended: true }
    await commit(parts, tenant, { kind, id: 'before', amount: 2 })
    const denied = { decision: 'deny', reason: 'tenant_suspended', limit: null, isCommitted: false }
    expect(await check(parts, suspended, kind)).toMatchObject({ ...denied, limits: expect.anything() })
    const refused = await commit(parts, suspended, { kind, id: 'new' })
    expect(refused).toMatchObject(denied)
    expect(refused.isNew).toBeUndefined()
    expect(await commit(parts, suspended, { kind, id: 'before', amount: 2 })).toMatchObject({
      decision: 'allow',
      reason: 'within_limits',
      isCommitted: true,
      isNew: false,
    })
    const { limits } = await check(parts, tenant, kind)
    expect(limits.find(({ limit }) => limit.endsWith('PerMonth'))?.used).toBe(2)
    expect(await commit(parts, tenant, { kind, id: 'new' })).toMatchObject({ isNew: true })
  },
)

test('guardrails: a check of events of a suspended tenant is denied', async () => {
  useLab('redis')
  const tenant = { ...(await createTenant({})), suspended: true }
  expect(await check(openProcess().parts, tenant, 'events')).toMatchObject({
    decision: 'deny',
    reason: 'tenant_suspended',
    limit: null,
  })
})

test.each<['accept' | 'refuse', string]>([
  ['refuse', 'deny'],
  ['accept', 'warn'],
])(
  'guardrails: with `over: %s`, a check of events over the monthly limit returns %s',
  async (over, decision) => {
    const tenant = await createTenant({ eventsPerMonth: { hard: 3, over } })
    const { parts } = openProcess()
    lab.meter.events.countStored([1, 2, 3].map(() => ({ tenantId: tenant.id, receivedAtMs: labStartMs })))
    expect(await check(parts, tenant, 'events', 3)).toMatchObject({ decision: 'allow' })
    await lab.meter.events.refresh()
    const answer = await check(parts, tenant, 'events')
    expect(answer).toMatchObject({
      decision,
      reason: 'hard_limit',
      limit: 'eventsPerMonth',
      isCommitted: false,
    })
  },
)
