import { type Clock, dayAfter, encodeBase32, type TenantId } from '#internal/base/index.ts'
import {
  BufferedWriter,
  ensurePartitions,
  type Pool,
  textArrayParam,
  writeRowsOrThrow,
} from '#internal/storage/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'
import type { RefusalCause } from './provider.ts'

/** Why a call of a known tenant was refused. A closed set, since it is a label of metrics. */
export const refusedCauses = [
  'tenant_suspended',
  'provider_not_configured',
  'provider_not_enabled',
  'secrets_missing',
  'secrets_unreadable',
  'loop_detected',
  'provider_paused',
  'certificate_unavailable',
  'events_per_minute',
  'events_per_month',
] as const
/** Causes beside those of the adapters. */
export type RefusedCause = RefusalCause | (typeof refusedCauses)[number]

/** A call that was refused, as its tenant may see it. */
export interface RefusedCall {
  readonly tenantId: TenantId
  /** Days that it is kept. */
  readonly days: number
  readonly provider: ProviderName
  readonly cause: RefusedCause
  readonly sourceAddress: string | null
  /** JSON text of an object of strings, without credentials. */
  readonly headers: string
  /** The start of a body whose signature failed. */
  readonly sample: string | null
}

interface NotedCall extends RefusedCall {
  readonly id: string
  readonly atMs: number
}

const perSecondMax = 10
const waitingMax = 1_000
const sampleBytesMax = 1_024
const tenantCausesMax = 10_000

/** The first KiB of a body as text that Postgres can keep. */
export function sampleOf(body: Uint8Array): string {
  return new TextDecoder().decode(body.subarray(0, sampleBytesMax)).replaceAll('\0', '\ufffd')
}

/** A mark at the start of a body, which is no part of its text. */
const byteOrderMarkBytes = 3

/** Whether a sample is all of its body; false where it may have been cut. Pure. */
export function isWholeSample(sample: string): boolean {
  return Buffer.byteLength(sample) < sampleBytesMax - byteOrderMarkBytes
}

/**
 * Refused calls on their way to Postgres, off the request path. At most ten a second for each tenant and cause, at most 1 000
 * waiting; the rest is only counted, here and in the metrics.
 */
export class RefusedCalls {
  readonly #pool: Pool
  readonly #clock: Clock
  readonly #writer: BufferedWriter<NotedCall[]>
  readonly #waiting: NotedCall[] = []
  #second = 0
  readonly #noted = new Map<string, number>()
  #dropped = 0

  constructor(pool: Pool, clock: Clock) {
    this.#pool = pool
    this.#clock = clock
    this.#writer = new BufferedWriter({
      take: () => (this.#waiting.length > 0 ? this.#waiting.splice(0) : undefined),
      write: (calls) => this.#write(calls),
    })
  }

  /** Calls that were not kept since the process began. */
  get dropped(): number {
    return this.#dropped
  }

  /** Whether a call for this tenant and cause would be kept now: what it costs to describe it can be saved otherwise. */
  hasRoom(tenantId: TenantId, cause: RefusedCause): boolean {
    const second = Math.floor(this.#clock.now() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#noted.clear()
    }
    const key = `${tenantId} ${cause}`
    const count = this.#noted.get(key) ?? 0
    const waiting = this.#waiting.length + (this.#writer.pending?.length ?? 0)
    const full = waiting >= waitingMax || this.#noted.size >= tenantCausesMax
    if (count >= perSecondMax || full) {
      this.#dropped += 1
      return false
    }
    this.#noted.set(key, count + 1)
    return true
  }

  /** Keeps a call that `hasRoom` let in. */
  note(call: RefusedCall): void {
    const id = `ref_${encodeBase32(idBytes(this.#clock.now()))}`
    this.#waiting.push({ ...call, id, atMs: this.#clock.now() })
  }

  /**
   * Writes all waiting calls in one statement. Calls that Postgres rejects are dropped and counted.
   * @throws what Postgres throws while it is unavailable; the calls are written by the next flush
   */
  async flush(): Promise<void> {
    // A batch that failed before, and those that came meanwhile.
    await this.#writer.flush(2)
  }

  async #write(calls: readonly NotedCall[]): Promise<void> {
    const rejected = await writeRowsOrThrow(calls, {
      write: (part) => insertRefusedCalls(this.#pool, part),
      createPartitions: (part) => {
        const days = new Set(part.map(expiresOn))
        return ensurePartitions(
          this.#pool,
          Array.from(days, (day) => ({ table: 'refused_calls', day })),
        )
      },
    })
    this.#dropped += rejected.length
  }
}

/** Sorts by time, as events' ids do. */
function idBytes(nowMs: number): Buffer {
  const bytes = Buffer.from(crypto.getRandomValues(new Uint8Array(16)))
  bytes.writeUIntBE(nowMs, 0, 6)
  return bytes
}

function expiresOn({ atMs, days }: NotedCall): string {
  return dayAfter(atMs, days)
}

// Appends only; a repetition after an unknown outcome meets its own ids.
async function insertRefusedCalls(pool: Pool, calls: readonly NotedCall[]): Promise<void> {
  const column = (pick: (call: NotedCall) => string | null) => textArrayParam(calls.map(pick))
  await pool.query({
    name: 'insert_refused_calls',
    text: `INSERT INTO refused_calls (id, expires_on, tenant_id, provider, cause, refused_at, source_address, headers, sample)
      SELECT id, expires_on::date, tenant_id, provider, cause, refused_at::timestamptz, source_address, headers, sample
      FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
        AS c(id, expires_on, tenant_id, provider, cause, refused_at, source_address, headers, sample)
      ON CONFLICT DO NOTHING`,
    values: [
      column(({ id }) => id),
      column(expiresOn),
      column(({ tenantId }) => tenantId),
      column(({ provider }) => provider),
      column(({ cause }) => cause),
      column(({ atMs }) => new Date(atMs).toISOString()),
      column(({ sourceAddress }) => sourceAddress),
      column(({ headers }) => headers),
      column(({ sample }) => sample),
    ],
  })
}
