import { Shares, type TenantId, within } from '#internal/base/index.ts'
import { type RedisConnection, type RedisScript, RedisUnavailable } from '#internal/storage/index.ts'
import { type LockLimitName, type LockLimits, type Meter, meterKeys } from '#internal/usage/index.ts'
import { type NoteLock, noteExtended, noteLocked, noteRemoved, noteSaved } from './lock-history.ts'
import type {
  AcquireOutcome,
  ExtendOutcome,
  FetchOutcome,
  Lifetimes,
  RecordAddress,
  SaveOutcome,
} from './record.ts'
import { defineRecordScripts, longRecordBytes, type RecordScripts } from './scripts.ts'

/** Input of an acquisition. */
export interface AcquireInput extends RecordAddress, Lifetimes {
  /** A fresh token; the lock's own if it is taken. */
  readonly lockToken: string
  /** Empty for none. */
  readonly fingerprint: string
  /** Empty for none. */
  readonly attemptId: string
  /** The caller waits for a busy key, so the end of its lock must be published. */
  readonly waits: boolean
  readonly limits: LockLimits
  /** Answer for a long record: its bytes (`sized`), or the record (`whole`) with the caller's room in `answers`. Default: with own room. */
  readonly long?: 'sized' | 'whole'
}

/** Input of a save. */
export interface SaveInput extends RecordAddress {
  /** Empty for none. */
  readonly lockToken: string
  /** Null: as the lock's holder requested. */
  readonly ttlMs: number | null
  /** For a save without a lock. */
  readonly defaultTtlMs: number
  /** Made by `joinRecord`. */
  readonly record: string
}

/** Options of `RecordStore`. */
export interface RecordStoreOptions {
  /** Replaced in tests only. */
  readonly scripts?: RecordScripts
  /** Default: no notes. */
  readonly note?: NoteLock
}

/** Deadline of a call with seeding and the second run of its script. */
const callMsMax = 900
/** Maximum concurrent calls per process, a quarter per tenant; fewer than the connection's, to leave room for other callers. */
const callsMax = 8000
/** Maximum bytes of long records in replies of Redis and in answers of batches, a quarter per tenant. */
const longBytesMax = 64 * 1024 * 1024

type Reply = readonly unknown[]

/** One run of a script. */
interface Step {
  readonly script: RedisScript
  readonly address: RecordAddress
  readonly entry: string
  readonly args: readonly string[]
  /** Index of the argument that requests a long record; undefined if its bytes suffice. */
  readonly wholeAt?: number | undefined
}

/** Remembered keys of saved records, about 200 bytes each. */
const savedKeysMax = 10_000
/** At most `longRecordBytes` in UTF-8. */
const shortRecordChars = longRecordBytes / 4

const acquireWholeAt = 4
const fetchWholeAt = 0

/**
 * Records and locks in Redis: one script and one round trip per call, except for missing meters and long records. Every call throws
 * RedisUnavailable within a second without a reply, and `overloaded` at once above the maximum of concurrent calls.
 */
export class RecordStore {
  /** Room for long records in bytes, shared by tenants. */
  readonly answers = new Shares(longBytesMax)
  readonly #redis: RedisConnection
  readonly #meter: Meter
  readonly #scripts: RecordScripts
  readonly #note: NoteLock
  readonly #calls = new Shares(callsMax)
  readonly #saved = new RecentKeys(savedKeysMax)

  constructor(redis: RedisConnection, meter: Meter, options: RecordStoreOptions = {}) {
    this.#redis = redis
    this.#meter = meter
    this.#scripts = options.scripts ?? defineRecordScripts()
    this.#note = options.note ?? (() => undefined)
  }

  /** Returns the record or takes the lock. Repeating it with the same `lockToken` takes one lock. */
  acquire(input: AcquireInput): Promise<AcquireOutcome> {
    const entry = entryKey(input)
    return this.#saved.has(entry) ? this.#replay(input, entry) : this.#checkOrLock(input, entry)
  }

  /**
   * Reads the entry of a key whose short record was seen before, at a fraction of the script's cost and as consistently. Anything but
   * a short record is left to the script.
   */
  #replay(input: AcquireInput, key: string): Promise<AcquireOutcome> {
    const { tenantId, fingerprint } = input
    if (!this.#calls.take(1, tenantId)) return Promise.reject(new RedisUnavailable('overloaded'))
    const startedMs = performance.now()
    return this.#redis.read([key, meterKeys(tenantId).meta]).then(
      ([entry, meta]) => {
        this.#calls.give(1, tenantId)
        if (entry?.startsWith('R') && entry.length <= longRecordBytes && meta !== null) {
          const asked = fingerprint === '' ? '' : fingerprintOf(entry)
          return asked !== '' && asked !== fingerprint
            ? { kind: 'mismatch' }
            : { kind: 'hit', record: recordOf(entry) }
        }
        this.#saved.delete(key)
        return within(startedMs + callMsMax - performance.now(), this.#checkOrLock(input, key), timedOut)
      },
      (error: unknown) => {
        this.#calls.give(1, tenantId)
        throw error
      },
    )
  }

