import { Shares, type TenantId, within } from '#internal/base/index.ts'
import { type RedisConnection, type RedisScript, RedisUnavailable } from '#internal/storage/index.ts'
import { type LockLimitName, type Meter, meterKeys } from '#internal/usage/index.ts'
import { type NoteLock, noteEnded, noteExtended, noteLocked, noteRemoved, noteSaved } from './lock-history.ts'
import type {
  AcquireOutcome,
  ExtendOutcome,
  FetchOutcome,
  RecordAddress,
  RecordPlace,
  SaveOutcome,
} from './record.ts'
import { defineRecordScripts, longRecordBytes, type RecordScripts } from './scripts.ts'
import {
  type AcquireInput,
  callMsMax,
  entryKey,
  longBytesMax,
  type MovableRecordStore,
  RecentKeys,
  RecordsElsewhere,
  RecordsUnavailable,
  type SaveInput,
  savedKeysMax,
} from './store.ts'
import { type Batchable, TurnBatches } from './turn-batches.ts'

/** Maximum calls in progress per process; a tenant may use a quarter. Below the connection's maximum, which others use as well. */
const callsMax = 8000
type Reply = readonly unknown[]

interface Step {
  readonly script: RedisScript
  readonly address: RecordAddress
  readonly entry: string
  readonly args: readonly string[]
  /** Arguments with which the Redis script returns a long record; undefined if the caller needs only its size. */
  readonly wholeArgs?: (() => readonly string[]) | undefined
  /** First argument of a script, which is the same for all entries in one script call. */
  readonly shared?: string
}

interface ScriptCall extends Batchable {
  readonly script: RedisScript
  readonly tenantId: TenantId
  readonly shared: string
  readonly args: readonly string[]
}

/** Read of an entry whose last known record was short. */
interface ReadCall extends Batchable {
  readonly tenantId: TenantId
}

/** Value of an entry, and of the tenant's meters. */
type ReadReply = readonly [entry: string | null, meta: string | null]

/** Maximum entries of one script call or one read. A script blocks Redis for about 8 µs per entry. */
const scriptCallsMax = 16
const readCallsMax = 32
const scriptCharsMax = 64 * 1024

/** A record of at most this length has at most `longRecordBytes` bytes, since a character has at most 4 bytes in UTF-8. */
const shortRecordChars = longRecordBytes / 4

/**
 * Stores records and locks in Redis. A call takes one round trip, which it may share with other calls of its tenant, and more only for
 * missing meters and long records. Throws RedisUnavailable if Redis does not reply within a second, and immediately with `overloaded` above
 * the maximum of concurrent calls.
 */
