import { afterAll, beforeAll, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { TenantId } from '#internal/base/index.ts'
import { type RecordDurability, recordDurabilities } from '#internal/tenants/index.ts'
import { isNightly } from '#test/support/nightly.ts'
import {
  type CountedEntry,
  expireEntry,
  type LabMeter,
  labStartMs,
  openRecordLab,
  type RecordLab,
  readCounted,
  readMeter,
} from '#test/support/records/record-lab.ts'
import { testSeed } from '#test/support/seed.ts'
import type { AcquireOutcome, FetchOutcome } from './record.ts'

const labs = {} as Record<RecordDurability, RecordLab>
beforeAll(async () => {
  for (const durability of recordDurabilities) labs[durability] = await openRecordLab({ durability })
}, 30_000)
afterAll(() => Promise.all(recordDurabilities.map((durability) => labs[durability].close())))

type Step =
  | {
      readonly do: 'acquire'
      readonly key: string
      readonly lockMs: number
      readonly attemptId: string
      readonly fingerprint: string
      readonly isFull: boolean
    }
  | { readonly do: 'repeat' | 'release' | 'extend'; readonly key: string; readonly nth: number }
  | { readonly do: 'save'; readonly key: string; readonly nth: number | null; readonly body: string }
  | { readonly do: 'remove' | 'fetch' | 'expire'; readonly key: string }
  | { readonly do: 'move'; readonly byMs: number }

/** Fields of an acquisition. `isFull`: the tenant's bytes exceed their limit. */
interface Asked {
  readonly token: string
  readonly lockMs: number
  readonly attemptId: string
  readonly fingerprint: string
  readonly isFull: boolean
}

interface Lock {
  readonly kind: 'lock'
  readonly expiresAtMs: number
  readonly untilMs: number
  /** Empty if the lock was released after a takeover. */
  readonly token: string
  readonly fence: number
  readonly lockMs: number
  readonly takenOver: boolean
  readonly attemptId: string
  readonly fingerprint: string
}
interface Saved {
  readonly kind: 'record'
  readonly expiresAtMs: number
  readonly token: string
  readonly fingerprint: string
  readonly record: string
}

const ttlMs = 3_600_000
const tombstoneMs = 86_400_000
const locksPerMinute = 6
/** Lower than any count of bytes, which is 0 if the bytes of a live entry were swept. */
const alwaysExceeded = -1_000_000

/** Differences between the stores. */
interface Traits {
  /** False if the store expires entries by a clock of its own: the model then removes an entry only on request. */
  readonly expires: boolean
  /** Distance of fences that are granted one after another while the clock stands. */
  readonly fenceStep: number
  /** Returns the length of the fields that a re-entry can change, as bytes count it. */
  countedLength(lock: Pick<Lock, 'lockMs' | 'attemptId' | 'fingerprint'>): number
}

const traits: Readonly<Record<RecordDurability, Traits>> = {
  redis: {
    expires: false,
    fenceStep: 1,
    countedLength: ({ lockMs, attemptId, fingerprint }) => `${lockMs}${attemptId}${fingerprint}`.length,
  },
  postgres: {
    expires: true,
    fenceStep: 16,
    countedLength: ({ attemptId, fingerprint }) => `${attemptId}${fingerprint}`.length,
  },
}

/** Reference model of a store. */
class Model {
  readonly #entries = new Map<string, Lock | Saved>()
  readonly #traits: Traits
  nowMs = labStartMs
  /** Last fence of the store after the call that the model repeats. */
  storeFence = 0
  #fence = 0
  /** Current minute of the meters; undefined until the first call has seeded the meters. */
  #minute: number | undefined
  #locks = 0

  constructor(ofStore: Traits) {
    this.#traits = ofStore
  }

  #find(key: string): Lock | Saved | undefined {
    const entry = this.#entries.get(key)
    return entry && entry.expiresAtMs > this.nowMs ? entry : undefined
  }

  #expiry(lifeMs: number): number {
    return this.#traits.expires ? this.nowMs + lifeMs : Number.POSITIVE_INFINITY
  }

  expire(key: string): void {
    this.#entries.delete(key)
  }

  /** Window of the locks of a minute. */
  get window() {
    return { minute: this.#minute, locks: this.#locks }
  }

  set window({ minute, locks }: { minute: number | undefined; locks: number }) {
    this.#minute = minute
    this.#locks = locks
  }

  acquire(key: string, asked: Asked): AcquireOutcome {
    const entry = this.#find(key)
    this.#seed()
    if (entry?.kind !== 'record') this.#turnMinute()
    if (
      entry &&
      entry.fingerprint !== '' &&
      asked.fingerprint !== '' &&
      entry.fingerprint !== asked.fingerprint
    ) {
      return { kind: 'mismatch' }
    }
    if (entry?.kind === 'record') return { kind: 'hit', record: entry.record }
    const fingerprint = asked.fingerprint === '' ? (entry?.fingerprint ?? '') : asked.fingerprint
    const lock = {
      kind: 'lock',
      untilMs: this.nowMs + asked.lockMs,
      lockMs: asked.lockMs,
      attemptId: asked.attemptId,
      fingerprint,
      expiresAtMs: this.#expiry(asked.lockMs + tombstoneMs),
    } as const
    const own =
      entry?.token === asked.token || (asked.attemptId !== '' && entry?.attemptId === asked.attemptId)
    if (entry && own && entry.token !== '') {
      const { token, fence, takenOver } = entry
      const { countedLength } = this.#traits
      const keepsTexts = asked.isFull && countedLength(lock) > countedLength(entry)
      const kept = keepsTexts && { attemptId: entry.attemptId, fingerprint: entry.fingerprint }
      return this.#hold(key, { ...lock, ...kept, token, fence, takenOver })
    }
    if (entry && entry.token !== '' && entry.untilMs > this.nowMs) {
      return { kind: 'busy', remainingMs: entry.untilMs - this.nowMs }
    }
    if (this.#locks >= locksPerMinute) return this.#limited('locksPerMinute')
    if (asked.isFull) return this.#limited('recordBytes')
    return this.#hold(key, {
      ...lock,
      token: asked.token,
      fence: this.#count(),
      takenOver: entry !== undefined,
    })
  }

  save(key: string, token: string, record: string): 'saved' | 'exists' | 'lost' {
    const entry = this.#find(key)
    this.#seed()
    if (entry?.kind !== 'record') this.#turnMinute()
    if (token !== '' && token !== entry?.token) return 'lost'
    if (entry?.kind === 'record') return entry.record === record ? 'saved' : 'exists'
    if (!entry || entry.token === '') this.#count()
    this.#entries.set(key, {
      kind: 'record',
      expiresAtMs: this.#expiry(ttlMs),
      token: entry?.token ?? '',
      fingerprint: entry?.fingerprint ?? '',
      record,
    })
    return 'saved'
  }

  remove(key: string, token: string): boolean {
    this.#seed()
    this.#turnMinute()
    const entry = this.#find(key)
    if (!entry || (entry.kind === 'record') !== (token === '')) return false
    if (entry.kind === 'lock' && entry.token !== token) return false
    if (entry.kind === 'lock' && entry.takenOver) {
      const expiresAtMs = this.#expiry(tombstoneMs)
      this.#entries.set(key, { ...entry, token: '', attemptId: '', untilMs: 0, expiresAtMs })
    } else this.#entries.delete(key)
    return true
  }

  extend(key: string, token: string): { fence: number; expiresInMs: number } | undefined {
    this.#seed()
    this.#turnMinute()
    const entry = this.#find(key)
    if (entry?.kind !== 'lock' || entry.token !== token) return undefined
    const expiresAtMs = this.#expiry(entry.lockMs + tombstoneMs)
    this.#entries.set(key, { ...entry, untilMs: this.nowMs + entry.lockMs, expiresAtMs })
    return { fence: entry.fence, expiresInMs: entry.lockMs }
  }

  fetch(key: string): FetchOutcome {
    this.#seed()
    const entry = this.#find(key)
    return entry?.kind === 'record' ? { kind: 'hit', record: entry.record } : { kind: 'none' }
  }

  #limited(limit: 'locksPerMinute' | 'recordBytes'): AcquireOutcome {
    return { kind: 'limited', limit, retryAfterMs: ((this.#minute ?? 0) + 1) * 60_000 - this.nowMs }
  }

  #hold(key: string, lock: Lock): AcquireOutcome {
    this.#entries.set(key, lock)
    const { token: lockToken, fence, takenOver, lockMs: expiresInMs } = lock
    return { kind: 'locked', lockToken, fence, expiresInMs, takenOver }
  }

  /** The first call of a tenant, of any kind, creates meters for the current minute. */
  #seed(): void {
    this.#minute ??= Math.floor(this.nowMs / 60_000)
  }

  /** Reading the meters advances their window; a replay does not read the meters. */
  #turnMinute(): void {
    const minute = Math.floor(this.nowMs / 60_000)
    if (this.#minute === undefined || minute <= this.#minute) return
    this.#minute = minute
    this.#locks = 0
  }

  #count(): number {
    this.#locks += 1
    const least = Math.max(this.#fence + 1, this.nowMs * 1000)
    expect(this.storeFence).toBeWithin(least, least + this.#traits.fenceStep)
    this.#fence = this.storeFence
    return this.#fence
  }
}

