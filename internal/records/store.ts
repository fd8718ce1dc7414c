import { Deadlines, type TenantId } from '#internal/base/index.ts'
import { type RedisConnection, type RedisScript, RedisUnavailable } from '#internal/storage/index.ts'
import { type LockLimitName, type LockLimits, type Meter, meterKeys } from '#internal/usage/index.ts'
import type { AcquireOutcome, ExtendOutcome, FetchOutcome, Lifetimes, SaveOutcome } from './record.ts'
import { defineRecordScripts, type RecordScripts } from './scripts.ts'

/** Which entry of which tenant. */
export interface RecordAddress {
  readonly tenantId: TenantId
  readonly scope: string
  readonly key: string
}

/** What an acquisition is made with. */
export interface AcquireInput extends RecordAddress, Lifetimes {
  /** A fresh token; the lock's own if it is taken. */
  readonly lockToken: string
  /** Empty for none. */
  readonly fingerprint: string
  /** Empty for none. */
  readonly attemptId: string
  /** Whether the caller will wait for a busy key, so that its end must be published. */
  readonly waits: boolean
  readonly limits: LockLimits
}

/** What a save is made with. */
export interface SaveInput extends RecordAddress {
  /** Empty for none. */
  readonly lockToken: string
  /** `null`: as long as the lock's holder asked for. */
  readonly ttlMs: number | null
  /** For a save without a lock before it. */
  readonly defaultTtlMs: number
  readonly record: string
}

/** How long a call waits for its tenant's meters; the seeding itself goes on, and the next call finds them. */
const seedMsMax = 600

/** Records and locks in Redis: one script, one round trip a call. Every call throws RedisUnavailable for want of an answer. */
export class RecordStore {
  readonly #redis: RedisConnection
  readonly #meter: Meter
  readonly #scripts: RecordScripts
  readonly #seedDeadlines = new Deadlines(seedMsMax)

  constructor(redis: RedisConnection, meter: Meter, scripts: RecordScripts = defineRecordScripts()) {
    this.#redis = redis
    this.#meter = meter
    this.#scripts = scripts
  }

  /** Checks for a record or takes the lock. Repeating it with one `lockToken` takes one lock. */
  acquire(input: AcquireInput): Promise<AcquireOutcome> {
    return this.#run(this.#scripts.acquire, input, acquireArgs(input)).then((reply) => {
      const outcome = parseAcquired(reply)
      if (outcome.kind === 'locked') this.#meter.markUsed(input.tenantId)
      return outcome
    })
  }

  /** Saves a result. Repeating the same call gives `saved` again. */
  async save(input: SaveInput): Promise<SaveOutcome> {
    const reply = await this.#run(this.#scripts.save, input, [
      input.lockToken,
      input.ttlMs === null ? '' : String(input.ttlMs),
      String(input.defaultTtlMs),
      input.record,
      String(Buffer.byteLength(input.scope) + Buffer.byteLength(input.key)),
    ])
    this.#meter.markUsed(input.tenantId)
    const kind = reply[0]
    if (kind === 'saved' || kind === 'exists' || kind === 'lost') return { kind }
    throw unknownReply(this.#scripts.save)
  }

  /** Reads a record; a lock is none. */
  async fetch(address: RecordAddress): Promise<FetchOutcome> {
    const reply = await this.#run(this.#scripts.fetch, address, [])
    return reply[0] === 'hit' ? { kind: 'hit', record: recordOf(String(reply[1])) } : { kind: 'none' }
  }

  /** Removes the record, or releases the lock that `lockToken` owns; tells whether there was one. */
  async remove(address: RecordAddress, lockToken: string): Promise<boolean> {
    const reply = await this.#run(this.#scripts.remove, address, [lockToken])
    return reply[1] === 1
  }

  /** Extends a lock from now on by `lockMs`, or by its first length. */
  async extend(address: RecordAddress, lockToken: string, lockMs: number | null): Promise<ExtendOutcome> {
    const reply = await this.#run(this.#scripts.extend, address, [
      lockToken,
      lockMs === null ? '' : String(lockMs),
    ])
    if (reply[0] === 'lost') return { kind: 'lost' }
    return { kind: 'extended', fence: Number(reply[1]), expiresInMs: Number(reply[2]) }
  }

  /** Runs a script, seeding the tenant's meters first where Redis has none: the one exception to one round trip. */
  #run(script: RedisScript, address: RecordAddress, args: readonly string[]): Promise<readonly unknown[]> {
    const { meta, side } = meterKeys(address.tenantId)
    const evaluate = () =>
      this.#redis.evaluate(script, [meta, side, entryKey(address)], args) as Promise<readonly unknown[]>
    return evaluate().then((reply) => (reply[0] === 'seed' ? this.#seedAndRepeat(address, evaluate) : reply))
  }

  async #seedAndRepeat(
    { tenantId }: RecordAddress,
    evaluate: () => Promise<readonly unknown[]>,
  ): Promise<readonly unknown[]> {
    await this.#seed(tenantId)
    const reply = await evaluate()
    if (reply[0] === 'seed') throw new RedisUnavailable('refused')
    return reply
  }

  async #seed(tenantId: TenantId): Promise<void> {
    try {
      await this.#seedDeadlines.guard(this.#meter.seed(tenantId), () => {
        throw new RedisUnavailable('timeout')
      })
    } catch (error) {
      // Without the counts of Postgres no lock may be given: to the caller the store is away, whichever part of it is.
      throw error instanceof RedisUnavailable ? error : new RedisUnavailable('refused', error)
    }
  }
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
    case 'limited':
      return { kind, limit: first as LockLimitName, retryAfterMs: Number(second) }
    default:
      throw new Error('the acquire script gave an unknown reply')
  }
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