  #checkOrLock(input: AcquireInput, entry: string): Promise<AcquireOutcome> {
    const args = acquireArgs(input)
    const step: Step = {
      script: this.#scripts.acquire,
      address: input,
      entry,
      args: input.long === 'whole' ? askWhole(args, acquireWholeAt) : args,
      wholeAt: input.long === undefined ? acquireWholeAt : undefined,
    }
    return this.#run(step, (reply) => {
      const outcome = parseAcquired(reply)
      if (outcome.kind === 'locked') {
        this.#meter.markUsed(input.tenantId)
        noteLocked(this.#note, input, outcome, reply)
      }
      if (outcome.kind === 'hit' && outcome.record.length < shortRecordChars) this.#saved.add(entry)
      return outcome
    })
  }

  /** Saves a record. Repeating the same call returns `saved` again. */
  save(input: SaveInput): Promise<SaveOutcome> {
    const { save: script } = this.#scripts
    const args = [
      input.lockToken,
      input.ttlMs === null ? '' : String(input.ttlMs),
      String(input.defaultTtlMs),
      input.record,
    ]
    return this.#run({ script, address: input, entry: entryKey(input), args }, (reply) => {
      const [kind] = reply
      this.#meter.markUsed(input.tenantId)
      if (kind === 'saved') noteSaved(this.#note, input, input.record, reply)
      if (kind === 'saved' || kind === 'exists' || kind === 'lost') return { kind }
      throw new Error('the save script returned an unknown reply')
    })
  }

  /** Reads a record; a lock is none. */
  fetch(address: RecordAddress): Promise<FetchOutcome> {
    const entry = entryKey(address)
    const step: Step = { script: this.#scripts.fetch, address, entry, args: [], wholeAt: fetchWholeAt }
    return this.#run(step, ([kind, first]): FetchOutcome => {
      if (kind === 'hit') return { kind, record: recordOf(String(first)) }
      return kind === 'long' ? { kind, bytes: Number(first) } : { kind: 'none' }
    })
  }

  /** Removes the record, or releases the lock of `lockToken`; false if there was none. */
  remove(address: RecordAddress, lockToken: string): Promise<boolean> {
    const entry = entryKey(address)
    const step: Step = { script: this.#scripts.remove, address, entry, args: [lockToken] }
    return this.#run(step, (reply) => {
      noteRemoved(this.#note, address, reply)
      return reply[1] === 1
    })
  }

  /** Holds a lock for `lockMs` from now, or for its first duration. */
  extend(address: RecordAddress, lockToken: string, lockMs: number | null): Promise<ExtendOutcome> {
    const args = [lockToken, lockMs === null ? '' : String(lockMs)]
    return this.#run({ script: this.#scripts.extend, address, entry: entryKey(address), args }, (reply) => {
      const [kind, fence, expiresInMs] = reply
      if (kind === 'lost') return { kind }
      noteExtended(this.#note, address, reply)
      return { kind: 'extended', fence: Number(fence), expiresInMs: Number(expiresInMs) }
    })
  }

  /** Not async and with one promise: on the path of every request. */
  #run<T>(step: Step, parse: (reply: Reply) => T): Promise<T> {
    const { tenantId } = step.address
    if (!this.#calls.take(1, tenantId)) return Promise.reject(new RedisUnavailable('overloaded'))
    const startedMs = performance.now()
    return this.#evaluate(step, step.args).then(
      (reply) => {
        if (!isUnfinished(reply, step)) {
          this.#calls.give(1, tenantId)
          return parse(reply)
        }
        return within(
          startedMs + callMsMax - performance.now(),
          this.#finish(step, reply, startedMs),
          timedOut,
        )
          .finally(() => this.#calls.give(1, tenantId))
          .then(parse)
      },
      (error: unknown) => {
        this.#calls.give(1, tenantId)
        throw error
      },
    )
  }

  #evaluate({ script, address, entry }: Step, args: readonly string[]): Promise<Reply> {
    const { meta, side } = meterKeys(address.tenantId)
    return this.#redis.evaluate(script, [meta, side, entry], args) as Promise<Reply>
  }

  /** Further round trips: seeds missing meters, and reads a long record once there is room. */
  async #finish(step: Step, first: Reply, startedMs: number): Promise<Reply> {
    const { tenantId } = step.address
    let reply = first
    if (reply[0] === 'seed') {
      await this.#seed(tenantId)
      // The caller has its 503 by now and must not win a lock.
      if (performance.now() - startedMs > callMsMax) timedOut()
      reply = await this.#evaluate(step, step.args)
    }
    if (reply[0] === 'long' && step.wholeAt !== undefined) {
      const bytes = Number(reply[1])
      if (!this.answers.take(bytes, tenantId)) return reply
      try {
        reply = await this.#evaluate(step, askWhole(step.args, step.wholeAt))
      } finally {
        this.answers.give(bytes, tenantId)
      }
    }
    if (reply[0] === 'seed') throw new RedisUnavailable('refused')
    return reply
  }

  async #seed(tenantId: TenantId): Promise<void> {
    try {
      await this.#meter.seed(tenantId)
    } catch (error) {
      // Without the counts of Postgres no lock may be granted, so the store is unavailable to the caller.
      throw error instanceof RedisUnavailable ? error : new RedisUnavailable('refused', error)
    }
  }
}

