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
  /**
   * Answer for a long record. By default with the record, where there is room for it; `sized`: with its bytes; `whole`:
   * with the record, for which the caller has taken room in `answers`.
   */
  readonly long?: 'sized' | 'whole'
}

/** Input of a save. */
export interface SaveInput extends RecordAddress {
  /** Empty for none. */
  readonly lockToken: string
  /** `null`: as long as the lock's holder asked for. */
  readonly ttlMs: number | null
  /** For a save without a lock before it. */
  readonly defaultTtlMs: number
  /** As `joinRecord` made it. */
  readonly record: string
}

/** Options of `RecordStore`. */
export interface RecordStoreOptions {
  /** Other scripts than the product's, for tests. */
  readonly scripts?: RecordScripts
  /** Takes note of what happens to locks; default nobody does. */
  readonly note?: NoteLock
}

/** Deadline of a call: its script, seeding of the tenant's meters, the script again. */
const callMsMax = 900
/**
 * Calls under way in one process; a tenant gets a quarter. Fewer than the connection bears, so that room is left there for
 * what is no tenant's call.
 */
const callsMax = 8000
/** Bytes of long records on their way from Redis, or in a batch's answer that is being made; a tenant gets a quarter. */
const longBytesMax = 64 * 1024 * 1024

type Reply = readonly unknown[]

/** One run of a script. */
interface Step {
  readonly script: RedisScript
  readonly address: RecordAddress
  /** The address' entry key. */
  readonly entry: string
  readonly args: readonly string[]
  /** The place of the argument that asks for a long record whole; undefined where its bytes are answer enough. */
  readonly wholeAt?: number | undefined
}

/** Keys that are remembered as saved, about 200 bytes each. */
const savedKeysMax = 10_000
/** Records are read unasked up to here: in UTF-8 these have `longRecordBytes` at most. */
const shortRecordChars = longRecordBytes / 4

/** The place of that argument among those of the two scripts that read. */
const acquireWholeAt = 4
const fetchWholeAt = 0

/**
 * Records and locks in Redis: one script and one round trip a call, but for missing meters and long records. Every call
 * throws RedisUnavailable within a second for want of an answer, and `overloaded` at once when too many are under way.
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

  /** Checks for a record or takes the lock. Repeating it with one `lockToken` takes one lock. */
  acquire(input: AcquireInput): Promise<AcquireOutcome> {
    const entry = entryKey(input)
    return this.#saved.has(entry) ? this.#replay(input, entry) : this.#checkOrLock(input, entry)
  }

  /**
   * A key whose short record was seen here is most likely still saved: reading it costs a fraction of the script. What is read is
   * the truth of that moment, as the script's answer is; anything but such a record is left to the script.
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

  /** Saves a result. Repeating the same call gives `saved` again. */
  save(input: SaveInput): Promise<SaveOutcome> {
    const script = this.#scripts.save
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
      throw unknownReply(script)
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

  /** Removes the record, or releases the lock that `lockToken` owns; tells whether there was one. */
  remove(address: RecordAddress, lockToken: string): Promise<boolean> {
    const entry = entryKey(address)
    const step: Step = { script: this.#scripts.remove, address, entry, args: [lockToken] }
    return this.#run(step, (reply) => {
      noteRemoved(this.#note, address, reply)
      return reply[1] === 1
    })
  }

  /** Extends a lock from now on by `lockMs`, or by its first length. */
  extend(address: RecordAddress, lockToken: string, lockMs: number | null): Promise<ExtendOutcome> {
    const args = [lockToken, lockMs === null ? '' : String(lockMs)]
    return this.#run({ script: this.#scripts.extend, address, entry: entryKey(address), args }, (reply) => {
      const [kind, fence, expiresInMs] = reply
      if (kind === 'lost') return { kind }
      noteExtended(this.#note, address, reply)
      return { kind: 'extended', fence: Number(fence), expiresInMs: Number(expiresInMs) }
    })
  }

  /** Not an async function, and one promise only: this is the path of every request. */
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

  /** The exceptions to one round trip: meters that Redis has not got are seeded, a long record is asked for when it fits. */
  async #finish(step: Step, first: Reply, startedMs: number): Promise<Reply> {
    const { tenantId } = step.address
    let reply = first
    if (reply[0] === 'seed') {
      await this.#seed(tenantId)
      // The caller has been refused by now: nobody may win a lock for it.
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
      // Without the counts of Postgres no lock may be given: to the caller the store is away, whichever part of it is.
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

/** Few arguments, since both ends pay for each; what is empty at the end is left out. */
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

/** The entry's key. Scope and key hold no control character, so the newline parts them without doubt. */
export function entryKey(address: RecordAddress): string {
  return `{${address.tenantId}}:r:${address.scope}\n${address.key}`
}

/** The channel on which the end of a waited-for lock is published; the message is the entry's key. */
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
      throw new Error('the acquire script gave an unknown reply')
  }
}

/** Returns the fingerprint of an entry's record: its fourth line, '' for none. */
function fingerprintOf(entry: string): string {
  return entry.split('\n', 4)[3] ?? ''
}

/** The record's JSON within an entry: what follows the sixth newline. */
function recordOf(entry: string): string {
  let at = -1
  for (let line = 0; line < 6; line += 1) at = entry.indexOf('\n', at + 1)
  return entry.slice(at + 1)
}

function unknownReply(script: RedisScript): Error {
  return new Error(`the ${script.name} script gave an unknown reply`)
}

/** Remembers the keys that were added last: at least half of `keysMax`, never more than that. */
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