export class RedisRecordStore implements MovableRecordStore {
  readonly answers = new Shares(longBytesMax)
  readonly #redis: RedisConnection
  readonly #meter: Meter
  readonly #scripts: RecordScripts
  readonly #note: NoteLock
  readonly #calls = new Shares(callsMax)
  readonly #saved = new RecentKeys<true>(savedKeysMax)
  readonly #scriptCalls = new TurnBatches<ScriptCall, Reply>({
    callsMax: scriptCallsMax,
    charsMax: scriptCharsMax,
    repeatsEntries: false,
    send: (calls) => this.#evaluateTogether(calls),
  })
  readonly #readCalls = new TurnBatches<ReadCall, ReadReply>({
    callsMax: readCallsMax,
    charsMax: Number.POSITIVE_INFINITY,
    repeatsEntries: true,
    send: (calls) => this.#readTogether(calls),
  })

  constructor(
    redis: RedisConnection,
    meter: Meter,
    options: {
      /** Scripts with another clock, for tests. */
      readonly scripts?: RecordScripts
      /** Called for each change of a lock. Default: no lock history. */
      readonly note?: NoteLock
    } = {},
  ) {
    this.#redis = redis
    this.#meter = meter
    this.#scripts = options.scripts ?? defineRecordScripts()
    this.#note = options.note ?? (() => undefined)
  }

  acquire(input: AcquireInput): Promise<AcquireOutcome> {
    const entry = entryKey(input)
    return this.#saved.get(entry) ? this.#replay(input, entry) : this.#checkOrLock(input, entry)
  }

  /**
   * Reads a record that was short at the last call. A plain read is as consistent as the acquire script and costs a fraction of the
   * script's time. If the key no longer has a short record, runs the script.
   */
  #replay(input: AcquireInput, key: string): Promise<AcquireOutcome> {
    const { tenantId, fingerprint } = input
    if (!this.#calls.take(1, tenantId)) return Promise.reject(new RedisUnavailable('overloaded'))
    const startedMs = performance.now()
    return this.#readCalls.add(tenantId, { tenantId, entry: key, chars: 0 }).then(
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
    const step: Step = {
      script: this.#scripts.acquire,
      address: input,
      entry,
      args: acquireArgs(input, input.long === 'whole'),
      wholeArgs: input.long === undefined ? () => acquireArgs(input, true) : undefined,
      shared: acquireRules(input),
    }
    return this.#run(step, (reply) => {
      noteEnded(this.#note, input, reply)
      refuseMoved(reply)
      const outcome = parseAcquired(reply)
      if (outcome.kind === 'locked') {
        this.#meter.markUsed(input.tenantId)
        noteLocked(this.#note, input, outcome, reply)
      }
      if (outcome.kind === 'hit' && outcome.record.length < shortRecordChars) this.#saved.set(entry, true)
      return outcome
    })
  }

  save(input: SaveInput): Promise<SaveOutcome> {
    const { save: script } = this.#scripts
    const args = [
      input.lockToken,
      input.ttlMs === null ? '' : String(input.ttlMs),
      String(input.defaultTtlMs),
      input.record,
    ]
    const shared = input.place ? placeText(input.place) : ''
    return this.#run({ script, address: input, entry: entryKey(input), args, shared }, (reply) => {
      const [kind] = reply
      refuseMoved(reply)
      this.#meter.markUsed(input.tenantId)
      if (kind === 'saved') noteSaved(this.#note, input, input.record, reply)
      if (kind === 'saved' || kind === 'exists' || kind === 'lost') return { kind }
      throw new Error('the save script returned an unknown reply')
    })
  }

  fetch(address: RecordAddress): Promise<FetchOutcome> {
    const entry = entryKey(address)
    const step: Step = {
      script: this.#scripts.fetch,
      address,
      entry,
      args: placeArgs(address),
      wholeArgs: () => [address.place ? placeText(address.place) : '', 'whole'],
    }
    return this.#run(step, (reply): FetchOutcome => {
      refuseMoved(reply)
      const [kind, first] = reply
      if (kind === 'hit') return { kind, record: recordOf(String(first)) }
      return kind === 'long' ? { kind, bytes: Number(first) } : { kind: 'none' }
    })
  }

  remove(address: RecordAddress, lockToken: string): Promise<boolean> {
    const entry = entryKey(address)
    const step: Step = {
      script: this.#scripts.remove,
      address,
      entry,
      args: [lockToken, ...placeArgs(address)],
    }
    return this.#run(step, (reply) => {
      refuseMoved(reply)
      noteRemoved(this.#note, address, reply)
      return reply[1] === 1
    })
  }

  extend(address: RecordAddress, lockToken: string, lockMs: number | null): Promise<ExtendOutcome> {
    const args = [lockToken, lockMs === null ? '' : String(lockMs), ...placeArgs(address)]
    return this.#run({ script: this.#scripts.extend, address, entry: entryKey(address), args }, (reply) => {
      refuseMoved(reply)
      const [kind, fence, expiresInMs] = reply
      if (kind === 'lost') return { kind }
      noteExtended(this.#note, address, reply)
      return { kind: 'extended', fence: Number(fence), expiresInMs: Number(expiresInMs) }
    })
  }

  forgetMark(address: RecordAddress, fence: number): Promise<void> {
    const { forget: script } = this.#scripts
    return this.#run({ script, address, entry: entryKey(address), args: [String(fence)] }, () => undefined)
  }

  /** Returns the last fence of a tenant; 0 if there is none. */
  async lastFence(tenantId: TenantId): Promise<number> {
    const [fence] = (await this.#redis.evaluate(this.#scripts.fence, [meterKeys(tenantId).meta], [])) as Reply
    return Number(fence)
  }

  /** Not async: every request calls this function, and another promise has a measurable cost. */
  #run<T>(step: Step, parse: (reply: Reply) => T): Promise<T> {
    const { tenantId, overAtMs } = step.address
    if (overAtMs !== undefined && overAtMs <= performance.now())
      return Promise.reject(new RedisUnavailable('timeout'))
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

  #evaluate({ script, address, entry, shared }: Step, args: readonly string[]): Promise<Reply> {
    const { tenantId } = address
    if (shared === undefined) {
      const { meta, side } = meterKeys(tenantId)
      return this.#redis.evaluate(script, [meta, side, entry], args) as Promise<Reply>
    }
    const chars = args.reduce((sum, arg) => sum + arg.length, 0)
    const call = { script, tenantId, shared, entry, args, chars }
    return this.#scriptCalls.add(`${script.name} ${tenantId} ${shared}`, call)
  }

  /** Runs a script on several entries as one atomic step. */
  async #evaluateTogether(calls: readonly ScriptCall[]): Promise<readonly Reply[]> {
    const [first] = calls
    if (!first) return []
    const { meta, side } = meterKeys(first.tenantId)
    const keys = [meta, side]
    const args = [first.shared]
    for (const call of calls) {
      keys.push(call.entry)
      args.push(...call.args)
    }
    return (await this.#redis.evaluate(first.script, keys, args)) as readonly Reply[]
  }

  /** Reads each entry once, also for several callers of the same key. */
  async #readTogether(calls: readonly ReadCall[]): Promise<readonly ReadReply[]> {
    const [first] = calls
    if (!first) return []
    const entries = [...new Set(calls.map(({ entry }) => entry))]
    const values = await this.#redis.read([...entries, meterKeys(first.tenantId).meta])
    const meta = values[entries.length] ?? null
    return calls.map(({ entry }) => [values[entries.indexOf(entry)] ?? null, meta])
  }

  async #finish(step: Step, first: Reply, startedMs: number): Promise<Reply> {
    const { tenantId } = step.address
    let reply = first
    if (reply[0] === 'seed') {
      await this.#meter.seed(tenantId)
      // If the call is late, its caller has received 503 and must not acquire a lock.
      if (performance.now() - startedMs > callMsMax) timedOut()
      reply = await this.#evaluate(step, step.args)
    }
    if (reply[0] === 'long' && step.wholeArgs) {
      const bytes = Number(reply[1])
      if (!this.answers.take(bytes, tenantId)) return reply
      try {
        reply = await this.#evaluate(step, step.wholeArgs())
      } finally {
        this.answers.give(bytes, tenantId)
      }
    }
    if (reply[0] === 'seed') throw new RedisUnavailable('refused')
    return reply
  }
}