function isUnfinished([kind]: Reply, { wholeAt }: Step): boolean {
  return kind === 'seed' || (kind === 'long' && wholeAt !== undefined)
}

function askWhole(args: readonly string[], at: number): readonly string[] {
  return [...args, ...Array.from({ length: at - args.length }, () => ''), 'whole']
}

function timedOut(): never {
  throw new RedisUnavailable('timeout')
}

/** Omits trailing empty arguments: each costs time at both ends. */
function acquireArgs({
  lockToken,
  ttlMs,
  lockMs,
  waits,
  limits,
  fingerprint,
  attemptId,
}: AcquireInput): string[] {
  const { locksPerMinute, locksPerMonth, recordBytes } = limits
  const numbers = `${ttlMs} ${lockMs} ${waits ? 1 : 0} ${locksPerMinute ?? '-'} ${locksPerMonth ?? '-'} ${recordBytes ?? '-'}`
  if (attemptId !== '') return [lockToken, numbers, fingerprint, attemptId]
  return fingerprint === '' ? [lockToken, numbers] : [lockToken, numbers, fingerprint]
}

/** Returns the Redis key of an entry. Scope and key contain no control characters, so the newline separates them. */
export function entryKey(address: RecordAddress): string {
  return `{${address.tenantId}}:r:${address.scope}\n${address.key}`
}

/** Returns the channel for ends of locks that callers wait for; the message is the entry's key. */
export function wakeChannel(tenantId: TenantId): string {
  return `{${tenantId}}:wake`
}

function parseAcquired(reply: readonly unknown[]): AcquireOutcome {
  const [kind, first, second, third, fourth] = reply
  switch (kind) {
    case 'hit':
      return { kind, record: recordOf(String(first)) }
    case 'locked':
      return {
        kind,
        lockToken: String(first),
        fence: Number(second),
        expiresInMs: Number(third),
        takenOver: fourth === 1,
      }
    case 'busy':
      return { kind, remainingMs: Number(first) }
    case 'mismatch':
      return { kind }
    case 'long':
      return { kind, bytes: Number(first) }
    case 'limited':
      return { kind, limit: first as LockLimitName, retryAfterMs: Number(second) }
    default:
      throw new Error('the acquire script returned an unknown reply')
  }
}

/** Returns the fingerprint in a record's entry: its fourth line, '' for none. */
function fingerprintOf(entry: string): string {
  return entry.split('\n', 4)[3] ?? ''
}

/** Returns the JSON in a record's entry, behind the sixth newline. */
function recordOf(entry: string): string {
  let at = -1
  for (let line = 0; line < 6; line += 1) at = entry.indexOf('\n', at + 1)
  return entry.slice(at + 1)
}

/** Set of the keys added last: at least half of `keysMax`, at most `keysMax`. */
export class RecentKeys {
  readonly #keysMax: number
  #young = new Set<string>()
  #old = new Set<string>()

  constructor(keysMax: number) {
    this.#keysMax = keysMax
  }

  has(key: string): boolean {
    return this.#young.has(key) || this.#old.has(key)
  }

  add(key: string): void {
    if (this.#young.size >= this.#keysMax / 2) {
      this.#old = this.#young
      this.#young = new Set()
    }
    this.#young.add(key)
  }

  delete(key: string): void {
    this.#young.delete(key)
    this.#old.delete(key)
  }
}