/** Runs one step on a store and in its model. Uses tokens that earlier steps returned, so that late holders occur. */
class Pair {
  readonly #lab: RecordLab
  readonly #model: Model
  readonly #tokens: string[] = []
  /** Entries that have gone without a call that returned their bytes. */
  readonly #expired: CountedEntry[] = []
  readonly #tenantId: TenantId
  #present: CountedEntry[] = []

  constructor(lab: RecordLab, tenantId: TenantId) {
    this.#lab = lab
    this.#model = new Model(traits[lab.durability])
    this.#tenantId = tenantId
  }

  async take(step: Step): Promise<void> {
    const before = this.#model.window
    await this.#take(step)
    const meter = await readMeter(this.#lab, this.#tenantId)
    if (this.#lab.durability === 'postgres') this.#followWindow(meter, before)
    await this.#checkBytes(meter)
  }

  /** Not every call moves the window in Postgres: a replay does not, and the first hit of a key does. */
  #followWindow({ minute }: LabMeter, before: Model['window']): void {
    if (minute === (this.#model.window.minute ?? 0)) return
    this.#model.window = minute === (before.minute ?? 0) ? before : { minute, locks: 0 }
  }

  /** The meter counts each existing entry, and expired entries until their minute or hour ends. */
  async #checkBytes({ bytes, sweptMinute }: LabMeter): Promise<void> {
    const present = (await Promise.all(keys.map((key) => readCounted(this.#lab, this.#address(key))))).flat()
    const ids = new Set(present.map(({ id }) => id))
    this.#expired.push(
      ...this.#present.filter((one) => one.expiresAtMs <= this.#model.nowMs && !ids.has(one.id)),
    )
    this.#present = present
    const expected = [...this.#expired, ...present]
      .filter(({ returnedMinute }) => returnedMinute > sweptMinute)
      .reduce((sum, each) => sum + each.bytes, 0)
    expect(bytes).toBe(expected)
  }

  async #take(step: Step): Promise<void> {
    switch (step.do) {
      case 'move':
        this.#model.nowMs += step.byMs
        return this.#lab.setClock(this.#tenantId, this.#model.nowMs)
      case 'expire':
        return this.#expire(step.key)
      case 'acquire':
        this.#tokens.push(`t${this.#tokens.length}`)
        return this.#acquire(step.key, { ...step, token: this.#tokens.at(-1) ?? '' })
      case 'repeat':
        return this.#acquire(step.key, {
          token: this.#token(step.nth),
          lockMs: 20_000,
          attemptId: step.nth < 2 ? 'x' : '',
          fingerprint: step.nth < 2 ? 'f' : '',
          isFull: step.nth === 0,
        })
      case 'save':
        return this.#save(step)
      case 'remove':
      case 'release': {
        const token = step.do === 'release' ? this.#token(step.nth) : ''
        const existed = await this.#lab.store.remove(this.#address(step.key), token)
        return expect(existed).toBe(this.#model.remove(step.key, token))
      }
      case 'extend': {
        const outcome = await this.#lab.store.extend(this.#address(step.key), this.#token(step.nth), null)
        const expected = this.#model.extend(step.key, this.#token(step.nth))
        return expect(outcome).toEqual(expected ? { kind: 'extended', ...expected } : { kind: 'lost' })
      }
      case 'fetch':
        return expect(await this.#lab.store.fetch(this.#address(step.key))).toEqual(
          this.#model.fetch(step.key),
        )
    }
  }

  async #acquire(key: string, asked: Asked) {
    const { token: lockToken, lockMs, attemptId, fingerprint, isFull } = asked
    const limits = { locksPerMinute, locksPerMonth: null, recordBytes: isFull ? alwaysExceeded : null }
    const input = {
      ...this.#address(key),
      ttlMs,
      lockMs,
      lockToken,
      attemptId,
      fingerprint,
      waits: false,
      limits,
    }
    const outcome = await this.#lab.store.acquire(input)
    await this.#followFence()
    expect(outcome).toEqual(this.#model.acquire(key, asked))
  }

  /** The last digits of a fence in Postgres are the stripe, which the model does not know. */
  async #followFence(): Promise<void> {
    const { fence } = await readMeter(this.#lab, this.#tenantId)
    this.#model.storeFence = fence
  }

  async #save(step: Extract<Step, { do: 'save' }>) {
    const lockToken = step.nth === null ? '' : this.#token(step.nth)
    const record = `{"status":200,"headers":{},"body":${step.body}}`
    const input = { ...this.#address(step.key), lockToken, record, ttlMs: null, defaultTtlMs: ttlMs }
    const { kind } = await this.#lab.store.save(input)
    await this.#followFence()
    expect(kind).toBe(this.#model.save(step.key, lockToken, record))
  }

  async #expire(key: string): Promise<void> {
    this.#model.expire(key)
    const address = this.#address(key)
    const gone = await readCounted(this.#lab, address)
    this.#expired.push(...gone)
    this.#present = this.#present.filter((one) => !gone.some(({ id }) => id === one.id))
    await expireEntry(this.#lab, address)
  }

  #address(key: string) {
    return { tenantId: this.#tenantId, scope: 's', key }
  }

  /** Returns the n-th latest token, or an unused token if no token was returned yet. */
  #token(nth: number): string {
    return this.#tokens.at(-1 - (nth % Math.max(1, this.#tokens.length))) ?? 'nobody'
  }
}

const keys = ['a', 'b']
const key = fc.constantFrom(...keys)
const nth = fc.integer({ min: 0, max: 3 })
const withToken = (name: 'repeat' | 'release' | 'extend') => fc.record({ do: fc.constant(name), key, nth })
const plain = (name: 'remove' | 'fetch' | 'expire') => fc.record({ do: fc.constant(name), key })
const acquire = fc.record({
  do: fc.constant('acquire' as const),
  key,
  lockMs: fc.constantFrom(5000, 20_000),
  attemptId: fc.constantFrom('', '', 'x', 'y'),
  fingerprint: fc.constantFrom('', 'f', 'f', 'g'),
  isFull: fc.constantFrom(false, false, true),
})
const save = fc.record({
  do: fc.constant('save' as const),
  key,
  nth: fc.option(nth, { nil: null, freq: 4 }),
  body: fc.constantFrom('1', '2'),
})
const move = fc.record({
  do: fc.constant('move' as const),
  byMs: fc.oneof(
    fc.integer({ min: 1, max: 25_000 }),
    fc.integer({ min: -40_000, max: -1 }),
    fc.constant(90_000),
    fc.constant(3_600_000),
    fc.constant(90_000_000),
  ),
})
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: acquire },
  { weight: 4, arbitrary: save },
  { weight: 4, arbitrary: move },
  { weight: 2, arbitrary: withToken('repeat') },
  { weight: 2, arbitrary: withToken('release') },
  { weight: 2, arbitrary: withToken('extend') },
  { weight: 2, arbitrary: plain('remove') },
  { weight: 1, arbitrary: plain('fetch') },
  { weight: 1, arbitrary: plain('expire') },
)

test.each(recordDurabilities)(
  'records: any sequence of calls and clock jumps has the same results as the model, step by step, in %s',
  async (durability) => {
    const lab = labs[durability]
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 80, size: 'max' }), async (steps) => {
        const pair = new Pair(lab, await lab.createTenant())
        for (const one of steps) await pair.take(one)
      }),
      { numRuns: (durability === 'redis' ? 20 : 7) * (isNightly ? 3 : 1), seed: testSeed() },
    )
  },
  60_000,
)