function isUnfinished([kind]: Reply, { wholeArgs }: Step): boolean {
  return kind === 'seed' || (kind === 'long' && wholeArgs !== undefined)
}

function timedOut(): never {
  throw new RedisUnavailable('timeout')
}

/** Joins the arguments that all acquisitions of a tenant have in common. */
function acquireRules({ limits, place }: AcquireInput): string {
  const { locksPerMinute, locksPerMonth, recordBytes } = limits
  return `${locksPerMinute ?? '-'} ${locksPerMonth ?? '-'} ${recordBytes ?? '-'}${place ? ` ${placeText(place)}` : ''}`
}

function acquireArgs(
  { lockToken, ttlMs, lockMs, waits, fingerprint, attemptId }: AcquireInput,
  whole: boolean,
): readonly string[] {
  return [lockToken, `${ttlMs}\n${lockMs}\n${waits ? 1 : 0}\n${whole ? 1 : 0}\n${attemptId}\n${fingerprint}`]
}

/** Formats the place of a tenant's records for the Redis scripts: see `place.lua`. */
function placeText({ generation, isCurrent, fence, isTakeover = false }: RecordPlace): string {
  return isCurrent ? `${generation}h:${fence ?? 0}${isTakeover ? 't' : ''}` : `${generation}p`
}

function placeArgs({ place }: RecordAddress): string[] {
  return place ? [placeText(place)] : []
}

/** @throws if another store has the tenant's new records, or if the tenant's records moved and the caller does not know it */
function refuseMoved(reply: Reply): void {
  const [kind, fence, bytes, minuteLocks, markFence, fingerprint] = reply
  if (kind === 'moved') throw new RecordsUnavailable('moved')
  if (kind !== 'elsewhere') return
  const mark = markFence !== undefined && { fence: Number(markFence), fingerprint: String(fingerprint) }
  throw new RecordsElsewhere({
    fence: Number(fence),
    bytes: Number(bytes),
    minuteLocks: Number(minuteLocks),
    ...(mark && { mark }),
  })
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

/** Reads the fourth line of a Redis entry, which is empty without a fingerprint. */
function fingerprintOf(entry: string): string {
  return entry.split('\n', 4)[3] ?? ''
}

/** Returns the text after the sixth newline of a Redis entry. */
function recordOf(entry: string): string {
  let at = -1
  for (let line = 0; line < 6; line += 1) at = entry.indexOf('\n', at + 1)
  return entry.slice(at + 1)
}
